// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

// A probe vouches for a voter only if it proves that the voter can read through the quorum now.
func TestVouch(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Pod)
		serves bool
	}{
		"its probe passes":                   {func(*Pod) {}, true},
		"its probe fails":                    {func(p *Pod) { p.Ready = false }, false},
		"it has no probe":                    {func(p *Pod) { p.Probed = false }, false},
		"its probe passes for learners, too": {func(p *Pod) { p.EtcdVersion = "3.5.18" }, false},
		"its version is unknown":             {func(p *Pod) { p.EtcdVersion = "" }, false},
		"its node is lost":                   {func(p *Pod) { p.Node.Trouble = "not ready" }, false},
		"it is about to be evicted":          {func(p *Pod) { p.Disrupted = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &Pod{Ready: true, Probed: true, EtcdVersion: "3.6.8"}
			c.change(pod)
			s := &Snapshot{Ordinals: []Ordinal{{Name: "m-0", Class: v1alpha1.ClassUnready, Pod: pod}, {Name: "m-1", Pod: pod}}}
			s.Cluster.Voters = []Voter{{Ordinal: 0}, {Ordinal: 1}, {Ordinal: -1}}
			v := s.Vouch([]int{0})
			if v.Cluster.Voters[0].Serving != c.serves {
				t.Errorf("serving: %t", v.Cluster.Voters[0].Serving)
			}
			if v.Cluster.Voters[1].Serving || v.Cluster.Voters[2].Serving || s.Cluster.Voters[0].Serving {
				t.Error("another voter serves, or the original has changed")
			}
		})
	}
}

// Where members are out of reach, those are taken for participating whose probe proves that they vote, and roles are those of the leases.
func TestByReadiness(t *testing.T) {
	g := NewWithT(t)
	unready := func(change func(*Ordinal)) Ordinal {
		o := Ordinal{Class: v1alpha1.ClassUnready, Role: v1alpha1.RoleUnknown, LeaseRole: v1alpha1.RoleFollower, Pod: &Pod{Ready: true, Probed: true, EtcdVersion: FirstNonLearnerProbe}}
		if change != nil {
			change(&o)
		}
		return o
	}
	s := &Snapshot{Ordinals: []Ordinal{
		unready(nil),
		unready(func(o *Ordinal) { o.Pod.EtcdVersion, o.LeaseRole = "3.5.18", v1alpha1.RoleUnknown }),
		unready(func(o *Ordinal) { o.Pod.Ready, o.LeaseRole = false, v1alpha1.RoleLeader }),
		{Class: v1alpha1.ClassTerminating, Pod: &Pod{Ready: true, Probed: true, EtcdVersion: "3.6.0"}},
		{Class: v1alpha1.ClassMissing},
	}, Cluster: Cluster{Voters: []Voter{{Name: "of another time"}}}}
	got := s.ByReadiness()
	var classes []v1alpha1.PodClass
	var serving, unproven []bool
	for i, o := range got.Ordinals {
		classes, serving, unproven = append(classes, o.Class), append(serving, o.Serving), append(unproven, o.Unproven)
		g.Expect(o.Role).To(Equal(o.LeaseRole))
		g.Expect(got.Cluster.Voters[i]).To(Equal(Voter{Name: o.Name, Ordinal: i, Serving: o.Serving}))
	}
	g.Expect(classes).To(Equal([]v1alpha1.PodClass{v1alpha1.ClassParticipating, v1alpha1.ClassUnready, v1alpha1.ClassUnready, v1alpha1.ClassTerminating, v1alpha1.ClassMissing}))
	g.Expect(serving).To(Equal([]bool{true, false, false, false, false}))
	g.Expect(unproven).To(Equal([]bool{false, true, false, false, false}), "a learner's probe may pass before 3.5.19")
	g.Expect(got.Cluster.Voters).To(HaveLen(5))
	g.Expect(got.Cluster.LeaderKnown).To(BeTrue(), "a linearizable read went through")
	g.Expect(s.Ordinals[0].Class).To(Equal(v1alpha1.ClassUnready), "the original is left as it is")
	g.Expect(s.Cluster.LeaderKnown).To(BeFalse())

	s.Ordinals = s.Ordinals[2:]
	g.Expect(s.ByReadiness().Cluster.LeaderKnown).To(BeFalse(), "no probe passes")
}

