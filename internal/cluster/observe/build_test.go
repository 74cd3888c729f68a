// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// answersOf returns the input of a cluster of ready pods m-0, m-1, … with these answers. Member IDs are the ordinals plus
// one.
func answersOf(n int, answers map[int]etcdclient.Status) input {
	f := input{answers: answers}
	for i := range n {
		name := fmt.Sprintf("m-%d", i)
		f.ordinals = append(f.ordinals, cluster.Ordinal{Name: name, Member: name, Class: v1alpha1.ClassUnready, Role: v1alpha1.RoleUnknown, Pod: &cluster.Pod{Ready: true}})
		f.members = append(f.members, etcdclient.Member{ID: uint64(i + 1), Name: name})
	}
	return f
}

// says returns the answer of the member of an ordinal.
func says(ordinal int, leader, term uint64) etcdclient.Status {
	return etcdclient.Status{ClusterID: 7, MemberID: uint64(ordinal + 1), Leader: leader, Term: term, AppliedIndex: 10}
}

func classes(s *cluster.Snapshot) string {
	out := ""
	for _, o := range s.Ordinals {
		out += fmt.Sprintf("%s/%s ", o.Class, o.Role)
	}
	return out
}

func TestHealthyCluster(t *testing.T) {
	g := NewWithT(t)
	s := build(answersOf(3, map[int]etcdclient.Status{0: says(0, 2, 5), 1: says(1, 2, 5), 2: says(2, 2, 5)}))
	g.Expect(classes(s)).To(Equal("Participating/Follower Participating/Leader Participating/Follower "))
	g.Expect(s.Leader()).To(Equal(1))
	g.Expect(s.HasQuorum()).To(BeTrue())
	g.Expect(s.ServingVoters()).To(Equal(3))
	g.Expect(s.ServingVotersWithout(1)).To(Equal(2))
	g.Expect(s.Cluster.ID).To(Equal(uint64(7)))
}

// The newest term and revision are those of the cluster's members, whether they know a leader or not: a member of another cluster says
// nothing of them.
func TestNewestTerm(t *testing.T) {
	g := NewWithT(t)
	at := func(revision int64, s etcdclient.Status) etcdclient.Status {
		s.Revision = revision
		return s
	}
	stranger := at(1000, says(2, 0, 99))
	stranger.ClusterID = 8
	s := build(answersOf(3, map[int]etcdclient.Status{0: at(41, says(0, 2, 5)), 1: at(40, says(1, 0, 6)), 2: stranger}))
	g.Expect(s.Cluster.Revision).To(Equal(int64(41)))
	g.Expect(s.Cluster.Term).To(Equal(uint64(5)))
	g.Expect(s.Cluster.NewestTerm).To(Equal(uint64(6)))
}

func TestMemberThatDoesNotAnswerDoesNotParticipateThoughItsProbePasses(t *testing.T) {
	g := NewWithT(t)
	s := build(answersOf(3, map[int]etcdclient.Status{1: says(1, 2, 5), 2: says(2, 2, 5)}))
	g.Expect(classes(s)).To(Equal("Unready/Unknown Participating/Leader Participating/Follower "))
	g.Expect(s.ServingVoters()).To(Equal(2))
	g.Expect(s.Ordinals[0].MemberID).To(Equal(uint64(1)), "known from the member list")
}

func TestMemberThatWasCutOffReportsAnOldTermAndDoesNotServe(t *testing.T) {
	g := NewWithT(t)
	s := build(answersOf(3, map[int]etcdclient.Status{0: says(0, 1, 5), 1: says(1, 2, 6), 2: says(2, 2, 6)}))
	g.Expect(s.Cluster.Leader).To(Equal(uint64(2)))
	g.Expect(s.Ordinals[0].Serving).To(BeFalse())
	g.Expect(s.ServingVoters()).To(Equal(2))
}

