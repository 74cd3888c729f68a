// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package snapshot implements the task type OnDemandSnapshot: the leading agent of a cluster takes a snapshot now.
//
// The agent takes one snapshot at a time; requests that arrive while it does get that one, and canceling a request does not cancel the
// snapshot. So repeated requests, even after a crash of the operator, do not pile up work. One that lacks what was written before the request is
// followed by another.
package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Type of a snapshot.
type Type string

// The types.
const (
	Full  Type = "full"
	Delta Type = "delta"
)

const (
	// Deadline of a task of this type.
	Deadline = 4 * time.Hour

	defaultTimeout = 15 * time.Minute
	minTimeout     = time.Second
	pollInterval   = time.Second
	takeSnapshot   = "TakeSnapshot"
	// keyRequested, in status.result, is the revision that the cluster had when the snapshot was first requested.
	keyRequested = "requestedRevision"
)

// Config is spec.config of an OnDemandSnapshot.
type Config struct {
	// Type of the snapshot.
	Type Type `json:"type"`
	// IsFinal marks a full snapshot as the last one before the cluster hibernates or is moved.
	IsFinal bool `json:"isFinal,omitempty"`
	// Timeout after which the task has failed. Default 15m.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}

// Default implements taskconfig.Config.
func (c *Config) Default() { c.Timeout = &metav1.Duration{Duration: defaultTimeout} }

// Validate implements taskconfig.Config.
func (c *Config) Validate() error {
	switch {
	case c.Type != Full && c.Type != Delta:
		return fmt.Errorf("type is %q: it has to be %s or %s", c.Type, Full, Delta)
	case c.IsFinal && c.Type != Full:
		return errors.New("isFinal belongs to type full")
	case c.Timeout == nil || c.Timeout.Duration < minTimeout || c.Timeout.Duration > Deadline:
		return fmt.Errorf("timeout has to be between %s and %s", minTimeout, Deadline)
	}
	return nil
}

// Handler carries out OnDemandSnapshots.
type Handler struct {
	tasks.NeverSuperseded[Config]
	// Live reads from the API server.
	Live     client.Reader
	Observer observe.Interface
	Clock    clock.PassiveClock
	// Agent makes a client for the agents of an Etcd. Any of them forwards requests to the leading one.
	Agent func(context.Context, *v1alpha1.Etcd) (api.Client, error)

	// calls return nil if there was nothing to write into a delta snapshot.
	calls background.Requests[*backup.Snapshot]
}

// WorkKey implements tasks.Methods. Two snapshots of the same type are the same work (DEP-05).
func (h *Handler) WorkKey(_ context.Context, task tasks.Typed[Config]) (string, error) {
	return fmt.Sprintf("%s, final: %v", task.Config.Type, task.Config.IsFinal), nil
}

// Admit implements tasks.Methods: backups are configured, and there is a quorum (DEP-05).
func (h *Handler) Admit(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	if !task.Etcd.HasBackupStore() {
		return tasks.Rejected(v1alpha1.ErrNoBackup, "Etcd %s has no spec.backup.store", task.Etcd.Name), nil
	}
	v, err := tasks.AdmitWithQuorum(ctx, h.Observer, h.Live, task.Etcd)
	if v.Outcome == tasks.Continue {
		v.Message = "backups are configured, and " + v.Message
	}
	return v, err
}

// Execute implements tasks.Methods.
func (h *Handler) Execute(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	uid, config := task.Object.UID, task.Config
	call, known := h.calls.Of(uid)
	switch {
	case known && call.Running:
		return tasks.Verdict{Outcome: tasks.Continue, Reason: v1alpha1.ReasonRunning, Message: call.Name, RequeueAfter: pollInterval}, nil
	case known && call.Err == nil:
		return taken(call.Result, h.Clock.Now()), nil
	}
	left := config.Timeout.Duration - task.Elapsed
	switch {
	case left <= 0 && known:
		return tasks.Failed(v1alpha1.ErrSnapshot, "no %s snapshot was taken within %s: %v", config.Type, config.Timeout.Duration, call.Err), nil
	case left <= 0:
		return tasks.Failed(v1alpha1.ErrSnapshot, "no %s snapshot was taken within %s", config.Type, config.Timeout.Duration), nil
	case known:
		// The request is repeated, with the back-off of the engine.
		h.calls.Forget(uid)
		return tasks.Verdict{}, coded.Error(v1alpha1.ErrSnapshot, call.Err)
	}
	reason := fmt.Sprintf("the leading agent takes a %s snapshot", config.Type)
	asked, atLeast := task.Object.Status.LastOperation, h.requestedAt(ctx, task)
	v := tasks.Verdict{
		Outcome: tasks.Continue, Reason: v1alpha1.ReasonRunning, Message: reason,
		Step: &tasks.Step{Operation: takeSnapshot, Reason: reason, RecheckAfter: pollInterval, Detail: request{
			config: config, name: reason, left: left, askedBefore: asked != nil && asked.Name == takeSnapshot, atLeast: atLeast,
		}},
	}
	if atLeast > 0 {
		v.Result = map[string]string{keyRequested: strconv.FormatInt(atLeast, 10)}
	}
	return v, nil
}

// requestedAt returns the revision that the cluster had when the snapshot was first requested: as recorded, or else as observed now; 0 if
// no member reports it. The request does not depend on it.
func (h *Handler) requestedAt(ctx context.Context, task tasks.Typed[Config]) int64 {
	if recorded, err := strconv.ParseInt(task.Object.Status.Result[keyRequested], 10, 64); err == nil {
		return recorded
	}
	s, err := h.Observer.Observe(ctx, h.Live, task.Etcd)
	if err != nil {
		return 0
	}
	return s.Cluster.Revision
}

// request is the Detail of a tasks.Step of this type.
type request struct {
	config Config
	name   string
	left   time.Duration
	// askedBefore: an earlier request got no answer or failed.
	askedBefore bool
	// atLeast is the revision that a snapshot must reach to be that of an earlier request; 0 if that is not known.
	atLeast int64
}

// Perform implements tasks.Methods. It starts the request; Execute waits for its outcome.
func (h *Handler) Perform(ctx context.Context, task tasks.Task, step tasks.Step) error {
	r, began := step.Detail.(request), task.Object.Status.InitiatedAt.Time
	config := r.config
	agent, err := h.Agent(ctx, task.Etcd)
	if err != nil {
		return coded.Error(v1alpha1.ErrSnapshot, err)
	}
	h.calls.Start(ctx, task.Object.UID, r.name, r.left, func(ctx context.Context) (*backup.Snapshot, error) {
		if r.askedBefore && r.atLeast > 0 {
			// The answer to an earlier request may have been lost.
			if chain, err := agent.Latest(ctx); err == nil {
				if s := takenSince(chain, config, r.atLeast, began); s != nil {
					return s, nil
				}
			}
		}
		s, err := take(ctx, agent, config)
		if err == nil && (s == nil || s.LastRevision < r.atLeast) && r.atLeast > 0 {
			// It had begun before the request, and may lack what was written in between. The agent's next one has that.
			s, err = take(ctx, agent, config)
		}
		return s, err
	})
	return nil
}

func take(ctx context.Context, agent api.Client, config Config) (*backup.Snapshot, error) {
	if config.Type == Delta {
		return agent.Delta(ctx)
	}
	s, err := agent.Full(ctx, config.IsFinal)
	return &s, err
}

// takenSince returns a snapshot of the requested kind that has everything up to a revision and was taken since the task began; nil if there is
// none. A revision does not suffice: that of an idle cluster stays, also if users and roles change. A clock that is behind costs a snapshot.
func takenSince(chain backup.Chain, config Config, revision int64, began time.Time) *backup.Snapshot {
	newest := chain.Full
	if config.Type == Delta {
		newest = nil
		if n := len(chain.Deltas); n > 0 {
			newest = &chain.Deltas[n-1]
		}
	}
	if newest == nil || newest.LastRevision < revision || newest.Created.Before(began.Truncate(time.Second)) || newest.Final != config.IsFinal {
		return nil
	}
	return newest
}

// taken returns the verdict on a task whose snapshot was taken.
func taken(s *backup.Snapshot, now time.Time) tasks.Verdict {
	v := tasks.Verdict{Outcome: tasks.Done, Message: "nothing has happened since the last snapshot: no delta snapshot was needed"}
	if s != nil {
		v.Message = fmt.Sprintf("%s holds everything up to revision %d", s.Name(), s.LastRevision)
		v.Result = s.Facts()
	}
	v.LastOperation = &v1alpha1.LastOperation{Name: takeSnapshot, State: v1alpha1.OperationStateCompleted, LastTransitionTime: metav1.Time{Time: now}, Reason: v.Message}
	return v
}

// Cleanup implements tasks.Methods. The agent completes a snapshot that it has begun.
func (h *Handler) Cleanup(_ context.Context, task tasks.Task) error {
	h.calls.Forget(task.Object.UID)
	return nil
}
