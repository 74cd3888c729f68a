// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
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
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var delayed atomic.Int64
	var all sync.WaitGroup
	for _, member := range t.members {
		all.Go(func() {
			for ctx.Err() == nil {
				if p, err := m.process(ctx, member); err == nil {
					delaySyncs(ctx, p, &delayed)
				}
				wait(ctx, 200*time.Millisecond)
			}
		})
	}
	return func(context.Context) (string, error) {
		cancel()
		all.Wait()
		if delayed.Load() == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d calls of fsync and fdatasync returned %s late", delayed.Load(), syncing), nil
	}, nil
}

// delaySyncs delays those of one process until it or the context ends. strace ends with the process, and lets go of it when
// it is interrupted.
func delaySyncs(ctx context.Context, p node.Process, delayed *atomic.Int64) {
	const calls = "fsync,fdatasync"
	cmd := exec.CommandContext(ctx, "strace", "--quiet=all", "--follow-forks", "--attach="+strconv.Itoa(p.PID()), "--trace="+calls,
		fmt.Sprintf("--inject=%s:delay_exit=%d", calls, syncing.Microseconds()))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	lines, err := cmd.StderrPipe()
	if err != nil || cmd.Start() != nil {
		return
	}
	for s := bufio.NewScanner(lines); s.Scan(); {
		if strings.Contains(s.Text(), "(DELAYED)") {
			delayed.Add(1)
		}
	}
	_ = cmd.Wait() // it was interrupted, or its process has ended
}
