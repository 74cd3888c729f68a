// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/attack"
)

const (
	// copies is how many copies of backups the attacker has under way, and keyBytes the size of the key of a CA.
	copies, keyBytes = 100, 43 << 10
	// maxBegin is how long the creation of the attacker's objects is waited for.
	maxBegin = 10 * time.Minute
)

// underAttack measures the reactions for healthy Etcds for a while, then beside as many honest Etcds as will hang later, then while an attack
// begins, and for as long again while it goes on.
func (b *bench) underAttack(ctx context.Context) error {
	size := attack.Size{ConfigMaps: b.configMaps, Copies: copies, KeyBytes: keyBytes}
	attacker, err := attack.New(ctx, b.env.Client, b.env.Config, b.env.Scheme, b.fleet, b.etcds, b.hanging, size)
	if err != nil {
		return err
	}
	b.results.Attack = &comparison{Neighbors: b.hanging}
	if err := b.atRest(ctx, "quiet", &b.results.Attack.Quiet); err != nil {
		return err
	}
	err = b.console.Step(fmt.Sprintf("%d Etcds of another tenant", b.hanging), func(note func(string)) (string, error) {
		if err := attacker.Settle(ctx); err != nil {
			return "", err
		}
		ctx, cancel := context.WithTimeoutCause(ctx, makeTimeout, fmt.Errorf("not all are ready within %s", makeTimeout))
		defer cancel()
		return "", b.untilReady(ctx, b.etcds+b.hanging, note)
	})
	if err != nil {
		return err
	}
	if err := b.atRest(ctx, "beside an honest tenant", &b.results.Attack.Honest); err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	begun, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		attacker.Run(running, strings.Split(b.means, ","), func() { close(begun) })
	}()
	defer func() {
		stop()
		<-ended
		b.results.Attack.Means = attacker.Tallies()
		b.console.Line("%s", attacker)
	}()
	if err := b.react(ctx, "the attack begins", &b.results.Attack.Begins, begun); err != nil {
		return err
	}
	return b.react(ctx, "attacked", &b.results.Attack.Attacked, nil)
}

// atRest measures the reactions for the time of an attack, once nothing is written any more.
func (b *bench) atRest(ctx context.Context, name string, into *reactions) error {
	if err := b.console.Step("writes stop", func(func(string)) (string, error) { return "", b.server.untilQuiet(ctx) }); err != nil {
		return err
	}
	return b.react(ctx, name, into, nil)
}

// react measures reactions for healthy Etcds, those that stay as they are and those that are rolled, until something has happened, or
// else for the time of an attack.
func (b *bench) react(ctx context.Context, name string, into *reactions, until <-chan struct{}) error {
	return b.console.Step(name, func(note func(string)) (string, error) {
		watched, err := newWatched(b)
		if err != nil {
			return "", err
		}
		before, err := b.count(ctx)
		if err != nil {
			return "", err
		}
		limit := b.attack
		if until != nil {
			limit = maxBegin
		}
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		if until != nil {
			go func() {
				select {
				case <-until:
					cancel()
				case <-limited.Done():
				}
			}()
		}
		watched.run(limited, note)
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		after, err := b.count(ctx)
		if err != nil {
			return "", err
		}
		load := after.since(before)
		*into = watched.reactions
		into.Load = &load
		return fmt.Sprintf("%d reactions", into.count()), nil
	})
}
