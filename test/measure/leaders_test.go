// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// says returns a sighting in which pod m-<member-1> named a leader.
func says(ms int, member, leader, term uint64) Sighting {
	pod := "m-" + string(rune('0'+member-1))
	return Sighting{At: at(ms), Pod: pod, UID: types.UID(pod), Member: member, Leader: leader, Term: term}
}

// unanswered returns a sighting of m-0 without an answer.
func unanswered(ms int) Sighting {
	s := says(ms, 1, 0, 0)
	s.Member = 0
	return s
}

func TestReigns(t *testing.T) {
	for name, test := range map[string]struct {
		seen    []Sighting
		want    []Reign
		changes int
	}{
		"no member answers": {[]Sighting{unanswered(0)}, nil, 0},
		"all agree": {
			[]Sighting{says(0, 1, 3, 2), says(1, 2, 3, 2), says(2, 3, 3, 2)},
			[]Reign{{Pod: "m-2", Term: 2, From: at(0), To: at(9000)}}, 0,
		},
		"handed over, one learns late": {
			[]Sighting{says(0, 1, 3, 2), says(1, 2, 3, 2), says(1000, 1, 2, 3), says(1100, 2, 2, 3)},
			[]Reign{{Pod: "", Term: 2, From: at(0), To: at(1000)}, {Pod: "m-1", Term: 3, From: at(1000), To: at(9000)}}, 1,
		},
		"the leader dies, and the same member is elected again": {
			[]Sighting{says(0, 1, 1, 2), says(1, 2, 1, 2), unanswered(500), says(600, 2, 0, 3), says(2000, 2, 1, 4), says(2100, 1, 1, 4)},
			[]Reign{{Pod: "m-0", Term: 2, From: at(0), To: at(600)}, {Pod: "m-0", Term: 4, From: at(2000), To: at(9000)}}, 1,
		},
		"a time without answers is no election": {
			[]Sighting{says(0, 1, 1, 2), unanswered(500), says(700, 1, 1, 2)},
			[]Reign{{Pod: "m-0", Term: 2, From: at(0), To: at(500)}, {Pod: "m-0", Term: 2, From: at(700), To: at(9000)}}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Reigns(test.seen, at(9000))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("reigns (-want +got):\n%s", diff)
			}
			if got := leaderChanges(got, at(0), at(9000)); got != test.changes {
				t.Errorf("%d leader changes, want %d", got, test.changes)
			}
		})
	}
}

func TestSightingsKeepsOnlyChanges(t *testing.T) {
	var s sightings
	for _, seen := range []Sighting{says(100, 1, 1, 2), says(0, 2, 1, 2), says(200, 1, 1, 2), unanswered(300), unanswered(400), says(500, 1, 1, 2)} {
		s.add(seen)
	}
	want := []Sighting{says(0, 2, 1, 2), says(100, 1, 1, 2), unanswered(300), says(500, 1, 1, 2)}
	if diff := cmp.Diff(want, s.list()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
