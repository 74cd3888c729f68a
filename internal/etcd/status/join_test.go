// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/firststart"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// beside returns a Snapshot of n members, of which the first vote beside so many sources, and the next is a learner.
func beside(n, voting, sources int) *cluster.Snapshot {
	s := clustertest.Healthy(n)
	s.Cluster.Voters = s.Cluster.Voters[:voting]
	for i := voting; i < n; i++ {
		s.Ordinals[i].Role, s.Ordinals[i].Serving = v1alpha1.RoleUnknown, false
		if i == voting {
			s.Ordinals[i].Role, s.Ordinals[i].Serving = v1alpha1.RoleLearner, true
		}
	}
	for i := range sources {
		s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: uint64(100 + i), Ordinal: -1, Serving: true})
	}
	return s
}

// The members have joined once each votes, or as many as the source keeps the quorum beside and one more has caught up.
func TestHaveJoined(t *testing.T) {
	with := func(s *cluster.Snapshot, change func(*cluster.Snapshot)) *cluster.Snapshot { change(s); return s }
	for name, c := range map[string]struct {
		s    *cluster.Snapshot
		want bool
	}{
		"none of three":                     {beside(3, 0, 3), false},
		"one of three":                      {beside(3, 1, 3), false},
		"two of three, and a learner":       {beside(3, 2, 3), true},
		"two of three, and it lags":         {with(beside(3, 2, 3), func(s *cluster.Snapshot) { s.Ordinals[2].Lag = membership.MaxLag + 1 }), false},
		"two of three, and it is not added": {with(beside(3, 2, 3), func(s *cluster.Snapshot) { s.Ordinals[2].Role = v1alpha1.RoleUnknown }), false},
		"all three":                         {beside(3, 3, 3), true},
		"all, and one does not serve":       {with(beside(3, 3, 3), func(s *cluster.Snapshot) { s.Cluster.Voters[1].Serving = false }), false},
		"a learner beside one":              {beside(1, 0, 1), true},
		"one beside three":                  {beside(1, 1, 3), true},
		"no quorum":                         {with(beside(1, 1, 3), func(s *cluster.Snapshot) { s.Cluster.LeaderKnown = false }), false},
		"none wanted":                       {beside(0, 0, 3), false},
	} {
		if got := haveJoined(c.s); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// What is recorded of the source is recorded once, follows the spec until the cut-over, and says how its members are reached until the
// last has left.
func TestJoined(t *testing.T) {
	g := NewWithT(t)
	now := metav1.Now()
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	g.Expect(joined(etcd, nil, beside(3, 3, 0), now)).To(BeNil())
	g.Expect(bootstrapped(etcd, nil, nil)).To(BeNil())
	spec := &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "s", PeerURLs: []string{"http://s"}}}, ClientEndpoints: []string{"http://c"}}
	etcd.Spec.Etcd.BootstrapWithExistingCluster = spec
	g.Expect(joined(etcd, nil, nil, now)).To(BeNil())
	g.Expect(joined(etcd, nil, beside(3, 1, 3), now)).To(BeNil())
	g.Expect(bootstrapped(etcd, nil, beside(3, 1, 3))).To(HaveField("Message", "1 of 3 members have joined the source cluster."))

	record := joined(etcd, nil, beside(3, 2, 3), now)
	g.Expect(record).To(Equal(&v1alpha1.BootstrapWithExistingClusterStatus{JoinedAt: now, Members: []v1alpha1.BootstrapJoinedMember{{Name: "s", PeerURLs: []string{"http://s"}}}, Source: spec}))
	changed := spec.DeepCopy()
	changed.ClientEndpoints = []string{"http://d"}
	etcd.Spec.Etcd.BootstrapWithExistingCluster = changed
	record = joined(etcd, record, beside(3, 0, 3), metav1.Time{})
	g.Expect(record).To(And(HaveField("JoinedAt", now), HaveField("Source", changed)), "a member that is away does not take it back")
	g.Expect(bootstrapped(etcd, record, nil).Message).To(ContainSubstring("To cut over, remove"))

	etcd.Spec.Etcd.BootstrapWithExistingCluster, etcd.Status.BootstrapWithExistingCluster = nil, record
	for _, s := range []*cluster.Snapshot{nil, beside(3, 3, 1), {}} {
		record = joined(etcd, record, s, now)
		g.Expect(record.Source).To(Equal(changed))
	}
	g.Expect(etcd.Source()).To(Equal(changed))
	g.Expect(bootstrapped(etcd, record, nil)).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", "The members of the source cluster leave, one at a time.")))
	record = joined(etcd, record, beside(3, 3, 0), now)
	g.Expect(record.Source).To(BeNil())
	g.Expect(bootstrapped(etcd, record, nil)).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", "The members of the source cluster have left.")))
}

