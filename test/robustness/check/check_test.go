// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
)

type ops = []history.Operation

func put(client string, call, end int, key, value string, revision int64) history.Operation {
	return history.Operation{Client: client, Kind: history.Put, Call: ms(call), Return: ms(end), Key: key, Value: value, Revision: revision}
}

func get(call, end int, key, found string, revision int64) history.Operation {
	return history.Operation{Client: "b", Kind: history.Get, Call: ms(call), Return: ms(end), Key: key, Found: found, Revision: revision}
}

func swap(client string, call, end int, old, value string, revision int64) history.Operation {
	return history.Operation{Client: client, Kind: history.Swap, Call: ms(call), Return: ms(end), Key: "r/1", Old: old, Value: value, Swapped: true, Revision: revision}
}

// lost returns an operation as its client sees it without an answer.
func lost(op history.Operation) history.Operation {
	op.Error, op.Swapped, op.Found, op.Revision = "deadline exceeded", false, "", 0
	return op
}

func failed(op history.Operation, found string) history.Operation {
	op.Swapped, op.Found = false, found
	return op
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func watch(segment int, from int64, at int, events ...history.Event) history.Watch {
	return history.Watch{Watcher: "w", Segment: segment, From: from, At: ms(at), Events: events}
}

func event(revision int64, key, value string) history.Event {
	return history.Event{Revision: revision, Key: key, Value: value}
}

func rules(all []Violation) []Rule {
	var names []Rule
	for _, v := range all {
		names = append(names, v.Rule)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func TestOperations(t *testing.T) {
	for name, test := range map[string]struct {
		ops  ops
		want []Rule
	}{
		"one after another": {ops{put("a", 0, 1, "r/1", "x", 2), get(2, 3, "r/1", "x", 2), swap("a", 4, 5, "x", "y", 3), get(6, 7, "r/1", "y", 3)}, nil},
		"a stale read":      {ops{put("a", 0, 1, "r/1", "x", 2), put("a", 2, 3, "r/1", "y", 3), get(4, 5, "r/1", "x", 3)}, []Rule{Linearizable}},
		"a read of nothing after a write": {
			ops{put("a", 0, 1, "r/1", "x", 2), get(2, 3, "r/1", "", 2)}, []Rule{Linearizable},
		},
		"a concurrent read of either": {ops{put("a", 0, 9, "r/1", "x", 2), get(1, 2, "r/1", "", 1), get(3, 4, "r/1", "x", 2)}, nil},
		"a concurrent read that goes back": {
			ops{put("a", 0, 9, "r/1", "x", 2), get(1, 2, "r/1", "x", 2), get(3, 4, "r/1", "", 2)}, []Rule{Linearizable},
		},
		"both swaps of two win": {
			ops{put("a", 0, 1, "r/1", "x", 2), swap("a", 2, 5, "x", "y", 3), swap("b", 2, 5, "x", "z", 4)}, []Rule{Linearizable},
		},
		"one swap of two wins": {
			ops{put("a", 0, 1, "r/1", "x", 2), swap("a", 2, 5, "x", "y", 3), failed(swap("b", 2, 5, "x", "z", 3), "y")}, nil,
		},
		"a swap fails for no reason": {
			ops{put("a", 0, 1, "r/1", "x", 2), failed(swap("b", 2, 5, "x", "z", 2), "x")}, []Rule{Linearizable},
		},
		"a swap fails and found what nobody wrote": {
			ops{put("a", 0, 1, "r/1", "x", 2), failed(swap("b", 2, 5, "y", "z", 2), "q")}, []Rule{Linearizable},
		},
		"a lost write that happened": {ops{lost(put("a", 0, 5, "r/1", "x", 0)), get(9, 10, "r/1", "x", 2)}, nil},
		"a lost write that did not":  {ops{lost(put("a", 0, 5, "r/1", "x", 0)), get(9, 10, "r/1", "", 1)}, nil},
		"a lost write that happens and is undone": {
			ops{lost(put("a", 0, 5, "r/1", "x", 0)), get(9, 10, "r/1", "x", 2), get(11, 12, "r/1", "", 2)}, []Rule{Linearizable},
		},
		"a lost write that happens twice": {
			ops{lost(put("a", 0, 5, "r/1", "x", 0)), get(9, 10, "r/1", "x", 2), put("b", 11, 12, "r/1", "y", 3), get(13, 14, "r/1", "x", 4)},
			[]Rule{Linearizable},
		},
		"a lost write that is seen before it": {
			ops{get(1, 2, "r/1", "x", 2), lost(put("a", 3, 5, "r/1", "x", 0))}, []Rule{Linearizable},
		},
		"a lost swap that happened": {
			ops{put("a", 0, 1, "r/1", "x", 2), lost(swap("a", 2, 5, "x", "y", 0)), get(9, 10, "r/1", "y", 3)}, nil,
		},
		"a lost swap that cannot have": {
			ops{put("a", 0, 1, "r/1", "x", 2), lost(swap("a", 2, 5, "q", "y", 0)), get(9, 10, "r/1", "y", 3)}, []Rule{Linearizable},
		},
		"a lost swap from which another swaps": {
			ops{put("a", 0, 1, "r/1", "x", 2), lost(swap("a", 2, 5, "x", "y", 0)), swap("b", 9, 10, "y", "z", 4)}, nil,
		},
		"two lost swaps, and the second is seen": {
			ops{put("a", 0, 1, "r/1", "x", 2), lost(swap("a", 2, 5, "x", "y", 0)), lost(swap("b", 2, 5, "y", "z", 0)), get(9, 10, "r/1", "z", 4)}, nil,
		},
		"a lost read": {ops{put("a", 0, 1, "r/1", "x", 2), lost(get(2, 3, "r/1", "", 0))}, nil},
		"a revision is given twice": {
			ops{put("a", 0, 5, "r/1", "x", 2), put("b", 0, 5, "r/2", "y", 2)}, []Rule{RealTime},
		},
		"a write at an older revision than one before it": {
			ops{put("a", 0, 1, "r/1", "x", 9), put("b", 2, 3, "r/2", "y", 8)}, []Rule{RealTime},
		},
		"a read at an older revision than one before it": {
			ops{put("a", 0, 1, "r/1", "x", 9), get(2, 3, "r/2", "", 8)}, []Rule{RealTime},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rules(History(&history.History{Operations: test.ops}, 0, time.Minute)); !slices.Equal(got, test.want) {
				t.Errorf("broken rules: %v, want %v", got, test.want)
			}
		})
	}
}

func TestWatches(t *testing.T) {
	writes := ops{put("a", 0, 1, "k", "x", 2), put("a", 2, 3, "k", "y", 3), put("a", 4, 5, "k", "z", 4)}
	for _, sent := range [][2]string{{"k", "q"}, {"k", "late"}, {"k", "lost"}, {"j", "y"}} {
		writes = append(writes, lost(put("b", 0, 1, sent[0], sent[1], 0)))
	}
	leased := lost(put("b", 0, 1, "l/1", "x", 0))
	leased.Lease = 7
	writes = append(writes, leased)
	x, y, z := event(2, "k", "x"), event(3, "k", "y"), event(4, "k", "z")
	for name, test := range map[string]struct {
		watches []history.Watch
		want    []Rule
	}{
		"all of them":                     {[]history.Watch{watch(0, 1, 6, x, y), watch(0, 1, 7, z)}, nil},
		"resumed after the last one":      {[]history.Watch{watch(0, 1, 6, x), watch(1, 3, 7, y, z)}, nil},
		"still behind":                    {[]history.Watch{watch(0, 1, 6, x)}, nil},
		"one in the middle is missing":    {[]history.Watch{watch(0, 1, 6, x, z)}, []Rule{Complete}},
		"the first is missing":            {[]history.Watch{watch(0, 1, 6, y, z)}, []Rule{Complete}},
		"one is missing after it resumed": {[]history.Watch{watch(0, 1, 6, x), watch(1, 3, 7, z)}, []Rule{Complete}},
		"one comes twice":                 {[]history.Watch{watch(0, 1, 6, x, y), watch(0, 1, 7, y, z)}, []Rule{Unique}},
		"in the wrong order":              {[]history.Watch{watch(0, 1, 6, y, x, z)}, []Rule{Ordered}},
		"resumed too early":               {[]history.Watch{watch(0, 1, 6, x, y), watch(1, 4, 7, y, z)}, []Rule{Resumable}},
		"compacted in between":            {[]history.Watch{watch(0, 1, 6, x), watch(1, 4, 7, z)}, nil},
		"another value than acknowledged": {[]history.Watch{watch(0, 1, 6, x, event(3, "k", "q"), z)}, []Rule{Agreeing}},
		"two watchers disagree": {
			[]history.Watch{watch(0, 1, 6, x, y, z), {Watcher: "v", From: 1, Events: []history.Event{x, event(3, "j", "y"), z}}}, []Rule{Agreeing},
		},
		"only another watcher saw it": {
			[]history.Watch{watch(0, 1, 6, x, y, z, event(6, "k", "late")), {Watcher: "v", From: 1, Events: []history.Event{x, y, z, event(5, "k", "lost"), event(6, "k", "late")}}},
			[]Rule{Complete},
		},
		"progress beyond what was delivered": {[]history.Watch{watch(0, 1, 6, x), {Watcher: "w", From: 1, Progress: 4}}, []Rule{Complete}},
		"an event after progress":            {[]history.Watch{watch(0, 1, 6, x, y), {Watcher: "w", From: 1, Progress: 4}, watch(0, 1, 8, z)}, []Rule{Ordered}},
		"a value that nobody wrote":          {[]history.Watch{watch(0, 1, 6, x, y, z, event(5, "k", "nobody's"))}, []Rule{Written}},
		"a value of another key":             {[]history.Watch{watch(0, 1, 6, x, y, z, event(5, "j", "z"))}, []Rule{Written}},
		"a key that nobody deletes":          {[]history.Watch{watch(0, 1, 6, x, y, z, history.Event{Revision: 5, Key: "k", Deleted: true})}, []Rule{Written}},
		"a key whose lease expires":          {[]history.Watch{watch(0, 1, 6, x, y, z, event(5, "l/1", "x"), history.Event{Revision: 6, Key: "l/1", Deleted: true})}, nil},
		"progress up to what was delivered":  {[]history.Watch{watch(0, 1, 6, x, y), {Watcher: "w", From: 1, Progress: 3}, watch(0, 1, 8, z)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rules(History(&history.History{Operations: writes, Watches: test.watches}, 0, time.Minute)); !slices.Equal(got, test.want) {
				t.Errorf("broken rules: %v, want %v", got, test.want)
			}
		})
	}
}

func TestLeases(t *testing.T) {
	leased := put("a", 10, 20, "l/1", "x", 2)
	leased.Lease = 7
	renewed := func(kind history.Kind, call, end int) history.Operation {
		return history.Operation{Client: "a", Kind: kind, Call: ms(call), Return: ms(end), Lease: 7, TTL: time.Second}
	}
	for name, test := range map[string]struct {
		ops     ops
		deleted int
		want    []Rule
	}{
		"expired":                              {ops{renewed(history.Grant, 0, 5), leased}, 1000, nil},
		"expired early":                        {ops{renewed(history.Grant, 0, 5), leased}, 999, []Rule{LeaseKept}},
		"expired after it was renewed":         {ops{renewed(history.Grant, 0, 5), leased, renewed(history.KeepAlive, 500, 510)}, 1500, nil},
		"expired though it was renewed":        {ops{renewed(history.Grant, 0, 5), leased, renewed(history.KeepAlive, 500, 510)}, 1400, []Rule{LeaseKept}},
		"a renewal was lost":                   {ops{renewed(history.Grant, 0, 5), leased, lost(renewed(history.KeepAlive, 500, 510))}, 1400, nil},
		"a renewal was answered after the end": {ops{renewed(history.Grant, 0, 5), leased, renewed(history.KeepAlive, 990, 1200)}, 1100, nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history.History{Operations: test.ops, Watches: []history.Watch{watch(0, 1, 30, event(2, "l/1", "x")), watch(0, 1, test.deleted, history.Event{Revision: 3, Key: "l/1", Deleted: true})}}
			if got := rules(History(h, 0, time.Minute)); !slices.Equal(got, test.want) {
				t.Errorf("broken rules: %v, want %v", got, test.want)
			}
		})
	}
}

func TestTheEnd(t *testing.T) {
	writes := ops{put("a", 0, 1, "u/1", "x", 2), lost(put("a", 2, 3, "u/2", "y", 0)), lost(put("a", 2, 3, "u/1", "q", 0))}
	hash := func(member string, revision int64, value uint32) history.Hash {
		return history.Hash{Member: member, Revision: revision, Compacted: 1, Hash: value}
	}
	all := func(pairs ...map[string]string) map[string]map[string]string {
		finals := map[string]map[string]string{}
		for i, p := range pairs {
			finals["m-"+strconv.Itoa(i)] = p
		}
		return finals
	}
	x, both := map[string]string{"u/1": "x"}, map[string]string{"u/1": "x", "u/2": "y"}
	equal := []history.Hash{hash("m-0", 3, 42), hash("m-1", 3, 42)}
	for name, test := range map[string]struct {
		finals map[string]map[string]string
		unread string
		hashes []history.Hash
		want   []Rule
	}{
		"all there, and one that was not acknowledged": {all(both, x), "", equal, nil},
		"one member has lost it":                       {all(x, map[string]string{}), "", equal, []Rule{Durable}},
		"another value":                                {all(x, map[string]string{"u/1": "q"}), "", equal, []Rule{Durable}},
		"a key that nobody wrote":                      {all(x, map[string]string{"u/1": "x", "u/9": "x"}), "", equal, []Rule{Written}},
		"another hash":                                 {all(x, x), "", []history.Hash{hash("m-0", 3, 42), hash("m-1", 3, 43)}, []Rule{SameHash}},
		"the hash of another revision":                 {all(x, x), "", []history.Hash{hash("m-0", 3, 42), hash("m-1", 4, 42)}, []Rule{SameHash}},
		"a member was not asked":                       {all(x), "", equal, []Rule{Undecided}},
		"no member was asked":                          {nil, "", equal, []Rule{Undecided}},
		"a member was asked for a part":                {all(x, map[string]string{}), "m-1", equal, []Rule{Undecided}},
		"a part that is lost nevertheless":             {all(map[string]string{}, map[string]string{}), "m-1", equal, []Rule{Durable, Undecided}},
		"a hash is missing":                            {all(x, x), "", equal[:1], []Rule{Undecided}},
		"no hash":                                      {all(x, x), "", nil, []Rule{Undecided}},
		"one member gave two hashes":                   {all(x, x), "", []history.Hash{equal[0], equal[0]}, []Rule{Undecided}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history.History{Operations: writes, Finals: test.finals, Hashes: test.hashes, Unread: map[string]bool{}}
			if test.unread != "" {
				h.Unread[test.unread] = true
			}
			if got := rules(History(h, 2, time.Minute)); !slices.Equal(got, test.want) {
				t.Errorf("broken rules: %v, want %v", got, test.want)
			}
		})
	}
}

