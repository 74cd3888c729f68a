// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package report is the result of a run: its verdict, totals over all runs, and a page for people.
package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/check"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
)

// Files of a run, in its folder.
const (
	RunFile      = "run.json"
	HistoryFile  = "history.jsonl"
	SamplesFile  = "samples.jsonl"
	AuditFile    = "audit.jsonl"
	TimelineFile = "timeline.json"
	ResultFile   = "result.json"
	PageFile     = "report.md"
)

// Run says what was run.
type Run struct {
	Seed    uint64        `json:"seed"`
	Commit  string        `json:"commit"`
	Members int           `json:"members"`
	Length  time.Duration `json:"length"`
	// Date, and Load of the machine in the last minutes of the run: the more, the later everything happens.
	Date string `json:"date"`
	Load string `json:"load,omitempty"`
	// Command replays the choices of the run.
	Command string         `json:"command"`
	Cluster oracle.Cluster `json:"cluster"`
}

// Operation is something that was asked for.
type Operation struct {
	Name string `json:"name"`
	// From is when its faults began to be injected, Asked when it was asked for, To when it had ended. Earlier runs have no Asked.
	From  time.Duration `json:"from"`
	Asked time.Duration `json:"asked,omitempty"`
	To    time.Duration `json:"to"`
	// Error is why it did not end well; empty if it did.
	Error string `json:"error,omitempty"`
	// Faults were injected meanwhile.
	Faults []oracle.Fault `json:"faults,omitempty"`
	// Tasks are those that were asked for and have ended; nil if that was not recorded.
	Tasks []Task `json:"tasks,omitzero"`
	// Acts of the operator in it, and how many of them while a fault was in effect. The judge counts them.
	Acts *Count `json:"acts,omitempty"`
}

// Task is a task that has ended.
type Task struct {
	Name  string   `json:"name"`
	State string   `json:"state"`
	Codes []string `json:"codes,omitempty"`
}

func (t Task) String() string {
	text := fmt.Sprintf("task %s is %s", t.Name, t.State)
	if len(t.Codes) > 0 {
		text += " (" + strings.Join(t.Codes, ", ") + ")"
	}
	return text
}

// The states in which a task ends.
const (
	Succeeded = "Succeeded"
	Rejected  = "Rejected"
)

const needless = "recovery that is not needed"

// byTask are the operations that are a task, or end with one.
var byTask = []string{"restart", "restart by eviction", "recreation", "maintenance", "snapshot", "recovery", "restore", "restore and undo", "two restores and their undos", needless}

// Unsuccessful returns why the operation was not what a user may expect of it without a fault; empty if it was, or if there was a
// fault, which may explain it.
func (o Operation) Unsuccessful() string {
	if o.Tasks == nil || o.Error != "" || slices.ContainsFunc(o.Faults, func(f oracle.Fault) bool { return f.Evidence != "" }) {
		return ""
	}
	want := Succeeded
	if o.Name == needless {
		want = Rejected
	}
	switch n := len(o.Tasks); {
	case n == 0 && slices.Contains(byTask, o.Name):
		return "no task has ended"
	case n > 0 && o.Tasks[n-1].State != want:
		return o.Tasks[n-1].String()
	case o.WithoutAct():
		return "the operator has done nothing that could be judged"
	}
	return ""
}

// Faulted reports whether a fault was in effect at any time since it was asked for.
func (o Operation) Faulted() bool {
	return slices.ContainsFunc(o.Faults, func(f oracle.Fault) bool { return f.InEffect(max(o.From, o.Asked), o.To) })
}

// Acted reports whether the operator acted while a fault was in effect.
func (o Operation) Acted() bool { return o.Acts != nil && o.Acts.Faulted > 0 }

// passive are the operations that can end without an act of the operator on the members.
var passive = []string{"maintenance", "snapshot", needless, "gate switched"}

// WithoutAct reports whether the operation has ended without an act of the operator, although it needs one.
func (o Operation) WithoutAct() bool {
	return o.Error == "" && o.Acts != nil && o.Acts.All == 0 && !slices.Contains(passive, o.Name)
}

