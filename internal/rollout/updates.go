// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
)

// update is the step of a pod that is updated in place (ADR 30).
func (s *state) update(next int, c inplace.Choice) *Step {
	o := s.ordinal(next)
	step := &Step{Ordinals: []int{next}, Write: c.Write, wait: c.Wait, disrupts: c.Disrupts, Action: PatchMetadata}
	step.AsksBudget = c.Write != nil && c.Disrupts && s.removal(next) == EvictPod
	if c.Write == nil {
		return step
	}
	step.Action = Action(c.Write.Kind)
	step.Reason = fmt.Sprintf("%s is updated in place: %s", o.Name, c.Write.What)
	if c.Disrupts {
		step.Reason = s.reason(next) + "; " + step.Reason
	}
	return step
}

// updateObserved: what was written to a pod has been carried out by the kubelet, and the member participates.
func updateObserved(s *state, step *Step) *Hold {
	if step.wait == "" {
		return nil
	}
	o := s.ordinal(step.Ordinals[0])
	hold := &Hold{Pod: o.Name, Message: step.wait}
	if o.Class != v1alpha1.ClassParticipating {
		hold.Message += "; " + s.waitFor(o.Name).Message
	}
	return hold
}

// updatedParticipating: an update in place that disrupts no member does not begin while an updated pod does not participate, since
// the template may be the cause.
func (s *state) updatedParticipating(next int) *Hold {
	for i, o := range s.Snapshot.Ordinals {
		if o.Pod != nil && i != next && o.Class != v1alpha1.ClassParticipating && o.Class != v1alpha1.ClassTerminating && !s.outdated(i) {
			return s.waitFor(o.Name)
		}
	}
	return nil
}

// nextHarmless returns the step of another pod that comes before others while the next one is blocked: of one that is halfway through its
// update, or of one that can be written to without disrupting its member. It is nil if there is none.
func (s *state) nextHarmless(but int) *Step {
	best := -1
	for i := range s.Snapshot.Ordinals {
		if i == but || !s.outdated(i) {
			continue
		}
		choice := s.Updates.Of(s.ordinal(i), s.now)
		if choice.IsOnItsWay() {
			return s.candidate(i)
		}
		if best < 0 && choice.Write != nil && !choice.Disrupts {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	return s.candidate(best)
}