// What members have at the end was read by them, after everything else.
func TestRegistersAtTheEnd(t *testing.T) {
	writes := ops{put("a", 0, 1, "r/1", "x", 2), put("a", 2, 3, "r/1", "y", 3), lost(put("b", 2, 3, "r/1", "z", 0)), put("a", 2, 3, "u/1", "v", 4)}
	for name, test := range map[string]struct {
		values [2]string
		want   []Rule
	}{
		"the last":                       {[2]string{"y", "y"}, nil},
		"one that was not acknowledged":  {[2]string{"z", "z"}, nil},
		"one that happened meanwhile":    {[2]string{"y", "z"}, nil},
		"an older one":                   {[2]string{"y", "x"}, []Rule{Linearizable}},
		"none":                           {[2]string{"y", ""}, []Rule{Linearizable}},
		"none at all":                    {[2]string{"", ""}, []Rule{Linearizable}},
		"one that nobody wrote":          {[2]string{"y", "q"}, []Rule{Linearizable, Written}},
		"the last, and one of a new key": {[2]string{"y", "y+"}, []Rule{Linearizable, Written}},
	} {
		h := &history.History{Operations: writes, Finals: map[string]map[string]string{}}
		for i, value := range test.values {
			member := "m-" + strconv.Itoa(i)
			h.Finals[member] = map[string]string{"u/1": "v"}
			if value == "y+" {
				h.Finals[member]["r/2"], value = "y", "y"
			}
			if value != "" {
				h.Finals[member]["r/1"] = value
			}
			h.Hashes = append(h.Hashes, history.Hash{Member: member})
		}
		if got := rules(History(h, 2, time.Minute)); !slices.Equal(got, test.want) {
			t.Errorf("%s: broken rules: %v, want %v", name, got, test.want)
		}
		h.Unread = map[string]bool{"m-1": true}
		if got := rules(History(h, 1, time.Minute)); test.values[0] == "y" && slices.Contains(got, Linearizable) {
			t.Errorf("%s: broken rules, although the member was not read to the end: %v", name, got)
		}
	}
}

