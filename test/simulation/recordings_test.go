// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// recordings are those that are kept, with how many writes each has, which were skipped, and how many acts of controllers were compared.
var recordings = map[string]struct {
	writes        int
	skipped, acts map[string]int
}{
	"migrations-seed-1101.jsonl.gz": {
		writes:  1166,
		skipped: map[string]int{"JSON patch": 10, "refused for a version that is not recorded": 13},
		acts:    map[string]int{"generic-garbage-collector": 81, "pvc-protection-controller": 30, "statefulset-controller": 87},
	},
	"migrations-seed-1103.jsonl.gz": {
		writes:  1042,
		skipped: map[string]int{"JSON patch": 9, "refused for a version that is not recorded": 18},
		acts:    map[string]int{"generic-garbage-collector": 75, "pvc-protection-controller": 27, "statefulset-controller": 80},
	},
}

const recordingsIn = "testdata/recordings"

// The models do what Kubernetes did when it was recorded. SIM_RECORDING replays another recording, and SIM_TRIM keeps what is needed of it.
func TestRecordings(t *testing.T) {
	if path := os.Getenv("SIM_RECORDING"); path != "" {
		all, r := replayed(t, path)
		t.Logf("%d writes, of which were skipped %v; compared %v; a controller took %s at most", len(all), r.skipped, r.acts, r.longest)
		if to := os.Getenv("SIM_TRIM"); to != "" {
			if err := trim(all, to); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	for name, want := range recordings {
		t.Run(name, func(t *testing.T) {
			all, r := replayed(t, filepath.Join(recordingsIn, name))
			if len(all) != want.writes || !maps.Equal(r.skipped, want.skipped) || !maps.Equal(r.acts, want.acts) {
				t.Errorf("%d writes, skipped %v, compared %v; want %+v", len(all), r.skipped, r.acts, want)
			}
		})
	}
}

func replayed(t *testing.T, path string) ([]recorded, *replay) {
	t.Helper()
	all, err := readRecording(path)
	if err != nil {
		t.Fatal(err)
	}
	r := replayOf(t, all)
	for _, d := range r.differences[:min(len(r.differences), 20)] {
		t.Error(d)
	}
	return all, r
}

func replayOf(t *testing.T, all []recorded) *replay {
	t.Helper()
	r, err := newReplay(all)
	if err != nil {
		t.Fatal(err)
	}
	r.run(all)
	return r
}

// A recording of a Kubernetes that does something else is told from the model, at the write that differs.
func TestRecordingsThatDiffer(t *testing.T) {
	all, err := readRecording(filepath.Join(recordingsIn, "migrations-seed-1101.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	pod := func(name string) func(recorded) bool {
		return func(w recorded) bool { return w.creates() && w.object() == "pods/"+name }
	}
	first := slices.IndexFunc(all, pod("main-1"))
	claim := slices.IndexFunc(all, func(w recorded) bool { return w.creates() && w.object() == "persistentvolumeclaims/main-main-1" })
	unprotected := slices.IndexFunc(all, func(w recorded) bool { return w.by("pvc-protection-controller") })
	_, member, _ := strings.Cut(all[unprotected].ObjectRef.Name, "-")
	deleted := slices.IndexFunc(all, func(w recorded) bool { return w.Verb == "delete" && w.object() == "pods/"+member })
	refused := slices.IndexFunc(all, func(w recorded) bool { return w.ResponseStatus.Code == 409 })
	all = all[:unprotected+10]
	for _, c := range []struct {
		name   string
		change func(all []recorded) []recorded
		want   string
	}{
		{"an old version is accepted", func(all []recorded) []recorded {
			all[refused].ResponseStatus.Code = 200
			return all
		}, "the model answers with 409"},
		{"a pod is made before its claim", func(all []recorded) []recorded {
			all[first], all[claim] = all[claim], all[first]
			return all
		}, "would not create Pod main-1"},
		{"a pod is not made", func(all []recorded) []recorded { return slices.Delete(all, first, first+1) }, "the model would create Pod main-1"},
		{"a pod has another image", func(all []recorded) []recorded {
			all[first].RequestObject = bytes.Replace(all[first].RequestObject, []byte(`"image":"`), []byte(`"image":"other`), 1)
			return all
		}, "would not create Pod main-1"},
		{"pods of one template have two revisions", func(all []recorded) []recorded {
			all[first].RequestObject = bytes.Replace(all[first].RequestObject, []byte(`"controller-revision-hash":"`), []byte(`"controller-revision-hash":"other`), 1)
			return all
		}, "would not create Pod main-1"},
		{"a claim is not protected while its pod is there", func(all []recorded) []recorded {
			claim := slices.Clone(all[unprotected-1 : unprotected+1])
			return slices.Insert(slices.Delete(all, unprotected-1, unprotected+1), deleted, claim...)
		}, "would not remove PersistentVolumeClaim"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := replayOf(t, c.change(slices.Clone(all)))
			if !slices.ContainsFunc(r.differences, func(d string) bool { return strings.Contains(d, c.want) }) {
				t.Errorf("want a difference with %q, got %q", c.want, r.differences)
			}
		})
	}
}