// countActs counts the acts in the operation.
func (o Operation) countActs(all []oracle.Judgement) *Count {
	acts := Count{}
	for _, j := range all {
		if j.At < o.From || j.At > o.To {
			continue
		}
		acts.All++
		if slices.ContainsFunc(o.Faults, func(f oracle.Fault) bool { return f.InEffect(j.At, j.At) }) {
			acts.Faulted++
		}
	}
	return &acts
}

// Timeline is what was done to a cluster.
type Timeline struct {
	Operations []Operation     `json:"operations"`
	Outages    []oracle.Outage `json:"outages,omitempty"`
	// Migrations are those that are over.
	Migrations []oracle.Migration `json:"migrations,omitempty"`
	// Failed is why the run could not be completed; empty if it was.
	Failed string `json:"failed,omitempty"`
}

// Faults returns the faults of all operations that were in effect.
func (t Timeline) Faults() []oracle.Fault {
	var all []oracle.Fault
	for _, o := range t.Operations {
		for _, f := range o.Faults {
			if f.Evidence != "" {
				all = append(all, f)
			}
		}
	}
	return all
}

// Result is the verdict of a run.
type Result struct {
	Run      Run      `json:"run"`
	Timeline Timeline `json:"timeline"`

	// Requests of the clients, and how many of them were acknowledged.
	Requests     int `json:"requests"`
	Acknowledged int `json:"acknowledged"`
	// Unique is the number of acknowledged writes that were looked for at the end, Events that of watch events, Samples how
	// often members were asked.
	Unique  int `json:"unique"`
	Events  int `json:"events"`
	Samples int `json:"samples"`

	Violations []check.Violation  `json:"violations,omitempty"`
	Judgements []oracle.Judgement `json:"judgements,omitempty"`
	Gaps       []oracle.Gap       `json:"gaps,omitempty"`
}

// Stuck returns the operations that did not end well.
func (r Result) Stuck() []Operation {
	return slices.DeleteFunc(slices.Clone(r.Timeline.Operations), func(o Operation) bool { return o.Error == "" })
}

// CountActs counts the acts of the operator in each operation.
func (r Result) CountActs() {
	for i, o := range r.Timeline.Operations {
		r.Timeline.Operations[i].Acts = o.countActs(r.Judgements)
	}
}

// Of returns the judgements of a verdict.
func (r Result) Of(v oracle.Verdict) []oracle.Judgement {
	return slices.DeleteFunc(slices.Clone(r.Judgements), func(j oracle.Judgement) bool { return j.Verdict != v })
}

// Count is how many there were, and how many of them under a fault.
type Count struct {
	All     int `json:"all"`
	Faulted int `json:"faulted"`
}

func (c Count) plus(o Count) Count { return Count{c.All + o.All, c.Faulted + o.Faulted} }

// InPlace returns how many updates of pods in place were carried out, by what they changed. One just after a fault counts as
// faulted, too.
func (r Result) InPlace() map[string]Count {
	counts := map[string]Count{}
	for _, j := range r.Judgements {
		if j.Kind != oracle.UpdatePod {
			continue
		}
		one := Count{All: 1}
		if slices.ContainsFunc(r.Timeline.Faults(), func(f oracle.Fault) bool { return f.InEffect(j.At-oracle.Wake, j.At) }) {
			one.Faulted = 1
		}
		counts[string(j.Change)] = counts[string(j.Change)].plus(one)
	}
	return counts
}

