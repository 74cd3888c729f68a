// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package temporal

import (
	"flag"
	"strings"
	"testing"
	"time"
)

var (
	most    = flag.Int("states", 3_000_000, "how many states of each world are visited at most")
	deepest = flag.Int("depth", 1000, "how many steps")
	larger  = flag.Int("more", 0, "how many faults more there are than in the worlds of the table")
)

// member is one that votes and serves, with the write that the cluster has acknowledged.
func member() Slot {
	return Slot{Role: Voter, Process: Running, Data: Own, Pod: Present, Has: 1, Ran: true, Wanted: true, Set: true, Told: true}
}

// cluster is one of so many members, the first of which leads, with faults and writes to come.
func cluster(n int, faults, writes uint8) State {
	s := State{N: uint8(n), Owed: 1, Faults: faults, Writes: writes}
	for i := range n {
		s.Slots[i] = member()
	}
	s.Slots[0].Leads = true
	return s
}

func (s State) with(change func(i int, l *Slot)) State {
	for i := range s.Slots[:s.N] {
		change(i, &s.Slots[i])
	}
	return s
}

func outdated(_ int, l *Slot) { l.Outdated = true }

// grows is a cluster of which some members are still to come, and shrinks one of which some are to leave.
func grows(from int) func(i int, l *Slot) {
	return func(i int, l *Slot) {
		if i >= from {
			*l = Slot{Wanted: true}
		}
		l.Told = from > 1
	}
}

func shrinks(to int) func(i int, l *Slot) {
	return func(i int, l *Slot) { l.Wanted = i < to }
}

// surges is the only member, outdated, beside which a second one stands in.
func surges(i int, l *Slot) {
	grows(1)(i, l)
	l.Outdated = i == 0
}

// behind is of a cluster whose last member is frozen, and lacks a write.
func behind(i int, l *Slot) {
	if i == 2 {
		l.Process, l.Has = Frozen, 0
	}
}

func recoverable(s State) State {
	s.Recoverable = true
	return s
}

type world struct {
	name      string
	start     State
	operators int
}

func worlds() []world {
	return []world{
		{"three", cluster(3, 1, 0).with(outdated), 1},
		{"three, one outdated", cluster(3, 2, 0).with(func(i int, l *Slot) { l.Outdated = i == 2 }), 1},
		{"three, two operators", cluster(3, 0, 0).with(outdated), 2},
		{"three, volumes lost", cluster(3, 2, 1), 1},
		{"one", cluster(1, 1, 1).with(outdated), 2},
		{"one grows", cluster(2, 1, 1).with(grows(1)), 2},
		{"one has a stand-in", cluster(2, 1, 0).with(surges), 1},
		{"one of two leaves", cluster(2, 1, 0).with(shrinks(1)), 2},
		{"one of three leaves, all outdated", cluster(3, 0, 0).with(shrinks(2)).with(outdated), 1},
		{"three, recovery", recoverable(cluster(3, 2, 1)), 1},
		{"three, recovery, one behind", recoverable(cluster(3, 2, 1)).with(behind), 1},
		{"one, recovery", recoverable(cluster(1, 2, 1)), 1},
	}
}

func explore(t *testing.T, without string, w world) Result {
	t.Helper()
	w.start.Faults += uint8(*larger)
	begun := time.Now()
	r := (&Model{Without: without, Operators: w.operators}).Explore(w.start, *most, *deepest)
	t.Logf("%s: %d states, depth %d, complete %t, in %s", w.name, r.States, r.Depth, r.Complete, time.Since(begun).Round(time.Millisecond))
	return r
}

func told(steps []Step) string {
	var lines []string
	for _, s := range steps {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n")
}

// No step of the model breaks an invariant, and each action is taken somewhere.
func TestModel(t *testing.T) {
	taken := map[string]int{}
	for _, w := range worlds() {
		r := explore(t, "", w)
		if r.Broken != "" {
			t.Errorf("%s: %s:\n%s", w.name, r.Broken, told(r.Trace))
		}
		for name, n := range r.Taken {
			taken[name] += n
		}
	}
	for name, n := range taken {
		t.Logf("%7d times: %s", n, name)
		if n == 0 {
			t.Errorf("never: %s", name)
		}
	}
}

// Without each rule, something breaks in one of the worlds.
func TestMutants(t *testing.T) {
	for _, mutant := range []struct{ without, world, breaks string }{
		{"OneAtATime", "three", "quorum"},
		{"ChangeObserved", "one of three leaves, all outdated", "quorum"},
		{"StatusUnchanged", "three, two operators", "quorum"},
		{"ObservationFresh", "three", "quorum"},
		{"Preconditions", "three", "quorum"},
		{"IntentRevoked", "three", "quorum"},
		{"VolumeReachable", "three", "data of a listed member"},

		{"QuorumKept", "three, one outdated", "quorum"},
		{"QuorumLossConfirmed", "three", "quorum"},
		{"JoinAnnounced", "one grows", "a volume has it"},
		{"LearnerCaughtUp", "one grows", "quorum"},
		{"LeaderStays", "one of two leaves", "quorum"},
		{"NotListed", "one of two leaves", "listed member goes"},
		{"ClaimNotListed", "one of two leaves", "listed member goes"},
		{"RemovedDataStays", "one of two leaves", "removed member returns"},
		{"DataLostWaits", "three, volumes lost", "the leader does not have it"},
		{"UnknownMayServe", "one, recovery", "while a quorum serves"},
		{"MostAdvanced", "three, recovery", "a volume has it"},
		{"VolumesRead", "three, recovery, one behind", "a volume has it"},
		// These keep a margin: other rules keep the same invariants, of three members.
		{"OthersServing", "three, one outdated", ""},
		{"VotersOdd", "one has a stand-in", ""},
		{"UnreadyConfirmed", "one has a stand-in", ""},
		{"PodsGone", "three, recovery, one behind", ""},
	} {
		t.Run(mutant.without, func(t *testing.T) {
			for _, w := range worlds() {
				if w.name != mutant.world {
					continue
				}
				if r := explore(t, mutant.without, w); !strings.Contains(r.Broken, mutant.breaks) || (r.Broken == "") != (mutant.breaks == "") {
					t.Errorf("breaks %q, want %q", r.Broken, mutant.breaks)
				} else {
					t.Logf("%s:\n%s", r.Broken, told(r.Trace))
				}
			}
		})
	}
}
