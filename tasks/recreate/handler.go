// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recreate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
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
	// progressDeadline is how long the task may make no progress before it is stalled.
	progressDeadline = 10 * time.Minute
)

// Handler carries out RecreateRollouts.
type Handler struct {
	tasks.Rollouts[rollout.RecreateConfig]
	Observer observe.Interface
	Clock    clock.PassiveClock
}

// Admit implements tasks.Methods: the pods can be stopped, and started again.
func (h *Handler) Admit(ctx context.Context, task tasks.Typed[rollout.RecreateConfig]) (tasks.Verdict, error) {
	v, err := h.Rollouts.Admit(ctx, task)
	if err != nil || v.Outcome != tasks.Continue {
		return v, err
	}
	etcd, err := tasks.LiveEtcd(ctx, h.Live, task.Task)
	if err != nil {
		return tasks.Verdict{}, err
	}
	if why, err := tasks.Obstacle(ctx, h.Client, h.Live, etcd, true); err != nil || why != "" {
		return tasks.Rejected(v1alpha1.ErrForeignObject, "%s", why), err
	}
	return v, nil
}

// Execute implements tasks.Methods. It may wait on what the cache shows, but only enters another phase on live reads of the API server and
// the members.
func (h *Handler) Execute(ctx context.Context, task tasks.Typed[rollout.RecreateConfig]) (tasks.Verdict, error) {
	for _, reader := range []client.Reader{h.Client, h.Live} {
		if reader == h.Live {
			// The cache does not decide whether the spec is applied, either.
			var err error
			if task.Etcd, err = tasks.LiveEtcd(ctx, h.Live, task.Task); err != nil {
				return tasks.Verdict{}, err
			}
		}
		snapshot, err := h.Observer.Observe(ctx, reader, task.Etcd)
		switch {
		case err != nil && task.Object.StopsNothingYet():
			return tasks.AwaitStatefulSet(err)
		case err != nil:
			return tasks.Unobserved(tasks.Fail, err)
		}
		in := input(task, snapshot)
		d := decide(in)
		if reader != h.Live && (d.Outcome != tasks.Continue || d.Phase != in.Recorded.Phase) {
			continue
		}
		if in.awaitsController(d.Phase) {
			if in.Obstacle, err = tasks.Obstacle(ctx, h.Client, h.Live, task.Etcd, true); err != nil {
				return tasks.Verdict{}, err
			}
			d = decide(in)
		}
		return verdict(in, d, h.Clock.Now()), nil
	}
	return tasks.Verdict{}, errors.New("the API server was not asked")
}

func input(task tasks.Typed[rollout.RecreateConfig], snapshot *cluster.Snapshot) Input {
	in := Input{Snapshot: snapshot, Config: task.Config, Task: task.Object.UID, Overridden: task.Object.Spec.OverrideGuards, Pausing: task.Pausing}
	in.Hibernates = task.Etcd.Spec.Replicas == 0
	in.SpecApplied = task.Etcd.SpecSuspended() || task.Etcd.Status.ObservedGeneration == task.Etcd.Generation
	if c := task.Etcd.Status.Conditions.Find(v1alpha1.ConditionUpToDate); c != nil && c.Reason == v1alpha1.ReasonSpecPending {
		in.SpecPending = c.Message
	}
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
		Rollout: &recorded, Progress: fmt.Sprintf("%d/%d", recorded.UpdatedReplicas, recorded.Replicas), Pauses: d.Pauses,
	}
	if in.Obstacle != "" {
		v.RequeueAfter = tasks.RecheckObstacle
	}
	if d.Outcome == tasks.Done {
		v.EndReason = v1alpha1.ReasonRecreateComplete
	}
	if d.Phase == in.Recorded.Phase {
		v.ProgressDeadline = progressDeadline
		return v
	}
	v.LastOperation = &v1alpha1.LastOperation{Name: "StartAllPods", State: v1alpha1.OperationStateInProgress, Reason: d.Message, LastTransitionTime: metav1.Time{Time: now}}
	switch d.Phase {
	case "":
		v.LastOperation.Name, v.LastOperation.State = "StopAllPods", v1alpha1.OperationStateFailed
	case v1alpha1.RecreateNeedsDeletion:
		v.Event, v.LastOperation.Name = "RecreateStarted", "StopAllPods"
	case v1alpha1.RecreateWaitingTermination:
		v.LastOperation.Name = "StopAllPods"
	case v1alpha1.RecreateComplete:
		v.Event, v.LastOperation.State = "RecreateComplete", v1alpha1.OperationStateCompleted
	}
	return v
}

// Perform implements tasks.Methods. There are no steps: the Etcd controller acts on the phase.
func (h *Handler) Perform(_ context.Context, _ tasks.Task, step tasks.Step) error {
	return fmt.Errorf("performing %s: no such step", step.Operation)
}

// Cleanup implements tasks.Methods. The Etcd controller restores the replicas once the task has ended or is gone.
func (h *Handler) Cleanup(context.Context, tasks.Task) error { return nil }
