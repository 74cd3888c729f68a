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
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/watch"
	"k8s.io/apimachinery/pkg/types"
)

// deleted is shown as the state of a task that was deleted.
const deleted v1alpha1.TaskState = "Deleted"

// changes are the differences between two states: all tasks of the newer one and those deleted since the older one, in the order of
// the list, and the UIDs of the listed ones that are new, changed or deleted.
type changes struct {
	all     []*v1alpha1.EtcdOperatorTask
	changed map[types.UID]bool
}

// follow shows the tasks until it is interrupted. A terminal shows the list in place; elsewhere, the list and then each task that
// changes is printed. Objects are printed on a terminal, too.
func (c *command) follow(ctx context.Context, cluster *kube.Cluster, etcd string) error {
	var before watch.Tasks
	format := watch.Format[watch.Tasks]{}
	printed := c.printChanged
	if c.isTable() {
		printed = c.rowPrinter()
		format.Page = func(tasks watch.Tasks) watch.Page {
			all := slices.Collect(maps.Values(tasks))
			return func(now time.Time, width int) []string {
				if !slices.ContainsFunc(all, c.selects) {
					return []string{none(cluster.Namespace, etcd)}
				}
				return c.lines(all, now, width)
			}
		}
	}
	format.Print = func(tasks watch.Tasks) error {
		news := c.difference(before, tasks)
		if before = tasks; len(news.changed) == 0 {
			return nil
		}
		return printed(news)
	}
	return watch.Show(ctx, c.Kube, watch.TasksOf(c.Kube, cluster, etcd), format)
}

// difference returns what has changed between two states.
func (c *command) difference(before, now watch.Tasks) changes {
	d := changes{changed: map[types.UID]bool{}}
	add := func(t *v1alpha1.EtcdOperatorTask, changed bool) {
		if d.all = append(d.all, t); changed && c.selects(t) {
			d.changed[t.UID] = true
		}
	}
	for uid, t := range now {
		add(t, before[uid] == nil || before[uid].ResourceVersion != t.ResourceVersion)
	}
	for uid, t := range before {
		if now[uid] == nil {
			t = t.DeepCopy()
			t.Status.State = deleted
			add(t, true)
		}
	}
	d.all = sorted(d.all, places(d.all))
	return d
}

// printChanged prints the tasks that have changed as objects.
func (c *command) printChanged(news changes) error {
	for _, t := range news.all {
		if !news.changed[t.UID] {
			continue
		}
		if err := c.printer.PrintObj(typed(t), c.Out); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

// rowPrinter returns a function that prints the row of each task that changes, below a header.
func (c *command) rowPrinter() func(changes) error {
	header := true
	return func(news changes) error {
		// The table has all tasks, so that columns stay aligned and positions in the queue are right.
		lines := table(news.all, c.selects, c.AllNamespaces, c.wide(), c.Clock.Now()).Lines(0)
		if header {
			c.Print(lines[0])
			header = false
		}
		row := 0
		for _, t := range news.all {
			if !c.selects(t) {
				continue
			}
			if row++; news.changed[t.UID] {
				c.Print(lines[row])
			}
		}
		return nil
	}
}
