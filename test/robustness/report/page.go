// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/check"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
)

// none is the row of operations without a fault.
const none = "no fault"

// Page returns a run as Markdown.
func (r Result) Page() string {
	var page strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }
	t := r.Total()
	verdict := "passed"
	if r.Err() != nil {
		verdict = "FAILED"
	}
	line("# Robustness: %s\n", verdict)
	line("Seed %d, commit %s, %s. The same choices again: `%s`\n", r.Run.Seed, r.Run.Commit, r.Run.Length.Round(time.Second), r.Run.Command)
	line("| | |\n|---|---|")
	line("| requests of clients | %d, %d of them acknowledged |", r.Requests, r.Acknowledged)
	line("| unique writes looked for at the end | %d |", r.Unique)
	line("| watch events | %d |", r.Events)
	line("| answers of members recorded | %d |", r.Samples)
	line("| operations | %d, %d of them under faults |", t.Operations, t.Faulted)
	line("| operations in which the operator acted under a fault | %s |", orUnknown(t.Acted))
	line("| operations without an act of the operator, although they need one | %s |", orUnknown(t.WithoutAct))
	line("| tasks | %s |", tasks(t))
	line("| updates of pods in place | %d, %d of them under faults |", t.InPlace, t.InPlaceFaulted)
	line("| acts of the operator | %s |", counts(t.Verdicts))
	line("| illegal histories | %d, and %d undecided |", t.Illegal, t.Undecided)
	line("| operations that did not end well | %d |\n", t.Stuck)
	r.withoutAct(line)
	r.tasks(line)
	r.table(line)
	r.gaps(line)
	r.failures(line)
	return page.String()
}

// withoutAct lists the operations in which the operator did nothing that the oracle would have judged.
func (r Result) withoutAct(line func(string, ...any)) {
	title := "## Operations without an act of the operator\n\n"
	for _, o := range r.Timeline.Operations {
		if o.WithoutAct() {
			line("%s- the %s at %s", title, o.Name, o.From.Round(time.Second))
			title = ""
		}
	}
	if title == "" {
		line("")
	}
}

// tasks lists the tasks that did not succeed.
func (r Result) tasks(line func(string, ...any)) {
	title := "## Tasks that did not succeed\n\n| of | task | state | errors | faults |\n|---|---|---|---|---|\n"
	for _, o := range r.Timeline.Operations {
		for _, t := range o.Tasks {
			if t.State != Succeeded {
				line("%s| %s at %s | %s | %s | %s | %s |", title, o.Name, o.From.Round(time.Second), t.Name, t.State, strings.Join(t.Codes, ", "), strings.Join(slices.Sorted(maps.Keys(o.kinds())), ", "))
				title = ""
			}
		}
	}
	if title == "" {
		line("")
	}
}

func counts(of map[string]int) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		parts = append(parts, fmt.Sprintf("%d %s", of[key], key))
	}
	return strings.Join(parts, ", ")
}

// cell is the operations of a name with a fault of a kind, and what the operator did in them.
type cell struct {
	n, bad int
	acts   map[string]int
}

// cells returns the cells of the table by kind of fault and name of operation.
func (r Result) cells() map[[2]string]*cell {
	cells := map[[2]string]*cell{}
	for _, o := range r.Timeline.Operations {
		for kind := range o.kinds() {
			key := [2]string{kind, o.Name}
			if cells[key] == nil {
				cells[key] = &cell{acts: map[string]int{}}
			}
			c := cells[key]
			if c.n++; o.Error != "" {
				c.bad++
			}
			for _, j := range r.Judgements {
				if o.From <= j.At && j.At <= o.To {
					c.acts[string(j.Verdict)]++
				}
			}
		}
	}
	return cells
}

// kinds returns the kinds of faults that were in effect during an operation.
func (o Operation) kinds() map[string]bool {
	kinds := map[string]bool{}
	for _, f := range o.Faults {
		if f.Evidence != "" {
			kinds[f.Kind] = true
		}
	}
	if len(kinds) == 0 {
		kinds[none] = true
	}
	return kinds
}

func (c *cell) String() string {
	if c == nil {
		return ""
	}
	text := fmt.Sprint(c.n)
	if len(c.acts) > 0 {
		text += ": " + counts(c.acts)
	}
	if c.bad > 0 {
		text += fmt.Sprintf(", **%d did not end well**", c.bad)
	}
	return text
}

