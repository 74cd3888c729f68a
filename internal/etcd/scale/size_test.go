// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func outdate(s *cluster.Snapshot, ordinal int) { s.Ordinals[ordinal].Pod.Revision = "old" }

// learn turns a member into a learner.
func learn(s *cluster.Snapshot, ordinal int) {
	s.Ordinals[ordinal].Role, s.Ordinals[ordinal].Class = v1alpha1.RoleLearner, v1alpha1.ClassUnready
	s.Cluster.Voters = slices.DeleteFunc(s.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal == ordinal })
}

func TestDecide(t *testing.T) {
	with := func(n int, change func(*cluster.Snapshot)) *cluster.Snapshot {
		s := clustertest.Healthy(n)
		change(s)
		return s
	}
	for _, tc := range []struct {
		name   string
		in     input
		want   int32
		reason string
		why    string // part of it
	}{
		{"first start", input{wanted: 3}, 3, "", ""},
		{"unchanged", input{wanted: 3, have: ptr.To[int32](3), size: 3, clusterID: "cafe"}, 3, "", ""},
		{"hibernate", input{wanted: 0, have: ptr.To[int32](3), size: 3, clusterID: "cafe"}, 0, "", ""},
		{"wake up", input{wanted: 3, have: ptr.To[int32](0), size: 3, clusterID: "cafe"}, 3, "", ""},
		{"wake up, larger", input{wanted: 5, have: ptr.To[int32](0), size: 3, clusterID: "cafe"}, 3, v1alpha1.ReasonScalingOut, "wakes up with its 3 members"},
		{"wake up, smaller", input{wanted: 1, have: ptr.To[int32](0), size: 3, clusterID: "cafe"}, 3, v1alpha1.ReasonScaleInRefused, "set spec.replicas to 3"},
		{"the StatefulSet is gone", input{wanted: 5, size: 3, clusterID: "cafe"}, 3, v1alpha1.ReasonScalingOut, "wakes up"},
		{"smaller", input{wanted: 1, have: ptr.To[int32](3), size: 3, clusterID: "cafe"}, 3, v1alpha1.ReasonScaleInRefused, "scale-in is not supported"},

		{"1 to 3", input{wanted: 3, have: ptr.To[int32](1), size: 1, clusterID: "cafe", snapshot: clustertest.Healthy(1)}, 2, v1alpha1.ReasonScalingOut, "the next one is added"},
		{"2 to 3", input{wanted: 3, have: ptr.To[int32](2), size: 2, clusterID: "cafe", snapshot: clustertest.Healthy(2)}, 3, "", ""},
		{"not served yet", input{wanted: 3, have: ptr.To[int32](1), snapshot: clustertest.Healthy(1)}, 1, v1alpha1.ReasonScaleOutHeld, "1 of 3 members: the cluster has not served yet"},
		{"no observation", input{wanted: 3, have: ptr.To[int32](1), size: 1, clusterID: "cafe"}, 1, v1alpha1.ReasonScaleOutHeld, "StatefulSet controller"},
		{"the newest spec is not observed", input{wanted: 3, have: ptr.To[int32](1), clusterID: "cafe", snapshot: with(1, func(s *cluster.Snapshot) { s.StatefulSet.Observed = false })}, 1, v1alpha1.ReasonScaleOutHeld, "StatefulSet controller"},
		{"no quorum", input{wanted: 5, have: ptr.To[int32](3), clusterID: "cafe", snapshot: with(3, func(s *cluster.Snapshot) {
			clustertest.Away(s, 1, v1alpha1.ClassMissing, "")
			clustertest.Away(s, 2, v1alpha1.ClassMissing, "")
		})}, 3, v1alpha1.ReasonScaleOutHeld, "1 of 3 voters serve"},
		{"an only member was restored, and its cluster is not recorded yet", input{wanted: 3, have: ptr.To[int32](1), size: 1, clusterID: "cafe", snapshot: with(1, func(s *cluster.Snapshot) { s.Cluster.ID = 0xbeef })}, 1, v1alpha1.ReasonScaleOutHeld, "as cluster beef, and cluster cafe is recorded"},
		{"no leader", input{wanted: 5, have: ptr.To[int32](3), clusterID: "cafe", snapshot: with(3, func(s *cluster.Snapshot) { s.Cluster.LeaderKnown = false })}, 3, v1alpha1.ReasonScaleOutHeld, "is not a quorum"},
		{"one is starting", input{wanted: 5, have: ptr.To[int32](3), clusterID: "cafe", snapshot: with(3, func(s *cluster.Snapshot) { clustertest.Away(s, 2, v1alpha1.ClassStarting, "not scheduled") })}, 3, v1alpha1.ReasonScalingOut, "etcd-main-2 is Starting (not scheduled)"},
		{"the last one is a learner", input{wanted: 3, have: ptr.To[int32](2), clusterID: "cafe", snapshot: with(2, func(s *cluster.Snapshot) { learn(s, 1) })}, 2, v1alpha1.ReasonScalingOut, "etcd-main-1 is a learner"},
		{"a surplus pod", input{wanted: 3, have: ptr.To[int32](1), clusterID: "cafe", snapshot: with(1, func(s *cluster.Snapshot) { s.Surplus = []string{"etcd-main-1"} })}, 1, v1alpha1.ReasonScaleOutHeld, "etcd-main-1 is not among the replicas"},
		{"a foreign voter is down", input{wanted: 5, have: ptr.To[int32](3), clusterID: "cafe", snapshot: with(3, func(s *cluster.Snapshot) {
			s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: 9, Name: "far", Ordinal: -1})
		})}, 3, v1alpha1.ReasonScaleOutHeld, "voter far does not serve"},
		{"a rollout is in progress", input{wanted: 5, have: ptr.To[int32](3), clusterID: "cafe", snapshot: with(3, func(s *cluster.Snapshot) { outdate(s, 1) })}, 3, v1alpha1.ReasonScaleOutHeld, "have to be at the newest template first"},
		{"a rollout is due while two members become three", input{wanted: 3, have: ptr.To[int32](2), clusterID: "cafe", snapshot: with(2, func(s *cluster.Snapshot) { outdate(s, 1) })}, 3, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			got := decide(tc.in)
			g.Expect(got.Replicas).To(Equal(tc.want), got.Why)
			g.Expect(got.Reason).To(Equal(tc.reason))
			g.Expect(got.Why).To(ContainSubstring(tc.why))
			g.Expect(got.Why == "").To(Equal(tc.why == ""), got.Why)
		})
	}
}

