// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// waiting returns a task of an Etcd that waits with change A, in a namespace that is named as its first letter.
func waiting(name string, changes ...func(*Candidate)) Candidate {
	c := Candidate{
		Task: types.UID(name), TaskName: "task-" + name, Namespace: name[:1], Etcd: types.UID("etcd-" + name), EtcdName: "etcd-" + name, Change: "A",
		Class: Automatic, Since: noon.Add(-10 * time.Minute), ChangeSince: noon.Add(-10 * time.Minute),
	}
	for _, change := range changes {
		change(&c)
	}
	return c
}

// holding returns a holder of the policy p.
func holding(name string, changes ...func(*Holder)) Holder {
	h := Holder{Task: types.UID(name), TaskName: "task-" + name, Namespace: name[:1], Etcd: types.UID("etcd-" + name), EtcdName: "etcd-" + name, Policies: []string{"p"}, Change: "A", Granted: noon.Add(-time.Minute)}
	for _, change := range changes {
		change(&h)
	}
	return h
}

// situation returns an Input in which w1 waits for a policy p with two slots and one canary, which change A has passed.
func situation(changes ...func(*Input)) Input {
	in := Input{
		Now: noon, Covering: map[string][]string{}, Served: map[string]float64{}, Failing: map[types.UID]string{},
		Policies: map[string]*Policy{"p": {Name: "p", MaxConcurrent: 2, Canary: Canary{Count: 1, Chosen: map[types.UID]bool{}}, Clusters: 10}},
		Ledger:   &Ledger{Changes: []Change{{Policy: "p", Name: "A", Since: noon.Add(-time.Hour), Passed: 1}}},
		Waiting:  []Candidate{waiting("w1")},
	}
	for c := 'a'; c <= 'z'; c++ {
		in.Covering[string(c)] = []string{"p"}
	}
	for _, change := range changes {
		change(&in)
	}
	return in
}

func policy(change func(*Policy)) func(*Input) { return func(in *Input) { change(in.Policies["p"]) } }
func holders(all ...Holder) func(*Input)       { return func(in *Input) { in.Ledger.Holders = all } }
func others(all ...Candidate) func(*Input) {
	return func(in *Input) { in.Waiting = append(in.Waiting, all...) }
}
func candidate(change func(*Candidate)) func(*Input) {
	return func(in *Input) { change(&in.Waiting[0]) }
}
func history(changes ...Change) func(*Input) { return func(in *Input) { in.Ledger.Changes = changes } }

func impaired(name string, since time.Time, recovering bool) func(*Input) {
	return func(in *Input) {
		in.Impaired = append(in.Impaired, Impaired{Etcd: types.UID("etcd-" + name), Namespace: name[:1], Since: since, Recovering: recovering})
	}
}

// failing has the last change have failed in clusters.
func failing(names ...string) func(*Input) {
	return func(in *Input) {
		for _, name := range names {
			in.Failing[types.UID("etcd-"+name)] = name[:1]
		}
	}
}

// share has a policy of so many slots, of which one namespace gets so many, or such a percentage.
func share(slots, n int, percent bool) func(*Input) {
	return policy(func(p *Policy) { p.MaxConcurrent, p.PerNamespace, p.PerNamespacePercent = slots, n, percent })
}

func soaking(h *Holder) { h.Ended = noon.Add(-time.Second) }
func canary(h *Holder)  { h.Canary = true; soaking(h) }
func repair(c *Candidate) {
	c.Class = Repair
}
func beside(c *Candidate) { c.Beside = "w0" }
func aborted(h *Holder)   { h.Aborted = true }