// Err returns why the run has failed; nil if it has not.
func (r Result) Err() error {
	var failures []error
	for _, j := range r.Of(oracle.Unsafe) {
		failures = append(failures, fmt.Errorf("an unsafe act: %s", j))
	}
	for _, j := range r.Of(oracle.Unjudged) {
		failures = append(failures, fmt.Errorf("an act that could not be judged: %s", j))
	}
	illegal, undecided := check.Split(r.Violations)
	for _, v := range illegal {
		failures = append(failures, fmt.Errorf("an illegal history: %s", v))
	}
	for _, v := range undecided {
		failures = append(failures, fmt.Errorf("a history that could not be decided: %s", v))
	}
	for _, o := range r.Stuck() {
		failures = append(failures, fmt.Errorf("the %s at %s did not end well: %s", o.Name, o.From.Round(time.Second), o.Error))
	}
	for _, o := range r.Timeline.Operations {
		if why := o.Unsuccessful(); why != "" {
			failures = append(failures, fmt.Errorf("the %s at %s, without a fault: %s", o.Name, o.From.Round(time.Second), why))
		}
	}
	if n := len(r.Timeline.Operations); n > 0 && len(r.Judgements) == 0 && slices.ContainsFunc(r.Timeline.Operations, Operation.WithoutAct) {
		failures = append(failures, fmt.Errorf("the audit log has no act of %s in %d operations: it is not the log of this cluster, or not the operator's user", r.Run.Cluster.Operator, n))
	}
	if r.Timeline.Failed != "" {
		failures = append(failures, errors.New(r.Timeline.Failed))
	}
	return errors.Join(failures...)
}

// Total is what one run adds to the totals.
type Total struct {
	Seed   uint64 `json:"seed"`
	Commit string `json:"commit"`
	// Began tells the run from others; it is unknown for earlier ones.
	Began    time.Time `json:"began,omitzero"`
	Date     string    `json:"date,omitempty"`
	Load     string    `json:"load,omitempty"`
	Seconds  int       `json:"seconds"`
	Requests int       `json:"requests"`
	// Acknowledged are the requests that were answered; it is unknown for earlier runs.
	Acknowledged *int `json:"acknowledged,omitempty"`
	Operations   int  `json:"operations"`
	Faulted      int  `json:"faulted"`
	// Acted is in how many operations the operator acted while a fault was in effect, WithoutAct how many ended without an act
	// although they need one. Both are unknown for earlier runs.
	Acted      *int `json:"acted,omitempty"`
	WithoutAct *int `json:"withoutAct,omitempty"`
	// Tasks are those that have ended, by state; nil for earlier runs, for which it is unknown.
	Tasks          map[string]int `json:"tasks,omitzero"`
	InPlace        int            `json:"inPlace"`
	InPlaceFaulted int            `json:"inPlaceFaulted"`
	// InPlaceOf are the updates in place by what they change. The first runs recorded only their sum, without labels.
	InPlaceOf        map[string]Count `json:"inPlaceOf,omitempty"`
	ByOperation      map[string]int   `json:"byOperation"`
	Faults           map[string]int   `json:"faults"`
	Verdicts         map[string]int   `json:"verdicts"`
	Illegal          int              `json:"illegal"`
	Undecided        int              `json:"undecided"`
	Stuck            int              `json:"stuck"`
	LongestGapOfOurs string           `json:"longestGapOfOurs,omitempty"`
	Failed           string           `json:"failed,omitempty"`
}

// Total returns what the run adds.
func (r Result) Total() Total {
	t := Total{
		Seed: r.Run.Seed, Commit: r.Run.Commit, Began: r.Run.Cluster.Began, Date: r.Run.Date, Load: r.Run.Load, Seconds: int(r.Run.Length / time.Second), Requests: r.Requests, Acknowledged: &r.Acknowledged,
		Operations: len(r.Timeline.Operations), ByOperation: map[string]int{}, Faults: map[string]int{}, Verdicts: map[string]int{},
		Stuck: len(r.Stuck()), Failed: r.Timeline.Failed,
	}
	illegal, undecided := check.Split(r.Violations)
	t.Illegal, t.Undecided = len(illegal), len(undecided)
	t.InPlaceOf = r.InPlace()
	for _, n := range t.InPlaceOf {
		t.InPlace += n.All
		t.InPlaceFaulted += n.Faulted
	}
	for _, o := range r.Timeline.Operations {
		t.ByOperation[o.Name]++
		if o.Faulted() {
			t.Faulted++
		}
	}
	t.Tasks = r.Tasks()
	t.Acted, t.WithoutAct = r.count(Operation.Acted), r.count(Operation.WithoutAct)
	for _, f := range r.Timeline.Faults() {
		t.Faults[f.Kind]++
	}
	for _, j := range r.Judgements {
		t.Verdicts[string(j.Verdict)]++
	}
	longest := time.Duration(0)
	for _, g := range r.Gaps {
		if g.Cause == oracle.ByUs && g.Length() > longest {
			longest = g.Length()
			t.LongestGapOfOurs = longest.Round(time.Millisecond).String()
		}
	}
	return t
}