func TestClusterSizeCountsOrdinalsAndNeverShrinks(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Seen(0, clustertest.Healthy(3))).To(Equal(int32(3)))
	s := clustertest.Healthy(3)
	learn(s, 1)
	g.Expect(Seen(0, s)).To(Equal(int32(3)), "member 1 is being replaced")
	learn(s, 2)
	g.Expect(Seen(3, s)).To(Equal(int32(3)))
	s = clustertest.Healthy(2)
	learn(s, 1)
	g.Expect(Seen(1, s)).To(Equal(int32(1)), "the learner has not joined yet")
}

func TestScaled(t *testing.T) {
	seen := int32(3)
	scaledOf := func(wanted int32, s *cluster.Snapshot, size Size) metav1.Condition {
		return size.Condition(&v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: wanted}}, seen, s)
	}
	g := NewWithT(t)
	g.Expect(scaledOf(3, clustertest.Healthy(3), Size{}).Status).To(Equal(metav1.ConditionTrue))
	c := scaledOf(3, clustertest.Healthy(1), Size{2, v1alpha1.ReasonScalingOut, "1 of 3 members: the next one is added"})
	g.Expect(c.Message).To(Equal("1 of 3 members: the next one is added."))
	s := clustertest.Healthy(3)
	learn(s, 2)
	g.Expect(scaledOf(3, s, Size{}).Message).To(Equal("2 of 3 members have joined."))
	seen = 0
	g.Expect(scaledOf(3, clustertest.Healthy(3), Size{}).Status).To(Equal(metav1.ConditionUnknown), "it has not served")
}

// A cluster that is not held, nor kept from hibernating, has the replicas of its spec. One that hibernated without its
// volumes has none until the status records its restore.
func TestReleased(t *testing.T) {
	g := NewWithT(t)
	deletes := v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{PersistentVolumeClaimRetentionPolicy: &deletes}}
	g.Expect(released(etcd, setOf(3))).To(Equal(int32(3)), "there is no backup to wake up from")
	g.Expect(released(etcd, setOf(0))).To(BeZero())
	g.Expect(released(etcd, nil)).To(BeZero())
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "backups"}}
	g.Expect(released(etcd, setOf(3))).To(BeZero())

	etcd.Spec.Replicas = 3
	g.Expect(released(etcd, setOf(0))).To(Equal(int32(3)))
	etcd.Status.Hibernation = &v1alpha1.Hibernation{ClusterID: "cafe"}
	g.Expect(released(etcd, setOf(0))).To(BeZero(), "the restore is not recorded yet")
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{PreviousClusterID: "cafe"}
	g.Expect(released(etcd, setOf(0))).To(Equal(int32(3)))

	// It is recovered from a member that joined while no operator watched.
	etcd.Name, etcd.Status.ClusterSize = "main", 3
	for member, want := range map[string]int32{"main-0": 3, "main-2": 3, "main-3": 4, "main-4": 5, "main-5": 3} {
		etcd.Status.Recovery.Member = member
		g.Expect(released(etcd, setOf(0))).To(Equal(want), member)
	}
	etcd.Status.ClusterSize = 0
	g.Expect(released(etcd, setOf(0))).To(Equal(int32(3)), "it has not been seen")
}
