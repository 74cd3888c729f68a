// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// State is what the operator knows of the snapshot.
type Backup struct {
	// Configured: the Etcd has a backup store, and the agents of the running pods have not said otherwise.
	Configured bool
	// Running: it is being taken.
	Running bool
	// Taken is its name, once it was taken.
	Taken string
	// Failed is why the last attempt failed, at FailedAt; empty if it did not.
	Failed   string
	FailedAt time.Time
}

// retry is how long a snapshot that failed waits before it is tried again.
const snapshotRetry = 30 * time.Second

// IsMissing reports whether the snapshot could be taken and was not, by what this operator and the status know.
func (b Backup) IsMissing(recorded *v1alpha1.RolloutSnapshot) bool {
	return b.Configured && b.Taken == "" && (recorded == nil || recorded.State != v1alpha1.OperationStateCompleted)
}

// Waiting returns what a step that takes the snapshot waits for; empty if nothing. Reason is that of the step.
func (b Backup) Waiting(reason string, now time.Time) string {
	switch age := now.Sub(b.FailedAt); {
	case b.Running:
		return reason + "; it is being taken"
	case b.Failed != "" && age >= 0 && age < snapshotRetry:
		return fmt.Sprintf("%s, and failed: %s. It is retried every %s; to do without it, add %s to spec.overrideGuards of the task", reason, b.Failed, snapshotRetry, v1alpha1.GuardSnapshotTaken)
	}
	return ""
}

// Record returns what the status says of the snapshot, from what it said before: that it is asked for, or was taken.
func (b Backup) Record(before *v1alpha1.RolloutSnapshot, asked bool, now time.Time) *v1alpha1.RolloutSnapshot {
	switch {
	case before == nil && asked:
		return &v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateInProgress, RequestedAt: metav1.Time{Time: now}}
	case before != nil && b.Taken != "":
		return &v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateCompleted, RequestedAt: before.RequestedAt, Name: b.Taken}
	}
	return before
}
