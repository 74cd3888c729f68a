// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

type options struct {
	patterns         []string
	minimum          float64
	equivalent, skip string
	only             string
	quick, reached   bool
	from, parallel   int
}

// binary has the tests of one package.
type binary struct {
	name, path, dir string
	// took is the time of a run without a mutant, tookEach that of each test, and reached the tests that come by a mutant.
	took     time.Duration
	tookEach map[string]time.Duration
	reached  map[int][]string
}

// verdict on a mutant.
type verdict struct {
	mutant
	killedBy string
	// equivalent is why it behaves as the original does.
	equivalent string
	unreached  bool
	// unjudged: it is not among those that were asked for, or the run was interrupted.
	unjudged bool
	// timedOut: it is killed since a test did not end in time, which a busy machine does as well.
	timedOut bool
}

func run(ctx context.Context, o options, out io.Writer) error {
	if len(o.patterns) == 0 {
		return errors.New("name the packages to mutate")
	}
	equivalents, err := readEquivalents(o.equivalent)
	if err != nil {
		return err
	}
	packages, err := list(ctx, o.patterns...)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is temporary
	m, err := mutate(ctx, packages, dir)
	if err != nil {
		return err
	}
	binaries, err := build(ctx, m, packages, dir)
	if err != nil {
		return err
	}
	for i := range binaries {
		if err := binaries[i].record(ctx, dir, o.skip); err != nil {
			return err
		}
		say(out, "%s: the tests take %s and reach %d mutants\n", binaries[i].name, binaries[i].took.Round(time.Millisecond), len(binaries[i].reached))
	}
	verdicts := judge(ctx, o, m.mutants, binaries, equivalents)
	if ctx.Err() != nil {
		if next := slices.IndexFunc(verdicts, func(v verdict) bool { return v.id >= o.from && v.unjudged && strings.Contains(v.String(), o.only) }); next >= 0 {
			say(out, "interrupted: -from %d judges the rest\n", next+1)
		}
	}
	return errors.Join(ctx.Err(), report(out, o, verdicts, unmatched(equivalents, m.mutants, packages)))
}

// build compiles the tests of the packages with all mutants.
func build(ctx context.Context, m *mutation, packages []goPackage, dir string) ([]*binary, error) {
	var all []*binary
	for i, p := range packages {
		if !p.hasTests() {
			continue
		}
		b := &binary{name: p.ImportPath, path: filepath.Join(dir, fmt.Sprintf("%d.test", i)), dir: p.Dir}
		if _, err := goCommand(ctx, "test", "-c", "-vet=off", "-overlay", m.overlay, "-o", b.path, p.ImportPath); err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		return nil, errors.New("the packages have no tests")
	}
	return all, nil
}

// command runs the tests with an environment of its own. A test that hangs ends after a while.
func (b *binary) command(ctx context.Context, env string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, b.path, append([]string{"-test.failfast", "-test.timeout", "10m"}, args...)...)
	c.Dir, c.Env = b.dir, append(os.Environ(), env)
	return c
}

// record runs the tests without a mutant, but for those that are skipped: each alone, for the mutants that it reaches, and all together.
func (b *binary) record(ctx context.Context, dir, skip string) error {
	list, err := b.command(ctx, envActive+"=0", "-test.list", ".").Output()
	if err != nil {
		return fmt.Errorf("listing the tests of %s: %w", b.name, err)
	}
	var tests []string
	skipped, err := regexp.Compile(cmp.Or(skip, "^$"))
	if err != nil {
		return err
	}
	b.reached, b.tookEach = map[int][]string{}, map[string]time.Duration{}
	for _, test := range strings.Fields(string(list)) {
		if skipped.MatchString(test) {
			continue
		}
		tests = append(tests, test)
		if err := b.recordOne(ctx, filepath.Join(dir, "reached"), test); err != nil {
			return err
		}
	}
	begun := time.Now()
	if out, err := b.command(ctx, envActive+"=0", runOnly(tests)...).CombinedOutput(); err != nil {
		return fmt.Errorf("the tests of %s fail without a mutant: %w\n%s", b.name, err, out)
	}
	b.took = time.Since(begun)
	return nil
}

