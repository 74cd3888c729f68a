// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/view"
)

const (
	// missed is how many entries a member misses before it is connected again: two and a half times as many as a member may lack
	// that counts. One that has not missed them after the longest time is connected nevertheless.
	missed  = 12_500
	missing = 45 * time.Second
	// unnoticed is how long it misses entries at least: until probes of others, which fail meanwhile, have been noticed.
	unnoticed = 22 * time.Second
	// slowLine are the packets that are lost on the line by which it catches up.
	slowLine = "limit rate over 100 kbytes/second burst 100 kbytes"
	// writers write them, with writePatience for each entry. Their keys are few, and no client of the test has them.
	writers       = 32
	writePatience = 2 * time.Second
	backlog       = "backlog/"
)

func behind() []Kind {
	return []Kind{{Name: "member far behind catches up slowly", Longest: 45 * time.Second, choose: anyMember, inject: fallBehind}}
}

// fallBehind cuts a member off from the others while a lot is written, and connects it by a slow line.
func fallBehind(ctx context.Context, m *Machine, t target) (heal, error) {
	connect, err := isolate(ctx, m, t)
	if err != nil {
		return nil, err
	}
	var written atomic.Int64
	stop := m.write(ctx, &written)
	for began := time.Now(); time.Since(began) < missing && (written.Load() < missed || time.Since(began) < unnoticed); {
		if !wait(ctx, 100*time.Millisecond) {
			break
		}
	}
	stop()
	var others []pair
	for _, p := range m.apart(t.members[0]) {
		if p.to == t.members[0] {
			others = append(others, p)
		}
	}
	lacks := m.lag(ctx, t.members[0])
	slow, err := m.dropSome(ctx, others, slowLine)
	cut, failed := connect(context.WithoutCancel(ctx))
	if err != nil {
		return nil, errors.Join(err, failed)
	}
	return func(ctx context.Context) (string, error) {
		evidence, err := slow(ctx)
		err = errors.Join(err, failed)
		if cut == "" || evidence == "" || lacks < missed {
			return "", err
		}
		return fmt.Sprintf("%s lacked %d entries when %s, and then %s", t.name, lacks, cut, evidence), err
	}, nil
}

// lag returns how many entries a member lacks that another knows to be committed; 0 if it does not answer.
func (m *Machine) lag(ctx context.Context, member string) int {
	applied, committed := 0, 0
	for _, pod := range m.Roster.Pods() {
		etcd, err := view.Dial(pod.Address())
		if err != nil {
			continue
		}
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), writePatience)
		status, err := etcd.Status(asking, pod.Address())
		cancel()
		_ = etcd.Close()
		switch {
		case err != nil:
		case pod.Name == member:
			applied = int(status.RaftAppliedIndex)
		default:
			committed = max(committed, int(status.RaftIndex))
		}
	}
	if applied == 0 {
		return 0
	}
	return committed - applied
}

// write has many clients write to the cluster, and counts what is acknowledged, until it is stopped.
func (m *Machine) write(ctx context.Context, acknowledged *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				if pods := m.Roster.Pods(); len(pods) > 0 {
					writeTo(ctx, pods[n%len(pods)], fmt.Sprintf("%s%d", backlog, i), acknowledged)
				}
				wait(ctx, 100*time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// writeTo writes to a member as long as it answers.
func writeTo(ctx context.Context, pod view.Pod, key string, acknowledged *atomic.Int64) {
	etcd, err := view.Dial(pod.Address())
	if err != nil {
		return
	}
	defer etcd.Close() //nolint:errcheck // it is not used any more
	for {
		writing, cancel := context.WithTimeout(ctx, writePatience)
		_, err := etcd.Put(writing, key, time.Now().String())
		cancel()
		if err != nil {
			return
		}
		acknowledged.Add(1)
	}
}
