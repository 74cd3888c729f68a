// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package tasks is the contract between the task engine and the task types. A type lives in a package of its own beneath this one and
// imports no other type; the engine knows types only through this contract.
package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Task is an EtcdOperatorTask with the Etcd that it is for. Neither may be changed by a handler.
type Task struct {
	Object *v1alpha1.EtcdOperatorTask
	Etcd   *v1alpha1.Etcd
	// Config is the result of Decode or Recorded.
	Config any
	// Elapsed is the time since the task was admitted, unaffected by changes of the clock.
	Elapsed time.Duration
	// Pausing: the task should pause, perhaps for days, as soon as its cluster is whole: every member participates, and none is being
	// replaced, added or removed. Until then it continues. A type with a deadline does not pause.
	Pausing bool
}

// Handler is how the engine knows a task type: its Methods, and how its configs are decoded. For makes one.
type Handler interface {
	// Decode decodes spec.config strictly; every default is filled in. An error names the field.
	Decode(config string) (any, error)
	// Recorded decodes status.config, the result of Decode as JSON, recorded when the task was admitted. Another version of the operator
	// may have written it, so unknown fields are ignored.
	Recorded(config string) (any, error)
	Methods[Task]
}

// Methods carry out the tasks of one type. T is Task or a Typed one. Each method may be called again after a crash at any line, and has to
// find out by itself what has already happened. None of them writes the status of a task; they return what the engine should write.
type Methods[T any] interface {
	// WorkKey identifies the work of a task before it is admitted: of two tasks of one Etcd and type with the same key, the later one is
	// rejected as redundant.
	WorkKey(ctx context.Context, task T) (string, error)
	// Superseded returns what makes a task that has not ended outdated; empty if nothing does. It is called for every task in the queue.
	Superseded(ctx context.Context, task T) (string, error)
	// Admit checks the preconditions of a task whose turn it is. Continue admits it; Done means that there is nothing to do, which counts
	// as success.
	Admit(ctx context.Context, task T) (Verdict, error)
	// Execute decides what to do next. It changes nothing itself; the step that it returns does.
	Execute(ctx context.Context, task T) (Verdict, error)
	// Perform carries out a step that Execute returned, after the engine has recorded it in the status of the task. Its error may have a
	// code (package coded). What it needs from the config is in the step.
	Perform(ctx context.Context, task Task, step Step) error
	// Cleanup undoes what must not outlive the task, when the task ends or is deleted while it runs. It is called before the end is
	// written, and again until it returns no error. The task may lack its Etcd and its config.
	Cleanup(ctx context.Context, task Task) error
}

// Type is an entry of the registry.
type Type struct {
	Handler Handler
	// Deadline after which a task of this type fails; 0 for types that wait as long as it takes, such as rollouts.
	Deadline time.Duration
	// Supersedes are the types whose tasks end, running or not, when a later task of this type arrives; of a type that preempts others, once
	// that task is admitted.
	Supersedes []v1alpha1.TaskType
	// RevokeIntents makes it impossible that a step which was recorded is carried out late, by an operator that was paused: while the task
	// is suspended or preempted, nothing repeats or revokes it. It is called again and again for as long; nil if no step can be late.
	RevokeIntents func(ctx context.Context, task Task) error
	// Unavailable is the verdict on tasks of a type that the operator does not carry out in its mode; nil if it does.
	Unavailable *Verdict
}

// Registry holds the types that the operator carries out.
type Registry map[v1alpha1.TaskType]Type

// Outcome of a verdict.
type Outcome string

// The outcomes.
const (
	// Continue: the task continues, by a step or by waiting.
	Continue Outcome = "Continue"
	// Done: the task has succeeded.
	Done Outcome = "Done"
	// Reject: the task must not be carried out.
	Reject Outcome = "Reject"
	// Fail: the task has failed.
	Fail Outcome = "Fail"
)

// Verdict is the decision of a handler on a task.
type Verdict struct {
	Outcome Outcome
	// Code of the error, with Reject and Fail.
	Code v1alpha1.ErrorCode
	// Reason of the condition Progressing, with Continue.
	Reason string
	// EndReason of the condition Progressing, with Done; empty for the default.
	EndReason string
	// Message for people.
	Message string
	// RequeueAfter is when to execute the task again; 0 if an event will trigger it.
	RequeueAfter time.Duration
	// Step to carry out next, if any.
	Step *Step
	// Pauses: the task was told to pause (Task.Pausing), and does, since its cluster is whole. It has no step; the engine sets reason and
	// message.
	Pauses bool
	// Event is the reason of an event with the Message, emitted once the status is written; empty for none.
	Event string
	// ProgressDeadline is how long the task may make no progress before it is stalled; 0 for any time. The status below records when the
	// last progress was.
	ProgressDeadline time.Duration

	// Fields of the task's status. Those that are nil or empty stay unchanged.
	Progress      string
	LastOperation *v1alpha1.LastOperation
	Rollout       *v1alpha1.RolloutStatus
	Recovery      *v1alpha1.RecoveryStatus
	Membership    *v1alpha1.MembershipStatus
	Result        map[string]string
	Conditions    []metav1.Condition
}

// Rejected returns the verdict on a task that must not be carried out.
func Rejected(code v1alpha1.ErrorCode, format string, args ...any) Verdict {
	return Verdict{Outcome: Reject, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Failed returns the verdict on a task that has failed.
func Failed(code v1alpha1.ErrorCode, format string, args ...any) Verdict {
	return Verdict{Outcome: Fail, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Step describes one action.
type Step struct {
	// Operation is the name that lastOperation shows.
	Operation string
	// Reason is a sentence for people: why this, and why now.
	Reason string
	// Detail is for the handler; the engine does not read it.
	Detail any
	// RecheckAfter is when to execute the task again after the step; 0 if an event will trigger it.
	RecheckAfter time.Duration
}

// Typed is a task of a type whose config is C.
type Typed[C any] struct {
	Task
	// Config is the decoded spec.config, valid and with all defaults.
	Config C
}

// For returns the Handler of a type of tasks, whose configs it decodes and validates.
func For[C any, P taskconfig.Config[C]](methods Methods[Typed[C]]) Handler {
	return handler[C, P]{methods}
}

// handler implements Handler.
type handler[C any, P taskconfig.Config[C]] struct{ Methods[Typed[C]] }

func typed[C any](task Task) Typed[C] { return Typed[C]{Task: task, Config: task.Config.(C)} }

func (h handler[C, P]) Decode(config string) (any, error) { return taskconfig.Decode[C, P](config) }

func (h handler[C, P]) Recorded(config string) (any, error) { return taskconfig.Recorded[C, P](config) }

func (h handler[C, P]) WorkKey(ctx context.Context, task Task) (string, error) {
	return h.Methods.WorkKey(ctx, typed[C](task))
}

func (h handler[C, P]) Superseded(ctx context.Context, task Task) (string, error) {
	return h.Methods.Superseded(ctx, typed[C](task))
}

func (h handler[C, P]) Admit(ctx context.Context, task Task) (Verdict, error) {
	return h.Methods.Admit(ctx, typed[C](task))
}

func (h handler[C, P]) Execute(ctx context.Context, task Task) (Verdict, error) {
	return h.Methods.Execute(ctx, typed[C](task))
}
