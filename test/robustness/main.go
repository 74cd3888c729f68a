// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Command robustness asks the operator for one operation after another on an etcd cluster of the local Kubernetes, while
// clients use the cluster and faults are injected, and judges what happened: whether the clients' history is one that etcd
// may have, and whether anything that the operator did could have cost the quorum. docs/robustness.md describes it.
//
//	go run ./test/robustness                 15 minutes, with choices of its own
//	go run ./test/robustness -seed 7         the choices of seed 7
//	go run ./test/robustness -judge FOLDER   judges the records of a run again
//
// It needs root, and "make up" first; "make robustness" does both.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/judge"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/operations"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/report"
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// options are the command line.
type options struct {
	length     time.Duration
	patience   time.Duration
	after      time.Duration
	seed       uint64
	members    int
	most       int
	operations string
	faultKinds string
	results    string
	judge      string
	bug        string
	commit     string
	page       bool
	always     bool
	longest    bool
}

func main() {
	log.SetLogger(logr.Discard())
	var o options
	flag.DurationVar(&o.length, "length", 15*time.Minute, "how long new operations are begun")
	flag.DurationVar(&o.patience, "patience", 6*time.Minute, "how long an operation may take; grace periods, backoffs and faults add up to minutes")
	flag.DurationVar(&o.after, "after", 0, "how long after its first fault an operation begins; chosen by the seed if 0")
	flag.Uint64Var(&o.seed, "seed", 0, "of all choices; 0 for a new one")
	flag.IntVar(&o.members, "members", 3, "of the etcd cluster")
	flag.IntVar(&o.most, "most-faults", 3, "during one operation")
	flag.StringVar(&o.operations, "operations", "", "separated by commas; all if empty")
	flag.StringVar(&o.faultKinds, "faults", "", "separated by commas; all if empty")
	flag.StringVar(&o.results, "results", "", "the file that totals are added to; .local/robustness/results.json if empty")
	flag.StringVar(&o.judge, "judge", "", "the folder of a run that is judged again, instead of a new one; -results adds it to totals")
	flag.StringVar(&o.bug, "bug", "", "the name of the seeded bug in the operator, for the report")
	flag.StringVar(&o.commit, "commit", "", "of the operator that runs, for the report; if empty, the one that this program was built from, or that of the checkout with go run")
	flag.BoolVar(&o.page, "page", false, "write the page of the recorded totals, docs/robustness-results.md, instead of a run")
	flag.BoolVar(&o.always, "always", false, "inject as many faults as -most-faults allows during each operation")
	flag.BoolVar(&o.longest, "longest", false, "faults last as long as they may")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if o.judge != "" {
		return conclude(o.judge, o.results)
	}
	if o.page {
		return writePage()
	}
	if os.Geteuid() != 0 {
		return errors.New("freezing processes of pods needs root")
	}
	root, err := checkout()
	if err != nil {
		return err
	}
	if o.seed == 0 {
		o.seed = rand.Uint64N(1_000_000)
	}
	if o.results == "" {
		o.results = filepath.Join(root, ".local/robustness/results.json")
	}
	plan, err := newPlan(o)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, ".local/robustness", fmt.Sprintf("%s-seed-%d", time.Now().Format("20060102-150405"), o.seed))
	r := &runner{options: o, root: root, dir: dir, plan: plan}
	if err := r.run(ctx); err != nil {
		return err
	}
	return conclude(dir, o.results)
}

