// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package store keeps snapshots as objects: in a folder, or in a bucket of S3 (and what is compatible with it),
// Google Cloud Storage or Azure. It links the drivers of the clouds, so only the agent imports it.
package store

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature"
	"github.com/spf13/pflag"
	"gocloud.dev/blob"
)

// Config is the location of a store.
type Config struct {
	// Provider is S3, GCS, ABS or Local.
	Provider string
	// Container is the bucket, or the folder of a Local store.
	Container string
	// Prefix of the objects.
	Prefix string
	// Endpoint is the URL of the service; empty for that of the credentials or the provider.
	Endpoint string
	// Credentials is a folder with one file for each key of Gardener's backup secrets. See credentials.go. Empty for the identity
	// that the cloud gives the process.
	Credentials string
	// SigningKeys is a folder with the keys that sign snapshots; empty: snapshots are neither signed nor need to be. See package
	// signature.
	SigningKeys string
	// Recipients are the public keys that snapshots are encrypted for; empty: they are written as plaintext. See package encryption.
	Recipients []string
	// Identities is a folder with the identities that decrypt snapshots; empty: encrypted ones cannot be read.
	Identities string
	// PlainUntil is the time until which snapshots need not be encrypted although there are recipients; zero for none. Where
	// snapshots are signed, the signature decides.
	PlainUntil time.Time
}

// AddFlags adds the flags of the configuration. Their names begin with the role, such as "source-".
func (c *Config) AddFlags(flags *pflag.FlagSet, role string) {
	name := func(field string) string { return role + "store-" + field }
	flags.StringVar(&c.Provider, name("provider"), "", "provider of the store: S3, GCS, ABS or Local; empty: none")
	flags.StringVar(&c.Container, name("container"), "", "bucket, or folder of a Local store")
	flags.StringVar(&c.Prefix, name("prefix"), "", "prefix of the objects")
	flags.StringVar(&c.Endpoint, name("endpoint"), "", "URL of the service, in place of the one in the credentials")
	flags.StringVar(&c.Credentials, name("credentials"), "", "folder with the credentials, one file for each key; empty: the identity that the cloud gives the pod")
	flags.StringVar(&c.SigningKeys, name("signing-keys"), "", "folder with the keys that sign snapshots; empty: snapshots are not signed")
	flags.StringSliceVar(&c.Recipients, name("recipients"), nil, "public keys of age that snapshots are encrypted for; empty: they are not encrypted")
	flags.StringVar(&c.Identities, name("identities"), "", "folder with the identities of age that decrypt snapshots; empty: encrypted ones cannot be read")
	flags.TimeVar(&c.PlainUntil, name("plain-until"), time.Time{}, []string{time.RFC3339}, "time until which snapshots need not be encrypted although there are recipients, in RFC 3339")
}

// maxSnapshots is the maximum number of snapshots: a delta every second for two days, and a margin.
const maxSnapshots = 250_000

// Store holds snapshots. It is safe for concurrent use.
type Store struct {
	objects    *objects
	signatures *signatures
	recipients encryption.Recipients
	// maxSnapshots bounds a list, which is held in memory.
	maxSnapshots int
}

func newStore(config Config) *Store {
	o := &objects{config: config, max: maxObjects}
	return &Store{objects: o, signatures: &signatures{objects: o}, maxSnapshots: maxSnapshots}
}

// Open opens a store. It reads the credentials but sends no request, so it does not report an unreachable store.
func Open(ctx context.Context, config Config) (*Store, error) {
	// A trailing slash is ignored.
	if err := backup.CheckPrefix(strings.TrimSuffix(config.Prefix, "/")); err != nil {
		return nil, unusable(fmt.Errorf("opening the store: %w", err))
	}
	s := newStore(config)
	var err error
	if s.recipients, err = encryption.ParseRecipients(config.Recipients); err != nil {
		return nil, unusable(fmt.Errorf("reading for whom snapshots are encrypted: %w", err))
	}
	if _, err := s.objects.open(ctx); err != nil {
		return nil, err
	}
	if s.Signed() {
		if _, err := s.signatures.trustedKeys(); err != nil {
			return nil, unusable(err)
		}
	}
	return s, nil
}

// String names the store, without secrets.
func (s *Store) String() string { return s.objects.String() }

// Close ends the store's connections.
func (s *Store) Close() error { return s.objects.close() }

// Signed reports whether snapshots must be signed.
func (s *Store) Signed() bool { return s.objects.config.SigningKeys != "" }

// Trust returns which snapshots may be used. A signature says more than an encryption: everyone who knows the recipients can encrypt.
func (s *Store) Trust() backup.Trust {
	switch {
	case s.Signed():
		return backup.TrustSigned
	case len(s.recipients) > 0:
		return backup.TrustEncrypted
	}
	return backup.TrustAll
}

// folder of the snapshots.
func (s *Store) folder() string { return path.Join(s.objects.config.Prefix, backup.LayoutVersion) }

