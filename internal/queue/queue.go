// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package queue is the order in which the tasks of one Etcd run. It is pure: the operator runs the task at the
// head, and the command line tells the place of the others, by the same rule. It imports the API only.
package queue

import (
	"cmp"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Queue is the tasks of one Etcd that have not ended, in the order in which they run.
type Queue []*v1alpha1.EtcdOperatorTask

// New orders tasks first in, first out. Timestamps have steps of a second: among tasks of the same second
// the resourceVersion decides that a task had when it was first seen.
func New(tasks []*v1alpha1.EtcdOperatorTask) Queue {
	q := slices.DeleteFunc(slices.Clone(tasks), func(t *v1alpha1.EtcdOperatorTask) bool { return t.Status.State.IsFinal() })
	slices.SortStableFunc(q, func(a, b *v1alpha1.EtcdOperatorTask) int {
		return cmp.Or(
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			compareArrival(arrival(a), arrival(b)),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return q
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

// Head is the task whose turn it is; nil when there is none. A task that runs stays the head until it ends,
// also while it is suspended; one that was suspended before it started lets the others pass.
func (q Queue) Head() *v1alpha1.EtcdOperatorTask {
	for _, t := range q {
		if t.Status.State == v1alpha1.TaskStateInProgress {
			return t
		}
	}
	for _, t := range q {
		if !t.Spec.Suspend {
			return t
		}
	}
	return nil
}

// Behind is how many tasks run before a task does.
func (q Queue) Behind(task *v1alpha1.EtcdOperatorTask) int {
	head := q.Head()
	if task == head || head == nil {
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

// Earlier are the tasks of the same type before a task that are not suspended.
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
