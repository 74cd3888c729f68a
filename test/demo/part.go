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
	"github.com/etcd-foreman/etcd-foreman/internal/timeline"
	"github.com/etcd-foreman/etcd-foreman/test/measure"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
)

// way is a way to replace the pods of a StatefulSet.
type way struct {
	name string
	gate bool
	// healthy: no member hangs.
	healthy bool
	// policy of the Etcd.
	policy v1alpha1.PodUpdatePolicy
	// change changes the template. what says what changes.
	change func(stage.Cluster, context.Context) (stage.Change, error)
	what   string
	// until waits until the rollout has ended, as far as its controller reports it.
	until func(context.Context, stage.Cluster, stage.Change, stage.Note) error
	// source returns the objects whose changes show the rollout.
	source func(*reporter) source
}

var inPlace = way{
	name: "etcd-foreman in place: resources raised", gate: true, healthy: true, policy: v1alpha1.InPlaceIfPossible, source: fromTasks,
	change: stage.Cluster.RaiseResources, what: "CPU and memory in spec.etcd.resources of the Etcd are raised", until: untilTask,
}

var quorumAware = way{
	name: "etcd-foreman QuorumAwareRollout", gate: true, policy: v1alpha1.RecreatePods, source: fromTasks,
	change: stage.Cluster.ChangeEtcd, what: anAnnotation, until: untilTask,
}

var rollingUpdate = way{
	name: "StatefulSet RollingUpdate", gate: false, policy: v1alpha1.RecreatePods, source: fromPods,
	change: stage.Cluster.ChangeEtcd, what: anAnnotation,
	until: func(context.Context, stage.Cluster, stage.Change, stage.Note) error { return nil },
}

const anAnnotation = "the template changes: an annotation in spec.annotations of the Etcd"

func untilTask(ctx context.Context, c stage.Cluster, change stage.Change, note stage.Note) error {
	return c.WaitRollout(ctx, change.Revision, note)
}

// result is the result of one part.
type result struct {
	way     way
	frozen  time.Time // when member 0 began to hang; zero if it does not
	change  stage.Change
	report  measure.Report
	figures measure.Figures
	// restarts of etcd, in its pod or with a new one.
	restarts int
	steps    []timeline.Step
}

// play shows and measures one way.
func (d *demo) play(ctx context.Context, w way) (result, error) {
	if err := d.setUp(ctx, w); err != nil {
		return result{}, err
	}
	var writer *measure.Writer
	err := d.console.Step("writer", func(func(string)) (_ string, err error) {
		tls, err := d.cluster.TLS(ctx)
		if err != nil {
			return "", err
		}
		writer, err = measure.Start(ctx, measure.Options{
			Config: d.cluster.Config, Namespace: d.cluster.Namespace, StatefulSet: d.cluster.Name, TLS: tls,
		})
		return "puts a new key every 50 ms through each member", err
	})
	if err != nil {
		return result{}, err
	}
	defer writer.Stop()
	r := result{way: w}
	if !w.healthy {
		r.frozen = time.Now()
		thaw, err := d.freeze(ctx)
		defer thaw() //nolint:errcheck // the end of the demo checks all members again
		if err != nil {
			return result{}, err
		}
	}
	before, err := d.cluster.Runs(ctx)
	if err != nil {
		return result{}, err
	}
	if err := d.roll(ctx, writer, &r); err != nil {
		return result{}, err
	}
	after, err := d.cluster.Runs(ctx)
	if err != nil {
		return result{}, err
	}
	r.restarts = before.RestartsUntil(after)
	return r, d.verify(ctx, writer, r.report)
}

// setUp brings the cluster to the initial state of a part.
func (d *demo) setUp(ctx context.Context, w way) error {
	name := map[bool]string{true: "on", false: "off"}[w.gate]
	err := d.console.Step("feature gate", func(note func(string)) (string, error) {
		if err := d.cluster.SetGate(ctx, w.gate, note); err != nil {
			return "", err
		}
		return name, d.cluster.WaitStrategy(ctx, w.gate, note)
	})
	if err != nil {
		return err
	}
	return d.console.Step("members", func(note func(string)) (string, error) {
		if _, err := d.cluster.WaitHealthy(ctx, note); err != nil {
			return "", err
		}
		if err := d.cluster.SetPodUpdatePolicy(ctx, w.policy, note); err != nil {
			return "", err
		}
		return fmt.Sprintf("all members are healthy; %s leads", d.cluster.PodName(d.leader)), d.cluster.MoveLeader(ctx, d.leader, note)
	})
}

func (d *demo) freeze(ctx context.Context) (thaw func() error, err error) {
	thaw = func() error { return nil }
	err = d.console.Step("freezing "+d.cluster.PodName(frozen), func(note func(string)) (_ string, err error) {
		thaw, err = d.cluster.Freeze(ctx, frozen, note)
		return "SIGSTOP; its readiness probe fails", err
	})
	return thaw, err
}

// roll changes the template, shows the rollout, and waits until it has ended.
func (d *demo) roll(ctx context.Context, writer *measure.Writer, r *result) error {
	d.console.Line("")
	err := d.console.Step("rollout", func(note func(string)) (string, error) {
		events, err := d.begin(ctx, writer, r.way)
		if err != nil {
			return "", err
		}
		defer events.end()
		events.say(time.Now(), r.way.what)
		if r.change, err = r.way.change(d.cluster, ctx); err != nil {
			return "", err
		}
		if err := r.way.until(ctx, d.cluster, r.change, note); err != nil {
			return "", err
		}
		_, err = d.cluster.WaitHealthy(ctx, note)
		r.steps = events.steps()
		return "every pod follows the template and is ready", err
	})
	r.report = writer.Stop()
	if err != nil {
		return err
	}
	settled, ok := r.report.Settled(r.change.Revision)
	if !ok {
		return errors.New("ending the rollout: the API server's watch does not show every pod ready at the new revision")
	}
	r.figures = r.report.Between(r.change.At, settled)
	return nil
}

func (d *demo) verify(ctx context.Context, writer *measure.Writer, report measure.Report) error {
	return d.console.Step("acknowledged writes", func(func(string)) (string, error) {
		if err := writer.Verify(ctx); err != nil {
			return "", err
		}
		return fmt.Sprintf("all %d since the writer started exist, read through every member", len(report.Writes)), writer.Clean(ctx)
	})
}
