// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package killed kills a process at each of its system calls that change files, one run after another: what it leaves behind is what a
// process leaves behind that the kernel or the kubelet kills. The calls are those that the process makes, in libraries too, so none can
// be forgotten.
package killed

import (
	"errors"
	"flag"
	"os/exec"
	"testing"
)

// errUnsupported: processes are traced on Linux with amd64 alone.
var errUnsupported = errors.New("not supported on this machine")

// Every says which calls a command is killed at: each n-th, and of those that only write to a file, which are many, each n-th of each m-th.
type Every struct{ Call, Plain int }

var killAll = flag.Bool("kill-all", false, "kill the agent at each of its writes, not only at some")

// Some are as many calls as a test takes time for, or all if it is run with -kill-all.
func Some() Every {
	if *killAll {
		return Every{Call: 1, Plain: 1}
	}
	return Every{Call: 9, Plain: 5}
}

// AtEachWrite starts a command again and again, and kills it before its first, second, ... call that changes files, until it ends by itself.
// After each run, judge looks at what is left, and puts it back to where it was; call is empty for the run that ended. It returns the number of kills.
func AtEachWrite(t *testing.T, every Every, start func() *exec.Cmd, judge func(call string)) (kills int) {
	t.Helper()
	for at := 1; ; at += every.Call {
		call, err := run(start(), at, every.Plain)
		switch {
		case errors.Is(err, errUnsupported):
			t.Skip(err)
		case err != nil:
			t.Fatalf("kill %d: %v", at, err)
		}
		judge(call)
		if t.Failed() {
			t.Fatalf("killed before call %d, %s", at, call)
		}
		if call == "" {
			return kills
		}
		kills++
	}
}