func TestReportsAreBounded(t *testing.T) {
	h := &history.History{Finals: map[string]map[string]string{"m-0": {}}, Hashes: []history.Hash{{Member: "m-0"}}}
	for i := range 1000 {
		h.Operations = append(h.Operations, put("a", 2*i, 2*i+1, "u/"+strings.Repeat("x", i+1), "v", int64(i+2)))
	}
	if n := len(History(h, 1, time.Minute)); n != maxOfRule {
		t.Errorf("%d violations are reported", n)
	}
}

// A simulated etcd gives legal histories, however slow its answers are and however many are lost; one that forgets a
// write, or serves a read from the past, does not for long.
func TestSimulatedHistories(t *testing.T) {
	for seed := range uint64(30) {
		for _, fault := range []string{"", "forgets", "stale"} {
			h := simulate(rand.New(rand.NewPCG(seed, 1)), fault)
			found := History(h, 0, time.Minute)
			if legal := len(found) == 0; legal != (fault == "") {
				t.Errorf("seed %d, fault %q: %v", seed, fault, found)
			}
		}
	}
}

// simulate runs operations of three clients on a register. Each happens at some time between its call and its return.
func simulate(random *rand.Rand, fault string) *history.History {
	h := &history.History{}
	value, before, revision := "", "", int64(1)
	busy := map[int]int{}
	for i := range 400 {
		client := random.IntN(3)
		at := 10 * (i + 1)
		call := max(busy[client]+1, at-random.IntN(60))
		if call >= at {
			continue
		}
		end := at + random.IntN(60)
		busy[client] = end
		op := history.Operation{Client: string(rune('a' + client)), Key: "r/1", Call: ms(call), Return: ms(end)}
		switch op.Value = "v" + time.Duration(i).String(); random.IntN(3) {
		case 0:
			op.Kind = history.Put
			if fault != "forgets" || random.IntN(2) > 0 {
				before, value = value, op.Value
			}
			revision++
		case 1:
			op.Kind, op.Found, op.Value = history.Get, value, ""
			if fault == "stale" && random.IntN(5) == 0 {
				op.Found = before
			}
		default:
			op.Kind, op.Old = history.Swap, []string{value, "no such value"}[random.IntN(2)]
			if op.Swapped = op.Old == value; op.Swapped {
				before, value = value, op.Value
				revision++
			} else {
				op.Found = value
			}
		}
		if op.Revision = revision; random.IntN(5) == 0 {
			op = lost(op)
		}
		h.Operations = append(h.Operations, op)
	}
	return h
}

func TestAWriteSeenTooEarlyEndsLast(t *testing.T) {
	if end := bound(lost(put("a", 5, 6, "k", "x", 0)), map[string]time.Duration{"x": ms(1)}); end != math.MaxInt64 {
		t.Errorf("ends at %d", end)
	}
	if _, err := history.ReadFile(t.TempDir() + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}
