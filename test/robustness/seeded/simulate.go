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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// simulation is the one of test/simulation, which is built with each bug, in a folder, and once without.
type simulation struct {
	source, folder string
	// seeds is how many are tried at most, from each of several starts, and within what time of the processor.
	seeds, starts int
	within        time.Duration
	// plain: the same is done with scripts that are drawn without a swarm, for comparison.
	plain bool
	// commit is of the source when it was copied: the checkout may have changed since, if only by results.
	commit string
}

// sound is the simulation without a bug: what it finds of a seed, too, was not found of the bug.
var sound = bug{Name: "sound"}

// hunt is what has become of one start: after how many seeds the bug was found, and what time of the processor, or that it was not.
type hunt struct {
	Seeds int           `json:"seeds"`
	Took  time.Duration `json:"took"`
	// As what it was found; empty if it was not.
	As string `json:"as,omitempty"`
}

// simulate builds the simulation with a bug, and returns after how many seeds it is found and after what time of the processor, each the median of all
// starts, and as what.
func (b bug) simulate(ctx context.Context, s simulation, results string) (found string, err error) {
	r := result{Bug: b.Name, Issue: b.Issue, Date: time.Now().UTC().Format(time.DateOnly), Commit: s.commit, Load: load(), Within: s.within, Modeled: b.Modeled}
	if b.Modeled != "" {
		return r.row(), r.record(results)
	}
	for _, build := range []bug{sound, b} {
		if err := build.buildSimulation(ctx, s); err != nil {
			return "", err
		}
	}
	if r.Swarm, err = b.hunts(ctx, s, ""); err != nil {
		return "", err
	}
	if s.plain {
		if r.Plain, err = b.hunts(ctx, s, "SIM_PLAIN=1"); err != nil {
			return "", err
		}
	}
	if err := r.record(results); err != nil {
		return "", err
	}
	found = r.row()
	if median(r.Swarm).As == "" {
		found += " " + notCaught
	}
	return found, nil
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

// median returns the hunt in the middle; those that found nothing are the longest.
func median(hunts []hunt) hunt {
	if len(hunts) == 0 {
		return hunt{}
	}
	sorted := slices.SortedFunc(slices.Values(hunts), func(a, b hunt) int {
		lost := func(h hunt) int { return len(h.As[:min(len(h.As), 1)]) }
		return cmp.Or(cmp.Compare(lost(b), lost(a)), cmp.Compare(a.Took, b.Took))
	})
	return sorted[len(sorted)/2]
}

// hunts looks for a bug from several starts at a time.
func (b bug) hunts(ctx context.Context, s simulation, how string) ([]hunt, error) {
	all, errs := make([]hunt, s.starts), make([]error, s.starts)
	var wait sync.WaitGroup
	for i := range all {
		wait.Go(func() { all[i], errs[i] = b.hunt(ctx, s, how, 1+i*s.seeds) })
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// hunt looks for a bug from a seed on. A seed that breaks something without the bug, too, is passed over.
func (b bug) hunt(ctx context.Context, s simulation, how string, first int) (hunt, error) {
	found := hunt{}
	for next := first; next < first+s.seeds && found.Took < s.within; {
		r, err := b.run(ctx, s, how, next, first+s.seeds-next, s.within-found.Took)
		if err != nil {
			return found, err
		}
		found.Took, found.Seeds = found.Took+r.took, r.last-first+1
		if r.broke == "" {
			return found, nil
		}
		without, err := bug{Name: sound.Name, Fleet: b.Fleet}.run(ctx, s, how, r.last, 1, s.within)
		if err != nil {
			return found, err
		}
		if without.broke == "" {
			found.As = fmt.Sprintf("%.120s", strings.ReplaceAll(r.broke, "|", "/"))
			return found, nil
		}
		fmt.Fprintf(os.Stderr, "seed %d breaks something without %q: %s\n", r.last, b.Name, without.broke)
		next = r.last + 1
	}
	return found, nil
}

// ran is what has become of some seeds: the last of them, and what it broke, if it did.
type ran struct {
	last  int
	broke string
	took  time.Duration
}

var (
	fails = regexp.MustCompile(`: seed (\d+): (.*)`)
	ends  = regexp.MustCompile(`: (\d+) seeds, `)
)

// run runs seeds from one on, until one of them breaks something.
func (b bug) run(ctx context.Context, s simulation, how string, first, seeds int, within time.Duration) (ran, error) {
	test := "-test.run=^TestSimulation$"
	if b.Fleet {
		test = "-test.run=^TestFleet$"
	}
	run := exec.CommandContext(ctx, s.binary(b), test, "-test.timeout=0", "-test.v")
	run.Dir = s.folder
	run.Env = append(os.Environ(), fmt.Sprintf("SIM_SEEDS=%d", seeds), fmt.Sprintf("SIM_FIRST=%d", first), "SIM_CPU="+within.String(), "TMPDIR="+run.Dir, how)
	out, failed := run.CombinedOutput()
	if ctx.Err() != nil {
		return ran{}, ctx.Err()
	}
	r := ran{took: run.ProcessState.UserTime() + run.ProcessState.SystemTime()}
	if m := fails.FindSubmatch(out); m != nil {
		r.last, _ = strconv.Atoi(string(m[1])) // it is a number
		r.broke = string(m[2])
		return r, nil
	}
	if m := ends.FindSubmatch(out); m != nil && failed == nil {
		n, _ := strconv.Atoi(string(m[1])) // it is a number
		r.last = first + n - 1
		return r, nil
	}
	return r, fmt.Errorf("the simulation failed otherwise: %w: %s", failed, out)
}

// commit returns the commit of the checkout, and load how busy the machine is.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
