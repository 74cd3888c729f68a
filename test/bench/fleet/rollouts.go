// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/poll"
	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/simulated"
)

// rolloutTimeout is for all rollouts together.
const rolloutTimeout = 10 * time.Minute

// rolled is a finished rollout.
type rolled struct {
	// reaction is the time from the change of the Etcd until its first pod was deleted.
	reaction time.Duration
	// gaps are the times from a pod being ready until the next was deleted.
	gaps []time.Duration
	// took is the time from the change until the last pod was ready.
	took time.Duration
}

// rollouts are concurrent rollouts and the load during them.
type rollouts struct {
	each []rolled
	load Load
}

func (r *rollouts) slowest() time.Duration {
	var most time.Duration
	for _, one := range r.each {
		most = max(most, one.took)
	}
	return most
}

// gaps returns the gaps of all rollouts, the shortest first.
func (r *rollouts) gaps() []time.Duration {
	var gaps []time.Duration
	for _, one := range r.each {
		gaps = append(gaps, one.gaps...)
	}
	slices.Sort(gaps)
	return gaps
}

// reactions returns the reactions of all rollouts, the fastest first.
func (r *rollouts) reactions() []time.Duration {
	var some []time.Duration
	for _, one := range r.each {
		some = append(some, one.reaction)
	}
	slices.Sort(some)
	return some
}

// read returns a rollout from the recorded entries; false until the rollout has ended.
func read(changed time.Time, recorded []simulated.Entry) (rolled, bool) {
	var r rolled
	ready := 0
	for i, e := range recorded {
		switch {
		case e.Ready:
			ready++
			r.took = e.At.Sub(changed)
		case i == 0:
			r.reaction = e.At.Sub(changed)
		default:
			r.gaps = append(r.gaps, e.At.Sub(recorded[i-1].At))
		}
	}
	return r, ready == simulated.Members
}

// untilRolled waits until every pod of some Etcds has been replaced.
func (b *bench) untilRolled(ctx context.Context, from time.Time, etcds ...int) error {
	return b.until(ctx, func(i int) bool {
		_, ended := read(from, b.kubelet.Since(i, from))
		return ended
	}, etcds)
}

// until waits until a condition holds for each of some Etcds.
func (b *bench) until(ctx context.Context, is func(etcd int) bool, etcds []int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, rolloutTimeout, fmt.Errorf("not all rollouts have finished within %s", rolloutTimeout))
	defer cancel()
	return poll.Until(ctx, 100*time.Millisecond, func() (bool, error) {
		for _, i := range etcds {
			if !is(i) {
				return false, nil
			}
		}
		return true, nil
	})
}

// roll changes some Etcds and returns their rollouts and the load during them.
func (b *bench) roll(ctx context.Context, etcds ...int) (*rollouts, error) {
	if err := b.server.untilQuiet(ctx); err != nil {
		return nil, err
	}
	before, err := b.count(ctx)
	if err != nil {
		return nil, err
	}
	b.profile(ctx, fmt.Sprintf("rollouts-%d-cpu", len(etcds)), cpuProfile)
	b.profileServer(ctx, fmt.Sprintf("rollouts-%d-server-cpu", len(etcds)), cpuProfile)
	from, changed, seen, err := b.rollWatched(ctx, etcds)
	if err != nil {
		return nil, err
	}
	after, err := b.count(ctx)
	if err != nil {
		return nil, err
	}
	all := &rollouts{load: after.since(before)}
	all.load.Workers = seen
	for _, i := range etcds {
		r, _ := read(changed[i], b.kubelet.Since(i, from))
		all.each = append(all.each, r)
	}
	return all, nil
}

// rollWatched changes some Etcds and waits until they are rolled. It returns when it began, when it changed each, and how
// many workers were busy.
func (b *bench) rollWatched(ctx context.Context, etcds []int) (from time.Time, changed map[int]time.Time, seen map[string]Workers, err error) {
	stop := b.watchWorkers(ctx)
	defer func() { seen = stop() }()
	changed = map[int]time.Time{}
	from = time.Now()
	for _, i := range etcds {
		changed[i] = time.Now()
		if err := b.change(ctx, i); err != nil {
			return from, nil, nil, err
		}
		sleep(ctx, b.spread/time.Duration(len(etcds))-time.Since(changed[i]))
	}
	return from, changed, nil, b.untilRolled(ctx, from, etcds...)
}

// rollOne rolls one Etcd while nothing else happens: the baseline for concurrent rollouts.
func (b *bench) rollOne(ctx context.Context) error {
	return b.console.Step("one rollout", func(func(string)) (string, error) {
		one, err := b.roll(ctx, alone)
		if err != nil {
			return "", err
		}
		b.results.alone = one
		return fmt.Sprintf("%.1f s", one.slowest().Seconds()), nil
	})
}

// rollMany rolls many at the same time, while further rollouts are blocked by members that hang.
func (b *bench) rollMany(ctx context.Context) error {
	return b.console.Step(fmt.Sprintf("%d rollouts at once", b.rollouts), func(note func(string)) (string, error) {
		var etcds, held []int
		for i := range b.rollouts {
			etcds = append(etcds, firstOfMany+i)
		}
		for i := range b.hung {
			held = append(held, firstOfMany+b.rollouts+i)
		}
		note(fmt.Sprintf("%d further rollouts start and are blocked", b.hung))
		if err := b.hold(ctx, held); err != nil {
			return "", err
		}
		all, err := b.roll(ctx, etcds...)
		if err != nil {
			return "", err
		}
		b.results.many = all
		// The blocked rollouts finish, too.
		from := time.Now()
		b.fleet.Hang(false, held...)
		if err := b.untilServing(ctx, from, held); err != nil {
			return "", err
		}
		return fmt.Sprintf("slowest %.1f s; %d others were blocked", all.slowest().Seconds(), b.hung), nil
	})
}

// hold starts rollouts that get blocked: member 0 hangs, and so does its replacement.
func (b *bench) hold(ctx context.Context, etcds []int) error {
	from := time.Now()
	b.fleet.Hang(true, etcds...)
	for _, i := range etcds {
		if err := b.kubelet.Touch(ctx, i, 0); err != nil {
			return fmt.Errorf("making a member of Etcd %d hang: %w", i, err)
		}
		if err := b.change(ctx, i); err != nil {
			return err
		}
	}
	return b.until(ctx, func(i int) bool { return len(b.kubelet.Since(i, from)) > 0 }, etcds)
}

// untilServing waits until the two remaining members have been replaced, too.
func (b *bench) untilServing(ctx context.Context, from time.Time, etcds []int) error {
	return b.until(ctx, func(i int) bool {
		ready := 0
		for _, e := range b.kubelet.Since(i, from) {
			if e.Ready {
				ready++
			}
		}
		return ready == simulated.Members
	}, etcds)
}
