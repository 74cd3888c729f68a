// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/attack"
)

const (
	// copies is how many copies of backups the attacker has under way, and keyBytes the size of the key of a CA.
	copies, keyBytes = 100, 43 << 10
)

// underAttack measures the reactions for healthy Etcds for a while, and for as long again while an attacker keeps the operator busy.
func (b *bench) underAttack(ctx context.Context) error {
	size := attack.Size{ConfigMaps: b.configMaps, Copies: copies, KeyBytes: keyBytes}
	attacker, err := attack.New(ctx, b.env.Client, b.env.Config, b.env.Scheme, b.fleet, b.etcds, b.hanging, size)
	if err != nil {
		return err
	}
	b.results.Attack = &comparison{}
	err = b.console.Step("quiet", func(note func(string)) (string, error) {
		note("waiting until writes stop")
		if err := b.server.untilQuiet(ctx); err != nil {
			return "", err
		}
		b.results.Attack.Quiet, err = b.react(ctx, note)
		return fmt.Sprintf("%d reactions in %s", b.results.Attack.Quiet.count(), b.attack), err
	})
	if err != nil {
		return err
	}
	return b.console.Step("attacked", func(note func(string)) (string, error) {
		running, stop := context.WithCancel(ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			attacker.Run(running, strings.Split(b.means, ","))
		}()
		b.results.Attack.Attacked, err = b.react(ctx, note)
		stop()
		<-ended
		b.results.Attack.Means = attacker.Tallies()
		b.console.Line("%s", attacker)
		return fmt.Sprintf("%d reactions in %s", b.results.Attack.Attacked.count(), b.attack), err
	})
}

// react measures reactions for healthy Etcds, those that stay as they are and those that are rolled, until the time is over.
func (b *bench) react(ctx context.Context, note func(string)) (reactions, error) {
	watched := newWatched(b)
	before, err := b.count(ctx)
	if err != nil {
		return reactions{}, err
	}
	limited, cancel := context.WithTimeout(ctx, b.attack)
	defer cancel()
	watched.run(limited, note)
	if ctx.Err() != nil {
		return reactions{}, context.Cause(ctx)
	}
	after, err := b.count(ctx)
	if err != nil {
		return reactions{}, err
	}
	load := after.since(before)
	r := watched.reactions
	r.Load = &load
	return r, nil
}
