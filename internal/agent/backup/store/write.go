// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/crashsafe"
	"gocloud.dev/blob"
)

const (
	// unfinished is the prefix of files that are being written. No tool takes them for snapshots.
	unfinished = ".unfinished-"
	// partSize and parallelParts bound the memory that an upload to a bucket takes. A bucket of S3 takes 10,000 parts of at
	// least 5 MiB each, which is room for a database of 48 GiB.
	partSize      = 5 << 20
	parallelParts = 2
)

// Write writes the object of a snapshot by calling write, and returns the snapshot as List would. The object gets its name
// only once it is complete and signed; a failed write leaves nothing but a signature. The snapshot's proof has the history and the
// predecessor to sign; without it, a full snapshot begins a new history. Where there are recipients, the object is encrypted; if the
// snapshot says that it is encrypted, that is what write does.
func (s *Store) Write(ctx context.Context, snapshot backup.Snapshot, write func(io.Writer) error) (backup.Snapshot, error) {
	if len(s.recipients) > 0 && !snapshot.Encrypted {
		snapshot.Encrypted = true
		write = s.encrypting(snapshot, write)
	}
	bucket, err := s.objects.open(ctx)
	if err != nil {
		return backup.Snapshot{}, err
	}
	// Closing a writer completes the object, unless its context was canceled.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	key := s.key(snapshot)
	if s.objects.isLocal() {
		key = path.Join(s.folder(), unfinished+snapshot.Name())
	}
	var file *os.File
	object, err := bucket.NewWriter(ctx, key, &blob.WriterOptions{
		BufferSize: partSize, MaxConcurrency: parallelParts, ContentType: "application/octet-stream",
		BeforeWrite: func(as func(any) bool) error { as(&file); return nil },
	})
	if err != nil {
		return backup.Snapshot{}, fmt.Errorf("writing snapshot %s: %w", snapshot.Name(), s.objects.refused(err))
	}
	counter := &counter{w: object}
	if s.Signed() {
		counter.hash = sha256.New()
	}
	err = s.pour(counter, file, write)
	switch {
	case err != nil:
	case s.Signed():
		snapshot.Proof, err = s.signatures.sign(ctx, snapshot, counter.n, counter.hash)
	default:
		snapshot.Proof = nil
	}
	if err == nil {
		err = s.finish(object, file, snapshot)
	} else {
		cancel()
		// The error of a canceled writer is meaningless.
		_ = object.Close()
	}
	if err != nil {
		return backup.Snapshot{}, fmt.Errorf("writing snapshot %s: %w", snapshot.Name(), s.objects.refused(err))
	}
	snapshot.Prefix, snapshot.Size = s.folder(), counter.n
	return snapshot, nil
}

// encrypting returns a function that encrypts what another one writes.
func (s *Store) encrypting(snapshot backup.Snapshot, write func(io.Writer) error) func(io.Writer) error {
	return func(object io.Writer) error {
		w, err := s.recipients.Encrypt(snapshot, object)
		if err != nil {
			return err
		}
		if err := write(w); err != nil {
			return err // what is not closed is not complete
		}
		return w.Close()
	}
}

// pour writes the content of an object; file is nil for a bucket.
func (s *Store) pour(object *counter, file *os.File, write func(io.Writer) error) error {
	if !s.objects.isLocal() {
		return write(object)
	}
	direct := newDirectWriter(file)
	object.w = direct
	err := write(object)
	if closed := direct.Close(); err == nil {
		err = closed
	}
	return err
}

// finish gives an object its name. A file is synced first.
func (s *Store) finish(object io.Closer, file *os.File, snapshot backup.Snapshot) error {
	if !s.objects.isLocal() {
		return object.Close()
	}
	if err := file.Sync(); err != nil {
		return errors.Join(err, object.Close())
	}
	if err := object.Close(); err != nil {
		return err
	}
	folder := s.objects.file(s.folder())
	return crashsafe.Rename(filepath.Join(folder, unfinished+snapshot.Name()), filepath.Join(folder, snapshot.Name()))
}

// counter counts what is written, and hashes it where snapshots are signed.
type counter struct {
	w    io.Writer
	n    int64
	hash hash.Hash // nil where they are not
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	if c.hash != nil {
		c.hash.Write(p[:n])
	}
	return n, err
}

// WriteDatabase writes a full snapshot from a database in a file, as etcd would send it: with its checksum.
func (s *Store) WriteDatabase(ctx context.Context, path string, snapshot backup.Snapshot) (backup.Snapshot, error) {
	file, err := os.Open(path)
	if err != nil {
		return backup.Snapshot{}, fmt.Errorf("opening the database: %w", err)
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	stream := io.MultiReader(io.TeeReader(file, hash), &checksum{hash: hash})
	return s.Write(ctx, snapshot, func(w io.Writer) error { return backup.WriteFull(w, snapshot, stream) })
}

// checksum reads the sum of what was hashed before the first read.
type checksum struct {
	hash hash.Hash
	sum  *bytes.Reader
}

func (c *checksum) Read(p []byte) (int, error) {
	if c.sum == nil {
		c.sum = bytes.NewReader(c.hash.Sum(nil))
	}
	return c.sum.Read(p)
}
