// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package follow follows a task until it ends, and reports its progress.
package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// retryPeriod is how soon a request is retried if the API server is unreachable.
const retryPeriod = time.Second

// Task calls seen with every state of a task, from the present one to the last, and returns the last. It waits for an
// API server that is unreachable for a while.
func Task(ctx context.Context, k *kube.Kube, c client.WithWatch, task *v1alpha1.EtcdOperatorTask, seen func(*v1alpha1.EtcdOperatorTask)) (*v1alpha1.EtcdOperatorTask, error) {
	key, uid := client.ObjectKeyFromObject(task), task.UID
	for {
		current := &v1alpha1.EtcdOperatorTask{}
		err := c.Get(ctx, key, current)
		switch {
		case kube.IsObjectNotFound(err) || err == nil && current.UID != uid:
			return nil, deleted(key)
		case err == nil:
			if seen(current); current.Status.State.IsFinal() {
				return current, nil
			}
			if current, err = changes(ctx, c, current, seen); err == nil && current != nil {
				return current, nil
			}
		}
		if errors.Is(err, errDeleted) {
			return nil, deleted(key)
		}
		if ctx.Err() != nil {
			return nil, interrupted(ctx, key.Name)
		}
		if IsPermanent(err) {
			return nil, fmt.Errorf("watching task %s: %w", key, err)
		}
		select {
		case <-ctx.Done():
			return nil, interrupted(ctx, key.Name)
		case <-k.Clock.After(retryPeriod):
		}
	}
}

var errDeleted = errors.New("deleted")

// changes watches a task until it ends. It returns nil without an error if the watch ends before.
func changes(ctx context.Context, c client.WithWatch, from *v1alpha1.EtcdOperatorTask, seen func(*v1alpha1.EtcdOperatorTask)) (*v1alpha1.EtcdOperatorTask, error) {
	w, err := c.Watch(ctx, &v1alpha1.EtcdOperatorTaskList{}, client.InNamespace(from.Namespace),
		client.MatchingFields{"metadata.name": from.Name}, From(from.ResourceVersion))
	if err != nil {
		return nil, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		task, ok := event.Object.(*v1alpha1.EtcdOperatorTask)
		if !ok {
			return nil, nil
		}
		if event.Type == watch.Deleted || task.UID != from.UID {
			return nil, errDeleted
		}
		if seen(task); task.Status.State.IsFinal() {
			return task, nil
		}
	}
	return nil, nil
}

// IsPermanent reports whether a retry would not help.
func IsPermanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsBadRequest(err)
}

func deleted(key client.ObjectKey) error {
	return kube.Failure("task %s was deleted before it ended", key.Name)
}

// interrupted returns why the wait ended before the task.
func interrupted(ctx context.Context, task string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &kube.Error{Code: kube.ExitTimedOut, Err: fmt.Errorf("timed out: task %s has not ended, and continues: see \"kubectl etcdtask watch %s\"", task, task)}
	}
	return kube.Failure("stopped waiting: task %s continues: see \"kubectl etcdtask watch %s\"", task, task)
}

// From is the resource version at which a watch starts.
type From string

// ApplyToList implements client.ListOption.
func (r From) ApplyToList(o *client.ListOptions) {
	if o.Raw == nil {
		o.Raw = &metav1.ListOptions{}
	}
	o.Raw.ResourceVersion = string(r)
}
