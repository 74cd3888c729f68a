// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package newcluster has the phases that QuorumLossRecovery and Restore share, since both start a cluster as a new one:
//
//  1. Stopping: waits until no member runs.
//  2. Surveying: waits until the agent has surveyed every volume. Then the task type chooses what the cluster starts from.
//  3. Starting: waits until one member serves as the new cluster.
//  4. Growing: waits until all members have joined it and vote.
//
// The task types decide what comes before, and make the choice.
//
// A task itself only creates and removes the Jobs of the survey. The Etcd controller acts on its status: it holds the StatefulSet at zero
// replicas in the phases that require all members to be stopped, and once the choice is recorded, it configures the members and scales up
// again. The agent does what is to be done to data, before a member starts.
package newcluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Input is what the decisions on the common phases rest on.
type Input struct {
	Snapshot *cluster.Snapshot
	// Task is the UID of the task.
	Task types.UID
	// Recorded is the status of the task so far.
	Recorded v1alpha1.RecoveryStatus
	// Hibernates: the spec asks for no members.
	Hibernates bool
	// Configured: the configuration of the members says what the cluster starts from.
	Configured bool
	// Volumes of the members, in phase Surveying.
	Volumes []survey.Volume
	// KeptFor is the UID of the task that is undone; empty if none is.
	KeptFor string
	// Obstacle is why the Etcd controller does not stop or start members (tasks.Obstacle); empty if nothing is known to keep it from that.
	Obstacle string
}

// AwaitsController reports whether a task that is in a phase next waits until the Etcd controller has stopped or started members.
func (in Input) AwaitsController(next v1alpha1.RecoveryPhase) bool {
	switch next {
	case v1alpha1.RecoveryStopping, v1alpha1.RecoverySurveying:
		return !in.held()
	case v1alpha1.RecoveryStarting:
		return in.Snapshot.StatefulSet.HeldAtZeroBy != ""
	}
	return false
}

// Unobserved returns the verdict on a task whose Etcd cannot be observed. While there is no StatefulSet, as while one with another claim template
// replaces it, the task waits if the members are to start from what it has chosen. Before, it fails: while it keeps all members stopped, none is
// created. So it does once they have started: it may be that none is created for hours, and clients are not kept away from them for that long.
func Unobserved(t *v1alpha1.EtcdOperatorTask, err error) (tasks.Verdict, error) {
	if ptr.Deref(t.Status.Recovery, v1alpha1.RecoveryStatus{}).Phase == v1alpha1.RecoveryStarting {
		return tasks.AwaitStatefulSet(err)
	}
	v, err := tasks.Unobserved(tasks.Fail, err)
	v.Message += tasks.GoesOn(t)
	return v, err
}

// Decision is the next status of a task, and the phase that it enters or stays in.
type Decision struct {
	// Outcome is Continue, Done or Fail; Code goes with Fail.
	Outcome tasks.Outcome
	Code    v1alpha1.ErrorCode
	// Recovery is the next status.recovery of the task.
	Recovery v1alpha1.RecoveryStatus
	// Message says what the task waits for, what it has decided and why, or how it has ended.
	Message string
	// AtOnce: the status is written now, although the phase stays.
	AtOnce bool
	// Survey: Jobs must be created for volumes that have none yet, or removed from abandoned ones.
	Survey bool
}

// Operations are the names in status.lastOperation, by phase.
var Operations = map[v1alpha1.RecoveryPhase]string{
	v1alpha1.RecoveryConfirming: "ConfirmQuorumLoss",
	v1alpha1.RecoveryFencing:    "FenceClients",
	v1alpha1.RecoverySaving:     "TakeFinalSnapshot",
	v1alpha1.RecoveryStopping:   "StopMembers",
	v1alpha1.RecoverySurveying:  "SurveyVolumes",
	v1alpha1.RecoveryStarting:   "StartMembers",
	v1alpha1.RecoveryGrowing:    "GrowBack",
	v1alpha1.RecoveryReopening:  "TakeSnapshot",
}

