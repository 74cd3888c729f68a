// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
)

const (
	// replicas of the demo's Etcd.
	replicas = 3
	// frozen is the ordinal of the hanging member.
	frozen = 0
	// leaveTimeout bounds the cleanup at the end.
	leaveTimeout = 3 * time.Minute
)

// demo is one run of the demo.
type demo struct {
	cluster stage.Cluster
	console *console.Console
	// leader is the ordinal that leads at the start of each part.
	leader int
	// policy is the Etcd's own.
	policy v1alpha1.PodUpdatePolicy
}

func (d *demo) all(ctx context.Context) (err error) {
	d.console.Heading("Changes of the pod template of a %d-member etcd, in place and while one member hangs", replicas)
	if err := d.prepare(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.leave(ctx, err == nil)) }()

	d.console.Heading("Part 1 of 3: etcd-foreman raises the resources of etcd in place (podUpdatePolicy: InPlaceIfPossible)")
	raised, err := d.play(ctx, inPlace)
	if err != nil {
		return err
	}
	d.console.Heading("Part 2 of 3: etcd-foreman replaces the pods while one member hangs")
	ours, err := d.play(ctx, quorumAware)
	if err != nil {
		return err
	}
	d.console.Heading("Part 3 of 3: the StatefulSet's own RollingUpdate does (feature gate QuorumAwareUpdatesWithOnDelete is off)")
	theirs, err := d.play(ctx, rollingUpdate)
	if err != nil {
		return err
	}
	d.console.Heading("Side by side, from the change of the template until every pod followed it and was ready")
	results := results{theirs: theirs, ours: ours, raised: raised}
	d.console.Line("\n%s", results.table())
	return d.write(results)
}

// prepare waits until the operator and the Etcd are ready, and chooses the leader.
func (d *demo) prepare(ctx context.Context) error {
	if err := d.cluster.ThawAll(ctx); err != nil {
		return err
	}
	return d.console.Step("cluster", func(note func(string)) (string, error) {
		if err := d.cluster.WaitOperator(ctx, note); err != nil {
			return "", err
		}
		if err := d.cluster.WaitEtcd(ctx, note); err != nil {
			return "", err
		}
		leader, err := d.cluster.WaitHealthy(ctx, note)
		if err != nil {
			return "", err
		}
		// A hanging leader is another scenario: the others elect a leader before the clock starts.
		if d.leader = leader; d.leader == frozen {
			d.leader = replicas - 1
		}
		d.policy, err = d.cluster.PodUpdatePolicy(ctx)
		return fmt.Sprintf("the operator and Etcd %s are ready", d.cluster.Key()), err
	})
}

// leave restores the cluster: nothing frozen, the gate on, the Etcd's own policy, and after a success, every member ready. It works
// even after the context has ended.
func (d *demo) leave(ctx context.Context, well bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	return errors.Join(
		d.cluster.ThawAll(ctx),
		d.console.Step("feature gate", func(note func(string)) (string, error) {
			err := d.cluster.SetGate(ctx, true, note)
			if err == nil {
				err = d.cluster.WaitStrategy(ctx, true, note)
			}
			if err == nil && well {
				return "on again, and the Etcd is ready", d.cluster.SetPodUpdatePolicy(ctx, d.policy, note)
			}
			return "on again", err
		}))
}
