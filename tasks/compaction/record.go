// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package compaction

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// recordSnapshot is the step after the Job: the lease of full snapshots records the new one.
	recordSnapshot = "RecordSnapshot"
	// recheck is when to read a lease again after it was written.
	recheck = 50 * time.Millisecond
)

// recording is the detail of such a step.
type recording struct {
	// before is the lease as it was read: the write fails if the leading agent records a snapshot in between.
	before *coordinationv1.Lease
	made   made
}

// made is the snapshot that the Job has made.
type made struct {
	revision int64
	created  time.Time
}

// madeBy parses a Job's report on its snapshot; false if the report is incomplete.
func madeBy(result map[string]string) (made, bool) {
	revision, err := strconv.ParseInt(result["revision"], 10, 64)
	if err != nil {
		return made{}, false
	}
	created, err := time.Parse(time.RFC3339, result["createdOn"])
	return made{revision, created}, err == nil
}

// isNews reports whether a lease records neither this snapshot nor a newer one. Newer means taken later, regardless of the revision. It is
// pure.
func (m made) isNews(lease *coordinationv1.Lease) bool {
	return lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(m.created)
}

// record returns the verdict on a task whose Job is done: its end, once the lease of full snapshots records the snapshot. The number of
// events since the newest full snapshot is derived from that lease.
func (h *Handler) record(ctx context.Context, task tasks.Task, done tasks.Verdict) (tasks.Verdict, error) {
	snapshot, ok := madeBy(done.Result)
	if !ok {
		return done, nil
	}
	if h.SkipLease {
		done.Message += "; the lease of full snapshots does not show it: the agents of the Etcd write it"
		return done, nil
	}
	key := types.NamespacedName{Namespace: task.Etcd.Namespace, Name: task.Etcd.FullSnapshotLeaseName()}
	lease, err := lookup.Get[coordinationv1.Lease](ctx, h.Live, "lease", key)
	switch {
	case err != nil:
		return tasks.Verdict{}, err
	case lease == nil || !snapshot.isNews(lease):
		return done, nil
	}
	if foreign := ownership.Of(task.Etcd, "Lease", lease); foreign != nil {
		done.Message += "; it is recorded nowhere: " + foreign.String()
		return done, nil
	}
	reason := fmt.Sprintf("record the full snapshot at revision %d in lease %s", snapshot.revision, key.Name)
	return tasks.Verdict{
		Outcome: tasks.Continue, Reason: v1alpha1.ReasonRunning, Message: reason, Result: done.Result,
		Step: &tasks.Step{Operation: recordSnapshot, Reason: reason, Detail: recording{lease, snapshot}, RecheckAfter: recheck},
	}, nil
}

// carryOut writes the lease.
func (h *Handler) carryOut(ctx context.Context, r recording) error {
	lease, holder := r.before.DeepCopy(), strconv.FormatInt(r.made.revision, 10)
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &metav1.MicroTime{Time: r.made.created}
	patch := client.MergeFromWithOptions(r.before, client.MergeFromWithOptimisticLock{})
	if err := h.Client.Patch(ctx, lease, patch); err != nil {
		return fmt.Errorf("writing lease %s: %w", client.ObjectKeyFromObject(lease), err)
	}
	return nil
}
