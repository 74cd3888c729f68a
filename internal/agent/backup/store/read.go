// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"io"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption"
	"gocloud.dev/blob"
)

// Reader reads the object of a snapshot, decrypted if it is encrypted. Only its io.EOF confirms that an encrypted or a signed one is what
// was written; the content is verified by backup.NewReader. It returns a *backup.LockedError for a snapshot that cannot be decrypted
// here.
func (s *Store) Reader(ctx context.Context, snapshot backup.Snapshot) (io.ReadCloser, error) {
	return s.decrypted(snapshot, func() (io.ReadCloser, error) { return s.Object(ctx, snapshot) })
}

// Object reads the object of a snapshot as it is. Only its io.EOF confirms that a signed one is what was signed.
func (s *Store) Object(ctx context.Context, snapshot backup.Snapshot) (io.ReadCloser, error) {
	r, err := s.part(ctx, snapshot, wholeObject)
	if err != nil {
		return nil, err
	}
	return newVerified(r, snapshot), nil
}

// CanRead returns an error unless a snapshot can be decrypted here: a *backup.LockedError, unless its beginning could not be read. One
// that is not encrypted can be read.
func (s *Store) CanRead(ctx context.Context, snapshot backup.Snapshot) error {
	if !snapshot.Encrypted {
		return nil
	}
	r, err := s.decrypted(snapshot, func() (io.ReadCloser, error) { return s.part(ctx, snapshot, encryption.Beginning) })
	if err != nil {
		return err
	}
	return r.Close()
}

// wholeObject is the length of a part that is everything.
const wholeObject = -1

// part reads the beginning of an object.
func (s *Store) part(ctx context.Context, snapshot backup.Snapshot, length int64) (*blob.Reader, error) {
	bucket, err := s.objects.open(ctx)
	if err != nil {
		return nil, err
	}
	r, err := bucket.NewRangeReader(ctx, s.key(snapshot), 0, length, nil)
	if err != nil {
		return nil, fmt.Errorf("reading snapshot %s: %w", snapshot.Name(), err)
	}
	return r, nil
}

// decrypted opens an object, and decrypts it if it is encrypted. The identities are read each time: the Secret may have changed.
func (s *Store) decrypted(snapshot backup.Snapshot, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	if !snapshot.Encrypted {
		return open()
	}
	folder := s.objects.config.Identities
	if folder == "" {
		return nil, &backup.LockedError{Name: snapshot.Name(), Reason: "the Etcd names no Secret with identities (spec.backup.encryption.identitySecretRef)", NoneFits: true}
	}
	identities, err := encryption.ReadIdentities(folder)
	if err != nil {
		return nil, &backup.LockedError{Name: snapshot.Name(), Reason: err.Error()}
	}
	object, err := open()
	if err != nil {
		return nil, err
	}
	content, err := identities.Decrypt(snapshot, object)
	if err != nil {
		_ = object.Close() // it was only read
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{content, object}, nil
}

// Identities returns the recipients for which snapshots can be decrypted here. That of a snapshot is not known by its object.
func (s *Store) Identities() (string, error) {
	identities, err := encryption.ReadIdentities(s.objects.config.Identities)
	return identities.String(), err
}

// PeopleOnly reports whether snapshots are encrypted for people alone: there is no identity here, and none is meant to be.
func (s *Store) PeopleOnly() bool { return len(s.recipients) > 0 && s.objects.config.Identities == "" }
