// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
)

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
