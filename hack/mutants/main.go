// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command mutants breaks packages on purpose, one small change at a time, and reports the changes that no test notices
// (docs/adr/0034-all-mutants-in-one-binary.md).
//
//	go run ./hack/mutants ./internal/engine/queue ./internal/rollout/...
//
// Every mutant of the packages is compiled into their test binaries at once, and an environment variable selects the one that is
// active, so that a mutant costs a run of the tests and no build. Nothing in the tree is changed: the compiler reads the changed
// files from an overlay.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
)

func main() {
	var o options
	flag.Float64Var(&o.minimum, "min", 95, "fail if a lower percentage of the mutants of a package is killed, not counting those that are listed as equivalent")
	flag.StringVar(&o.equivalent, "equivalent", "hack/mutants/equivalent.txt", "the list of mutants that behave as the original does")
	flag.StringVar(&o.skip, "skip", "", "a regular expression of tests that are run only for mutants that survive all others")
	flag.BoolVar(&o.quick, "quick", false, "do not run the tests of -skip at all: the score is a lower bound then")
	flag.BoolVar(&o.reached, "reached", false, "run no mutants: those that the tests reach count as killed, and the score is an upper bound")
	flag.StringVar(&o.only, "only", "", "run only mutants whose description contains this")
	flag.IntVar(&o.from, "from", 1, "run only mutants from this number on: an interrupted run says which is next")
	flag.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "how many mutants run at a time")
	flag.Parse()
	o.patterns = flag.Args()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o, os.Stdout)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}
