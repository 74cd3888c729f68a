// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The kinds of changes of the member list. They are no requests to the API server: what members list is recorded. Outside of a recovery
// only the operator changes it.
const (
	AddLearner     Kind = "add learner"
	AddVoter       Kind = "add voter without a learner's time"
	PromoteLearner Kind = "promote learner"
	RemoveLearner  Kind = "remove learner"
	RemoveVoter    Kind = "remove voter"
)

// learnerLag is how many committed entries a learner may lack when it gets its vote: promised in docs/membership.md.
const learnerLag = 100

// role is what a member is in a list.
type role int

const (
	unlisted role = iota
	learner
	voter
)

func (s Sample) roleOf(id uint64) role {
	switch {
	case slices.Contains(s.Voters, id):
		return voter
	case slices.Contains(s.Learners, id):
		return learner
	}
	return unlisted
}

// change is one change of the member list, when it was seen first, and the voters and learners before it.
type change struct {
	at               time.Duration
	id               uint64
	from, to         role
	voters, learners []uint64
}

// Membership judges every change of the member list, and what is left of migrations. In a time that somebody has asked for, members join
// by themselves, as in a recovery.
func Membership(cluster Cluster, acts []Act, samples []Sample, outages []Outage, migrations []Migration) []Judgement {
	w := newWorld(cluster, acts, &Containers{}, samples)
	var all []Judgement
	for _, c := range w.changes() {
		j := Judgement{Act: Act{At: c.at, User: cluster.Operator, Kind: c.kind(), Name: w.nameOf(c.id, c.at)}}
		if o, declared := during(outages, c.at); declared {
			j.Verdict, j.Why = Asked, o.What
		} else {
			j.Verdict, j.Why = w.judgeChange(c)
			if verdict, why := w.judgeMigrating(c, migrations); verdict != "" && j.Verdict != Unsafe {
				j.Verdict, j.Why = verdict, why
			}
		}
		all = append(all, j)
	}
	return append(all, w.leftBehind(migrations)...)
}

// roll is the member list as it is known so far.
type roll struct {
	roles map[uint64]role
	// gone are the members that were removed, or are of the cluster before a recovery. No ID comes back.
	gone map[uint64]bool
	all  []change
}

// changes are the changes of the member list, in order. A member goes from learner to voter to nowhere, so that a list in which it is less
// than before is an old one, as a member shows that catches up.
func (w *world) changes() []change {
	r := roll{map[uint64]role{}, map[uint64]bool{}, nil}
	for _, s := range w.lists {
		listed := slices.Concat(s.Voters, s.Learners)
		if !slices.ContainsFunc(listed, func(id uint64) bool { return r.roles[id] != unlisted }) {
			r.begin(s, listed)
			continue
		}
		for _, id := range listed {
			if s.roleOf(id) > r.roles[id] && !r.gone[id] {
				r.note(s.At, id, s.roleOf(id))
			}
		}
		for _, id := range append(r.of(voter), r.of(learner)...) {
			if s.roleOf(id) == unlisted && w.listedBy(s, id) {
				r.note(s.At, id, unlisted)
			}
		}
	}
	return r.all
}

// begin takes a list as it is that has nobody in common with the one before: the first one, or that of a recovered cluster.
func (r *roll) begin(s Sample, listed []uint64) {
	if slices.ContainsFunc(listed, func(id uint64) bool { return r.gone[id] }) {
		return // it is of the cluster before
	}
	for id := range r.roles {
		r.gone[id] = true
	}
	clear(r.roles)
	for _, id := range listed {
		r.roles[id] = s.roleOf(id)
	}
}

func (r *roll) note(at time.Duration, id uint64, to role) {
	r.all = append(r.all, change{at, id, r.roles[id], to, r.of(voter), r.of(learner)})
	if r.roles[id] = to; to == unlisted {
		delete(r.roles, id)
		r.gone[id] = true
	}
}

