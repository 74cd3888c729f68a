// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The median counts a start that found nothing as longer than any other.
func TestMedian(t *testing.T) {
	found := func(took int) hunt { return hunt{Seeds: took, Took: time.Duration(took) * time.Second, As: "x"} }
	lost := hunt{Seeds: 1, Took: time.Second}
	for _, test := range []struct {
		of   []hunt
		want hunt
	}{
		{nil, hunt{}},
		{[]hunt{found(9)}, found(9)},
		{[]hunt{found(9), lost, found(2)}, found(9)},
		{[]hunt{lost, found(5), lost}, lost},
		{[]hunt{found(3), found(1), found(2)}, found(2)},
	} {
		if got := median(test.of); got != test.want {
			t.Errorf("the median of %v is %v", test.of, got)
		}
	}
}

func TestPage(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, resultsFile)
	for _, dir := range []string{path, filepath.Join(root, resultsPage)} {
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	hunts := []hunt{{Seeds: 7, Took: 3 * time.Second, As: "it breaks"}}
	for _, r := range []result{
		{Bug: "a", Issue: "it did this", Date: "2026-11-28", Commit: "abc", Load: "9", Swarm: []hunt{{Seeds: 40, Took: time.Minute}}},
		{Bug: "c", Date: "2026-11-28", Commit: "abc", Modeled: "there is none"},
		{Bug: "b", Date: "2026-11-28", Commit: "abc", Load: "9", Swarm: hunts},
		{Bug: "a", Issue: "it did this", Date: "2026-11-28", Commit: "abc", Load: "9", Swarm: hunts, Plain: []hunt{{Seeds: 40, Took: time.Minute}}},
	} {
		if err := r.record(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := page(root); err != nil {
		t.Fatal(err)
	}
	got := read(t, filepath.Join(root, resultsPage))
	for _, want := range []string{
		"| a | it did this | seed 7, 3s (1 of 1) | not in 40 seeds, 1m0s (0 of 1) | it breaks | 2026-11-28, abc, load 9 |\n",
		"| c | not expressible: there is none |  |  | 2026-11-28, abc |\n",
		"| b | seed 7, 3s (1 of 1) | not measured | it breaks | 2026-11-28, abc, load 9 |\n",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("the page does not have %q once: %s", want, got)
		}
	}
}

// The page of the repository has what was recorded.
func TestPageIsWritten(t *testing.T) {
	const root = "../../.."
	copied := t.TempDir()
	for _, file := range []string{resultsFile, resultsPage} {
		if err := copyFile(filepath.Join(root, file), filepath.Join(copied, file)); err != nil {
			t.Fatal(err)
		}
	}
	if err := page(copied); err != nil {
		t.Fatal(err)
	}
	if read(t, filepath.Join(copied, resultsPage)) != read(t, filepath.Join(root, resultsPage)) {
		t.Errorf("%s is not what the program writes: run go run ./test/robustness/seeded -page", resultsPage)
	}
}
