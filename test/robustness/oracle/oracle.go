// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package oracle judges what the operator has done to an etcd cluster, by the API server's audit log and by what the
// members themselves say. It shares no code with the operator, and imports nothing but the standard library: an error in
// how the operator sees a cluster is none in how the oracle does. The linter enforces it.
package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sample is what one member says at a time. Times are since the beginning of the run.
type Sample struct {
	At time.Duration `json:"at"`
	// Pod that was asked, and its UID.
	Pod string `json:"pod"`
	UID string `json:"uid"`
	// Answered is false if there was no answer; what follows is then empty.
	Answered bool `json:"answered,omitempty"`
	// Member is its ID, Leader the one that it knows, 0 for none.
	Member uint64 `json:"member,omitempty"`
	Leader uint64 `json:"leader,omitempty"`
	Term   uint64 `json:"term,omitempty"`
	// Committed is the last entry of the log that it knows to be committed, and Applied the last that it has applied.
	Committed uint64 `json:"committed,omitempty"`
	Applied   uint64 `json:"applied,omitempty"`
	// Voters are the IDs of the voting members that it knows; empty if it was not asked.
	Voters []uint64 `json:"voters,omitempty"`
	// Learners are the IDs of those without a vote. Earlier runs have none.
	Learners []uint64 `json:"learners,omitempty"`

	// behind is how many entries it lacks that its leader had committed.
	behind uint64
}

// Serves reports whether the member can serve: it is in touch with a leader, and not far behind it.
func (s Sample) Serves() bool { return s.Answered && s.Leader != 0 && s.behind <= lag }

// Outage is a time in which somebody has asked for the members to be stopped.
type Outage struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	What string        `json:"what"`
	// OnlyIfLost: there must be no quorum to begin with, as for a recovery.
	OnlyIfLost bool `json:"onlyIfLost,omitempty"`
	// Claims may be deleted.
	Claims bool `json:"claims,omitempty"`
}

// Fault is a fault that was injected.
type Fault struct {
	// From is when it began to be injected, Since when it was in effect, To when it had ended. Earlier runs have no Since.
	From  time.Duration `json:"from"`
	Since time.Duration `json:"since,omitempty"`
	To    time.Duration `json:"to"`
	Kind  string        `json:"kind"`
	// Target is what it was done to.
	Target string `json:"target"`
	// Evidence is how one knows that it was in effect; empty if it was not.
	Evidence string `json:"evidence,omitempty"`
	// EndsEtcd: it ends the etcd of the target, a pod, which restarts in its pod.
	EndsEtcd bool `json:"endsEtcd,omitempty"`
	// SparesWrites: it does not reach the members, so it cannot cost writes.
	SparesWrites bool `json:"sparesWrites,omitempty"`
}

// InEffect reports whether the fault was in effect at any time between two.
func (f Fault) InEffect(from, to time.Duration) bool {
	return f.Evidence != "" && max(f.From, f.Since) <= to && from <= f.To
}

// Cluster is what is judged.
type Cluster struct {
	// Namespace and Name of the StatefulSet.
	Namespace, Name string
	// Other is the StatefulSet that a migration moves it to. Earlier runs have none.
	Other string `json:",omitempty"`
	// Operator is the user that the operator is to the API server.
	Operator string
	// Members that it is meant to have.
	Members int
	// Began is when the run began, by the clock of the API server.
	Began time.Time
}

// sets are the StatefulSets of the members.
func (c Cluster) sets() []string {
	if c.Other == "" {
		return []string{c.Name}
	}
	return []string{c.Name, c.Other}
}

// runs reports whether a StatefulSet is one of them.
func (c Cluster) runs(set string) bool { return slices.Contains(c.sets(), set) }

// setOf returns the StatefulSet of a pod; empty if it is none of them.
func (c Cluster) setOf(pod string) string {
	for _, set := range c.sets() {
		if isMember(pod, set) {
			return set
		}
	}
	return ""
}

// allPods are all pods that the StatefulSets may have.
func (c Cluster) allPods() (pods []string) {
	for _, set := range c.sets() {
		pods = append(pods, beyond(set, 0)...)
	}
	return pods
}

