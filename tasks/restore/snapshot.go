// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/tasks"
)

// request is the detail of a step that asks for a full snapshot.
type request struct {
	// final: it is the last one of the cluster before, and is kept.
	final bool
	// name says what is asked of whom.
	name string
	// since when it is asked for, and asked: it was asked for before, perhaps by another operator.
	since time.Time
	asked bool
}

// ask asks for a full snapshot. The request is made here, and looked after by Execute.
func (h *Handler) ask(ctx context.Context, task tasks.Task, r request) error {
	agent, err := h.Agent(ctx, task.Etcd)
	if err != nil {
		return err
	}
	h.calls.Start(ctx, task.Object.UID, r.name, snapshotTimeout, func(ctx context.Context) (backup.Snapshot, error) {
		taken, err := take(ctx, agent, r)
		if err != nil || !r.final {
			return taken, err
		}
		return agent.Keep(ctx, taken.Name())
	})
	return nil
}

// take takes a full snapshot, unless one was taken since it was asked for first: the answer was lost.
func take(ctx context.Context, agent api.Client, r request) (backup.Snapshot, error) {
	if r.asked {
		chain, err := agent.Latest(ctx)
		if err == nil && chain.Full != nil && chain.Full.Final == r.final && !chain.Full.Created.Before(r.since.Truncate(time.Second)) {
			return *chain.Full, nil
		}
	}
	return agent.Full(ctx, r.final)
}
