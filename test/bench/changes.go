// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/measure"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
)

// numberOfChanges is how often the resources of the same cluster change.
const numberOfChanges = 20

// series is what many changes of resources cost together.
type series struct {
	interval time.Duration
	restarts int
	figures  measure.Figures
}

func (s *series) String() string {
	return fmt.Sprintf("%d changes in %.0f s: %d restarts of etcd, %d leader changes, longest gap %.2f s, %.2f s without writes", numberOfChanges,
		s.figures.Until.Sub(s.figures.From).Seconds(), s.restarts, s.figures.LeaderChanges, s.figures.LongestGap.Seconds(), s.figures.WithoutWrites.Seconds())
}

// measureChanges raises the resources of our cluster again and again, in place and under load.
func (b *bench) measureChanges(ctx context.Context, c clusters) error {
	return b.console.Step(changes, func(note func(string)) (string, error) {
		if err := inPlace.prepare(ctx, c.ours, note); err != nil {
			return "", err
		}
		if _, err := c.ours.WaitHealthy(ctx, note); err != nil {
			return "", err
		}
		before, err := c.ours.Runs(ctx)
		if err != nil {
			return "", err
		}
		writer, err := measure.Start(ctx, measure.Options{Config: b.stage.Config, Namespace: c.namespace, StatefulSet: c.ours.Name})
		if err != nil {
			return "", err
		}
		defer writer.Stop()
		s := &series{interval: b.interval}
		from := time.Now()
		if err := b.changeOften(ctx, c.ours, note); err != nil {
			return "", err
		}
		s.figures = writer.Stop().Between(from, time.Now())
		after, err := c.ours.Runs(ctx)
		if err != nil {
			return "", err
		}
		s.restarts, b.results.changes = before.RestartsUntil(after), s
		note("reading every acknowledged write back")
		return s.String(), errors.Join(writer.Verify(ctx), writer.Clean(ctx))
	})
}

// changeOften makes a change at every interval, or when the one before is done, whichever is later.
func (b *bench) changeOften(ctx context.Context, c stage.Cluster, note stage.Note) error {
	for i := range numberOfChanges {
		interval := time.After(b.interval)
		change, err := c.PatchEtcd(ctx, raise.etcd(b.nextNumber(), ""))
		if err != nil {
			return err
		}
		numbered := func(text string) { note(fmt.Sprintf("%d/%d %s", i+1, numberOfChanges, text)) }
		if err := c.WaitRollout(ctx, change.Revision, numbered); err != nil {
			return err
		}
		if _, err := c.WaitHealthy(ctx, numbered); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-interval:
		}
	}
	return nil
}
