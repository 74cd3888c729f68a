// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package queue has the order in which the tasks of one Etcd run. It is pure: by the same rule, the operator runs the task at the head, and
// the plugin shows the positions of the others. It imports the API only.
package queue

import (
	"cmp"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Queue holds the tasks of one Etcd that have not ended, in the order in which they run.
type Queue []*v1alpha1.EtcdOperatorTask

// New orders tasks first in, first out. Timestamps have a resolution of a second: tasks of the same second are ordered by the
// resourceVersion at which they were first seen.
func New(tasks []*v1alpha1.EtcdOperatorTask) Queue {
	q := slices.DeleteFunc(slices.Clone(tasks), func(t *v1alpha1.EtcdOperatorTask) bool { return t.Status.State.IsFinal() })
	slices.SortStableFunc(q, Compare)
	return q
}

// Compare orders tasks by their arrival.
func Compare(a, b *v1alpha1.EtcdOperatorTask) int {
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		compareArrival(arrival(a), arrival(b)),
		cmp.Compare(a.Name, b.Name),
	)
}

// arrival is the resourceVersion at which a task was first seen.
func arrival(t *v1alpha1.EtcdOperatorTask) string {
	return cmp.Or(t.Status.ArrivalResourceVersion, t.ResourceVersion)
}

