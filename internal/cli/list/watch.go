// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package list

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/follow"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/screen"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/etcdtasks"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// agePeriod is how often ages are renewed on a terminal.
	agePeriod = time.Second
	// retryPeriod is the pause before a watch that has failed is started again.
	retryPeriod = 2 * time.Second
)

// deleted is the state that is shown of a task that was deleted.
const deleted v1alpha1.TaskState = "Deleted"

// tasks are those that exist, by UID.
type tasks map[types.UID]*v1alpha1.EtcdOperatorTask

func (t tasks) all() []*v1alpha1.EtcdOperatorTask { return slices.Collect(maps.Values(t)) }

// follow shows the tasks until it is interrupted: a terminal shows the list in place; elsewhere, each task that changes is
// printed, below the list.
func (c *command) follow(ctx context.Context, cluster *kube.Cluster, etcd string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes, ended := make(chan change), make(chan error, 1)
	go func() { ended <- c.watchTasks(ctx, cluster, etcd, changes) }()
	show, end, err := c.shower(cluster.Namespace, etcd)
	if err != nil {
		return err
	}
	defer end()
	ticker := c.Clock.NewTicker(agePeriod)
	defer ticker.Stop()
	var current tasks
	for {
		var changed []*v1alpha1.EtcdOperatorTask
		select {
		case err := <-ended:
			return err
		case news := <-changes:
			current, changed = news.current, news.changed
		case <-ticker.C():
		}
		if current != nil {
			if err := show(current, changed); err != nil {
				return err
			}
		}
	}
}

// shower returns the function that shows the tasks that exist, of which some have changed.
func (c *command) shower(namespace, etcd string) (show func(current tasks, changed []*v1alpha1.EtcdOperatorTask) error, end func(), err error) {
	if !c.isTable() {
		printer, err := kube.Printer(c.print)
		return func(_ tasks, changed []*v1alpha1.EtcdOperatorTask) error {
			for _, t := range changed {
				if err := printer.PrintObj(typed(t), c.Out); err != nil {
					return fmt.Errorf("printing: %w", err)
				}
			}
			return nil
		}, func() {}, err
	}
	if c.Width() == 0 {
		return c.printRows(), func() {}, nil
	}
	page := screen.New(c.Kube)
	return func(current tasks, _ []*v1alpha1.EtcdOperatorTask) error {
		page.Draw(func(width int) []string {
			if !slices.ContainsFunc(current.all(), c.selects) {
				return []string{none(namespace, etcd)}
			}
			return c.lines(current.all(), width)
		})
		return nil
	}, page.Close, nil
}

// printRows returns a function that prints the row of each task that changes.
func (c *command) printRows() func(tasks, []*v1alpha1.EtcdOperatorTask) error {
	header := true
	return func(current tasks, changed []*v1alpha1.EtcdOperatorTask) error {
		if len(changed) == 0 {
			return nil
		}
		shown := tasks{}
		maps.Copy(shown, current)
		for _, t := range changed {
			shown[t.UID] = t
		}
		// The table is that of all tasks, so that columns are where they were, and places in line are right.
		lines := table(shown.all(), c.selects, c.AllNamespaces, c.wide(), c.Clock.Now()).Lines(0)
		if header {
			c.Print(lines[0])
			header = false
		}
		listed := slices.DeleteFunc(sorted(shown.all(), places(shown.all())), func(t *v1alpha1.EtcdOperatorTask) bool { return !c.selects(t) })
		for i, t := range listed {
			if slices.ContainsFunc(changed, func(u *v1alpha1.EtcdOperatorTask) bool { return u.UID == t.UID }) {
				c.Print(lines[i+1])
			}
		}
		return nil
	}
}

// change is the tasks that exist, and, in the order of the list, those of them that have changed since the change before, or
// were deleted.
type change struct {
	current tasks
	changed []*v1alpha1.EtcdOperatorTask
}

// watchTasks sends changes until the context ends. It fails if the tasks cannot be listed at first, or not any more.
func (c *command) watchTasks(ctx context.Context, cluster *kube.Cluster, etcd string, changes chan<- change) error {
	options := client.ListOption(client.InNamespace(cluster.Namespace))
	if etcd != "" {
		options = etcdtasks.Of(client.ObjectKey{Namespace: cluster.Namespace, Name: etcd})
	}
	send := func(current tasks, changed []*v1alpha1.EtcdOperatorTask) {
		changed = slices.DeleteFunc(changed, func(t *v1alpha1.EtcdOperatorTask) bool { return !c.selects(t) })
		select {
		case changes <- change{maps.Clone(current), sorted(changed, places(current.all()))}:
		case <-ctx.Done():
		}
	}
	var current tasks
	for {
		list := &v1alpha1.EtcdOperatorTaskList{}
		err := cluster.List(ctx, list, options)
		if err == nil {
			before := current
			current = tasks{}
			for i := range list.Items {
				current[list.Items[i].UID] = &list.Items[i]
			}
			send(current, difference(before, current))
			err = c.watchFrom(ctx, cluster, options, list.ResourceVersion, current, send)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (current == nil || follow.IsPermanent(err)):
			return fmt.Errorf("listing tasks: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.Clock.After(retryPeriod):
		}
	}
}

// difference returns the tasks that are new or changed, and those that were deleted.
func difference(before, now tasks) []*v1alpha1.EtcdOperatorTask {
	var changed []*v1alpha1.EtcdOperatorTask
	for uid, t := range now {
		if b := before[uid]; b == nil || b.ResourceVersion != t.ResourceVersion {
			changed = append(changed, t)
		}
	}
	for uid, t := range before {
		if now[uid] == nil {
			changed = append(changed, gone(t))
		}
	}
	return changed
}

// gone returns a deleted task as it is shown.
func gone(t *v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	t = t.DeepCopy()
	t.Status.State = deleted
	return t
}

// watchFrom applies and sends changes until the watch ends.
func (c *command) watchFrom(ctx context.Context, cluster *kube.Cluster, of client.ListOption, version string, current tasks, send func(tasks, []*v1alpha1.EtcdOperatorTask)) error {
	w, err := cluster.Watch(ctx, &v1alpha1.EtcdOperatorTaskList{}, of, follow.From(version))
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		task, ok := event.Object.(*v1alpha1.EtcdOperatorTask)
		switch {
		case !ok:
			return nil
		case event.Type == watch.Deleted:
			delete(current, task.UID)
			task = gone(task)
		default:
			current[task.UID] = task
		}
		send(current, []*v1alpha1.EtcdOperatorTask{task})
	}
	return nil
}
