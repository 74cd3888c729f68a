// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
)

// during is an operation of 20 s with a fault in its first half, with evidence or without.
func during(name, evidence string) Operation {
	return Operation{Name: name, From: 10 * time.Second, To: 30 * time.Second, Faults: []oracle.Fault{
		{From: 11 * time.Second, To: 20 * time.Second, Kind: "frozen", Evidence: evidence},
		{From: 12 * time.Second, To: 28 * time.Second, Kind: "not in effect"},
	}}
}

func acts(seconds ...int) []oracle.Judgement {
	var all []oracle.Judgement
	for _, at := range seconds {
		all = append(all, oracle.Judgement{Act: oracle.Act{At: time.Duration(at) * time.Second, Kind: oracle.DeletePod}, Verdict: oracle.Safe})
	}
	return all
}

// since is the operation with faults that were in effect from a second on.
func since(o Operation, second int) Operation {
	for i := range o.Faults {
		o.Faults[i].Since = time.Duration(second) * time.Second
	}
	return o
}

func asked(o Operation, second int) Operation {
	o.Asked = time.Duration(second) * time.Second
	return o
}

// A log without any act is that of another cluster; without a fault, an operation that needs an act has one.
func TestARunWithoutActs(t *testing.T) {
	for name, test := range map[string]struct {
		operations []Operation
		acts       []oracle.Judgement
		want       string
	}{
		"none at all":                     {[]Operation{during("rollout", "it was"), during("snapshot", "it was")}, nil, "the audit log has no act of the-operator in 2 operations"},
		"none is needed":                  {[]Operation{during("snapshot", "it was")}, nil, ""},
		"in another operation":            {[]Operation{during("rollout", "it was"), during("rollout", "it was")}, acts(40), ""},
		"in another, and without a fault": {[]Operation{during("rollout", "")}, acts(40), "the rollout at 10s, without a fault: the operator has done nothing that could be judged"},
		"without a fault":                 {[]Operation{during("rollout", "")}, acts(15), ""},
	} {
		r := Result{Run: Run{Cluster: oracle.Cluster{Operator: "the-operator"}}, Timeline: Timeline{Operations: test.operations}, Judgements: test.acts}
		for i := range r.Timeline.Operations {
			r.Timeline.Operations[i].Tasks = []Task{}
		}
		r.CountActs()
		got := ""
		if err := r.Err(); err != nil {
			got = err.Error()
		}
		if test.want == "" && got != "" || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// An operation was under a fault as soon as one was in effect. The operator acted under a fault if it did so at that time.
func TestActed(t *testing.T) {
	for name, test := range map[string]struct {
		operation                  Operation
		acts                       []oracle.Judgement
		want                       Count
		faulted, acted, withoutAct int
	}{
		"during the fault":         {during("rollout", "it was"), acts(15, 25), Count{2, 1}, 1, 1, 0},
		"as it begins":             {during("rollout", "it was"), acts(11), Count{1, 1}, 1, 1, 0},
		"as it ends":               {during("rollout", "it was"), acts(20), Count{1, 1}, 1, 1, 0},
		"just after the fault":     {during("rollout", "it was"), acts(21), Count{1, 0}, 1, 0, 0},
		"before the fault":         {during("rollout", "it was"), acts(10), Count{1, 0}, 1, 0, 0},
		"before it was in effect":  {since(during("rollout", "it was"), 16), acts(15), Count{1, 0}, 1, 0, 0},
		"since it was in effect":   {since(during("rollout", "it was"), 15), acts(15), Count{1, 1}, 1, 1, 0},
		"over before it was asked": {asked(during("rollout", "it was"), 21), acts(25), Count{1, 0}, 0, 0, 0},
		"over as it was asked for": {asked(during("rollout", "it was"), 20), acts(25), Count{1, 0}, 1, 0, 0},
		"no fault was in effect":   {during("rollout", ""), acts(15), Count{1, 0}, 0, 0, 0},
		"in other operations":      {during("rollout", "it was"), acts(9, 31), Count{0, 0}, 1, 0, 1},
		"no act, and none needed":  {during("snapshot", "it was"), nil, Count{0, 0}, 1, 0, 0},
		"no act in place":          {during("labels in place", "it was"), nil, Count{0, 0}, 1, 0, 1},
		"no act, and did not end":  {Operation{Name: "rollout", Error: "stuck"}, nil, Count{0, 0}, 0, 0, 0},
		"no act, and the gate off": {during("gate switched", "it was"), nil, Count{0, 0}, 1, 0, 0},
	} {
		r := Result{Timeline: Timeline{Operations: []Operation{test.operation}}, Judgements: test.acts}
		r.CountActs()
		total := r.Total()
		if got := r.Timeline.Operations[0].Acts; *got != test.want || total.Faulted != test.faulted || *total.Acted != test.acted || *total.WithoutAct != test.withoutAct {
			t.Errorf("%s: acts %+v, %d faulted, %d acted, %d without an act", name, *got, total.Faulted, *total.Acted, *total.WithoutAct)
		}
		if listed := strings.Contains(r.Page(), "## Operations without an act of the operator\n\n- the "+test.operation.Name+" at 10s"); listed != (test.withoutAct > 0) {
			t.Errorf("%s: listed %t on\n%s", name, listed, r.Page())
		}
	}
}

// What earlier runs did not record is unknown, not zero.
func TestWhatEarlierRunsDidNotRecord(t *testing.T) {
	before := Total{Commit: "before", Operations: 5, Faulted: 4, Requests: 7}
	r := Result{Requests: 9, Acknowledged: 8, Timeline: Timeline{Operations: []Operation{during("rollout", "it was"), during("snapshot", "")}}, Judgements: acts(15)}
	if total := r.Total(); total.Acted != nil || total.WithoutAct != nil {
		t.Errorf("acts that nobody has counted are known: %+v", total)
	}
	r.CountActs()
	now := r.Total()
	for name, test := range map[string]struct {
		totals []Total
		want   []string
	}{
		"none":       {[]Total{before}, []string{"| operations in which the operator acted under a fault | unknown |", "| operations without an act of the operator, although they need one | unknown |", "| acknowledged requests | unknown |", "| before | 0 | 0s |  | 7 | unknown | 5 | 4 | unknown |"}},
		"one of two": {[]Total{before, now}, []string{"| operations in which the operator acted under a fault | 1 of 2 (1 of 2 runs; unknown for the others) |", "| operations without an act of the operator, although they need one | 0 of 2 (1 of 2 runs; unknown for the others) |", "| acknowledged requests | 8 of 9 (1 of 2 runs; unknown for the others) |", "| 9 | 8 | 2 | 1 | 1 |"}},
		"both":       {[]Total{now, now}, []string{"| operations in which the operator acted under a fault | 2 of 4 |", "| acknowledged requests | 16 of 18 |"}},
	} {
		page := TotalsPage(test.totals)
		for _, want := range test.want {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %q:\n%s", name, want, page)
			}
		}
	}
	if sum := Sum([]Total{before}); sum.Acted != nil || sum.WithoutAct != nil || sum.Acknowledged != nil {
		t.Errorf("%+v", sum)
	}
	if sum := Sum([]Total{now, before, now}); *sum.Acted != 2 || *sum.WithoutAct != 0 || *sum.Acknowledged != 16 {
		t.Errorf("acted %d", *sum.Acted)
	}
}

func ended(states ...string) []Task {
	tasks := []Task{}
	for _, state := range states {
		task := Task{Name: "the-task", State: state}
		if state != "Succeeded" {
			task.Codes = []string{"ERR_A", "ERR_B"}
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// A task may fail under a fault, and say so. Without one it does what it was asked for.
func TestTasks(t *testing.T) {
	fault := []oracle.Fault{{Kind: "frozen", Evidence: "it was"}}
	for name, test := range map[string]struct {
		operation Operation
		want      string // in the error
	}{
		"succeeded":                        {Operation{Name: "restart", Tasks: ended("Succeeded")}, ""},
		"failed":                           {Operation{Name: "restart", Tasks: ended("Failed")}, "the restart at 0s, without a fault: task the-task is Failed (ERR_A, ERR_B)"},
		"rejected":                         {Operation{Name: "snapshot", Tasks: ended("Rejected")}, "the snapshot at 0s, without a fault: task the-task is Rejected (ERR_A, ERR_B)"},
		"failed under a fault":             {Operation{Name: "restart", Tasks: ended("Failed"), Faults: fault}, ""},
		"failed, the fault not in effect":  {Operation{Name: "restart", Tasks: ended("Failed"), Faults: []oracle.Fault{{Kind: "frozen"}}}, "the restart at 0s, without a fault"},
		"succeeded after it was rejected":  {Operation{Name: "recovery", Tasks: ended("Rejected", "Succeeded")}, ""},
		"a recovery, not needed":           {Operation{Name: "recovery that is not needed", Tasks: ended("Rejected")}, ""},
		"a recovery though not needed":     {Operation{Name: "recovery that is not needed", Tasks: ended("Succeeded")}, "the recovery that is not needed at 0s, without a fault: task the-task is Succeeded"},
		"a recovery that is needed failed": {Operation{Name: "recovery", Tasks: ended("Failed")}, "task the-task is Failed"},
		"no task, and none asked for":      {Operation{Name: "rollout", Tasks: ended()}, ""},
		"no task, though asked for":        {Operation{Name: "restart", Tasks: ended()}, "the restart at 0s, without a fault: no task has ended"},
		"no task of a recovery":            {Operation{Name: "recovery that is not needed", Tasks: ended()}, "no task has ended"},
		"not recorded":                     {Operation{Name: "restart"}, ""},
	} {
		r := Result{Timeline: Timeline{Operations: []Operation{test.operation}}}
		if test.want == "" && r.Err() != nil || test.want != "" && (r.Err() == nil || !strings.Contains(r.Err().Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", name, r.Err(), test.want)
		}
		if failed := strings.Contains(r.Page(), "# Robustness: FAILED"); failed != (test.want != "") {
			t.Errorf("%s:\n%s", name, r.Page())
		}
	}
	stuck := Result{Timeline: Timeline{Operations: []Operation{{Name: "restart", Error: "it hangs", Tasks: ended()}}}}
	if err := stuck.Err(); err == nil || strings.Contains(err.Error(), "without a fault") {
		t.Errorf("a task that has not ended: %v", err)
	}
}

func TestTasksAreCounted(t *testing.T) {
	before := Total{Commit: "before"}
	r := Result{Timeline: Timeline{Operations: []Operation{
		{Name: "restart", Tasks: ended("Succeeded")}, {Name: "recovery", From: time.Second, Tasks: ended("Rejected", "Succeeded")}, {Name: "rollout", Tasks: ended()},
	}}}
	now := r.Total()
	if page := r.Page(); !strings.Contains(page, "| tasks | 1 Rejected, 2 Succeeded |") || !strings.Contains(page, "| recovery at 1s | the-task | Rejected | ERR_A, ERR_B |") || strings.Contains(page, "| restart at") {
		t.Error(page)
	}
	r.Timeline.Operations[1].Tasks = nil
	if page := r.Page(); !strings.Contains(page, "| tasks | unknown |") {
		t.Error(page)
	}
	none := Result{Timeline: Timeline{Operations: []Operation{{Name: "rollout", Tasks: ended()}}}}.Total()
	for _, test := range []struct {
		totals []Total
		want   string
	}{
		{[]Total{before}, "| tasks | unknown |"},
		{[]Total{none}, "| tasks | none |"},
		{[]Total{before, now, now}, "| tasks | 2 Rejected, 4 Succeeded (2 of 3 runs; unknown for the others) |"},
		{[]Total{now, none}, "| tasks | 1 Rejected, 2 Succeeded |"},
	} {
		path := filepath.Join(t.TempDir(), "results.json")
		if err := WriteJSON(path, test.totals); err != nil {
			t.Fatal(err)
		}
		read, err := ReadTotals(path)
		if page := TotalsPage(read); err != nil || !strings.Contains(page, test.want) {
			t.Errorf("error %v, want %q:\n%s", err, test.want, page)
		}
	}
}

// A run that is judged again is still one run, and its newest verdict counts. Earlier totals do not say when their run began.
func TestAccumulate(t *testing.T) {
	began := time.Date(2026, 11, 23, 13, 5, 40, 12345, time.UTC)
	earlier := Total{Seed: 7, Commit: "abc", Seconds: 60, Requests: 5, Operations: 3}
	with := func(total Total, change func(*Total)) Total {
		change(&total)
		return total
	}
	first := with(earlier, func(t *Total) { t.Began = began })
	path := filepath.Join(t.TempDir(), "results.json")
	for i, test := range []struct {
		add  Total
		want int
	}{
		{earlier, 1},
		{with(earlier, func(t *Total) { t.Requests = 6 }), 2},
		{first, 2},
		{with(first, func(t *Total) { t.Illegal = 1 }), 2},
		{with(first, func(t *Total) { t.Began = began.Add(1) }), 3},
	} {
		if err := Accumulate(path, test.add); err != nil {
			t.Fatal(err)
		}
		totals, err := ReadTotals(path)
		if err != nil || len(totals) != test.want {
			t.Fatalf("step %d: %d totals, want %d, error %v", i, len(totals), test.want, err)
		}
		if i == 3 && (totals[0].Illegal != 1 || totals[1].Requests != 6) {
			t.Errorf("the newest verdict does not count: %+v", totals)
		}
	}
}