// What stands in the way of w1, and how that is said.
func TestDecide(t *testing.T) {
	failed := Change{Policy: "p", Name: "A", Since: noon, Failures: []Failure{{Etcd: "x", Namespace: "x", EtcdName: "etcd-x", Reason: "it crashes"}}}
	night := func(p *Policy) {
		w, err := NewWindow("0 22 * * *", 6*time.Hour, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		p.Windows = []Window{w}
	}
	lateIn := func(d time.Duration, seconds ...int) func(*Input) {
		return func(in *Input) {
			night(in.Policies["p"])
			in.Now = time.Date(2026, 6, 2, 4, 0, 0, 0, time.UTC).Add(-d)
			in.Ledger.Policies = []Recorded{{Name: "p", Seconds: seconds}}
		}
	}
	// Each morning is an exception, after which tasks start for 18 hours.
	mornings := func(left time.Duration, seconds ...int) func(*Input) {
		return func(in *Input) {
			w, err := NewWindow("0 4 * * *", 6*time.Hour, "UTC")
			if err != nil {
				t.Fatal(err)
			}
			lateIn(left, seconds...)(in)
			in.Policies["p"].Windows, in.Policies["p"].Except = nil, []Window{w}
		}
	}
	// From Monday to Friday, each day has a window from midnight to midnight, with an exception from 8 to 18.
	weekdays := func(at time.Time, seconds ...int) func(*Input) {
		return func(in *Input) {
			all, err := NewWindow("0 0 * * 1-5", 24*time.Hour, "UTC")
			if err != nil {
				t.Fatal(err)
			}
			except, err := NewWindow("0 8 * * 1-5", 10*time.Hour, "UTC")
			if err != nil {
				t.Fatal(err)
			}
			in.Now, in.Ledger.Policies = at, []Recorded{{Name: "p", Seconds: seconds}}
			in.Policies["p"].Windows, in.Policies["p"].Except = []Window{all}, []Window{except}
		}
	}
	// From July on each day is an exception. Those of half a year are not followed to their end.
	before := func(left time.Duration, seconds ...int) func(*Input) {
		return func(in *Input) {
			in.Now, in.Ledger.Policies = time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC).Add(-left), []Recorded{{Name: "p", Seconds: seconds}}
			in.Policies["p"].Except = []Window{window(t, "0 0 * 7-12 *", 24*time.Hour, "UTC")}
		}
	}
	newChange := history()
	passed := Change{Policy: "p", Name: "A", Passed: 1}
	leads := candidate(func(c *Candidate) { c.Target = "T" })
	templateFailed := func(in, target string) Change {
		return Change{Policy: "p", Name: "B", Failures: []Failure{{Etcd: types.UID("etcd-" + in), Namespace: in, EtcdName: "etcd-" + in, Target: target, Reason: "it crashes"}}}
	}
	toward := func(change, target string) func(*Holder) {
		return func(h *Holder) { h.Change, h.Target = change, target }
	}
	proven := func(target string) func(*Input) {
		return func(in *Input) { in.Ledger.Policies = []Recorded{{Name: "p", Proven: []string{target}}} }
	}
	for name, c := range map[string]struct {
		in     Input
		reason Reason
		says   string
	}{
		"nothing":                             {situation(), "", ""},
		"a slot is free":                      {situation(holders(holding("a"))), "", ""},
		"none is free":                        {situation(holders(holding("a"), holding("b"))), WaitingForSlot, "no slot of EtcdFleetPolicy p is free, which has 2: a/etcd-a runs task task-a, b/etcd-b runs task task-b"},
		"watched clusters use none":           {situation(holders(holding("a"), holding("b", soaking))), "", ""},
		"watched canaries do":                 {situation(holders(holding("a"), holding("b", canary))), WaitingForSlot, "b/etcd-b is watched after task task-b"},
		"but not for the next task of it":     {situation(holders(holding("a"), holding("w1", canary))), "", ""},
		"a task beside one that holds a slot": {situation(candidate(beside), holders(holding("a"), holding("w1", func(h *Holder) { h.Task, h.Change = "w0", "" }))), "", ""},
		"that has ended, or does not run":     {situation(policy(func(p *Policy) { p.MaxConcurrent = 9 }), holders(holding("w1", func(h *Holder) { h.Task, h.TaskName = "w0", "task-w0" }))), WaitingForSlot, "task task-w0 of the same Etcd holds a slot of EtcdFleetPolicy p: what has become of it is found out first"},
		"also beside another one that runs":   {situation(candidate(beside), holders(holding("w1", func(h *Holder) { h.Task = "w0" }), holding("w1", func(h *Holder) { h.Task, h.TaskName = "x0", "task-x0" }))), WaitingForSlot, "task task-x0 of the same Etcd"},
		"where half are for repairs, too":     {situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), candidate(repair), candidate(beside), holders(holding("w1", func(h *Holder) { h.Task, h.Change, h.Impaired = "w0", "", true }))), "", ""},
		"one that grew into the policy":       {situation(holders(holding("a"), holding("b", func(h *Holder) { h.Policies = nil }))), WaitingForSlot, "etcd-b"},
		"one of a policy that was":            {situation(holders(holding("a"), holding("b", func(h *Holder) { h.Policies = []string{"gone"}; h.Namespace = "elsewhere" }))), "", ""},
		"one of a namespace that has left":    {situation(holders(holding("a"), holding("b", func(h *Holder) { h.Namespace = "elsewhere" }))), WaitingForSlot, "elsewhere/etcd-b"},
		"a cluster that lacks a member":       {situation(holders(holding("a")), impaired("b", noon, false)), WaitingForSlot, "clusters that lack a member or are being recovered: 1"},
		"that is the holder":                  {situation(holders(holding("a")), impaired("a", noon, false)), "", ""},
		"that is itself":                      {situation(holders(holding("a")), impaired("w1", noon, false)), "", ""},
		"two that lack a member":              {situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), impaired("w1", noon, false), impaired("b", noon, false)), "", ""},
		"they do not run together":            {situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), impaired("w1", noon, false), impaired("b", noon, false), holders(holding("b"))), WaitingForSlot, "b/etcd-b runs task task-b"},
		"one beside a recovery":               {situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), impaired("w1", noon, false), impaired("b", noon, true)), "", ""},
		"one that lacked it for long before":  {situation(holders(holding("a")), impaired("b", noon.Add(-2*time.Hour), false)), "", ""},
		"not for quite as long":               {situation(holders(holding("a")), impaired("b", noon.Add(-2*time.Hour+time.Second), false)), WaitingForSlot, ": 1"},
		"a recovery of any age":               {situation(holders(holding("a")), impaired("b", noon.Add(-9*time.Hour), true)), WaitingForSlot, ": 1"},
		"repairs do not wait for the broken":  {situation(holders(holding("a")), impaired("b", noon, false), candidate(repair)), "", ""},
		"half of the slots are for repairs":   {situation(holders(holding("a", func(h *Holder) { h.Impaired = true })), candidate(repair)), WaitingForSlot, "clusters that lack a member get half of the 2 slots of EtcdFleetPolicy p at most: a/etcd-a"},
		"of one slot, it":                     {situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), candidate(repair)), "", ""},
		"not of other tasks":                  {situation(holders(holding("a", func(h *Holder) { h.Impaired = true }))), "", ""},
		"its own slot, of a deleted task":     {situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), holders(holding("w1", aborted))), "", ""},
		"that of another one's":               {situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), holders(holding("b", aborted))), WaitingForSlot, "b/etcd-b has yet to be well after task task-b was deleted"},
		"its own, of a deleted repair":        {situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), candidate(repair), holders(holding("w1", aborted, func(h *Holder) { h.Impaired = true }))), "", ""},
		"a percentage":                        {situation(policy(func(p *Policy) { p.Percent, p.MaxConcurrent, p.Clusters = true, 10, 19 }), holders(holding("a"))), WaitingForSlot, "which has 1: "},
		"a small percentage":                  {situation(policy(func(p *Policy) { p.Percent, p.MaxConcurrent, p.Clusters = true, 10, 3 })), "", ""},
		"no percent":                          {situation(policy(func(p *Policy) { p.Percent, p.MaxConcurrent = true, 0 })), FleetPaused, "spec.maxConcurrent of EtcdFleetPolicy p is 0"},
		"no slots":                            {situation(policy(func(p *Policy) { p.MaxConcurrent = 0 })), FleetPaused, "spec.maxConcurrent of EtcdFleetPolicy p is 0"},
		"paused":                              {situation(policy(func(p *Policy) { p.Paused = true })), FleetPaused, "spec.paused of EtcdFleetPolicy p is set"},
		"invalid":                             {situation(policy(func(p *Policy) { p.Invalid, p.Paused = "spec.windows", true })), FleetPaused, "EtcdFleetPolicy p is invalid, so nothing starts: spec.windows; fix it"},
		"the change failed":                   {situation(history(failed)), FleetPaused, "change A is paused by EtcdFleetPolicy p: it failed in x/etcd-x (it crashes). Fix the template, which makes another change, or resume this one: kubectl annotate --overwrite etcdfleetpolicy p druid.gardener.cloud/resume-change=A.0"},
		"it may fail once":                    {situation(history(failed), policy(func(p *Policy) { p.MaxFailures, p.Canary.Count = 1, 0 })), "", ""},
		"that of another policy failed": {situation(func(in *Input) {
			in.Ledger.Changes = append(in.Ledger.Changes, Change{Policy: "q", Name: "A", Failures: failed.Failures})
		}), "", ""},
		"another change failed": {situation(func(in *Input) {
			in.Ledger.Changes = append(in.Ledger.Changes, Change{Policy: "p", Name: "B", Failures: failed.Failures})
		}), "", ""},
		"another one to the same template failed":   {situation(leads, history(passed, templateFailed("x", "T"))), FleetPaused, "change A leads to a template that failed: change B is paused by EtcdFleetPolicy p: it failed in x/etcd-x (it crashes)."},
		"which has succeeded in a cluster":          {situation(leads, history(passed, templateFailed("x", "T")), proven("T")), "", ""},
		"another has succeeded":                     {situation(leads, history(passed, templateFailed("x", "T")), proven("U")), FleetPaused, "change B is paused"},
		"it failed in this cluster":                 {situation(leads, history(passed, templateFailed("w1", "T"))), "", ""},
		"one to another template failed":            {situation(leads, history(passed, templateFailed("x", "U"))), "", ""},
		"a restart failed":                          {situation(history(passed, templateFailed("x", ""))), "", ""},
		"the other one may fail once":               {situation(leads, history(passed, templateFailed("x", "T")), policy(func(p *Policy) { p.MaxFailures = 1 })), "", ""},
		"the other one of another policy":           {situation(leads, history(passed, func() Change { c := templateFailed("x", "T"); c.Policy = "q"; return c }())), "", ""},
		"both failed":                               {situation(leads, history(failed, templateFailed("x", "T"))), FleetPaused, "change A is paused"},
		"another one tries the template":            {situation(leads, newChange, holders(holding("a", canary, toward("B", "T")))), WaitingForCanary, "EtcdFleetPolicy p tries the template that change A leads to in 1 of 10 clusters first: a/etcd-a is watched after task task-a"},
		"and it has succeeded":                      {situation(leads, newChange, holders(holding("a", canary, toward("B", "T"))), proven("T")), "", ""},
		"another one tries another template":        {situation(leads, newChange, holders(holding("a", canary, toward("B", "U")))), "", ""},
		"another one tries it, and this has passed": {situation(leads, holders(holding("a", canary, toward("B", "T")))), "", ""},
		"two without a template":                    {situation(newChange, holders(holding("a", canary, toward("B", "")))), "", ""},
		"a window is closed":                        {situation(policy(night)), WaitingForWindow, "no window of EtcdFleetPolicy p is open: the next one opens at 2026-06-01T22:00:00Z"},
		"it is open for long enough":                {situation(lateIn(30*time.Minute, 60, 60, 60, 60, 1800)), "", ""},
		"it is not":                                 {situation(lateIn(30*time.Minute-time.Second, 60, 60, 60, 60, 1800)), WaitingForWindow, "the window of EtcdFleetPolicy p closes at 2026-06-02T04:00:00Z, and nine of ten of its newest tasks took up to 30m0s"},
		"too little is known":                       {situation(lateIn(time.Second, 60, 60, 60, 1800)), "", ""},
		"what changes nothing may be late":          {situation(lateIn(time.Minute, 60, 60, 60, 60, 1800), candidate(func(c *Candidate) { c.Change = "" })), "", ""},
		"in its first half it may be late":          {situation(lateIn(3*time.Hour, 90000, 90000, 90000, 90000, 90000)), "", ""},
		"also between exceptions in windows":        {situation(weekdays(time.Date(2026, 6, 2, 1, 0, 0, 0, time.UTC), 36600, 36600, 36600, 36600, 36600)), "", ""},
		"not in its second half":                    {situation(weekdays(time.Date(2026, 6, 2, 1, 0, 1, 0, time.UTC), 36600, 36600, 36600, 36600, 36600)), WaitingForWindow, "took up to 7h0m0s"},
		"not in a shorter one before it":            {situation(weekdays(time.Date(2026, 6, 5, 20, 0, 1, 0, time.UTC), 36600, 36600, 36600, 36600, 36600)), WaitingForWindow, "closes at 2026-06-06T00:00:00Z"},
		"the first is a canary":                     {situation(newChange), "", ""},
		"one is tried":                              {situation(newChange, holders(holding("a", func(h *Holder) { h.Canary = true }))), WaitingForCanary, "EtcdFleetPolicy p tries change A in 1 of 10 clusters first: a/etcd-a runs task task-a"},
		"one whose task was deleted":                {situation(newChange, holders(holding("a", aborted))), WaitingForCanary, "a/etcd-a has yet to be well"},
		"it tries again after a deletion":           {situation(newChange, policy(func(p *Policy) { p.MaxConcurrent = 1 }), holders(holding("w1", aborted))), "", ""},
		"two canaries":                              {situation(newChange, policy(func(p *Policy) { p.Canary.Count = 2 }), holders(holding("a", func(h *Holder) { h.Canary = true }))), "", ""},
		"one has passed, one is tried":              {situation(history(Change{Policy: "p", Name: "A", Passed: 1}), policy(func(p *Policy) { p.Canary.Count, p.MaxConcurrent = 2, 3 }), holders(holding("a", canary))), WaitingForCanary, "in 2 of 10"},
		"no canaries":                               {situation(newChange, policy(func(p *Policy) { p.Canary.Count = 0 }), holders(holding("a"))), "", ""},
		"what changes nothing needs none":           {situation(newChange, candidate(func(c *Candidate) { c.Change = "" }), holders(holding("a"))), "", ""},
		"another is tried":                          {situation(newChange, holders(holding("a", func(h *Holder) { h.Change = "B" }))), "", ""},
		"a canary that failed is none":              {situation(newChange, holders(holding("a", func(h *Holder) { h.Counted = true }))), "", ""},
		"someone else was chosen":                   {situation(newChange, policy(func(p *Policy) { p.Canary.Chosen["etcd-x"] = true }), candidate(func(c *Candidate) { c.ChangeSince = noon.Add(-59 * time.Second) })), WaitingForCanary, "others begin at 2026-06-01T12:00:01Z"},
		"they do not ask":                           {situation(newChange, policy(func(p *Policy) { p.Canary.Chosen["etcd-x"] = true }), candidate(func(c *Candidate) { c.ChangeSince = noon.Add(-time.Minute) })), "", ""},
		"it was chosen":                             {situation(newChange, policy(func(p *Policy) { p.Canary.Chosen["etcd-w1"] = true }), candidate(func(c *Candidate) { c.ChangeSince = noon })), "", ""},
		"another has failed before":                 {situation(newChange, policy(func(p *Policy) { p.Canary.Chosen["etcd-w1"] = true }), candidate(func(c *Candidate) { c.ChangeSince = noon }), failing("x")), WaitingForCanary, "in which the last change failed"},
		"it has failed before":                      {situation(newChange, candidate(func(c *Candidate) { c.ChangeSince = noon }), failing("w1")), "", ""},
		"after the canaries no cluster is first":    {situation(policy(func(p *Policy) { p.Canary.Chosen["etcd-x"] = true }), candidate(func(c *Candidate) { c.ChangeSince = noon })), "", ""},
		"half of four slots are two":                {situation(policy(func(p *Policy) { p.MaxConcurrent = 4 }), holders(holding("a", func(h *Holder) { h.Impaired = true })), candidate(repair)), "", ""},
		"no more than two":                          {situation(policy(func(p *Policy) { p.MaxConcurrent = 4 }), holders(holding("a", func(h *Holder) { h.Impaired = true }), holding("b", func(h *Holder) { h.Impaired = true })), candidate(repair)), WaitingForSlot, "half of the 4 slots"},
		"half of one slot":                          {situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), holders(holding("a", func(h *Holder) { h.Impaired = true })), candidate(repair)), WaitingForSlot, "half of the 1 slot of"},
		"a wreck before a new change":               {situation(newChange, holders(holding("a", func(h *Holder) { h.Change = "B" })), impaired("b", noon.Add(-time.Hour), false)), "", ""},
		"two broken ones of one namespace":          {situation(impaired("b1", noon, false), impaired("b2", noon, false), impaired("b3", noon, true)), "", ""},
		"of four slots, two":                        {situation(policy(func(p *Policy) { p.MaxConcurrent = 4 }), holders(holding("a"), holding("c")), impaired("b1", noon, false), impaired("b2", noon, false)), WaitingForSlot, "being recovered: 2"},
		"not three":                                 {situation(policy(func(p *Policy) { p.MaxConcurrent = 4 }), holders(holding("a")), impaired("b1", noon, false), impaired("b2", noon, false), impaired("b3", noon, false)), "", ""},
		"a namespace has its share":                 {situation(share(4, 2, false), holders(holding("w2"), holding("w3", canary))), WaitingForSlot, "Etcds of one namespace get 2 slots of EtcdFleetPolicy p at most: w/etcd-w2 runs task task-w2, w/etcd-w3 is watched after task task-w3"},
		"it has not":                                {situation(share(4, 2, false), holders(holding("w2"), holding("a1"), holding("w3", soaking))), "", ""},
		"for repairs, too":                          {situation(share(4, 2, false), candidate(repair), holders(holding("w2"), holding("w3"))), WaitingForSlot, "of one namespace"},
		"its own slot of the share":                 {situation(share(4, 1, false), holders(holding("w1", aborted))), "", ""},
		"beside a task of the share":                {situation(share(4, 1, false), candidate(beside), holders(holding("w1", func(h *Holder) { h.Task = "w0" }))), "", ""},
		"a share in percent is rounded up":          {situation(share(5, 50, true), holders(holding("w2"), holding("w3"))), "", ""},
		"and no more":                               {situation(share(5, 50, true), holders(holding("w2"), holding("w3"), holding("w4"))), WaitingForSlot, "get 3 slots"},
		"one percent of a slot is one":              {situation(share(1, 1, true)), "", ""},
		"a share beyond the slots":                  {situation(share(2, 9, false), holders(holding("w2"), holding("w3"))), WaitingForSlot, "no slot of EtcdFleetPolicy p is free"},
		"broken ones count for the share":           {situation(share(4, 2, false), holders(holding("b1"), holding("b2"), holding("c")), impaired("b3", noon, false)), "", ""},
		"as far as it has room":                     {situation(share(4, 2, false), holders(holding("b1"), holding("c"), holding("d")), impaired("b3", noon, false)), WaitingForSlot, "being recovered: 1"},
		"a share of one":                            {situation(share(4, 1, false), holders(holding("c"), holding("d")), impaired("b3", noon, false), impaired("b4", noon, false)), "", ""},
		"the share is more than a half":             {situation(share(5, 3, false), holders(holding("b1"), holding("b2"), holding("c"), holding("d")), impaired("b3", noon, false)), WaitingForSlot, "being recovered: 1"},
		"broken ones have a half of it":             {situation(share(10, 6, false), holders(holding("b1"), holding("c"), holding("d"), holding("e"), holding("f")), impaired("b2", noon, false), impaired("b3", noon, false), impaired("b4", noon, false), impaired("b5", noon, false), impaired("b6", noon, false)), WaitingForSlot, "being recovered: 5"},
		"and no more than a half":                   {situation(share(10, 6, false), holders(holding("c"), holding("d"), holding("e"), holding("f")), impaired("b2", noon, false), impaired("b3", noon, false), impaired("b4", noon, false), impaired("b5", noon, false), impaired("b6", noon, false), impaired("b7", noon, false)), "", ""},
		"nor than the share beside tasks":           {situation(share(10, 6, false), holders(holding("b8"), holding("b9"), holding("c"), holding("d"), holding("e")), impaired("b2", noon, false), impaired("b3", noon, false), impaired("b4", noon, false), impaired("b5", noon, false), impaired("b6", noon, false)), "", ""},
		"its own task before the share":             {situation(share(4, 1, false), holders(holding("w1", func(h *Holder) { h.Task, h.TaskName = "w0", "task-w0" }))), WaitingForSlot, "task task-w0 of the same Etcd holds a slot"},
		"without shares they count by half":         {situation(share(4, 0, false), holders(holding("b1"), holding("b2"), holding("c")), impaired("b3", noon, false)), WaitingForSlot, "being recovered: 1"},
		"none holds a slot":                         {situation(impaired("a", noon, false), impaired("b", noon, false)), WaitingForSlot, ": none holds a slot; clusters that lack a member or are being recovered: 2"},
		"two tasks of one cluster":                  {situation(holders(holding("a"), holding("b", func(h *Holder) { h.Etcd, h.EtcdName, h.Namespace = "etcd-a", "etcd-a", "a" }))), "", ""},
		"one of them a repair":                      {situation(policy(func(p *Policy) { p.MaxConcurrent = 3 }), candidate(repair), holders(holding("a"), holding("b", func(h *Holder) { h.Etcd, h.EtcdName, h.Namespace, h.Impaired = "etcd-a", "etcd-a", "a", true }))), WaitingForSlot, "half of the 3 slots of EtcdFleetPolicy p at most: a/etcd-a runs task task-b"},
		"of a cluster that is impaired":             {situation(policy(func(p *Policy) { p.MaxConcurrent = 3 }), holders(holding("a"), holding("b", func(h *Holder) { h.Etcd = "etcd-a"; soaking(h) })), impaired("a", noon, false)), "", ""},
		"a failure and none chosen":                 {situation(newChange, candidate(func(c *Candidate) { c.ChangeSince = noon }), failing("x")), WaitingForCanary, "begins change A"},
		"one is tried by another policy":            {situation(newChange, holders(holding("a", func(h *Holder) { h.Policies, h.Namespace = []string{"q"}, "elsewhere" }))), "", ""},
		"one that left is tried":                    {situation(newChange, holders(holding("a", func(h *Holder) { h.Namespace = "elsewhere" }))), WaitingForCanary, "elsewhere/etcd-a"},
		"one that came is tried":                    {situation(newChange, holders(holding("a", func(h *Holder) { h.Policies = nil }))), WaitingForCanary, "a/etcd-a"},
		"a policy that is gone":                     {situation(func(in *Input) { in.Policies = nil }), "", ""},
		"an exception begins too soon":              {situation(mornings(time.Hour, 7200, 7200, 7200, 7200, 7200)), WaitingForWindow, "closes at 2026-06-02T04:00:00Z, and nine of ten of its newest tasks took up to 2h0m0s"},
		"tasks took longer than there is":           {situation(mornings(9*time.Hour, 86400, 86400, 86400, 86400, 86400)), "", ""},
		"not in the second half":                    {situation(mornings(9*time.Hour-time.Second, 86400, 86400, 86400, 86400, 86400)), WaitingForWindow, "took up to 9h0m0s"},
		"before an exception of unknown length":     {situation(before(maxWindow, 691200, 691200, 691200, 691200, 691200)), "", ""},
		"and later":                                 {situation(before(maxWindow-time.Second, 691200, 691200, 691200, 691200, 691200)), WaitingForWindow, "took up to 168h0m0s"},
		"two policies": {situation(func(in *Input) {
			in.Covering["w"] = []string{"p", "q"}
			in.Policies["q"] = &Policy{Name: "q", MaxConcurrent: 1, Paused: true}
		}), FleetPaused, "EtcdFleetPolicy q"},
		"one ahead takes the last slot": {situation(holders(holding("a")), others(waiting("b", func(c *Candidate) { c.Class = Person }))), WaitingForSlot, "b/etcd-b runs task"},
		"one ahead is the canary":       {situation(newChange, others(waiting("b", func(c *Candidate) { c.Since = noon.Add(-time.Hour) }))), WaitingForCanary, "b/etcd-b"},
		"one ahead that may not start":  {situation(holders(holding("a")), others(waiting("b", func(c *Candidate) { c.Class, c.Change = Person, "B" })), history(Change{Policy: "p", Name: "A", Passed: 1}, Change{Policy: "p", Name: "B", Failures: failed.Failures})), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(c.in, "w1")
			got, says := Reason(""), ""
			if d.Hold != nil {
				got, says = d.Hold.Reason, d.Hold.Message
				if d.Hold.Policy == "" {
					t.Error("it names no policy")
				}
			}
			if got != c.reason || !strings.Contains(says, c.says) {
				t.Errorf("%q: %s", got, says)
			}
		})
	}
}

