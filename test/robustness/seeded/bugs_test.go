// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/operations"
)

// The bugs fit the source: who changes what they replace has to adapt them.
func TestBugsFitTheSource(t *testing.T) {
	const root = "../../.."
	if len(bugs) < 8 {
		t.Errorf("there are %d bugs", len(bugs))
	}
	for _, b := range slices.Concat(bugs, defects) {
		copied := t.TempDir()
		before := map[string]string{}
		for _, e := range b.Edits {
			if err := copyFile(filepath.Join(root, e.File), filepath.Join(copied, e.File)); err != nil {
				t.Fatal(err)
			}
			before[e.File] = read(t, filepath.Join(copied, e.File))
		}
		undo, err := b.seed(copied)
		if err != nil {
			t.Error(err)
			continue
		}
		for file, was := range before {
			if read(t, filepath.Join(copied, file)) == was {
				t.Errorf("%s: %s was not changed", b.Name, file)
			}
		}
		undo()
		for file, was := range before {
			if read(t, filepath.Join(copied, file)) != was {
				t.Errorf("%s: the change of %s was not undone", b.Name, file)
			}
		}
		checkNames(t, b)
	}
}

func checkNames(t *testing.T, b bug) {
	t.Helper()
	for name := range strings.SplitSeq(b.Operations, ",") {
		if name == "" {
			continue // it is for the simulation alone
		}
		if _, known := operations.Named(name); !known {
			t.Errorf("%s: there is no operation %q", b.Name, name)
		}
	}
	if b.Faults == "" {
		return
	}
	for name := range strings.SplitSeq(b.Faults, ",") {
		if _, known := faults.Named(name); !known {
			t.Errorf("%s: there is no fault %q", b.Name, name)
		}
	}
}

func TestFlags(t *testing.T) {
	for name, test := range map[string]struct {
		bug    bug
		length string
		want   string
	}{
		"with what the test has by default": {
			bug{Name: "b", Operations: "rollout", Length: time.Minute}, "0s",
			"-seed=1 -length=1m0s -patience=1m10s -after=0s -bug=b -operations=rollout -results=r -most-faults=0",
		},
		"with members": {
			bug{Name: "b", Operations: "recovery", Members: 5, Length: time.Minute, Patience: 2 * time.Minute}, "0s",
			"-seed=1 -length=1m0s -patience=2m0s -after=0s -bug=b -operations=recovery -results=r -members=5 -most-faults=0",
		},
		"with faults, and a length that is asked for": {
			bug{Name: "b", Operations: "rollout", Faults: "x,y", After: time.Second, Length: time.Minute}, "3s",
			"-seed=1 -length=3s -patience=1m10s -after=1s -bug=b -operations=rollout -results=r -faults=x,y -most-faults=2 -always -longest",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(test.bug.flags(test.length, "r"), " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestABugThatDoesNotFit(t *testing.T) {
	copied := t.TempDir()
	if err := os.WriteFile(filepath.Join(copied, "a.go"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, old := range []string{"two", "three"} {
		b := bug{Name: "b", Edits: []edit{{"a.go", "one", "1"}, {"a.go", old, "x"}}}
		if _, err := b.seed(copied); err == nil {
			t.Errorf("%q was replaced", old)
		}
		if got := read(t, filepath.Join(copied, "a.go")); got != "one two two" {
			t.Errorf("left %q", got)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