// A member that has to catch up knows the leader and its term, but does not serve until it has caught up.
func TestVoterThatIsFarBehindDoesNotServe(t *testing.T) {
	at := func(ordinal int, committed, applied uint64) etcdclient.Status {
		s := says(ordinal, 1, 5)
		s.CommittedIndex, s.AppliedIndex = committed, applied
		return s
	}
	for name, c := range map[string]struct {
		answers map[int]etcdclient.Status
		lag     uint64
		serving int
	}{
		"level with the leader":        {map[int]etcdclient.Status{0: at(0, 5_000_000, 5_000_000), 2: at(2, 5_000_000, 4_999_990)}, 10, 2},
		"as far behind as permitted":   {map[int]etcdclient.Status{0: at(0, 5_000_000, 5_000_000), 2: at(2, 4_995_000, 4_995_000)}, 5000, 2},
		"further":                      {map[int]etcdclient.Status{0: at(0, 5_000_000, 5_000_000), 2: at(2, 4_994_999, 4_994_999)}, 5001, 1},
		"it has just restarted":        {map[int]etcdclient.Status{0: at(0, 5_000_000, 5_000_000), 2: at(2, 12, 12)}, 4_999_988, 1},
		"the leader does not answer":   {map[int]etcdclient.Status{1: at(1, 5_000_000, 5_000_000), 2: at(2, 12, 12)}, 4_999_988, 1},
		"it has not applied its log":   {map[int]etcdclient.Status{0: at(0, 5_000_000, 5_000_000), 2: at(2, 5_000_000, 12)}, 4_999_988, 1},
		"it is ahead of a slow leader": {map[int]etcdclient.Status{0: at(0, 90, 90), 2: at(2, 100, 100)}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := build(answersOf(3, c.answers))
			g.Expect(s.Cluster.LeaderKnown).To(BeTrue(), "it is still evidence of a leader")
			g.Expect(s.ServingVoters()).To(Equal(c.serving))
			g.Expect(s.Ordinals[2].Serving).To(Equal(c.lag <= 5000))
			g.Expect(s.Ordinals[2].Lag).To(Equal(c.lag))
		})
	}
}

// Members that belong to another cluster, or say so, hide no leader of this one.
func TestWhichClusterItIs(t *testing.T) {
	const ours, other, third = 7, 9, 8
	at := func(ordinal int, id, leader uint64) etcdclient.Status {
		s := says(ordinal, leader, 5)
		s.ClusterID = id
		return s
	}
	for name, c := range map[string]struct {
		lineage lineage
		answers []etcdclient.Status
		id      uint64
		leader  bool
	}{
		"a tie, and ours knows a leader":                {lineage{recorded: ours}, []etcdclient.Status{at(0, other, 0), at(1, ours, 3)}, ours, true},
		"a tie, and the other knows a leader":           {lineage{recorded: ours}, []etcdclient.Status{at(0, other, 1), at(1, ours, 0)}, ours, false},
		"a tie, and nothing is recorded":                {lineage{}, []etcdclient.Status{at(0, other, 0), at(1, ours, 3)}, ours, true},
		"a tie without a leader":                        {lineage{recorded: ours}, []etcdclient.Status{at(0, other, 0), at(1, ours, 0)}, ours, false},
		"ours alone knows a leader":                     {lineage{recorded: ours}, []etcdclient.Status{at(0, other, 0), at(1, other, 0), at(2, ours, 3)}, ours, true},
		"others that know a leader are more":            {lineage{recorded: ours}, []etcdclient.Status{at(0, other, 2), at(1, other, 2), at(2, ours, 0)}, other, true},
		"others that know none are more":                {lineage{recorded: ours}, []etcdclient.Status{at(0, other, 0), at(1, other, 0), at(2, ours, 0)}, ours, false},
		"more, and nothing is recorded":                 {lineage{}, []etcdclient.Status{at(0, ours, 1), at(1, other, 0), at(2, other, 0)}, other, false},
		"none is ours":                                  {lineage{recorded: ours}, []etcdclient.Status{at(0, third, 0), at(1, other, 2)}, other, true},
		"a recovered cluster beside the one before":     {lineage{recorded: ours, previous: []uint64{ours}}, []etcdclient.Status{at(0, ours, 0), at(1, ours, 0), at(2, other, 3)}, other, true},
		"a recovered cluster beside that of an earlier": {lineage{recorded: other, previous: []uint64{ours, third}}, []etcdclient.Status{at(0, third, 0), at(1, other, 2)}, other, true},
		"one before with a leader beside the recovered": {lineage{recorded: other, previous: []uint64{ours}}, []etcdclient.Status{at(0, ours, 1), at(1, ours, 1), at(2, other, 0)}, other, false},
		"only the one before":                           {lineage{recorded: ours, previous: []uint64{ours}}, []etcdclient.Status{at(0, ours, 0)}, ours, false},
	} {
		answers := map[int]etcdclient.Status{}
		for i, a := range c.answers {
			answers[i] = a
		}
		f := answersOf(3, answers)
		f.lineage = c.lineage
		if s := build(f); s.Cluster.ID != c.id || s.Cluster.LeaderKnown != c.leader {
			t.Errorf("%s: cluster %d, leader known: %t", name, s.Cluster.ID, s.Cluster.LeaderKnown)
		}
	}
}