// A migration that was given up can begin again: whether the members have joined is known of the newest time alone.
func TestJoinedOnceMore(t *testing.T) {
	g := NewWithT(t)
	now := metav1.Now()
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	etcd.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "s"}}}
	first := joined(etcd, nil, beside(3, 2, 3), now)
	g.Expect(first).NotTo(BeNil())

	etcd.Spec.Replicas = 0
	for _, own := range []int{2, 1} {
		g.Expect(joined(etcd, first, beside(3, own, 3), now)).To(Equal(first), "they leave")
	}
	g.Expect(bootstrapped(etcd, first, beside(3, 1, 3))).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", HavePrefix("spec.replicas is 0: the members leave the source cluster. "))))
	lost := beside(1, 0, 3)
	lost.Cluster.LeaderKnown = false
	for _, unknown := range []*cluster.Snapshot{nil, lost, {}} {
		g.Expect(joined(etcd, first, unknown, now)).To(Equal(first), "no quorum says who is listed")
	}
	g.Expect(joined(etcd, first, beside(1, 0, 3), now)).To(BeNil())
	g.Expect(bootstrapped(etcd, nil, beside(0, 0, 3))).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Message", "spec.replicas is 0: the members leave the source cluster, or have left it. To join it once more, set spec.replicas; otherwise delete the Etcd.")))

	etcd.Spec.Replicas = 3
	again := metav1.NewTime(now.Add(time.Hour))
	g.Expect(joined(etcd, nil, beside(3, 0, 3), again)).To(BeNil())
	g.Expect(bootstrapped(etcd, nil, beside(3, 0, 3))).To(And(HaveField("Status", metav1.ConditionFalse), HaveField("Message", "0 of 3 members have joined the source cluster.")))
	g.Expect(joined(etcd, nil, beside(3, 2, 3), again)).To(HaveField("JoinedAt", again))
}

// Until the last member of the source has left, the status says nowhere that the newest spec is carried out: what is left of the source is
// deleted then (docs/adopt.md).
func TestUpToDateOnceTheSourceHasLeft(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "s"}}}
	etcd.Status = Next(observed(etcd, beside(3, 3, 3), noon))
	g.Expect(etcd.Status.Ready).To(HaveValue(BeTrue()), "the members have joined")
	etcd.Spec.Etcd.BootstrapWithExistingCluster, etcd.Generation = nil, 2
	for _, sources := range []int{3, 2, 1} {
		etcd.Status = Next(observed(etcd, beside(3, 3, sources), noon))
		g.Expect(etcd.Status.ObservedGeneration).To(Equal(int64(2)))
		g.Expect(etcd.Status.Ready).To(HaveValue(BeFalse()))
		g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionUpToDate)).To(HaveValue(And(HaveField("Status", metav1.ConditionFalse),
			HaveField("Reason", v1alpha1.ReasonScalingIn), HaveField("Message", ContainSubstring("%d of %d voters belong to the source", sources, 3+sources)))))
		g.Expect(etcd.Status.Conditions.IsTrue(v1alpha1.ConditionReady)).To(BeTrue(), "the cluster serves")
	}
	etcd.Status = Next(observed(etcd, beside(3, 3, 0), noon))
	g.Expect(etcd.Status.Ready).To(HaveValue(BeTrue()))
	g.Expect(etcd.Status.Conditions.IsTrue(v1alpha1.ConditionUpToDate)).To(BeTrue())
	g.Expect(etcd.Status.BootstrapWithExistingCluster.Source).To(BeNil())
}

