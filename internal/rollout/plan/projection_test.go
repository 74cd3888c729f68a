// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// healthy returns a cluster of three members, led by the first.
func healthy() *cluster.Snapshot {
	s := &cluster.Snapshot{StatefulSet: cluster.StatefulSet{UpdateRevision: "new"}, Cluster: cluster.Cluster{Leader: 1, LeaderKnown: true}}
	for i := range 3 {
		id, name := uint64(i+1), fmt.Sprintf("m-%d", i)
		s.Ordinals = append(s.Ordinals, cluster.Ordinal{
			Name: name, MemberID: id, Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower, Answers: true, Serving: true,
			Pod: &cluster.Pod{UID: types.UID(name), Revision: "old", Ready: true},
		})
		s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: id, Name: name, Ordinal: i, Serving: true})
	}
	s.Ordinals[0].Role = v1alpha1.RoleLeader
	return s
}

func TestTheLeaderIsReplaced(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	p := projectionOf(s)
	p.remove([]int{0})
	g.Expect(p.Ordinals[0].Class).To(Equal(v1alpha1.ClassMissing))
	g.Expect(p.HasQuorum()).To(BeTrue())
	g.Expect(p.Leader()).To(Equal(1))
	g.Expect(p.Elected).To(BeTrue())
	p.replace([]int{0}, noon)
	g.Expect(p.Participating()).To(Equal(3))
	g.Expect(p.Ordinals[0].Pod.Revision).To(Equal("new"))
	g.Expect(p.Leader()).To(Equal(1), "leadership does not move back")
	g.Expect(s).To(Equal(healthy()), "the original snapshot is unchanged")
}

func TestNoLeaderWithoutAQuorum(t *testing.T) {
	g := NewWithT(t)
	p := projectionOf(healthy())
	p.remove([]int{1, 2})
	g.Expect(p.Cluster.LeaderKnown).To(BeFalse())
	g.Expect(p.Participating()).To(BeZero())
	g.Expect(p.Ordinals[0].Answers).To(BeTrue())
	p.bringBack("m-1", noon)
	g.Expect(p.Cluster.LeaderKnown).To(BeTrue())
	g.Expect(p.Participating()).To(Equal(2))
}

// A member that lags votes, and does not serve until it is what recovers.
func TestAMemberThatLagsVotes(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	for i := range s.Cluster.Voters {
		s.Cluster.Voters[i].Serving = i == 0
	}
	lagging := &s.Ordinals[2]
	lagging.Class, lagging.Serving, lagging.Lag = v1alpha1.ClassUnready, false, cluster.MaxLag+1
	p := projectionOf(s)
	p.remove([]int{1})
	g.Expect(p.Cluster.LeaderKnown).To(BeTrue())
	g.Expect(p.Elected).To(BeFalse())
	g.Expect(p.ServingVoters()).To(Equal(1))
	p.recoverVoters(2, noon)
	g.Expect(p.Participating()).To(Equal(2))
	g.Expect(p.Ordinals[2].Class).To(Equal(v1alpha1.ClassUnready))
	g.Expect(p.Ordinals[2].Serving).To(BeFalse())
	p.bringBack("m-2", noon)
	g.Expect(p.Participating()).To(Equal(3))
	g.Expect(p.ServingVoters()).To(Equal(3))
	g.Expect(p.Ordinals[2].Lag).To(BeZero())
}

func TestALearnerThatRecoversVotes(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	s.Ordinals[2].Role, s.Ordinals[2].Class = v1alpha1.RoleLearner, v1alpha1.ClassUnready
	s.Cluster.Voters = s.Cluster.Voters[:2]
	p := projectionOf(s)
	p.bringBack("m-2", noon)
	g.Expect(p.Cluster.Voters).To(HaveLen(3))
	g.Expect(p.Participating()).To(Equal(3))
}

