// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func outdate(s *cluster.Snapshot, ordinal int) { s.Ordinals[ordinal].Pod.Revision = "old" }

// learn makes a member a learner.
func learn(s *cluster.Snapshot, ordinal int) {
	s.Ordinals[ordinal].Role, s.Ordinals[ordinal].Class = v1alpha1.RoleLearner, v1alpha1.ClassUnready
	s.Cluster.Voters = slices.DeleteFunc(s.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal == ordinal })
}

func TestDecideSize(t *testing.T) {
	with := func(n int, change func(*cluster.Snapshot)) *cluster.Snapshot {
		s := snapshotOf(n)
		change(s)
		return s
	}
	for _, tc := range []struct {
		name   string
		facts  sizingFacts
		want   int32
		reason string
		why    string // part of it
	}{
		{"first start", sizingFacts{wanted: 3}, 3, "", ""},
		{"as it should be", sizingFacts{wanted: 3, have: ptr.To[int32](3), size: 3, served: true}, 3, "", ""},
		{"to sleep", sizingFacts{wanted: 0, have: ptr.To[int32](3), size: 3, served: true}, 0, "", ""},
		{"awake", sizingFacts{wanted: 3, have: ptr.To[int32](0), size: 3, served: true}, 3, "", ""},
		{"awake, and larger", sizingFacts{wanted: 5, have: ptr.To[int32](0), size: 3, served: true}, 3, v1alpha1.ReasonScalingOut, "wakes up with the 3 members"},
		{"awake, and smaller", sizingFacts{wanted: 1, have: ptr.To[int32](0), size: 3, served: true}, 3, v1alpha1.ReasonScaleInRefused, "set spec.replicas to 3"},
		{"the StatefulSet is gone", sizingFacts{wanted: 5, size: 3, served: true}, 3, v1alpha1.ReasonScalingOut, "wakes up"},
		{"smaller", sizingFacts{wanted: 1, have: ptr.To[int32](3), size: 3, served: true}, 3, v1alpha1.ReasonScaleInRefused, "members are not taken away"},

		{"1 to 3", sizingFacts{wanted: 3, have: ptr.To[int32](1), size: 1, served: true, snapshot: snapshotOf(1)}, 2, v1alpha1.ReasonScalingOut, "the next one is added"},
		{"2 to 3", sizingFacts{wanted: 3, have: ptr.To[int32](2), size: 2, served: true, snapshot: snapshotOf(2)}, 3, "", ""},
		{"not served yet", sizingFacts{wanted: 3, have: ptr.To[int32](1), snapshot: snapshotOf(1)}, 1, v1alpha1.ReasonScaleOutHeld, "1 of 3 members: the cluster has not served yet"},
		{"nothing is known", sizingFacts{wanted: 3, have: ptr.To[int32](1), size: 1, served: true}, 1, v1alpha1.ReasonScaleOutHeld, "StatefulSet controller"},
		{"the spec was not seen", sizingFacts{wanted: 3, have: ptr.To[int32](1), served: true, snapshot: with(1, func(s *cluster.Snapshot) { s.StatefulSet.Observed = false })}, 1, v1alpha1.ReasonScaleOutHeld, "StatefulSet controller"},
		{"no quorum", sizingFacts{wanted: 5, have: ptr.To[int32](3), served: true, snapshot: with(3, func(s *cluster.Snapshot) {
			away(s, 1, v1alpha1.ClassMissing, "")
			away(s, 2, v1alpha1.ClassMissing, "")
		})}, 3, v1alpha1.ReasonScaleOutHeld, "1 of 3 voters serve"},
		{"no leader", sizingFacts{wanted: 5, have: ptr.To[int32](3), served: true, snapshot: with(3, func(s *cluster.Snapshot) { s.Cluster.LeaderKnown = false })}, 3, v1alpha1.ReasonScaleOutHeld, "it takes a quorum"},
		{"one is away", sizingFacts{wanted: 5, have: ptr.To[int32](3), served: true, snapshot: with(3, func(s *cluster.Snapshot) { away(s, 2, v1alpha1.ClassStarting, "not scheduled") })}, 3, v1alpha1.ReasonScalingOut, "etcd-main-2 is Starting (not scheduled)"},
		{"the last one learns", sizingFacts{wanted: 3, have: ptr.To[int32](2), served: true, snapshot: with(2, func(s *cluster.Snapshot) { learn(s, 1) })}, 2, v1alpha1.ReasonScalingOut, "etcd-main-1 is a learner"},
		{"a pod has to go", sizingFacts{wanted: 3, have: ptr.To[int32](1), served: true, snapshot: with(1, func(s *cluster.Snapshot) { s.Surplus = []string{"etcd-main-1"} })}, 1, v1alpha1.ReasonScaleOutHeld, "etcd-main-1 is not among the replicas"},
		{"a foreign voter is down", sizingFacts{wanted: 5, have: ptr.To[int32](3), served: true, snapshot: with(3, func(s *cluster.Snapshot) {
			s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: 9, Name: "far", Ordinal: -1})
		})}, 3, v1alpha1.ReasonScaleOutHeld, "voter far does not serve"},
		{"a template is rolled", sizingFacts{wanted: 5, have: ptr.To[int32](3), served: true, snapshot: with(3, func(s *cluster.Snapshot) { outdate(s, 1) })}, 3, v1alpha1.ReasonScaleOutHeld, "rolled to the newest template first"},
		{"a template is to be rolled by two that become three", sizingFacts{wanted: 3, have: ptr.To[int32](2), served: true, snapshot: with(2, func(s *cluster.Snapshot) { outdate(s, 1) })}, 3, "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			got := decideSize(tc.facts)
			g.Expect(got.replicas).To(Equal(tc.want), got.why)
			g.Expect(got.reason).To(Equal(tc.reason))
			g.Expect(got.why).To(ContainSubstring(tc.why))
			g.Expect(got.why == "").To(Equal(tc.why == ""), got.why)
		})
	}
}

