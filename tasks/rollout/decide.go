// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package rollout is the task type QuorumAwareRollout: it brings the pods of an etcd StatefulSet to the
// target revision in an order that does not cost the cluster its quorum (DEP-07).
//
// It observes, decides, acts. Decide is a pure function from a Snapshot to a Decision: the order of the pods
// is in order.go, what holds a deletion back is the table in guards.go, what is written down is in record.go.
// The handler, which talks to the API server and to etcd, adds no judgement of its own.
package rollout

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"k8s.io/apimachinery/pkg/types"
)

// Input is all that a decision rests on.
type Input struct {
	Snapshot *observe.Snapshot
	Config   Config
	// Created is when the task was created. A restart replaces the pods that are not younger.
	Created time.Time
	// Overridden are the guards that the task may pass over.
	Overridden []v1alpha1.OverridableGuard
	// Recorded is what the task's status says of the rollout so far.
	Recorded v1alpha1.RolloutStatus
	// Spells are the conditions that matter by how long they last.
	Spells Spells
	// Refused are the removals that were refused or withdrawn, by the UID of the pod. They cannot come any more, unless
	// they say so.
	Refused map[types.UID]Refusal
}

// Refusal is the API server's answer to a removal that it did not carry out, or our own to one that was announced and
// not sent.
type Refusal struct {
	At time.Time
	// ByBudget: a PodDisruptionBudget does not allow the eviction now.
	ByBudget bool
	// Withdrawn: it was not sent.
	Withdrawn bool
	// MayCome: the same removal was announced before, and that request may still be under way.
	MayCome bool
	Message string
}

// Conclusion of a decision.
type Conclusion string

// The conclusions.
const (
	// Wait: a guard holds.
	Wait Conclusion = "Wait"
	// Act: carry out the step.
	Act Conclusion = "Act"
	// Finished: every ordinal has a pod at the target revision, and all participate.
	Finished Conclusion = "Finished"
	// Superseded: the target revision is not the StatefulSet's any more.
	Superseded Conclusion = "Superseded"
	// Disengaged: the StatefulSet's update strategy is not OnDelete any more; its own controller goes on.
	Disengaged Conclusion = "Disengaged"
)

// Decision is what to do next, and why.
type Decision struct {
	Conclusion Conclusion
	// Hold, with Wait.
	Hold *Hold
	// Step, with Act.
	Step *Step
}

// Hold says what a rollout waits for.
type Hold struct {
	Guard v1alpha1.GuardName
	// Pod that the guard speaks of; empty where it is none.
	Pod string
	// Message says why, and what a person can do.
	Message string
}

// Action is a kind of step.
type Action string

// The actions.
const (
	DeletePod      Action = "DeletePod"
	EvictPod       Action = "EvictPod"
	MoveLeader     Action = "MoveLeader"
	RevokeDeletion Action = "RevokeDeletion"
)

// Step is one thing to do to a cluster.
type Step struct {
	Action Action
	// Ordinals of the pods to remove or revoke; for MoveLeader, the leader's. More than one only with
	// nonParticipatingPods: AllAtOnce.
	Ordinals []int
	// Successor is the ordinal that leadership goes to, with MoveLeader.
	Successor int
	// Reason is a sentence: why these, and why now.
	Reason string
}

// deletionWindow is how long a removal that was announced may take to show. It is longer than the deadline of
// the request, so that none of ours is still under way when it ends.
const deletionWindow = requestTimeout + time.Second

// requestTimeout is the deadline of one request that changes something. It is well below the duration of the
// leader-election lease, so that an operator that lost its lease has none under way.
const requestTimeout = 4 * time.Second

// Decide says what to do next. It is pure: the same input and time make the same decision.
func Decide(in Input, now time.Time) Decision { return standard.decide(in, now) }

// policy is the order of the pods and the guards that hold them back. Tests replace parts of it, to see that
// every part is needed.
type policy struct {
	// observed are asked before anything else: do we see the present state?
	observed []guard
	// safe are asked of the pod that is next: may it go now?
	safe []guard
	// precedes is the order in which pods go.
	precedes func(s *situation, a, b int) int
}

var standard = policy{observed: observedGuards, safe: safetyGuards, precedes: precedes}

func (p policy) decide(in Input, now time.Time) Decision {
	s := situate(in, now)
	if hold := s.first(p.observed); hold != nil {
		return Decision{Conclusion: Wait, Hold: hold}
	}
	decision := p.proceed(s)
	if revoked := s.announcedBut(decision); len(revoked) > 0 {
		// Whoever announced this deletion may still send it. Nothing else happens before it has become
		// impossible.
		return Decision{Conclusion: Act, Step: &Step{
			Action: RevokeDeletion, Ordinals: revoked,
			Reason: "its deletion was announced and not carried out, and is not what should happen now",
		}}
	}
	return decision
}

func (p policy) proceed(s *situation) Decision {
	switch set := s.Snapshot.StatefulSet; {
	case !set.OnDelete:
		return Decision{Conclusion: Disengaged}
	case set.UpdateRevision != s.target:
		return Decision{Conclusion: Superseded}
	}
	s.next = s.nextPod(p.precedes)
	if s.next < 0 {
		if laggard := s.notParticipating(-1); laggard != "" {
			return Decision{Conclusion: Wait, Hold: s.waitFor(laggard)}
		}
		return Decision{Conclusion: Finished}
	}
	if hold := s.first(p.safe); hold != nil {
		return Decision{Conclusion: Wait, Hold: hold}
	}
	return Decision{Conclusion: Act, Step: s.step()}
}