func TestLineage(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{}
	g.Expect(lineageOf(etcd)).To(Equal(lineage{}))
	etcd.Status.ClusterID, etcd.Status.Recovery = "cafe", &v1alpha1.ClusterRecovery{PreviousClusterID: "a", EarlierClusterIDs: []string{"b", "?"}}
	g.Expect(lineageOf(etcd)).To(Equal(lineage{0xcafe, []uint64{10, 11, 0}}))

	f := answersOf(2, map[int]etcdclient.Status{0: says(0, 1, 5)})
	g.Expect(f.knowLeader()).To(BeTrue())
	f.lineage.recorded = 9
	g.Expect(f.knowLeader()).To(BeFalse(), "a member of another cluster does not speak for this one")
}

func TestNoLeader(t *testing.T) {
	g := NewWithT(t)
	s := build(answersOf(3, map[int]etcdclient.Status{0: says(0, 0, 5), 1: says(1, 0, 5), 2: says(2, 0, 5)}))
	g.Expect(s.Cluster.LeaderKnown).To(BeFalse())
	g.Expect(s.HasQuorum()).To(BeFalse())
	g.Expect(s.Participating()).To(BeZero())
	g.Expect(s.Cluster.Reachable).To(BeTrue())
}

func TestForeignVotersCount(t *testing.T) {
	g := NewWithT(t)
	f := answersOf(3, map[int]etcdclient.Status{0: says(0, 1, 5), 1: says(1, 1, 5), 2: says(2, 1, 5)})
	f.members = append(f.members, etcdclient.Member{ID: 50}, etcdclient.Member{ID: 51, Name: "far"})
	f.foreign = map[uint64]etcdclient.Status{51: {ClusterID: 7, MemberID: 51, Leader: 1, Term: 5}}
	s := build(f)
	g.Expect(s.Cluster.Voters).To(HaveLen(5))
	g.Expect(s.Quorum()).To(Equal(3))
	g.Expect(s.ServingVoters()).To(Equal(4))
	g.Expect(s.Cluster.Voters[3]).To(Equal(cluster.Voter{ID: 50, Name: "32", Ordinal: -1}))
	g.Expect(s.Cluster.Voters[4].Serving).To(BeTrue())
}

func TestLearnerIsNoVoter(t *testing.T) {
	g := NewWithT(t)
	learner := says(2, 1, 5)
	learner.Learner = true
	f := answersOf(3, map[int]etcdclient.Status{0: says(0, 1, 5), 1: says(1, 1, 5), 2: learner})
	f.members[2].Learner = true
	s := build(f)
	g.Expect(classes(s)).To(Equal("Participating/Leader Participating/Follower Unready/Learner "))
	g.Expect(s.Cluster.Voters).To(HaveLen(2))
	g.Expect(s.Cluster.Learners).To(Equal([]cluster.Learner{{ID: 3, Name: "m-2"}}))

	f.members[2] = etcdclient.Member{ID: 9, Learner: true, PeerURLs: []string{"http://m-3"}}
	g.Expect(build(f).Cluster.Learners).To(Equal([]cluster.Learner{{ID: 9, PeerURLs: []string{"http://m-3"}}}), "it has not started")
}

func TestMemberOfATerminatingPodCountsAsDown(t *testing.T) {
	g := NewWithT(t)
	f := answersOf(3, map[int]etcdclient.Status{0: says(0, 1, 5), 1: says(1, 1, 5), 2: says(2, 1, 5)})
	f.ordinals[2].Class = v1alpha1.ClassTerminating
	s := build(f)
	g.Expect(s.Ordinals[2].Serving).To(BeTrue())
	g.Expect(s.ServingVoters()).To(Equal(2))
}

func TestMemberThatAnswersIsNotDead(t *testing.T) {
	f := answersOf(1, map[int]etcdclient.Status{0: says(0, 1, 5)})
	f.ordinals[0].Class, f.ordinals[0].Pod.Ready = v1alpha1.ClassDead, false
	if s := build(f); s.Ordinals[0].Class != v1alpha1.ClassUnready {
		t.Errorf("class %s", s.Ordinals[0].Class)
	}
}

func TestAddressReusedByAnotherPod(t *testing.T) {
	g := NewWithT(t)
	f := answersOf(3, map[int]etcdclient.Status{0: says(1, 2, 5), 1: says(1, 2, 5), 2: says(2, 2, 5)})
	s := build(f)
	g.Expect(s.Ordinals[0].Answers).To(BeFalse())
	g.Expect(s.ServingVoters()).To(Equal(2))
}

func TestMemberOfAnotherClusterDoesNotServe(t *testing.T) {
	g := NewWithT(t)
	stranger := etcdclient.Status{ClusterID: 8, MemberID: 99, Leader: 99, Term: 9}
	s := build(answersOf(3, map[int]etcdclient.Status{0: stranger, 1: says(1, 2, 5), 2: says(2, 2, 5)}))
	g.Expect(s.Cluster.ID).To(Equal(uint64(7)))
	g.Expect(s.Ordinals[0].Serving).To(BeFalse())
	g.Expect(s.Ordinals[0].Class).To(Equal(v1alpha1.ClassUnready))
}

