// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command seeded checks that the robustness test sees: it builds variants of the operator that each have a bug, from a copy
// of the source, and expects the test to fail with each. "make robustness-seeded" runs it, on the local Kubernetes.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/report"
)

func main() {
	only := flag.String("only", "", "names of bugs, separated by commas; all if empty")
	length := flag.Duration("length", 0, "of the run with each bug; its own if 0")
	keep := flag.String("keep", "", "a folder in which the variants of the operator, or of the simulation, are kept; those that are there are not built again")
	buildOnly := flag.Bool("build", false, "build the variants, and do not run them")
	simulate := flag.Int("simulate", 0, "look for the bugs with so many seeds of the simulation, and not on the local Kubernetes")
	starts := flag.Int("starts", 1, "simulate from so many first seeds, and print the medians")
	within := flag.Duration("within", 10*time.Minute, "simulate for so long at most, in time of the processor, from each first seed")
	write := flag.Bool("page", false, "write the page of what was simulated, and nothing else")
	plain := flag.Bool("plain", false, "simulate without a swarm as well, and print both")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, options{*only, length.String(), *keep, *buildOnly, *simulate, *starts, *within, *plain, *write})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

type options struct {
	only, length, keep string
	buildOnly          bool
	// simulate is the number of seeds; 0 for the local Kubernetes.
	simulate int
	// starts, within and plain are those of the simulation.
	starts int
	within time.Duration
	plain  bool
	// page is written, and nothing else is done.
	page bool
}

func run(ctx context.Context, o options) error {
	root, err := checkout(ctx)
	if err != nil {
		return err
	}
	if o.page {
		return page(root)
	}
	temporary, err := os.MkdirTemp("", "seeded-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary) //nolint:errcheck // a temporary folder
	if o.keep == "" {
		o.keep = filepath.Join(temporary, "built")
	}
	copied, of := filepath.Join(temporary, "source"), commit(ctx)
	if err := copySource(ctx, root, copied); err != nil {
		return err
	}
	missed, err := tryThem(ctx, o, root, copied, of)
	if err != nil {
		return err
	}
	if len(missed) > 0 {
		return fmt.Errorf("not caught: %s", strings.Join(missed, ", "))
	}
	return nil
}

// tryThem tries the bugs in a copy of a commit with the simulation, or on the local Kubernetes, and returns the names of those that were not caught.
func tryThem(ctx context.Context, o options, root, copied, of string) ([]string, error) {
	if o.simulate > 0 {
		fmt.Printf("| bug | found by | plain | as | measured |\n|%s\n", strings.Repeat("---|", 5))
		if err := os.MkdirAll(o.keep, 0o755); err != nil {
			return nil, err
		}
		s := simulation{copied, o.keep, o.simulate, o.starts, o.within, o.plain, of}
		missed, err := tryAll(ctx, slices.Concat(bugs, defects), o, func(b bug) (string, error) {
			return b.simulate(ctx, s, filepath.Join(root, resultsFile))
		})
		return missed, errors.Join(err, page(root))
	}
	programs, err := buildPrograms(ctx, root, o.keep)
	if err != nil {
		return nil, err
	}
	missed, err := tryAll(ctx, bugs, o, func(b bug) (string, error) {
		built := filepath.Join(o.keep, strings.ReplaceAll(b.Name, " ", "-"))
		if err := b.build(ctx, copied, built); err != nil || o.buildOnly {
			return "built only", err
		}
		return b.try(ctx, root, programs, built, o.length)
	})
	if err != nil || o.buildOnly {
		return missed, err
	}
	return missed, deploy(ctx, root, programs, root)
}

// tryAll tries those bugs that are asked for, and returns the names of those that were not caught.
func tryAll(ctx context.Context, bugs []bug, o options, try func(bug) (found string, err error)) ([]string, error) {
	var missed []string
	for _, b := range bugs {
		if o.only != "" && !strings.Contains(","+o.only+",", ","+b.Name+",") { // some names have commas
			continue
		}
		found, err := try(b)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			found = ""
			fmt.Fprintf(os.Stderr, "trying %q: %v\n", b.Name, err)
		}
		fmt.Printf(o.row(), b.Name, cmp.Or(found, notCaught))
		if found == "" || strings.HasSuffix(found, notCaught) {
			missed = append(missed, b.Name)
		}
	}
	return missed, nil
}

