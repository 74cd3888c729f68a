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

// sizes that a cluster of one member is given, one after the other.
var sizes = []int32{3, 5, 3, 1}

// resize is what a change of the number of members costs.
type resize struct {
	from, to int32
	figures  measure.Figures
}

// took returns the time from the change of the Etcd until its members are those of its spec.
func (r resize) took() time.Duration { return r.figures.Until.Sub(r.figures.From) }

// String returns the change in one line.
func (r resize) String() string {
	return fmt.Sprintf("%d to %d members in %5.1f s, longest gap %.2f s, %.2f s without writes, %d leader changes",
		r.from, r.to, r.took().Seconds(), r.figures.LongestGap.Seconds(), r.figures.WithoutWrites.Seconds(), r.figures.LeaderChanges)
}

// resizesDocument returns the part of bench.json on members that come and go.
func (r results) resizesDocument() []map[string]any {
	var all []map[string]any
	for _, one := range r.resizes {
		all = append(all, map[string]any{
			"from": one.from, "to": one.to, "seconds": one.took().Seconds(), "longestWriteGapSeconds": one.figures.LongestGap.Seconds(),
			"secondsWithoutWrites": one.figures.WithoutWrites.Seconds(), "leaderChanges": one.figures.LeaderChanges,
		})
	}
	return all
}

// measureMembers lets a cluster of one member grow and shrink under load.
func (b *bench) measureMembers(ctx context.Context) (err error) {
	b.console.Heading("%s", members)
	c := clusters{bench: b, namespace: "bench-members", members: 1}
	c.ours = stage.Cluster{Stage: b.stage, Namespace: c.namespace, Name: ours}
	c.peer = c.ours // there is none
	defer func() { err = errors.Join(err, c.tearDown(ctx)) }()
	err = b.console.Step("cluster", func(note func(string)) (string, error) {
		note("removing leftovers of an earlier run")
		return "of one member", errors.Join(c.remove(ctx), c.createEtcds(ctx, note, c.ours))
	})
	if err != nil {
		return err
	}
	for pair := range b.pairs {
		if err := b.growAndShrink(ctx, c.ours, pair); err != nil {
			return fmt.Errorf("changing the number of members of %s: %w", c.ours.Key(), err)
		}
	}
	return nil
}

// growAndShrink gives a cluster each of the sizes under load, and reads every acknowledged write back.
func (b *bench) growAndShrink(ctx context.Context, c stage.Cluster, pair int) error {
	writer, err := measure.Start(ctx, measure.Options{Config: b.stage.Config, Namespace: c.Namespace, StatefulSet: c.Name})
	if err != nil {
		return err
	}
	defer writer.Stop()
	changed, from := []resize{}, int32(1)
	for _, to := range sizes {
		one := resize{from: from, to: to, figures: measure.Figures{From: time.Now()}}
		err := b.console.Step(fmt.Sprintf("%d/%d to %d", pair+1, b.pairs, to), func(note func(string)) (string, error) {
			if err := c.Resize(ctx, to); err != nil {
				return "", err
			}
			return "", c.WaitSize(ctx, to, note)
		})
		if err != nil {
			return err
		}
		one.figures.Until, from = time.Now(), to
		changed = append(changed, one)
	}
	report := writer.Stop()
	for _, one := range changed {
		one.figures = report.Between(one.figures.From, one.figures.Until)
		b.console.Line("  %s", one)
		b.results.resizes = append(b.results.resizes, one)
	}
	return errors.Join(writer.Verify(ctx), writer.Clean(ctx))
}
