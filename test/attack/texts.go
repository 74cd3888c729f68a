// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var textAttacks = []attack{
	{26, "schedule full snapshots for the 31st of February", author, "refused, or reported", impossibleSchedule},
	{26, "write terminal escape sequences into a config", operate, "none in the status", escapes},
	{26, "annotate the Lease of full snapshots with 40 KiB", owner, "the status follows a change of the spec", longAnnotation},
}

func impossibleSchedule(ctx context.Context, t *tenant) (finding, error) {
	a, err := t.as(ctx, author)
	if err != nil {
		return finding{}, err
	}
	etcd := t.etcd("schedule", fields{"backup": fields{"store": fields{"provider": "Local", "container": store}, "fullSnapshotSchedule": "0 0 31 2 *"}})
	switch err := a.Create(ctx, etcd); {
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
		return held("%v", err), nil
	case err != nil:
		return finding{}, err
	}
	reported, err := within(ctx, answer, func(ctx context.Context) (bool, error) {
		err := t.refresh(ctx, etcd)
		_, description := lastError(etcd)
		return strings.Contains(description, "fullSnapshotSchedule"), err
	})
	_, description := lastError(etcd)
	if !reported {
		description = "accepted: " + description
	}
	return finding{description, reported}, err
}

func escapes(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, operate)
	if err != nil {
		return finding{}, err
	}
	a, err := t.as(ctx, author)
	if err != nil {
		return finding{}, err
	}
	if err := a.Create(ctx, t.etcd("escapes", nil)); err != nil {
		return finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	var found []string
	// As a field, as a value of an enum, and as it is.
	for i, config := range []string{`{"\u001b[2Jgone\u0007": 1}`, `{"etcdDefragmentation": "\u001b[2J"}`, "etcdDefragmentation: \x1b[2J"} {
		task := t.task(fmt.Sprintf("escapes-%d", i), "OnDemandMaintenance", "escapes", fields{"config": config})
		if err := c.Create(ctx, task); err != nil {
			return finding{}, fmt.Errorf("creating a task: %w", err)
		}
		if said, over, err := t.end(ctx, task, answer); err != nil || !over {
			return finding{}, fmt.Errorf("waiting for the task to be rejected: %s: %w", said, err)
		}
		status, err := json.Marshal(task.Object["status"])
		if err != nil {
			return finding{}, err
		}
		if strings.Contains(string(status), `\u001b`) || strings.Contains(string(status), `\u0007`) {
			found = append(found, task.GetName())
		}
	}
	return finding{fmt.Sprintf("statuses with control characters: [%s]", strings.Join(found, " ")), len(found) == 0}, nil
}

func longAnnotation(ctx context.Context, t *tenant) (finding, error) {
	o, err := t.as(ctx, owner)
	if err != nil {
		return finding{}, err
	}
	a, err := t.as(ctx, author)
	if err != nil {
		return finding{}, err
	}
	// No agent runs that would remove the annotation.
	etcd := t.etcd("annotated", fields{
		"etcd":   fields{"image": "localhost/none:none"},
		"backup": fields{"store": fields{"provider": "Local", "container": store}, "image": "localhost/none:none"},
	})
	if err := a.Create(ctx, etcd); err != nil {
		return finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "annotated-full-snap"}}
	exists := func(ctx context.Context) (bool, error) {
		err := t.refresh(ctx, lease)
		return err == nil, ignore(err, apierrors.IsNotFound)
	}
	if err := until(ctx, patience, exists); err != nil {
		return finding{}, fmt.Errorf("waiting for the Lease: %w", err)
	}
	patch, err := json.Marshal(fields{"metadata": fields{"annotations": fields{"druid.gardener.cloud/backup-error": strings.Repeat("x", 40<<10)}}})
	if err != nil {
		return finding{}, err
	}
	if err := o.Patch(ctx, lease, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return finding{}, fmt.Errorf("annotating the Lease: %w", err)
	}
	if err := change(ctx, a, etcd, `{"spec":{"etcd":{"quota":"4Gi"}}}`); err != nil {
		return finding{}, fmt.Errorf("changing the Etcd: %w", err)
	}
	follows, err := within(ctx, answer, func(ctx context.Context) (bool, error) {
		err := t.refresh(ctx, etcd)
		observed, ok := etcd.Object["status"].(fields)
		if !ok {
			return false, err
		}
		_, reason, _ := condition(etcd, "BackupReady")
		return observed["observedGeneration"] == etcd.GetGeneration() && reason == "BackupFailed", err
	})
	return finding{fmt.Sprintf("the status follows: %t", follows), follows}, err
}
