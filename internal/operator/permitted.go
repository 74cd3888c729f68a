// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/tasks"
)

// permitted rejects tasks of an Etcd that the operator's configuration refuses. A task that was admitted before
// continues, so that no cluster stays half stopped, but runs no image that is not allowed.
type permitted struct {
	tasks.Handler
	rules policy.Rules
}

// Admit implements tasks.Handler.
func (h permitted) Admit(ctx context.Context, task tasks.Task) (tasks.Verdict, error) {
	if err := h.rules.Etcd(task.Etcd); err != nil {
		return tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrNotAllowed, Message: "the Etcd is refused: " + err.Error()}, nil
	}
	return h.Handler.Admit(ctx, task)
}

// Execute implements tasks.Handler.
func (h permitted) Execute(ctx context.Context, task tasks.Task) (tasks.Verdict, error) {
	task.Etcd = h.rules.WithAllowedImages(task.Etcd)
	return h.Handler.Execute(ctx, task)
}

// Perform implements tasks.Handler.
func (h permitted) Perform(ctx context.Context, task tasks.Task, step tasks.Step) error {
	task.Etcd = h.rules.WithAllowedImages(task.Etcd)
	return h.Handler.Perform(ctx, task, step)
}
