// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import "fmt"

// MemberHost returns the host name at which clients and peers reach the member in a pod. The member's certificates must be
// valid for it.
func (e *Etcd) MemberHost(pod string) string {
	return fmt.Sprintf("%s.%s-peer.%s.svc", pod, e.Name, e.Namespace)
}

// MemberHosts returns the host names of all members, ordered by ordinal.
func (e *Etcd) MemberHosts() []string {
	hosts := make([]string, 0, e.Spec.Replicas)
	for i := range e.Spec.Replicas {
		hosts = append(hosts, e.MemberHost(fmt.Sprintf("%s-%d", e.Name, i)))
	}
	return hosts
}

// ClientHost returns the host name of the client Service.
func (e *Etcd) ClientHost() string { return fmt.Sprintf("%s-client.%s.svc", e.Name, e.Namespace) }
