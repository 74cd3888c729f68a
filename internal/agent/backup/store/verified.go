// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
)

// verified is the object of a signed snapshot. It returns io.EOF only if the content is what was signed.
type verified struct {
	io.ReadCloser
	name string
	want string // SHA-256
	left int64  // how many bytes may follow
	hash hash.Hash
}

func newVerified(object io.ReadCloser, snapshot backup.Snapshot) io.ReadCloser {
	if snapshot.Proof == nil {
		return object
	}
	return &verified{ReadCloser: object, name: snapshot.Name(), want: snapshot.Proof.SHA256, left: snapshot.Size, hash: sha256.New()}
}

func (v *verified) Read(p []byte) (int, error) {
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	v.left -= int64(n)
	if v.left < 0 || errors.Is(err, io.EOF) && hex.EncodeToString(v.hash.Sum(nil)) != v.want {
		return n, &backup.CorruptError{Name: v.name, Reason: "its content is not what was signed"}
	}
	return n, err
}

// Verify reads a snapshot that Write returned back from the store, and returns an error unless it is complete. An encrypted one is
// decrypted.
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
	// The chunks of an encrypted object are complete, or not decrypted.
	if !snapshot.Encrypted && read.n != snapshot.Size {
		return fmt.Errorf("snapshot %s has %d bytes, and %d were written", snapshot.Name(), read.n, snapshot.Size)
	}
	return nil
}
