// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Where results are, and the page that is written of them.
const (
	resultsFile = "test/robustness/seeded/results.json"
	resultsPage = "docs/simulation-results.md"
)

// result is what has become of a bug that was put to the simulation.
type result struct {
	Bug string `json:"bug"`
	// Issue says what the operator once did; empty for a bug that it never had.
	Issue  string        `json:"issue,omitempty"`
	Date   string        `json:"date"`
	Commit string        `json:"commit"`
	Load   string        `json:"load"`
	Within time.Duration `json:"within"`
	// Modeled is why the simulation cannot show it; empty if it can.
	Modeled string `json:"modeled,omitempty"`
	// Swarm and Plain are the hunts with each way to draw scripts.
	Swarm []hunt `json:"swarm"`
	Plain []hunt `json:"plain,omitempty"`
}

// record keeps a result in place of an earlier one of the bug.
func (r result) record(path string) error {
	all, err := readResults(path)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(all, func(o result) bool { return o.Bug == r.Bug }); i >= 0 {
		all[i] = r
	} else {
		all = append(all, r)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the results: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

func readResults(path string) (all []result, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return all, nil
}

// row is what a table has of a result, after the name of the bug.
func (r result) row() string {
	if r.Modeled != "" {
		return strings.Join([]string{"not expressible: " + r.Modeled, "", "", r.Date + ", " + r.Commit}, " | ")
	}
	swarm, as := median(r.Swarm), ""
	for _, h := range r.Swarm {
		if as == "" {
			as = h.As
		}
	}
	if swarm.As != "" {
		as = swarm.As
	}
	return strings.Join([]string{of(r.Swarm), of(r.Plain), as, fmt.Sprintf("%s, %s, load %s", r.Date, r.Commit, r.Load)}, " | ")
}

// of describes some hunts: their median, and how many of them found the bug.
func of(hunts []hunt) string {
	if len(hunts) == 0 {
		return "not measured"
	}
	found, m := 0, median(hunts)
	for _, h := range hunts {
		if h.As != "" {
			found++
		}
	}
	text := fmt.Sprintf("seed %d, %s (%d of %d)", m.Seeds, m.Took.Round(100*time.Millisecond), found, len(hunts))
	if m.As == "" {
		text = fmt.Sprintf("not in %d seeds, %s (%d of %d)", m.Seeds, m.Took.Round(time.Second), found, len(hunts))
	}
	return text
}

// page writes the page of the results.
func page(root string) error {
	all, err := readResults(filepath.Join(root, resultsFile))
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(`# Simulation: what it finds of seeded bugs

Bugs that are put into the operator, and looked for with random seeds of the [simulation](simulation.md), unaided, from several first seeds. Each cell has the median: the seed, counted from the first one, and the time of the processor until then, with that of the system; in brackets, how many of the starts found it. A seed that breaks something without the bug, too, does not count. *Plain* draws each user and each fault with equal chances, for comparison. ` + "`go run ./test/robustness/seeded -simulate 2000 -within 10m -starts 3 -plain`" + ` finds them, and writes this page, from ` + "`" + resultsFile + "`" + `.
`)
	for _, once := range []bool{true, false} {
		b.WriteString(map[bool]string{
			true:  "\n## Defects that the operator once had\n\nPut back by reverting what fixed them.\n\n| defect | what it was | found by | plain | as | measured |\n|---|---|---|---|---|---|\n",
			false: "\n## Bugs that it never had\n\n| bug | found by | plain | as | measured |\n|---|---|---|---|---|\n",
		}[once])
		for _, r := range all {
			switch {
			case once && r.Issue != "":
				fmt.Fprintf(&b, "| %s | %s | %s |\n", r.Bug, r.Issue, r.row())
			case !once && r.Issue == "":
				fmt.Fprintf(&b, "| %s | %s |\n", r.Bug, r.row())
			}
		}
	}
	return os.WriteFile(filepath.Join(root, resultsPage), []byte(b.String()), 0o644)
}