// writePage writes the page of the totals that are committed.
func writePage() error {
	root, err := checkout()
	if err != nil {
		return err
	}
	totals, err := report.ReadTotals(filepath.Join(root, "test/robustness/results.json"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs/robustness-results.md"), []byte(report.TotalsPage(totals)), 0o644)
}

// conclude judges a run, prints its verdict, and adds it to the totals.
func conclude(dir, totals string) error {
	result, err := judge.Folder(dir)
	if err != nil {
		return err
	}
	show := func(what string, totals ...report.Total) {
		t := report.Sum(totals)
		fmt.Printf("%s: %d operations, %d of them under faults, the operator acted under a fault in %s; %d updates in place, %d of them under faults; %d requests of clients; acts %v; %d illegal, %d undecided\n",
			what, t.Operations, t.Faulted, report.Acted(totals), t.InPlace, t.InPlaceFaulted, t.Requests, t.Verdicts, t.Illegal, t.Undecided)
	}
	show(fmt.Sprintf("seed %d", result.Run.Seed), result.Total())
	if totals != "" {
		if err := report.Accumulate(totals, result.Total()); err != nil {
			return err
		}
		all, err := report.ReadTotals(totals)
		if err != nil {
			return err
		}
		show(fmt.Sprintf("all %d runs", len(all)), all...)
	}
	fmt.Println(filepath.Join(dir, report.PageFile))
	return result.Err()
}

// plan chooses what is done. The same seed gives the same choices.
type plan struct {
	random     *rand.Rand
	operations []operations.Operation
	faults     []faults.Kind
	most       int
	always     bool
	longest    bool
	after      time.Duration

	nextOperations []operations.Operation
	nextFaults     []faults.Kind
}

func newPlan(o options) (*plan, error) {
	p := &plan{random: rand.New(rand.NewPCG(o.seed, 0)), operations: operations.All(), faults: faults.All(), most: o.most, always: o.always, longest: o.longest, after: o.after}
	if o.operations != "" {
		p.operations = nil
		for name := range strings.SplitSeq(o.operations, ",") {
			operation, known := operations.Named(name)
			if !known {
				return nil, fmt.Errorf("there is no operation %q", name)
			}
			p.operations = append(p.operations, operation)
		}
	}
	if o.faultKinds != "" {
		p.faults = nil
		for name := range strings.SplitSeq(o.faultKinds, ",") {
			kind, known := faults.Named(name)
			if !known {
				return nil, fmt.Errorf("there is no fault %q", name)
			}
			p.faults = append(p.faults, kind)
		}
	}
	return p, nil
}

// turn is an operation, and what is done meanwhile.
type turn struct {
	operation operations.Operation
	// after is how long after the first fault the operation is asked for.
	after  time.Duration
	faults []planned
}

// planned is a fault and how long after the beginning of the turn it begins.
type planned struct {
	faults.Fault
	after time.Duration
}

const (
	// undisturbed is one in how many operations has no fault.
	undisturbed = 12
	// ahead is how much later than the first fault an operation may begin, and spread how much later another fault.
	ahead  = 2 * time.Second
	spread = 4 * time.Second
)

// next returns the next operation and its faults. Every operation and every kind has its turn before any has another. The
// first fault comes first, so that a short operation has one, too; those of an operation of several phases come at any time.
func (p *plan) next(m *faults.Machine) turn {
	if len(p.nextOperations) == 0 {
		p.nextOperations = shuffled(p.random, p.operations)
	}
	t := turn{operation: p.nextOperations[0], after: cmp.Or(p.after, time.Duration(p.random.Int64N(int64(ahead))))}
	p.nextOperations = p.nextOperations[1:]
	m.Both = t.operation.Migrates
	for _, kind := range p.kinds(t.operation) {
		f := planned{Fault: kind.Choose(m, p.random, p.longest)}
		if len(t.faults) > 0 || t.operation.Spread > 0 {
			f.after = time.Duration(p.random.Int64N(int64(cmp.Or(t.operation.Spread, spread))))
		}
		t.faults = append(t.faults, f)
	}
	return t
}

// kinds returns kinds of faults for an operation that can be injected together.
func (p *plan) kinds(operation operations.Operation) []faults.Kind {
	n := min(p.most, len(p.faults))
	if !p.always && n > 0 {
		if n = 1 + p.random.IntN(n); p.random.IntN(undisturbed) == 0 {
			n = 0
		}
	}
	var chosen []faults.Kind
	for range n {
		fits := func(k faults.Kind) bool {
			return !slices.Contains(operation.Not, k.Name) && (operation.Migrates || !k.Both) && !slices.ContainsFunc(chosen, k.Excludes)
		}
		i := slices.IndexFunc(p.nextFaults, fits)
		if i < 0 {
			// Those that are left keep their turn.
			p.nextFaults = append(p.nextFaults, shuffled(p.random, p.faults)...)
			i = slices.IndexFunc(p.nextFaults, fits)
		}
		if i < 0 {
			break
		}
		chosen = append(chosen, p.nextFaults[i])
		p.nextFaults = slices.Delete(p.nextFaults, i, i+1)
	}
	return chosen
}

func shuffled[T any](random *rand.Rand, all []T) []T {
	mixed := make([]T, len(all))
	for i, j := range random.Perm(len(all)) {
		mixed[i] = all[j]
	}
	return mixed
}

// checkout returns the folder of the checkout.
func checkout() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("finding the checkout: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
