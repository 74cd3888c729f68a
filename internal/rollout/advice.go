// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/advice"
)

// waitFor is the hold of a pod that does not exist or does not participate, with what a person can do.
func (s *state) waitFor(pod string) *Hold {
	i := slices.IndexFunc(s.Snapshot.Ordinals, func(o cluster.Ordinal) bool { return o.Name == pod })
	if i < 0 {
		return &Hold{Pod: pod, Message: fmt.Sprintf("%s is not among the replicas of StatefulSet %s and must terminate first", pod, s.Snapshot.StatefulSet.Name)}
	}
	return &Hold{Pod: pod, Message: pod + " " + advice.For(*s.ordinal(i), s.Snapshot.StatefulSet.Name)}
}

// downVoters names the voters that do not serve, and what a person can do about them.
func (s *state) downVoters() string {
	var ours, foreign, unproven []string
	for _, v := range s.Snapshot.Cluster.Voters {
		if v.Serving {
			continue
		}
		if v.Ordinal < 0 {
			foreign = append(foreign, v.Name)
			continue
		}
		switch o := s.ordinal(v.Ordinal); {
		case o.Pod != nil && o.Pod.Node.Trouble != "":
			ours = append(ours, fmt.Sprintf("%s (its node %s is %s)", v.Name, o.Pod.Node.Name, o.Pod.Node.Trouble))
		case o.Pod != nil && o.ReadyButNotServing() && !o.Answers && !s.byReadiness():
			ours = append(ours, fmt.Sprintf("%s (its readiness probe passes, and counts once it has for %s)", v.Name, vouchAfter))
		case o.Unproven:
			unproven = append(unproven, v.Name)
		case o.Lag > cluster.MaxLag:
			ours = append(ours, fmt.Sprintf("%s (%d raft entries behind)", v.Name, o.Lag))
		default:
			ours = append(ours, v.Name)
		}
	}
	var say []string
	if len(s.Snapshot.Cluster.Voters) == 0 {
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

func clockTime(t time.Time) string { return t.UTC().Format("15:04:05 MST") }
