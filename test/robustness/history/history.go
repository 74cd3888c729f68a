// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package history is what clients of an etcd cluster did and saw, as a file with one JSON object a line. The clients write
// it, the checker reads it, and it is kept with a run that failed.
package history

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Kind is the kind of an operation.
type Kind string

// The kinds of operations.
const (
	Put       Kind = "put"       // of Value, with Lease if that is not zero
	Get       Kind = "get"       // linearizable
	Swap      Kind = "swap"      // to Value if the value is Old, in one transaction
	Grant     Kind = "grant"     // of Lease for TTL
	KeepAlive Kind = "keepalive" // of Lease
)

// Operation is one request of a client. Times are since the beginning of the run, by one monotonic clock.
type Operation struct {
	Client string        `json:"client"`
	Kind   Kind          `json:"kind"`
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return"`
	// Error is why the client does not know the outcome; empty if it does.
	Error string `json:"error,omitempty"`

	Key   string `json:"key,omitempty"`
	Value string `json:"value,omitempty"`
	// Old is the value that a Swap expects; empty for no key.
	Old string `json:"old,omitempty"`
	// Found is what a Get read, or a Swap that did not happen; empty for no key.
	Found   string `json:"found,omitempty"`
	Swapped bool   `json:"swapped,omitempty"`
	// Revision of the answer. That of a write is the revision at which it was written.
	Revision int64         `json:"revision,omitempty"`
	Lease    int64         `json:"lease,omitempty"`
	TTL      time.Duration `json:"ttl,omitempty"`
}

// Acknowledged reports whether the outcome is known.
func (o Operation) Acknowledged() bool { return o.Error == "" }

// Wrote reports whether the operation is known to have written its value.
func (o Operation) Wrote() bool {
	return o.Acknowledged() && (o.Kind == Put || o.Kind == Swap && o.Swapped)
}

// Watch is one answer of a watch.
type Watch struct {
	// Watcher and Segment name the watch. A watcher that was interrupted resumes with the next segment.
	Watcher string `json:"watcher"`
	Segment int    `json:"segment"`
	// From is the revision that the segment was asked to begin at.
	From   int64         `json:"from"`
	At     time.Duration `json:"at"`
	Events []Event       `json:"events,omitempty"`
	// Progress is the revision up to which all events have been delivered, if the answer says so.
	Progress int64 `json:"progress,omitempty"`
	// Compacted is the revision from which the watch can be resumed, since older ones are compacted.
	Compacted int64 `json:"compacted,omitempty"`
}

// Event is a change of a key.
type Event struct {
	Revision int64  `json:"r"`
	Key      string `json:"k"`
	Value    string `json:"v,omitempty"`
	Deleted  bool   `json:"d,omitempty"`
}

// Hash is the hash of a member's key space at a revision.
type Hash struct {
	Member    string `json:"member"`
	Revision  int64  `json:"revision"`
	Compacted int64  `json:"compacted"`
	Hash      uint32 `json:"hash"`
}

// Final is a part of what a member returns at the end, read linearizably.
type Final struct {
	Member string            `json:"member"`
	Pairs  map[string]string `json:"pairs"`
	// More is to come.
	More bool `json:"more,omitempty"`
}

// Restore is a time in which a cluster went back, since somebody had asked for it.
type Restore struct {
	From time.Duration `json:"from"`
	To   time.Duration `json:"to"`
	// Target is the last revision that it went back to; 0 for all that there was before the Restore that it undoes.
	Target int64 `json:"target,omitempty"`
	// Undoes: it undoes the last one before it that is neither an undo nor undone.
	Undoes bool `json:"undoes,omitempty"`
}

// State is all that the cluster had at a revision, read linearizably once it had gone back.
type State struct {
	Revision int64             `json:"revision"`
	Pairs    map[string]string `json:"pairs"`
}

// Line is one line of the file; one of its fields is set.
type Line struct {
	Operation *Operation `json:"operation,omitempty"`
	Watch     *Watch     `json:"watch,omitempty"`
	Hash      *Hash      `json:"hash,omitempty"`
	Final     *Final     `json:"final,omitempty"`
	Restore   *Restore   `json:"restore,omitempty"`
	State     *State     `json:"state,omitempty"`
}

// History is a whole file.
type History struct {
	Operations []Operation
	Watches    []Watch
	Hashes     []Hash
	// Restores are in order, with the States that were found after some of them.
	Restores []Restore
	States   []State
	// Finals are the key spaces at the end, by member.
	Finals map[string]map[string]string
	// Unread are the members whose key space was not read to its end.
	Unread map[string]bool
}

// Add adds a line.
func (h *History) Add(line Line) {
	switch {
	case line.Operation != nil:
		h.Operations = append(h.Operations, *line.Operation)
	case line.Watch != nil:
		h.Watches = append(h.Watches, *line.Watch)
	case line.Hash != nil:
		h.Hashes = append(h.Hashes, *line.Hash)
	case line.Restore != nil:
		h.Restores = append(h.Restores, *line.Restore)
	case line.State != nil:
		h.States = append(h.States, *line.State)
	case line.Final != nil:
		if h.Finals == nil {
			h.Finals = map[string]map[string]string{}
		}
		if h.Finals[line.Final.Member] == nil {
			h.Finals[line.Final.Member] = map[string]string{}
		}
		h.read(line.Final.Member, line.Final.More)
		for key, value := range line.Final.Pairs {
			h.Finals[line.Final.Member][key] = value
		}
	}
}

// read notes whether the key space of a member has been read to its end.
func (h *History) read(member string, more bool) {
	if !more {
		delete(h.Unread, member)
		return
	}
	if h.Unread == nil {
		h.Unread = map[string]bool{}
	}
	h.Unread[member] = true
}

// Read reads a file to its end.
func Read(in io.Reader) (*History, error) {
	h, lines := &History{}, json.NewDecoder(bufio.NewReader(in))
	for {
		var line Line
		err := lines.Decode(&line)
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the history: %w", err)
		}
		h.Add(line)
	}
}

// ReadFile reads a file.
func ReadFile(path string) (*History, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	return Read(file)
}

// Writer writes a file. Any number of clients may use it at once. The zero value is not usable.
type Writer struct {
	began time.Time

	mutex sync.Mutex
	out   *bufio.Writer
	lines *json.Encoder
	err   error
}

// NewWriter returns a Writer for a run that began at a time.
func NewWriter(out io.Writer, began time.Time) *Writer {
	buffered := bufio.NewWriterSize(out, 1<<16)
	return &Writer{began: began, out: buffered, lines: json.NewEncoder(buffered)}
}

// Now returns the time since the run began.
func (w *Writer) Now() time.Duration { return time.Since(w.began) }

// Write adds a line. Close returns its error.
func (w *Writer) Write(line Line) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.err == nil {
		w.err = w.lines.Encode(line)
	}
}

// Close writes what is buffered, and returns the first error of any line.
func (w *Writer) Close() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err := errors.Join(w.err, w.out.Flush()); err != nil {
		return fmt.Errorf("writing the history: %w", err)
	}
	return nil
}