// inLine returns the tasks that wait, in the order in which they are asked.
func inLine(in Input) []types.UID {
	s := newState(in)
	var all []types.UID
	s.pass(func(next *Candidate, _ *Hold, _ bool) bool {
		all = append(all, next.Task)
		return true
	})
	return all
}

// What is in line, in the order in which it starts.
func TestOrder(t *testing.T) {
	wave := func(w string) func(*Candidate) { return func(c *Candidate) { c.Wave = w } }
	own := func(w string) func(*Candidate) { return func(c *Candidate) { c.OwnWave = w } }
	class := func(n Class) func(*Candidate) { return func(c *Candidate) { c.Class = n } }
	ago := func(d time.Duration) func(*Candidate) { return func(c *Candidate) { c.Since = noon.Add(-d) } }
	// In these, those ahead are served before others are asked.
	served := []string{"fair", "an aged class stays fair", "by wave in a namespace"}
	for name, c := range map[string]struct {
		waiting []Candidate
		change  func(*Input)
		want    string
	}{
		"by class":                   {[]Candidate{waiting("d", class(Upkeep)), waiting("c", class(Automatic)), waiting("b", class(Person)), waiting("a", class(Repair))}, nil, "a b c d"},
		"first in, first out":        {[]Candidate{waiting("a1"), waiting("a2", ago(20*time.Minute)), waiting("a3", ago(15*time.Minute))}, nil, "a2 a3 a1"},
		"at the same time, by UID":   {[]Candidate{waiting("a2"), waiting("a1")}, nil, "a1 a2"},
		"one class up after an hour": {[]Candidate{waiting("b", class(Person)), waiting("a", class(Automatic), ago(time.Hour)), waiting("c", class(Automatic), ago(time.Hour-1)), waiting("d", class(Upkeep), ago(time.Hour))}, nil, "a c b d"},
		"an aged class stays fair":   {[]Candidate{waiting("a1", ago(9*time.Hour)), waiting("a2", ago(2*time.Hour)), waiting("b")}, nil, "a1 b a2"},
		"by wave in a namespace":     {[]Candidate{waiting("a1", own("2")), waiting("a2", own("1")), waiting("b1", own("9")), waiting("b2")}, nil, "a2 b1 a1 b2"},
		"not among namespaces":       {[]Candidate{waiting("a", own("1")), waiting("b", ago(11*time.Minute))}, nil, "b a"},
		"of whom the first comes":    {[]Candidate{waiting("a1", own("2"), wave("1")), waiting("a2", own("1"), wave("1")), waiting("b1", own("0"), wave("2"))}, nil, "a2 a1 b1"},
		"a person stays one":         {[]Candidate{waiting("b", class(Person), ago(9*time.Hour)), waiting("a", class(Repair))}, nil, "a b"},
		"by wave":                    {[]Candidate{waiting("e"), waiting("c", wave("late")), waiting("d", wave("early")), waiting("b", wave("10")), waiting("a", wave("9")), waiting("f", wave("-1"))}, nil, "f a b d c e"},
		"fair":                       {[]Candidate{waiting("a1"), waiting("a2"), waiting("a3"), waiting("b1", ago(time.Minute)), waiting("c1", ago(time.Second))}, nil, "a1 b1 c1 a2 a3"},
		"who has been served waits":  {[]Candidate{waiting("a1"), waiting("b1", ago(time.Second))}, func(in *Input) { in.Served["a"] = 1 }, "b1 a1"},
		"what failed goes first": {[]Candidate{waiting("a", wave("1")), waiting("b"), waiting("c")}, func(in *Input) {
			failing("c")(in)
			in.Policies["p"].Canary.Chosen["etcd-b"] = true
		}, "c b a"},
		"not what changes nothing": {[]Candidate{waiting("a"), waiting("c", func(c *Candidate) { c.Change = "" })}, failing("c"), "a c"},
	} {
		t.Run(name, func(t *testing.T) {
			in := situation(policy(func(p *Policy) { p.MaxConcurrent = 100 }))
			in.Waiting = c.waiting
			if c.change != nil {
				c.change(&in)
			}
			if got := strings.Trim(fmt.Sprint(inLine(in)), "[]"); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			for i, uid := range inLine(in) {
				if got := Decide(in, uid).Before; len(in.Served) == 0 && !slices.Contains(served, name) && got != i {
					t.Errorf("%d are before %s, want %d", got, uid, i)
				}
			}
		})
	}
}

