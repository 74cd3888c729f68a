// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package attempts numbers the tasks that the operator creates repeatedly until the spec is carried out, and decides how long to wait
// between them. It is pure.
package attempts

import (
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
)

const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 10 * time.Minute
)

// Next returns the number of the next attempt whose name begins with a prefix, and how long to wait before it. Tasks of other types, which
// need other rights, neither delay attempts nor count.
func Next(tasks []v1alpha1.EtcdOperatorTask, of v1alpha1.TaskType, prefix string, now time.Time) (attempt int, wait time.Duration) {
	attempt = 1
	for i := range tasks {
		t := &tasks[i]
		if t.Spec.Type != of {
			continue
		}
		number, own := strings.CutPrefix(t.Name, prefix)
		// The rest was added because another task had the name.
		number, _, _ = strings.Cut(number, "-")
		n, err := strconv.Atoi(number)
		if !own || err != nil || n < attempt {
			continue
		}
		attempt, wait = n+1, 0
		if t.Status.CompletedAt != nil && !endedWell(t) {
			// Another operator's clock, which may be ahead, may have written when that was.
			wait = min(max(t.Status.CompletedAt.Add(backoff(n)).Sub(now), 0), backoff(n))
		}
	}
	return attempt, wait
}

// InheritSuspend reports whether the newest task of certain types was suspended and has not run to its end, so that the next one is
// suspended as well. A task that was rejected on arrival does not count: the engine had not made the Etcd its owner.
func InheritSuspend(etcd *v1alpha1.Etcd, tasks []v1alpha1.EtcdOperatorTask, of func(v1alpha1.TaskType) bool) bool {
	var newest *v1alpha1.EtcdOperatorTask
	for i := range tasks {
		t := &tasks[i]
		if t.Status.State == v1alpha1.TaskStateRejected && !etcdtasks.IsOwned(t, etcd) {
			continue
		}
		if of(t.Spec.Type) && (newest == nil || queue.Compare(t, newest) > 0) {
			newest = t
		}
	}
	return newest != nil && newest.Spec.Suspend && (!newest.Status.State.IsFinal() || superseded(newest))
}

func endedWell(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Status.State == v1alpha1.TaskStateSucceeded || superseded(t)
}

func superseded(t *v1alpha1.EtcdOperatorTask) bool {
	n := len(t.Status.LastErrors)
	return t.Status.State == v1alpha1.TaskStateRejected && n > 0 && t.Status.LastErrors[n-1].Code == v1alpha1.ErrSuperseded
}

// backoff is how long to wait after an attempt that did not succeed.
func backoff(attempt int) time.Duration {
	d := firstBackoff
	for range attempt - 1 {
		if d *= 2; d > maxBackoff {
			return maxBackoff
		}
	}
	return d
}