// Two voters cannot do without one of them, so a guard waits until the learner is the third. Where the voters suffice, it remains a learner.
func TestLearnersArePromotedIfTheVotersDoNotSuffice(t *testing.T) {
	learner := func(o *cluster.Ordinal) { o.Role, o.Class = v1alpha1.RoleLearner, v1alpha1.ClassUnready }
	dead := func(o *cluster.Ordinal) {
		o.Role, o.Class, o.Answers, o.Serving = v1alpha1.RoleUnknown, v1alpha1.ClassDead, false, false
	}
	for name, c := range map[string]struct {
		learner func(*cluster.Ordinal)
		except  int
		votes   bool
	}{
		"two voters without one":                      {learner, 1, true},
		"two voters":                                  {learner, -1, false},
		"two voters without one, and it is dead":      {dead, 1, true},
		"two voters, and it is dead":                  {dead, -1, false},
		"two voters without one, and it is no member": {func(o *cluster.Ordinal) { dead(o); o.MemberID = 0 }, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := healthy()
			c.learner(&s.Ordinals[2])
			s.Cluster.Voters = s.Cluster.Voters[:2]
			p := projectionOf(s)
			p.remove([]int{0})
			p.recoverVoters(c.except, noon)
			g.Expect(p.Ordinals[0].Class).To(Equal(v1alpha1.ClassParticipating))
			g.Expect(p.Ordinals[2].Class == v1alpha1.ClassParticipating).To(Equal(c.votes))
			g.Expect(p.Cluster.Voters).To(HaveLen(map[bool]int{true: 3, false: 2}[c.votes]))
		})
	}
}

// Members that lag elect one of themselves: what they lack is applied, not received.
func TestMembersThatLagElectALeader(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	for i := 1; i < 3; i++ {
		o := &s.Ordinals[i]
		o.Class, o.Serving, o.Lag, s.Cluster.Voters[i].Serving = v1alpha1.ClassUnready, false, cluster.MaxLag+1, false
	}
	p := projectionOf(s)
	p.remove([]int{0})
	g.Expect(p.Cluster.LeaderKnown).To(BeTrue())
	g.Expect(p.Leader()).To(Equal(1))
	g.Expect(p.Elected).To(BeTrue())
	p.catchUp()
	g.Expect(p.Participating()).To(Equal(2))
	g.Expect(p.ServingVoters()).To(Equal(2))
}

// One that serves leads rather than one that lags, and which of the two wins is not known.
func TestOneThatServesIsElectedBeforeOneThatLags(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	s.Ordinals[1].Class, s.Ordinals[1].Serving, s.Ordinals[1].Lag, s.Cluster.Voters[1].Serving = v1alpha1.ClassUnready, false, cluster.MaxLag+1, false
	p := projectionOf(s)
	p.remove([]int{0})
	g.Expect(p.Leader()).To(Equal(2))
	g.Expect(p.Elected).To(BeTrue())
}

// A member serves as long as it lags by no more than is allowed.
func TestAllowedLag(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	s.Ordinals[1].Lag = cluster.MaxLag
	p := projectionOf(s)
	p.remove([]int{2})
	g.Expect(p.ServingVoters()).To(Equal(2))
	g.Expect(p.Ordinals[1].Class).To(Equal(v1alpha1.ClassParticipating))
	s.Ordinals[1].Class = v1alpha1.ClassUnready
	p = projectionOf(s)
	p.remove([]int{2})
	g.Expect(p.Ordinals[1].Class).To(Equal(v1alpha1.ClassParticipating))
}

func TestALearnerJoinsAnOnlyVoter(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	s.Ordinals[1].Role, s.Ordinals[1].Class = v1alpha1.RoleLearner, v1alpha1.ClassUnready
	s.Ordinals, s.Cluster.Voters = s.Ordinals[:2], s.Cluster.Voters[:1]
	p := projectionOf(s)
	p.bringBack("m-1", noon)
	g.Expect(p.Cluster.Voters).To(HaveLen(2))
}

