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
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// waitFor returns the hold of a pod that does not exist or does not participate, with what to do.
func (s *state) waitFor(pod string) *Hold {
	i := slices.IndexFunc(s.Snapshot.Ordinals, func(o cluster.Ordinal) bool { return o.Name == pod })
	if i < 0 {
		return &Hold{Pod: pod, Message: fmt.Sprintf("%s is not among the replicas of StatefulSet %s and must terminate first", pod, s.Snapshot.StatefulSet.Name)}
	}
	return &Hold{Pod: pod, Message: pod + " " + adviceFor(*s.ordinal(i), s.Snapshot.StatefulSet.Name)}
}

func clockTime(t time.Time) string { return t.UTC().Format("15:04:05 MST") }

// adviceFor returns why the pod of an ordinal does not participate, and what a person can do.
func adviceFor(o cluster.Ordinal, statefulSet string) string {
	if lost := lostNode(o); lost != "" {
		return lost
	}
	switch o.Class {
	case v1alpha1.ClassMissing:
		return fmt.Sprintf("does not exist yet: if this persists, check the events of StatefulSet %s", statefulSet)
	case v1alpha1.ClassTerminating:
		if len(o.Pod.Finalizers) > 0 {
			return fmt.Sprintf("is terminating, and is kept by finalizers (%s): if this persists, check what set them, which has to remove them", strings.Join(o.Pod.Finalizers, ", "))
		}
		return "is terminating: if its node is gone, power off its machine, and only then taint the node with node.kubernetes.io/out-of-service"
	case v1alpha1.ClassDead:
		return fmt.Sprintf("is not running (%s): fix the cause, or change the template; the next rollout first replaces the pod that failed to start", o.Pod.Trouble)
	case v1alpha1.ClassStarting:
		if o.Pod.Trouble != "" {
			return fmt.Sprintf("does not start (%s)", o.Pod.Trouble)
		}
		return "is starting"
	}
	switch {
	case o.Role == v1alpha1.RoleLearner:
		return "is a learner that is catching up with the leader: if this persists, check its log, and its disk and network"
	case o.Unproven:
		return "may be a learner although it is ready: it has no readiness probe, or the tag of its image is not that of etcd " + cluster.FirstNonLearnerProbe + " or later"
	case !o.Answers:
		return "is running but not answering the operator; if this persists, check its log, and allow operator traffic to the pods' client port"
	case o.Lag > cluster.MaxLag:
		return fmt.Sprintf("is more than %d raft entries behind the leader and counts again once it has caught up; if it falls further behind, check its disk and its network", magnitude(o.Lag))
	case !o.Serving:
		return "is running but knows no leader; if this persists, check its log and the other members"
	}
	return "serves, but its readiness probe does not pass yet"
}

// lostNode returns what is known of a pod whose last kubelet report may be stale, and what a person can do; empty if it is not stale.
func lostNode(o cluster.Ordinal) string {
	if o.Pod == nil || o.Pod.Stale() == "" {
		return ""
	}
	is := "does not participate"
	switch {
	case o.Class == v1alpha1.ClassTerminating:
		is = "is terminating"
	case o.KnownClass() != o.Class:
		is = fmt.Sprintf("may be running although it was last reported as %s%s", o.Class, parenthesized(o.Pod.Trouble))
	}
	return fmt.Sprintf("%s, and %s: if the node does not come back, power off its machine, and only then taint it with node.kubernetes.io/out-of-service", is, o.Pod.Stale())
}

func parenthesized(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// magnitude returns a number that a lag exceeds, and that changes only when the lag has become ten times as great: the message is part of
// the status, which would otherwise be written again and again.
func magnitude(lag uint64) uint64 {
	least := uint64(cluster.MaxLag)
	for least < lag/10 {
		least *= 10
	}
	return least
}

// downVoters returns the voters that do not serve, and what a person can do about them. Members that do not answer count once their probes
// have passed for as long as vouchAfter; never, if that is 0.
func downVoters(s *cluster.Snapshot, vouchAfter time.Duration) string {
	var ours, foreign, unproven []string
	for _, v := range s.Cluster.Voters {
		if v.Serving {
			continue
		}
		if v.Ordinal < 0 {
			foreign = append(foreign, v.Name)
			continue
		}
		switch o := s.Ordinals[v.Ordinal]; {
		case o.Pod != nil && o.Pod.Stale() != "":
			ours = append(ours, fmt.Sprintf("%s (%s)", v.Name, o.Pod.Stale()))
		case o.Pod != nil && o.ReadyButNotServing() && !o.Answers && vouchAfter > 0:
			ours = append(ours, fmt.Sprintf("%s (its readiness probe passes, and counts once it has for %s)", v.Name, vouchAfter))
		case o.Unproven:
			unproven = append(unproven, v.Name)
		case o.Lag > cluster.MaxLag:
			ours = append(ours, fmt.Sprintf("%s (more than %d raft entries behind)", v.Name, magnitude(o.Lag)))
		default:
			ours = append(ours, v.Name)
		}
	}
	var say []string
	if len(s.Cluster.Voters) == 0 {
		say = append(say, "No voter has returned the member list")
	}
	if len(ours) > 0 {
		say = append(say, "Down, or unreachable from the operator: "+strings.Join(ours, ", "))
	}
	if len(unproven) > 0 {
		say = append(say, fmt.Sprintf("Possibly learners although they are ready, since they have no readiness probe, or the tag of their image is not that of etcd %s or later: %s", cluster.FirstNonLearnerProbe, strings.Join(unproven, ", ")))
	}
	if len(foreign) > 0 {
		say = append(say, fmt.Sprintf("Down, and not a pod of this StatefulSet: %s; if it is not coming back, remove it with etcdctl member remove", strings.Join(foreign, ", ")))
	}
	return strings.Join(say, ". ")
}

// mayHaveLeader says that members that do not answer may have a leader (ADR 14). The timer of a lost quorum does not run then.
func (s *state) mayHaveLeader(names []string) string {
	seen, then := "no member that answers the operator knows a leader", ""
	if !s.Snapshot.Cluster.Reachable {
		seen = "no member answers the operator"
		if !s.HasSource {
			then = fmt.Sprintf(". If this persists for %s, the rollout goes by readiness probes", s.Config.Grace())
		}
	}
	return fmt.Sprintf("%s, but %s may still have a leader that the operator cannot reach: their readiness probes pass, or their nodes are lost. Check NetworkPolicies and the network between the operator and them; if a node is gone for good, power off its machine, and only then taint it with node.kubernetes.io/out-of-service%s", seen, strings.Join(names, ", "), then)
}
