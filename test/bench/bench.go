// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
)

// bench is one run.
type bench struct {
	stage   *stage.Stage
	console *console.Console
	pairs   int
	// interval is that of the changes of one cluster.
	interval time.Duration
	results  results
	// edits is the number of changes of templates so far.
	edits int
}

// nextNumber returns the number of the next edit.
func (b *bench) nextNumber() int {
	b.edits++
	return b.edits
}

// all measures the chosen scenarios, one cluster size after the other.
func (b *bench) all(ctx context.Context, c chosen) error {
	for _, members := range []int{3, 5} {
		some := chosen{scenarios: c.ofSize(members), changes: c.changes && members == 3, idle: c.idle && members == 3}
		if len(some.scenarios) == 0 && !some.changes && !some.idle {
			continue
		}
		if err := b.measureSize(ctx, members, some); err != nil {
			return err
		}
	}
	if c.members {
		return b.measureMembers(ctx)
	}
	return nil
}

// measureSize measures scenarios with the same number of members, in their own namespace.
func (b *bench) measureSize(ctx context.Context, members int, some chosen) (err error) {
	b.console.Heading("Clusters of %d", members)
	clusters, err := b.setUp(ctx, members)
	defer func() { err = errors.Join(err, clusters.tearDown(ctx)) }()
	if err != nil {
		return err
	}
	if some.idle {
		if err := b.measureIdle(ctx, clusters); err != nil {
			return err
		}
	}
	for _, s := range some.scenarios {
		b.console.Heading("%s", s.name)
		for pair := range b.pairs {
			if err := b.pair(ctx, clusters, s, pair); err != nil {
				return fmt.Errorf("measuring %s: %w", s.name, err)
			}
		}
	}
	if some.changes {
		b.console.Heading("%s", changes)
		return b.measureChanges(ctx, clusters)
	}
	return nil
}

// pair rolls once in every way.
func (b *bench) pair(ctx context.Context, clusters clusters, s scenario, pair int) error {
	if s.idleMinute {
		if err := b.measureIdleGap(ctx, clusters); err != nil {
			return err
		}
	}
	order := slices.Clone(s.ways)
	if pair%2 == 1 {
		slices.Reverse(order)
	}
	for _, w := range order {
		var r rollout
		name := fmt.Sprintf("%d/%d %s", pair+1, b.pairs, w.name)
		err := b.console.Step(name, func(note func(string)) (_ string, err error) {
			r, err = b.roll(ctx, clusters, s, pair, w, note)
			return r.String(), err
		})
		if err != nil {
			return fmt.Errorf("rolling %s: %w", name, err)
		}
		b.results.rollouts = append(b.results.rollouts, r)
	}
	return nil
}
