// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package texts attacks by what users write: schedules, configs and annotations.
package texts

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/attack/engine"
	"github.com/etcd-foreman/etcd-foreman/test/attack/scene"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Attacks are those by schedules, configs and annotations.
var Attacks = []engine.Attack{
	{Item: 26, What: "schedule full snapshots for the 31st of February", By: scene.Author, Want: "refused, or reported", Try: impossibleSchedule},
	{Item: 26, What: "write terminal escape sequences into a config", By: scene.Operate, Want: "none in the status", Try: escapes},
	{Item: 26, What: "annotate the Lease of full snapshots with 40 KiB", By: scene.Owner, Want: "the status follows a change of the spec", Try: longAnnotation},
}

func impossibleSchedule(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	a := t.As(scene.Author)
	etcd := t.Etcd("schedule", scene.Fields{"backup": scene.Fields{"store": scene.Fields{"provider": "Local", "container": "backups"}, "fullSnapshotSchedule": "0 0 31 2 *"}})
	switch err := a.Create(ctx, etcd); {
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
		return engine.Held("%v", err), nil
	case err != nil:
		return engine.Finding{}, err
	}
	reported, err := scene.Within(ctx, scene.Answer, func(ctx context.Context) (bool, error) {
		err := t.Refresh(ctx, etcd)
		_, description := scene.LastError(etcd)
		return strings.Contains(description, "fullSnapshotSchedule"), err
	})
	_, description := scene.LastError(etcd)
	if !reported {
		description = "accepted: " + description
	}
	return engine.Found(description, reported), err
}

func escapes(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Operate)
	a := t.As(scene.Author)
	if err := a.Create(ctx, t.Etcd("escapes", nil)); err != nil {
		return engine.Finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	var found []string
	// As a field, as a value of an enum, and as it is.
	for i, config := range []string{`{"\u001b[2Jgone\u0007": 1}`, `{"etcdDefragmentation": "\u001b[2J"}`, "etcdDefragmentation: \x1b[2J"} {
		task := t.Task(fmt.Sprintf("escapes-%d", i), "OnDemandMaintenance", "escapes", scene.Fields{"config": config})
		if err := c.Create(ctx, task); err != nil {
			return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
		}
		if said, over, err := t.End(ctx, task, scene.Answer); err != nil || !over {
			return engine.Finding{}, fmt.Errorf("waiting for the task to be rejected: %s: %w", said, err)
		}
		status, err := json.Marshal(task.Object["status"])
		if err != nil {
			return engine.Finding{}, err
		}
		if strings.Contains(string(status), `\u001b`) || strings.Contains(string(status), `\u0007`) {
			found = append(found, task.GetName())
		}
	}
	return engine.Found(fmt.Sprintf("statuses with control characters: [%s]", strings.Join(found, " ")), len(found) == 0), nil
}

func longAnnotation(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	o := t.As(scene.Owner)
	a := t.As(scene.Author)
	// No agent runs that would remove the annotation.
	etcd := t.Etcd("annotated", scene.Fields{
		"etcd":   scene.Fields{"image": "localhost/none:none"},
		"backup": scene.Fields{"store": scene.Fields{"provider": "Local", "container": "backups"}, "image": "localhost/none:none"},
	})
	if err := a.Create(ctx, etcd); err != nil {
		return engine.Finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: "annotated-full-snap"}}
	exists := func(ctx context.Context) (bool, error) {
		err := t.Refresh(ctx, lease)
		return err == nil, scene.Ignore(err, apierrors.IsNotFound)
	}
	if err := scene.Until(ctx, scene.Patience, exists); err != nil {
		return engine.Finding{}, fmt.Errorf("waiting for the Lease: %w", err)
	}
	patch, err := json.Marshal(scene.Fields{"metadata": scene.Fields{"annotations": scene.Fields{"druid.gardener.cloud/backup-error": strings.Repeat("x", 40<<10)}}})
	if err != nil {
		return engine.Finding{}, err
	}
	if err := o.Patch(ctx, lease, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		return engine.Finding{}, fmt.Errorf("annotating the Lease: %w", err)
	}
	if err := scene.Change(ctx, a, etcd, `{"spec":{"etcd":{"quota":"4Gi"}}}`); err != nil {
		return engine.Finding{}, fmt.Errorf("changing the Etcd: %w", err)
	}
	follows, err := scene.Within(ctx, scene.Answer, func(ctx context.Context) (bool, error) {
		err := t.Refresh(ctx, etcd)
		observed, ok := etcd.Object["status"].(scene.Fields)
		if !ok {
			return false, err
		}
		_, reason, message := scene.Condition(etcd, "BackupReady")
		return observed["observedGeneration"] == etcd.GetGeneration() && reason == "BackupFailed" && len(message) < 2<<10, err
	})
	return engine.Found(fmt.Sprintf("the status follows: %t", follows), follows), err
}
