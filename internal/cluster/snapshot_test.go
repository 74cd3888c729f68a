// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// serving is a cluster of n members, all of which serve. The first leads.
func serving(n int) *Snapshot {
	s := &Snapshot{StatefulSet: StatefulSet{UpdateRevision: "new"}, Cluster: Cluster{LeaderKnown: true}}
	for i := range n {
		name := fmt.Sprintf("m-%d", i)
		s.Ordinals = append(s.Ordinals, Ordinal{
			Name: name, Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower, Answers: true, Serving: true, Pod: &Pod{UID: types.UID(name), Revision: "new"},
		})
		s.Cluster.Voters = append(s.Cluster.Voters, Voter{Name: name, Ordinal: i, Serving: true})
	}
	s.Ordinals[0].Role = v1alpha1.RoleLeader
	return s
}

// A quorum are most of the voters, and it serves once a leader is known.
func TestQuorate(t *testing.T) {
	g := NewWithT(t)
	for n, c := range map[int]struct{ quorum, down int }{1: {1, 0}, 3: {2, 1}, 5: {3, 2}} {
		s := serving(n)
		g.Expect(s.Quorum()).To(Equal(c.quorum))
		for i := range c.down {
			s.Cluster.Voters[i].Serving = false
			g.Expect(s.ServingVotersWithout(i)).To(Equal(n - i - 1))
			g.Expect(s.ServingVotersWithout(n - 1)).To(Equal(n - i - 2))
		}
		g.Expect(s.ServingVoters()).To(Equal(n - c.down))
		g.Expect(s.HasQuorum()).To(BeTrue())
		g.Expect(s.Quorate()).To(BeTrue())
		s.Cluster.LeaderKnown = false
		g.Expect(s.Quorate()).To(BeFalse(), "they know no leader")
		s.Cluster.LeaderKnown, s.Cluster.Voters[n-1].Serving = true, false
		g.Expect(s.HasQuorum()).To(BeFalse())
		g.Expect(s.Quorate()).To(BeFalse())
	}
	g.Expect((&Snapshot{}).HasQuorum()).To(BeFalse(), "of no voters there is none")
}

// Pods are found, and counted by what they are.
func TestPods(t *testing.T) {
	g := NewWithT(t)
	s := serving(3)
	behind := func() []int { outdated, missing := s.PodsBehind(); return []int{outdated, missing} }
	g.Expect(behind()).To(Equal([]int{0, 0}))
	s.Ordinals[1].Pod.Updating = true
	g.Expect(behind()).To(Equal([]int{1, 0}), "an update in place has begun")
	s.Ordinals[0].Pod.Revision = "old"
	g.Expect(behind()).To(Equal([]int{2, 0}))
	s.Ordinals[2].Pod = nil
	g.Expect(behind()).To(Equal([]int{2, 1}))
	g.Expect(s.OrdinalOf("m-1")).To(Equal(1))
	g.Expect(s.OrdinalOf("m-2")).To(Equal(-1))
	g.Expect(s.OrdinalOf("")).To(Equal(-1), "a pod that does not exist has no UID")
	g.Expect(s.Replicas()).To(Equal(3))
	g.Expect(s.Participating()).To(Equal(3))
	s.Ordinals[0].Class = v1alpha1.ClassUnready
	g.Expect(s.Participating()).To(Equal(2))
	g.Expect(s.Leader()).To(Equal(0))
	s.Ordinals[0].Role = v1alpha1.RoleUnknown
	g.Expect(s.Leader()).To(Equal(-1))
}

// What a cluster lacks for another disruption is named; one member is left out, since it is the one to be disrupted.
func TestWhoIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		change                       func(s *Snapshot)
		notParticipating, notServing string
	}{
		"none":                             {func(*Snapshot) {}, "", ""},
		"only the one that is left out":    {func(s *Snapshot) { s.Ordinals[1].Class, s.Ordinals[1].Serving = v1alpha1.ClassDead, false }, "", ""},
		"one that does not answer":         {func(s *Snapshot) { s.Ordinals[0].Class, s.Ordinals[0].Serving = v1alpha1.ClassUnready, false }, "m-0", "m-0"},
		"one that serves and is not ready": {func(s *Snapshot) { s.Ordinals[2].Class = v1alpha1.ClassUnready }, "m-2", ""},
		"a learner": {func(s *Snapshot) {
			s.Ordinals[2].Class, s.Ordinals[2].Role = v1alpha1.ClassUnready, v1alpha1.RoleLearner
		}, "m-2", "m-2"},
		"one that ends": {func(s *Snapshot) { s.Ordinals[2].Class = v1alpha1.ClassTerminating }, "m-2", "m-2"},
		"a surplus pod": {func(s *Snapshot) { s.Surplus = []string{"m-3"} }, "m-3", ""},
	} {
		s := serving(3)
		c.change(s)
		NewWithT(t).Expect(s.NotParticipating(1)).To(Equal(c.notParticipating), name)
		NewWithT(t).Expect(s.NotServing(1)).To(Equal(c.notServing), name)
	}
	terminating := Ordinal{Serving: true, Class: v1alpha1.ClassTerminating}
	NewWithT(t).Expect(terminating.Serves()).To(BeFalse())
	NewWithT(t).Expect((&serving(1).Ordinals[0]).Serves()).To(BeTrue())
	NewWithT(t).Expect((&Ordinal{Class: v1alpha1.ClassUnready}).Serves()).To(BeFalse())
}

// All of a cluster is something only if its voters are exactly the members of the StatefulSet, and all participate.
func TestEveryMember(t *testing.T) {
	ready := func(p *Pod) bool { return p.Revision == "new" }
	for name, c := range map[string]struct {
		change func(s *Snapshot)
		want   bool
	}{
		"every one":                      {func(*Snapshot) {}, true},
		"one is not":                     {func(s *Snapshot) { s.Ordinals[2].Pod.Revision = "old" }, false},
		"one does not participate":       {func(s *Snapshot) { s.Ordinals[1].Class = v1alpha1.ClassUnready }, false},
		"one is no voter":                {func(s *Snapshot) { s.Cluster.Voters = s.Cluster.Voters[:2] }, false},
		"there is a foreign voter":       {func(s *Snapshot) { s.Cluster.Voters = append(s.Cluster.Voters, Voter{Ordinal: -1}) }, false},
		"a foreign voter instead of one": {func(s *Snapshot) { s.Cluster.Voters[0].Ordinal = -1 }, false},
	} {
		s := serving(3)
		c.change(s)
		NewWithT(t).Expect(s.EveryMember(ready)).To(Equal(c.want), name)
	}
}

// A voter votes as leader or follower.
func TestVotes(t *testing.T) {
	for role, votes := range map[v1alpha1.Role]bool{v1alpha1.RoleLeader: true, v1alpha1.RoleFollower: true, v1alpha1.RoleLearner: false, v1alpha1.RoleUnknown: false} {
		NewWithT(t).Expect(Ordinal{Role: role}.Votes()).To(Equal(votes), string(role))
	}
	NewWithT(t).Expect(Ordinal{Class: v1alpha1.ClassDead, Pod: &Pod{}}.Describe()).To(Equal("Dead"))
}
