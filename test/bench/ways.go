// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
	appsv1 "k8s.io/api/apps/v1"
)

// way is a way to roll out a new template.
type way struct {
	// name for humans, and key for bench.json.
	name, key string
	// managed reports whether etcd-foreman rolls.
	managed bool
	// prepare sets up the cluster before the measurement.
	prepare func(context.Context, stage.Cluster, stage.Note) error
	// change carries out an edit.
	change func(ctx context.Context, c stage.Cluster, e edit, number int, image string) (stage.Change, error)
	// replace replaces the pods, or waits until a controller has.
	replace func(context.Context, stage.Cluster, stage.Change, stage.Note) error
}

var (
	quorumAware = way{
		name: "QuorumAwareRollout", key: "quorumAwareRollout", managed: true,
		prepare: func(ctx context.Context, c stage.Cluster, note stage.Note) error {
			return c.SetPodUpdatePolicy(ctx, v1alpha1.RecreatePods, note)
		},
		change: throughEtcd, replace: waitRollout,
	}
	inPlace = way{
		name: "InPlaceIfPossible", key: "inPlaceIfPossible", managed: true,
		prepare: func(ctx context.Context, c stage.Cluster, note stage.Note) error {
			return c.SetPodUpdatePolicy(ctx, v1alpha1.InPlaceIfPossible, note)
		},
		change: throughEtcd, replace: waitRollout,
	}
	rollingUpdate = way{
		name: "RollingUpdate", key: "rollingUpdate",
		prepare: func(ctx context.Context, c stage.Cluster, _ stage.Note) error {
			return c.SetStrategy(ctx, appsv1.RollingUpdateStatefulSetStrategyType)
		},
		change:  throughTemplate,
		replace: func(context.Context, stage.Cluster, stage.Change, stage.Note) error { return nil },
	}
	onDelete = way{
		name: "OnDelete by hand", key: "onDeleteByHand",
		prepare: func(ctx context.Context, c stage.Cluster, _ stage.Note) error {
			return c.SetStrategy(ctx, appsv1.OnDeleteStatefulSetStrategyType)
		},
		change: throughTemplate, replace: byHand,
	}
)

// Ours comes first.
var (
	// newPods replace every pod.
	newPods = []way{quorumAware, rollingUpdate, onDelete}
	// inPlaceOrNot are for changes that need no new pod.
	inPlaceOrNot = []way{inPlace, quorumAware, rollingUpdate}
)

func throughEtcd(ctx context.Context, c stage.Cluster, e edit, number int, image string) (stage.Change, error) {
	return c.PatchEtcd(ctx, e.etcd(number, image))
}

func throughTemplate(ctx context.Context, c stage.Cluster, e edit, number int, image string) (stage.Change, error) {
	return c.PatchTemplate(ctx, e.template(number, image))
}

func waitRollout(ctx context.Context, c stage.Cluster, change stage.Change, note stage.Note) error {
	return c.WaitRollout(ctx, change.Revision, note)
}

// byHand deletes the highest ordinal, waits until it is ready again, and continues with the next.
func byHand(ctx context.Context, c stage.Cluster, _ stage.Change, note stage.Note) error {
	set, err := c.StatefulSet(ctx)
	if err != nil {
		return err
	}
	for i := int(*set.Spec.Replicas) - 1; i >= 0; i-- {
		if err := c.DeletePod(ctx, i); err != nil {
			return err
		}
		if err := c.WaitReady(ctx, i, note); err != nil {
			return err
		}
	}
	return nil
}