// A learner that is replaced, or whose pod cannot start, votes too once it is healthy. Who is no member yet does not.
func TestALearnerThatIsReplacedVotes(t *testing.T) {
	learner := func() *cluster.Snapshot {
		s := healthy()
		s.Ordinals[2].Role, s.Ordinals[2].Class = v1alpha1.RoleLearner, v1alpha1.ClassUnready
		s.Cluster.Voters = s.Cluster.Voters[:2]
		return s
	}
	for name, isBack := range map[string]func(p *projection){
		"replaced":     func(p *projection) { p.remove([]int{2}); p.replace([]int{2}, noon) },
		"missing":      func(p *projection) { p.remove([]int{2}); p.bringBack("m-2", noon) },
		"dead":         func(p *projection) { p.Ordinals[2].Role = v1alpha1.RoleUnknown; p.bringBack("m-2", noon) },
		"of no leader": func(p *projection) { p.remove([]int{1}); p.bringBack("m-2", noon); p.bringBack("m-1", noon) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := projectionOf(learner())
			isBack(p)
			g.Expect(p.Cluster.Voters).To(HaveLen(3))
			g.Expect(p.Cluster.Voters).To(ContainElement(cluster.Voter{ID: 3, Name: "m-2", Ordinal: 2, Serving: true}))
			g.Expect(p.Participating()).To(Equal(3))
		})
	}
	g := NewWithT(t)
	s := learner()
	s.Ordinals[2].MemberID = 0
	p := projectionOf(s)
	p.remove([]int{2})
	p.replace([]int{2}, noon)
	g.Expect(p.Cluster.Voters).To(HaveLen(2))

	s = learner()
	s.Cluster.Voters = nil
	p = projectionOf(s)
	p.bringBack("m-2", noon)
	g.Expect(p.Cluster.Voters).To(HaveLen(3), "no voter has returned the member list: every replica is one")
}

// A member serves until its pod is gone: then the leader goes with it, or with the quorum that it was part of, and an election follows.
func TestWhatTerminatesIsGoneBeforeAnythingIsBack(t *testing.T) {
	for name, c := range map[string]struct {
		missing, terminating int
	}{
		"a member of the quorum": {1, 2},
		"the leader":             {1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := healthy()
			missing, terminating := &s.Ordinals[c.missing], &s.Ordinals[c.terminating]
			missing.Pod, missing.Class, missing.Answers, missing.Serving = nil, v1alpha1.ClassMissing, false, false
			s.Cluster.Voters[c.missing].Serving = false
			terminating.Class = v1alpha1.ClassTerminating
			p := projectionOf(s)
			p.bringBack(missing.Name, noon)
			p.bringBack(terminating.Name, noon)
			g.Expect(p.Participating()).To(Equal(3))
			g.Expect(p.Elected).To(BeTrue())
		})
	}
}

func TestRecoveredSurplusPodsAreRemoved(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	s.Surplus = []string{"m-9"}
	p := projectionOf(s)
	p.bringBack("m-9", noon)
	g.Expect(p.Surplus).To(BeEmpty())
}

// A projection shares nothing with the state that it was made of.
func TestTheOriginalIsLeftAlone(t *testing.T) {
	g := NewWithT(t)
	original := func() *cluster.Snapshot {
		s := healthy()
		s.Surplus = []string{"m-8", "m-9"}
		s.Ordinals[0].Pod.Node.Trouble = "not ready"
		return s
	}
	s := original()
	p := projectionOf(s)
	p.settleNodes()
	p.bringBack("m-8", noon)
	p.remove([]int{0, 1})
	p.Ordinals[2].AppliedIndex = 7
	g.Expect(s).To(Equal(original()))
	g.Expect(p.Surplus).To(Equal([]string{"m-9"}))
}

// What is removed leaves nothing behind that could count for anything.
func TestRemovedPodsServeNobody(t *testing.T) {
	g := NewWithT(t)
	p := projectionOf(healthy())
	p.remove([]int{2})
	o := p.Ordinals[2]
	g.Expect(o.Pod).To(BeNil())
	g.Expect(o.Role).To(Equal(v1alpha1.RoleUnknown))
	g.Expect([]bool{o.Answers, o.Serving}).To(HaveEach(false))
	g.Expect(p.ServingVoters()).To(Equal(2))
	g.Expect(p.Elected).To(BeFalse(), "the leader is still there")
	g.Expect(p.Leader()).To(BeZero())
	g.Expect(p.Participating()).To(Equal(2))
}