// MaxRevision is the highest credible revision. A member or a snapshot that claims more is broken, or lies.
const MaxRevision = 1 << 62

// Margin is added to the highest known revision, since the volume that knew the highest one may be lost. It is more than a cluster writes
// while a task runs, and what etcd's documentation recommends where nothing is known.
const Margin = 1_000_000_000

// Began returns the revision at which the cluster of a recovery began at least; 0 if it was not raised, or may be any.
func Began(r *v1alpha1.ClusterRecovery) int64 {
	began := int64(0)
	switch {
	case r == nil:
	case r.Restore != nil:
		began = r.Restore.Revision + r.Restore.Bump
	case r.HighestRevision > 0:
		began = r.HighestRevision + Margin
	}
	return min(began, MaxRevision)
}

// RecordedBegan returns the highest revision at which a cluster has begun from a backup or from rebuilt data, by the Lease of full snapshots, which may
// be nil; 0 for none.
func RecordedBegan(full *coordinationv1.Lease) int64 {
	if full == nil {
		return 0
	}
	return backup.ParseBegan(full.Annotations[v1alpha1.AnnotationBeganAt])
}

// pollInterval is how often the members are observed: etcd sends no events.
const pollInterval = time.Second

// Verdict translates a decision for the task engine. It is pure.
func (in Input) Verdict(d Decision, now time.Time) tasks.Verdict {
	v := tasks.Verdict{
		Outcome: d.Outcome, Code: d.Code, Message: d.Message, RequeueAfter: pollInterval, Recovery: &d.Recovery, Progress: string(d.Recovery.Phase),
	}
	operation := &v1alpha1.LastOperation{Name: Operations[d.Recovery.Phase], State: v1alpha1.OperationStateCompleted, Reason: d.Message, LastTransitionTime: metav1.Time{Time: now}}
	if in.Obstacle != "" {
		v.RequeueAfter = tasks.RecheckObstacle
	}
	switch {
	case d.Survey:
		v.Step = &tasks.Step{Operation: Operations[v1alpha1.RecoverySurveying], Reason: d.Message, Detail: Survey{in.Volumes, in.Snapshot, in.KeptFor}, RecheckAfter: pollInterval}
	case d.Outcome == tasks.Fail:
		operation.State = v1alpha1.OperationStateFailed
		v.LastOperation = operation
	case d.Outcome != tasks.Continue:
		v.LastOperation = operation
	case d.Recovery.Phase != in.Recorded.Phase || d.AtOnce:
		operation.State = v1alpha1.OperationStateInProgress
		v.LastOperation = operation
		if d.Recovery.Phase != v1alpha1.RecoveryConfirming {
			v.Event = operation.Name
		}
	}
	return v
}

// Stopping waits until no member runs.
func (in Input) Stopping(now time.Time) Decision {
	switch {
	case !in.held():
		return in.await("waiting until StatefulSet %s is scaled to zero")
	case len(in.Snapshot.Surplus) > 0:
		return in.Stay("waiting until these are gone: %s; if a node is gone, power off its machine, and only then taint it with node.kubernetes.io/out-of-service", strings.Join(in.Snapshot.Surplus, ", "))
	}
	return in.Enter(v1alpha1.RecoverySurveying, now, "no member is running: the agent surveys each volume")
}

// Surveying waits until every existing volume is surveyed, and reports whether all are.
func (in Input) Surveying() (waits Decision, surveyed bool) {
	switch {
	case !in.held():
		return in.await("StatefulSet %s is no longer scaled to zero: waiting until it is"), false
	case len(in.Snapshot.Surplus) > 0:
		return in.Stay("members were started again, and may still write: waiting until these are gone: %s", strings.Join(in.Snapshot.Surplus, ", ")), false
	}
	if waits, act := survey.Pending(in.Volumes); len(waits) > 0 {
		d := in.Stay("%s", strings.Join(waits, "; "))
		d.Survey = act
		return d, false
	}
	return Decision{}, true
}