// Clusters that were chosen as canaries begin before others that asked first, also where they wait for one in which the last change failed.
func TestTheChosenBeginFirst(t *testing.T) {
	asked := func(ago time.Duration) func(*Candidate) {
		return func(c *Candidate) { c.ChangeSince = noon.Add(-ago) }
	}
	for name, c := range map[string]struct {
		// other and chosen is how long ago each asked for the change.
		other, chosen time.Duration
		change        func(*Input)
		want          string
	}{
		"at once":                            {4 * time.Second, time.Second, nil, "[c]"},
		"a change has failed":                {4 * time.Second, time.Second, failing("x"), "[]"},
		"a minute after the other has asked": {time.Minute, 57 * time.Second, failing("x"), "[c]"},
		"and not before":                     {time.Minute - 1, 57 * time.Second, failing("x"), "[]"},
		"it has asked first":                 {57 * time.Second, time.Minute, failing("x"), "[c]"},
		"of another policy":                  {4 * time.Second, time.Second, func(in *Input) { failing("x")(in); in.Covering["x"] = []string{"q"} }, "[c]"},
		"the other asked for another, before": {4 * time.Second, time.Second, func(in *Input) {
			failing("x")(in)
			in.Waiting = append(in.Waiting, waiting("e", asked(time.Hour), func(c *Candidate) { c.Change = "B" }))
			in.Ledger.Changes = []Change{{Policy: "p", Name: "B", Failures: []Failure{{}}}}
		}, "[]"},
	} {
		in := situation(history(), policy(func(p *Policy) { p.Canary.Chosen["etcd-c"] = true }))
		if in.Waiting = []Candidate{waiting("d", asked(c.other)), waiting("c", asked(c.chosen))}; c.change != nil {
			c.change(&in)
		}
		next, _ := Next(in)
		if got := fmt.Sprint(next); got != c.want {
			t.Errorf("%s: %s start, want %s", name, got, c.want)
		}
		if d := Decide(in, "d"); d.Hold == nil || d.Hold.Reason != WaitingForCanary {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// As many are woken as there are slots, and each of them gets one.
func TestNext(t *testing.T) {
	in := situation(others(waiting("a"), waiting("b"), waiting("c")), policy(func(p *Policy) { p.MaxConcurrent = 3 }), holders(holding("x")))
	next, _ := Next(in)
	if fmt.Sprint(next) != "[a b]" {
		t.Errorf("%v", next)
	}
	for _, uid := range next {
		if d := Decide(in, uid); d.Hold != nil || d.Canary {
			t.Errorf("%s: %+v", uid, d)
		}
	}
	if got := Used(in, "p"); got != 1 {
		t.Errorf("%d are used", got)
	}
	if got := Used(situation(holders(holding("x")), impaired("y", noon, false), impaired("z", noon.Add(-9*time.Hour), false)), "p"); got != 3 {
		t.Errorf("%d are used", got)
	}
	if Used(in, "q") != 0 || Decide(in, "gone").Hold == nil {
		t.Error("what is not there")
	}
	first := situation(history())
	d := Decide(first, "w1")
	if h := Grant(first, "w1", d); !d.Canary || !h.Canary || h.Change != "A" || h.Etcd != "etcd-w1" || fmt.Sprint(h.Policies) != "[p]" || !h.Granted.Equal(noon) || h.Impaired {
		t.Errorf("%+v %+v", d, h)
	}
}

// A message names five clusters, and counts the others.
func TestLongMessages(t *testing.T) {
	change := Change{Policy: "p", Name: "A", Resumed: 2}
	var all []Holder
	for i := range 7 {
		name := string(rune('a' + i))
		change.Failures = append(change.Failures, Failure{Etcd: types.UID("etcd-" + name), Namespace: name, EtcdName: "main", Reason: "no"})
		all = append(all, holding(name))
	}
	if m := change.PausedMessage("A"); !strings.Contains(m, "e/main (no); 2 more. ") || !strings.HasSuffix(m, "=A.2") {
		t.Error(m)
	}
	change.Failures = change.Failures[:maxNamed+1]
	if m := change.PausedMessage("A"); !strings.Contains(m, "e/main (no); 1 more. ") {
		t.Error(m)
	}
	d := Decide(situation(holders(all...)), "w1")
	if !strings.HasSuffix(d.Hold.Message, "e/etcd-e runs task task-e, 2 more") {
		t.Error(d.Hold.Message)
	}
	// Clusters are counted, and not their tasks.
	all = append(all[:maxNamed+1], holding("a", func(h *Holder) { h.Task = "again" }), holding("f", func(h *Holder) { h.Task = "again" }))
	pointers := make([]*Holder, len(all))
	for i := range all {
		pointers[i] = &all[i]
	}
	if m := named(pointers); !strings.HasSuffix(m, "e/etcd-e runs task task-e, 1 more") {
		t.Error(m)
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []struct{ clusters, percent, want int }{{7, 50, 3}, {7, 100, 7}, {1000, 10, 100}, {9, 10, 1}, {0, 10, 1}, {7, 0, 0}, {199, 1, 1}, {200, 1, 2}} {
		if got := (&Policy{MaxConcurrent: c.percent, Percent: true, Clusters: c.clusters}).Limit(); got != c.want {
			t.Errorf("%d %% of %d are %d, want %d", c.percent, c.clusters, got, c.want)
		}
	}
	if (&Policy{MaxConcurrent: -1}).Limit() != 0 || (&Policy{MaxConcurrent: 4, Clusters: 1}).Limit() != 4 {
		t.Error("a number")
	}
}

// How long tasks have waited for a slot counts from when the last one was given, by each policy. What waits for something else does not
// count.
func TestHowLongASlotIsAwaited(t *testing.T) {
	full := holders(holding("a"), holding("b"))
	since := waiting("w1").Since
	soaks := policy(func(p *Policy) { p.Soak, p.Canary.Soak = 5*time.Minute, 10*time.Minute })
	for name, c := range map[string]struct {
		in   Input
		want time.Time
	}{
		"nothing waits":              {situation(func(in *Input) { in.Waiting = nil }), time.Time{}},
		"a slot is free":             {situation(), time.Time{}},
		"a window is closed":         {situation(full, policy(func(p *Policy) { p.Paused = true })), time.Time{}},
		"a canary's task runs":       {situation(history(), holders(holding("a", func(h *Holder) { h.Canary, h.Granted = true, since.Add(-time.Hour) }))), since},
		"a canary is watched":        {situation(history(), holders(holding("a", canary))), time.Time{}},
		"it is, as long as it may":   {situation(history(), soaks, holders(holding("a", canary, func(h *Holder) { h.Granted, h.Ended = since.Add(-time.Hour), noon.Add(-21*time.Minute) }))), time.Time{}},
		"for longer":                 {situation(history(), soaks, holders(holding("a", canary, func(h *Holder) { h.Granted, h.Ended = since.Add(-time.Hour), noon.Add(-22*time.Minute) }))), since},
		"the last was given later":   {situation(full), noon.Add(-time.Minute)},
		"a namespace has its share":  {situation(share(4, 2, false), holders(holding("w2"), holding("w3"))), time.Time{}},
		"others wait for a slot":     {situation(share(2, 1, false), holders(holding("w2"), holding("a")), others(waiting("x"))), noon.Add(-time.Minute)},
		"it was given before":        {situation(holders(holding("a", func(h *Holder) { h.Granted = since.Add(-time.Hour) }), holding("b", func(h *Holder) { h.Granted = since.Add(-time.Hour) }))), since},
		"a change went on":           {situation(full, history(Change{Policy: "p", Name: "A", Passed: 1, Last: noon})), noon},
		"a change of another policy": {situation(full, history(Change{Policy: "p", Name: "A", Passed: 1}, Change{Policy: "q", Name: "A", Last: noon})), noon.Add(-time.Minute)},
		"the first that waits counts": {situation(holders(holding("a", func(h *Holder) { h.Granted = time.Time{} }), holding("b", func(h *Holder) { h.Granted = time.Time{} })),
			others(waiting("x", func(c *Candidate) { c.Since = since.Add(-time.Hour) }))), since.Add(-time.Hour)},
	} {
		if _, got := Next(c.in); !got["p"].Equal(c.want) {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// With one slot, clusters without a quorum whose tasks would bring it back do not wait for each other, and start one after the other;
// those that lack nothing come last.
func TestClustersWithoutAQuorum(t *testing.T) {
	in := situation(policy(func(p *Policy) { p.MaxConcurrent = 1 }), others(waiting("x"), waiting("y")), impaired("x", noon, false), impaired("y", noon, false))
	var started []types.UID
	for range in.Waiting {
		next, _ := Next(in)
		if len(next) != 1 {
			t.Fatalf("after %v, %v start", started, next)
		}
		started = append(started, next[0])
		in.Waiting = slices.DeleteFunc(in.Waiting, func(c Candidate) bool { return c.Task == next[0] })
		in.Ledger.Grant(holding(string(next[0])))
		if more, _ := Next(in); len(more) > 0 {
			t.Fatalf("%v start beside %v", more, next)
		}
		in.Ledger.Release(next[0], noon)
		in.Impaired = slices.DeleteFunc(in.Impaired, func(i Impaired) bool { return i.Etcd == "etcd-"+next[0] })
	}
	if fmt.Sprint(started) != "[x y w1]" {
		t.Errorf("%v", started)
	}
}
