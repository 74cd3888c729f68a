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
)

// waitFor is the hold of a pod that is not there or does not participate, with what a person can do.
func (s *situation) waitFor(pod string) *Hold {
	i := slices.IndexFunc(s.Snapshot.Ordinals, func(o observe.Ordinal) bool { return o.Name == pod })
	if i < 0 {
		return &Hold{Guard: v1alpha1.GuardUpdatedPodsParticipating, Pod: pod, Message: fmt.Sprintf("%s is not among the replicas of StatefulSet %s and has to go first", pod, s.Snapshot.StatefulSet.Name)}
	}
	return &Hold{Guard: v1alpha1.GuardUpdatedPodsParticipating, Pod: pod, Message: pod + " " + advice(s.Snapshot.Ordinals[i], s.Snapshot.StatefulSet.Name)}
}

func advice(o observe.Ordinal, statefulSet string) string {
	switch o.Class {
	case v1alpha1.ClassMissing:
		return fmt.Sprintf("does not exist yet: if this lasts, look at the events of StatefulSet %s", statefulSet)
	case v1alpha1.ClassTerminating:
		if o.Pod.Node.Trouble != "" {
			return fmt.Sprintf("is terminating, and its node %s is %s: if the node does not come back, taint it with node.kubernetes.io/out-of-service", o.Pod.Node.Name, o.Pod.Node.Trouble)
		}
		return "is terminating: if its node is gone, taint the node with node.kubernetes.io/out-of-service"
	case v1alpha1.ClassDead:
		return fmt.Sprintf("does not run (%s): mend the cause, or change the template; the next rollout replaces it first", o.Pod.Trouble)
	case v1alpha1.ClassStarting:
		if o.Pod.Trouble != "" {
			return fmt.Sprintf("does not start (%s)", o.Pod.Trouble)
		}
		return "is starting"
	}
	switch {
	case o.Pod.Node.Trouble != "":
		return fmt.Sprintf("does not participate, and its node %s is %s: if the node does not come back, taint it with node.kubernetes.io/out-of-service", o.Pod.Node.Name, o.Pod.Node.Trouble)
	case o.Role == v1alpha1.RoleLearner:
		return "is a learner that catches up with the leader"
	case !o.Answers:
		return "runs and does not answer: if this lasts, look at its log, and at NetworkPolicies between the operator and its client port"
	case o.Lag > observe.MaxLag:
		return fmt.Sprintf("is %d raft entries behind the leader and serves nobody until it has caught up: if it falls further behind, check its disk and its network", o.Lag)
	case !o.Serving:
		return "runs and knows no leader: if this lasts, look at its log, and at the other members"
	}
	return "serves, and its readiness probe does not pass yet"
}

// downVoters names the voters that do not serve, and what a person can do about them.
func (s *situation) downVoters() string {
	var ours, foreign, unproven []string
	for _, v := range s.Snapshot.Cluster.Voters {
		switch {
		case v.Serving:
		case v.Ordinal >= 0 && s.byReadiness() && s.Snapshot.Ordinals[v.Ordinal].Pod != nil && s.Snapshot.Ordinals[v.Ordinal].Pod.Ready:
			unproven = append(unproven, v.Name)
		case v.Ordinal >= 0 && s.Snapshot.Ordinals[v.Ordinal].Lag > observe.MaxLag:
			ours = append(ours, fmt.Sprintf("%s (%d raft entries behind)", v.Name, s.Snapshot.Ordinals[v.Ordinal].Lag))
		case v.Ordinal >= 0:
			ours = append(ours, v.Name)
		default:
			foreign = append(foreign, v.Name)
		}
	}
	var say []string
	if len(s.Snapshot.Cluster.Voters) == 0 {
		say = append(say, "no voter has told the member list")
	}
	if len(ours) > 0 {
		say = append(say, "down, or not to be reached by the operator: "+strings.Join(ours, ", "))
	}
	if len(unproven) > 0 {
		say = append(say, "may be learners although their probes pass, since their image has no tag of etcd "+observe.FirstNonLearnerProbe+" or later: "+strings.Join(unproven, ", "))
	}
	if len(foreign) > 0 {
		say = append(say, "down, and no pod of this StatefulSet: "+strings.Join(foreign, ", ")+"; if it is not coming back, remove it with etcdctl member remove")
	}
	return strings.Join(say, ". ")
}

func clockTime(t time.Time) string { return t.UTC().Format("15:04:05 MST") }
