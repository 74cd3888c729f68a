// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package engine runs attacks, and tells what they have found.
package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/attack/dangers"
	"github.com/etcd-foreman/etcd-foreman/test/attack/scene"
	"github.com/etcd-foreman/etcd-foreman/test/measure/console"
)

// Attack is one attempt to do something that the operator has to prevent.
type Attack struct {
	// Item is the number of the danger.
	Item int
	What string
	By   string
	Want string
	Try  func(context.Context, *scene.Tenant) (Finding, error)
}

// Finding is what an attack has found.
type Finding struct {
	Seen string
	Held bool
}

// Found is a finding: what was seen, and whether the operator has held.
func Found(seen string, held bool) Finding { return Finding{seen, held} }

// Held is the finding of an attack that failed.
func Held(format string, args ...any) Finding { return Finding{fmt.Sprintf(format, args...), true} }

// Broken is the finding of an attack that succeeded.
func Broken(format string, args ...any) Finding { return Finding{fmt.Sprintf(format, args...), false} }

// Group of attacks that share a namespace, and run one after another.
type Group struct {
	Name    string
	Attacks []Attack
}

// Result of an attack.
type Result struct {
	Attack
	Finding
	Err error
}

// Run runs the groups side by side, and returns the results in the order of their items.
func Run(ctx context.Context, s *scene.Scene, groups []Group, out *console.Console) []Result {
	var (
		mutex   sync.Mutex
		results []Result
		all     sync.WaitGroup
	)
	for _, g := range groups {
		all.Go(func() {
			t, err := s.Tenant(ctx, g.Name)
			if err == nil {
				defer t.Leave()
			}
			for _, a := range g.Attacks {
				r := Result{Attack: a, Err: err}
				if err == nil {
					r.Finding, r.Err = a.Try(ctx, t)
				}
				mutex.Lock()
				results = append(results, r)
				mutex.Unlock()
				out.Line("%-7s item %2d, %s: %s", r.mark(), r.Item, r.What, r.said())
			}
		})
	}
	all.Wait()
	slices.SortStableFunc(results, func(a, b Result) int { return a.Item - b.Item })
	return results
}

func (r Result) mark() string {
	switch {
	case r.Err != nil:
		return "?"
	case r.Held:
		return "held"
	}
	return "BROKEN"
}

func (r Result) said() string {
	if r.Err != nil {
		return "not tried: " + r.Err.Error()
	}
	return r.Seen
}

// Render returns the results, and what is shown elsewhere, as a table.
func Render(title string, results []Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Attacks: %s (%s)\n\n", title, time.Now().UTC().Format(time.RFC3339))
	b.WriteString("| item | tried | by | expected | seen | |\n|---|---|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s |\n", r.Item, cell(r.What), cell(r.By), cell(r.Want), cell(r.said()), r.mark())
	}
	b.WriteString("\nShown by faults inside the operator or the agent:\n\n| item | danger | tests |\n|---|---|---|\n")
	for _, d := range dangers.List {
		if len(d.ShownBy) > 0 {
			fmt.Fprintf(&b, "| %d | %s | %s |\n", d.Number, cell(d.What), strings.Join(d.ShownBy, "<br>"))
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

// Verdict returns an error unless each attack was tried and failed.
func Verdict(results []Result) error {
	var errs []error
	for _, r := range results {
		switch {
		case r.Err != nil:
			errs = append(errs, fmt.Errorf("item %d could not be tried (%s): %w", r.Item, r.What, r.Err))
		case !r.Held:
			errs = append(errs, fmt.Errorf("item %d: %s: %s", r.Item, r.What, r.Seen))
		}
	}
	return errors.Join(errs...)
}