// Starting waits until the new cluster serves.
func (in Input) Starting(now time.Time) Decision {
	s, r := in.Snapshot, in.Recorded
	switch {
	case !in.Configured:
		return in.Stay("configuring the members to rebuild the cluster from %s", r.Member)
	case s.StatefulSet.HeldAtZeroBy != "":
		return in.AwaitScaleUp()
	case !Quorate(s) || s.Cluster.ID == 0 || ID(s.Cluster.ID) == r.PreviousClusterID || !in.participates():
		if in.Hibernates {
			return in.AwaitWakeUp()
		}
		return in.Stay("waiting until %s serves: %s", r.Member, in.Describe())
	}
	return in.Enter(v1alpha1.RecoveryGrowing, now, "%s serves alone, as cluster %s: the others join, one by one", r.Member, ID(s.Cluster.ID))
}

// Growing waits until every member votes, and returns how many do once all do.
func (in Input) Growing() (waits Decision, voting int) {
	s := in.Snapshot
	voting = in.Voting()
	if s.StatefulSet.HeldAtZeroBy != "" || s.Replicas() == 0 || voting < s.Replicas() {
		if in.Hibernates {
			return in.AwaitWakeUp(), 0
		}
		return in.Stay("%d of %d members vote: %s", voting, s.Replicas(), in.Describe()), 0
	}
	return Decision{}, voting
}

// Voting returns how many members participate and vote.
func (in Input) Voting() int {
	return in.Snapshot.CountOrdinals(func(o cluster.Ordinal) bool { return o.Class == v1alpha1.ClassParticipating && o.Votes() })
}

// Enter returns the decision to enter another phase.
func (in Input) Enter(phase v1alpha1.RecoveryPhase, now time.Time, format string, args ...any) Decision {
	next := in.Recorded
	next.Phase, next.PhaseSince, next.LostSince = phase, metav1.Time{Time: now}, nil
	return Decision{Outcome: tasks.Continue, Recovery: next, Message: fmt.Sprintf(format, args...)}
}

// Stay returns the decision to wait in the present phase.
func (in Input) Stay(format string, args ...any) Decision {
	return Decision{Outcome: tasks.Continue, Recovery: in.Recorded, Message: fmt.Sprintf(format, args...)}
}

// AwaitScaleUp returns the decision to wait until the members are started again.
func (in Input) AwaitScaleUp() Decision {
	return in.await("waiting until StatefulSet %s is scaled up again")
}

// AwaitWakeUp returns the decision to wait until the Etcd wakes up.
func (in Input) AwaitWakeUp() Decision {
	return in.Stay("the Etcd is hibernated, with spec.replicas 0: wake it up, and this task continues")
}

// await returns the decision to wait until the Etcd controller has scaled the StatefulSet, and why it does not.
func (in Input) await(format string) Decision {
	if in.Obstacle != "" {
		return in.Stay(format+": %s", in.Snapshot.StatefulSet.Name, in.Obstacle)
	}
	return in.Stay(format, in.Snapshot.StatefulSet.Name)
}

// held reports whether this task holds the StatefulSet at zero.
func (in Input) held() bool {
	return in.Snapshot.StatefulSet.Observed && in.Snapshot.StatefulSet.HeldAtZeroBy == in.Task && in.Snapshot.Replicas() == 0
}

// participates reports whether the member that the cluster is rebuilt on participates.
func (in Input) participates() bool {
	return slices.ContainsFunc(in.Snapshot.Ordinals, func(o cluster.Ordinal) bool {
		return o.Member == in.Recorded.Member && o.Class == v1alpha1.ClassParticipating
	})
}

