// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// step is what to do about the pod that is next, now that every guard lets it pass.
func (s *situation) step() *Step {
	if s.wantsHandover() {
		if successor := s.successor(); successor >= 0 {
			return &Step{Action: MoveLeader, Ordinals: []int{s.next}, Successor: successor, Reason: fmt.Sprintf(
				"%s leads and is next: leadership goes to %s, which is updated and has caught up", s.subject().Name, s.Snapshot.Ordinals[successor].Name)}
		}
	}
	return &Step{Action: s.removal(s.next), Ordinals: s.alongWith(s.next), Reason: s.why()}
}

// removal is how a pod is removed. An eviction counts pod readiness, so only a healthy pod of a cluster that
// can spare one is evicted; everything else would be refused for ever (DEP-06).
func (s *situation) removal(ordinal int) Action {
	o := s.Snapshot.Ordinals[ordinal]
	if s.Config.PodRemoval != Evict || o.Class != v1alpha1.ClassParticipating || !o.Pod.AllContainersReady || s.Snapshot.Replicas() <= 2 {
		return DeletePod
	}
	for _, g := range s.Overridden {
		if refusal, refused := s.Refused[o.Pod.UID]; g == v1alpha1.OverridableGuard(v1alpha1.GuardEvictionBlocked) && refused && refusal.ByBudget {
			return DeletePod
		}
	}
	return EvictPod
}

// alongWith are the pods that go in the same step: one, or with AllAtOnce every outdated pod that does not run.
func (s *situation) alongWith(next int) []int {
	all := []int{next}
	if s.Config.NonParticipatingPods != AllAtOnce || !isDown(s.Snapshot.Ordinals[next].Class) {
		return all
	}
	for i, o := range s.Snapshot.Ordinals {
		if i != next && s.outdated(i) && isDown(o.Class) && o.Pod.VolumeTrouble == "" {
			all = append(all, i)
		}
	}
	return all
}

func isDown(class v1alpha1.PodClass) bool {
	return class == v1alpha1.ClassDead || class == v1alpha1.ClassStarting
}

// why says why the pod that is next is next.
func (s *situation) why() string {
	o := s.subject()
	var say []string
	switch {
	case o.Class == v1alpha1.ClassDead:
		say = append(say, fmt.Sprintf("%s does not run (%s)", o.Name, o.Pod.Trouble))
	case o.Class == v1alpha1.ClassStarting:
		say = append(say, o.Name+" has not started")
	case o.Class == v1alpha1.ClassUnready && !s.Snapshot.Cluster.LeaderKnown:
		say = append(say, o.Name+" runs, and no member has known a leader for "+s.Config.grace().String())
	case o.Class == v1alpha1.ClassUnready && o.Serving:
		say = append(say, o.Name+" serves, and its readiness probe does not pass")
	case o.Class == v1alpha1.ClassUnready:
		say = append(say, o.Name+" runs and does not participate")
	default:
		say = append(say, o.Name+s.roleInWords())
	}
	if s.Config.PodRemoval == Evict && o.Class == v1alpha1.ClassParticipating && !o.Pod.AllContainersReady {
		say = append(say, "one of its containers is not ready, so it goes first")
	}
	if s.losesQuorumAnyway() && o.Class == v1alpha1.ClassParticipating {
		say = append(say, fmt.Sprintf("a cluster of %d cannot spare a member: writes stop until it is back", s.Snapshot.Replicas()))
	}
	if s.byReadiness() {
		say = append(say, "no member answers the operator: health is the readiness probes', and roles are the leases'")
	}
	return strings.Join(say, "; ")
}

// roleInWords says what the pod that is next is, and of whom else it can be said.
func (s *situation) roleInWords() string {
	switch {
	case s.subject().Role == v1alpha1.RoleLeader && s.isLastOutdated():
		return " leads and is the last one" + s.withoutHandover()
	case s.subject().Role == v1alpha1.RoleLeader:
		return " leads" + s.withoutHandover()
	case s.notParticipating(s.next) != "":
		return " is next, although not all others participate"
	case s.subject().Role == v1alpha1.RoleFollower:
		return " is a follower, and all others participate"
	}
	return " is next, and all others participate"
}

func (s *situation) isLastOutdated() bool {
	for i := range s.Snapshot.Ordinals {
		if i != s.next && s.outdated(i) {
			return false
		}
	}
	return true
}

func (s *situation) withoutHandover() string {
	if n := s.handoverAttempts(); n >= maxHandoverAttempts && *s.Config.LeaderHandover {
		return fmt.Sprintf("; leadership could not be moved in %d attempts, so the rollout goes on without", n)
	}
	return ""
}