func compareArrival(a, b string) int {
	if c, err := resourceversion.CompareResourceVersion(a, b); err == nil {
		return c
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// Head returns the task whose turn it is; nil if there is none. A running task stays the head until it ends, also while it is suspended; a
// task that was suspended before it started does not delay the others. A recovery preempts all others, and a change of members preempts the
// task that it began beside and that waits for it. But nothing starts while a task runs whose type only a newer operator knows: it may have
// stopped the members, or replaced their data.
func (q Queue) Head() *v1alpha1.EtcdOperatorTask {
	for _, has := range []func(*v1alpha1.EtcdOperatorTask) bool{
		func(t *v1alpha1.EtcdOperatorTask) bool { return Preempts(t) && runs(t) },
		func(t *v1alpha1.EtcdOperatorTask) bool { return runs(t) && t.OfNewerOperator() },
		func(t *v1alpha1.EtcdOperatorTask) bool { return Preempts(t) && !t.Spec.Suspend },
		func(t *v1alpha1.EtcdOperatorTask) bool {
			return runs(t) && !sideways(t) && !Yields(t)
		},
		func(t *v1alpha1.EtcdOperatorTask) bool { return runs(t) && !sideways(t) },
		runs,
		func(t *v1alpha1.EtcdOperatorTask) bool { return !t.Spec.Suspend },
	} {
		if i := slices.IndexFunc(q, has); i >= 0 {
			return q[i]
		}
	}
	return nil
}

// Beside returns the task that runs beside the head because it need not wait for it now; nil if there is none. Once it has begun, it
// continues regardless of the head.
func (q Queue) Beside() *v1alpha1.EtcdOperatorTask {
	head := q.Head()
	if head == nil || !runs(head) && !waits(head) {
		return nil
	}
	for _, has := range []func(*v1alpha1.EtcdOperatorTask) bool{
		func(t *v1alpha1.EtcdOperatorTask) bool { return runs(t) && mayRunBeside(head, t) },
		func(t *v1alpha1.EtcdOperatorTask) bool {
			return !t.Spec.Suspend && mayRunBeside(head, t) && letsPass(head, t)
		},
	} {
		if i := slices.IndexFunc(q, func(t *v1alpha1.EtcdOperatorTask) bool { return t != head && has(t) }); i >= 0 {
			return q[i]
		}
	}
	return nil
}

// mayRunBeside reports whether a task may run beside the head at all. Tasks that do not touch members, or only have the leader take a
// snapshot, may run beside a rollout and a change of members. Those two may run beside each other: a member that has lost its data is
// replaced although a rollout waits for it, and a new member's pod is updated although it does not start. Their guards keep them apart:
// neither disrupts a member unless all others serve, and no pod is restarted while the number of voters is even. A head that waits for
// other Etcds does nothing: beside it, of any type, these tasks may run too, and a change of members, which then goes first.
func mayRunBeside(head, t *v1alpha1.EtcdOperatorTask) bool {
	switch of := head.Spec.Type; {
	case waits(head) && (sideways(t) || t.Spec.Type == v1alpha1.MembershipChange):
		return true
	case of == v1alpha1.QuorumAwareRollout && t.Spec.Type == v1alpha1.MembershipChange,
		of == v1alpha1.MembershipChange && t.Spec.Type == v1alpha1.QuorumAwareRollout:
		return true
	case head.Spec.Type == v1alpha1.OnDemandMaintenance && runs(head) && t.Spec.Type == v1alpha1.QuorumAwareRollout:
		return true
	case Yields(head):
		return t.Spec.Type == v1alpha1.MembershipChange
	case of.IsRollout(), of == v1alpha1.MembershipChange:
		return sideways(t)
	}
	return false
}

// letsPass reports whether the head lets a task begin beside it: the head is stalled, or waits for other Etcds; it is blocked, and the task
// may unblock it; or it pauses, perhaps for days, and the task does not touch members. While a request to change the members may still take
// effect, nothing begins that may restart one. A member that has lost its data is replaced beside a rollout that is suspended, whatever
// blocked that before.
func letsPass(head, t *v1alpha1.EtcdOperatorTask) bool {
	if held, _ := head.Status.Held(); held != nil && held.Guard == v1alpha1.GuardChangeObserved {
		return sideways(t) && (stalled(head) || pauses(head))
	}
	return stalled(head) || waits(head) || pauses(head) && sideways(t) || !sideways(t) && (blocked(head) || head.StopsNothingYet())
}

// Yields reports whether a task yields to the task that began beside it: to a change of members, and maintenance also to a rollout.
// Maintenance does nothing while a member does not participate, which may have to be replaced or may only start with the next template; and
// a member that is being defragmented does not serve. A recreation waits until the newest spec is applied, which takes as many members as
// the spec asks for, and at its end until every member participates.
func Yields(t *v1alpha1.EtcdOperatorTask) bool {
	started := t.Status.Rollout != nil && t.Status.Rollout.Phase == v1alpha1.RecreateReadyForCreation
	return t.Spec.Type == v1alpha1.OnDemandMaintenance || t.StopsNothingYet() || t.Spec.Type == v1alpha1.RecreateRollout && started
}

// Preempts reports whether a task has its turn although others run: a recovery.
func Preempts(t *v1alpha1.EtcdOperatorTask) bool { return t.Spec.Type == v1alpha1.QuorumLossRecovery }

// HasTurn reports whether a task is running, or may run now.
func (q Queue) HasTurn(task *v1alpha1.EtcdOperatorTask) bool {
	return task != nil && (task == q.Head() || task == q.Beside())
}

// Find returns the task with a UID; nil if there is none.
func (q Queue) Find(uid types.UID) *v1alpha1.EtcdOperatorTask {
	if i := slices.IndexFunc(q, func(t *v1alpha1.EtcdOperatorTask) bool { return t.UID == uid }); i >= 0 {
		return q[i]
	}
	return nil
}

// Preempted returns the running tasks that wait for another one that has preempted them.
func (q Queue) Preempted() Queue {
	var preempted Queue
	for _, t := range q {
		if runs(t) && !q.HasTurn(t) {
			preempted = append(preempted, t)
		}
	}
	return preempted
}

func runs(t *v1alpha1.EtcdOperatorTask) bool { return t.Status.State == v1alpha1.TaskStateInProgress }

// blocked reports whether a guard blocks the next step of a task, the task says that it waits, or it is a rollout that is suspended.
func blocked(t *v1alpha1.EtcdOperatorTask) bool {
	held, _ := t.Status.Held()
	return held != nil || Suspended(t) && t.Spec.Type == v1alpha1.QuorumAwareRollout ||
		t.Status.Progressing().Reason == v1alpha1.ReasonHeld && t.Spec.Type == v1alpha1.OnDemandMaintenance
}

// stalled reports whether a task is stalled.
func stalled(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Status.Progressing().Reason == v1alpha1.ReasonStalled
}

// waits reports whether a task whose turn it is waits for other Etcds.
func waits(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Status.State == v1alpha1.TaskStatePending && meta.IsStatusConditionFalse(t.Status.Conditions, v1alpha1.ConditionAdmitted)
}

// pauses reports whether a running task waits for the next window of an EtcdFleetPolicy, or is suspended while members run: a recreation may have
// stopped them.
func pauses(t *v1alpha1.EtcdOperatorTask) bool {
	return runs(t) && t.Status.Progressing().Reason == v1alpha1.ReasonWaitingForWindow || Suspended(t) && t.Spec.Type != v1alpha1.RecreateRollout
}

// Suspended reports whether a running task is suspended between two steps, and says so: it takes none before it is resumed.
func Suspended(t *v1alpha1.EtcdOperatorTask) bool {
	return runs(t) && t.Spec.Suspend && t.Status.Progressing().Reason == v1alpha1.ReasonSuspended
}

// sideways reports whether a task may run beside a stalled rollout, since it does not disrupt members.
func sideways(t *v1alpha1.EtcdOperatorTask) bool {
	switch t.Spec.Type {
	case v1alpha1.OnDemandSnapshot, v1alpha1.OnDemandCompaction, v1alpha1.CopyBackups:
		return true
	}
	return false
}

// Behind returns how many tasks run before a task.
func (q Queue) Behind(task *v1alpha1.EtcdOperatorTask) int {
	head := q.Head()
	if head == nil || q.HasTurn(task) {
		return 0
	}
	n := 1
	for _, t := range q {
		if t == task {
			break
		}
		if t != head && !t.Spec.Suspend {
			n++
		}
	}
	return n
}

// Earlier returns the tasks of the same type before a task that are not suspended.
func (q Queue) Earlier(task *v1alpha1.EtcdOperatorTask) Queue {
	var before Queue
	for _, t := range q {
		if t == task {
			break
		}
		if t.Spec.Type == task.Spec.Type && !t.Spec.Suspend {
			before = append(before, t)
		}
	}
	return before
}