func TestClusterSizeCountsOrdinalsAndNeverShrinks(t *testing.T) {
	g := NewWithT(t)
	g.Expect(clusterSize(0, snapshotOf(3))).To(Equal(int32(3)))
	s := snapshotOf(3)
	learn(s, 1)
	g.Expect(clusterSize(0, s)).To(Equal(int32(3)), "member 1 is being replaced")
	learn(s, 2)
	g.Expect(clusterSize(3, s)).To(Equal(int32(3)))
	s = snapshotOf(2)
	learn(s, 1)
	g.Expect(clusterSize(1, s)).To(Equal(int32(1)), "the learner has not joined yet")
}

func TestScaled(t *testing.T) {
	scaledOf := func(wanted int32, s *cluster.Snapshot, size sizing) metav1.Condition {
		etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: wanted}}
		status := nextStatus(etcd, observation{snapshot: s, wanted: wanted, size: size, current: true, now: noon})
		return *meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionScaled)
	}
	g := NewWithT(t)
	g.Expect(scaledOf(3, snapshotOf(3), sizing{}).Status).To(Equal(metav1.ConditionTrue))
	c := scaledOf(3, snapshotOf(1), sizing{2, v1alpha1.ReasonScalingOut, "1 of 3 members: the next one is added"})
	g.Expect(c.Message).To(Equal("1 of 3 members: the next one is added."))
	s := snapshotOf(3)
	learn(s, 2)
	g.Expect(scaledOf(3, s, sizing{}).Message).To(Equal("2 of 3 members have joined."))
	s = snapshotOf(3)
	s.Cluster.LeaderKnown = false
	g.Expect(scaledOf(3, s, sizing{}).Status).To(Equal(metav1.ConditionUnknown), "it has not served")
}
