// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Observer takes Snapshots of an Etcd.
type Observer interface {
	// Expect is what Observe returns if the members answer as they did before; nil where they are others.
	Expect(ctx context.Context, cache client.Reader, etcd *v1alpha1.Etcd, before *observe.Snapshot) (*observe.Snapshot, error)
	// ObserveConfirmed is Observe and Confirm at the same time.
	ObserveConfirmed(ctx context.Context, cache, live client.Reader, etcd *v1alpha1.Etcd) (*observe.Snapshot, error)
	Observe(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*observe.Snapshot, error)
	// Confirm makes of one that rests on a cache one that rests on the API server.
	Confirm(ctx context.Context, live client.Reader, etcd *v1alpha1.Etcd, s *observe.Snapshot) (*observe.Snapshot, error)
}

// Handler is the tasks.Handler of QuorumAwareRollout.
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

	memory memory
}

var _ tasks.Handler = (*Handler)(nil)

// pollInterval is how often a rollout that is held looks again. The API server tells of pods by itself; etcd
// has to be asked.
const pollInterval = time.Second

// handoverInterval is that of a rollout that has just moved leadership: the members know of it a heartbeat later.
const handoverInterval = 25 * time.Millisecond

// maxAnswerAge is how old an answer of a member may be for a removal to be announced on it.
const maxAnswerAge = 2 * time.Second

// Decode is tasks.Handler's.
func (h *Handler) Decode(config string) (any, error) { return decode(config) }

// Restore is tasks.Handler's.
func (h *Handler) Restore(normalized string) (any, error) {
	c := defaultConfig()
	if err := json.Unmarshal([]byte(normalized), &c); err != nil {
		return nil, fmt.Errorf("decoding status.config: %w", err)
	}
	return c, nil
}

// WorkKey is tasks.Handler's. Two rollouts to the same revision are the same work, and so are two restarts.
func (h *Handler) WorkKey(ctx context.Context, task tasks.Task) (string, error) {
	if task.Config.(Config).Restart {
		return "restart", nil
	}
	if revision := wanted(task); revision != "" {
		return revision, nil
	}
	set, err := h.statefulSet(ctx, h.Client, task)
	if apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return set.Status.UpdateRevision, nil
}

// Superseded is tasks.Handler's. A restart follows the revision. A cache that lags must not end a task.
func (h *Handler) Superseded(ctx context.Context, task tasks.Task) (string, error) {
	revision := wanted(task)
	if revision == "" || task.Config.(Config).Restart {
		return "", nil
	}
	for _, reader := range []client.Reader{h.Client, h.Live} {
		set, err := h.statefulSet(ctx, reader, task)
		if apierrors.IsNotFound(err) {
			return "", nil
		} else if err != nil {
			return "", err
		}
		if set.Status.ObservedGeneration < set.Generation || set.Status.UpdateRevision == revision {
			return "", nil
		}
		if reader == h.Live {
			return supersededBy(set.Name, revision, set.Status.UpdateRevision), nil
		}
	}
	return "", nil
}

func supersededBy(set, revision, current string) string {
	return fmt.Sprintf("the update revision of StatefulSet %s is %s, and not %s: pods that are outdated by now get a task of their own", set, current, revision)
}

// wanted is the revision that a task is for; empty as long as it is not fixed.
func wanted(task tasks.Task) string {
	if r := task.Object.Status.Rollout; r != nil && r.TargetRevision != "" {
		return r.TargetRevision
	}
	return task.Config.(Config).TargetRevision
}

// Admit is tasks.Handler's: there has to be a StatefulSet, and nobody else may delete its pods.
func (h *Handler) Admit(ctx context.Context, task tasks.Task) (tasks.Verdict, error) {
	set, err := h.statefulSet(ctx, h.Live, task)
	switch {
	case apierrors.IsNotFound(err):
		return tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrStatefulSetNotFound, Message: fmt.Sprintf(
			"Etcd %s has no StatefulSet yet: create the task again once it is there", task.Etcd.Name)}, nil
	case err != nil:
		return tasks.Verdict{}, err
	case set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType:
		return tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrStrategy, Message: notOnDelete(set.Name)}, nil
	}
	return tasks.Verdict{Outcome: tasks.Continue, Message: "the update strategy of StatefulSet " + set.Name + " is OnDelete"}, nil
}

func notOnDelete(set string) string {
	return fmt.Sprintf("the update strategy of StatefulSet %s is not OnDelete, so its own controller replaces pods: switch the feature gate QuorumAwareUpdatesWithOnDelete on", set)
}

