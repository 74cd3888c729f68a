// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"cmp"
	"fmt"

	"k8s.io/utils/ptr"
)

// PodName returns the name of the pod of an ordinal.
func (e *Etcd) PodName(ordinal int32) string { return fmt.Sprintf("%s-%d", e.Name, ordinal) }

// ClaimTemplateName returns the name of the volume claim template of the StatefulSet.
func (e *Etcd) ClaimTemplateName() string {
	return cmp.Or(ptr.Deref(e.Spec.VolumeClaimTemplate, ""), e.Name)
}

// ClaimName returns the name of the claim that the StatefulSet controller makes for an ordinal.
func (e *Etcd) ClaimName(ordinal int32) string {
	return e.ClaimTemplateName() + "-" + e.PodName(ordinal)
}

// DefaultClientPort is the port on which members serve clients unless the spec has another one.
const DefaultClientPort = 2379

// ClientPort returns the port on which members serve clients once they run with the newest template.
func (e *Etcd) ClientPort() int32 { return ptr.Deref(e.Spec.Etcd.ClientPort, DefaultClientPort) }

// FullSnapshotLeaseName returns the name of the Lease that reports the newest full snapshot.
func (e *Etcd) FullSnapshotLeaseName() string { return e.Name + "-full-snap" }

// DeltaSnapshotLeaseName returns the name of the Lease that reports the newest delta snapshot.
func (e *Etcd) DeltaSnapshotLeaseName() string { return e.Name + "-delta-snap" }

// ConfigMapName returns the name of the ConfigMap that the members share. For an Etcd that was adopted, whose manager IsAdopted, it
// is another one than etcd-druid's, which stays for the pods that use it.
func (e *Etcd) ConfigMapName(manager string) string {
	if IsAdopted(manager) {
		return e.Name + "-config-" + ManagedBy
	}
	return e.Name + "-config"
}

// IsAdopted reports whether objects with this value of LabelManagedBy were adopted from another operator.
func IsAdopted(manager string) bool { return manager != "" && manager != ManagedBy }

// RoleName returns the name of the agents' Role and of its binding.
func (e *Etcd) RoleName() string { return GroupVersion.Group + ":etcd:" + e.Name }

// ClientServiceName returns the name of the Service for clients.
func (e *Etcd) ClientServiceName() string { return e.Name + "-client" }

// PeerServiceName returns the name of the headless Service that gives each member its host name.
func (e *Etcd) PeerServiceName() string { return e.Name + "-peer" }

// MemberHost returns the host name at which clients and peers reach the member in a pod. The member's certificates must be
// valid for it.
func (e *Etcd) MemberHost(pod string) string {
	return fmt.Sprintf("%s.%s.%s.svc", pod, e.PeerServiceName(), e.Namespace)
}

// MostMembers is how many members the spec asks for, with the further one that stands in for another.
func (e *Etcd) MostMembers() int32 {
	if e.Surges() || e.Moves() {
		return e.Spec.Replicas + 1
	}
	return e.Spec.Replicas
}

// AsksFor reports whether so many members are as many as the spec asks for, with or without the one that stands in for another.
func (e *Etcd) AsksFor(members int32) bool {
	return members == e.Spec.Replicas || members == e.MostMembers()
}

// MemberHosts returns the host names of all members, ordered by ordinal: also of those that the spec no longer has, as long as the
// cluster has them.
func (e *Etcd) MemberHosts() []string {
	n := max(e.MostMembers(), e.Status.ClusterSize)
	hosts := make([]string, 0, n)
	for i := range n {
		hosts = append(hosts, e.MemberHost(e.PodName(i)))
	}
	return hosts
}

// ClientHost returns the host name of the client Service.
func (e *Etcd) ClientHost() string {
	return fmt.Sprintf("%s.%s.svc", e.ClientServiceName(), e.Namespace)
}
