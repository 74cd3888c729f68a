// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package temporal

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func read(t *testing.T, file string) []Recorded {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Read(z)
	if err != nil || len(all) < 10 {
		t.Fatalf("%d states: %v", len(all), err)
	}
	return all
}

func joining() Slot { return Slot{Role: Learner, Pod: Present, Wanted: true, Set: true} }

// A recording into which a step is inserted that no rule allows is none of the model.
func TestIllegalSteps(t *testing.T) {
	for name, change := range map[string]func(s *State){
		"two pods are removed at a time":         func(s *State) { s.Slots[1].Pod, s.Slots[2].Pod = Ending, Ending },
		"a member is removed that is to stay":    func(s *State) { s.Slots[1].Role, s.Slots[1].Data = None, Removed },
		"a claim is deleted of a listed member":  func(s *State) { s.Slots[1].ClaimEnds, s.Slots[1].Doomed = true, false },
		"a listed member is scaled away":         func(s *State) { s.Slots[2].Set, s.Slots[2].Wanted = false, false },
		"two learners join at a time":            func(s *State) { s.Slots[3], s.Slots[4] = joining(), joining() },
		"a volume is empty, and its member runs": func(s *State) { s.Slots[1].Data = Empty },
		"a removed member's data starts":         func(s *State) { s.Slots[4].Data, s.Slots[4].Process, s.Slots[4].Pod = Removed, Running, Present },
		"two lead":                               func(s *State) { s.Slots[0].Leads, s.Slots[1].Leads = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			all := read(t, "testdata/rollouts.gz")
			at := len(all) - 1
			last := all[at]
			if last.State.count(last.State.votes) != 3 {
				t.Fatalf("%+v", last)
			}
			if err := (&Model{}).Validate(append(slices.Clone(all), Recorded{last.At + time.Minute, last.State})); err != nil {
				t.Fatal(err)
			}
			last.At += time.Minute
			change(&last.State)
			if err := (&Model{}).Validate(append(all, last)); err == nil {
				t.Error("it is taken for one of the model")
			}
		})
	}
}

// Beside a member that has just died, another one may be removed: that was decided before. Beside one that is down for long, none is.
func TestARemovalBesideADeadMember(t *testing.T) {
	for down, refused := range map[time.Duration]bool{time.Second: false, time.Minute: true} {
		s := cluster(3, 0, 0).with(outdated)
		dead, removed := s, s
		dead.Slots[1].Process = Stopped
		removed.Slots[1].Process, removed.Slots[2].Pod = Stopped, Ending
		err := (&Model{}).Validate([]Recorded{{0, s}, {time.Second, dead}, {time.Second + down, dead}, {2*time.Second + down, removed}})
		if (err != nil) != refused {
			t.Errorf("down for %s: %v", down, err)
		}
	}
}

// Runs of the simulation are runs of the model.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob("testdata/*.gz")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		all := read(t, file)
		if err := (&Model{}).Validate(all); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		t.Logf("%s: %d states", file, len(all))
	}
}