// A replacement is a new pod of the newest template that has caught up.
func TestReplacementsAreNew(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	s.StatefulSet.EtcdVersion = "3.6.1"
	s.Ordinals[0].AppliedIndex, s.Ordinals[1].AppliedIndex = 42, 41
	s.Ordinals[2].Versions.Etcd = "3.5.9"
	p := projectionOf(s)
	p.remove([]int{2})
	p.replace([]int{2}, noon)
	o := p.Ordinals[2]
	g.Expect(o.AppliedIndex).To(BeEquivalentTo(42))
	g.Expect(o.Versions.Etcd).To(Equal("3.6.1"))
	g.Expect(o.Role).To(Equal(v1alpha1.RoleFollower))
	g.Expect([]bool{o.Answers, o.Serving, o.Pod.Ready, o.Pod.AllContainersReady, o.Pod.BackupSidecarReady}).To(HaveEach(true))
	g.Expect([]time.Time{o.Pod.Created, o.Pod.EtcdStarted}).To(HaveEach(noon))
	g.Expect(o.Pod.UID).NotTo(BeElementOf(types.UID(""), types.UID("m-2")))
	g.Expect(o.Pod.ResourceVersion).NotTo(BeEmpty())

	first := o.Pod.UID
	p.StatefulSet.EtcdVersion = ""
	p.remove([]int{2})
	p.replace([]int{2}, noon.Add(time.Minute))
	g.Expect(p.Ordinals[2].Pod.UID).NotTo(Equal(first), "each is another pod")
	g.Expect(p.Ordinals[2].Versions.Etcd).To(Equal("3.6.1"), "the version that was known before")
}

// down stops the member of an ordinal; its pod stays.
func down(s *cluster.Snapshot, ordinals ...int) *cluster.Snapshot {
	for _, i := range ordinals {
		o := &s.Ordinals[i]
		o.Class, o.Role, o.Answers, o.Serving, o.Pod.Ready = v1alpha1.ClassDead, v1alpha1.RoleUnknown, false, false, false
		s.Cluster.Voters[i].Serving = false
	}
	return s
}

// leaderless takes the leader away; all members answer.
func leaderless(s *cluster.Snapshot) *cluster.Snapshot {
	s.Cluster.Leader, s.Cluster.LeaderKnown = 0, false
	for i := range s.Ordinals {
		o := &s.Ordinals[i]
		o.Class, o.Role, o.Serving, o.Pod.Ready = v1alpha1.ClassUnready, v1alpha1.RoleUnknown, false, false
		s.Cluster.Voters[i].Serving = false
	}
	return s
}

// foreign adds a voter that has no pod, and leads if the others are told so.
func foreign(s *cluster.Snapshot, serving bool) *cluster.Snapshot {
	s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: 50, Name: "foreign", Ordinal: -1, Serving: serving})
	return s
}

