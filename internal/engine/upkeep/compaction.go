// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package upkeep

import (
	"fmt"
	"strconv"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks/snapshot"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"
)

// compactionBackoff is how long a task is kept that has compacted the deltas since a full snapshot, or failed to. Until it is gone, no
// other one is created for the same deltas: an unreachable store or a quota is seldom fixed within minutes.
const compactionBackoff = time.Hour

// compactionDue returns the task that makes restores shorter, if the deltas since the newest full snapshot have too many events: a
// compaction, which costs the members nothing, or, if there are too many events for that or it has failed, for example because of a damaged
// delta, a full snapshot. It is pure.
func compactionDue(etcd *v1alpha1.Etcd, thresholds configv1alpha1.SnapshotCompaction, leases observe.SnapshotLeases, tasks []v1alpha1.EtcdOperatorTask) *due {
	if !compacts(etcd) {
		return nil
	}
	spec := etcd.Spec.Backup.SnapshotCompaction
	full, events := backlog(leases)
	fewest, most := ptr.Deref(spec.EventsThreshold, thresholds.EventsThreshold), ptr.Deref(spec.TriggerFullSnapshotThreshold, thresholds.TriggerFullSnapshotThreshold)
	if events < min(fewest, most) {
		return nil
	}
	compaction, fullSnapshot := compactionOf(etcd, full), fullSnapshotAfter(etcd, full)
	var compacted, taken v1alpha1.TaskState
	for i := range tasks {
		if !tasks[i].Status.State.IsFinal() && shortensRestores(&tasks[i]) {
			return nil
		}
		switch {
		case compaction.is(&tasks[i]):
			compacted = tasks[i].Status.State
		case fullSnapshot.is(&tasks[i]):
			taken = tasks[i].Status.State
		}
	}
	said := fmt.Sprintf("the deltas since the full snapshot at revision %d hold %d events", full, events)
	switch {
	case compacted == v1alpha1.TaskStateSucceeded:
		// The lease will show it soon.
		return nil
	case etcd.ForPeopleOnly():
		fullSnapshot.message = said + ", and no Job can read them: spec.backup.encryption has no identitySecretRef"
	case compacted == "" && events < most:
		compaction.message = fmt.Sprintf("%s, and eventsThreshold is %d", said, fewest)
		return &compaction
	case compacted == v1alpha1.TaskStateFailed:
		fullSnapshot.message = fmt.Sprintf("%s, and %s has failed", said, compaction.name)
	case events >= most:
		fullSnapshot.message = fmt.Sprintf("%s, and triggerFullSnapshotThreshold is %d", said, most)
	default:
		return nil
	}
	if taken != "" || !etcd.Status.Conditions.IsTrue(v1alpha1.ConditionReady) {
		return nil
	}
	return &fullSnapshot
}

// compacts reports whether the operator compacts snapshots of an Etcd automatically.
func compacts(etcd *v1alpha1.Etcd) bool {
	return etcd.Spec.Backup != nil && etcd.Spec.Backup.SnapshotCompaction != nil && etcd.HasBackupStore() &&
		etcd.Spec.Replicas > 0 && !etcd.SpecSuspended()
}

// backlog returns how many events, counted by revisions, the deltas since the newest full snapshot have, and the revision of that snapshot.
// Deltas that were taken before it do not count, regardless of their revisions: it may be of a restored state.
func backlog(leases observe.SnapshotLeases) (full, events int64) {
	full, taken, ok := newest(leases.Full)
	delta, since, more := newest(leases.Delta)
	if !ok || !more || since.Before(taken) {
		return full, 0
	}
	return full, max(delta-full, 0)
}

// newest returns what a lease says of the newest snapshot of its kind; false if there is none.
func newest(lease *coordinationv1.Lease) (revision int64, taken time.Time, ok bool) {
	if lease == nil || lease.Spec.RenewTime == nil {
		return 0, time.Time{}, false
	}
	revision, err := strconv.ParseInt(ptr.Deref(lease.Spec.HolderIdentity, ""), 10, 64)
	return revision, lease.Spec.RenewTime.Time, err == nil
}

// shortensRestores reports whether a task, including a user's, makes a full snapshot.
func shortensRestores(t *v1alpha1.EtcdOperatorTask) bool {
	switch t.Spec.Type {
	case v1alpha1.OnDemandCompaction:
		return true
	case v1alpha1.OnDemandSnapshot:
		// The engine rejects a task whose config does not decode. Users write configs, so use the decoder that bounds the cost.
		config, err := taskconfig.Decode[snapshot.Config](t.Spec.Config)
		return err == nil && config.Type == snapshot.Full
	}
	return false
}

func compactionOf(etcd *v1alpha1.Etcd, full int64) due {
	return due{
		taskType: v1alpha1.OnDemandCompaction, name: fmt.Sprintf("%s-compaction-%d", etcd.Name, full),
		kept: compactionBackoff, reason: v1alpha1.ReasonCompactingSnapshots,
	}
}

func fullSnapshotAfter(etcd *v1alpha1.Etcd, full int64) due {
	config := fmt.Sprintf("type: %s\n", snapshot.Full)
	if timeout := etcd.Spec.Backup.EtcdSnapshotTimeout; timeout != nil {
		config += fmt.Sprintf("timeout: %s\n", min(timeout.Duration, snapshot.Deadline))
	}
	return due{
		taskType: v1alpha1.OnDemandSnapshot, name: fmt.Sprintf("%s-full-snapshot-%d", etcd.Name, full), config: config,
		kept: compactionBackoff, reason: v1alpha1.ReasonCompactingSnapshots,
	}
}
