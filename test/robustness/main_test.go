// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/operations"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/report"
)

// choices returns what a seed chooses, and how often each name is among it.
func choices(t *testing.T, seed uint64, turns int) (all string, names map[string]int) {
	t.Helper()
	p, err := newPlan(options{seed: seed, most: 3})
	if err != nil {
		t.Fatal(err)
	}
	names = map[string]int{}
	machine := &faults.Machine{Name: "main", Other: "next", Members: 3}
	for range turns {
		next := p.next(machine)
		names[next.operation.Name]++
		all += fmt.Sprintf("%s after %s", next.operation.Name, next.after)
		for _, fault := range next.faults {
			names[fault.Kind.Name]++
			all += fmt.Sprintf(", %s after %s", fault.Fault, fault.after)
		}
		all += "\n"
	}
	return all, names
}

func TestASeedReplaysItsChoices(t *testing.T) {
	first, names := choices(t, 7, 100)
	if again, _ := choices(t, 7, 100); again != first {
		t.Errorf("seed 7 chose\n%s\nand then\n%s", first, again)
	}
	if other, _ := choices(t, 8, 100); other == first {
		t.Error("seeds 7 and 8 choose the same")
	}
	for _, k := range faults.All() {
		if names[k.Name] == 0 {
			t.Errorf("%s has no turn in 100 operations", k.Name)
		}
	}
	for _, o := range operations.All() {
		if names[o.Name] == 0 {
			t.Errorf("%s has no turn in 100 operations", o.Name)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	for _, o := range []options{{operations: "rollout,dance"}, {faultKinds: "rain"}} {
		if _, err := newPlan(o); err == nil {
			t.Errorf("%+v is a plan", o)
		}
	}
	p, err := newPlan(options{operations: "rollout", faultKinds: "node cordoned,node tainted", most: 2, always: true})
	if err != nil {
		t.Fatal(err)
	}
	if next := p.next(&faults.Machine{Name: "main", Other: "next", Members: 3}); next.operation.Name != "rollout" || len(next.faults) != 2 {
		t.Errorf("chose %s, %v", next.operation.Name, next.faults)
	}
}

// Nearly every operation has a fault from its beginning, no two of its faults end each other, and none of them loses data
// whatever the operator does.
func TestChoiceOfFaults(t *testing.T) {
	for _, operations := range []string{"", "resources raised in place,labels in place", "recovery"} {
		t.Run(operations, func(t *testing.T) { choiceOfFaults(t, operations) })
	}
}

func choiceOfFaults(t *testing.T, operations string) {
	t.Helper()
	p, err := newPlan(options{seed: 3, most: 3, operations: operations})
	if err != nil {
		t.Fatal(err)
	}
	const turns = 2000
	byNumber := map[int]int{}
	for range turns {
		next := p.next(&faults.Machine{Name: "main", Other: "next", Members: 3})
		byNumber[len(next.faults)]++
		for i, fault := range next.faults {
			if slices.Contains(next.operation.Not, fault.Kind.Name) {
				t.Errorf("%s with %s", next.operation.Name, fault.Kind.Name)
			}
			if i == 0 && fault.after != 0 && next.operation.Spread == 0 {
				t.Errorf("the first fault begins after %s", fault.after)
			}
			for _, other := range next.faults[:i] {
				if fault.Kind.Excludes(other.Kind) {
					t.Errorf("%s with %s", fault, other)
				}
			}
		}
	}
	for n, least := range []int{turns / 30, turns / 4, turns / 4, turns / 4} {
		if byNumber[n] < least || n == 0 && byNumber[n] > turns/8 {
			t.Errorf("%d of %d operations have %d faults", byNumber[n], turns, n)
		}
	}
}

func TestLongestFaults(t *testing.T) {
	for _, longest := range []bool{true, false} {
		p, err := newPlan(options{seed: 3, most: 1, always: true, longest: longest})
		if err != nil {
			t.Fatal(err)
		}
		shorter := 0
		for range 100 {
			for _, f := range p.next(&faults.Machine{Name: "main", Other: "next", Members: 3}).faults {
				if f.Length < f.Kind.Longest {
					shorter++
				}
			}
		}
		if (shorter > 90) == longest || (shorter == 0) != longest {
			t.Errorf("%d of 100 are shorter than the longest, with longest %t", shorter, longest)
		}
	}
}

func TestAfter(t *testing.T) {
	p, err := newPlan(options{seed: 3, most: 1, after: 8 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if next := p.next(&faults.Machine{Name: "main", Other: "next", Members: 3}); next.after != 8*time.Second {
		t.Errorf("the operation begins after %s", next.after)
	}
}

// The command that a report gives makes the same choices.
func TestReplay(t *testing.T) {
	o := options{seed: 7, length: time.Minute, members: 3, most: 2}
	const least = "go run ./test/robustness -seed 7 -length 1m0s -members 3 -most-faults 2"
	if got := o.replay(); got != least {
		t.Error(got)
	}
	o.operations, o.faultKinds, o.after, o.always, o.longest = "rollout,restart", "volume lost", time.Second, true, true
	if got, want := o.replay(), least+` -operations "rollout,restart" -faults "volume lost" -after 1s -always -longest`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The command line lists names separated by commas.
func TestNamesHaveNoComma(t *testing.T) {
	for _, k := range faults.All() {
		if strings.Contains(k.Name, ",") {
			t.Errorf("fault %q", k.Name)
		}
	}
	for _, o := range operations.All() {
		if strings.Contains(o.Name, ",") {
			t.Errorf("operation %q", o.Name)
		}
	}
}

// Each operation names faults that there are.
func TestExcludedFaultsAreKnown(t *testing.T) {
	for _, o := range operations.All() {
		for _, name := range o.Not {
			if _, known := faults.Named(name); !known {
				t.Errorf("%s: there is no fault %q", o.Name, name)
			}
		}
	}
}

// The commit of a run is that of the program, as the checkout may have moved on. One that "go run" has built does not know it.
func TestCommit(t *testing.T) {
	const revision = "1fa03b2d9c1f0e5b8f6a7d3c2b1a09f8e7d6c5b4"
	settings := func(pairs ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{}
		for i := 0; i < len(pairs); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return info
	}
	for name, test := range map[string]struct {
		options options
		info    *debug.BuildInfo
		want    string
	}{
		"clean":           {options{}, settings("vcs", "git", "vcs.revision", revision, "vcs.modified", "false"), "1fa03b2"},
		"modified":        {options{}, settings("vcs.revision", revision, "vcs.modified", "true"), "1fa03b2-dirty"},
		"go run":          {options{}, settings("CGO_ENABLED", "0"), "of the checkout"},
		"no information":  {options{}, nil, "of the checkout"},
		"by the flag":     {options{commit: "abc"}, settings("vcs.revision", revision), "abc"},
		"with a bug":      {options{bug: "guards off"}, settings("vcs.revision", revision), "1fa03b2 with the bug: guards off"},
		"of another kind": {options{}, settings("vcs.revision", "12"), "12"},
	} {
		if got := test.options.version(test.info, func() string { return "of the checkout" }); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// The page of the results is that of the recorded totals.
func TestPageOfTheResults(t *testing.T) {
	totals, err := report.ReadTotals("results.json")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/robustness-results.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != report.TotalsPage(totals) {
		t.Error(`docs/robustness-results.md is not that of results.json: run "go run ./test/robustness -page"`)
	}
}

// A log that is shorter than it was is another one: what the run did is not in it.
func TestCopyAudit(t *testing.T) {
	r := &runner{root: t.TempDir(), dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Dir(r.auditLog()), 0o755); err != nil {
		t.Fatal(err)
	}
	before, ours, theirs := "{\"before\":1}\n", `{"namespace":"robustness"}`+"\n", `{"namespace":"other"}`+"\n"
	if err := os.WriteFile(r.auditLog(), []byte(before+ours+theirs+ours), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.copyAudit(int64(len(before))); err != nil {
		t.Fatal(err)
	}
	if copied, err := os.ReadFile(filepath.Join(r.dir, report.AuditFile)); err != nil || string(copied) != ours+ours {
		t.Errorf("%q, %v", copied, err)
	}
	if err := r.copyAudit(1000); err == nil || !strings.Contains(err.Error(), "shorter than when the run began") {
		t.Errorf("a log that was begun anew: %v", err)
	}
}