// table prints faults × operations.
func (r Result) table(line func(string, ...any)) {
	cells := r.cells()
	rows, columns := map[string]bool{}, map[string]bool{}
	for key := range cells {
		rows[key[0]], columns[key[1]] = true, true
	}
	operations := slices.Sorted(maps.Keys(columns))
	line("## Faults and operations\n\nEach cell: operations with that fault, and the verdicts on what the operator did in them. A fault counts if there is evidence that it was in effect; an operation with two is in two rows.\n")
	line("| fault | %s |\n|---|%s", strings.Join(operations, " | "), strings.Repeat("---|", len(operations)))
	for _, row := range slices.Sorted(maps.Keys(rows)) {
		text := "| " + row
		for _, operation := range operations {
			text += " | " + cells[[2]string{row, operation}].String()
		}
		line("%s |", text)
	}
	line("")
}

func (r Result) gaps(line func(string, ...any)) {
	type sum struct {
		n              int
		longest, total time.Duration
		what           string
	}
	sums := map[oracle.Cause]*sum{}
	for _, g := range r.Gaps {
		s := sums[g.Cause]
		if s == nil {
			s = &sum{}
			sums[g.Cause] = s
		}
		s.n++
		s.total += g.Length()
		if g.Length() > s.longest {
			s.longest, s.what = g.Length(), g.What
		}
	}
	line("## Gaps in writes\n\n| cause | gaps | in all | longest | of |\n|---|---|---|---|---|")
	for _, cause := range slices.Sorted(maps.Keys(sums)) {
		s := sums[cause]
		line("| %s | %d | %s | %s | %s |", cause, s.n, s.total.Round(time.Millisecond), s.longest.Round(time.Millisecond), s.what)
	}
	line("")
}

// around is how much of the time before and after a failure its timeline shows.
const around = 90 * time.Second

// failures prints the timeline around each failure.
func (r Result) failures(line func(string, ...any)) {
	for _, verdict := range []oracle.Verdict{oracle.Unsafe, oracle.Unjudged} {
		for _, j := range r.Of(verdict) {
			line("## The operator's %s %s is %s\n\n%s\n", j.Kind, j.Name, verdict, j)
			r.timeline(line, j.At)
		}
	}
	illegal, undecided := check.Split(r.Violations)
	if len(undecided) > 0 {
		line("## Undecided\n")
		for _, v := range undecided {
			line("- %s", v)
		}
		line("")
	}
	for _, v := range illegal {
		line("## Illegal: %s\n\n%s\n", v.Rule, v)
		r.timeline(line, v.At)
	}
	for _, o := range r.Stuck() {
		line("## The %s did not end well\n\n%s\n", o.Name, o.Error)
		r.timeline(line, o.To)
	}
	for _, o := range r.Timeline.Operations {
		if why := o.Unsuccessful(); why != "" {
			line("## The %s did not succeed, without a fault\n\n%s\n", o.Name, why)
			r.timeline(line, o.To)
		}
	}
	if r.Timeline.Failed != "" {
		line("## The run was not completed\n\n%s\n", r.Timeline.Failed)
	}
}

func (r Result) timeline(line func(string, ...any), at time.Duration) {
	type event struct {
		at   time.Duration
		text string
	}
	var events []event
	note := func(at time.Duration, format string, args ...any) {
		events = append(events, event{at, fmt.Sprintf(format, args...)})
	}
	for _, o := range r.Timeline.Operations {
		note(o.From, "%s begins", o.Name)
		note(o.To, "%s ends %s", o.Name, o.Error)
		for _, f := range o.Faults {
			note(f.From, "fault: %s of %s", f.Kind, f.Target)
			note(f.To, "fault ends: %s of %s (%s)", f.Kind, f.Target, cmp.Or(f.Evidence, "it was not in effect"))
		}
	}
	for _, j := range r.Judgements {
		note(j.At, "operator: %s %s: %s: %s", j.Kind, j.Name, j.Verdict, j.Why)
	}
	for _, g := range r.Gaps {
		note(g.From, "no writes for %s (%s)", g.Length().Round(time.Millisecond), g.Cause)
	}
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	line("| at | what |\n|---|---|")
	for _, e := range events {
		if e.at >= at-around && e.at <= at+around {
			line("| %s | %s |", e.at.Round(10*time.Millisecond), strings.ReplaceAll(e.text, "|", "/"))
		}
	}
	line("")
}
