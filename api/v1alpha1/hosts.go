// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "fmt"

// MemberHost is the host name by which clients and other members reach the member in a pod, and which its
// certificates have to be for.
func (e *Etcd) MemberHost(pod string) string {
	return fmt.Sprintf("%s.%s-peer.%s.svc", pod, e.Name, e.Namespace)
}

// MemberHosts are the host names of all members, by their ordinals.
func (e *Etcd) MemberHosts() []string {
	hosts := make([]string, 0, e.Spec.Replicas)
	for i := range e.Spec.Replicas {
		hosts = append(hosts, e.MemberHost(fmt.Sprintf("%s-%d", e.Name, i)))
	}
	return hosts
}
