// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// MemberName is the name of the member in a pod, and of its lease: that of the pod, after spec.memberNamePrefix and a
// dash where there is one.
func (e *Etcd) MemberName(pod string) string {
	if p := e.Spec.MemberNamePrefix; p != nil && *p != "" {
		return *p + "-" + pod
	}
	return pod
}
