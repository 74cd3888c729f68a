// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	"k8s.io/apimachinery/pkg/types"
)

// describeQuorum says why there is a quorum. A leader whose followers are gone still knows itself as the leader for an election timeout.
func describeQuorum(s *cluster.Snapshot) string {
	serving, voters := s.ServingVoters(), max(len(s.Cluster.Voters), s.Replicas())
	if s.HasQuorum() {
		return fmt.Sprintf("%d of %d voters serve", serving, voters)
	}
	return fmt.Sprintf("a member still knows a leader, although only %d of %d voters serve; if the others are lost, that ends within seconds", serving, voters)
}

// quorumLost reports whether the quorum is certainly lost, and why or why not. It is if no member that answers knows a leader, and the
// members that may be running without answering are too few to form a quorum. Without the second condition, a cluster that the operator
// cannot reach would count as lost.
//
// The quorum is that of the known voters, not of the replicas: a recovered cluster has one voter at first, and a growing one has fewer
// voters than replicas. A readiness probe is a linearizable read, so one that passes proves a quorum, however small.
func quorumLost(s *cluster.Snapshot, asked int) (lost bool, why string) {
	voters := fewestVoters(s, asked)
	if newcluster.Quorate(s) {
		return false, describeQuorum(s)
	}
	var unreachable, answering []string
	for _, o := range s.Ordinals {
		switch {
		case o.Answers:
			answering = append(answering, o.Name)
		case o.ProvesQuorum():
			return false, fmt.Sprintf("whether the quorum is lost is unknown: the readiness probe of %s passes, and %s does not answer the operator. Let it reach the pod's client port", o.Name, o.Name)
		case o.MayRun():
			unreachable = append(unreachable, o.Name)
		}
	}
	unreachable = append(unreachable, s.Surplus...)
	for _, v := range s.Cluster.Voters {
		if v.Ordinal < 0 {
			unreachable = append(unreachable, v.Name)
		}
	}
	if quorum.Exists(len(unreachable), voters) {
		answer := "do not answer, may be running, and would be a quorum. Restore them, or make sure that they are stopped"
		if len(unreachable) == 1 {
			answer = "does not answer, may be running, and would be a quorum by itself. Restore it, or make sure that it is stopped"
		}
		return false, fmt.Sprintf("whether the quorum is lost is unknown: %s %s; if a node is gone, power off its machine, and only then taint it with node.kubernetes.io/out-of-service", strings.Join(unreachable, ", "), answer)
	}
	if len(answering) == 0 {
		return true, "no member serves"
	}
	verbs := "answer but know"
	if len(answering) == 1 {
		verbs = "answers but knows"
	}
	return true, fmt.Sprintf("%s %s no leader, and the remaining members are too few to form a quorum", strings.Join(answering, ", "), verbs)
}

// fewestVoters returns how many voters the cluster has by its member list, or may have if no member that answers serves that. Learners do not: if one answers,
// there may be one voter, since members are added to a cluster of any size. A member beyond those that users ask for may have no vote yet, or none any more.
func fewestVoters(s *cluster.Snapshot, asked int) int {
	switch learns := func(o cluster.Ordinal) bool { return o.Answers && o.Role == v1alpha1.RoleLearner }; {
	case len(s.Cluster.Voters) > 0:
		return len(s.Cluster.Voters)
	case slices.ContainsFunc(s.Ordinals, learns):
		return 1
	case asked > 0:
		return min(asked, s.Replicas())
	}
	return s.Replicas()
}

// maxUnobserved is the longest gap between two observations that does not reset a timer: ten times the poll interval.
const maxUnobserved = 10 * time.Second

// losses are timers, one for each running task: for how long the quorum has been seen lost, or the members started. They permit to stop all
// members or to end the task, so they live in memory alone: a status outlives the operator that wrote it, whose clock may have been wrong.
// After a restart the operator waits longer.
type losses struct {
	memory.PerTask[lasting.Timer[lasts]]
}

// lasts is what a timer measures; the zero value for nothing. Suspending a task changes its generation, and so resets the timer.
type lasts struct {
	phase      v1alpha1.RecoveryPhase
	generation int64
}

// observe records an observation in phase Confirming, and returns since when the quorum is lost; zero if it is not.
func (l *losses) observe(task types.UID, generation int64, s *cluster.Snapshot, asked int) time.Time {
	if lost, _ := quorumLost(s, asked); !lost {
		return l.next(task, lasts{}, s.At)
	}
	return l.next(task, lasts{v1alpha1.RecoveryConfirming, generation}, s.At)
}

// starting records an observation in phase Starting, and returns since when the members are started; zero while they are held at zero.
func (l *losses) starting(task types.UID, generation int64, s *cluster.Snapshot) time.Time {
	if s.StatefulSet.HeldAtZeroBy != "" {
		return l.next(task, lasts{}, s.At)
	}
	return l.next(task, lasts{v1alpha1.RecoveryStarting, generation}, s.At)
}

func (l *losses) next(task types.UID, value lasts, at time.Time) time.Time {
	return l.Change(task, func(of *lasting.Timer[lasts]) { *of = of.Next(value, at, maxUnobserved) }).Since()
}
