// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
)

// attack is one attempt to do something that the operator has to prevent.
type attack struct {
	// item of the list of dangers in items.
	item int
	what string
	by   string
	want string
	try  func(context.Context, *tenant) (finding, error)
}

// finding is what an attack has found.
type finding struct {
	seen string
	held bool
}

func held(format string, args ...any) finding   { return finding{fmt.Sprintf(format, args...), true} }
func broken(format string, args ...any) finding { return finding{fmt.Sprintf(format, args...), false} }

// group of attacks that share a namespace, and run one after another.
type group struct {
	name    string
	attacks []attack
}

var groups = []group{
	{"rights", rightsAttacks},
	{"tasks", taskAttacks},
	{"crowd", crowdAttacks},
	{"owners", ownerAttacks},
	{"claims", claimAttacks},
	{"healthy", healthyAttacks},
	{"backups", backupAttacks},
	{"texts", textAttacks},
}

// result of an attack.
type result struct {
	attack
	finding
	err error
}

// attackAll runs the groups side by side, and returns the results in the order of their items.
func attackAll(ctx context.Context, s *scene, groups []group, out *console.Console) []result {
	var (
		mutex   sync.Mutex
		results []result
		all     sync.WaitGroup
	)
	for _, g := range groups {
		all.Go(func() {
			t, err := s.tenant(ctx, g.name)
			if err == nil {
				defer t.leave()
			}
			for _, a := range g.attacks {
				r := result{attack: a, err: err}
				if err == nil {
					r.finding, r.err = a.try(ctx, t)
				}
				mutex.Lock()
				results = append(results, r)
				mutex.Unlock()
				out.Line("%-7s item %2d, %s: %s", r.mark(), r.item, r.what, r.said())
			}
		})
	}
	all.Wait()
	slices.SortStableFunc(results, func(a, b result) int { return a.item - b.item })
	return results
}

func (r result) mark() string {
	switch {
	case r.err != nil:
		return "?"
	case r.held:
		return "held"
	}
	return "BROKEN"
}

func (r result) said() string {
	if r.err != nil {
		return "not tried: " + r.err.Error()
	}
	return r.seen
}

// render returns the results, and what is shown elsewhere, as a table.
func render(title string, results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Attacks: %s (%s)\n\n", title, time.Now().UTC().Format(time.RFC3339))
	b.WriteString("| item | tried | by | expected | seen | |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s |\n", r.item, cell(r.what), cell(r.by), cell(r.want), cell(r.said()), r.mark())
	}
	b.WriteString("\nShown by faults inside the operator or the agent:\n\n| item | danger | tests |\n|---|---|---|\n")
	for _, i := range items {
		if len(i.shownBy) > 0 {
			fmt.Fprintf(&b, "| %d | %s | %s |\n", i.number, cell(i.danger), strings.Join(i.shownBy, "<br>"))
		}
	}
	return b.String()
}

// cell returns text as it fits into a table.
func cell(text string) string {
	const most = 300
	text = strings.NewReplacer("|", "\\|", "\n", " ").Replace(text)
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return text
}