// Which cluster members join is recorded by the first start, once the source may be joined, or because a member of the Etcd's own answers.
// A source that only answers may have an alarm, or a database that is too large.
func TestASourceThatAnswersIsNotJoinedYet(t *testing.T) {
	g := NewWithT(t)
	source := beside(0, 0, 3)
	source.Cluster.Reachable, source.Cluster.ID, source.Cluster.Leader, source.Cluster.LeaderKnown = true, 0xcafe, 100, true
	source.Cluster.Voters[0].Name = "etcd-main-1" // one that is not declared
	etcd := served()
	etcd.Status, etcd.Spec.Etcd.BootstrapWithExistingCluster = v1alpha1.EtcdStatus{}, &v1alpha1.BootstrapWithExistingCluster{}
	for _, replicas := range []int32{3, 0} {
		etcd.Spec.Replicas = replicas
		o := observed(etcd, source, noon)
		o.FirstStart = firststart.View{Reason: v1alpha1.ReasonFirstStartBlocked, Why: "the source cluster has the alarm NOSPACE"}
		next := Next(o)
		g.Expect(next.ClusterID).To(BeEmpty())
		g.Expect(next.ClusterSize).To(BeZero())
		g.Expect(next.LastErrors).To(BeEmpty())
	}
	etcd.Spec.Replicas = 3
	o := observed(etcd, source, noon)
	o.FirstStart.Found = &firststart.Cluster{ID: "cafe", Size: 3}
	g.Expect(Next(o)).To(And(HaveField("ClusterID", "cafe"), HaveField("ClusterSize", int32(3))))

	// Someone has removed the ID while the members run.
	joined := beside(3, 2, 3)
	g.Expect(Next(observed(etcd, joined, noon)).ClusterID).To(Equal("cafe"))
	for i := range joined.Ordinals {
		joined.Ordinals[i].Answers, joined.Ordinals[i].Serving = false, false
	}
	g.Expect(Next(observed(etcd, joined, noon)).ClusterID).To(BeEmpty())
}

// Members that someone has started before they may join the source wait, and the condition says why until its ID is recorded.
func TestWhyMembersWaitForTheirSource(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Status, etcd.Spec.Etcd.BootstrapWithExistingCluster = v1alpha1.EtcdStatus{}, &v1alpha1.BootstrapWithExistingCluster{}
	waiting := beside(3, 0, 3)
	waiting.Ordinals[0].Serving = false
	message := func(v firststart.View) string {
		o := observed(etcd, waiting, noon)
		o.FirstStart = v
		next := Next(o)
		c := next.Conditions.Find(v1alpha1.ConditionBootstrappedWithExistingCluster)
		g.Expect(c).To(HaveValue(And(HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonBootstrapInProgress))))
		return c.Message
	}
	const none = "0 of 3 members have joined the source cluster."
	g.Expect(message(firststart.View{Waits: "it has the alarm NOSPACE"})).To(Equal(none + " They may not join it yet: it has the alarm NOSPACE."))
	g.Expect(message(firststart.View{Found: &firststart.Cluster{ID: "cafe", Size: 3}})).To(Equal(none))
	etcd.Status.ClusterID = "cafe"
	g.Expect(message(firststart.View{Waits: "it has the alarm NOSPACE"})).To(Equal(none), "its ID is recorded by now")
}
