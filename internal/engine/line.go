// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/types"
)

// line is the tasks of one Etcd during one reconcile.
type line struct {
	queue.Queue
	// etcd is nil when there is none.
	etcd *v1alpha1.Etcd
	// keys are the work keys of tasks, which take requests to compute.
	keys map[types.UID]string
	// turnedAway is how many tasks were rejected in this reconcile because there are too many.
	turnedAway int
}

func newLine(q queue.Queue, etcd *v1alpha1.Etcd) *line {
	return &line{Queue: q, etcd: etcd, keys: map[types.UID]string{}}
}

// workKey returns the work key of a task, and has the handler compute it once.
func (l *line) workKey(ctx context.Context, handler tasks.Handler, task tasks.Task) (string, error) {
	if key, ok := l.keys[task.Object.UID]; ok {
		return key, nil
	}
	key, err := handler.WorkKey(ctx, task)
	if err == nil {
		l.keys[task.Object.UID] = key
	}
	return key, err
}

const (
	// maxLine is how many tasks of an Etcd may wait or run. Each costs every reconcile of that Etcd.
	maxLine = 50
	// maxTurnedAway is how many tasks are rejected in one reconcile because there are too many: other Etcds wait for the
	// worker, and for the API server.
	maxTurnedAway = 20
)

// tooMany reports whether a task at a place in the queue is rejected because of those before it. A recovery never is.
func tooMany(place int, t *v1alpha1.EtcdOperatorTask) bool {
	return place >= maxLine && t.Status.State != v1alpha1.TaskStateInProgress && t.Spec.Type != v1alpha1.QuorumLossRecovery
}

// turnAway rejects a task because there are too many.
func (r *Reconciler) turnAway(ctx context.Context, cached *v1alpha1.EtcdOperatorTask) error {
	t := cached.DeepCopy()
	status.RecordArrival(t)
	return r.end(ctx, cached, tasks.Task{Object: t}, tasks.Verdict{
		Outcome: tasks.Reject, Code: v1alpha1.ErrTooManyTasks,
		Message: fmt.Sprintf("%d earlier tasks of Etcd %s have not ended, and more do not wait in line: delete those that are not needed, or create the task again when some have ended",
			maxLine, t.Spec.OwnerEtcdReference.Name),
	})
}
