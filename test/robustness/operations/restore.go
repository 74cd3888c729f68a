// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restores go back on purpose. Who loses the volume of the chosen member in it loses the way back, or waits for a person.
func restores() []Operation {
	return []Operation{
		{Name: "restore", Run: by((*Cluster).restore), Not: aloneNot, Times: 2},
		{Name: "restore and undo", Run: by(undone(1)), Not: aloneNot, Times: 3},
		{Name: "two restores and their undos", Run: by(undone(2)), Not: aloneNot, Times: 5},
	}
}

func undone(times int) func(*Cluster, context.Context) error {
	return func(c *Cluster, ctx context.Context) error { return c.restoresAndUndos(ctx, times) }
}

// restore goes back to a revision, behind writes that are acknowledged after it.
func (c *Cluster) restore(ctx context.Context) error {
	name, err := c.goBack(ctx)
	if err != nil || name == "" {
		return err
	}
	return c.letGo(ctx, name)
}

// restoresAndUndos goes back so many times, and undoes each of them, the last one first.
func (c *Cluster) restoresAndUndos(ctx context.Context, times int) error {
	var backs, all []string
	for range times {
		back, err := c.goBack(ctx)
		if err != nil {
			return err
		}
		if back == "" {
			break
		}
		backs, all = append(backs, back), append(all, back)
	}
	for _, back := range slices.Backward(backs) {
		undo, err := c.switchTo(ctx, "undo: "+back, true)
		if err != nil {
			return err
		}
		if undo == "" {
			break
		}
		all = append(all, undo)
	}
	slices.Reverse(all)
	return c.letGo(ctx, all...)
}

// anyNumber is more revisions than clients write while a Restore is on its way.
const anyNumber = 1_000_000

// goBack goes back to a revision, and returns the name of the task; empty if a fault has kept a task of it from succeeding.
func (c *Cluster) goBack(ctx context.Context) (string, error) {
	// One that is in the present history, and one behind which it goes.
	target := int64(0)
	for range 2 {
		if err := c.Written(ctx); err != nil {
			return "", fmt.Errorf("waiting for a write: %w", err)
		}
		target = cmp.Or(target, c.Newest())
	}
	if status, err := c.carryOut(ctx, v1alpha1.OnDemandSnapshot, "type: delta"); err != nil || status.State != v1alpha1.TaskStateSucceeded {
		return "", err
	}
	preview, err := c.carryOut(ctx, v1alpha1.Restore, fmt.Sprintf("to: {revision: %d}", target))
	if err != nil || preview.State != v1alpha1.TaskStateSucceeded {
		return "", err
	}
	return c.switchTo(ctx, fmt.Sprintf("{to: {revision: %d}, confirm: %s, maxWritesSince: %d}", target, preview.Result["confirm"], anyNumber), false)
}

// switchTo carries a confirmed Restore out, or an undo, records that the cluster went back, and reads what it has then. It returns the name of
// the task; empty if it has changed nothing.
func (c *Cluster) switchTo(ctx context.Context, config string, undoes bool) (string, error) {
	went, r := "", history.Restore{From: c.Now(), Undoes: undoes}
	err := c.during(ctx, oracle.Outage{What: "restore"}, func() error {
		name, err := c.ask(ctx, v1alpha1.Restore, config)
		if err != nil {
			return err
		}
		status, err := c.ended(ctx, name)
		if err != nil || status.State != v1alpha1.TaskStateSucceeded {
			return err
		}
		if status.Recovery == nil || status.Recovery.Restore == nil {
			return fmt.Errorf("task %s has succeeded, and restored nothing: %+v", name, status)
		}
		went = name
		if r.To = c.Now(); status.Recovery.Source != v1alpha1.RecoverFromKeptData {
			r.Target = status.Recovery.Restore.Revision
		}
		c.Restored(r)
		if undoes && r.Target != 0 {
			// It lacks what was written between that snapshot and the stop, and no fault of this operation takes a volume.
			return fmt.Errorf("task %s has undone by the final snapshot, although no volume was lost", name)
		}
		return nil
	})
	if err != nil || went == "" {
		return went, err
	}
	return went, until(ctx, "all keys can be read", c.Read)
}

// letGo deletes tasks, and waits until what the members have kept for them may go.
func (c *Cluster) letGo(ctx context.Context, names ...string) error {
	for _, name := range names {
		t := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}}
		err := until(ctx, "task "+name+" is deleted", func(ctx context.Context) error { return client.IgnoreNotFound(c.Kube.Delete(ctx, t)) })
		if err != nil {
			return err
		}
	}
	return until(ctx, "the Etcd keeps nothing of before", func(ctx context.Context) error {
		etcd, err := c.etcd(ctx)
		if err == nil && etcd.Status.Recovery != nil {
			err = fmt.Errorf("it keeps what was before task %s", etcd.Status.Recovery.Task)
		}
		return err
	})
}
