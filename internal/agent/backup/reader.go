// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
)

// CorruptError reports an object that was truncated or altered.
type CorruptError struct {
	// Name of the object.
	Name string
	// Reason, for people.
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("snapshot %s is corrupt: %s", e.Name, e.Reason)
}

// LockedError reports an encrypted snapshot that cannot be decrypted here. It says nothing about the content.
type LockedError struct {
	// Name of the object.
	Name string
	// Reason, for people.
	Reason string
	// NoneFits: there is no identity for it here. Otherwise, the identities could not be read.
	NoneFits bool
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("snapshot %s is encrypted and cannot be read here: %s. Nothing is lost: a person who has an identity can decrypt it with age", e.Name, e.Reason)
}

// NewReader returns the content of a snapshot, decompressed and without the checksum at its end. Only io.EOF confirms that
// the content is complete; do not rely on it before. Incomplete content ends in a *CorruptError; errors of the object's own
// reader are returned as they are.
func NewReader(s Snapshot, object io.Reader) (io.Reader, error) {
	return newReader(s, object, s.maxContent())
}

func newReader(s Snapshot, object io.Reader, limit int64) (io.Reader, error) {
	source := &sourceReader{r: object}
	content, err := s.Compression.decompressor(source)
	if err != nil {
		return nil, source.blame(s.Name(), err)
	}
	return &contentReader{name: s.Name(), source: source, r: content, hash: sha256.New(), limit: limit, buffer: make([]byte, bufferSize)}, nil
}

// WriteFull writes a full snapshot into its object, from etcd's stream, which ends in a checksum. It verifies the checksum:
// after an error, the object must be discarded.
func WriteFull(object io.Writer, s Snapshot, stream io.Reader) error {
	compressor := s.Compression.compressor(object)
	plain := s
	plain.Compression = None
	content, err := NewReader(plain, io.TeeReader(stream, compressor))
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return err
	}
	return compressor.Close()
}

// Verify reads an object to its end and returns an error if it is corrupt.
func Verify(s Snapshot, object io.Reader) error {
	content, err := NewReader(s, object)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return err
	}
	// Read what follows the compressed content, too: it is part of the object.
	_, err = io.Copy(io.Discard, object)
	return err
}

// bufferSize makes each read worth its overhead, and stays in a processor's cache.
const bufferSize = 256 << 10

// contentReader holds back the last 32 bytes: at the end they are the checksum of the rest.
type contentReader struct {
	name   string
	source *sourceReader
	r      io.Reader
	hash   hash.Hash
	buffer []byte
	rest   []byte // read, and not returned yet
	ended  bool
	// limit of the content, in bytes; 0 for none. seen is how much of it, and of its checksum, was read.
	limit, seen int64
}

// ready returns the content that can be returned.
func (c *contentReader) ready() []byte { return c.rest[:max(len(c.rest)-sha256.Size, 0)] }

func (c *contentReader) Read(p []byte) (int, error) {
	for len(c.ready()) == 0 {
		if c.ended {
			return 0, c.verdict()
		}
		if err := c.fill(c.buffer); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.ready())
	c.hash.Write(p[:n])
	c.rest = c.rest[n:]
	return n, nil
}

// WriteTo reads and writes while another goroutine hashes.
func (c *contentReader) WriteTo(w io.Writer) (int64, error) {
	pieces, hashed := make(chan []byte), make(chan struct{})
	go func() {
		defer close(hashed)
		for piece := range pieces {
			c.hash.Write(piece)
		}
	}()
	total, err := c.pour(w, pieces)
	close(pieces)
	<-hashed
	if err != nil {
		return total, err
	}
	if err := c.verdict(); !errors.Is(err, io.EOF) {
		return total, err
	}
	return total, nil
}

// pour writes the content piece by piece, and sends each piece to be hashed. The channel is unbuffered: once it accepts a
// piece, the previous one is hashed and its buffer is free.
func (c *contentReader) pour(w io.Writer, pieces chan<- []byte) (total int64, err error) {
	into, free := c.buffer, make([]byte, len(c.buffer))
	for {
		if piece := c.ready(); len(piece) > 0 {
			pieces <- piece
			n, err := w.Write(piece)
			total += int64(n)
			if err != nil {
				return total, err
			}
			c.rest = c.rest[len(piece):]
			into, free = free, into
		}
		if c.ended {
			return total, nil
		}
		if err := c.fill(into); err != nil {
			return total, err
		}
	}
}

// fill reads on into a buffer, behind the rest.
func (c *contentReader) fill(buffer []byte) error {
	had := copy(buffer, c.rest)
	n, err := c.r.Read(buffer[had:])
	c.rest = buffer[:had+n]
	if c.seen += int64(n); c.limit > 0 && c.seen > c.limit+sha256.Size {
		c.rest = nil
		return &CorruptError{c.name, fmt.Sprintf("its content has more than %d bytes", c.limit)}
	}
	if errors.Is(err, io.EOF) {
		c.ended = true
		return nil
	}
	if err != nil {
		return c.source.blame(c.name, err)
	}
	return nil
}

// verdict returns io.EOF if the checksum matches.
func (c *contentReader) verdict() error {
	switch {
	case len(c.rest) < sha256.Size:
		return &CorruptError{c.name, "it is shorter than its checksum"}
	case !bytes.Equal(c.rest, c.hash.Sum(nil)):
		return &CorruptError{c.name, "its SHA-256 does not match"}
	}
	return io.EOF
}

// sourceReader remembers whether reading failed, which says nothing about the content.
type sourceReader struct {
	r      io.Reader
	failed bool
}

func (s *sourceReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.failed = err != nil && !errors.Is(err, io.EOF)
	return n, err
}

func (s *sourceReader) blame(name string, err error) error {
	if s.failed {
		return fmt.Errorf("reading snapshot %s: %w", name, err)
	}
	return &CorruptError{name, "it cannot be decompressed: " + err.Error()}
}