// Verdict is the judgement of an act.
type Verdict string

// The verdicts.
const (
	// Safe: the remaining voters were a quorum, or the member contributed nothing.
	Safe Verdict = "safe"
	// Asked: somebody asked for the members to be stopped, or there are too few of them to go without one.
	Asked Verdict = "asked for"
	// Broken: there was no quorum to lose, and the member does not run, or there had been none for long.
	Broken Verdict = "already broken"
	// Race: it cost the quorum, because another member was lost too shortly before for the operator to know, or it took a member
	// of an election that had begun as shortly before.
	Race Verdict = "race"
	// Unsafe: it cost the quorum or data, or could have.
	Unsafe Verdict = "unsafe"
	// Unjudged: there is no sample of any member from that time.
	Unjudged Verdict = "unjudged"
)

// The contract that is judged. These are promises of docs/rollout.md, not values of the code.
const (
	// sight is how old what an act rests on may be: the operator promises four seconds, and a member has one to answer.
	sight = 5 * time.Second
	// moment is how recently a member must have served to count at the time of an act. It spans a slow answer.
	moment = time.Second
	// patience is the shortest time without a quorum after which a running member may be removed, and between two removals then.
	patience = 10 * time.Second
	// recoveryPatience is how long there must have been no quorum before a recovery stops the members: 30 s are promised, from
	// when the loss is seen. Here a member counts for a moment after its last answer, and is asked as long.
	recoveryPatience = 30*time.Second - 2*moment
	// lag is how many committed entries a member may lack that counts: with one that lacks more, nothing is committed for a while.
	lag = 5000
	// memory is how far the oracle looks back for a quorum.
	memory = 2 * time.Minute
)

// Kind is the kind of an act.
type Kind string

// The kinds of acts that can cost a quorum or data.
const (
	DeletePod    Kind = "delete pod"
	EvictPod     Kind = "evict pod"
	UpdatePod    Kind = "update pod in place"
	ScaleSet     Kind = "scale StatefulSet"
	DeleteSet    Kind = "delete StatefulSet"
	DeleteClaim  Kind = "delete claim"
	DeletePodsOf Kind = "delete collection of pods"
)

// Act is a request that was carried out, or may have been.
type Act struct {
	At   time.Duration `json:"at"`
	User string        `json:"user"`
	Kind Kind          `json:"kind"`
	// Perhaps: the API server answered that it failed or took too long, and may have carried it out.
	Perhaps bool `json:"perhaps,omitempty"`
	// Name of the object, and Pods that it removes or restarts.
	Name string   `json:"name"`
	Pods []string `json:"pods,omitempty"`
	// UID that the request names as a precondition, if it does.
	UID string `json:"uid,omitempty"`
	// Effect of an update in place, and what it changes.
	Effect Effect `json:"effect,omitempty"`
	Change Change `json:"change,omitempty"`
}

// stopsAll reports whether it scales the StatefulSet to zero.
func (a Act) stopsAll() bool { return a.Kind == ScaleSet && len(a.Pods) == maxMembers }

// Judgement is an act of the operator and its verdict.
type Judgement struct {
	Act
	Verdict Verdict `json:"verdict"`
	// Why is for people.
	Why string `json:"why"`
}

func (j Judgement) String() string {
	return fmt.Sprintf("%s %s: %s %s: %s", j.At.Round(time.Millisecond), j.Verdict, j.Kind, j.Name, j.Why)
}

// Judge judges every act of the operator, in order.
func Judge(cluster Cluster, acts []Act, containers *Containers, samples []Sample, outages []Outage) []Judgement {
	w := newWorld(cluster, acts, containers, samples)
	var all []Judgement
	for _, act := range acts {
		if act.User != cluster.Operator {
			continue
		}
		if act.Kind == ScaleSet && len(w.membersOf(act, nil)) == 0 {
			continue // it removes no member
		}
		verdict, why := w.judge(act, outages)
		all = append(all, Judgement{act, verdict, why})
	}
	return all
}

