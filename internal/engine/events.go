// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
)

// maxNote is what the API server takes of an event's note, in bytes.
const maxNote = 1024

// reporter emits the events of tasks.
type reporter struct {
	recorder events.EventRecorder
}

func (r *Reconciler) report() reporter { return reporter{r.Recorder} }

// transition emits the events of a change of status that was written.
func (r reporter) transition(before, after *v1alpha1.EtcdOperatorTask) {
	if was, is := progressingReason(before), progressingReason(after); was != is && is == v1alpha1.ReasonStalled {
		r.warn(after, v1alpha1.ReasonStalled, progressing(after))
	}
	if before.Status.State == after.Status.State {
		return
	}
	switch after.Status.State {
	case v1alpha1.TaskStateInProgress:
		r.event(after, "Started", fmt.Sprintf("task %s of Etcd %s has started", after.Spec.Type, after.Spec.OwnerEtcdReference.Name))
	case v1alpha1.TaskStateSucceeded:
		r.event(after, string(after.Status.State), progressing(after))
	case v1alpha1.TaskStateFailed, v1alpha1.TaskStateRejected:
		r.warn(after, string(after.Status.State), progressing(after))
	}
}

func (r reporter) event(t *v1alpha1.EtcdOperatorTask, reason, note string) {
	r.emit(t, corev1.EventTypeNormal, reason, note)
}

func (r reporter) warn(t *v1alpha1.EtcdOperatorTask, reason, note string) {
	r.emit(t, corev1.EventTypeWarning, reason, note)
}

func (r reporter) emit(t *v1alpha1.EtcdOperatorTask, eventType, reason, note string) {
	r.recorder.Eventf(t, nil, eventType, reason, reason, "%s", status.Shorten(note, maxNote))
}

func progressingReason(t *v1alpha1.EtcdOperatorTask) string {
	if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionProgressing); c != nil {
		return c.Reason
	}
	return ""
}

func progressing(t *v1alpha1.EtcdOperatorTask) string {
	if c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionProgressing); c != nil {
		return c.Message
	}
	return ""
}