func (h *Handler) statefulSet(ctx context.Context, reader client.Reader, task tasks.Task) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	key := task.Object.EtcdKey()
	if err := reader.Get(ctx, key, set); err != nil {
		return nil, fmt.Errorf("reading StatefulSet %s: %w", key, err)
	}
	return set, nil
}

// Execute is tasks.Handler's. It waits on what the cache shows, and so it moves leadership, which costs no member;
// everything else happens only once the API server has confirmed what the cache shows, and the members were asked.
// A removal is confirmed while it is announced: Perform waits for the answer. One that was overtaken a moment ago is
// confirmed first, or a cache that lags would have it announced again and again.
func (h *Handler) Execute(ctx context.Context, task tasks.Task) (tasks.Verdict, error) {
	overtaken := within(h.memory.lastWithdrawal(task.Object.UID), h.Clock.Now(), pollInterval)
	if !overtaken {
		if v := h.foresee(ctx, task); v != nil {
			return *v, nil
		}
	}
	snapshot, err := h.Observer.Observe(ctx, h.Client, task.Etcd)
	if err != nil {
		return unobserved(err)
	}
	confirm := func() (*observe.Snapshot, error) { return h.Observer.Confirm(ctx, h.Live, task.Etcd, snapshot) }
	in, decision, now := h.decide(task, snapshot)
	switch {
	case decision.restsOnCache():
		return verdict(in, decision, now), nil
	case decision.isRemoval() && !overtaken:
		return announced(in, decision, now, confirm), nil
	}
	if snapshot, err = confirm(); err != nil {
		return unobserved(err)
	}
	in, decision, now = h.decide(task, snapshot)
	if decision.isRemoval() {
		return announced(in, decision, now, func() (*observe.Snapshot, error) { return snapshot, nil }), nil
	}
	return verdict(in, decision, now), nil
}

// foresee is the verdict on a removal that is due if the members answer as they did a moment ago, when all of them
// served; nil where none is. They are asked while it is announced.
func (h *Handler) foresee(ctx context.Context, task tasks.Task) *tasks.Verdict {
	last, spells := h.memory.last(task.Object.UID)
	if last == nil || h.Clock.Now().Sub(last.At) > maxAnswerAge {
		return nil
	}
	snapshot, err := h.Observer.Expect(ctx, h.Client, task.Etcd, last)
	if err != nil || snapshot == nil || snapshot.Participating() < snapshot.Replicas() {
		// Whoever asks the members will come to the same error.
		return nil
	}
	in, now := h.input(task, snapshot, spells), h.Clock.Now()
	decision := Decide(in, now)
	if !decision.isRemoval() {
		return nil
	}
	v := announced(in, decision, now, func() (*observe.Snapshot, error) {
		return h.Observer.ObserveConfirmed(ctx, h.Client, h.Live, task.Etcd)
	})
	return &v
}

// announced is the verdict on a removal that is being confirmed.
func announced(in Input, decision Decision, now time.Time, confirm func() (*observe.Snapshot, error)) tasks.Verdict {
	confirm = sync.OnceValues(confirm)
	go confirm() //nolint:errcheck // Perform gets the error
	v := verdict(in, decision, now)
	v.Step.Detail = detail{in: in, at: now, step: *decision.Step, confirm: confirm}
	return v
}

func unobserved(err error) (tasks.Verdict, error) {
	if errors.Is(err, observe.ErrNoStatefulSet) {
		return tasks.Verdict{Outcome: tasks.Fail, Code: v1alpha1.ErrStatefulSetNotFound, Message: err.Error()}, nil
	}
	return tasks.Verdict{}, &tasks.CodedError{Code: v1alpha1.ErrObserve, Err: err}
}

// restsOnCache tells whether a cache that lags does no harm: what was recorded fails as a conflict when it did.
func (d Decision) restsOnCache() bool {
	return d.Conclusion == Wait || d.Conclusion == Act && d.Step.Action == MoveLeader
}

func (h *Handler) decide(task tasks.Task, snapshot *observe.Snapshot) (Input, Decision, time.Time) {
	in, now := h.input(task, snapshot, h.memory.observe(task.Object.UID, snapshot)), h.Clock.Now()
	return in, Decide(in, now), now
}

func (h *Handler) input(task tasks.Task, snapshot *observe.Snapshot, spells Spells) Input {
	in := Input{
		Snapshot: snapshot, Config: task.Config.(Config), Created: task.Object.CreationTimestamp.Time,
		Overridden: task.Object.Spec.OverrideGuards,
		Spells:     spells,
		Refused:    h.memory.refusals(task.Object.UID),
	}
	if r := task.Object.Status.Rollout; r != nil {
		in.Recorded = *r
	}
	return in
}