// row is how what became of a bug is printed: a table for docs/robustness.md, if it is put to the simulation.
func (o options) row() string {
	if o.simulate > 0 {
		return "| %s | %s |\n"
	}
	return "BUG %-55s %s\n"
}

// build builds the operator with the bug, in FOLDER/.local/bin as in a checkout.
func (b bug) build(ctx context.Context, source, folder string) error {
	binary := filepath.Join(folder, ".local/bin/etcd-foreman")
	if _, err := os.Stat(binary); err == nil {
		return nil
	}
	undo, err := b.seed(source)
	if err != nil {
		return err
	}
	defer undo()
	cmd := command(ctx, source, "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-buildvcs=false", "-o", binary, "./cmd/etcd-foreman")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building the operator with %q: %w", b.Name, err)
	}
	return nil
}

// buildPrograms builds the test and the local Kubernetes' program once, and returns their folder.
func buildPrograms(ctx context.Context, root, keep string) (string, error) {
	folder := filepath.Join(keep, "programs")
	if _, err := os.Stat(filepath.Join(folder, "robustness")); err == nil {
		return folder, nil
	}
	cmd := command(ctx, root, "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-o", folder+"/", "./test/robustness", "./test/local")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building the test: %w", err)
	}
	return folder, nil
}

// patience is how long an operation may take, unless the bug says otherwise.
const patience = 70 * time.Second

// flags are those of the run with the bug; its length is the bug's own if it is 0.
func (b bug) flags(length, results string) []string {
	if length == "0s" {
		length = b.Length.String()
	}
	flags := []string{
		"-seed=1", "-length=" + length, "-patience=" + cmp.Or(b.Patience, patience).String(), "-after=" + b.After.String(), "-bug=" + b.Name,
		"-operations=" + b.Operations, "-results=" + results,
	}
	if b.Members != 0 {
		flags = append(flags, fmt.Sprintf("-members=%d", b.Members))
	}
	if b.Faults == "" {
		return append(flags, "-most-faults=0")
	}
	return append(flags, "-faults="+b.Faults, fmt.Sprintf("-most-faults=%d", 1+strings.Count(b.Faults, ",")), "-always", "-longest")
}

// try runs the test against the operator with the bug, and returns what it has found: unsafe acts or illegal histories. That an
// operation does not end is no proof, because it might be due to the machine.
func (b bug) try(ctx context.Context, root, programs, built, length string) (found string, err error) {
	if err := deploy(ctx, root, programs, built); err != nil {
		return "", err
	}
	results := filepath.Join(programs, "results.json")
	before, err := report.ReadTotals(results)
	if err != nil {
		return "", err
	}
	failed := command(ctx, root, filepath.Join(programs, "robustness"), b.flags(length, results)...).Run()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	after, err := report.ReadTotals(results)
	switch {
	case err != nil:
		return "", err
	case len(after) == len(before):
		return "", fmt.Errorf("the run has no result: %w", failed)
	}
	last := after[len(after)-1]
	if unsafe := last.Verdicts[string(oracle.Unsafe)]; unsafe+last.Illegal > 0 {
		found = fmt.Sprintf("%d unsafe acts, %d illegal histories", unsafe, last.Illegal)
	}
	return found, nil
}

// deploy runs the operator that was built in a source tree.
func deploy(ctx context.Context, root, programs, built string) error {
	return command(ctx, root, filepath.Join(programs, "local"), "operator", built).Run()
}

func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, os.Stdout, os.Stderr
	return cmd
}

func checkout(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// copySource copies what git knows of.
func copySource(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "git", "-C", from, "ls-files", "-z").Output()
	if err != nil {
		return fmt.Errorf("listing the source: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		if !strings.HasSuffix(name, ".go") && !strings.HasPrefix(filepath.Base(name), "go.") && !strings.HasPrefix(name, "cmd/") && !strings.HasPrefix(name, "internal/") {
			continue
		}
		if err := copyFile(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			return fmt.Errorf("copying the source: %w", err)
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil // it was deleted and is not committed
	}
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it is only read
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