// List returns all snapshots in the order in which they were taken, with the proofs of the signed ones. It ignores other objects.
func (s *Store) List(ctx context.Context) ([]backup.Snapshot, error) {
	list, _, err := s.list(ctx)
	return list, err
}

// list returns also why snapshots have no proof, by name.
func (s *Store) list(ctx context.Context) (snapshots []backup.Snapshot, reasons map[string]string, err error) {
	err = s.objects.in(ctx, s.folder(), func(name string, o *blob.ListObject) {
		snapshot, err := backup.ParseName(name)
		if err != nil {
			return
		}
		if snapshot.Prefix, snapshot.Size = s.folder(), o.Size; len(snapshots) <= s.maxSnapshots {
			snapshots = append(snapshots, snapshot)
		}
	})
	switch {
	case err != nil:
		return nil, nil, err
	case len(snapshots) > s.maxSnapshots:
		return nil, nil, fmt.Errorf("%s has more than %d snapshots: check who writes to it, and remove what is not needed", s, s.maxSnapshots)
	case s.Signed():
		if reasons, err = s.signatures.prove(ctx, snapshots); err != nil {
			return nil, nil, err
		}
	}
	if err := s.markKept(ctx, snapshots); err != nil {
		return nil, nil, err
	}
	return backup.Sorted(snapshots), reasons, nil
}

// Trusted returns the snapshots that may be used, in the order in which they were taken: without signing keys and recipients, all. With
// keys, it returns those with a valid signature, and unsigned ones that were taken until a time (a zero time accepts none); with recipients
// alone, encrypted ones, and others until Config.PlainUntil. A *backup.UntrustedError comes with them if another one would otherwise be
// restored. A signature is of a name and a size: the content is verified when it is read to its end.
func (s *Store) Trusted(ctx context.Context, until time.Time) ([]backup.Snapshot, error) {
	list, reasons, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	trust := s.Trust()
	if trust == backup.TrustEncrypted {
		until = s.objects.config.PlainUntil
	}
	trusted, refused := backup.Trusted(list, trust, until)
	if refused != "" {
		return trusted, &backup.UntrustedError{Name: refused, Trust: trust, Reason: cmp.Or(reasons[refused], trust.Lacks()), Where: s.String()}
	}
	return trusted, nil
}

// File returns the file of a snapshot; ok is false if the store is a bucket.
func (s *Store) File(snapshot backup.Snapshot) (name string, ok bool) {
	return s.objects.file(s.key(snapshot)), s.objects.isLocal()
}

func (s *Store) key(snapshot backup.Snapshot) string { return path.Join(s.folder(), snapshot.Name()) }

// Delete removes a snapshot, the chunks that another tool may have left beside it, and then its signatures: a snapshot that loses
// its signature first would be refused after a crash. A missing snapshot is not an error.
func (s *Store) Delete(ctx context.Context, snapshot backup.Snapshot) error {
	keys := []string{s.key(snapshot)}
	err := s.objects.each(ctx, s.key(snapshot)+"/", func(o *blob.ListObject) { keys = append(keys, o.Key) })
	if err != nil {
		return err
	}
	signatures, err := s.signatures.of(ctx, snapshot)
	if err != nil {
		return err
	}
	return s.objects.remove(ctx, append(keys, signatures...))
}

// Sweep removes what is older than a time: holds, and leftovers of interrupted uploads, which are signatures, and unfinished files in a
// folder. Buckets hide unfinished uploads, and remove them by their own rules. What the store refuses to remove does not keep the rest. Holds come
// first: they keep snapshots.
func (s *Store) Sweep(ctx context.Context, before time.Time) error {
	present := map[string]bool{}
	var keys []string
	for _, of := range []struct {
		folder string
		isOld  func(name string, o *blob.ListObject) bool
	}{
		{s.keptFolder(), func(name string, _ *blob.ListObject) bool {
			hold, ok := holdOf(name)
			return ok && hold.Since.Before(before)
		}},
		{s.folder(), func(name string, _ *blob.ListObject) bool { present[name] = true; return false }},
		{s.signatures.folder(), func(name string, o *blob.ListObject) bool {
			r, err := signature.ParseName(name)
			return err == nil && !present[r.Name] && o.ModTime.Before(before)
		}},
	} {
		err := s.objects.in(ctx, of.folder, func(name string, o *blob.ListObject) {
			isUnfinished := s.objects.isLocal() && strings.HasPrefix(path.Base(name), unfinished)
			if of.isOld(name, o) || isUnfinished && o.ModTime.Before(before) {
				keys = append(keys, o.Key)
			}
		})
		if err != nil {
			return err // without it, signatures of what is present would be leftovers
		}
	}
	return s.sweep(ctx, keys)
}

// sweep removes objects until the context ends. Its error says how many are left, and why the first is.
func (s *Store) sweep(ctx context.Context, keys []string) error {
	left, first := len(keys), error(nil)
	for _, key := range keys {
		err := s.objects.remove(ctx, []string{key})
		if err == nil {
			left--
			continue
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	if first != nil {
		return fmt.Errorf("%d of %d are left; the first: %w", left, len(keys), first)
	}
	return nil
}
