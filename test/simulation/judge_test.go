// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
)

// A restore on purpose loses what came after its target, once, and nothing else does; its revisions go on above those before. Its undo brings back
// all that was acknowledged.
func TestJudgeOfRestores(t *testing.T) {
	leading := func(id string, writes []int, raised int64, restored bool) *members.Member {
		d := &members.Disk{}
		d.Restore(id, members.Peer{ID: 1}, writes, raised)
		d.Restored = restored
		return &members.Member{Disk: d}
	}
	for name, test := range map[string]struct {
		goals  [][]int
		undoes bool
		before []string
		next   *members.Member
		broken string
	}{
		"nobody asked for it":               {nil, false, []string{"a"}, leading("b", []int{1}, 9, true), "lacks 2 writes that were acknowledged in cluster a"},
		"exactly what was asked for":        {[][]int{{1}}, false, []string{"a"}, leading("b", []int{1}, 9, true), ""},
		"less than that":                    {[][]int{{1, 2}}, false, []string{"a"}, leading("b", []int{1}, 9, true), "lacks 2 writes"},
		"more than that":                    {[][]int{{1}}, false, []string{"a"}, leading("b", []int{1, 2}, 9, true), "lacks 1 writes"},
		"with revisions of before":          {[][]int{{1}}, false, []string{"a"}, leading("b", []int{1}, 1, true), "goes back to revision 3, although members have had revision 4"},
		"from a volume":                     {[][]int{{1}}, false, []string{"a"}, leading("b", []int{1}, 9, false), "lacks 2 writes"},
		"an undo":                           {nil, true, []string{"a", "b"}, leading("c", []int{1, 2, 3}, 9, false), ""},
		"an undo that nobody asked for":     {nil, false, []string{"a", "b"}, leading("c", []int{1, 2, 3}, 9, false), "lacks 1 writes that were acknowledged in cluster b"},
		"an undo that lacks something":      {nil, true, []string{"a", "b"}, leading("c", []int{1, 2}, 9, false), "lacks 1 writes that were acknowledged in cluster b"},
		"all that there was, from a volume": {nil, false, []string{"a"}, leading("b", []int{1, 2, 3}, 0, false), ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := New(1, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				j := w.judges[0]
				w.Etcd.Acknowledged["a"], w.Etcd.Acknowledged["b"] = []int{1, 2, 3}, []int{4}
				j.settled = []members.Peer{{ID: 1}}
				for _, id := range test.before {
					w.disks[id] = leading(id, append([]int{1, 2, 3}, map[string][]int{"b": {4}}[id]...), 0, false).Disk
				}
				j.clusters, j.goals, j.undoes, j.highest = test.before, test.goals, test.undoes, 4
				j.backups = &backups{world: w, of: j, list: []stored{{cluster: "a", writes: []int{1, 2, 3}}}}
				j.cluster(test.next)
				said := strings.Join(w.Broken, "; ")
				if test.broken == "" && said != "" || !strings.Contains(said, test.broken) {
					t.Errorf("says %q, and not %q", said, test.broken)
				}
				if len(j.goals) > 0 && test.broken == "" {
					t.Error("it may lose the same again")
				}
				w.Close()
			})
		})
	}
}

// A new cluster that lacks what was acknowledged goes on above all revisions that there were, whatever it was allowed to lose, and
// whichever cluster the newest snapshot is of.
func TestJudgeOfRevisions(t *testing.T) {
	for name, test := range map[string]struct {
		raised int64
		alone  bool
		// newest is the cluster of the newest snapshot.
		newest string
		broken bool
	}{
		"not raised":                    {0, false, "a", true},
		"raised too little":             {1, false, "a", true},
		"raised":                        {2, false, "a", false},
		"by the only member":            {0, true, "a", true},
		"raised by the only member":     {2, true, "a", false},
		"by the only member, once more": {0, true, "before", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, err := New(1, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			j, d := w.judges[0], &members.Disk{}
			d.Restore("b", members.Peer{ID: 1}, []int{1, 2}, test.raised)
			m := &members.Member{Disk: d}
			if test.alone {
				d.Restored, w.runs[m] = true, &pod{world: w, told: &member.Shared{}}
				j.settled = []members.Peer{{ID: 1}}
			}
			w.Etcd.Acknowledged["a"] = []int{1, 2, 3}
			j.clusters, j.highest = []string{"a"}, 4
			j.backups = &backups{world: w, of: j, list: []stored{{cluster: test.newest, writes: []int{1, 2}}}}
			j.cluster(m)
			if (len(w.Broken) > 0) != test.broken {
				t.Errorf("%s: %v", name, w.Broken)
			}
			w.Close()
		})
	}
}
