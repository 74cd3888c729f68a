// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Write is an acknowledged write.
type Write struct {
	// Number of the write, unique.
	Number int
	// Member that acknowledged it.
	Member string
	// Revision at which it was written.
	Revision int64
	// Sent and Acknowledged are the times of the request and the answer.
	Sent, Acknowledged time.Time
}

// ledger records the writes.
type ledger struct {
	prefix string
	first  chan struct{} // closed at the first acknowledgement

	mutex  sync.Mutex
	begun  int
	done   []Write
	closed time.Time
}

func newLedger(now time.Time) *ledger {
	return &ledger{prefix: fmt.Sprintf("/etcd-foreman/measure/%x/", now.UnixNano()), first: make(chan struct{})}
}

// begin returns the number of the next write; false once the ledger is closed.
func (l *ledger) begin(now time.Time) (int, bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.begun == maxWrites && l.closed.IsZero() {
		l.closed = now
	}
	if !l.closed.IsZero() {
		return 0, false
	}
	l.begun++
	return l.begun, true
}

func (l *ledger) acknowledge(w Write) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.done) == 0 {
		close(l.first)
	}
	l.done = append(l.done, w)
}

func (l *ledger) acknowledged() (number int, last time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if number = len(l.done); number > 0 {
		last = l.done[number-1].Acknowledged
	}
	return number, last
}

// close ends the writing; writes in flight may still be acknowledged.
func (l *ledger) close(now time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.closed.IsZero() {
		l.closed = now
	}
}

// list returns the acknowledged writes in the order of their acknowledgement, the number of all writes, and
// when the ledger was closed.
func (l *ledger) list() ([]Write, int, time.Time) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	done := slices.Clone(l.done)
	slices.SortFunc(done, func(a, b Write) int {
		return cmp.Or(a.Acknowledged.Compare(b.Acknowledged), cmp.Compare(a.Number, b.Number))
	})
	return done, l.begun, l.closed
}

// key and value of a write follow from the write alone, so that none has to be stored.
func (l *ledger) key(number int) string { return fmt.Sprintf("%s%08d", l.prefix, number) }

func value(number int, member string) string {
	return fmt.Sprintf("write %d through %s", number, member)
}
