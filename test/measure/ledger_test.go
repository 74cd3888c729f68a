// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"strings"
	"testing"
)

func TestLedgerEndsAtItsLimit(t *testing.T) {
	l := newLedger(at(0))
	l.begun = maxWrites - 1
	if _, ok := l.begin(at(1)); !ok {
		t.Error("the last write is refused")
	}
	for range 2 {
		if _, ok := l.begin(at(2)); ok {
			t.Error("a write beyond the limit is accepted")
		}
	}
	l.close(at(3))
	if _, attempted, closed := l.list(); attempted != maxWrites || !closed.Equal(at(2)) {
		t.Errorf("%d writes, closed at %s", attempted, closed)
	}
}

func TestLosses(t *testing.T) {
	w := &Writer{writes: newLedger(at(0))}
	stored := map[string]string{}
	var writes []Write
	for i := range 4 {
		write := Write{Number: i, Member: "m-0"}
		writes = append(writes, write)
		stored[w.writes.key(i)] = value(i, "m-0")
	}
	if lost := w.losses(writes, stored); len(lost) != 0 {
		t.Errorf("losses without a lost write: %v", lost)
	}
	delete(stored, w.writes.key(1))
	stored[w.writes.key(3)] = value(2, "m-0")
	lost := w.losses(writes, stored)
	if len(lost) != 2 || !strings.Contains(lost[0], "00000001 is missing, acknowledged by m-0") || !strings.Contains(lost[1], "instead of") {
		t.Errorf("losses: %v", lost)
	}
}
