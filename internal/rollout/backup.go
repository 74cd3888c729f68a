// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// snapshot is why a full snapshot is to be taken before the next pod is removed; wanted is false if none is. Without a quorum
// none can be taken.
func (s *state) snapshot() (reason string, wanted bool) {
	if !s.Backup.IsMissing(s.Recorded.Snapshot) || s.overrides(v1alpha1.GuardSnapshotTaken) || !s.Snapshot.Quorate() {
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
	if waiting := s.Backup.Waiting(step.Reason, s.now); waiting != "" {
		return &Hold{Message: waiting}
	}
	return nil
}
