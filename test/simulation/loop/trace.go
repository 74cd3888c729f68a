// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package loop

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/fnv"
	"io"
	"time"
)

// Trace is what has happened, in order.
type Trace struct {
	hash  hash.Hash64
	lines []line
}

type line struct {
	at        time.Duration
	who, what string
}

func newTrace() *Trace { return &Trace{hash: fnv.New64a()} }

func (t *Trace) add(at time.Duration, who, what string) {
	t.lines = append(t.lines, line{at, who, what})
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(at))
	_, _ = t.hash.Write(b[:])
	_, _ = io.WriteString(t.hash, who)
	_, _ = io.WriteString(t.hash, what)
}

// Hash identifies the run.
func (t *Trace) Hash() uint64 { return t.hash.Sum64() }

// Len returns the number of lines.
func (t *Trace) Len() int { return len(t.lines) }

// Write writes a line for each thing that happened, to be read by people, except for what is skipped.
func (t *Trace) Write(w io.Writer, skip func(what string) bool) error {
	for _, l := range t.lines {
		if skip(l.what) {
			continue
		}
		if _, err := fmt.Fprintf(w, "%10.3fs  %-22s %s\n", l.at.Seconds(), l.who, l.what); err != nil {
			return fmt.Errorf("writing the trace: %w", err)
		}
	}
	return nil
}

// Differ returns the first lines in which two traces differ; empty if they do not.
func (t *Trace) Differ(other *Trace) string {
	for i := range max(len(t.lines), len(other.lines)) {
		var a, b line
		if i < len(t.lines) {
			a = t.lines[i]
		}
		if i < len(other.lines) {
			b = other.lines[i]
		}
		if a != b {
			return fmt.Sprintf("line %d: %s %s %q, and then %s %s %q", i+1, a.at, a.who, a.what, b.at, b.who, b.what)
		}
	}
	return ""
}

type event struct {
	at        time.Duration
	tie       uint64
	count     int
	who, what string
	do        func()
}

// events is a heap, by time.
type events []*event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].tie, e[j].tie), cmp.Compare(e[i].count, e[j].count)) < 0
}

func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

func (e *events) Push(x any) { *e = append(*e, x.(*event)) }

func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
