// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
)

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

// Verify reads a snapshot that Write returned back from the store, and returns an error unless it is complete.
func (s *Store) Verify(ctx context.Context, snapshot backup.Snapshot) error {
	object, err := s.Reader(ctx, snapshot)
	if err != nil {
		return err
	}
	// It was only read.
	defer func() { _ = object.Close() }()
	read := &counter{w: io.Discard}
	if err := backup.Verify(snapshot, io.TeeReader(object, read)); err != nil {
		return err
	}
	if read.n != snapshot.Size {
		return fmt.Errorf("snapshot %s has %d bytes, and %d were written", snapshot.Name(), read.n, snapshot.Size)
	}
	return nil
}
