// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"k8s.io/apimachinery/pkg/util/duration"
)

// lines returns a verdict for people.
func lines(in diagnose.Input, v diagnose.Verdict, width int) []string {
	all := append(text.Wrap(in.Summary(), 0, width), "", "VERDICT")
	all = append(all, text.Wrap(v.Headline, 0, width)...)
	rest := v.Findings
	if len(rest) > 0 && rest[0].Slows {
		all = append(all, findingLines(rest[0], width)...)
		rest = rest[1:]
	} else {
		all = append(all, symptomLines(v, width)...)
	}
	all = append(all, adviceLines(v.Advice, width)...)
	if len(rest) > 0 {
		all = append(all, "", "ALSO")
	}
	for _, f := range rest {
		all = append(all, text.Wrap(Title(f), 0, width)...)
		all = append(all, findingLines(f, width)...)
	}
	if t := figures(in); len(t.Rows) > 0 {
		all = append(all, "", "MEMBERS")
		all = append(all, t.Lines(width)...)
	}
	all = append(all, hotLines(in, v, width)...)
	if t := written("KEY", in.HotKeys, in.Events); len(t.Rows) > 0 {
		all = append(all, "", "HOT KEYS")
		all = append(all, t.Lines(width)...)
	}
	if at := in.AtRest; at != nil {
		all = append(all, "", "LARGE PREFIXES")
		all = append(all, text.Wrap(fmt.Sprintf("In full snapshot %s, taken %s ago: %d keys, %s with earlier revisions, in a database of %s.",
			at.Snapshot, duration.HumanDuration(at.Age), at.Keys, text.Size(at.Stored), text.Size(at.Database)), 0, width)...)
		all = append(all, stored(at).Lines(width)...)
	}
	return append(all, missingLines(v, width)...)
}

// hotLines returns the prefixes that are written most, and who counted them.
func hotLines(in diagnose.Input, v diagnose.Verdict, width int) []string {
	t := written("PREFIX", in.HotPrefixes, in.Events)
	isVoid := slices.ContainsFunc(v.Missing, func(m diagnose.Missing) bool { return m.Signal == diagnose.SignalPrefixes })
	if len(t.Rows) == 0 && (in.Counted == nil || isVoid) {
		return nil
	}
	all := []string{"", "HOT PREFIXES"}
	if in.Counted != nil {
		say := "Nothing was written"
		if in.Events > 0 {
			say = plural(int(in.Events), "event")
		}
		all = append(all, text.Wrap(fmt.Sprintf("%s, by %s.", say, in.Counted), 0, width)...)
	}
	if len(t.Rows) == 0 {
		return all
	}
	return append(all, t.Lines(width)...)
}

// stored returns a table with the prefixes below which most is stored.
func stored(at *diagnose.AtRest) *text.Table {
	t := &text.Table{Columns: []text.Column{{Name: "PREFIX"}, {Name: "STORED"}, {Name: "SHARE"}, {Name: "KEYS"}, {Name: "PRESENT", Rank: 1}, {Name: "LARGEST", Rank: 2}, {Name: "REVISIONS", Rank: 3}, {Name: "DELETIONS", Rank: 4}}}
	for _, p := range at.Prefixes[:min(len(at.Prefixes), shownPrefixes)] {
		t.Add(p.Prefix, text.Size(p.Stored), share(p.Stored, at.Stored), fmt.Sprint(p.Keys), text.Size(p.Bytes), text.Size(p.Largest), fmt.Sprint(p.Revisions), fmt.Sprint(p.Deletions))
	}
	return t
}

// shownPrefixes is how many prefixes or keys are shown.
const shownPrefixes = 10

// written returns a table with the prefixes or keys that are written most.
func written(name string, most []diagnose.HotPrefix, events int64) *text.Table {
	t := &text.Table{Columns: []text.Column{{Name: name}, {Name: "EVENTS"}, {Name: "SHARE"}, {Name: "WRITTEN", Rank: 1}}}
	for _, p := range most[:min(len(most), shownPrefixes)] {
		t.Add(p.Prefix, fmt.Sprint(p.Events), share(p.Events, events), text.Size(p.Bytes))
	}
	return t
}

// share returns a part in percent, rounded down. Who told both numbers may have made them up.
func share(part, whole int64) string {
	return fmt.Sprintf("%.0f%%", math.Floor(min(100*max(float64(part), 0)/max(float64(whole), 1), 100)))
}

// Title returns a finding in a line.
func Title(f diagnose.Finding) string {
	say := f.Title
	if len(f.Members) > 0 {
		say += ", at " + strings.Join(f.Members, " and ")
	}
	say += fmt.Sprintf(" (%s)", f.Grade)
	if len(f.FollowsFrom) > 0 {
		causes := make([]string, len(f.FollowsFrom))
		for i, c := range f.FollowsFrom {
			causes[i] = string(c)
		}
		say += "; it follows from " + strings.Join(causes, ", ")
	}
	return say + "."
}

