// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package copybackups

import (
	"cmp"
	"encoding/json"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// reasons of the condition Failed, by the code that a Job has failed with.
var reasons = map[v1alpha1.ErrorCode]string{
	v1alpha1.ErrJobNotStarted:    v1alpha1.ReasonJobNotStarted,
	v1alpha1.ErrJobImage:         v1alpha1.ReasonImage,
	v1alpha1.ErrJobOutOfMemory:   v1alpha1.ReasonOutOfMemory,
	v1alpha1.ErrDeadlineExceeded: v1alpha1.ReasonDeadline,
}

func reasonOf(code v1alpha1.ErrorCode) string { return cmp.Or(reasons[code], v1alpha1.ReasonJobFailed) }

// fail records that a task has failed for good.
func (r *Reconciler) fail(task *v1alpha1.EtcdCopyBackupsTask, reason, message string) {
	r.end(task, conditions.True(v1alpha1.ConditionCopyFailed, reason, "%s", message))
}

// retry records an error that is retried, and returns it.
func (r *Reconciler) retry(task *v1alpha1.EtcdCopyBackupsTask, err error) error {
	task.Status.LastError = ptr.To(sanitize.Text(err.Error(), conditions.MaxMessage))
	return err
}

// maxKey bounds the keys of a result, in bytes. A termination message, which they are from, has at most 4 KiB.
const maxKey = 128

// succeed records that the backups are copied.
func (r *Reconciler) succeed(task *v1alpha1.EtcdCopyBackupsTask, state job.State) {
	r.end(task, conditions.True(v1alpha1.ConditionCopySucceeded, v1alpha1.ReasonCopied, "%s", state.Message))
	var fields map[string]json.RawMessage
	if json.Unmarshal(state.Result, &fields) != nil {
		return
	}
	task.Status.Result = map[string]string{}
	for name, value := range fields {
		task.Status.Result[sanitize.Text(name, maxKey)] = sanitize.Text(string(value), conditions.MaxMessage)
	}
}

// end records how a task has ended. Gardener goes on waiting while there is an error beside the condition.
func (r *Reconciler) end(task *v1alpha1.EtcdCopyBackupsTask, condition metav1.Condition) {
	task.Status.LastError = nil
	condition.LastTransitionTime, condition.ObservedGeneration = metav1.NewTime(r.Clock.Now()), task.Generation
	task.Status.Conditions.Set(condition)
}
