// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package projection

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
	p := Of(s)
	p.Remove([]int{0})
	g.Expect(p.Ordinals[0].Class).To(Equal(v1alpha1.ClassMissing))
	g.Expect(p.HasQuorum()).To(BeTrue())
	g.Expect(p.Leader()).To(Equal(1))
	g.Expect(p.Elected).To(BeTrue())
	p.Replace([]int{0}, noon)
	g.Expect(p.Participating()).To(Equal(3))
	g.Expect(p.Ordinals[0].Pod.Revision).To(Equal("new"))
	g.Expect(p.Leader()).To(Equal(1), "leadership does not move back")
	g.Expect(s).To(Equal(healthy()), "the original snapshot is unchanged")
}

func TestNoLeaderWithoutAQuorum(t *testing.T) {
	g := NewWithT(t)
	p := Of(healthy())
	p.Remove([]int{1, 2})
	g.Expect(p.Cluster.LeaderKnown).To(BeFalse())
	g.Expect(p.Participating()).To(BeZero())
	g.Expect(p.Ordinals[0].Answers).To(BeTrue())
	p.Recover("m-1", noon)
	g.Expect(p.Cluster.LeaderKnown).To(BeTrue())
	g.Expect(p.Participating()).To(Equal(2))
}

func TestALearnerThatRecoversVotes(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	s.Ordinals[2].Role, s.Ordinals[2].Class = v1alpha1.RoleLearner, v1alpha1.ClassUnready
	s.Cluster.Voters = s.Cluster.Voters[:2]
	p := Of(s)
	p.Recover("m-2", noon)
	g.Expect(p.Cluster.Voters).To(HaveLen(3))
	g.Expect(p.Participating()).To(Equal(3))
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
			p := Of(s)
			p.Recover(missing.Name, noon)
			p.Recover(terminating.Name, noon)
			g.Expect(p.Participating()).To(Equal(3))
			g.Expect(p.Elected).To(BeTrue())
		})
	}
}

func TestRecoveredSurplusPodsAreRemoved(t *testing.T) {
	g := NewWithT(t)
	s := healthy()
	s.Surplus = []string{"m-9"}
	p := Of(s)
	p.Recover("m-9", noon)
	g.Expect(p.Surplus).To(BeEmpty())
}
