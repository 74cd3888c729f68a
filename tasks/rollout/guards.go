// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/quorum"
)

// guard is a condition that has to be true before the rollout goes on. It returns nil when it is.
type guard struct {
	name v1alpha1.GuardName
	// overridable: a task may be told to pass over it. This is the rule; the schema of the API only says so early.
	overridable bool
	holds       func(s *situation) *Hold
}

// observedGuards make sure that the rollout sees the present state.
var observedGuards = []guard{
	{v1alpha1.GuardRevisionObserved, false, revisionObserved},
	{v1alpha1.GuardDeletionObserved, false, deletionObserved},
}

// safetyGuards are asked, in this order, of the pod that is next.
var safetyGuards = []guard{
	{v1alpha1.GuardLearnerPromoted, true, learnerPromoted},
	{v1alpha1.GuardVolumeReachable, true, volumeReachable},
	{v1alpha1.GuardUpdatedPodsParticipating, true, updatedPodsParticipating},
	{v1alpha1.GuardNodesStable, true, nodesStable},
	{v1alpha1.GuardQuorumKept, false, quorumKept},
	{v1alpha1.GuardUnreadyConfirmed, true, unreadyConfirmed},
	{v1alpha1.GuardLeaderHandedOver, true, leaderHandedOver},
	{v1alpha1.GuardEvictionBlocked, true, evictionBlocked},
}

// first is the first guard that holds and is not overridden.
func (s *situation) first(guards []guard) *Hold {
	for _, g := range guards {
		if g.overridable && slices.Contains(s.Overridden, v1alpha1.OverridableGuard(g.name)) {
			continue
		}
		if hold := g.holds(s); hold != nil {
			hold.Guard = g.name
			return hold
		}
	}
	return nil
}

func revisionObserved(s *situation) *Hold {
	if s.Snapshot.StatefulSet.Observed {
		return nil
	}
	return &Hold{Message: fmt.Sprintf("the StatefulSet controller has not seen the newest spec of StatefulSet %s yet: if this lasts, look at kube-controller-manager", s.Snapshot.StatefulSet.Name)}
}

func deletionObserved(s *situation) *Hold {
	for _, i := range s.announced {
		o := s.Snapshot.Ordinals[i]
		announced := s.recordOf(o.Pod.UID).Evidence.ObservedAt.Time
		if within(announced, s.now, deletionWindow) {
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("the deletion of %s was announced and does not show yet: after %s it is repeated, or revoked", o.Name, deletionWindow)}
		}
	}
	return nil
}

func learnerPromoted(s *situation) *Hold {
	o := s.subject()
	if o.Role != v1alpha1.RoleLearner {
		return nil
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s is a learner that catches up with the leader, and is not disturbed before it is promoted to a voter", o.Name)}
}

// updatedPodsParticipating is DEP-07, step 3, and more: a pod that was deleted and is not back yet holds too,
// and so does a member that does not serve, before one that serves though its probe is broken. Leadership moves as soon
// as all serve, while the probe of the pod that came back last has yet to pass.
func updatedPodsParticipating(s *situation) *Hold {
	laggard := ""
	switch o := s.subject(); {
	case o.Class == v1alpha1.ClassParticipating && !s.wantsHandover():
		laggard = s.notParticipating(s.next)
	case o.Serving:
		laggard = s.notServing(s.next)
	}
	if laggard == "" {
		return nil
	}
	return s.waitFor(laggard)
}

// quorumKept judges the cluster as it will be without the pod. Only clusters of one or two cannot do without.
func quorumKept(s *situation) *Hold {
	o, voters := s.subject(), len(s.Snapshot.Cluster.Voters)
	running := o.Class == v1alpha1.ClassUnready || o.Class == v1alpha1.ClassParticipating
	if !running {
		return nil
	}
	if !s.Snapshot.Cluster.LeaderKnown {
		return s.keptWithoutLeader()
	}
	if s.losesQuorumAnyway() {
		return nil
	}
	rest := s.Snapshot.ServingVotersWithout(s.next)
	if quorum.Exists(rest, voters) {
		return nil
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("without %s %d of %d voters would serve, and a quorum takes %d. %s", o.Name, rest, voters, s.Snapshot.Quorum(), s.downVoters())}
}

// losesQuorumAnyway: one or two replicas, and just as many voters. Two that are to become three are rolled when
// they are three.
func (s *situation) losesQuorumAnyway() bool {
	voters := len(s.Snapshot.Cluster.Voters)
	return voters == s.Snapshot.Replicas() && (voters == 1 || voters == 2 && !s.Snapshot.Growing)
}

// unreadyConfirmed: a member whose probe passes is believed to be sick only when it has not served the operator for a while.
// QuorumKept sees to it that the others do without it.
func unreadyConfirmed(s *situation) *Hold {
	o, grace := s.subject(), s.Config.grace()
	since := s.Spells.SilentSince[o.Pod.UID]
	if !s.Snapshot.Cluster.LeaderKnown || !notServingThoughReady(o) || lasted(since, s.now, grace) {
		return nil
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s has not served the operator since %s, and yet its readiness probe passes: it is replaced if that lasts for %s", o.Name, clockTime(since), grace)}
}

// evictionBlocked holds for a while after any refusal of the API server, a deletion's too. A budget is not asked about a
// deletion.
func evictionBlocked(s *situation) *Hold {
	o := s.subject()
	refusal, refused := s.Refused[o.Pod.UID]
	if !refused || refusal.Withdrawn || refusal.ByBudget && s.removal(s.next) != EvictPod || !within(refusal.At, s.now, removalRetry) {
		return nil
	}
	return &Hold{Pod: o.Name, Message: fmt.Sprintf("the API server refused it, and is asked again every %s: %s", removalRetry, refusal.Message)}
}

// removalRetry is how long a removal that was refused waits before it is tried again.
const removalRetry = 10 * time.Second

// subject is the ordinal that is next.
func (s *situation) subject() *observe.Ordinal { return &s.Snapshot.Ordinals[s.next] }

// notParticipating names a pod, other than that of one ordinal, that is not there or does not participate.
func (s *situation) notParticipating(except int) string {
	for i, o := range s.Snapshot.Ordinals {
		if i != except && o.Class != v1alpha1.ClassParticipating {
			return o.Name
		}
	}
	if len(s.Snapshot.Surplus) > 0 {
		return s.Snapshot.Surplus[0]
	}
	return ""
}

// notServing names a pod, other than that of one ordinal, that is not there or serves nobody.
func (s *situation) notServing(except int) string {
	for i, o := range s.Snapshot.Ordinals {
		if i != except && (!o.Serving || o.Role == v1alpha1.RoleLearner || o.Class == v1alpha1.ClassTerminating) {
			return o.Name
		}
	}
	return ""
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}
