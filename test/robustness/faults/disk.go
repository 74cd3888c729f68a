// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// syncing is how long a slow disk takes to have on it what etcd wrote.
const syncing = 400 * time.Millisecond

// slowDisks are strace's: it stops and continues the process at each system call, so they are not combined with signals.
func slowDisks() []Kind {
	return []Kind{
		{Name: "disk of a member slow", Longest: 40 * time.Second, by: bySignals, choose: anyMember, inject: slowDisk},
		{Name: "disks of all members slow", Longest: 40 * time.Second, by: bySignals, choose: allMembers, inject: slowDisk},
	}
}

// slowDisk delays the return of each fsync and fdatasync of members, also of those that start meanwhile.
func slowDisk(ctx context.Context, m *Machine, t target) (heal, error) {
	var delayed atomic.Int64
	stop := during(ctx, t.members, 200*time.Millisecond, func(ctx context.Context, member string) {
		if p, err := m.process(ctx, member); err == nil {
			_ = p.DelaySyncs(ctx, syncing, func() { delayed.Add(1) }) // without one there is no evidence
		}
	})
	return func(context.Context) (string, error) {
		stop()
		if delayed.Load() == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d calls of fsync and fdatasync returned %s late", delayed.Load(), syncing), nil
	}, nil
}
