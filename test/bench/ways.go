// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

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
	// change changes the template.
	change func(stage.Cluster, context.Context) (stage.Change, error)
	// replace replaces the pods, or waits until a controller has.
	replace func(context.Context, stage.Cluster, stage.Change, stage.Note) error
}

var ways = []way{
	{
		name: "QuorumAwareRollout", key: "quorumAwareRollout", managed: true,
		prepare: func(ctx context.Context, c stage.Cluster, note stage.Note) error { return c.WaitEtcd(ctx, note) },
		change:  stage.Cluster.ChangeEtcd,
		replace: func(ctx context.Context, c stage.Cluster, change stage.Change, note stage.Note) error {
			return c.WaitRollout(ctx, change.Revision, note)
		},
	},
	{
		name: "RollingUpdate", key: "rollingUpdate",
		prepare: func(ctx context.Context, c stage.Cluster, _ stage.Note) error {
			return c.SetStrategy(ctx, appsv1.RollingUpdateStatefulSetStrategyType)
		},
		change:  stage.Cluster.ChangeStatefulSet,
		replace: func(context.Context, stage.Cluster, stage.Change, stage.Note) error { return nil },
	},
	{
		name: "OnDelete by hand", key: "onDeleteByHand",
		prepare: func(ctx context.Context, c stage.Cluster, _ stage.Note) error {
			return c.SetStrategy(ctx, appsv1.OnDeleteStatefulSetStrategyType)
		},
		change:  stage.Cluster.ChangeStatefulSet,
		replace: byHand,
	},
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
