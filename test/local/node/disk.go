// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// detachPatience bounds how long strace may take to let go of a process.
const detachPatience = 5 * time.Second

// DelaySyncs lets each fsync and fdatasync of the process return late, as on a slow disk, until it or the context ends, and calls
// something for each. It is done by strace, which stops and continues the process at each system call.
func (p Process) DelaySyncs(ctx context.Context, by time.Duration, delayed func()) error {
	const calls = "fsync,fdatasync"
	cmd := exec.CommandContext(ctx, "strace", "--quiet=all", "--follow-forks", "--attach="+strconv.Itoa(p.PID()), "--trace="+calls,
		fmt.Sprintf("--inject=%s:delay_exit=%d", calls, by.Microseconds()))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = detachPatience
	lines, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("delaying what %s syncs: %w", p, err)
	}
	for s := bufio.NewScanner(lines); s.Scan(); {
		if strings.Contains(s.Text(), "(DELAYED)") {
			delayed()
		}
	}
	_ = cmd.Wait() // it was interrupted, or its process has ended
	return nil
}
