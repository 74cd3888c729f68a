// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// retryPeriod is the pause before tasks are read again, after a watch has ended or the API server was unreachable.
const retryPeriod = time.Second

// Tasks are the tasks that exist, by UID.
type Tasks map[types.UID]*v1alpha1.EtcdOperatorTask

// TasksOf returns a source of the tasks of an Etcd, or of every Etcd if its name is empty. It ends with an error if the first read
// fails; after that, only if a retry would not help.
func TasksOf(k *kube.Kube, cluster *kube.Cluster, etcd string) Source[Tasks] {
	return func(ctx context.Context, show func(Tasks), lost func(error)) error {
		options := cluster.TasksOf(etcd)
		listed := false
		read := func() (Tasks, string, error) {
			list := &v1alpha1.EtcdOperatorTaskList{}
			if err := cluster.List(ctx, list, options); err != nil && !listed {
				return nil, "", kube.Failure("%w", err)
			} else if err != nil {
				return nil, "", err
			}
			listed = true
			tasks := Tasks{}
			for i := range list.Items {
				tasks[list.Items[i].UID] = &list.Items[i]
			}
			return tasks, list.ResourceVersion, nil
		}
		err := follow(ctx, k, cluster, read, func(t Tasks) bool { show(t); return false }, lost, options)
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("listing tasks: %w", err)
	}
}

// Task returns a source of the states of a task, from its present to its last one. It stores each in last.
func Task(k *kube.Kube, cluster client.WithWatch, task *v1alpha1.EtcdOperatorTask, last **v1alpha1.EtcdOperatorTask) Source[*v1alpha1.EtcdOperatorTask] {
	key, uid := client.ObjectKeyFromObject(task), task.UID
	return func(ctx context.Context, show func(*v1alpha1.EtcdOperatorTask), lost func(error)) error {
		read := func() (Tasks, string, error) {
			current := &v1alpha1.EtcdOperatorTask{}
			err := cluster.Get(ctx, key, current)
			if kube.IsObjectNotFound(err) {
				return nil, "", nil
			}
			return Tasks{current.UID: current}, current.ResourceVersion, err
		}
		seen := func(t Tasks) (ended bool) {
			if *last = t[uid]; *last == nil {
				return true
			}
			show(*last)
			return (*last).Status.State.IsFinal()
		}
		err := follow(ctx, k, cluster, read, seen, lost, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name})
		switch {
		case err != nil && ctx.Err() != nil:
			return interrupted(ctx, key.Name)
		case err != nil:
			return fmt.Errorf("watching task %s: %w", key, err)
		case *last == nil:
			return kube.Failure("task %s was deleted before it ended", key.Name)
		}
		return nil
	}
}

// interrupted returns the error of a wait that ended before its task.
func interrupted(ctx context.Context, task string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &kube.Error{Code: kube.ExitTimedOut, Err: fmt.Errorf("timed out: task %s has not ended, and continues: see \"kubectl etcdtask watch %s\"", task, task)}
	}
	return kube.Failure("stopped waiting: task %s continues: see \"kubectl etcdtask watch %s\"", task, task)
}

// follow calls seen with the tasks that exist, first with those that were read and then after each change, until seen reports the
// end, the context ends, or an error is permanent. It retries while the API server is unreachable, and calls lost with each error.
func follow(ctx context.Context, k *kube.Kube, c client.WithWatch, read func() (Tasks, string, error), seen func(Tasks) (ended bool), lost func(error), of ...client.ListOption) error {
	for {
		tasks, version, err := read()
		ended := err == nil && seen(tasks)
		if err == nil && !ended {
			ended, err = changes(ctx, c, tasks, seen, append(of, from(version))...)
		}
		switch {
		case ended:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case isPermanent(err):
			return err
		case err != nil:
			lost(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.Clock.After(retryPeriod):
		}
	}
}

// changes calls seen after each change, until seen reports the end or the watch ends.
func changes(ctx context.Context, c client.WithWatch, tasks Tasks, seen func(Tasks) (ended bool), options ...client.ListOption) (ended bool, err error) {
	w, err := c.Watch(ctx, &v1alpha1.EtcdOperatorTaskList{}, options...)
	if err != nil {
		return false, err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		task, ok := event.Object.(*v1alpha1.EtcdOperatorTask)
		if !ok {
			return false, nil
		}
		tasks = maps.Clone(tasks)
		if tasks[task.UID] = task; event.Type == watch.Deleted {
			delete(tasks, task.UID)
		}
		if seen(tasks) {
			return true, nil
		}
	}
	return false, nil
}

// isPermanent reports whether a retry would not help.
func isPermanent(err error) bool {
	var final *kube.Error
	return errors.As(err, &final) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsBadRequest(err)
}

// from is the resource version at which a watch starts.
type from string

// ApplyToList implements client.ListOption.
func (r from) ApplyToList(o *client.ListOptions) {
	if o.Raw == nil {
		o.Raw = &metav1.ListOptions{}
	}
	o.Raw.ResourceVersion = string(r)
}
