// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/check"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/oracle"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/report"
)

const user = "system:serviceaccount:etcd-foreman-system:etcd-foreman"

var began = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// deletion is a line of the audit log.
func deletion(second int, pod string) string {
	return fmt.Sprintf(`{"stage":"ResponseComplete","verb":"delete","user":{"username":%q},"objectRef":{"resource":"pods","namespace":"robustness","name":%q},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-01-01T12:00:%02dZ"}`+"\n", user, pod, second)
}

// recorded writes the records of a run of three members that serve all the time.
func recorded(t *testing.T, found, audit string, timeline report.Timeline) string {
	t.Helper()
	dir := t.TempDir()
	var clients, samples bytes.Buffer
	w := history.NewWriter(&clients, began)
	for i := range 100 {
		at := time.Duration(i) * 500 * time.Millisecond
		w.Write(history.Line{Operation: &history.Operation{Client: "a", Kind: history.Put, Key: fmt.Sprintf("u/%d", i), Value: "v", Call: at, Return: at + 1, Revision: int64(i + 2)}})
		for m := range uint64(3) {
			line, _ := json.Marshal(oracle.Sample{At: at, Pod: fmt.Sprintf("main-%d", m), UID: fmt.Sprint(m), Answered: true, Member: m + 1, Leader: 1, Term: 2, Voters: []uint64{1, 2, 3}})
			samples.Write(append(line, '\n'))
		}
	}
	w.Write(history.Line{Operation: &history.Operation{Client: "b", Kind: history.Get, Key: "u/0", Found: found, Call: time.Minute, Return: time.Minute + 1, Revision: 101}})
	end(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	run := report.Run{Seed: 7, Commit: "abc", Cluster: oracle.Cluster{Namespace: "robustness", Name: "main", Operator: user, Members: 3, Began: began}}
	for name, content := range map[string]any{report.RunFile: run, report.TimelineFile: timeline} {
		if err := report.WriteJSON(filepath.Join(dir, name), content); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string][]byte{report.HistoryFile: clients.Bytes(), report.SamplesFile: samples.Bytes(), report.AuditFile: []byte(audit)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// end writes that every member has everything at the end.
func end(w *history.Writer) {
	pairs := map[string]string{}
	for i := range 100 {
		pairs[fmt.Sprintf("u/%d", i)] = "v"
	}
	for m := range 3 {
		member := fmt.Sprintf("main-%d", m)
		w.Write(history.Line{Final: &history.Final{Member: member, Pairs: pairs}})
		w.Write(history.Line{Hash: &history.Hash{Member: member, Revision: 101, Hash: 42}})
	}
}

func TestFolder(t *testing.T) {
	timeline := report.Timeline{Operations: []report.Operation{{
		Name: "rollout", From: 10 * time.Second, To: 30 * time.Second,
		Faults: []oracle.Fault{{From: 11 * time.Second, To: 20 * time.Second, Kind: "member frozen", Target: "main-1", Evidence: "it was stopped"}, {Kind: "not in effect"}},
	}}}
	stuck := report.Timeline{Operations: []report.Operation{{Name: "rollout", Error: "still waiting"}}}
	for name, test := range map[string]struct {
		found, audit string
		timeline     report.Timeline
		want         string // in the error
	}{
		"all is well":           {"v", deletion(20, "main-0"), timeline, ""},
		"an unsafe act":         {"v", deletion(20, "main-0") + deletion(21, "main-1"), timeline, "an unsafe act: 21s unsafe: delete pod main-1"},
		"a raise":               {"v", deletion(20, "main-0") + raise(40, "main-1", ""), timeline, ""},
		"a raise that restarts": {"v", raise(20, "main-1", "2026-01-01T12:00:22Z"), timeline, "an unsafe act: 20s unsafe: update pod in place main-1: etcd was to keep running, and ended at 22s: Completed, exit code 143"},
		"an illegal history":    {"another", "", timeline, "an illegal history: linearizable"},
		"an operation stuck":    {"v", "", stuck, "the rollout at 0s did not end well: still waiting"},
		"an interrupted run":    {"v", "", report.Timeline{Failed: "interrupted"}, "interrupted"},
		"an act not judged":     {"v", deletion(59, "main-0"), timeline, "an act that could not be judged: 59s unjudged: delete pod main-0: no member had been seen"},
		"a history that lacks":  {"", "", timeline, "an illegal history"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := recorded(t, test.found, test.audit, test.timeline)
			r, err := Folder(dir)
			if err != nil {
				t.Fatal(err)
			}
			page, err := os.ReadFile(filepath.Join(dir, report.PageFile))
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				if r.Err() != nil || !strings.Contains(string(page), "# Robustness: passed") || !strings.Contains(string(page), "| member frozen | 1: 1 safe |") || !strings.Contains(string(page), "| operations in which the operator acted under a fault | 1 |") || strings.Contains(string(page), "not in effect") {
					t.Errorf("error %v, page\n%s", r.Err(), page)
				}
				return
			}
			if r.Err() == nil || !strings.Contains(r.Err().Error(), test.want) || !strings.Contains(string(page), "# Robustness: FAILED") {
				t.Errorf("error %v, want %q; page\n%s", r.Err(), test.want, page)
			}
		})
	}
}

// What could not be decided fails a run, and is no illegal history.
func TestUndecided(t *testing.T) {
	r := report.Result{Violations: []check.Violation{{Rule: check.Undecided, Message: "too many operations"}}}
	if r.Err() == nil || !strings.Contains(r.Err().Error(), "a history that could not be decided: undecided at 0s: too many operations") || r.Total().Illegal != 0 {
		t.Errorf("error %v, total %+v", r.Err(), r.Total())
	}
	if page := r.Page(); !strings.Contains(page, "# Robustness: FAILED") || !strings.Contains(page, "## Undecided\n\n- undecided at 0s: too many operations\n") {
		t.Error(page)
	}
}

// update is a line of the audit log.
func update(second int, pod string) string {
	return strings.Replace(strings.Replace(deletion(second, pod), `"verb":"delete"`, `"verb":"patch"`, 1), `"responseStatus"`, `"requestObject":{"spec":{"containers":[]}},"responseStatus"`, 1)
}

// raise is lines of the audit log: a pod is created, and runs, and its memory is raised; its etcd ended if it says when.
func raise(second int, pod, ended string) string {
	state := ""
	if ended != "" {
		state = fmt.Sprintf(`,"lastState":{"terminated":{"containerID":"c","exitCode":143,"reason":"Completed","finishedAt":%q}}`, ended)
	}
	write := func(second int, verb, subresource, body string) string {
		line := strings.Replace(deletion(second, pod), `"verb":"delete"`, fmt.Sprintf(`"verb":%q`, verb), 1)
		line = strings.Replace(line, `"resource":"pods"`, fmt.Sprintf(`"resource":"pods","subresource":%q`, subresource), 1)
		return strings.Replace(line, `"responseStatus"`, `"requestObject":`+body+`,"responseStatus"`, 1)
	}
	return write(1, "create", "", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"etcd","resources":{"requests":{"memory":"1Gi"}}}]}}`, pod)) +
		write(2, "patch", "status", `{"metadata":{"uid":"u"},"status":{"containerStatuses":[{"name":"etcd"}]}}`) +
		write(second, "patch", "resize", `{"spec":{"containers":[{"name":"etcd","resources":{"requests":{"memory":"2Gi"}}}]}}`) +
		write(second+5, "patch", "status", fmt.Sprintf(`{"metadata":{"uid":"u"},"status":{"containerStatuses":[{"name":"etcd"%s}]}}`, state))
}

// Updates in place count as faulted while a fault is in effect, and just after one.
func TestUpdatesInPlace(t *testing.T) {
	r, err := Folder(recorded(t, "v", update(5, "main-0")+update(12, "main-1")+update(22, "main-2")+update(40, "main-2")+deletion(13, "main-0"), report.Timeline{Operations: []report.Operation{{
		Name: "rollout", Faults: []oracle.Fault{
			{From: 10 * time.Second, To: 20 * time.Second, Kind: "frozen", Evidence: "it was"}, {From: 39 * time.Second, To: 41 * time.Second, Kind: "not in effect"},
		},
	}}}))
	if err != nil {
		t.Fatal(err)
	}
	if total := r.Total(); total.InPlace != 4 || total.InPlaceFaulted != 2 || total.InPlaceOf["unknown"] != (report.Count{All: 4, Faulted: 2}) || !strings.Contains(r.Page(), "| updates of pods in place | 4, 2 of them under faults |") {
		t.Errorf("%+v\n%s", total, r.Page())
	}
}

func TestTotals(t *testing.T) {
	r, err := Folder(recorded(t, "v", update(3, "main-0")+deletion(20, "main-0")+deletion(21, "main-1"), report.Timeline{Operations: []report.Operation{
		{Name: "rollout", Faults: []oracle.Fault{{Kind: "frozen", Evidence: "it was"}}}, {Name: "rollout", Error: "stuck"},
	}}))
	if err != nil {
		t.Fatal(err)
	}
	again := r
	again.Run.Cluster.Began = began.Add(time.Hour)
	path := filepath.Join(t.TempDir(), "totals", "results.json")
	for _, one := range []report.Result{r, again, r} {
		if err := report.Accumulate(path, one.Total()); err != nil {
			t.Fatal(err)
		}
	}
	totals, err := report.ReadTotals(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := report.Sum(totals)
	if len(totals) != 2 || totals[0].Seed != 7 || sum.Requests != 202 || sum.Operations != 4 || sum.Faulted != 2 || sum.Stuck != 2 || sum.Faults["frozen"] != 2 || sum.ByOperation["rollout"] != 4 || sum.InPlace != 2 || sum.InPlaceFaulted != 2 || sum.Verdicts["unsafe"] != 2 {
		t.Errorf("%d totals, sum %+v", len(totals), sum)
	}
	page := report.TotalsPage(totals)
	for _, want := range []string{"| runs | 2, ", "| acknowledged requests | 202 of 202 |", "| operations | 4, 2 of them under faults |", "| updates of pods in place | 2, 2 of them under faults |", "| unknown | 2 | 2 |", "| frozen | 2 |", "| abc | 7 |", "2 unsafe"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
}
