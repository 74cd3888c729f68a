// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Event is one change of a key, in the JSON of a delta snapshot.
type Event struct {
	EtcdEvent EtcdEvent `json:"EtcdEvent"`
	// Time at which the event was seen.
	Time time.Time `json:"Time"`
	// LeaseTTL is the TTL that the lease of the key was granted with, in seconds; 0 without a lease, or if it is unknown.
	// Other tools ignore it.
	LeaseTTL int64 `json:"LeaseTTL,omitempty"`
}

// EtcdEvent has the JSON of etcd's event. It does not use the type of etcd's client, whose generated code changes.
type EtcdEvent struct {
	// Type is 0 for a put and 1 for a deletion.
	Type EventType `json:"type,omitempty"`
	Kv   KeyValue  `json:"kv"`
}

// EventType is what happened to a key.
type EventType int32

// The event types.
const (
	Put        EventType = 0
	DeletedKey EventType = 1
)

// KeyValue is a key after the event; for a deletion, only key and revision.
type KeyValue struct {
	Key            []byte `json:"key,omitempty"`
	CreateRevision int64  `json:"create_revision,omitempty"`
	ModRevision    int64  `json:"mod_revision,omitempty"`
	Version        int64  `json:"version,omitempty"`
	Value          []byte `json:"value,omitempty"`
	Lease          int64  `json:"lease,omitempty"`
}

// DeltaBuffer collects events in the JSON of a delta snapshot. Its zero value is empty.
type DeltaBuffer struct {
	json        bytes.Buffer
	first, last int64
	seen        time.Time
}

// Add appends an event. Events come in the order of their revisions. It returns ErrDeltaTooBig for what could not be read
// again.
func (b *DeltaBuffer) Add(e Event) error {
	data, err := json.Marshal(e)
	switch {
	case err != nil:
		return fmt.Errorf("encoding an event: %w", err)
	case len(data) > maxEvent/2 || b.json.Len()+len(data)+sizeOfEnds > MaxDelta:
		return ErrDeltaTooBig
	}
	if b.json.Len() == 0 {
		b.first = e.EtcdEvent.Kv.ModRevision
		b.json.WriteByte('[')
	} else {
		b.json.WriteByte(',')
	}
	b.json.Write(data)
	b.last, b.seen = e.EtcdEvent.Kv.ModRevision, e.Time
	return nil
}

// sizeOfEnds is what a list has besides its events, in bytes.
const sizeOfEnds = 3

// Len returns the size of the collected events, in bytes.
func (b *DeltaBuffer) Len() int { return b.json.Len() }

// Revisions returns the revisions of the first and the last event.
func (b *DeltaBuffer) Revisions() (first, last int64) { return b.first, b.last }

// Seen returns when the last event was seen; zero without one.
func (b *DeltaBuffer) Seen() time.Time { return b.seen }

// Write writes a delta snapshot into its object. The buffer keeps the events, so that a failed write can be retried.
func (b *DeltaBuffer) Write(object io.Writer, s Snapshot) error {
	end := []byte{']'}
	hash := sha256.New()
	hash.Write(b.json.Bytes())
	hash.Write(end)
	compressor := s.Compression.compressor(object)
	for _, part := range [][]byte{b.json.Bytes(), end, hash.Sum(nil)} {
		if _, err := compressor.Write(part); err != nil {
			return err
		}
	}
	return compressor.Close()
}

// ReadDelta calls yield with each event of a delta snapshot, in order, from its verified content.
func ReadDelta(content io.Reader, yield func(Event) error) error {
	return readDelta(content, maxEvent, yield)
}

func readDelta(content io.Reader, limit int64, yield func(Event) error) error {
	// It bounds what is held in memory of one event.
	limited := &io.LimitedReader{R: content, N: limit}
	decoder := json.NewDecoder(limited)
	if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
		return fmt.Errorf("decoding events: they do not begin a list: %w", errors.Join(err))
	}
	for decoder.More() {
		var e Event
		if err := decoder.Decode(&e); err != nil && limited.N <= 0 {
			return fmt.Errorf("decoding an event: it has more than %d bytes", limit)
		} else if err != nil {
			return fmt.Errorf("decoding an event: %w", err)
		}
		if err := yield(e); err != nil {
			return err
		}
		limited.N = limit
	}
	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("decoding events: the list does not end: %w", err)
	}
	return nil
}

const (
	// MaxDelta bounds the content of a delta snapshot, in bytes: a small object may decompress to any size.
	MaxDelta = 512 << 20
	// maxEvent bounds the JSON of one event, in bytes: it is held in memory. etcd accepts no request that
	// would make a larger one, unless it is configured to accept more than 10 MiB.
	maxEvent = 16 << 20
)

// ErrDeltaTooBig is returned if events do not fit into a delta snapshot. A full snapshot is needed then.
var ErrDeltaTooBig = errors.New("the events are too large for a delta snapshot")

// maxContent bounds the content of a snapshot, in bytes; 0 is no limit. A database is limited by the disk that it is
// written to.
func (s Snapshot) maxContent() int64 {
	if s.Kind == Delta {
		return MaxDelta
	}
	return 0
}
