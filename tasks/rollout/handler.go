// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package rollout is the task type QuorumAwareRollout: it brings the pods of an etcd StatefulSet to the target revision in
// an order that does not cost the cluster its quorum (DEP-07). The decision is internal/rollout's. This package observes,
// hands over, and carries out, and adds no judgment of its own.
package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace/read"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Observer takes Snapshots of an Etcd.
type Observer interface {
	// Observe reads through a reader, and asks the members.
	Observe(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error)
	// Confirm makes of a Snapshot that rests on a cache one that rests on the API server.
	Confirm(ctx context.Context, live client.Reader, etcd *v1alpha1.Etcd, s *cluster.Snapshot) (*cluster.Snapshot, error)
}

// Handler implements tasks.Handler for QuorumAwareRollout.
type Handler struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Observer Observer
	Dialer   etcdclient.Dialer
	// Credentials for members that listen for clients with TLS.
	Credentials *certificates.Credentials
	Clock       clock.PassiveClock
	// Rule decides whose pods the operator replaces.
	Rule replacer.Rule
	// PodUpdatePolicy is the operator's default. Without one, every pod is replaced.
	PodUpdatePolicy v1alpha1.PodUpdatePolicy
	// ReplacesAlways: no pod is updated in place, whatever the Etcd or the task asks for.
	ReplacesAlways bool
	// UnknownVersions: images do not tell which version of etcd they have. A snapshot before a rollout is taken only if the task
	// always wants one.
	UnknownVersions bool
	// Agent makes a client of the agents of an Etcd, any of which asks the leading one.
	Agent func(context.Context, *v1alpha1.Etcd) (api.Client, error)

	tracker   tracker
	snapshots background.Requests[taken]
}

var _ tasks.Handler = (*Handler)(nil)

// pollInterval is how often a rollout that is blocked looks again. The API server sends events for pods; etcd
// has to be asked.
const pollInterval = time.Second

// handoverInterval is that of a rollout that has just moved leadership: the members learn of it a heartbeat later.
const handoverInterval = 25 * time.Millisecond

// Decode implements tasks.Handler.
func (h *Handler) Decode(config string) (any, error) { return rollout.DecodeConfig(config) }

// Restore implements tasks.Handler.
func (h *Handler) Restore(normalized string) (any, error) {
	c := rollout.DefaultConfig()
	if err := json.Unmarshal([]byte(normalized), &c); err != nil {
		return nil, fmt.Errorf("decoding status.config: %w", err)
	}
	return c, nil
}

// WorkKey implements tasks.Handler. Two rollouts to the same revision are the same work, and so are two restarts.
func (h *Handler) WorkKey(ctx context.Context, task tasks.Task) (string, error) {
	if task.Config.(rollout.Config).Restart {
		return "restart", nil
	}
	return h.rollouts().WorkKey(ctx, task, wanted(task))
}

// Superseded implements tasks.Handler. A restart follows the revision.
func (h *Handler) Superseded(ctx context.Context, task tasks.Task) (string, error) {
	if task.Config.(rollout.Config).Restart {
		return "", nil
	}
	return h.rollouts().Superseded(ctx, task, wanted(task))
}

// wanted is the revision that a task is for; empty as long as it is not fixed.
func wanted(task tasks.Task) string {
	return cmp.Or(rollout.RecordedRevision(task.Object), task.Config.(rollout.Config).TargetRevision)
}

// Admit implements tasks.Handler.
func (h *Handler) Admit(ctx context.Context, task tasks.Task) (tasks.Verdict, error) {
	return h.rollouts().Admit(ctx, task)
}

func (h *Handler) rollouts() tasks.Rollouts {
	return tasks.Rollouts{Client: h.Client, Live: h.Live, Rule: h.Rule}
}

// Execute implements tasks.Handler. It waits on what the cache shows, and moves leadership and asks for a snapshot on it, which
// costs no member. Everything else, and all that updates pods in place, is decided on what the API server says now.
func (h *Handler) Execute(ctx context.Context, task tasks.Task) (tasks.Verdict, error) {
	snapshot, err := h.Observer.Observe(ctx, h.Client, task.Etcd)
	if err != nil {
		return unobserved(err)
	}
	if !h.updatesInPlace(task, snapshot) {
		if in, decision, now := h.decide(task, snapshot, inplace.Updates{}); mayRestOnCache(decision) {
			return verdict(in, decision, now), nil
		}
	}
	live := &read.Reader{Reader: h.Live, Known: h.tracker.revisions(task.Object.UID)}
	if snapshot, err = h.Observer.Confirm(ctx, live, task.Etcd, snapshot); err != nil {
		return unobserved(err)
	}
	updates, err := h.assess(ctx, task, live, snapshot)
	if err != nil {
		return tasks.Verdict{}, &v1alpha1.CodedError{Code: v1alpha1.ErrObserve, Err: err}
	}
	in, decision, now := h.decide(task, snapshot, updates)
	return verdict(in, decision, now), nil
}

func unobserved(err error) (tasks.Verdict, error) {
	if errors.Is(err, observe.ErrNoStatefulSet) {
		return tasks.Verdict{Outcome: tasks.Fail, Code: v1alpha1.ErrStatefulSetNotFound, Message: err.Error()}, nil
	}
	return tasks.Verdict{}, &v1alpha1.CodedError{Code: v1alpha1.ErrObserve, Err: err}
}

// mayRestOnCache reports whether a cache that lags does no harm: what is recorded is refused as a conflict then.
func mayRestOnCache(d rollout.Decision) bool {
	return d.Conclusion == rollout.Wait || d.Conclusion == rollout.Act && (d.Step.Action == rollout.MoveLeader || d.Step.Action == rollout.TakeSnapshot)
}

func (h *Handler) decide(task tasks.Task, snapshot *cluster.Snapshot, updates inplace.Updates) (rollout.Input, rollout.Decision, time.Time) {
	in := rollout.Input{
		Snapshot: snapshot, Config: task.Config.(rollout.Config), Created: task.Object.CreationTimestamp.Time,
		Overridden: task.Object.Spec.OverrideGuards,
		Timers:     h.tracker.observe(task.Object.UID, snapshot),
		Refused:    h.tracker.refusals(task.Object.UID),
		Backup:     h.backup(task),
		Updates:    updates,
	}
	if r := task.Object.Status.Rollout; r != nil {
		in.Recorded = *r
	}
	now := h.Clock.Now()
	return in, rollout.Decide(in, now), now
}
