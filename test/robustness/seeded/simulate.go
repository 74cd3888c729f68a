// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// simulation is the one of test/simulation, built with a bug.
type simulation struct {
	source, binary string
	seeds          int
}

// simulate builds the simulation with a bug, and returns which seed has found it, after what time of the processor, and as what; empty if none has.
func (b bug) simulate(ctx context.Context, s simulation) (found string, err error) {
	undo, err := b.seed(s.source)
	if err != nil {
		return "", err
	}
	defer undo()
	cmd := command(ctx, s.source, "go", "test", "-c", "-vet=off", "-trimpath", "-gcflags=all=-dwarf=false", "-o", s.binary, "./test/simulation")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building the simulation with %q: %w", b.Name, err)
	}
	test := "-test.run=TestSimulation"
	if b.Fleet {
		test = "-test.run=TestFleet"
	}
	run := exec.CommandContext(ctx, s.binary, test, "-test.timeout=0")
	run.Dir = filepath.Dir(s.binary)
	run.Env = append(os.Environ(), fmt.Sprintf("SIM_SEEDS=%d", s.seeds), "TMPDIR="+run.Dir)
	out, failed := run.CombinedOutput()
	if failed == nil || ctx.Err() != nil {
		return "", ctx.Err()
	}
	for line := range strings.Lines(string(out)) {
		if _, says, ok := strings.Cut(line, ": seed "); ok {
			seed, what, _ := strings.Cut(strings.TrimSpace(says), ": ")
			return fmt.Sprintf("seed %s | %s | %.120s", seed, run.ProcessState.UserTime().Round(time.Second), what), nil
		}
	}
	return "", fmt.Errorf("the simulation failed otherwise: %w: %s", failed, out)
}
