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

// ClientHost is the host name of the Service for clients, behind which is any member that participates.
func (e *Etcd) ClientHost() string { return fmt.Sprintf("%s-client.%s.svc", e.Name, e.Namespace) }

// BackupTLS is spec.backup.tls, if any.
func (e *Etcd) BackupTLS() *BackupTLS {
	if e.Spec.Backup == nil {
		return nil
	}
	return e.Spec.Backup.TLS
}
