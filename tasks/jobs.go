// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Jobs is what task types whose work is one Job of the agent have in common. The task owns the Job, so that it is deleted with the task. If
// the task ends first, the Job is stopped.
type Jobs struct {
	// Client writes to the API server, and Live reads from it: Jobs are few and not cached.
	Client client.Client
	Live   client.Reader
	Clock  clock.PassiveClock
	// Image of the agent for an Etcd that does not name its own.
	Image string
}

const (
	// createJob is the operation of the only step of such a task.
	createJob = "CreateJob"
	// jobPoll is how soon a Job is first read after its creation.
	jobPoll = 2 * time.Second
	// keyJob names the Job in status.result.
	keyJob = "job"
)

// Execute creates the Job of a task and follows it to its end, and makes a result of what the agent reported.
func (j Jobs) Execute(ctx context.Context, task Task, build func() (*batchv1.Job, error)) (Verdict, error) {
	v, _, err := j.Run(ctx, task, build)
	return v, err
}

// Run is Execute, and also returns the agent's report as it is.
func (j Jobs) Run(ctx context.Context, task Task, build func() (*batchv1.Job, error)) (Verdict, json.RawMessage, error) {
	key := client.ObjectKey{Namespace: task.Object.Namespace, Name: job.Name(task.Object)}
	found, foreign, err := job.Find(ctx, j.Live, task.Object, key)
	switch {
	case err != nil:
		return Verdict{}, nil, coded.Error(v1alpha1.ErrJob, err)
	case foreign != nil:
		return Failed(v1alpha1.ErrForeignObject, "%s", foreign), nil, nil
	case found == nil:
		v, err := j.begin(key.Name, build)
		return v, nil, err
	}
	now := j.Clock.Now()
	state, err := job.Look(ctx, j.Client, j.Live, found, now)
	if err != nil {
		return Verdict{}, nil, coded.Error(v1alpha1.ErrJob, err)
	}
	return jobVerdict(task, state, now), state.Result, nil
}

// Begun reports whether the creation of the Job of a task is recorded.
func (j Jobs) Begun(task Task) bool { return task.Object.Status.Result[keyJob] != "" }

// begin returns the verdict whose step creates the Job of a task.
func (j Jobs) begin(name string, build func() (*batchv1.Job, error)) (Verdict, error) {
	built, err := build()
	if coded.Of(err, "") != "" {
		return Verdict{}, err
	}
	if err != nil {
		return Failed(v1alpha1.ErrInvalidConfig, "%v", err), nil
	}
	reason := fmt.Sprintf("the agent works in Job %s", name)
	return Verdict{
		Outcome: Continue, Reason: v1alpha1.ReasonRunning, Message: reason, Result: map[string]string{keyJob: name},
		Step: &Step{Operation: createJob, Reason: reason, Detail: built, RecheckAfter: jobPoll},
	}, nil
}

// ImageFor returns the image of the agent for an Etcd.
func (j Jobs) ImageFor(etcd *v1alpha1.Etcd) string { return etcd.AgentImage(j.Image) }

// Recorded returns the agent's flags for the newest snapshots that the Leases of an Etcd record. A failed read is retried and does not fail
// the task.
func (j Jobs) Recorded(ctx context.Context, etcd *v1alpha1.Etcd) ([]string, error) {
	args, err := job.RecordArgs(ctx, j.Live, etcd)
	return args, coded.Error(v1alpha1.ErrJob, err)
}

// jobVerdict translates the state of a Job for the task engine. It is pure.
func jobVerdict(task Task, s job.State, now time.Time) Verdict {
	v := Verdict{Outcome: Done, Message: s.Message, Result: map[string]string{keyJob: job.Name(task.Object)}}
	switch {
	case s.Running:
		v.Outcome, v.Reason, v.RequeueAfter = Continue, v1alpha1.ReasonRunning, job.Poll(s, now)
	case s.Code != "":
		v.Outcome, v.Code = Fail, s.Code
	default:
		addFields(s.Result, v.Result)
	}
	if !s.Running {
		v.LastOperation = &v1alpha1.LastOperation{Name: createJob, State: v1alpha1.OperationStateCompleted, LastTransitionTime: metav1.Time{Time: now}, Reason: s.Message}
		if s.Code != "" {
			v.LastOperation.State = v1alpha1.OperationStateFailed
		}
	}
	return v
}

// addFields adds the fields of a JSON object that an agent reported to a result. It overwrites none.
func addFields(object json.RawMessage, into map[string]string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return
	}
	for name, value := range fields {
		if _, taken := into[name]; taken {
			continue
		}
		into[name] = string(value)
		if text := ""; json.Unmarshal(value, &text) == nil {
			into[name] = text
		}
	}
}

// Perform creates the Job. If it exists already, an earlier operator may have created it; Execute checks who owns it.
func (j Jobs) Perform(ctx context.Context, _ Task, step Step) error {
	built := step.Detail.(*batchv1.Job)
	if err := j.Client.Create(ctx, built); err != nil && !apierrors.IsAlreadyExists(err) {
		return jobError("creating", client.ObjectKeyFromObject(built), err)
	}
	return nil
}

// Cleanup stops a running Job. A Job that has ended is kept with its task, for its log.
func (j Jobs) Cleanup(ctx context.Context, task Task) error {
	key := client.ObjectKey{Namespace: task.Object.Namespace, Name: job.Name(task.Object)}
	found, _, err := job.Find(ctx, j.Live, task.Object, key)
	if err != nil {
		return coded.Error(v1alpha1.ErrJob, err)
	}
	if found == nil || job.HasEnded(found) {
		return nil
	}
	err = j.Client.Delete(ctx, found, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &found.UID})
	if err != nil && !apierrors.IsNotFound(err) {
		return jobError("stopping", key, err)
	}
	return nil
}

func jobError(doing string, key client.ObjectKey, err error) error {
	return coded.Error(v1alpha1.ErrJob, fmt.Errorf("%s Job %s: %w", doing, key, err))
}
