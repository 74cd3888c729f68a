// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/quorum"
)

// guard is a condition that has to hold before the rollout goes on. It returns nil when it lets pass.
type guard struct {
	name  v1alpha1.GuardName
	holds func(s *situation) *Hold
}

// observedGuards make sure that the rollout sees the present state.
var observedGuards = []guard{
	{v1alpha1.GuardRevisionObserved, revisionObserved},
	{v1alpha1.GuardDeletionObserved, deletionObserved},
}

// safetyGuards are asked, in this order, of the pod that is next.
var safetyGuards = []guard{
	{v1alpha1.GuardLearnerPromoted, learnerPromoted},
	{v1alpha1.GuardVolumeReachable, volumeReachable},
	{v1alpha1.GuardUpdatedPodsParticipating, updatedPodsParticipating},
	{v1alpha1.GuardNodesStable, nodesStable},
	{v1alpha1.GuardQuorumKept, quorumKept},
	{v1alpha1.GuardUnreadyConfirmed, unreadyConfirmed},
	{v1alpha1.GuardLeaderHandedOver, leaderHandedOver},
	{v1alpha1.GuardEvictionBlocked, evictionBlocked},
}

// first is the first guard that holds and is not overridden.
func (s *situation) first(guards []guard) *Hold {
	for _, g := range guards {
		if slices.Contains(s.Overridden, v1alpha1.OverridableGuard(g.name)) {
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

// quorumKept judges the cluster as it will be without the pod. Only clusters of one or two cannot do without. Where no
// member that answers knows a leader, others may that do not answer.
func quorumKept(s *situation) *Hold {
	o, voters := s.subject(), len(s.Snapshot.Cluster.Voters)
	running := o.Class == v1alpha1.ClassUnready || o.Class == v1alpha1.ClassParticipating
	if !running {
		return nil
	}
	if !s.Snapshot.Cluster.LeaderKnown {
		return s.leaderOutOfReach()
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

// leaderOutOfReach holds while members may have a leader that do not answer the operator (ADR 14).
func (s *situation) leaderOutOfReach() *Hold {
	unreached, quorate := outOfReach(s.Snapshot)
	if !quorate {
		return nil
	}
	seen, then := "no member that answers the operator knows a leader", ""
	if !s.Snapshot.Cluster.Reachable {
		seen, then = "no member answers the operator", fmt.Sprintf(". If it stays so, and probes pass, the rollout goes by these after %s", s.Config.UnreadyGracePeriod.Duration)
	}
	return &Hold{Pod: s.subject().Name, Message: fmt.Sprintf("%s, and %s may have one that leads all the same: their readiness probes pass, or their nodes are lost. Look at NetworkPolicies, and at the network between the operator and them; taint a node that is gone for good with node.kubernetes.io/out-of-service%s", seen, strings.Join(unreached, ", "), then)}
}

// losesQuorumAnyway: one or two replicas, and just as many voters. Two that are to become three are rolled when
// they are three.
func (s *situation) losesQuorumAnyway() bool {
	voters := len(s.Snapshot.Cluster.Voters)
	return voters == s.Snapshot.Replicas() && (voters == 1 || voters == 2 && !s.Snapshot.Growing)
}

// unreadyConfirmed closes a hole in DEP-07, step 2: readiness is a linearizable read, so a moment without a
// leader makes every healthy member unready.
func unreadyConfirmed(s *situation) *Hold {
	o := s.subject()
	if o.Class != v1alpha1.ClassUnready {
		return nil
	}
	grace := s.Config.UnreadyGracePeriod.Duration
	cluster := s.Snapshot.Cluster
	if !cluster.LeaderKnown {
		if s.Spells.LeaderlessSince.IsZero() {
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("no member that answers knows a leader: %s is replaced when this has lasted for %s, which does not count while others may have one", o.Name, grace)}
		}
		since := latest(s.Spells.LeaderlessSince, o.Pod.EtcdStarted, s.lastRemoval())
		if !lasted(since, s.now, grace) {
			return &Hold{Pod: o.Name, Message: fmt.Sprintf("no member knows a leader: %s is replaced when this has lasted for %s, counted from %s", o.Name, grace, clockTime(since))}
		}
		return nil
	}
	if !quorum.Exists(s.Snapshot.ServingVotersWithout(s.next), len(cluster.Voters)) && !s.losesQuorumAnyway() {
		return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s does not participate, and the others are no quorum without it. %s", o.Name, s.downVoters())}
	}
	since := s.Spells.SilentSince[o.Pod.UID]
	if o.Pod.Ready && !lasted(since, s.now, grace) {
		return &Hold{Pod: o.Name, Message: fmt.Sprintf("%s does not serve the operator, and yet its readiness probe passes: it is replaced when this has lasted for %s, counted from %s", o.Name, grace, clockTime(since))}
	}
	return nil
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

// lastRemoval is when the rollout last removed a pod.
func (s *situation) lastRemoval() time.Time {
	var last time.Time
	for _, p := range s.Recorded.Pods {
		if p.LastOperation.State != v1alpha1.OperationStateFailed && !p.Evidence.ObservedAt.After(s.now) {
			last = latest(last, p.Evidence.ObservedAt.Time)
		}
	}
	return last
}

func latest(times ...time.Time) time.Time {
	return slices.MaxFunc(times, time.Time.Compare)
}
