// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// state is an Input with what is derived from it, and with the slots that tasks ahead in line will take.
type state struct {
	Input
	served map[string]float64
	// aged are the classes that go up by one, and oldest is since when a namespace has waited.
	aged   map[Class]bool
	oldest map[string]time.Time
	// asked is since when a task has waited with each change.
	asked map[string]time.Time
	taken []Holder
	// usage is who uses the slots of each policy.
	usage map[string]*usage
	// stretches caches longest, by policy.
	stretches map[string]time.Duration
	// openings are whether tasks may start now, by each policy, as far as that was asked for.
	openings map[string]*opened
}

// opened is the answer of Policy.Opens.
type opened struct {
	open         bool
	closes, next time.Time
}

// usage is who uses the slots of a policy.
type usage struct {
	// holders use slots of the ledger; impaired clusters hold none, and count as if they did.
	holders  []*Holder
	impaired []Impaired
}

func newState(in Input) *state {
	s := &state{Input: in, served: map[string]float64{}, aged: map[Class]bool{}, oldest: map[string]time.Time{}, asked: map[string]time.Time{}, usage: map[string]*usage{}, stretches: map[string]time.Duration{}, openings: map[string]*opened{}}
	maps.Copy(s.served, in.Served)
	s.age()
	for name := range in.Policies {
		s.usage[name] = &usage{}
	}
	holding := map[types.UID]bool{}
	for i := range in.Ledger.Holders {
		h := &in.Ledger.Holders[i]
		holding[h.Etcd] = holding[h.Etcd] || h.UsesSlot()
		s.use(h)
	}
	for _, impaired := range in.Impaired {
		if !holding[impaired.Etcd] {
			for _, p := range in.Covering[impaired.Namespace] {
				if u := s.usage[p]; u != nil {
					u.impaired = append(u.impaired, impaired)
				}
			}
		}
	}
	return s
}

// use counts a holder in each policy that granted its slot, or that selects its namespace by now.
func (s *state) use(h *Holder) {
	if !h.UsesSlot() {
		return
	}
	for name, u := range s.usage {
		if slices.Contains(h.Policies, name) || slices.Contains(s.Covering[h.Namespace], name) {
			u.add(h)
		}
	}
}

// add counts a cluster once, however many of its tasks hold a slot. A task that repairs it counts first.
func (u *usage) add(h *Holder) {
	i := slices.IndexFunc(u.holders, func(o *Holder) bool { return o.Etcd == h.Etcd })
	switch {
	case i < 0:
		u.holders = append(u.holders, h)
	case h.Impaired:
		u.holders[i] = h
	}
}

// take gives a task ahead in line its slot.
func (s *state) take(c *Candidate, canary bool) {
	h := s.holder(c, canary)
	s.use(&h)
	s.taken = append(s.taken, h)
	s.served[c.Namespace]++
}

func (s *state) holder(c *Candidate, canary bool) Holder {
	return Holder{
		Task: c.Task, TaskName: c.TaskName, Namespace: c.Namespace, Etcd: c.Etcd, EtcdName: c.EtcdName, Change: c.Change, Target: c.Target,
		Policies: s.Covering[c.Namespace], Canary: canary, Impaired: c.Class == Repair, BackedUp: c.BackedUp, Alarm: c.Alarm, Granted: s.Now,
	}
}

// underway returns the clusters of a policy in which the change of a task, or its template while that is unproven, is being tried: their
// task runs, or they are watched.
func (s *state) underway(p *Policy, c *Candidate) (all []*Holder) {
	unproven := s.Ledger.unproven(p.Name, c.Target)
	for _, holders := range [][]Holder{s.Ledger.Holders, s.taken} {
		for i := range holders {
			h := &holders[i]
			if (h.Change == c.Change || unproven && h.Target == c.Target) && !h.Counted && (slices.Contains(h.Policies, p.Name) || slices.Contains(s.Covering[h.Namespace], p.Name)) {
				all = append(all, h)
			}
		}
	}
	return all
}
