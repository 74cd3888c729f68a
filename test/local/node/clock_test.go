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
	"runtime"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/internal/process"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
)

// tellTime has the test binary tell the time for ever, in many threads, instead of testing.
const tellTime = "NODE_TEST_TELL_TIME"

func TestMain(m *testing.M) {
	if os.Getenv(tellTime) == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	for range 4 {
		go func() {
			for {
				_ = time.Now()
			}
		}()
	}
	for ticker := time.NewTicker(10 * time.Millisecond); ; <-ticker.C {
		now := time.Now()
		if _, err := fmt.Println(now.Unix(), now.Sub(began).Milliseconds()); err != nil {
			os.Exit(0)
		}
	}
}

// The time of day is off and right again, and the monotonic clock does not notice, while threads ask for it without end.
func TestShiftClock(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("for amd64 only")
	}
	ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), tellTime+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	identity, err := process.Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p := Process{identity: identity, podUID: "test"}
	lines, elapsed := bufio.NewScanner(out), int64(0)
	// off waits until the process tells a time that is off by so much, within a minute.
	off := func(want time.Duration) {
		t.Helper()
		for lines.Scan() {
			var wall, ms int64
			if _, err := fmt.Sscan(lines.Text(), &wall, &ms); err != nil {
				t.Fatal(err)
			}
			if ms < elapsed || ms > elapsed+60_000 {
				t.Fatalf("the monotonic clock went from %d ms to %d ms", elapsed, ms)
			}
			elapsed = ms
			if (time.Until(time.Unix(wall, 0)) - want).Abs() < time.Minute {
				return
			}
		}
		t.Fatalf("it never told a time that is off by %s: %v", want, ctx.Err())
	}
	off(0)
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		undo, err := p.ShiftClock(ctx, by)
		if err != nil {
			t.Fatal(err)
		}
		off(by)
		if err := undo(ctx); err != nil {
			t.Fatal(err)
		}
		off(0)
	}
	if err := p.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ShiftClock(ctx, time.Hour); err == nil {
		t.Error("the clock of a process that has ended was shifted")
	}
}