// count counts operations by what the operator did in them; nil if its acts were not counted.
func (r Result) count(is func(Operation) bool) *int {
	n := 0
	for _, o := range r.Timeline.Operations {
		if o.Acts == nil {
			return nil
		}
		if is(o) {
			n++
		}
	}
	return &n
}

// Tasks counts the tasks that have ended by state; nil if they were not recorded.
func (r Result) Tasks() map[string]int {
	tasks := map[string]int{}
	for _, o := range r.Timeline.Operations {
		if o.Tasks == nil {
			return nil
		}
		for _, t := range o.Tasks {
			tasks[t.State]++
		}
	}
	return tasks
}

// Accumulate adds a run to a file of totals, or replaces what is there of it if it was judged again. A run of the same seed and
// commit is another run: what happens besides the choices differs.
func Accumulate(path string, t Total) error {
	totals, err := ReadTotals(path)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(totals, t.sameRun); i >= 0 {
		totals[i] = t
	} else {
		totals = append(totals, t)
	}
	return WriteJSON(path, totals)
}

// sameRun reports whether another total is of the same run. The clients of two runs never send as many requests, which tells
// earlier runs apart.
func (t Total) sameRun(o Total) bool {
	if !t.Began.IsZero() && !o.Began.IsZero() {
		return t.Began.Equal(o.Began)
	}
	return t.Seed == o.Seed && t.Commit == o.Commit && t.Seconds == o.Seconds && t.Requests == o.Requests
}

// ReadTotals reads a file of totals; none if there is no file.
func ReadTotals(path string) ([]Total, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var totals []Total
	if err == nil {
		err = json.Unmarshal(content, &totals)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the totals in %s: %w", path, err)
	}
	return totals, nil
}

// WriteJSON writes a file.
func WriteJSON(path string, value any) error {
	var content bytes.Buffer
	out := json.NewEncoder(&content)
	out.SetIndent("", "  ")
	if err := out.Encode(value); err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := os.WriteFile(path, content.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Sum adds totals up.
func Sum(totals []Total) Total {
	sum := Total{InPlaceOf: map[string]Count{}, ByOperation: map[string]int{}, Faults: map[string]int{}, Verdicts: map[string]int{}}
	for _, t := range totals {
		sum.Seconds += t.Seconds
		sum.Requests += t.Requests
		sum.Operations += t.Operations
		sum.Faulted += t.Faulted
		sum.Acknowledged = plus(sum.Acknowledged, t.Acknowledged)
		sum.Acted, sum.WithoutAct = plus(sum.Acted, t.Acted), plus(sum.WithoutAct, t.WithoutAct)
		if t.Tasks != nil && sum.Tasks == nil {
			sum.Tasks = map[string]int{}
		}
		add(sum.Tasks, t.Tasks)
		sum.InPlace += t.InPlace
		sum.InPlaceFaulted += t.InPlaceFaulted
		for what, n := range t.InPlaceOf {
			sum.InPlaceOf[what] = sum.InPlaceOf[what].plus(n)
		}
		sum.Illegal += t.Illegal
		sum.Undecided += t.Undecided
		sum.Stuck += t.Stuck
		add(sum.ByOperation, t.ByOperation)
		add(sum.Faults, t.Faults)
		add(sum.Verdicts, t.Verdicts)
	}
	return sum
}

// plus adds up what is known.
func plus(a, b *int) *int {
	if a == nil || b == nil {
		return cmp.Or(a, b)
	}
	n := *a + *b
	return &n
}

func add(to, from map[string]int) {
	for _, key := range slices.Collect(maps.Keys(from)) {
		to[key] += from[key]
	}
}