func TestByReadiness(t *testing.T) {
	g := NewWithT(t)
	f := answersOf(3, nil)
	f.members = nil
	f.ordinals[0].Pod.Ready = false
	f.ordinals[1].LeaseRole = v1alpha1.RoleLeader
	for i := range f.ordinals {
		f.ordinals[i].Pod.EtcdVersion, f.ordinals[i].Pod.Probed = "3.6.8", true
	}
	s := build(f)
	g.Expect(s.Cluster.Reachable).To(BeFalse())
	g.Expect(s.Participating()).To(BeZero())
	v := s.ByReadiness()
	g.Expect(v.Participating()).To(Equal(2))
	g.Expect(v.ServingVoters()).To(Equal(2))
	g.Expect(v.Quorum()).To(Equal(2))
	g.Expect(v.Leader()).To(Equal(1))
	g.Expect(v.Cluster.LeaderKnown).To(BeTrue())
	g.Expect(s.Participating()).To(BeZero(), "the original is unchanged")
}

// Before etcd 3.5.19 the readiness probe of a learner passed, so a ready member of such a version may be a learner.
func TestByReadinessOfOldVersions(t *testing.T) {
	for version, counts := range map[string]bool{
		"3.5.18": false, "3.5.19": true, "3.5.25": true, "3.6.0": true, "3.7.3": true, "3.4.40": false, "": false, "latest": false, "3.6": true, "4.0.0": true, "3.6.0-without-a-probe": false,
	} {
		g := NewWithT(t)
		f := answersOf(3, nil)
		f.members = nil
		for i := range f.ordinals {
			f.ordinals[i].Pod.EtcdVersion, f.ordinals[i].Pod.Probed = "3.6.8", true
		}
		f.ordinals[2].Pod.EtcdVersion, f.ordinals[2].Pod.Probed = version, version != "3.6.0-without-a-probe"
		v := build(f).ByReadiness()
		g.Expect(v.Ordinals[2].Serving).To(Equal(counts), version)
		g.Expect(v.Ordinals[2].Class == v1alpha1.ClassParticipating).To(Equal(counts), version)
		g.Expect(v.Cluster.Voters).To(HaveLen(3), "it counts as a voter for the size of a quorum")
		g.Expect(v.ServingVoters() == 3).To(Equal(counts), version)
	}
}

func TestLeaseIsBelievedByTheOperatorsOwnClock(t *testing.T) {
	g := NewWithT(t)
	var r renewals
	at := time.Unix(1000, 0)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{UID: "l"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To("1a:7f:Leader"), RenewTime: &metav1.MicroTime{Time: time.Unix(9999999, 0)}},
	}
	g.Expect(r.leaseRole(lease, at)).To(Equal(v1alpha1.RoleUnknown), "the first observation is no renewal, whatever the lease says")
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(5, 0)}
	g.Expect(r.leaseRole(lease, at.Add(time.Second))).To(Equal(v1alpha1.RoleLeader), "it was renewed, with a wrong clock")
	g.Expect(r.leaseRole(lease, at.Add(61*time.Second))).To(Equal(v1alpha1.RoleLeader))
	g.Expect(r.leaseRole(lease, at.Add(62*time.Second))).To(Equal(v1alpha1.RoleUnknown), "not renewed for a minute")
	g.Expect(r.leaseRole(nil, at)).To(Equal(v1alpha1.RoleUnknown))
}

func TestLeaseIsBelievedAsWrittenOutsideTheOperator(t *testing.T) {
	g := NewWithT(t)
	r := renewals{asWritten: true}
	at := time.Unix(1000, 0)
	lease := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("1a:7f:Leader"), RenewTime: &metav1.MicroTime{Time: at}}}
	g.Expect(r.leaseRole(lease, at.Add(time.Minute))).To(Equal(v1alpha1.RoleLeader))
	g.Expect(r.leaseRole(lease, at.Add(time.Minute+1))).To(Equal(v1alpha1.RoleUnknown))
}

func TestHolderIdentity(t *testing.T) {
	for holder, want := range map[string]v1alpha1.Role{
		"8e9e05c52164694d:Leader":                  v1alpha1.RoleLeader,
		"8e9e05c52164694d:Member":                  v1alpha1.RoleFollower,
		"8e9e05c52164694d:cdf818194e3a8c32:Leader": v1alpha1.RoleLeader,
		"":         v1alpha1.RoleUnknown,
		"whatever": v1alpha1.RoleUnknown,
	} {
		if got := holderRole(holder); got != want {
			t.Errorf("%q: %s", holder, got)
		}
	}
}
