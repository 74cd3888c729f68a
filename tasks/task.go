// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package tasks is the contract between the task engine and the task types. A type lives in a package of its
// own beneath this one and imports no other type; the engine knows types by this contract alone.
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
	// Config is what Decode, or Recorded, made of spec.config.
	Config any
	// Elapsed is the time since the task was admitted. A clock that is set in between does not change it.
	Elapsed time.Duration
	// Pausing: the task is to pause, perhaps for days, as soon as its cluster is whole: no member is stopped, being replaced, added or removed,
	// and every member participates. Until then it goes on. A type with a deadline finishes instead.
	Pausing bool
}

// Handler is how the engine knows a task type: its Methods, and how its configs are decoded. For makes one.
type Handler interface {
	// Decode decodes spec.config strictly; every default is filled in. An error names the field.
	Decode(config string) (any, error)
	// Recorded decodes status.config, which is what Decode made of the config of a task that runs, in JSON, perhaps written by
	// another version of the operator: unknown fields are ignored.
	Recorded(config string) (any, error)
	Methods[Task]
}

// Methods carry out the tasks of one type. T is a Task, or a Typed one. Every method may be called again after a crash at any
// line, and has to find out by itself how far things have come. None of them writes the status of a task: they return what is to
// be written.
type Methods[T any] interface {
	// WorkKey says what the task does: of two tasks of one Etcd and type with the same key, the later one is
	// superfluous. It is asked before the task is admitted.
	WorkKey(ctx context.Context, task T) (string, error)
	// Superseded reports whether a task that has not ended, whether or not it is at the head, is outdated, and
	// by what. An empty string means that it is not.
	Superseded(ctx context.Context, task T) (string, error)
	// Admit checks the preconditions of a task that is at the head. Outcome Continue admits it; Done means
	// that there is nothing to do, which is success.
	Admit(ctx context.Context, task T) (Verdict, error)
	// Execute says what to do next. It changes nothing but by the step it returns.
	Execute(ctx context.Context, task T) (Verdict, error)
	// Perform carries out a step that Execute returned, after it was recorded in the task's status. It returns an error,
	// with a code (package coded) where there is one, when it failed. What it needs of the config is in the step.
	Perform(ctx context.Context, task Task, step Step) error
	// Cleanup leaves things as they should be when a task ends, or when it is deleted while it runs. It is
	// called before the end is written, and again until it returns no error. The task may lack its Etcd, and its config.
	Cleanup(ctx context.Context, task Task) error
}

// Type is an entry of the registry.
type Type struct {
	Handler Handler
	// Deadline ends a task of this type that takes longer; 0 for rollouts, which hold instead.
	Deadline time.Duration
	// Supersedes are the types whose tasks end, running or not, when one of this type comes after them.
	Supersedes []v1alpha1.TaskType
	// Unavailable is the verdict on tasks of a type that the operator knows and, in its mode, does not carry out; nil otherwise.
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
	// Reject: the task is not to be carried out.
	Reject Outcome = "Reject"
	// Fail: the task has failed.
	Fail Outcome = "Fail"
)

// Verdict is what a handler says of a task.
type Verdict struct {
	Outcome Outcome
	// Code of the error, with Reject and Fail.
	Code v1alpha1.ErrorCode
	// Reason of the condition Progressing, with Continue.
	Reason string
	// EndReason of the condition Progressing, with Done, where the type has one of its own.
	EndReason string
	// Message for people.
	Message string
	// RequeueAfter is when to ask again, where no event announces a change; 0 where one does.
	RequeueAfter time.Duration
	// Step to carry out next, if any.
	Step *Step
	// Pauses: the task was to pause, and its cluster is whole, so it does, without a step. The engine says why.
	Pauses bool
	// Event is the reason of an event that is made of the Message, if any, once the status is written.
	Event string
	// ProgressDeadline is after what time without progress the task counts as stalled; 0 for never. What goes into the status says
	// when the last progress was.
	ProgressDeadline time.Duration

	// What goes into the task's status; left as it is where nil or empty.
	Progress      string
	LastOperation *v1alpha1.LastOperation
	Rollout       *v1alpha1.RolloutStatus
	Recovery      *v1alpha1.RecoveryStatus
	Membership    *v1alpha1.MembershipStatus
	Result        map[string]string
	Conditions    []metav1.Condition
}

// Rejected is the verdict on a task that is not to be carried out.
func Rejected(code v1alpha1.ErrorCode, format string, args ...any) Verdict {
	return Verdict{Outcome: Reject, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Failed is the verdict on a task that has failed.
func Failed(code v1alpha1.ErrorCode, format string, args ...any) Verdict {
	return Verdict{Outcome: Fail, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Step is data that describes one thing to do.
type Step struct {
	// Operation is the name that lastOperation shows.
	Operation string
	// Reason is a sentence for people: why this, and why now.
	Reason string
	// Detail is the handler's own.
	Detail any
	// RecheckAfter is when to execute the task again after the step, where no event triggers it.
	RecheckAfter time.Duration
}

// Typed is a task of a type whose config is C.
type Typed[C any] struct {
	Task
	// Config is spec.config as it was decoded, with every default, and valid.
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
