// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The Etcd's own leases say which snapshots were taken; one that cannot be read is not one that does not exist.
func TestReadSnapshotLeases(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "e"}}
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, OwnerReferences: apitest.ControlledBy(etcd)}}
	}
	g.Expect(ReadSnapshotLeases(t.Context(), apitest.API(), etcd)).To(Equal(SnapshotLeases{}))
	api := apitest.API(lease(etcd.FullSnapshotLeaseName()), lease(etcd.DeltaSnapshotLeaseName()))
	leases, err := ReadSnapshotLeases(t.Context(), api, etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(leases.Full.Name).To(Equal(etcd.FullSnapshotLeaseName()))
	g.Expect(leases.Delta.Name).To(Equal(etcd.DeltaSnapshotLeaseName()))
	apitest.EachRequestFails(t, api, func(api client.WithWatch) error {
		_, err := ReadSnapshotLeases(t.Context(), api, etcd)
		return err
	})
	foreign := lease(etcd.FullSnapshotLeaseName())
	foreign.OwnerReferences = nil
	g.Expect(ReadSnapshotLeases(t.Context(), apitest.API(foreign), etcd)).To(Equal(SnapshotLeases{}))
}

// A pod is that of its ordinal; one beyond the replicas, or with another name, is surplus. A cluster grows while it has fewer pods than
// its spec says, and some.
func TestOrdinalsOfPods(t *testing.T) {
	etcd, objects := surrounded()
	pod := objects[1].(*corev1.Pod)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.ContainerEtcd, State: exited(1)}}
	for _, name := range []string{"m-1", "m-x", "m--1"} {
		other := pod.DeepCopy()
		other.Name = name
		objects = append(objects, other)
	}
	stranger := pod.DeepCopy()
	stranger.Name, stranger.OwnerReferences = "m-2", nil
	for replicas, changing := range map[int32]bool{0: false, 1: false, 3: true} {
		g := NewWithT(t)
		etcd.Spec.Replicas = replicas
		s, err := New(&closing{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0))).Observe(t.Context(), apitest.API(append(objects, stranger)...), etcd)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(s.Ordinals[0].Class).To(Equal(v1alpha1.ClassDead))
		g.Expect(s.Surplus).To(ConsistOf("m-1", "m-x", "m--1"))
		g.Expect(s.Changing).To(Equal(changing))
	}
}

// The members change also while those of a source leave, and the Etcd has as many as its spec says. Before the cut-over, an even number may stay for days.
func TestMembersChangeWhileASourceLeaves(t *testing.T) {
	etcd, objects := surrounded()
	etcd.Spec.Replicas = 1
	source := &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "s"}}}
	observe := func() bool {
		s, err := New(&closing{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0))).Observe(t.Context(), apitest.API(objects...), etcd)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return s.Changing
	}
	g := NewWithT(t)
	etcd.Spec.Etcd.BootstrapWithExistingCluster = source
	g.Expect(observe()).To(BeFalse(), "the source stays")
	etcd.Spec.Etcd.BootstrapWithExistingCluster, etcd.Status.BootstrapWithExistingCluster = nil, &v1alpha1.BootstrapWithExistingClusterStatus{Source: source}
	g.Expect(observe()).To(BeTrue(), "it leaves")
	etcd.Status.BootstrapWithExistingCluster.Source = nil
	g.Expect(observe()).To(BeFalse(), "it has left")
}
