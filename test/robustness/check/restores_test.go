// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
)

// The revisions at which the eras of these tests begin.
const second, third = 1_000_000_000, 2_000_000_000

// wentBack is a legal history: a cluster goes back from revision 5 to 3, and an undo brings back what was there before.
//
//	era 1: u/1=a at 2, r/1=x at 3, u/2=b at 4, r/1=y at 5, and r/1=z that nobody acknowledged
//	era 2: as at 3, and u/3=c and r/1=v
//	era 3: as at the end of era 1, and u/4=d
func wentBack() *history.History {
	return &history.History{
		Operations: ops{
			put("a", 0, 1, "u/1", "a", 2), put("a", 2, 3, "r/1", "x", 3), put("a", 4, 5, "u/2", "b", 4), put("a", 6, 7, "r/1", "y", 5), get(8, 9, "r/1", "y", 5),
			lost(put("a", 9, 30, "r/1", "z", 0)), lost(put("a", 9, 30, "u/9", "z", 0)),
			get(100, 101, "r/1", "x", second), put("a", 102, 103, "u/3", "c", second+1), put("a", 104, 105, "r/1", "v", second+2), get(106, 107, "r/1", "v", second+2),
			get(200, 201, "r/1", "y", third), put("a", 202, 203, "u/4", "d", third+1),
		},
		Watches: []history.Watch{
			watch(0, 1, 10, event(2, "u/1", "a"), event(3, "r/1", "x"), event(4, "u/2", "b"), event(5, "r/1", "y")), {Watcher: "w", Segment: 1, From: 6, Compacted: second},
			watch(2, second, 110, event(second+1, "u/3", "c"), event(second+2, "r/1", "v")), {Watcher: "w", Segment: 3, From: second + 3, Compacted: third},
			watch(4, third, 210, event(third+1, "u/4", "d")),
		},
		Restores: []history.Restore{{From: ms(20), To: ms(90), Target: 3}, {From: ms(120), To: ms(190), Undoes: true}},
		States: []history.State{
			{Revision: second, Pairs: map[string]string{"u/1": "a", "r/1": "x"}}, {Revision: third, Pairs: map[string]string{"u/1": "a", "u/2": "b", "r/1": "y"}},
		},
		Finals: map[string]map[string]string{"m-0": {"u/1": "a", "u/2": "b", "u/4": "d", "r/1": "y"}},
		Hashes: []history.Hash{{Member: "m-0"}},
	}
}

// operation changes the operations of a history that wrote or found a value of r/1.
func (h changed) operation(value string, change func(*history.Operation)) {
	for i := range h.Operations {
		if op := &h.Operations[i]; op.Key == "r/1" && op.Value+op.Found == value {
			change(op)
		}
	}
}

type changed struct{ *history.History }