// Describe describes the state of each member. It quotes the agent or the kubelet if they give a reason.
func (in Input) Describe() string {
	said := make([]string, 0, len(in.Snapshot.Ordinals))
	for i, o := range in.Snapshot.Ordinals {
		is := fmt.Sprintf("%s is %s", o.Name, o.Describe())
		switch {
		case o.Role == v1alpha1.RoleLearner:
			is = o.Name + " is a learner that catches up"
		case o.Pod != nil && o.Pod.Refusal != nil:
			is = fmt.Sprintf("%s is %s (%s: %s)", o.Name, o.Class, o.Pod.Refusal.Reason, o.Pod.Refusal.Message)
		case in.mayBeRemoved(i) && o.Pod.ListChanged:
			is = fmt.Sprintf("%s is %s: the member list has changed since its pod was prepared to join, and its etcd refuses to start. Delete pod %s, and it joins", o.Name, o.Class, o.Name)
		case in.needsNewestTemplate(o):
			is += fmt.Sprintf(": its pod has an older template than the StatefulSet, and rollouts wait for this task. If its template was fixed since, delete pod %s, and it starts with the newest template", o.Name)
		case in.mayBeRemoved(i):
			is += fmt.Sprintf(", and no voter: if etcdctl member list does not name it, it was removed, and joins again once pod %s is deleted", o.Name)
		}
		said = append(said, is)
	}
	return strings.Join(said, "; ")
}

// mayBeRemoved reports whether the member of an ordinal may have been removed with etcdctl: it was started once, its etcd has ended, and the
// others, who have a leader, do not count it as a voter. Only another pod joins again.
func (in Input) mayBeRemoved(ordinal int) bool {
	o, c := in.Snapshot.Ordinals[ordinal], in.Snapshot.Cluster
	return o.Class == v1alpha1.ClassDead && o.Pod != nil && o.Pod.Prepared && c.LeaderKnown &&
		!slices.ContainsFunc(c.Voters, func(v cluster.Voter) bool { return v.Ordinal == ordinal })
}

// needsNewestTemplate reports whether the etcd of an ordinal was started and has ended, and the template of its pod was changed since. Its member does
// not serve, and its volume stays, so a person may delete the pod.
func (in Input) needsNewestTemplate(o cluster.Ordinal) bool {
	set := in.Snapshot.StatefulSet
	return o.Pod != nil && o.KnownClass() == v1alpha1.ClassDead && o.Pod.Prepared && set.Observed && set.UpdateRevision != "" && !o.Pod.At(set.UpdateRevision)
}

// Quorate reports whether there is a quorum: enough voters serve, or a member that answers knows a leader.
func Quorate(s *cluster.Snapshot) bool {
	return s.Cluster.LeaderKnown || len(s.Cluster.Voters) > 0 && s.HasQuorum()
}

// ID returns the ID of a cluster in hex.
func ID(clusterID uint64) string { return fmt.Sprintf("%x", clusterID) }

// maxEarlier is how many earlier clusters a status may name.
const maxEarlier = 16

// Lineage returns the IDs, in hex, of the clusters that an Etcd has had, the oldest first:
//
//   - those that the recovery in its status leaves behind,
//   - made: the one that this recovery makes, which may have either of two IDs,
//   - began: the one that was recorded when the task began,
//   - recorded: the one that is recorded now. A person may have recorded another one since, because its data counts.
//
// It is pure.
func Lineage(r *v1alpha1.ClusterRecovery, made []string, began, recorded string) []string {
	var ids []string
	add := func(id string) {
		if id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if r != nil {
		for _, id := range append(slices.Clone(r.EarlierClusterIDs), r.PreviousClusterID) {
			add(id)
		}
	}
	if !slices.Contains(ids, recorded) {
		// The recorded cluster has served, so it is the newest.
		made = append(slices.DeleteFunc(append(slices.Clone(made), began), func(id string) bool { return id == recorded }), recorded)
	}
	for _, id := range made {
		add(id)
	}
	return ids[max(0, len(ids)-maxEarlier):]
}

// Earlier returns the part of a lineage that a recovery records as EarlierClusterIDs. The previous cluster has a field of its own, and is
// left out if it is the newest. Otherwise it stays at its place, so that the order is not lost.
func Earlier(lineage []string, previous string) []string {
	if n := len(lineage); n > 0 && lineage[n-1] == previous {
		return slices.Clone(lineage[:n-1])
	}
	return slices.Clone(lineage)
}
