// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"testing"
)

// moved are samples in which the members from the fourth on are those of StatefulSet next, and a cluster of both.
func moved(samples []Sample) ([]Sample, Cluster) {
	for i := range samples {
		var ordinal int
		if _, err := fmt.Sscanf(samples[i].Pod, "main-%d", &ordinal); err == nil && ordinal >= 3 {
			samples[i].Pod = fmt.Sprintf("next-%d", ordinal-3)
		}
	}
	both := cluster
	both.Other, both.Members = "next", 3
	return samples, both
}

func TestMigration(t *testing.T) {
	three, five, six := []uint64{1, 2, 3}, []uint64{1, 2, 3, 4, 5}, []uint64{1, 2, 3, 4, 5, 6}
	const safe = "safe"
	joined := []lists{{0, three, nil}, {5, []uint64{1, 2, 3, 4}, nil}, {10, five, nil}, {15, five, []uint64{6}}}
	kept := Migration{From: 0, To: seconds(50), CutOver: seconds(30), Source: "main", Target: "next"}
	givenUp := Migration{From: 0, To: seconds(50), Source: "main", Target: "next"}
	for name, c := range map[string]struct {
		lives      [][]life
		lists      []lists
		leads      func(float64) uint64
		migrations []Migration
		// want are the verdicts from the fourth on: the joining is safe.
		want []string
	}{
		"all join, cut over, and the source leaves": {
			lists:      append(slices.Clone(joined), lists{31, six, nil}, lists{36, []uint64{1, 2, 4, 5, 6}, nil}, lists{41, []uint64{1, 4, 5, 6}, nil}, lists{45, []uint64{4, 5, 6}, nil}),
			leads:      then(33, 4),
			migrations: []Migration{kept}, want: []string{"promote learner safe", "remove voter safe", "remove voter safe", "remove voter safe"},
		},
		"the sixth votes before the cut-over": {
			lists: append(slices.Clone(joined), lists{29, six, nil}), migrations: []Migration{kept}, want: []string{"promote learner unsafe", "left behind in the list unsafe", "left behind in the list unsafe", "left behind in the list unsafe"},
		},
		"the sixth votes, and there is no migration": {
			lists: append(slices.Clone(joined), lists{29, six, nil}), want: []string{"promote learner safe"},
		},
		"a source leaves before the cut-over": {
			lists: append(slices.Clone(joined), lists{29, []uint64{1, 2, 4, 5}, []uint64{6}}), migrations: []Migration{givenUp},
			want: []string{"remove voter unsafe", "left behind in the list unsafe", "left behind in the list unsafe", "left behind in the list unsafe"},
		},
		"a source leaves before all of the target vote": {
			lists: append(slices.Clone(joined), lists{31, []uint64{1, 2, 4, 5}, []uint64{6}}, lists{35, []uint64{4, 5, 6}, nil}), leads: then(25, 4),
			migrations: []Migration{kept}, want: []string{"remove voter unsafe", "promote learner safe", "remove voter safe", "remove voter safe"},
		},
		"a source that is down leaves before all of the target vote": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0), silent(20)}, {serving(0)}, {serving(0)}, {serving(0)}},
			lists: append(slices.Clone(joined), lists{31, []uint64{1, 2, 4, 5}, []uint64{6}}), leads: then(25, 4),
			migrations: []Migration{{From: 0, To: seconds(59.9), CutOver: seconds(30), Source: "main", Target: "next"}}, want: []string{"remove voter safe"},
		},
		"it is given up": {
			lists:      append(slices.Clone(joined), lists{31, five, nil}, lists{36, []uint64{1, 2, 3, 4}, nil}, lists{41, three, nil}),
			migrations: []Migration{givenUp}, want: []string{"remove learner safe", "remove voter safe", "remove voter safe"},
		},
		"it is given up, and one stays": {
			lists:      append(slices.Clone(joined), lists{31, five, nil}, lists{36, []uint64{1, 2, 3, 4}, nil}),
			migrations: []Migration{givenUp}, want: []string{"remove learner safe", "remove voter safe", "left behind in the list unsafe"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.leads == nil {
				c.leads = first
			}
			if c.lives == nil {
				c.lives = alive(6)
			}
			samples, both := moved(listed(c.lives, c.lists, c.leads))
			var got []string
			for _, j := range Membership(both, nil, samples, nil, c.migrations) {
				got = append(got, fmt.Sprintf("%s %s", j.Kind, j.Verdict))
			}
			joining := []string{"add voter without a learner's time " + safe, "add voter without a learner's time " + safe, "add learner " + safe}
			if want := slices.Concat(joining, c.want); !slices.Equal(got, want) {
				t.Errorf("judged\n%q, and not\n%q", got, want)
			}
		})
	}
}

// What is deleted of an Etcd whose members have left costs the other one nothing.
func TestTheSourceIsDeleted(t *testing.T) {
	both := cluster
	both.Other, both.Members = "next", 3
	lives := [][]life{{{from: 0, mode: "gone"}}, {{from: 0, mode: "gone"}}, {{from: 0, mode: "gone"}}, {serving(0)}, {serving(0)}, {serving(0)}}
	samples := record(lives)
	for i := range samples {
		samples[i].Voters, samples[i].Leader = []uint64{4, 5, 6}, 4
	}
	samples, _ = moved(samples)
	deleted := func(set string) Act { return Act{At: seconds(20), User: operator, Kind: DeleteSet, Name: set} }
	for set, want := range map[string]Verdict{"main": Safe, "next": Unsafe} {
		got := Judge(both, []Act{deleted(set)}, &Containers{}, samples, nil)
		if len(got) != 1 || got[0].Verdict != want {
			t.Errorf("deleting %s is %v", set, got)
		}
	}
}