// A restore goes back on purpose: what was acknowledged after its target may go, and nothing else may.
func TestRestores(t *testing.T) {
	for name, test := range map[string]struct {
		change func(changed)
		want   []Rule
	}{
		"as it should be": {func(changed) {}, nil},
		"a write without an answer is there before it, and after the undo": {func(h changed) {
			h.operation("y", func(op *history.Operation) {
				if op.Revision == third {
					op.Found = "z"
				}
			})
			h.Finals["m-0"]["r/1"], h.Finals["m-0"]["u/9"], h.States[1].Pairs["r/1"] = "z", "z", "z"
		}, nil},
		"a write before the target is lost by the restore": {func(h changed) { delete(h.States[0].Pairs, "u/1") }, []Rule{Durable}},
		"a write after the target survives the restore":    {func(h changed) { h.States[0].Pairs["u/2"] = "b" }, []Rule{OneHistory}},
		"a restore that changes nothing but the revision": {func(h changed) {
			h.States[0].Pairs = map[string]string{"u/1": "a", "u/2": "b", "r/1": "y"}
			h.operation("x", func(op *history.Operation) {
				if op.Kind == history.Get {
					op.Found = "y"
				}
			})
		}, []Rule{Linearizable, OneHistory}},
		"a key has its value of after the target": {func(h changed) {
			h.operation("x", func(op *history.Operation) {
				if op.Kind == history.Get {
					op.Found = "y"
				}
			})
		}, []Rule{Linearizable}},
		"a key is gone that was there at the target": {func(h changed) {
			h.operation("x", func(op *history.Operation) {
				if op.Kind == history.Get {
					op.Found = ""
				}
			})
		}, []Rule{Linearizable}},
		"a write without an answer, sent while the undo is on its way, is there after it": {func(h changed) {
			h.Operations = append(h.Operations, lost(put("a", 119, 195, "r/1", "w", 0)))
			h.operation("y", func(op *history.Operation) {
				if op.Revision == third {
					op.Found = "w"
				}
			})
			h.Finals["m-0"]["r/1"], h.States[1].Pairs["r/1"] = "w", "w"
		}, nil},
		"a write without an answer, sent before the target is reached, is there after the restore": {func(h changed) {
			h.Operations = append(h.Operations, lost(put("b", 2, 30, "r/1", "w", 0)))
			h.operation("x", func(op *history.Operation) {
				if op.Kind == history.Get {
					op.Found = "w"
				}
			})
			h.States[0].Pairs["r/1"] = "w"
		}, nil},
		"a write without an answer, sent after the target, survives the restore": {func(h changed) {
			h.operation("z", func(op *history.Operation) { op.Call, op.Return = ms(4), ms(15) })
			h.operation("x", func(op *history.Operation) {
				if op.Kind == history.Get {
					op.Found = "z"
				}
			})
		}, []Rule{Linearizable}},
		"a write without an answer survives the restore and is overwritten": {func(h changed) {
			h.operation("x", func(op *history.Operation) {
				if op.Kind == history.Get {
					op.Found = "z"
				}
			})
			h.operation("v", func(op *history.Operation) {
				if op.Kind == history.Get {
					op.Found = "x"
				}
			})
		}, []Rule{Linearizable}},
		"the undo does not bring a key back": {func(h changed) {
			delete(h.States[1].Pairs, "u/2")
			delete(h.Finals["m-0"], "u/2")
		}, []Rule{Durable}},
		"the undo brings a key back, and loses it later": {func(h changed) { delete(h.Finals["m-0"], "u/2") }, []Rule{Durable}},
		"the undo leaves a key of what it took back":     {func(h changed) { h.Finals["m-0"]["u/3"] = "c" }, []Rule{OneHistory}},
		"the undo leaves a value of what it took back": {func(h changed) {
			h.operation("y", func(op *history.Operation) {
				if op.Revision == third {
					op.Found = "v"
				}
			})
		}, []Rule{Linearizable}},
		"a write of what was taken back, without an answer, survives the undo": {func(h changed) {
			h.operation("v", func(op *history.Operation) { *op = lost(*op) })
			h.Watches[2].Events = h.Watches[2].Events[:1]
			h.operation("y", func(op *history.Operation) {
				if op.Revision == third {
					op.Found = "v"
				}
			})
			h.Finals["m-0"]["r/1"] = "v"
		}, []Rule{Linearizable}},
		"one that was sent before anything was answered survives the undo, too": {func(h changed) {
			h.Operations = append(h.Operations, lost(put("b", 92, 96, "r/1", "w", 0)))
			h.operation("y", func(op *history.Operation) {
				if op.Revision == third {
					op.Found = "w"
				}
			})
			h.Finals["m-0"]["r/1"], h.States[1].Pairs["r/1"] = "w", "w"
		}, []Rule{Linearizable}},
		"what is written after the undo is lost": {func(h changed) { delete(h.Finals["m-0"], "u/4") }, []Rule{Durable}},
		"the revision is not raised": {func(h changed) {
			for i := range h.Operations {
				if op := &h.Operations[i]; op.Revision >= second {
					op.Revision -= second - 4
				}
			}
			h.Watches, h.States = nil, nil
		}, []Rule{Durable, Linearizable, RealTime, Restored}},
		"a revision is raised that nobody restored": {func(h changed) { h.Restores = h.Restores[:1] }, []Rule{Durable, Linearizable, Restored}},
		"an older revision after it": {func(h changed) {
			h.operation("x", func(op *history.Operation) {
				if op.Kind == history.Get {
					op.Revision = 3
				}
			})
		}, []Rule{Linearizable, RealTime}},
		"who watches is not told that it is another history": {func(h changed) {
			h.Watches[0].Events = append(h.Watches[0].Events, h.Watches[2].Events...)
			h.Watches = slices.Delete(h.Watches, 1, 3)
		}, []Rule{OneHistory}},
		"who resumes is not told": {func(h changed) {
			h.Watches[1].Compacted = 0
			h.Watches[2].From = 6
		}, []Rule{OneHistory}},
		"progress of another history": {func(h changed) {
			h.Watches[1] = history.Watch{Watcher: "w", Segment: 1, From: 6, Progress: second}
		}, []Rule{OneHistory}},
		"nobody is answered between a restore and its undo": {func(h changed) {
			h.Operations = slices.DeleteFunc(h.Operations, func(op history.Operation) bool { return op.Revision >= second && op.Revision < third })
			h.Watches = []history.Watch{h.Watches[0], {Watcher: "w", Segment: 1, From: 6, Compacted: third}, h.Watches[4]}
		}, nil},
		"the undo of nothing":             {func(h changed) { h.Restores[0].Undoes = true }, nil},
		"a value that nobody has written": {func(h changed) { h.States[0].Pairs["r/1"] = "q" }, []Rule{Written}},
	} {
		t.Run(name, func(t *testing.T) {
			h := wentBack()
			test.change(changed{h})
			found := History(h, 1, time.Minute)
			got := rules(found)
			if name == "the undo of nothing" {
				if !slices.Contains(got, Restored) {
					t.Errorf("broken rules: %v", found)
				}
				return
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("broken rules: %v, want %v: %v", got, test.want, found)
			}
		})
	}
}

