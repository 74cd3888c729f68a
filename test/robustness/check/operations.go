// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
)

// register is one key: its state is its value, empty if there is none.
var register = porcupine.Model{
	Init: func() any { return "" },
	Step: func(state, input, _ any) (bool, any) {
		return step(state.(string), input.(history.Operation))
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// step carries out an operation, and reports whether its answer fits the value.
func step(value string, op history.Operation) (bool, string) {
	switch {
	case op.Kind == history.Get:
		return op.Found == value, value
	case op.Kind == history.Put:
		return true, op.Value
	case !op.Acknowledged() && value == op.Old, op.Swapped:
		return value == op.Old, op.Value
	case !op.Acknowledged():
		return true, value
	default:
		return value != op.Old && op.Found == value, value
	}
}

// linearizability checks the history that leads to each era, as it would be if nobody had gone back; that of the last ends with what members have.
func (e eras) linearizability(all, end []history.Operation, patience time.Duration) []Violation {
	var found []Violation
	for i := range e.all {
		line := e.line(i, all)
		if i == e.last() {
			line = append(line, end...)
		}
		found = append(found, linearizability(line, patience)...)
	}
	return found
}

// linearizability checks each key by itself.
func linearizability(all []history.Operation, patience time.Duration) []Violation {
	keys := map[string][]history.Operation{}
	for _, op := range all {
		// A leased key changes by itself.
		if op.Key != "" && op.Lease == 0 {
			keys[op.Key] = append(keys[op.Key], op)
		}
	}
	var found []Violation
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		ops := relevant(keys[key])
		switch porcupine.CheckOperationsTimeout(register, ops, patience) {
		case porcupine.Illegal:
			found = append(found, Violation{Linearizable, time.Duration(ops[0].Call), fmt.Sprintf("no order of the %d operations on %s explains what their clients saw", len(ops), key)})
		case porcupine.Unknown:
			found = append(found, Violation{Undecided, time.Duration(ops[0].Call), fmt.Sprintf("the %d operations on %s could not be ordered within %s", len(ops), key, patience)})
		}
	}
	return found
}

// relevant returns the operations of a key that say something. A read without an answer says nothing, and neither does a
// write of unknown outcome whose value nobody has seen: values are unique, and a swap that fails returns what it found.
// If somebody has seen the value, the write happened before that.
func relevant(all []history.Operation) []porcupine.Operation {
	seen := sightings(all)
	slices.SortStableFunc(all, func(a, b history.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var ops []porcupine.Operation
	clients := map[string]int{}
	for _, op := range all {
		end := int64(op.Return)
		if !op.Acknowledged() {
			if end = bound(op, seen); end == 0 {
				continue
			}
		}
		if _, known := clients[op.Client]; !known {
			clients[op.Client] = len(clients)
		}
		ops = append(ops, porcupine.Operation{ClientId: clients[op.Client], Input: op, Call: int64(op.Call), Return: end})
	}
	return ops
}

// sightings returns when each value was first known to have been there.
func sightings(all []history.Operation) map[string]time.Duration {
	seen := map[string]time.Duration{}
	see := func(value string, at time.Duration) (news bool) {
		if first, known := seen[value]; value == "" || known && first <= at {
			return false
		}
		seen[value] = at
		return true
	}
	for _, op := range all {
		if !op.Acknowledged() {
			continue
		}
		see(op.Found, op.Return)
		if op.Kind == history.Swap && op.Swapped {
			see(op.Old, op.Return)
		}
	}
	// Who sees the value of a swap without an answer knows that the value before it was there.
	for news := true; news; {
		news = false
		for _, op := range all {
			if at, known := seen[op.Value]; op.Kind == history.Swap && !op.Acknowledged() && known {
				news = see(op.Old, at) || news
			}
		}
	}
	return seen
}

// bound returns when an operation of unknown outcome has happened at the latest; 0 if it need not be looked at.
func bound(op history.Operation, seen map[string]time.Duration) int64 {
	first, wasSeen := seen[op.Value]
	switch {
	case op.Kind == history.Get || !wasSeen:
		return 0
	case first <= op.Call: // seen before it was written, which no order explains
		return math.MaxInt64
	}
	return int64(first)
}

// realTime checks that revisions follow the order in which operations happened, over all keys: a write gets a newer
// revision than anything that was answered before it was asked for, a read gets none that is older.
func realTime(all []history.Operation) []Violation {
	var acknowledged []history.Operation
	for _, op := range all {
		if op.Acknowledged() && op.Revision != 0 {
			acknowledged = append(acknowledged, op)
		}
	}
	byReturn := slices.Clone(acknowledged)
	slices.SortFunc(byReturn, func(a, b history.Operation) int { return cmp.Compare(a.Return, b.Return) })
	slices.SortFunc(acknowledged, func(a, b history.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var found []Violation
	writes := map[int64]history.Operation{}
	newest, next := history.Operation{}, 0
	for _, op := range acknowledged {
		for ; next < len(byReturn) && byReturn[next].Return < op.Call; next++ {
			if byReturn[next].Revision > newest.Revision {
				newest = byReturn[next]
			}
		}
		if op.Revision < newest.Revision || op.Wrote() && op.Revision == newest.Revision {
			found = append(found, Violation{RealTime, op.Call, fmt.Sprintf("%s of %s by %s got revision %d after %s of %s by %s had returned revision %d", op.Kind, op.Key, op.Client, op.Revision, newest.Kind, newest.Key, newest.Client, newest.Revision)})
		}
		if !op.Wrote() {
			continue
		}
		if twin, taken := writes[op.Revision]; taken {
			found = append(found, Violation{RealTime, op.Call, fmt.Sprintf("revision %d was given to the writes of %s by %s and of %s by %s", op.Revision, twin.Key, twin.Client, op.Key, op.Client)})
		}
		writes[op.Revision] = op
	}
	return found
}