func (r *roll) of(is role) (ids []uint64) {
	for id, role := range r.roles {
		if role == is {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// listedBy reports whether the member of a sample listed another one before: if not, it may not have heard of it yet.
func (w *world) listedBy(s Sample, id uint64) bool {
	return slices.ContainsFunc(before(w.samples[s.Member], s.At), func(earlier Sample) bool { return earlier.roleOf(id) != unlisted })
}

func (c change) kind() Kind {
	switch {
	case c.to == learner:
		return AddLearner
	case c.to == voter && c.from == learner:
		return PromoteLearner
	case c.to == voter:
		return AddVoter
	case c.from == learner:
		return RemoveLearner
	}
	return RemoveVoter
}

// nameOf is the pod of a member, or its ID while none has answered as it.
func (w *world) nameOf(id uint64, at time.Duration) string {
	if seen := before(w.samples[id], at); len(seen) > 0 {
		return seen[len(seen)-1].Pod
	}
	return fmt.Sprintf("member %x", id)
}

func (w *world) judgeChange(c change) (Verdict, string) {
	switch c.kind() {
	case RemoveVoter:
		return w.judgeRemovedVoter(c)
	case PromoteLearner:
		return w.judgePromotion(c)
	case AddVoter:
		return w.judgeAddedVoter(c)
	case AddLearner:
		if len(c.learners) > 0 {
			return Unsafe, fmt.Sprintf("%s is a learner already, and one at a time is promised", w.nameOf(c.learners[0], c.at))
		}
	}
	return Safe, "a learner has no vote"
}

// judgeAddedVoter: between two lists of one member, which are a quarter of a second apart, a learner may get its vote. It has to have served
// before.
func (w *world) judgeAddedVoter(c change) (Verdict, string) {
	if w.servedWithin(c.id, c.at, sight) {
		return Safe, "it served before it was seen to vote"
	}
	return Unsafe, "it votes, and never was a learner that serves"
}

func (w *world) judgePromotion(c change) (Verdict, string) {
	if least, answered := w.leastLag(c.id, c.at); !answered {
		return Unsafe, fmt.Sprintf("it got its vote, and did not serve in the %s before", sight)
	} else if least > learnerLag {
		return Unsafe, fmt.Sprintf("it got its vote, and lacked %d entries at least in the %s before; %d are promised", least, sight, learnerLag)
	}
	known, now, down := w.serving(c, c.voters)
	needed := (len(c.voters)+1)/2 + 1
	if len(c.voters) == 1 {
		needed = 1 // the two have to serve together
	}
	return quorumOf(known, now, needed, fmt.Sprintf("%d of %d voters beside it serve, and the quorum is %d%s", known, len(c.voters), needed, down))
}

// judgeRemovedVoter: it does not lead, and those that remain are a quorum of the list without it. If it serves, every other voter does; if it
// does not, the others are a quorum of the list with it, or etcd could not have removed it.
func (w *world) judgeRemovedVoter(c change) (Verdict, string) {
	if w.leadsAt(c.id, c.at) {
		return Unsafe, "it led, and did not hand over"
	}
	others := slices.DeleteFunc(slices.Clone(c.voters), func(id uint64) bool { return id == c.id })
	known, now, down := w.serving(c, others)
	if known < len(others) && w.servedWithin(c.id, c.at, moment) {
		return Unsafe, fmt.Sprintf("%d of %d other voters serve%s: one that serves is removed only while every other one does", known, len(others), down)
	}
	return quorumOf(known, now, len(others)/2+1, fmt.Sprintf("%d of %d voters remain%s", now, len(others), down))
}

// quorumOf judges how many voters serve: as far as the operator can know, and now.
func quorumOf(known, now, needed int, why string) (Verdict, string) {
	switch {
	case known < needed:
		return Unsafe, why
	case now < needed:
		return Race, why
	}
	return Safe, why
}

// serving is how many voters serve before a change, as far as the operator can know, and now; and which do not.
func (w *world) serving(c change, voters []uint64) (known, now int, down string) {
	var missing []string
	for _, id := range voters {
		serves := w.servedWithin(id, c.at, seen)
		known, now = known+one(serves), now+one(w.servedWithin(id, c.at, moment))
		if !serves {
			missing = append(missing, w.describe(id, c.at))
		}
	}
	if len(missing) > 0 {
		down = "; " + strings.Join(missing, ", ")
	}
	return known, now, down
}

// seen is how long before a change is seen in a list its observation may be: that of an act, and the time between two lists.
const seen = sight + moment

// leastLag is the least that a learner lacked in the time before it got its vote, and whether it served in it.
func (w *world) leastLag(id uint64, at time.Duration) (least uint64, answered bool) {
	samples := before(w.samples[id], at)
	for i := len(samples) - 1; i >= 0 && at-samples[i].At <= seen; i-- {
		if s := samples[i]; s.Leader != 0 && (!answered || s.behind < least) {
			least, answered = s.behind, true
		}
	}
	return least, answered
}

// leadsAt reports whether a member led the newest term that any member knew before a time.
func (w *world) leadsAt(id uint64, at time.Duration) bool {
	var newest Sample
	for _, samples := range w.samples {
		known := before(samples, at)
		for i := len(known) - 1; i >= 0 && at-known[i].At <= seen; i-- {
			if s := known[i]; s.Leader != 0 && (s.Term > newest.Term || s.Term == newest.Term && s.At > newest.At) {
				newest = s
			}
		}
	}
	return newest.Leader == id
}
