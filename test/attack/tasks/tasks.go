// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package tasks attacks by tasks: of Etcds that are gone, with a status that nobody admitted, by their number, and on a healthy
// cluster.
package tasks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/attack/engine"
	"github.com/etcd-foreman/etcd-foreman/test/attack/scene"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Attacks are those by single tasks.
var Attacks = []engine.Attack{
	{Item: 8, What: "delete an Etcd, create another of its name, and resume a task of the first", By: scene.Operate + " and " + scene.Author, Want: "Rejected: it does not run", Try: replaced},
	{Item: 14, What: "preset the status of a task with InProgress", By: scene.Owner, Want: "Rejected", Try: preset},
}

func replaced(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Operate)
	a := t.As(scene.Author)
	etcd := t.Etcd("replaced", nil)
	if err := a.Create(ctx, etcd); err != nil {
		return engine.Finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	task := t.Task("of-the-first", "OnDemandMaintenance", "replaced", scene.Fields{"suspend": true, "config": "etcdDefragmentation: true"})
	if err := c.Create(ctx, task); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	adopted := func(ctx context.Context) (bool, error) {
		err := t.Refresh(ctx, task)
		return len(task.GetOwnerReferences()) > 0, err
	}
	if err := scene.Until(ctx, scene.Patience, adopted); err != nil {
		return engine.Finding{}, fmt.Errorf("waiting until the Etcd owns its task: %w", err)
	}
	if err := a.Delete(ctx, etcd, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		return engine.Finding{}, fmt.Errorf("deleting the Etcd: %w", err)
	}
	gone := func(ctx context.Context) (bool, error) {
		err := t.Refresh(ctx, etcd.DeepCopy())
		return apierrors.IsNotFound(err), scene.Ignore(err, apierrors.IsNotFound)
	}
	if err := scene.Until(ctx, scene.Patience, gone); err != nil {
		return engine.Finding{}, fmt.Errorf("waiting until the Etcd is gone: %w", err)
	}
	if err := a.Create(ctx, t.Etcd("replaced", nil)); err != nil {
		return engine.Finding{}, fmt.Errorf("creating the second Etcd: %w", err)
	}
	switch err := scene.Change(ctx, c, task, `{"spec":{"suspend":false}}`); {
	case apierrors.IsNotFound(err):
		return engine.Held("the garbage collector has removed the task, although the deletion orphans it"), nil
	case err != nil:
		return engine.Finding{}, fmt.Errorf("resuming the task: %w", err)
	}
	said, over, err := t.End(ctx, task, scene.Answer)
	if state := scene.State(task); apierrors.IsNotFound(err) && state != "InProgress" && state != "Succeeded" {
		return engine.Held("the garbage collector has removed the task before its end, although the deletion orphans it"), nil
	}
	return engine.Found(said, over && scene.State(task) == "Rejected"), err
}

