// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What is applied lists the member that a recovery began with, as the list that follows the StatefulSet does: otherwise each undoes the other.
func TestWhatIsAppliedReachesTheMemberThatARecoveryBeganWith(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{Member: etcd.MemberName(etcd.PodName(2))}
	listed, err := component.Bootstrap(etcd, 2, component.PeerTLSOff)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(component.Bootstrap(renderInput(etcd), 2, component.PeerTLSOff)).To(Equal(listed))
	g.Expect(listed).To(ContainSubstring("main-2="))
}

// What is applied lists all members that the cluster is known to have, whatever someone has scaled the StatefulSet to, as the list that follows
// it does; also while the cluster hibernates.
func TestWhatIsAppliedListsAllMembersOfTheCluster(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	etcd.Status.ClusterSize = 3
	all, err := component.Bootstrap(etcd, 3, component.PeerTLSOff)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(all).To(ContainSubstring("main-2="))
	for _, replicas := range []int32{0, 1} {
		g.Expect(component.Bootstrap(etcd, replicas, component.PeerTLSOff)).To(Equal(all))
		g.Expect(component.Bootstrap(renderInput(etcd), replicas, component.PeerTLSOff)).To(Equal(all))
	}
	etcd.Spec.Replicas = 0
	g.Expect(component.Bootstrap(renderInput(etcd), 0, component.PeerTLSOff)).To(Equal(all))
}
