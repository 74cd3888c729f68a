// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	"k8s.io/apimachinery/pkg/types"
)

var zero = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return zero.Add(time.Duration(seconds * float64(time.Second)))
}

// life returns the spans of a pod that is deleted, gone, back and ready at these seconds.
func life(deleted, gone, back, ready float64) []Span {
	state := func(class v1alpha1.PodClass, revision string) State {
		return State{Class: class, Revision: revision, UID: types.UID(revision)}
	}
	return []Span{
		{State: state(v1alpha1.ClassParticipating, "old"), From: at(-20), To: at(deleted)},
		{State: state(v1alpha1.ClassTerminating, "old"), From: at(deleted), To: at(gone)},
		{State: state(v1alpha1.ClassMissing, ""), From: at(gone), To: at(back)},
		{State: state(v1alpha1.ClassStarting, "new"), From: at(back), To: at(ready)},
		{State: state(v1alpha1.ClassParticipating, "new"), From: at(ready)},
	}
}

// example returns a rollout in both ways, with member 0 frozen.
func example() Chart {
	members := []string{"etcd-main-0", "etcd-main-1", "etcd-main-2"}
	return Chart{
		Title:    "A new pod template for a 3-member etcd, while one member hangs",
		Subtitle: "etcd-main-0 was frozen (SIGSTOP) before the template changed; three writers, one per member, every 50 ms.",
		Axis:     "seconds since the change of the template",
		Runs: []Run{
			{
				Name: "StatefulSet RollingUpdate", Summary: "no writes for 19.4 s · 2 leader changes · rolled out in 51.2 s",
				From: zero, Until: at(51.2), Members: members, Revision: "new", Frozen: "etcd-main-0", FrozenAt: at(-16),
				Pods: Life{
					"etcd-main-0": life(18, 48, 48.2, 51.2),
					"etcd-main-1": life(9, 9.4, 9.6, 17.9),
					"etcd-main-2": life(0.2, 0.6, 0.8, 8.8),
				},
				Reigns: []Reign{
					{Pod: "etcd-main-2", Term: 2, From: at(-20), To: at(1.2)},
					{Pod: "etcd-main-1", Term: 3, From: at(7.8), To: at(9.6)},
					{Pod: "etcd-main-2", Term: 4, From: at(17), To: at(60)},
				},
				Gaps: []Gap{{From: at(0.4), To: at(8)}, {From: at(9.2), To: at(17.1)}, {From: at(30), To: at(30.4)}},
				Steps: []Step{
					{At: at(0.2), Pod: "etcd-main-2", Text: "etcd-main-2 is deleted: highest ordinal first"},
					{At: at(9), Pod: "etcd-main-1", Text: "etcd-main-1 is deleted: next ordinal"},
					{At: at(18), Pod: "etcd-main-0", Text: "etcd-main-0 is deleted: next ordinal"},
				},
			},
			{
				Name: "etcd-foreman QuorumAwareRollout", Summary: "no writes for 0 s · 1 leader change · rolled out in 46.0 s", Good: true,
				From: zero, Until: at(46), Members: members, Revision: "new", Frozen: "etcd-main-0", FrozenAt: at(-16),
				Pods: Life{
					"etcd-main-0": life(0.3, 30.3, 30.5, 34.0),
					"etcd-main-1": life(34.1, 34.5, 34.7, 40),
					"etcd-main-2": life(40.2, 40.6, 40.9, 46),
				},
				Reigns: []Reign{{Pod: "etcd-main-2", Term: 2, From: at(-20), To: at(40.1)}, {Pod: "etcd-main-0", Term: 3, From: at(40.1), To: at(60)}},
				Steps: []Step{
					{At: at(0.3), Pod: "etcd-main-0", Text: "etcd-main-0 runs and does not participate"},
					{At: at(34.1), Pod: "etcd-main-1", Text: "etcd-main-1 is a follower, and all others participate"},
					{At: at(40.1), Pod: "etcd-main-2", Text: "etcd-main-2 leads and is next: leadership goes to etcd-main-0, which is updated and has caught up"},
					{At: at(40.2), Pod: "etcd-main-2", Text: "etcd-main-2 is a follower, and all others participate"},
				},
			},
		},
	}
}

func TestPicture(t *testing.T) {
	var out bytes.Buffer
	if err := example().Write(&out); err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "example.svg", out.Bytes())
	if strings.Contains(out.String(), "ZgotmplZ") || strings.Contains(out.String(), "NaN") {
		t.Error("the template refused a value")
	}
	for decoder := xml.NewDecoder(&out); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("reading the picture as XML: %v", err)
		}
	}
	if file := os.Getenv("PICTURE"); file != "" {
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What a rollout does takes writes away near a change; a gap elsewhere is the machine's, and is marked.
func TestGapsWhileNothingChanges(t *testing.T) {
	run := example().Runs[0]
	run.Until = at(61)
	for _, c := range []struct {
		from, to float64
		class    string
		why      string
	}{
		{30, 30.4, "quiet", "nothing changed"},
		{19.1, 19.5, "quiet", "the last change was at 18"},
		{18.9, 19.3, "gap", "a pod was deleted at 18"},
		{47.5, 48.1, "gap", "a pod was gone at 48"},
		{6, 6.5, "gap", "no member led"},
		{7.5, 16.9, "gap", "the leader came and went"},
		{59.5, 60.2, "gap", "the last reign ends at 60"},
	} {
		run.Gaps = []Gap{{From: at(c.from), To: at(c.to)}}
		if got := run.writes(scale{zero, 61}, 0).Bars[1].Class; got != c.class {
			t.Errorf("from %v to %v: got %s, want %s: %s", c.from, c.to, got, c.class, c.why)
		}
	}
}

func TestTextsFit(t *testing.T) {
	for text, want := range map[string]string{"a b": "a b", "one two three": "one two …"} {
		if got := fit(text, textWidth("one two 3 …")-1); got != want {
			t.Errorf("fit(%q) = %q, want %q", text, got, want)
		}
	}
	if got := fit("one two three four", 30); got != "one …" {
		t.Errorf("fit cuts to %q: one word is left, however narrow", got)
	}
}