// Members that do not answer the operator may be a quorum for others if something says that one of them still runs, and as many may run as a
// quorum takes.
func TestUnreachable(t *testing.T) {
	silent := func(change func(*Ordinal)) func(*Ordinal) {
		return func(o *Ordinal) {
			o.Answers, o.Class, o.Pod = false, v1alpha1.ClassUnready, &Pod{EtcdStarted: time.Unix(1, 0)}
			if change != nil {
				change(o)
			}
		}
	}
	ready := silent(func(o *Ordinal) { o.Pod.Ready = true })
	stopped := silent(func(o *Ordinal) { o.Class = v1alpha1.ClassDead })
	foreign := func(serving bool) func(*Snapshot) {
		return func(s *Snapshot) { s.Cluster.Voters = append(s.Cluster.Voters, Voter{Ordinal: -1, Serving: serving}) }
	}
	for name, c := range map[string]struct {
		ordinals []func(*Ordinal)
		change   func(*Snapshot)
		names    []string
		quorate  bool
	}{
		"all answer":                             {},
		"one does not":                           {ordinals: []func(*Ordinal){ready}, names: []string{"m-0"}},
		"two do not":                             {ordinals: []func(*Ordinal){ready, ready}, names: []string{"m-0", "m-1"}, quorate: true},
		"two do not, and the probe of one fails": {ordinals: []func(*Ordinal){ready, silent(nil)}, names: []string{"m-0"}, quorate: true},
		"two do not, and both probes fail":       {ordinals: []func(*Ordinal){silent(nil), silent(nil)}},
		"two do not, of which one is stopped":    {ordinals: []func(*Ordinal){ready, stopped}, names: []string{"m-0"}},
		"three of four, of which one is foreign": {ordinals: []func(*Ordinal){ready, ready}, change: foreign(false), names: []string{"m-0", "m-1"}, quorate: true},
		"two of four":                            {ordinals: []func(*Ordinal){ready, ready}, change: foreign(true), names: []string{"m-0", "m-1"}},
		"no list of members is known":            {ordinals: []func(*Ordinal){ready, ready}, change: func(s *Snapshot) { s.Cluster.Voters = nil }, names: []string{"m-0", "m-1"}, quorate: true},
		"no list, and one does not answer":       {ordinals: []func(*Ordinal){ready}, change: func(s *Snapshot) { s.Cluster.Voters = nil }, names: []string{"m-0"}},
		"no list, and one voted at last":         {ordinals: []func(*Ordinal){ready}, change: func(s *Snapshot) { s.Cluster.Voters, s.LastVoters = nil, 1 }, names: []string{"m-0"}, quorate: true},
		"no list, and five voted at last":        {ordinals: []func(*Ordinal){ready, ready}, change: func(s *Snapshot) { s.Cluster.Voters, s.LastVoters = nil, 5 }, names: []string{"m-0", "m-1"}, quorate: true},
	} {
		s := serving(3)
		for i, change := range c.ordinals {
			change(&s.Ordinals[i])
			s.Cluster.Voters[i].Serving = false
		}
		if c.change != nil {
			c.change(s)
		}
		names, quorate := s.Unreachable()
		NewWithT(t).Expect(names).To(Equal(c.names), name)
		NewWithT(t).Expect(quorate).To(Equal(c.quorate), name)
	}
}

// A probe that passes proves a quorum if it reads through it, and its report is not from a node that is lost.
func TestProvesQuorum(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Ordinal)
		proves bool
	}{
		"it passes":       {func(*Ordinal) {}, true},
		"it fails":        {func(o *Ordinal) { o.Pod.Ready = false }, false},
		"there is none":   {func(o *Ordinal) { o.Pod.Probed = false }, false},
		"it is old":       {func(o *Ordinal) { o.Pod.NodeLost = true }, false},
		"it answers also": {func(o *Ordinal) { o.Class = v1alpha1.ClassParticipating }, false},
	} {
		o := Ordinal{Class: v1alpha1.ClassUnready, Pod: &Pod{Ready: true, Probed: true}}
		c.change(&o)
		NewWithT(t).Expect(o.ProvesQuorum()).To(Equal(c.proves), name)
	}
}
