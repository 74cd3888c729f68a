// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package rollout implements the task type QuorumAwareRollout: it brings the pods of an etcd StatefulSet to the target revision in an order
// that keeps quorum (DEP-07). Package internal/rollout decides; this package observes the cluster and carries out the steps, without
// decisions of its own.
package rollout

import (
	"context"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
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

// Handler carries out QuorumAwareRollouts.
type Handler struct {
	tasks.Rollouts[rollout.Config]
	Observer observe.Confirming
	Dialer   etcdclient.Dialer
	// Credentials for members that listen for clients with TLS.
	Credentials *certificates.Credentials
	Clock       clock.PassiveClock
	// PodUpdatePolicy is the operator's default. Without one, every pod is replaced.
	PodUpdatePolicy v1alpha1.PodUpdatePolicy
	// ReplacesAlways: no pod is updated in place, regardless of the Etcd and the task.
	ReplacesAlways bool
	// UnknownVersions: images do not reveal their version of etcd. A snapshot before a rollout is then only taken if the task always wants
	// one.
	UnknownVersions bool
	// Agent makes a client for the agents of an Etcd. Any of them forwards requests to the leading one.
	Agent func(context.Context, *v1alpha1.Etcd) (api.Client, error)

	tracker   tracker
	snapshots background.Requests[taken]
}

// pollInterval is how often a blocked rollout observes the cluster: pods send events, etcd does not.
const pollInterval = time.Second

// startInterval is how often it does so while all that is missing is a pod that starts, as the API server will say. Most of a rollout passes
// with that.
const startInterval = 3 * time.Second

// handoverInterval is the poll interval right after leadership was moved, which members learn a heartbeat later.
const handoverInterval = 25 * time.Millisecond

// Execute implements tasks.Methods. Waiting, moving leadership and asking for a snapshot may rest on the cache, since they disrupt no
// member. Every other decision rests on live reads, and so does how a pod that has changed can be updated in place.
func (h *Handler) Execute(ctx context.Context, task tasks.Typed[rollout.Config]) (tasks.Verdict, error) {
	snapshot, err := h.Observer.Observe(ctx, h.Client, task.Etcd)
	if err != nil {
		return tasks.Unobserved(tasks.Fail, err)
	}
	if err := h.readsOf(ctx, h.Client, task, snapshot); err != nil {
		return tasks.Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
	}
	if updates, known := h.known(task, snapshot); known {
		if in, decision, now := h.decide(task, snapshot, updates); mayRestOnCache(decision) {
			return verdict(in, decision, now), nil
		}
	}
	live := &read.Reader{Reader: h.Live, Known: h.tracker.revisions(task.Object.UID)}
	if snapshot, err = h.Observer.Confirm(ctx, live, task.Etcd, snapshot); err != nil {
		return tasks.Unobserved(tasks.Fail, err)
	}
	if err := h.readsOf(ctx, h.Live, task, snapshot); err != nil {
		return tasks.Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
	}
	updates, err := h.assess(ctx, task, live, snapshot)
	if err != nil {
		return tasks.Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
	}
	in, decision, now := h.decide(task, snapshot, updates)
	if s := decision.Step; s != nil && (s.IsRemoval() || s.Write != nil) {
		if snapshot.Replicas() < 3 {
			// Whether a second member is to take over first shows in the spec alone. A cluster of three needs no request for it.
			etcd, err := tasks.LiveEtcd(ctx, h.Live, task.Task)
			switch {
			case err != nil:
				return tasks.Verdict{}, err
			case etcd.Generation != task.Etcd.Generation:
				task.Etcd = etcd
				return h.Execute(ctx, task)
			}
		}
		// The timers have seen the Snapshot before this: a kubelet that is silent for a moment must not restart them.
		if in.Snapshot, err = observe.Hear(ctx, h.Client, h.Live, snapshot); err != nil {
			return tasks.Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
		}
		decision = rollout.Decide(in, now)
	}
	return verdict(in, decision, now), nil
}

// readsOf adds what agents report about members to a Snapshot if a second member is about to take over. An agent that reports nothing is
// too old for that.
func (h *Handler) readsOf(ctx context.Context, reader client.Reader, task tasks.Typed[rollout.Config], snapshot *cluster.Snapshot) error {
	if !task.Etcd.Surges() {
		return nil
	}
	return h.Observer.Reads(ctx, reader, task.Etcd, snapshot)
}

// mayRestOnCache reports whether a decision may rest on the cache: if that lags, recording the decision fails with a conflict.
func mayRestOnCache(d rollout.Decision) bool {
	return d.Conclusion == rollout.Wait || d.Conclusion == rollout.Paused || d.Conclusion == rollout.Act && (d.Step.Action == rollout.MoveLeader || d.Step.Action == rollout.TakeSnapshot)
}

func (h *Handler) decide(task tasks.Typed[rollout.Config], snapshot *cluster.Snapshot, updates inplace.Updates) (rollout.Input, rollout.Decision, time.Time) {
	in := rollout.Input{
		Snapshot: snapshot, Config: task.Config, Created: task.Object.CreationTimestamp.Time,
		Overridden: task.Object.Spec.OverrideGuards,
		Timers:     h.tracker.observe(task.Object.UID, snapshot),
		Refused:    h.tracker.refusals(task.Object.UID),
		Backup:     h.backup(task),
		Updates:    updates,
		Surges:     rollout.Surges(task.Etcd, snapshot),
		HasSource:  task.Etcd.Source() != nil,
		Pausing:    task.Pausing,
	}
	if r := task.Object.Status.Rollout; r != nil {
		in.Recorded = *r
	}
	now := h.Clock.Now()
	return in, rollout.Decide(in, now), now
}
