// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/tasks"
)

// request is the detail of a step that requests a full snapshot.
type request struct {
	// final: it is the final snapshot of the present cluster, which retention never removes.
	final bool
	// name describes the request to people.
	name string
	// atLeast is the revision that the snapshot must reach, the newest one of the members; 0 if that is not known.
	atLeast int64
}

// ask starts a request for a full snapshot in the background. Execute reads its result.
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

// take requests a full snapshot, unless the newest one already has everything: the answer to an earlier request may have been lost, or
// another operator may have made it. It compares revisions, not times, since clocks differ.
func take(ctx context.Context, agent api.Client, r request) (backup.Snapshot, error) {
	if r.atLeast > 0 {
		chain, err := agent.Latest(ctx)
		if err == nil && chain.Full != nil && chain.Full.Final == r.final && chain.Full.LastRevision >= r.atLeast {
			return *chain.Full, nil
		}
	}
	return agent.Full(ctx, r.final)
}

// hold is the detail of a step that requests a hold: retention then keeps the snapshots that were previewed.
type hold struct {
	base string
	// revision to which deltas lead from the base; 0 if there are none.
	revision int64
	// name describes the request to people.
	name string
}

const (
	// holdSnapshots is the operation of such a step.
	holdSnapshots = "HoldSnapshots"
	// holdTimeout bounds the request.
	holdTimeout = 2 * time.Minute
	// retryHolds is how long a failing request is repeated.
	retryHolds = 10 * time.Minute
)

// hold starts a request for a hold in the background.
func (h *Handler) hold(ctx context.Context, task tasks.Task, what hold) {
	h.calls.Start(ctx, task.Object.UID, what.name, holdTimeout, func(ctx context.Context) (backup.Snapshot, error) {
		agent, err := h.Agent(ctx, task.Etcd)
		if err != nil {
			return backup.Snapshot{}, err
		}
		return agent.Hold(ctx, what.base, what.revision)
	})
}

// holding returns the verdict on a task whose preview has run: it passes next on once the leading agent holds what is to be restored.
// Without a hold, no data is replaced, and a task that only previews says in its result that retention may remove it. The hold has been
// requested since the given time. It is pure.
func holding(next tasks.Verdict, found backup.Preview, replaces bool, call *background.Request[backup.Snapshot], since, now time.Time) tasks.Verdict {
	what := hold{base: found.Base, name: fmt.Sprintf("the leading agent protects %s and its deltas from retention", found.Base)}
	if found.Deltas > 0 {
		what.revision = found.Revision
	}
	waits := tasks.Verdict{Outcome: tasks.Continue, Reason: v1alpha1.ReasonRunning, Message: what.name, RequeueAfter: pollInterval}
	switch {
	case call == nil:
		waits.Step = &tasks.Step{Operation: holdSnapshots, Reason: what.name, Detail: what, RecheckAfter: pollInterval}
		return waits
	case call.Running:
		return waits
	case call.Err == nil && !replaces:
		next.Message += fmt.Sprintf(". Until %s, retention removes nothing that this restore needs", now.Add(backup.HoldFor).UTC().Format(time.RFC3339))
	case call.Err != nil && !replaces:
		next.Message += fmt.Sprintf(". Retention may remove what this restore needs before it is confirmed: no agent could protect it (%v)", call.Err)
	case call.Err != nil && passes(call.Err) && now.Sub(since) < retryHolds:
		waits.Message = fmt.Sprintf("%s: this failed and is retried every few seconds: %v", what.name, call.Err)
		waits.Step = &tasks.Step{Operation: holdSnapshots, Reason: waits.Message, Detail: what, RecheckAfter: retryInterval}
		return waits
	case call.Err != nil:
		return tasks.Failed(v1alpha1.ErrRestoreRefused, "what is to be restored cannot be protected from retention: %v. Nothing was changed: preview it again", call.Err)
	}
	return next
}

// passes reports whether the cause of an error may pass, so that the same request may succeed later: the agent was not reached, no member
// led, or the store did not answer.
func passes(err error) bool {
	answer, answered := errors.AsType[*api.StatusError](err)
	return !answered || answer.Code >= http.StatusInternalServerError || answer.Reason == api.CodeNoLeader || answer.Reason == api.CodeTooManyRequests
}