// findingLines returns what a finding rests on, and what to do.
func findingLines(f diagnose.Finding, width int) []string {
	var all []string
	item := func(s string) { all = append(all, itemLines(s, width)...) }
	for _, say := range evidence(f.Evidence) {
		item(say)
	}
	for _, r := range f.RulesOut {
		item("Not " + r)
	}
	if len(f.FollowsFrom) > 0 {
		return all
	}
	return append(all, adviceLines(f.Advice, width)...)
}

// symptomLines returns what shows that etcd is slow if no cause does, but for what the headline says.
func symptomLines(v diagnose.Verdict, width int) []string {
	var all []string
	for _, say := range evidence(v.Symptoms) {
		if !strings.Contains(v.Headline, say) {
			all = append(all, itemLines(say, width)...)
		}
	}
	return all
}

// evidence returns figures as sentences, the worst of each signal.
func evidence(of []diagnose.Evidence) []string {
	var all []string
	worst, others := diagnose.Finding{Evidence: of}.Worst()
	for i, e := range worst {
		say := e.String()
		if others[i] > 0 {
			say += "; also at " + plural(others[i], "other member")
		}
		all = append(all, say)
	}
	return all
}

// itemLines returns an item of a list.
func itemLines(s string, width int) []string {
	all := text.Wrap(s, 4, width)
	all[0] = "  - " + all[0]
	return all
}

func adviceLines(advice []diagnose.Advice, width int) []string {
	var all []string
	for _, a := range advice {
		all = append(all, itemLines("To do: "+a.Text, width)...)
		if a.Command != "" {
			all = append(all, "      "+a.Command)
		}
	}
	return all
}

// figures returns a table with what was measured of each member.
func figures(in diagnose.Input) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "MEMBER"}, {Name: "ROLE"}, {Name: "LINEARIZABLE"}, {Name: "SERIALIZABLE"}, {Name: "FSYNC P99"}, {Name: "COMMIT P99", Rank: 1},
		{Name: "ROUND TRIP", Rank: 2}, {Name: "WRITES/S", Rank: 3}, {Name: "CPU", Rank: 4},
	}}
	for _, f := range in.Figures() {
		t.Add(f.Member, text.OrDash(f.Role), text.OrDash(f.Linearizable), text.OrDash(f.Serializable), text.OrDash(f.Fsync), text.OrDash(f.Commit), text.OrDash(f.RoundTrip), text.OrDash(f.Writes), text.OrDash(f.CPU))
	}
	return t
}

// missingLines returns what could not be had, and what that leaves open.
func missingLines(v diagnose.Verdict, width int) []string {
	if len(v.Missing) == 0 && len(v.NotJudged) == 0 {
		return nil
	}
	all := []string{"", "NOT SEEN"}
	for _, m := range merged(v.Missing) {
		all = append(all, text.Wrap(m, 2, width)...)
	}
	if len(v.NotJudged) > 0 {
		causes := make([]string, len(v.NotJudged))
		for i, c := range v.NotJudged {
			causes[i] = string(c)
		}
		all = append(all, text.Wrap("Not judged, for lack of figures: "+strings.Join(causes, ", ")+".", 2, width)...)
	}
	return all
}

// merged returns sentences about what is missing; what is missing of several members for one reason is one sentence.
func merged(all []diagnose.Missing) []string {
	var say []string
	seen := map[diagnose.Missing][]string{}
	var order []diagnose.Missing
	for _, m := range all {
		key := m
		key.Member = ""
		if _, ok := seen[key]; !ok {
			order = append(order, key)
		}
		seen[key] = append(seen[key], m.Member)
	}
	for _, m := range order {
		of := ""
		members := slices.DeleteFunc(seen[m], func(s string) bool { return s == "" })
		if len(members) > 0 {
			of = " of " + strings.Join(members, ", ")
		}
		sentence := fmt.Sprintf("%s%s: %s.", m.Signal, of, strings.TrimSuffix(m.Why, "."))
		if m.Remedy != "" {
			sentence += " What would give it: " + m.Remedy + "."
		}
		say = append(say, sentence)
	}
	return say
}

// document is the output for scripts.
type document struct {
	Namespace string `json:"namespace"`
	Etcd      string `json:"etcd"`
	// Seconds is how long the measurement took.
	Seconds float64 `json:"seconds"`
	Summary string  `json:"summary"`
	diagnose.Verdict
	Members     []diagnose.Figures   `json:"members,omitempty"`
	HotPrefixes []diagnose.HotPrefix `json:"hotPrefixes,omitempty"`
	HotKeys     []diagnose.HotPrefix `json:"hotKeys,omitempty"`
	Counted     *diagnose.Counted    `json:"counted,omitempty"`
	AtRest      *diagnose.AtRest     `json:"atRest,omitempty"`
}

func newDocument(in diagnose.Input, v diagnose.Verdict) document {
	return document{in.Namespace, in.Etcd, in.Window.Round(time.Millisecond).Seconds(), in.Summary(), v, in.Figures(), in.HotPrefixes, in.HotKeys, in.Counted, in.AtRest}
}
