// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/traffic"
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
	stop := traffic.Flood(ctx, m.Roster, &written)
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
	lacks := m.Roster.Lag(ctx, t.members[0])
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
