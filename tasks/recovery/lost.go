// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
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
// voters than replicas. Only a voter returns the member list; without it, the fewest that the cluster may have count. A readiness probe is a
// linearizable read, so one that passes proves a quorum, however small.
func quorumLost(s *cluster.Snapshot, fewest int) (lost bool, why string) {
	if slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool { return o.Answers && o.Role == v1alpha1.RoleLearner }) {
		fewest = 1 // members are added to a cluster of any size
	}
	voters := cmp.Or(len(s.Cluster.Voters), fewest)
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

// fewestVoters returns how many voters the cluster has at least, by what is recorded of them and of the tasks that change their number. It is
// pure.
func fewestVoters(etcd *v1alpha1.Etcd, all []v1alpha1.EtcdOperatorTask, replicas int) int {
	fewest := replicas
	if asked := int(etcd.Spec.Replicas); asked > 0 {
		fewest = min(fewest, asked) // a member beyond them may have no vote yet, or none any more
	}
	if seen := int(etcd.Status.Voters); seen > 0 {
		fewest = min(fewest, seen) // the task by which the cluster grows may be gone
	}
	if r := etcd.Status.Recovery; r != nil {
		fewest = min(fewest, votersOfRecovered(all, r.TaskUID, replicas))
	}
	var newest *v1alpha1.EtcdOperatorTask
	for i := range all {
		t := &all[i]
		if t.Status.Membership != nil && (newest == nil || newest.CreationTimestamp.Before(&t.CreationTimestamp)) {
			newest = t
		}
	}
	if newest != nil && newest.Status.State != v1alpha1.TaskStateSucceeded {
		fewest = min(fewest, votersOfChanging(newest.Status.Membership))
	}
	return max(fewest, 1)
}

// votersOfRecovered returns how many voters a recovered cluster has at least: one at first, and every replica, or a quorum of them after a
// Restore, once its task has succeeded.
func votersOfRecovered(all []v1alpha1.EtcdOperatorTask, uid types.UID, replicas int) int {
	i := slices.IndexFunc(all, func(t v1alpha1.EtcdOperatorTask) bool { return t.UID == uid })
	switch {
	case i < 0 || all[i].Status.State != v1alpha1.TaskStateSucceeded:
		return 1
	case all[i].Spec.Type == v1alpha1.Restore:
		return quorum.Size(replicas)
	}
	return replicas
}

// votersOfChanging returns how many voters a cluster has at least whose members change. The removal that was requested last may have taken
// effect since they were counted.
func votersOfChanging(m *v1alpha1.MembershipStatus) int {
	voters := m.Voters
	if m.Request != nil && m.Request.Action == string(membership.RemoveMember) {
		voters--
	}
	return int(min(m.Size, voters))
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
func (l *losses) observe(task types.UID, generation int64, at time.Time, lost bool) time.Time {
	if !lost {
		return l.next(task, lasts{}, at)
	}
	return l.next(task, lasts{v1alpha1.RecoveryConfirming, generation}, at)
}

// starting records an observation in phase Starting, and returns since when the members are started; zero while the StatefulSet has no replicas.
func (l *losses) starting(task types.UID, generation int64, s *cluster.Snapshot) time.Time {
	if s.StatefulSet.HeldAtZeroBy != "" || s.Replicas() == 0 {
		return l.next(task, lasts{}, s.At)
	}
	return l.next(task, lasts{v1alpha1.RecoveryStarting, generation}, s.At)
}

func (l *losses) next(task types.UID, value lasts, at time.Time) time.Time {
	return l.Change(task, func(of *lasting.Timer[lasts]) { *of = of.Next(value, at, maxUnobserved) }).Since()
}