func preset(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Owner)
	a := t.As(scene.Author)
	if err := a.Create(ctx, t.Etcd("preset", nil)); err != nil {
		return engine.Finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	task := t.Task("preset", "OnDemandMaintenance", "preset", scene.Fields{"suspend": true, "config": "etcdDefragmentation: true"})
	if err := c.Create(ctx, task); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	if err := c.Status().Patch(ctx, task.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"state":"InProgress"}}`))); err != nil {
		return engine.Finding{}, fmt.Errorf("writing the status: %w", err)
	}
	if err := scene.Change(ctx, c, task, `{"spec":{"suspend":false}}`); err != nil {
		return engine.Finding{}, fmt.Errorf("resuming the task: %w", err)
	}
	said, over, err := t.End(ctx, task, scene.Answer)
	return engine.Found(said, over && scene.State(task) == "Rejected"), err
}

// Crowd is the attack by the number of tasks.
var Crowd = []engine.Attack{
	{Item: 16, What: "create 200 tasks with 58 KiB of config for one Etcd", By: scene.Operate, Want: "all but 50 Rejected, ERR_TOO_MANY_TASKS; tasks of another Etcd are as fast as before", Try: crowd},
}

const (
	// crowded is how many tasks an attacker creates, and pending how many may wait.
	crowded = 200
	pending = 50
	// samples of the time in which the operator rejects an invalid task.
	samples = 5
)

func crowd(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Operate)
	a := t.As(scene.Author)
	for _, name := range []string{"crowd", "bystander"} {
		if err := a.Create(ctx, t.Etcd(name, nil)); err != nil {
			return engine.Finding{}, fmt.Errorf("creating an Etcd: %w", err)
		}
	}
	before, err := rejections(ctx, t, c, "before")
	if err != nil {
		return engine.Finding{}, err
	}
	big := "# " + strings.Repeat("x", 58<<10) + "\netcdDefragmentation: true"
	for i := range crowded {
		if err := c.Create(ctx, t.Task(fmt.Sprintf("crowd-%d", i), "OnDemandMaintenance", "crowd", scene.Fields{"suspend": true, "config": big})); err != nil {
			return engine.Finding{}, fmt.Errorf("creating task %d: %w", i, err)
		}
	}
	during, err := rejections(ctx, t, c, "during")
	if err != nil {
		return engine.Finding{}, err
	}
	tooMany := 0
	all, err := scene.Within(ctx, scene.Patience, func(ctx context.Context) (bool, error) {
		tasks := scene.NewList("EtcdOperatorTaskList")
		err := t.Admin.List(ctx, tasks, client.InNamespace(t.Namespace))
		tooMany = 0
		for i := range tasks.Items {
			if code, _ := scene.LastError(&tasks.Items[i]); code == "ERR_TOO_MANY_TASKS" {
				tooMany++
			}
		}
		return tooMany >= crowded-pending, err
	})
	return engine.Found(
		fmt.Sprintf("%d rejected as too many; an invalid task of another Etcd is rejected after %s, before it was %s (medians of %d)", tooMany, during, before, samples),
		all && during < 2*before+time.Second,
	), err
}

// rejections returns the median of the times in which the operator rejects an invalid task of the bystander.
func rejections(ctx context.Context, t *scene.Tenant, c client.Client, when string) (time.Duration, error) {
	var took []time.Duration
	for i := range samples {
		task := t.Task(fmt.Sprintf("invalid-%s-%d", when, i), "OnDemandMaintenance", "bystander", scene.Fields{"config": "nonsense: true"})
		began := time.Now()
		if err := c.Create(ctx, task); err != nil {
			return 0, fmt.Errorf("creating a task: %w", err)
		}
		if said, over, err := t.End(ctx, task, scene.Patience); err != nil || !over {
			return 0, fmt.Errorf("waiting until an invalid task is rejected: %s: %w", said, err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2].Round(10 * time.Millisecond), nil
}

// Healthy is the attack on a healthy cluster.
var Healthy = []engine.Attack{
	{Item: 3, What: "recover a healthy cluster", By: scene.Dangerous, Want: "Rejected, ERR_QUORUM_NOT_LOST; no pod is replaced", Try: recoverHealthy},
}

func recoverHealthy(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c, err := t.In(ctx, t.Healthy.Namespace, scene.Dangerous)
	if err != nil {
		return engine.Finding{}, err
	}
	pods := func() (string, error) {
		list := &corev1.PodList{}
		err := t.Admin.List(ctx, list, client.InNamespace(t.Healthy.Namespace))
		var uids []string
		for _, p := range list.Items {
			uids = append(uids, p.Name+" "+string(p.UID))
		}
		return strings.Join(slices.Sorted(slices.Values(uids)), ","), err
	}
	before, err := pods()
	if err != nil {
		return engine.Finding{}, err
	}
	task := scene.NewObject("EtcdOperatorTask", t.Healthy.Namespace, fmt.Sprintf("attack-%d", time.Now().Unix()), scene.Fields{
		"type": "QuorumLossRecovery", "ownerEtcdReference": scene.Fields{"name": t.Healthy.Name},
	})
	if err := c.Create(ctx, task); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	said, over, err := t.End(ctx, task, scene.Answer)
	if err != nil {
		return engine.Finding{}, err
	}
	after, err := pods()
	return engine.Found(fmt.Sprintf("%s; pods as before: %t", said, before == after), over && scene.State(task) == "Rejected" && before == after), err
}
