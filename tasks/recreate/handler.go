// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// pollInterval is how often the members are observed: etcd sends no events.
	pollInterval = time.Second
	// progressDeadline is how long there may be no progress before the task is called stalled.
	progressDeadline = 10 * time.Minute
)

// Observer takes Snapshots of an Etcd.
type Observer interface {
	Observe(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error)
}

// Handler is the tasks.Handler of RecreateRollout.
type Handler struct {
	// Client reads from the cache, Live from the API server.
	Client, Live client.Reader
	Observer     Observer
	Clock        clock.PassiveClock
}

var _ tasks.Handler = (*Handler)(nil)

// Decode implements tasks.Handler.
func (h *Handler) Decode(config string) (any, error) { return rollout.DecodeRecreateConfig(config) }

// Restore implements tasks.Handler.
func (h *Handler) Restore(normalized string) (any, error) {
	var c rollout.RecreateConfig
	if err := json.Unmarshal([]byte(normalized), &c); err != nil {
		return nil, fmt.Errorf("decoding status.config: %w", err)
	}
	return c, nil
}

// WorkKey implements tasks.Handler. Two recreations to the same revision are the same work.
func (h *Handler) WorkKey(ctx context.Context, task tasks.Task) (string, error) {
	return h.rollouts().WorkKey(ctx, task, wanted(task))
}

// Superseded implements tasks.Handler.
func (h *Handler) Superseded(ctx context.Context, task tasks.Task) (string, error) {
	return h.rollouts().Superseded(ctx, task, wanted(task))
}

// wanted is the revision that a task is for; empty as long as it is not fixed.
func wanted(task tasks.Task) string {
	return cmp.Or(rollout.RecordedRevision(task.Object), task.Config.(rollout.RecreateConfig).TargetRevision)
}

// Admit implements tasks.Handler.
func (h *Handler) Admit(ctx context.Context, task tasks.Task) (tasks.Verdict, error) {
	return h.rollouts().Admit(ctx, task)
}

func (h *Handler) rollouts() tasks.Rollouts {
	return tasks.Rollouts{Client: h.Client, Live: h.Live, Rule: replacer.Operator{}}
}

// Execute implements tasks.Handler. It waits on what the cache shows, and enters another phase only on what the API server
// and the members say now.
func (h *Handler) Execute(ctx context.Context, task tasks.Task) (tasks.Verdict, error) {
	for _, reader := range []client.Reader{h.Client, h.Live} {
		if reader == h.Live {
			// Whether its spec is applied is not believed of the cache either.
			etcd, key := &v1alpha1.Etcd{}, client.ObjectKeyFromObject(task.Etcd)
			if err := h.Live.Get(ctx, key, etcd); err != nil {
				return tasks.Verdict{}, coded(fmt.Errorf("reading Etcd %s: %w", key, err))
			}
			if etcd.UID != task.Etcd.UID {
				return tasks.Verdict{}, coded(fmt.Errorf("reading Etcd %s: it is another one now, with UID %s", key, etcd.UID))
			}
			task.Etcd = etcd
		}
		snapshot, err := h.Observer.Observe(ctx, reader, task.Etcd)
		if errors.Is(err, observe.ErrNoStatefulSet) {
			return tasks.Verdict{Outcome: tasks.Fail, Code: v1alpha1.ErrStatefulSetNotFound, Message: err.Error()}, nil
		} else if err != nil {
			return tasks.Verdict{}, coded(err)
		}
		in := input(task, snapshot)
		d := decide(in)
		if reader == h.Live || d.Outcome == tasks.Continue && d.Phase == in.Recorded.Phase {
			return verdict(in, d, h.Clock.Now()), nil
		}
	}
	return tasks.Verdict{}, errors.New("the API server was not asked")
}

func input(task tasks.Task, snapshot *cluster.Snapshot) Input {
	in := Input{Snapshot: snapshot, Config: task.Config.(rollout.RecreateConfig), Task: task.Object.UID, Overridden: task.Object.Spec.OverrideGuards}
	_, suspended := task.Etcd.Annotations[v1alpha1.AnnotationSuspendSpecReconcile]
	in.SpecApplied = suspended || task.Etcd.Status.ObservedGeneration == task.Etcd.Generation
	if r := task.Object.Status.Rollout; r != nil {
		in.Recorded = *r
	}
	return in
}

// verdict translates a decision for the task engine. It is pure.
func verdict(in Input, d Decision, now time.Time) tasks.Verdict {
	recorded := record(in, d, now)
	v := tasks.Verdict{
		Outcome: d.Outcome, Code: d.Code, Reason: v1alpha1.ReasonRecreateInProgress, Message: d.Message, RequeueAfter: pollInterval,
		Rollout: &recorded, Progress: fmt.Sprintf("%d/%d", recorded.UpdatedReplicas, recorded.Replicas),
	}
	switch {
	case d.Outcome == tasks.Done:
		v.EndReason = v1alpha1.ReasonRecreateComplete
	case d.Phase == in.Recorded.Phase && now.Sub(recorded.LastProgressTime.Time) >= progressDeadline:
		v.Reason, v.Message = v1alpha1.ReasonStalled, fmt.Sprintf("no progress for %s; %s", progressDeadline, d.Message)
	}
	if d.Phase == in.Recorded.Phase {
		return v
	}
	v.LastOperation = &v1alpha1.LastOperation{Name: "StartAllPods", State: v1alpha1.OperationStateInProgress, Reason: d.Message, LastTransitionTime: metav1.Time{Time: now}}
	switch d.Phase {
	case v1alpha1.RecreateNeedsDeletion:
		v.Event, v.LastOperation.Name = "RecreateStarted", "StopAllPods"
	case v1alpha1.RecreateWaitingTermination:
		v.LastOperation.Name = "StopAllPods"
	case v1alpha1.RecreateComplete:
		v.Event, v.LastOperation.State = "RecreateComplete", v1alpha1.OperationStateCompleted
	}
	return v
}

// Perform implements tasks.Handler. There are no steps: the Etcd controller goes by the phase.
func (h *Handler) Perform(_ context.Context, _ tasks.Task, step tasks.Step) error {
	return fmt.Errorf("performing %s: no such step", step.Operation)
}

// Cleanup implements tasks.Handler. Once the task has ended, or is gone, the Etcd controller brings the replicas back.
func (h *Handler) Cleanup(context.Context, tasks.Task) error { return nil }

func coded(err error) error { return &v1alpha1.CodedError{Code: v1alpha1.ErrObserve, Err: err} }
