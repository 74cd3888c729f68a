// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"fmt"
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
	var delayed tally
	stop := during(ctx, t.members, 200*time.Millisecond, func(ctx context.Context, member string) {
		if p, err := m.process(ctx, member); err == nil {
			_ = p.DelaySyncs(ctx, syncing, func() { delayed.add(member) }) // without one there is no evidence
		}
	})
	return func(context.Context) (string, error) {
		stop()
		return delayed.evidence(t.members, fmt.Sprintf("fsync or fdatasync returned %s late", syncing)), nil
	}, nil
}