// judge judges one act.
func (w *world) judge(act Act, outages []Outage) (Verdict, string) {
	if act.Kind == UpdatePod && act.Effect == Keeps {
		return Safe, string(Keeps)
	}
	voters := w.votersAt(act.At)
	if len(voters) == 0 || !w.sighted(act.At) {
		return Unjudged, "no member had been seen"
	}
	removed := w.membersOf(act, voters)
	scene := w.scene(act, voters, removed)
	if outage, declared := during(outages, act.At); declared {
		if verdict, why := w.judgeDeclared(act, scene, outage); verdict != "" {
			return verdict, why
		}
	}
	if act.Kind == DeleteClaim {
		return judgeClaim(scene)
	}
	return w.judgeRemoval(act, scene)
}

func during(outages []Outage, at time.Duration) (Outage, bool) {
	for _, o := range outages {
		if o.From <= at && at <= o.To {
			return o, true
		}
	}
	return Outage{}, false
}

// judgeDeclared judges an act during an outage that somebody asked for; nothing, if the outage does not cover it. It covers that
// all members are stopped once, and what is done until the first is started again.
func (w *world) judgeDeclared(act Act, s scene, o Outage) (Verdict, string) {
	stopped, started := w.stoppedBy(o, act.At)
	switch {
	case o.OnlyIfLost && s.knownRest >= s.quorum, !act.stopsAll() && !stopped, started:
		return "", ""
	case o.OnlyIfLost && w.quorumWithin(max(0, act.At-recoveryPatience), act.At) && !stopped:
		return Unsafe, fmt.Sprintf("%s is for a quorum that is lost, and this one was there less than %s ago", o.What, recoveryPatience)
	case act.Kind == DeleteClaim && !o.Claims:
		return "", ""
	case act.Kind == DeleteClaim && len(s.present) > 0:
		return Unsafe, fmt.Sprintf("%s allows to delete claims once the members have stopped, and %s serves", o.What, strings.Join(s.present, ", "))
	}
	return Asked, o.What
}

func judgeClaim(s scene) (Verdict, string) {
	switch {
	case len(s.present) > 0:
		return Unsafe, fmt.Sprintf("%s serves from it", strings.Join(s.present, ", "))
	case s.knownRest < s.quorum:
		return Unsafe, fmt.Sprintf("%d of %d voters serve, so its data may be the only one", s.knownRest, s.voters)
	}
	return Safe, fmt.Sprintf("its member does not serve, and %d of %d voters do", s.knownRest, s.voters)
}

func (w *world) judgeRemoval(act Act, s scene) (Verdict, string) {
	left := fmt.Sprintf("%d of %d voters remain, and the quorum is %d", s.knownRest, s.voters, s.quorum)
	if s.why != "" {
		left += "; " + s.why
	}
	switch {
	case s.known >= s.quorum && s.knownRest >= s.quorum && s.nowRest < s.quorum && (s.now >= s.quorum || len(s.present) > 0):
		return Race, fmt.Sprintf("%d of %d voters remain: others were lost within the %s that an observation may be old; %s", s.nowRest, s.voters, sight, s.why)
	case s.known >= s.quorum && s.knownRest >= s.quorum:
		return Safe, left
	case s.now < s.quorum && s.ended:
		return Broken, "there is no quorum, and the kubelet had reported that its etcd has ended"
	case s.known >= s.quorum && w.cluster.Members < 3:
		return Asked, fmt.Sprintf("a cluster of %d cannot do without one", w.cluster.Members)
	case s.known >= s.quorum:
		return Unsafe, left
	case len(s.running) == 0:
		return Broken, "there is no quorum, and its member does not run"
	case w.quorumWithin(max(0, act.At-patience), act.At):
		return Unsafe, fmt.Sprintf("%s runs, and there was a quorum less than %s ago: it might have come back by itself; %s", strings.Join(s.running, ", "), patience, left)
	}
	if other, found := w.removedLately(act); found {
		return Unsafe, fmt.Sprintf("%s runs, and %s was removed %s ago: without a quorum members are removed one at a time", strings.Join(s.running, ", "), other.Name, act.At-other.At)
	}
	return Broken, fmt.Sprintf("there has been no quorum for %s", patience)
}
