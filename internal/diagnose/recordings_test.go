// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose/diagnosetest"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	"github.com/google/go-cmp/cmp"
)

// TestRecordings judges what was recorded of etcd processes with a cause injected. The cause has to be named first, and a healthy etcd
// has none that slows it. The verdicts can be read aloud.
func TestRecordings(t *testing.T) {
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		t.Run(e.Name(), func(t *testing.T) {
			r, err := diagnosetest.Load(filepath.Join("testdata", e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			v := diagnose.Judge(r.Input)
			first := diagnose.Cause("")
			if len(v.Findings) > 0 {
				first = v.Findings[0].Cause
			}
			if first != r.Expect {
				t.Errorf("the first cause is %q, and should be %q", first, r.Expect)
			}
			golden.Check(t, filepath.Join(e.Name(), "verdict.txt"), []byte(text(r, v)))
		})
	}
}

// What is recorded is what was measured.
func TestRecordingIsWhatWasMeasured(t *testing.T) {
	for _, name := range []string{"passwords", "cpu-throttled", "healthy"} {
		folder := t.TempDir()
		want, err := diagnosetest.Load(filepath.Join("testdata", name))
		if err == nil {
			err = diagnosetest.Save(folder, want)
		}
		if err != nil {
			t.Fatal(err)
		}
		got, err := diagnosetest.Load(folder)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func text(r diagnosetest.Recording, v diagnose.Verdict) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n\n%s\n\n%s\n", r.About, r.Input.Summary(), v.Headline)
	for _, f := range v.Findings {
		fmt.Fprintf(&out, "\n%s (%s, members %v, slows %t, follows from %v): %s\n", f.Cause, f.Grade, f.Members, f.Slows, f.FollowsFrom, f.Title)
		for _, e := range f.Evidence {
			fmt.Fprintf(&out, "  - %s\n", e)
		}
		for _, s := range f.RulesOut {
			fmt.Fprintf(&out, "  - Not %s\n", s)
		}
		for _, a := range f.Advice {
			fmt.Fprintf(&out, "  To do: %s\n", a.Text)
			if a.Command != "" {
				fmt.Fprintf(&out, "    %s\n", a.Command)
			}
		}
	}
	for _, e := range v.Symptoms {
		fmt.Fprintf(&out, "\nSymptom: %s", e)
	}
	for _, f := range r.Input.Figures() {
		fmt.Fprintf(&out, "\n%+v", f)
	}
	if len(v.NotJudged) > 0 {
		fmt.Fprintf(&out, "\nNot judged: %v", v.NotJudged)
	}
	return out.String() + "\n"
}
