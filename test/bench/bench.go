// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
	"github.com/etcd-foreman/etcd-foreman/test/measure/stage"
)

// bench is one run.
type bench struct {
	stage   *stage.Stage
	console *console.Console
	pairs   int
	results results
}

// all measures the chosen scenarios, one cluster size after the other.
func (b *bench) all(ctx context.Context, c chosen) error {
	for _, members := range []int{3, 5} {
		some := c.ofSize(members)
		isIdle := c.idle && members == 3
		if len(some) == 0 && !isIdle {
			continue
		}
		if err := b.measureSize(ctx, members, some, isIdle); err != nil {
			return err
		}
	}
	return nil
}

// measureSize measures scenarios with the same number of members, in their own namespace.
func (b *bench) measureSize(ctx context.Context, members int, some []scenario, isIdle bool) (err error) {
	b.console.Heading("Clusters of %d", members)
	clusters, err := b.setUp(ctx, members)
	defer func() { err = errors.Join(err, clusters.tearDown(ctx)) }()
	if err != nil {
		return err
	}
	if isIdle {
		if err := b.measureIdle(ctx, clusters); err != nil {
			return err
		}
	}
	for _, s := range some {
		b.console.Heading("%s", s.name)
		for pair := range b.pairs {
			if err := b.pair(ctx, clusters, s, pair); err != nil {
				return fmt.Errorf("measuring %s: %w", s.name, err)
			}
		}
	}
	return nil
}

// pair rolls once in every way.
func (b *bench) pair(ctx context.Context, clusters clusters, s scenario, pair int) error {
	order := slices.Clone(ways)
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
