// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// lists is who is in the member list from a second on: voters and learners by number.
type lists struct {
	from             float64
	voters, learners []uint64
}

// listed are samples of lives with a list that changes, and a leader that does.
func listed(lives [][]life, changes []lists, leads func(at float64) uint64) []Sample {
	samples := record(lives)
	for i := range samples {
		s := &samples[i]
		if !s.Answered {
			continue
		}
		s.Voters, s.Learners = nil, nil
		now := lists{}
		for _, c := range changes {
			if seconds(c.from) <= s.At {
				now = c
			}
		}
		if slices.Contains(now.voters, s.Member) { // a learner gives no list, and who was removed is not asked
			s.Voters, s.Learners = now.voters, now.learners
		}
		if s.Leader != 0 {
			s.Leader = leads(s.At.Seconds())
			s.Term = 2 + s.Leader
		}
	}
	return samples
}

func alive(n int) (all [][]life) {
	for range n {
		all = append(all, []life{serving(0)})
	}
	return all
}

func first(float64) uint64 { return 1 }

// then moves leadership to another member at a second.
func then(at float64, to uint64) func(float64) uint64 {
	return func(now float64) uint64 {
		if now < at {
			return 1
		}
		return to
	}
}

func TestMembership(t *testing.T) {
	three := lists{0, []uint64{1, 2, 3}, nil}
	grows := []lists{three, {10, []uint64{1, 2, 3}, []uint64{4}}, {20, []uint64{1, 2, 3, 4}, nil}}
	for name, c := range map[string]struct {
		lives   [][]life
		lists   []lists
		leads   func(float64) uint64
		outages []Outage
		want    []string
	}{
		"nothing changes":                       {lives: alive(3), lists: []lists{three}},
		"a learner joins, catches up and votes": {lives: alive(4), lists: grows, want: []string{"add learner safe", "promote learner safe"}},
		"a learner votes early": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0)}, {{from: 10, mode: "catchesUp", lacks: 101}}}, lists: grows,
			want: []string{"add learner safe", "promote learner unsafe"},
		},
		"a learner votes that has just caught up": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0)}, {{from: 10, mode: "catchesUp", lacks: 5000}, {from: 19, mode: "catchesUp", lacks: 100}}}, lists: grows,
			want: []string{"add learner safe", "promote learner safe"},
		},
		"a learner votes that is gone": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0)}, {{from: 10, mode: "serves"}, silent(13)}}, lists: grows,
			want: []string{"add learner safe", "promote learner unsafe"},
		},
		"a learner votes while another voter is down": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0), silent(5)}, {serving(0)}}, lists: grows,
			want: []string{"add learner safe", "promote learner unsafe"},
		},
		"a learner votes a moment after another voter was lost": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0), silent(17)}, {serving(0)}}, lists: grows,
			want: []string{"add learner safe", "promote learner race"},
		},
		"the second of two": {
			lives: alive(2), lists: []lists{{0, []uint64{1}, nil}, {10, []uint64{1}, []uint64{2}}, {20, []uint64{1, 2}, nil}},
			want: []string{"add learner safe", "promote learner safe"},
		},
		"a second learner": {
			lives: alive(3), lists: []lists{three, {10, []uint64{1, 2, 3}, []uint64{4}}, {20, []uint64{1, 2, 3}, []uint64{4, 5}}},
			want: []string{"add learner safe", "add learner unsafe"},
		},
		"a learner is removed": {
			lives: alive(3), lists: []lists{{0, []uint64{1, 2, 3}, []uint64{4}}, {20, []uint64{1, 2, 3}, nil}}, want: []string{"remove learner safe"},
		},
		"a voter that never was a learner": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0)}, {silent(0)}}, lists: []lists{three, {20, []uint64{1, 2, 3, 4}, nil}},
			want: []string{"add voter without a learner's time unsafe"},
		},
		"one learns and votes between two lists": {lives: alive(4), lists: []lists{three, {20, []uint64{1, 2, 3, 4}, nil}}, want: []string{"add voter without a learner's time safe"}},
		"one leaves":                             {lives: alive(3), lists: []lists{three, {20, []uint64{1, 2}, nil}}, want: []string{"remove voter safe"}},
		"one leaves while another is down": {
			lives: [][]life{{serving(0)}, {serving(0), silent(5)}, {serving(0)}}, lists: []lists{three, {20, []uint64{1, 2}, nil}}, want: []string{"remove voter unsafe"},
		},
		"one of five leaves while another is down": {
			lives: [][]life{{serving(0)}, {serving(0), silent(5)}, {serving(0)}, {serving(0)}, {serving(0)}},
			lists: []lists{{0, []uint64{1, 2, 3, 4, 5}, nil}, {20, []uint64{1, 2, 3, 4}, nil}}, want: []string{"remove voter unsafe"},
		},
		"the one that is down leaves": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0), silent(5)}}, lists: []lists{three, {20, []uint64{1, 2}, nil}}, want: []string{"remove voter safe"},
		},
		"one of two that are down leaves": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0)}, {serving(0), silent(5)}, {serving(0), silent(5)}},
			lists: []lists{{0, []uint64{1, 2, 3, 4, 5}, nil}, {20, []uint64{1, 2, 3, 4}, nil}}, want: []string{"remove voter safe"},
		},
		"one of three that are down leaves, as somebody might force": {
			lives: [][]life{{serving(0)}, {serving(0)}, {serving(0), silent(5)}, {serving(0), silent(5)}, {serving(0), silent(5)}},
			lists: []lists{{0, []uint64{1, 2, 3, 4, 5}, nil}, {20, []uint64{1, 2, 3, 4}, nil}}, want: []string{"remove voter unsafe"},
		},
		"one leaves a moment after another was lost": {
			lives: [][]life{{serving(0)}, {serving(0), silent(17)}, {serving(0)}}, lists: []lists{three, {20, []uint64{1, 2}, nil}}, want: []string{"remove voter race"},
		},
		"the leader is removed": {
			lives: alive(3), leads: then(5, 3), lists: []lists{three, {20, []uint64{1, 2}, nil}}, want: []string{"remove voter unsafe"},
		},
		"the leader hands over and is removed": {
			lives: alive(2), leads: then(19.5, 2), lists: []lists{{0, []uint64{1, 2}, nil}, {20, []uint64{2}, nil}}, want: []string{"remove voter safe"},
		},
		"the leader of two is removed": {
			lives: alive(2), lists: []lists{{0, []uint64{1, 2}, nil}, {20, []uint64{2}, nil}}, want: []string{"remove voter unsafe"},
		},
		"a recovery begins with one": {
			lives: alive(5), lists: []lists{three, {20, []uint64{4}, nil}, {25, []uint64{4}, []uint64{5}}, {30, []uint64{4, 5}, nil}},
			leads: then(20, 4), outages: []Outage{{From: seconds(10), To: seconds(28), What: "recovery", OnlyIfLost: true}},
			want: []string{"add learner asked for", "promote learner safe"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if c.leads == nil {
				c.leads = first
			}
			var got []string
			var why []Judgement
			for _, j := range Membership(cluster, nil, listed(c.lives, c.lists, c.leads), c.outages, nil) {
				got, why = append(got, fmt.Sprintf("%s %s", j.Kind, j.Verdict)), append(why, j)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("judged %q, and not %q: %v", got, c.want, why)
			}
		})
	}
}

// An old list, as a member shows that has yet to catch up, is no change; nor is one of the cluster before a recovery.
func TestOldLists(t *testing.T) {
	list := func(at time.Duration, member uint64, voters ...uint64) Sample {
		return Sample{At: at, Pod: "p", Answered: true, Member: member, Leader: 1, Voters: voters}
	}
	samples := []Sample{
		list(1, 1, 1, 2, 3), list(2, 2, 1, 2, 3),
		list(3, 1, 1, 2), list(4, 2, 1, 2, 3), list(5, 2, 1, 2),
		list(6, 7, 7), list(7, 2, 1, 2), list(8, 7, 7),
	}
	if got := Membership(cluster, nil, samples, nil, nil); len(got) != 1 || got[0].Kind != RemoveVoter || got[0].At != 3 {
		t.Errorf("judged %v", got)
	}
}