// Who leads, votes and participates afterwards follows from who is alive.
func TestElections(t *testing.T) {
	byForeigner := func(s *cluster.Snapshot, serving bool) *cluster.Snapshot {
		s.Cluster.Leader, s.Ordinals[0].Role = 50, v1alpha1.RoleFollower
		return foreign(s, serving)
	}
	roleless := func(s *cluster.Snapshot) *cluster.Snapshot {
		s.Cluster.Leader = 0
		for i := range s.Ordinals {
			s.Ordinals[i].Role = v1alpha1.RoleUnknown
		}
		return s
	}
	unready := func(s *cluster.Snapshot, i int) *cluster.Snapshot {
		s.Ordinals[i].Class, s.Ordinals[i].Pod.Ready = v1alpha1.ClassUnready, false
		return s
	}
	frozen := func(s *cluster.Snapshot, i int) *cluster.Snapshot {
		unready(s, i)
		s.Ordinals[i].Answers, s.Ordinals[i].Serving = false, false
		return s
	}
	for name, c := range map[string]struct {
		from *cluster.Snapshot
		do   func(*projection)
		// leader is the ID that the members know; 0 if none.
		leader        uint64
		elected       bool
		participating int
	}{
		"nothing happens":               {healthy(), (*projection).elect, 1, false, 3},
		"the leader goes":               {healthy(), func(p *projection) { p.remove([]int{0}) }, 2, true, 2},
		"the leader is dead already":    {down(healthy(), 0), (*projection).elect, 2, true, 2},
		"the quorum goes":               {healthy(), func(p *projection) { p.remove([]int{0, 1}) }, 0, false, 0},
		"a quorum comes back":           {leaderless(healthy()), (*projection).elect, 1, true, 3},
		"with a member that is dead":    {down(leaderless(healthy()), 0), (*projection).elect, 2, true, 2},
		"all voters recover":            {down(leaderless(healthy()), 0, 1), func(p *projection) { p.recoverVoters(-1, noon) }, 1, true, 3},
		"all voters but one recover":    {down(healthy(), 0, 1), func(p *projection) { p.recoverVoters(0, noon) }, 2, true, 2},
		"a foreign leader stays":        {byForeigner(healthy(), true), func(p *projection) { p.remove([]int{0}) }, 50, false, 2},
		"one that is gone does not":     {byForeigner(healthy(), false), (*projection).elect, 1, true, 3},
		"foreign voters count":          {foreign(healthy(), true), func(p *projection) { p.remove([]int{0}) }, 2, true, 2},
		"those that are down count too": {foreign(healthy(), false), func(p *projection) { p.remove([]int{0}) }, 0, false, 0},
		"and recover":                   {foreign(down(healthy(), 0), false), func(p *projection) { p.recoverVoters(0, noon) }, 2, true, 2},
		"the leader is unknown":         {roleless(healthy()), func(p *projection) { p.remove([]int{0}) }, 0, false, 2},
		"the voters are unknown":        {func() *cluster.Snapshot { s := healthy(); s.Cluster.Voters = nil; return s }(), func(p *projection) { p.remove([]int{0}) }, 2, true, 2},
		"a probe that fails stays so":   {unready(healthy(), 2), (*projection).elect, 1, false, 2},
		"a frozen leader that recovers": {frozen(healthy(), 0), func(p *projection) { p.bringBack("m-0", noon) }, 1, false, 3},
		"a frozen leader, by its lease": {func() *cluster.Snapshot { s := frozen(healthy(), 0); s.Cluster.Leader = 0; return s }(), (*projection).elect, 2, true, 2},
		"a frozen leader":               {frozen(healthy(), 0), (*projection).elect, 2, true, 2},
		"a frozen follower":             {frozen(healthy(), 2), func(p *projection) { p.remove([]int{1}) }, 0, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p := projectionOf(c.from)
			c.do(p)
			known := p.Cluster.LeaderKnown
			g.Expect(p.Cluster.Leader).To(Equal(c.leader))
			g.Expect(known).To(Equal(c.leader != 0 || name == "the leader is unknown"))
			g.Expect(p.Elected).To(Equal(c.elected))
			g.Expect(p.Participating()).To(Equal(c.participating))
			for i, o := range p.Ordinals {
				if o.Role == v1alpha1.RoleLeader {
					g.Expect(o.MemberID).To(Equal(c.leader))
				}
				g.Expect(o.Serving).To(Equal(known && p.alive(i)), o.Name)
				g.Expect(known && o.Serving && o.Role == v1alpha1.RoleUnknown && c.leader != 0).To(BeFalse(), o.Name)
			}
			for _, v := range p.Cluster.Voters {
				if v.Ordinal >= 0 {
					g.Expect(v.Serving).To(Equal(known && p.alive(v.Ordinal)), v.Name)
				}
			}
		})
	}
}

// A single member that leads again was not elected against another: its plan rests on no assumption.
func TestASingleMemberNeedsNoElection(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	s.Ordinals, s.Cluster.Voters = s.Ordinals[:1], s.Cluster.Voters[:1]
	p := projectionOf(s)
	p.remove([]int{0})
	g.Expect(p.Cluster.LeaderKnown).To(BeFalse())
	p.replace([]int{0}, noon)
	g.Expect(p.Leader()).To(BeZero())
	g.Expect(p.Elected).To(BeFalse())
}