// recordOne notes which mutants a test reaches.
func (b *binary) recordOne(ctx context.Context, reached, test string) error {
	if err := os.WriteFile(reached, nil, 0o600); err != nil {
		return err
	}
	begun := time.Now()
	if out, err := b.command(ctx, envReached+"="+reached, runOnly([]string{test})...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s of %s fails without a mutant: %w\n%s", test, b.name, err, out)
	}
	b.tookEach[test] = time.Since(begun)
	content, err := os.ReadFile(reached)
	if err != nil {
		return err
	}
	for _, line := range strings.Fields(string(content)) {
		id, err := strconv.Atoi(line)
		if err != nil {
			return err
		}
		b.reached[id] = append(b.reached[id], test)
	}
	return nil
}

// runOnly returns the arguments that run some tests.
func runOnly(tests []string) []string {
	return []string{"-test.run", "^(" + strings.Join(tests, "|") + ")$"}
}

// judge runs the mutants that are asked for.
func judge(ctx context.Context, o options, mutants []mutant, binaries []*binary, equivalents map[string]string) []verdict {
	verdicts := make([]verdict, len(mutants))
	slots := make(chan struct{}, o.parallel)
	var all sync.WaitGroup
	for i, m := range mutants {
		verdicts[i] = verdict{mutant: m, equivalent: equivalents[m.key()]}
		slots <- struct{}{}
		if verdicts[i].unjudged = m.id < o.from || !strings.Contains(m.String(), o.only) || ctx.Err() != nil; verdicts[i].unjudged {
			<-slots
			continue
		}
		all.Go(func() {
			defer func() { <-slots }()
			kill(ctx, o, &verdicts[i], binaries)
			if verdicts[i].unjudged = ctx.Err() != nil; verdicts[i].killedBy == "" && !verdicts[i].unjudged {
				fmt.Fprintf(os.Stderr, "%d of %d survives: %s\n", i+1, len(mutants), m)
			}
		})
	}
	all.Wait()
	return verdicts
}

// kill determines the package whose tests notice a mutant.
func kill(ctx context.Context, o options, v *verdict, binaries []*binary) {
	near := slices.SortedStableFunc(slices.Values(binaries), func(a, b *binary) int {
		return cmp.Compare(distance(a, v.mutant), distance(b, v.mutant))
	})
	v.unreached = true
	for _, b := range near {
		for _, tests := range b.swiftFirst(b.reached[v.id]) {
			if v.unreached = false; o.reached {
				v.killedBy = "nothing: not run"
			} else {
				v.run(ctx, b, append(runOnly(tests), "-test.timeout", b.timeout(tests).String())...)
			}
			if v.killedBy != "" {
				return
			}
		}
	}
	for _, b := range near {
		// What the skipped tests reach is not recorded.
		if v.killedBy == "" && o.skip != "" && !o.quick {
			if v.unreached = false; o.reached {
				v.killedBy = "nothing: not run"
				return
			}
			v.run(ctx, b, "-test.run", o.skip, "-test.timeout", "30m")
		}
	}
}

// run runs tests with a mutant.
func (v *verdict) run(ctx context.Context, b *binary, args ...string) {
	if out, err := b.command(ctx, fmt.Sprintf("%s=%d", envActive, v.id), args...).CombinedOutput(); err != nil {
		v.killedBy, v.timedOut = b.name, bytes.Contains(out, []byte("panic: test timed out"))
	}
}

// timeout is ten times what tests take, which is long for a mutant that hangs and not for a machine that is busy.
func (b *binary) timeout(tests []string) time.Duration {
	timeout := 20 * time.Second
	for _, test := range tests {
		timeout += 10 * b.tookEach[test]
	}
	return timeout
}

// swiftFirst parts tests: those that together take an eighth of the time come first, since most mutants are killed by them.
func (b *binary) swiftFirst(tests []string) (parts [][]string) {
	sorted := slices.SortedStableFunc(slices.Values(tests), func(a, c string) int { return cmp.Compare(b.tookEach[a], b.tookEach[c]) })
	var all, sum time.Duration
	for _, test := range sorted {
		all += b.tookEach[test]
	}
	n := 0
	for n < len(sorted) && (sum+b.tookEach[sorted[n]])*8 <= all {
		sum += b.tookEach[sorted[n]]
		n++
	}
	for _, part := range [][]string{sorted[:n], sorted[n:]} {
		if len(part) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// distance is 0 for the package that a mutant is in.
func distance(b *binary, m mutant) int {
	if strings.HasSuffix(b.name, path.Dir(m.file)) {
		return 0
	}
	return 1
}
