// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var taskAttacks = []attack{
	{8, "delete an Etcd, create another of its name, and resume a task of the first", operate + " and " + author, "Rejected: it does not run", replaced},
	{14, "preset the status of a task with InProgress", owner, "Rejected", preset},
}

func sorted(texts []string) []string { slices.Sort(texts); return texts }

func replaced(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, operate)
	if err != nil {
		return finding{}, err
	}
	a, err := t.as(ctx, author)
	if err != nil {
		return finding{}, err
	}
	etcd := t.etcd("replaced", nil)
	if err := a.Create(ctx, etcd); err != nil {
		return finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	task := t.task("of-the-first", "OnDemandMaintenance", "replaced", fields{"suspend": true, "config": "etcdDefragmentation: true"})
	if err := c.Create(ctx, task); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	adopted := func(ctx context.Context) (bool, error) {
		err := t.refresh(ctx, task)
		return len(task.GetOwnerReferences()) > 0, err
	}
	if err := until(ctx, patience, adopted); err != nil {
		return finding{}, fmt.Errorf("waiting until the Etcd owns its task: %w", err)
	}
	if err := a.Delete(ctx, etcd, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return finding{}, fmt.Errorf("deleting the Etcd: %w", err)
	}
	gone := func(ctx context.Context) (bool, error) {
		err := t.refresh(ctx, etcd.DeepCopy())
		return apierrors.IsNotFound(err), ignore(err, apierrors.IsNotFound)
	}
	if err := until(ctx, patience, gone); err != nil {
		return finding{}, fmt.Errorf("waiting until the Etcd is gone: %w", err)
	}
	if err := a.Create(ctx, t.etcd("replaced", nil)); err != nil {
		return finding{}, fmt.Errorf("creating the second Etcd: %w", err)
	}
	switch err := change(ctx, c, task, `{"spec":{"suspend":false}}`); {
	case apierrors.IsNotFound(err):
		return held("the garbage collector has removed the task, although the deletion orphans it"), nil
	case err != nil:
		return finding{}, fmt.Errorf("resuming the task: %w", err)
	}
	said, over, err := t.end(ctx, task, answer)
	return finding{said, over && state(task) == "Rejected"}, err
}

func preset(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, owner)
	if err != nil {
		return finding{}, err
	}
	a, err := t.as(ctx, author)
	if err != nil {
		return finding{}, err
	}
	if err := a.Create(ctx, t.etcd("preset", nil)); err != nil {
		return finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	task := t.task("preset", "OnDemandMaintenance", "preset", fields{"suspend": true, "config": "etcdDefragmentation: true"})
	if err := c.Create(ctx, task); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	if err := c.Status().Patch(ctx, task.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"state":"InProgress"}}`))); err != nil {
		return finding{}, fmt.Errorf("writing the status: %w", err)
	}
	if err := change(ctx, c, task, `{"spec":{"suspend":false}}`); err != nil {
		return finding{}, fmt.Errorf("resuming the task: %w", err)
	}
	said, over, err := t.end(ctx, task, answer)
	return finding{said, over && state(task) == "Rejected"}, err
}

var crowdAttacks = []attack{
	{16, "create 200 tasks with 58 KiB of config for one Etcd", operate, "all but 50 Rejected, ERR_TOO_MANY_TASKS; tasks of another Etcd are as fast as before", crowd},
}

const (
	// crowded is how many tasks an attacker creates, and pending how many may wait.
	crowded = 200
	pending = 50
	// samples of the time in which the operator rejects an invalid task.
	samples = 5
)

func crowd(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, operate)
	if err != nil {
		return finding{}, err
	}
	a, err := t.as(ctx, author)
	if err != nil {
		return finding{}, err
	}
	for _, name := range []string{"crowd", "bystander"} {
		if err := a.Create(ctx, t.etcd(name, nil)); err != nil {
			return finding{}, fmt.Errorf("creating an Etcd: %w", err)
		}
	}
	before, err := t.rejections(ctx, c, "before")
	if err != nil {
		return finding{}, err
	}
	big := "# " + strings.Repeat("x", 58<<10) + "\netcdDefragmentation: true"
	for i := range crowded {
		if err := c.Create(ctx, t.task(fmt.Sprintf("crowd-%d", i), "OnDemandMaintenance", "crowd", fields{"suspend": true, "config": big})); err != nil {
			return finding{}, fmt.Errorf("creating task %d: %w", i, err)
		}
	}
	during, err := t.rejections(ctx, c, "during")
	if err != nil {
		return finding{}, err
	}
	tooMany := 0
	all, err := within(ctx, patience, func(ctx context.Context) (bool, error) {
		tasks := newList("EtcdOperatorTaskList")
		err := t.admin.List(ctx, tasks, client.InNamespace(t.namespace))
		tooMany = 0
		for i := range tasks.Items {
			if code, _ := lastError(&tasks.Items[i]); code == "ERR_TOO_MANY_TASKS" {
				tooMany++
			}
		}
		return tooMany >= crowded-pending, err
	})
	return finding{
		fmt.Sprintf("%d rejected as too many; an invalid task of another Etcd is rejected after %s, before it was %s (medians of %d)", tooMany, during, before, samples),
		all && during < 2*before+time.Second,
	}, err
}

// rejections returns the median of the times in which the operator rejects an invalid task of the bystander.
func (t *tenant) rejections(ctx context.Context, c client.Client, when string) (time.Duration, error) {
	var took []time.Duration
	for i := range samples {
		task := t.task(fmt.Sprintf("invalid-%s-%d", when, i), "OnDemandMaintenance", "bystander", fields{"config": "nonsense: true"})
		began := time.Now()
		if err := c.Create(ctx, task); err != nil {
			return 0, fmt.Errorf("creating a task: %w", err)
		}
		if said, over, err := t.end(ctx, task, patience); err != nil || !over {
			return 0, fmt.Errorf("waiting until an invalid task is rejected: %s: %w", said, err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2].Round(10 * time.Millisecond), nil
}

var healthyAttacks = []attack{
	{3, "recover a healthy cluster", dangerous, "Rejected, ERR_QUORUM_NOT_LOST; no pod is replaced", recoverHealthy},
}

func recoverHealthy(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.in(ctx, t.healthy.Namespace, dangerous)
	if err != nil {
		return finding{}, err
	}
	pods := func() (string, error) {
		list := &corev1.PodList{}
		err := t.admin.List(ctx, list, client.InNamespace(t.healthy.Namespace))
		var uids []string
		for _, p := range list.Items {
			uids = append(uids, p.Name+" "+string(p.UID))
		}
		return strings.Join(sorted(uids), ","), err
	}
	before, err := pods()
	if err != nil {
		return finding{}, err
	}
	task := newObject("EtcdOperatorTask", t.healthy.Namespace, fmt.Sprintf("attack-%d", time.Now().Unix()), fields{
		"type": "QuorumLossRecovery", "ownerEtcdReference": fields{"name": t.healthy.Name},
	})
	if err := c.Create(ctx, task); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	said, over, err := t.end(ctx, task, answer)
	if err != nil {
		return finding{}, err
	}
	after, err := pods()
	return finding{fmt.Sprintf("%s; pods as before: %t", said, before == after), over && state(task) == "Rejected" && before == after}, err
}