// Without a quorum, members run and answer, and none participates. A learner stays one.
func TestWhatAQuorumGives(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	// As it is seen by its probe alone.
	s.Ordinals[2].Answers = false
	foreign(s, true)
	learner := s.Ordinals[2]
	learner.Name, learner.MemberID, learner.Role, learner.Class = "m-3", 4, v1alpha1.RoleLearner, v1alpha1.ClassUnready
	learner.Answers, learner.Pod = true, &cluster.Pod{UID: "m-3", Ready: true}
	s.Ordinals = append(s.Ordinals, learner)
	p := projectionOf(s)
	p.remove([]int{0, 1})
	for _, i := range []int{2, 3} {
		g.Expect(p.Ordinals[i].Class).To(Equal(v1alpha1.ClassUnready))
		g.Expect(p.Ordinals[i].Serving).To(BeFalse())
		g.Expect(p.Ordinals[i].Answers).To(BeTrue())
	}
	g.Expect(p.Ordinals[2].Pod.Ready).To(BeFalse())
	g.Expect(p.Ordinals[2].Role).To(Equal(v1alpha1.RoleUnknown))
	g.Expect(p.Ordinals[3].Role).To(Equal(v1alpha1.RoleLearner))
	g.Expect(p.ServingVoters()).To(Equal(1), "of the foreign one nothing is known")

	p.recoverVoters(-1, noon)
	g.Expect(p.Ordinals[3].Role).To(Equal(v1alpha1.RoleLearner), "it is no voter")
	g.Expect(p.Ordinals[3].Serving).To(BeTrue())
	g.Expect(p.Ordinals[3].Class).To(Equal(v1alpha1.ClassUnready), "a learner does not participate")
	g.Expect(p.Participating()).To(Equal(3))
	g.Expect(p.Ordinals[2].Pod.Ready).To(BeTrue(), "its probe failed since there was no leader")
}

// A pod that recovers is as healthy as a new one, and stays the pod that it is.
func TestRecoveredPods(t *testing.T) {
	g := NewWithT(t)
	s := down(healthy(), 2)
	s.Ordinals[2].Pod.Trouble = "CrashLoopBackOff"
	p := projectionOf(s)
	p.bringBack("m-7", noon)
	g.Expect(p.Ordinals[2].Class).To(Equal(v1alpha1.ClassDead), "an unknown pod changes nothing")
	p.bringBack("m-2", noon)
	o := p.Ordinals[2]
	g.Expect(o.Class).To(Equal(v1alpha1.ClassParticipating))
	g.Expect(o.Pod.Trouble).To(BeEmpty())
	g.Expect([]bool{o.Answers, o.Serving, o.Pod.Ready, o.Pod.AllContainersReady, o.Pod.BackupSidecarReady}).To(HaveEach(true))
	g.Expect(o.Pod.UID).To(BeEquivalentTo("m-2"))
	g.Expect(o.Pod.Revision).To(Equal("old"))
	g.Expect(p.Cluster.Voters).To(HaveLen(3))
}

// Healthy nodes take no member away. Members that answer catch up; the others cannot.
func TestNodesAndLogs(t *testing.T) {
	g := NewWithT(t)
	s := down(healthy(), 2)
	s.Ordinals[0].Pod.Node = cluster.Node{Name: "n", Trouble: "not ready", Cordoned: true}
	s.Ordinals[1].Pod, s.Ordinals[1].Class, s.Ordinals[2].Pod.Disrupted = nil, v1alpha1.ClassMissing, true
	s.Ordinals[0].AppliedIndex, s.Ordinals[1].AppliedIndex, s.Ordinals[2].AppliedIndex = 3, 9, 1
	p := projectionOf(s)
	p.settleNodes()
	g.Expect(p.Ordinals[0].Pod.Node).To(Equal(cluster.Node{Name: "n"}))
	g.Expect(p.Ordinals[2].Pod.Disrupted).To(BeFalse())
	p.catchUp()
	g.Expect(p.Ordinals[0].AppliedIndex).To(BeEquivalentTo(9))
	g.Expect(p.Ordinals[2].AppliedIndex).To(BeEquivalentTo(1))
}

func TestLeadershipMoves(t *testing.T) {
	g := NewWithT(t)
	p := projectionOf(healthy())
	p.lead(2)
	g.Expect(p.Leader()).To(Equal(2))
	g.Expect(p.Cluster.Leader).To(BeEquivalentTo(3))
	g.Expect([]v1alpha1.Role{p.Ordinals[0].Role, p.Ordinals[1].Role}).To(HaveEach(v1alpha1.RoleFollower))
}
