// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// simulation is the one of test/simulation, which is built with each bug, in a folder.
type simulation struct {
	source, folder string
	// seeds is how many are tried, from each of several starts.
	seeds, starts int
	// plain: the same is done with scripts that are drawn without a swarm, for comparison.
	plain bool
}

// hunt is what has become of one start: after how many seeds the bug was found, and what time of the processor; more than there are if it was not.
type hunt struct {
	seeds int
	took  time.Duration
	as    string
}

// simulate builds the simulation with a bug, and returns after how many seeds it is found and after what time of the processor, each the median of all
// starts, and as what.
func (b bug) simulate(ctx context.Context, s simulation) (found string, err error) {
	if err := b.buildSimulation(ctx, s); err != nil {
		return "", err
	}
	swarm, err := b.hunt(ctx, s, "")
	if err != nil {
		return "", err
	}
	found = s.row(swarm)
	if s.plain {
		plain, err := b.hunt(ctx, s, "SIM_PLAIN=1")
		if err != nil {
			return "", err
		}
		found += " | " + s.row(plain)
	}
	return found + " | " + cmp.Or(swarm.as, notCaught), nil
}

// buildSimulation builds the simulation with the bug, unless that was done before.
func (b bug) buildSimulation(ctx context.Context, s simulation) error {
	if _, err := os.Stat(s.binary(b)); err == nil {
		return nil
	}
	undo, err := b.seed(s.source)
	if err != nil {
		return err
	}
	defer undo()
	cmd := command(ctx, s.source, "go", "test", "-c", "-vet=off", "-trimpath", "-gcflags=all=-dwarf=false", "-o", s.binary(b), "./test/simulation")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building the simulation with %q: %w", b.Name, err)
	}
	return nil
}

func (s simulation) binary(b bug) string {
	return filepath.Join(s.folder, strings.ReplaceAll(b.Name, " ", "-")+".test")
}

// notCaught is what is printed of a bug that was not.
const notCaught = "NOT CAUGHT"

// row is what a table has of the median of some hunts.
func (s simulation) row(h hunt) string {
	if h.seeds > s.seeds {
		return fmt.Sprintf("not in %d | %s", s.seeds, h.took.Round(time.Second))
	}
	return fmt.Sprintf("%d | %s", h.seeds, h.took.Round(time.Second))
}

// hunt looks for a bug from several starts, and returns the median of what has become of them.
func (b bug) hunt(ctx context.Context, s simulation, how string) (hunt, error) {
	all := make([]hunt, s.starts)
	for i := range all {
		var err error
		if all[i], err = b.start(ctx, s, how, 1+i*s.seeds); err != nil {
			return hunt{}, err
		}
	}
	slices.SortFunc(all, func(a, b hunt) int { return cmp.Or(cmp.Compare(a.seeds, b.seeds), cmp.Compare(a.took, b.took)) })
	return all[len(all)/2], nil
}

// start looks for a bug from a seed on.
func (b bug) start(ctx context.Context, s simulation, how string, first int) (hunt, error) {
	test := "-test.run=^TestSimulation$"
	if b.Fleet {
		test = "-test.run=^TestFleet$"
	}
	run := exec.CommandContext(ctx, s.binary(b), test, "-test.timeout=0")
	run.Dir = s.folder
	run.Env = append(os.Environ(), fmt.Sprintf("SIM_SEEDS=%d", s.seeds), fmt.Sprintf("SIM_FIRST=%d", first), "TMPDIR="+run.Dir, how)
	out, failed := run.CombinedOutput()
	if ctx.Err() != nil {
		return hunt{}, ctx.Err()
	}
	took := run.ProcessState.UserTime() + run.ProcessState.SystemTime()
	if failed == nil {
		return hunt{seeds: s.seeds + 1, took: took}, nil
	}
	for line := range strings.Lines(string(out)) {
		if _, says, ok := strings.Cut(line, ": seed "); ok {
			seed, what, _ := strings.Cut(strings.TrimSpace(says), ": ")
			if n, err := strconv.Atoi(seed); err == nil {
				return hunt{n - first + 1, took, fmt.Sprintf("%.120s", what)}, nil
			}
		}
	}
	return hunt{}, fmt.Errorf("the simulation failed otherwise: %w: %s", failed, out)
}
