// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/queue"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Task reads the task of a name.
func (k *Kube) Task(ctx context.Context, c client.Reader, namespace, name string) (*v1alpha1.EtcdOperatorTask, error) {
	task, err := k.find(ctx, c, namespace, name)
	if err != nil || task != nil {
		return task, err
	}
	current, err := k.current(ctx, c, namespace, name)
	if err != nil || current == nil {
		return nil, noTask(namespace, name)
	}
	return nil, Failure("there is no task %q in namespace %s; the task of the Etcd of that name is %s", name, namespace, current.Name)
}

// TaskOf reads the task of a name, or else the task of the Etcd of that name that matters most: the one that runs,
// or is the next to run, or the newest.
func (k *Kube) TaskOf(ctx context.Context, c client.Reader, namespace, name string) (*v1alpha1.EtcdOperatorTask, error) {
	task, err := k.find(ctx, c, namespace, name)
	if err != nil || task != nil {
		return task, err
	}
	current, err := k.current(ctx, c, namespace, name)
	switch {
	case err != nil:
		return nil, err
	case current != nil:
		return current, nil
	}
	if _, err := k.Etcd(ctx, c, namespace, name); err == nil {
		return nil, Failure("Etcd %q in namespace %s has no task", name, namespace)
	}
	return nil, noTask(namespace, name)
}

func noTask(namespace, name string) error {
	return Failure("there is no task and no Etcd %q in namespace %s", name, namespace)
}

// find is the task of a name; nil when there is none.
func (k *Kube) find(ctx context.Context, c client.Reader, namespace, name string) (*v1alpha1.EtcdOperatorTask, error) {
	task := &v1alpha1.EtcdOperatorTask{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, task)
	switch {
	case IsObjectNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading task %s/%s: %w", namespace, name, err)
	}
	return task, nil
}

// current is the task of an Etcd that matters most; nil when it has none.
func (k *Kube) current(ctx context.Context, c client.Reader, namespace, etcd string) (*v1alpha1.EtcdOperatorTask, error) {
	all, err := k.Tasks(ctx, c, namespace, etcd)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if head := queue.New(all).Head(); head != nil {
		return head, nil
	}
	return slices.MaxFunc(all, func(a, b *v1alpha1.EtcdOperatorTask) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	}), nil
}
