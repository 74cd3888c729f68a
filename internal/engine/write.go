// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servedcrd"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// write writes a status that has changed: at once if the change is urgent, otherwise at most once per detailInterval. It returns when to
// retry a write that was put off.
func (r *Reconciler) write(ctx context.Context, cached, t *v1alpha1.EtcdOperatorTask) (time.Duration, error) {
	if equality.Semantic.DeepEqual(cached.Status, t.Status) {
		return 0, nil
	}
	if wait := r.books.lastWrite(t).at.Add(detailInterval).Sub(r.Clock.Now()); wait > 0 && !status.IsUrgent(&cached.Status, &t.Status) {
		return wait, nil
	}
	return 0, r.writeNow(ctx, cached, t)
}

// writeNow writes a status under the resourceVersion that it is based on. An operator that works on an outdated state fails here, before it
// acts.
func (r *Reconciler) writeNow(ctx context.Context, before, t *v1alpha1.EtcdOperatorTask) error {
	if equality.Semantic.DeepEqual(before.Status, t.Status) {
		return nil
	}
	decided := *t.Status.DeepCopy()
	if err := r.Client.Status().Update(ctx, t); err != nil {
		return fmt.Errorf("writing the status of task %s: %w", client.ObjectKeyFromObject(t), err)
	}
	pruned := servedcrd.CheckKept(decided, t.Status)
	t.Status = decided
	now := r.Clock.Now()
	r.books.wrote(t, written{now, t.ResourceVersion})
	r.Metrics.observe(before, t, now)
	r.reportTransition(before, t)
	if pruned != nil && !t.Status.State.IsFinal() {
		// An intent may be missing, and no step is carried out without one.
		r.warn(t, v1alpha1.ReasonRetrying, pruned.Error())
		return fmt.Errorf("recording the status of task %s: %w", client.ObjectKeyFromObject(t), pruned)
	}
	return nil
}

// maxNote is the API server's limit on the note of an event, in bytes.
const maxNote = 1024

// reportTransition emits the events that announce a written change of status.
func (r *Reconciler) reportTransition(before, after *v1alpha1.EtcdOperatorTask) {
	if was, is := before.Status.Progressing().Reason, after.Status.Progressing().Reason; was != is && is == v1alpha1.ReasonStalled {
		r.warn(after, v1alpha1.ReasonStalled, after.Status.Progressing().Message)
	}
	if before.Status.State == after.Status.State {
		return
	}
	switch after.Status.State {
	case v1alpha1.TaskStateInProgress:
		r.event(after, "Started", fmt.Sprintf("task %s of Etcd %s has started", after.Spec.Type, after.Spec.OwnerEtcdReference.Name))
	case v1alpha1.TaskStateSucceeded:
		r.event(after, string(after.Status.State), after.Status.Progressing().Message)
	case v1alpha1.TaskStateFailed, v1alpha1.TaskStateRejected:
		r.warn(after, string(after.Status.State), after.Status.Progressing().Message)
	}
}

func (r *Reconciler) event(t *v1alpha1.EtcdOperatorTask, reason, note string) {
	r.emit(t, corev1.EventTypeNormal, reason, note)
}

func (r *Reconciler) warn(t *v1alpha1.EtcdOperatorTask, reason, note string) {
	r.emit(t, corev1.EventTypeWarning, reason, note)
}

func (r *Reconciler) emit(t *v1alpha1.EtcdOperatorTask, eventType, reason, note string) {
	r.Recorder.Eventf(t, nil, eventType, reason, reason, "%s", sanitize.Text(note, maxNote))
}
