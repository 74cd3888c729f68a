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

// Backup is what the operator knows of the snapshot before the rollout.
type Backup struct {
	// Configured: the Etcd has a backup store, and the agents of the running pods have not said otherwise.
	Configured bool
	// Running: it is being taken.
	Running bool
	// Taken is its name once it has been taken.
	Taken string
	// Failed is why the last attempt failed, at FailedAt; empty if it did not fail.
	Failed   string
	FailedAt time.Time
}

// snapshotRetry is how long a failed snapshot waits before it is retried.
const snapshotRetry = 30 * time.Second

// isMissing reports whether the snapshot could be taken and was not, by what this operator and the status know.
func (b Backup) isMissing(recorded *v1alpha1.RolloutSnapshot) bool {
	return b.Configured && b.Taken == "" && (recorded == nil || recorded.State != v1alpha1.OperationStateCompleted)
}

// waiting returns what a step that takes the snapshot waits for; empty if nothing. Reason is that of the step.
func (b Backup) waiting(reason string, now time.Time) string {
	switch age := now.Sub(b.FailedAt); {
	case b.Running:
		return reason + "; it is being taken"
	case b.Failed != "" && age >= 0 && age < snapshotRetry:
		return fmt.Sprintf("%s, and failed: %s. It is retried every %s; to do without it, add %s to spec.overrideGuards of the task", reason, b.Failed, snapshotRetry, v1alpha1.GuardSnapshotTaken)
	}
	return ""
}

// record returns the next status of the snapshot, given the present one: that it is requested, or was taken.
func (b Backup) record(before *v1alpha1.RolloutSnapshot, asked bool, now time.Time) *v1alpha1.RolloutSnapshot {
	switch {
	case before == nil && asked:
		return &v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateInProgress, RequestedAt: metav1.Time{Time: now}}
	case before != nil && b.Taken != "":
		return &v1alpha1.RolloutSnapshot{State: v1alpha1.OperationStateCompleted, RequestedAt: before.RequestedAt, Name: b.Taken}
	}
	return before
}

// snapshot returns why a full snapshot is to be taken before the next pod is removed; wanted is false if none is. Without a quorum none can
// be taken.
func (s *state) snapshot() (reason string, wanted bool) {
	if !s.Backup.isMissing(s.Recorded.Snapshot) || s.overrides(v1alpha1.GuardSnapshotTaken) || !s.Snapshot.Quorate() {
		return "", false
	}
	target, _ := targetVersion(s.Snapshot, s.outdated)
	switch {
	case s.Config.SnapshotBefore == SnapshotAlways:
		return "a full snapshot is taken first (snapshotBefore: Always)", true
	case target == "" && s.byReadiness:
		// Nothing says that the minor version changes, and an operator that is cut off from the members most likely is from their
		// agents. The rollout may be what repairs that.
		return "", false
	case s.Config.SnapshotBefore == SnapshotNever || !changesMinor(VersionsOf(s.Snapshot), target):
		return "", false
	case target == "":
		return "a full snapshot is taken first: the image of the template has no tag with a version of etcd", true
	}
	return "a full snapshot is taken first: the minor version of etcd changes to that of " + target, true
}

// snapshotTaken: nothing is removed before the snapshot is taken.
func snapshotTaken(s *state, step *Step) *Hold {
	if step.Action != TakeSnapshot {
		return nil
	}
	if waiting := s.Backup.waiting(step.Reason, s.now); waiting != "" {
		return &Hold{Message: waiting}
	}
	return nil
}
