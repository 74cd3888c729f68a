// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	"k8s.io/apimachinery/pkg/types"
)

// beginning is a cluster that leads, with what is on its volume, and what it acknowledges before the next one does.
type beginning struct {
	id, task     string
	writes       []int
	raised       int64
	restored     bool
	acknowledges []int
}

// leads has a cluster lead, whose volume stays as it is with what it had set aside for its task.
func (b beginning) leads(j *judge, copies int, before *members.Disk) *members.Disk {
	d := &members.Disk{}
	d.Restore(b.id, members.Peer{ID: 1}, b.writes, b.raised)
	d.Restored, d.Task = b.restored, b.task
	if copies > 0 {
		d.Copy = strconv.Itoa(copies)
	}
	if before != nil {
		d.Kept = map[string]*members.Disk{"new.etcd" + member.BeforeSuffix + b.task + "-1": before}
	}
	j.world.disks[d.Lineage()] = d
	j.settled = []members.Peer{{ID: 1}}
	j.cluster(&members.Member{Disk: d})
	j.world.Etcd.Acknowledged[d.Lineage()] = b.acknowledges
	for _, w := range b.acknowledges {
		d.Writes = append(slices.Clip(d.Writes), w)
	}
	j.highest = d.Revision()
	return d
}

// A cluster that takes the place of another one has all that it owes, as far as that is there. A restore on purpose loses what came after its target, and
// its undo brings back what there was before: each of them once, and nothing else does. Revisions go on above those before.
func TestJudgeOfRestores(t *testing.T) {
	first := beginning{id: "a", acknowledges: []int{1, 2, 3, 4}} // at revision 5
	restore := beginning{id: "b", task: "r1", writes: []int{1}, raised: 9, restored: true, acknowledges: []int{5}}
	undo := func(id, task string, writes ...int) beginning {
		return beginning{id: id, task: task, writes: writes, raised: 99}
	}
	promises := map[types.UID]promise{"r1": {goal: []int{1}}, "r2": {goal: []int{1, 5}}, "u1": {undoes: "r1"}, "u2": {undoes: "r2"}}
	second := beginning{id: "c", task: "r2", writes: []int{1, 5}, raised: 20, restored: true, acknowledges: []int{6}}
	for name, test := range map[string]struct {
		then   []beginning
		final  bool // what was set aside is lost, and the final snapshots are there
		broken string
	}{
		"it was not asked for":                                 {[]beginning{{id: "b", task: "q", writes: []int{1}, raised: 9, restored: true}}, false, "lacks 3 writes that cluster a had"},
		"exactly what was asked for":                           {[]beginning{restore}, false, ""},
		"less than that":                                       {[]beginning{{id: "b", task: "r1", raised: 9, restored: true}}, false, "goes back to [], and [1] was previewed"},
		"more than that":                                       {[]beginning{{id: "b", task: "r1", writes: []int{1, 2}, raised: 9, restored: true}}, false, "goes back to [1 2], and [1] was previewed"},
		"more than that, all of it":                            {[]beginning{{id: "b", task: "r1", writes: []int{1, 2, 3, 4}, raised: 9, restored: true}}, false, "goes back to [1 2 3 4], and [1] was previewed"},
		"with revisions of before":                             {[]beginning{{id: "b", task: "r1", writes: []int{1}, raised: 3, restored: true}}, false, "goes back to revision 5, although members have had revision 5"},
		"all that there was, from a volume":                    {[]beginning{{id: "b", task: "q", writes: []int{1, 2, 3, 4}}}, false, ""},
		"an undo":                                              {[]beginning{restore, undo("c", "u1", 1, 2, 3, 4)}, false, ""},
		"an undo that undoes nothing":                          {[]beginning{restore, undo("c", "u1", 1, 5)}, false, "lacks 3 writes that cluster a had"},
		"an undo that lacks something":                         {[]beginning{restore, undo("c", "u1", 1, 2, 3)}, false, "lacks 1 writes that cluster a had"},
		"an undo with revisions of before":                     {[]beginning{restore, {id: "c", task: "u1", writes: []int{1, 2, 3, 4}}}, false, "goes back to revision 5"},
		"an undo that was not asked for":                       {[]beginning{restore, undo("c", "q", 1, 2, 3, 4)}, false, "lacks 1 writes that cluster b had"},
		"twice":                                                {[]beginning{restore, {id: "b", task: "r1", writes: []int{1}, raised: 30, restored: true}}, false, "lacks 1 writes that cluster b had"},
		"a second restore, and both undone":                    {[]beginning{restore, second, undo("d", "u2", 1, 5), undo("e", "u1", 1, 2, 3, 4)}, false, ""},
		"the first undone in place of the second":              {[]beginning{restore, second, undo("d", "u2", 1, 2, 3, 4)}, false, "lacks 1 writes that cluster b had"},
		"the second undone once more":                          {[]beginning{restore, second, undo("d", "u2", 1, 5), undo("e", "u1", 1, 5)}, false, "lacks 3 writes that cluster a had"},
		"undone after the only member has restored the backup": {[]beginning{restore, {id: "b", writes: []int{1, 5}, raised: 9, restored: true}, undo("c", "u1", 1, 2, 3, 4)}, false, ""},
		"undone to what it had restored":                       {[]beginning{restore, {id: "b", writes: []int{1, 5}, raised: 9, restored: true}, undo("c", "u1", 1, 5)}, false, "lacks 3 writes that cluster a had"},
		"undone without volumes":                               {[]beginning{restore, {id: "d", writes: []int{1, 5}, raised: 9, restored: true}, undo("c", "u1", 1, 2, 3, 4)}, true, ""},
		"undone without volumes, to the other final snapshot":  {[]beginning{restore, {id: "d", writes: []int{1, 5}, raised: 9, restored: true}, undo("c", "u1", 1, 5)}, true, "lacks 3 writes that cluster a had"},
		"a cluster that has acknowledged nothing":              {[]beginning{{id: "b", task: "q", writes: []int{1, 2, 3, 4}}, {id: "c", task: "q2", raised: 99}}, false, "lacks 4 writes that cluster b had"},
		"an ID that begins again":                              {[]beginning{{id: "b", writes: []int{1, 2, 3, 4}, restored: true, acknowledges: []int{7}}, {id: "b", writes: []int{1, 2, 3, 4}, raised: 9, restored: true}}, false, "lacks 1 writes that cluster b had"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, err := New(1, 1, 1)
				if err != nil {
					t.Fatal(err)
				}
				j := w.judges[0]
				j.promises, j.backups = promises, &backups{world: w, of: j}
				var before *members.Disk
				for i, b := range append([]beginning{first}, test.then...) {
					if test.final && before != nil {
						j.backups.list = append(j.backups.list, stored{Snapshot: backup.Snapshot{Final: true}, lineage: before.Lineage(), writes: before.Writes})
						clear(w.disks)
						before = nil
					}
					before = b.leads(j, i, before)
				}
				said := strings.Join(w.Broken, "; ")
				if test.broken == "" && said != "" || !strings.Contains(said, test.broken) {
					t.Errorf("says %q, and not %q", said, test.broken)
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
			j.past, j.highest = []lineage{{id: "a", name: "a"}}, 4
			j.backups = &backups{world: w, of: j, list: []stored{{cluster: test.newest, writes: []int{1, 2}}}}
			j.cluster(m)
			if (len(w.Broken) > 0) != test.broken {
				t.Errorf("%s: %v", name, w.Broken)
			}
			w.Close()
		})
	}
}
