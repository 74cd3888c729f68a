// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
)

// Conclusion of a decision.
type Conclusion string

// The conclusions.
const (
	// Wait: a guard blocks, or a pod has yet to participate.
	Wait Conclusion = "Wait"
	// Act: carry out the step.
	Act Conclusion = "Act"
	// Paused: the rollout was told to pause, and the cluster is whole.
	Paused Conclusion = "Paused"
	// Finished: every ordinal has a pod at the target revision, and all participate.
	Finished Conclusion = "Finished"
	// Superseded: the target revision is no longer the StatefulSet's.
	Superseded Conclusion = "Superseded"
	// Disengaged: another operator replaces the pods, or the StatefulSet controller does because the update strategy is no longer OnDelete.
	Disengaged Conclusion = "Disengaged"
)

// Decision is what to do next, and why.
type Decision struct {
	Conclusion Conclusion
	// Blocking are the guards that block, in their order, with Wait; at least one.
	Blocking []Hold
	// Blocked is the step that they block, with Wait; nil if there is none.
	Blocked *Step
	// Step, with Act.
	Step *Step
}

// Hold returns the first guard that blocks, with its message; nil if none does.
func (d Decision) Hold() *Hold {
	if len(d.Blocking) == 0 {
		return nil
	}
	return &d.Blocking[0]
}

// Hold is a guard that blocks a step, and why.
type Hold = v1alpha1.BlockedBy

// Decide returns what to do next.
func Decide(in Input, now time.Time) Decision { return standard.decide(newState(in, now)) }

// policy has the order of the pods, the guards and the grace periods. Tests replace parts of it, to prove that every part is needed.
type policy struct {
	guards   []guard
	precedes func(s *state, a, b int) int
	period   func(o *cluster.Ordinal, short time.Duration, cutOff bool) (time.Duration, string)
}

var standard = policy{guards: guards, precedes: precedes, period: gracePeriod}

func (p policy) decide(s *state) Decision {
	if len(s.blocking(p.guards, nil)) > 0 {
		return Decision{Conclusion: Wait, Blocking: p.holding(s)}
	}
	decision := p.proceed(s)
	if revoked := s.intentsBut(decision); len(revoked) > 0 {
		// The operator that recorded this intent may still carry it out. Nothing else is done until that is impossible.
		return Decision{Conclusion: Act, Step: &Step{Action: RevokeDeletion, Ordinals: revoked, Reason: fmt.Sprintf(
			"its %s was recorded and not carried out, and is no longer the next step", inplace.Describe(s.recordOf(s.ordinal(revoked[0]).Pod.UID).LastOperation.Name))}}
	}
	return decision
}

func (p policy) proceed(s *state) Decision {
	switch set := s.Snapshot.StatefulSet; {
	case !set.OnDelete || set.Objection != "":
		return Decision{Conclusion: Disengaged}
	case set.UpdateRevision != s.target:
		return Decision{Conclusion: Superseded}
	}
	next, found := s.first(p.precedes)
	switch {
	case !found:
		return s.finish()
	case s.Pausing && s.isWhole():
		return Decision{Conclusion: Paused}
	}
	step := s.candidate(next)
	s.shorten(step, p.period)
	holds := s.blocking(p.guards, step)
	if len(holds) == 0 {
		return Decision{Conclusion: Act, Step: step}
	}
	if other := p.harmless(s, next); other != nil {
		return Decision{Conclusion: Act, Step: other}
	}
	return Decision{Conclusion: Wait, Blocking: holds, Blocked: step}
}

// isWhole reports whether the cluster can be left unchanged during a pause. Requested removals that are not visible are revoked before
// that. A change of size that has not begun waits for the rollout; an even number of voters means that one is in progress.
func (s *state) isWhole() bool {
	halfway := func(o cluster.Ordinal) bool { return o.Pod != nil && o.Pod.Updating }
	own := s.ownVoters()
	changes := own != s.Snapshot.Replicas() || s.Snapshot.Changing && own%2 == 0
	return s.Snapshot.NotParticipating(-1) == "" && !changes && !slices.ContainsFunc(s.Snapshot.Ordinals, halfway)
}

// finish returns the decision once no pod is outdated.
func (s *state) finish() Decision {
	if laggard := s.Snapshot.NotParticipating(-1); laggard != "" {
		hold := s.waitFor(laggard)
		hold.Guard = v1alpha1.GuardOthersParticipating
		return Decision{Conclusion: Wait, Blocking: []Hold{*hold}}
	}
	return Decision{Conclusion: Finished}
}

// harmless returns a step for another pod than the blocked one that disrupts no member; nil if there is none, or if the update of the
// blocked pod is in progress.
func (p policy) harmless(s *state, blocked int) *Step {
	if s.ordinal(blocked).Pod.Updating {
		return nil
	}
	step := s.nextHarmless(blocked)
	if step == nil || !step.isHarmless() || len(s.blocking(p.guards, step)) > 0 {
		return nil
	}
	return step
}

// Holding returns what blocks the next step, regardless of what the rollout does before it.
func Holding(in Input, now time.Time) []Hold { return standard.holding(newState(in, now)) }

func (p policy) holding(s *state) []Hold {
	holds := s.blocking(p.guards, nil)
	if next, found := s.first(p.precedes); found {
		holds = append(holds, s.blocking(p.guards, s.candidate(next))...)
	}
	return holds
}

// intentsBut returns the recorded intents that a decision does not carry out.
func (s *state) intentsBut(d Decision) []int {
	var rest []int
	for _, i := range s.intents {
		if !s.repeats(d, i) || s.wasShorter(i, d.Step) {
			rest = append(rest, i)
		}
	}
	return rest
}

// wasShorter reports whether the recorded intent gives a pod less time to terminate than a step does: its member serves now,
// and must not be removed by the intent.
func (s *state) wasShorter(ordinal int, step *Step) bool {
	recorded, now := s.recordOf(s.ordinal(ordinal).Pod.UID).GracePeriodSeconds, step.Grace[ordinal]
	return recorded != nil && (now == 0 || now > time.Duration(*recorded)*time.Second)
}

// repeats reports whether a decision carries out the recorded intent for an ordinal.
func (s *state) repeats(d Decision, ordinal int) bool {
	if d.Conclusion != Act || !slices.Contains(d.Step.Ordinals, ordinal) {
		return false
	}
	recorded := s.recordOf(s.ordinal(ordinal).Pod.UID).LastOperation.Name
	return d.Step.IsRemoval() && !inplace.IsWrite(recorded) || string(d.Step.Action) == recorded
}
