// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
)

const (
	// snapshotTimeout bounds one request for a snapshot. If it times out, the next request joins the snapshot in progress.
	snapshotTimeout = 15 * time.Minute
	// maxFailure bounds what is shown of a failure, in bytes.
	maxFailure = 512
)

// taken is the outcome of a request for a snapshot.
type taken struct {
	name string
	at   time.Time
	// revision that the cluster had when the snapshot was first requested, as far as this operator knows; 0 if no member reported it.
	revision int64
	// noStore: the agents of the running pods have no store yet.
	noStore bool
}

// backup returns what this operator knows about the snapshot before a rollout.
func (h *Handler) backup(task tasks.Typed[rollout.Config]) rollout.Backup {
	b := rollout.Backup{Configured: task.Etcd.HasBackupStore() && task.Config.MayTakeSnapshot(h.UnknownVersions)}
	call, known := h.snapshots.Of(task.Object.UID)
	switch {
	case !known:
	case call.Running:
		b.Running = true
	case call.Err != nil:
		b.Failed, b.FailedAt = sanitize.Text(call.Err.Error(), maxFailure), call.Result.at
	case call.Result.noStore:
		b.Configured = false
	default:
		b.Taken = call.Result.name
	}
	return b
}

// takeSnapshot requests a full snapshot. A later reconcile sees the outcome.
func (h *Handler) takeSnapshot(ctx context.Context, task tasks.Task, d detail) error {
	agent, err := h.Agent(ctx, task.Etcd)
	if err != nil {
		return err
	}
	before, revision := d.in.Recorded.Snapshot, d.in.Snapshot.Cluster.Revision
	if last, known := h.snapshots.Of(task.Object.UID); known && last.Err != nil && last.Result.revision > 0 {
		revision = last.Result.revision
	}
	h.snapshots.Start(ctx, task.Object.UID, d.step.Reason, snapshotTimeout, func(ctx context.Context) (taken, error) {
		if before != nil && revision > 0 {
			// The answer to an earlier request may have been lost.
			if chain, err := agent.Latest(ctx); err == nil && answers(chain.Full, revision, before.RequestedAt.Time) {
				return taken{name: chain.Full.Name()}, nil
			}
		}
		s, err := agent.Full(ctx, false)
		if refused, ok := errors.AsType[*api.StatusError](err); ok && refused.Reason == api.CodeNoStore {
			return taken{noStore: true}, nil
		}
		return taken{name: s.Name(), at: h.Clock.Now(), revision: revision}, err
	})
	return nil
}

// answers reports whether a full snapshot, nil if there is none, may be that of an earlier request. Neither the revision suffices, since that
// of an idle cluster stays, nor the time, since clocks differ: one that is behind costs another snapshot.
func answers(full *backup.Snapshot, revision int64, requested time.Time) bool {
	return full != nil && full.LastRevision >= revision && !full.Created.Before(requested.Truncate(time.Second)) && !full.Final
}