// A restore to before a restore that was undone, and one to the final snapshot of a restore, which lacks what was written until the members
// stopped. Two in a row are undone in turn.
func TestErasOfManyRestores(t *testing.T) {
	h := &history.History{Restores: []history.Restore{
		{Target: 30}, {Undoes: true}, {Target: 2*second + 4}, {Undoes: true, Target: 2*second + 5}, {Target: 10}, {Target: 5*second + 1}, {Undoes: true}, {Undoes: true},
	}}
	for i, last := range []int64{100, second + 50, 2*second + 7, 3*second + 1, 4*second + 1, 5*second + 1, 6*second + 1, 7*second + 1, 8*second + 1} {
		h.Operations = append(h.Operations, put("a", i, i, "u/"+strings.Repeat("x", i+1), "v", last), put("a", i, i, "u/y"+strings.Repeat("x", i), "v", int64(i)*second+1))
	}
	e, found := erasOf(h)
	if len(found) > 0 || len(e.all) != 9 {
		t.Fatalf("%+v, %v", e, found)
	}
	for leadsTo, want := range []map[int]int64{
		{0: 1 << 40}, {0: 30, 1: 1 << 40}, {0: 1 << 40, 2: 1 << 40}, {0: 1 << 40, 2: 2*second + 4, 3: 1 << 40}, {0: 1 << 40, 2: 2*second + 5, 4: 1 << 40}, {0: 10, 5: 1 << 40},
		{0: 10, 5: 5*second + 1, 6: 1 << 40}, {0: 10, 5: 1 << 40, 7: 1 << 40}, {0: 1 << 40, 2: 2*second + 5, 4: 1 << 40, 8: 1 << 40},
	} {
		got := map[int]int64{}
		for in := range e.all {
			if upTo := e.upTo(in, leadsTo); upTo > 0 {
				got[in] = min(upTo, 1<<40)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("era %d: %v, want %v", leadsTo, got, want)
		}
	}
}
