// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
)

// StoredBackups implements Backups with a store. The store is opened only when needed: a member with intact data starts even
// with invalid credentials.
type StoredBackups struct {
	Config store.Config
	// Recorded returns the newest snapshot that is recorded outside of the store. It may be nil. Accept is the command with which a person
	// accepts a store of unsigned ones that ends before that: the revision follows.
	Recorded func(context.Context) (backup.Record, error)
	Accept   string
	// Begins records at which revision a cluster begins. It may be nil.
	Begins datadir.Recorder
	Log    logr.Logger
}

// Exist reports whether there is a full snapshot, signed or not. Restore reports a missing delta, and a missing signature.
func (b StoredBackups) Exist(ctx context.Context) (bool, error) {
	from, err := store.Open(ctx, b.Config)
	if err != nil {
		return false, err
	}
	defer func() { _ = from.Close() }()
	list, err := from.List(ctx)
	if err != nil {
		return false, err
	}
	_, err = backup.Newest(list)
	if errors.Is(err, backup.ErrNoFull) {
		return false, nil
	}
	return true, nil
}

// Begun reports whether the cluster with a token may have begun with another copy. A recovery that restores the backup at another prefix has its
// marker in the own backup.
func (b StoredBackups) Begun(ctx context.Context, token, copyID string) (bool, error) {
	in, err := store.Open(ctx, b.Config)
	if err != nil {
		return false, err
	}
	defer func() { _ = in.Close() }()
	return in.Begun(ctx, token, copyID)
}

// Begin marks that it begins with a copy.
func (b StoredBackups) Begin(ctx context.Context, token, copyID string) error {
	in, err := store.Open(ctx, b.Config)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	return in.Begin(ctx, token, copyID)
}

// Restore makes the data directory from the newest full snapshot and the deltas that follow it. For a recovery, it makes a directory that is
// still to be swapped for the data directory, also of an earlier state.
func (b StoredBackups) Restore(ctx context.Context, shared member.Shared, id member.Identity) error {
	accept, err := acceptance(shared.Accept)
	if err != nil {
		return err
	}
	b.Config.PlainUntil = accept.plainUntil
	if r := shared.Recovery; r != nil && r.Restore != nil {
		b.Config.Prefix = cmp.Or(r.Restore.Prefix, b.Config.Prefix)
	}
	from, err := store.Open(ctx, b.Config)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	config := restore.Config{
		Store: from, DataDir: shared.DataDir(), Member: id.Name, PeerURL: id.PeerURL,
		InitialCluster: shared.Founders(), Token: shared.RestoreToken(), AtLeast: shared.Revision, Begins: b.Begins, Log: b.Log,
		Behind: shared.ClusterID != "" && shared.Recovery.MayBeBehind(),
	}
	if r := shared.Recovery; r != nil {
		config.Known = r.HighestRevision
		config.DataDir, config.WorkDir = datadir.RebuiltDir(shared.DataDir(), r.Task), datadir.RestoringDir(shared.DataDir())
	}
	if r := shared.Recovery; r != nil && r.Restore != nil {
		config.Point = &restore.Point{Base: r.Restore.Base, Revision: r.Restore.Revision, Hash: r.Restore.Hash, Bytes: r.Restore.Bytes}
		config.Behind, config.Bump = false, r.Restore.Bump
	} else if err := b.verifies(ctx, from, accept.Acceptance, &config); err != nil {
		return err
	}
	result, err := restore.Restore(ctx, config)
	if err != nil {
		return fmt.Errorf("restoring from %s: %w%s", from, err, b.remedy(err, shared.Revision))
	}
	b.Log.Info("Restored the backup; later writes are lost", "revision", result.Revision, "raisedBy", result.Bump, "full", result.Chain.Full.Name(), "deltas", len(result.Chain.Deltas))
	return nil
}

// verifies adds what the newest backup must reach and, where snapshots are signed, what a user accepts nevertheless. Without the former, a store that
// has lost its newest snapshots would be restored in silence.
func (b StoredBackups) verifies(ctx context.Context, from *store.Store, accept restore.Acceptance, config *restore.Config) (err error) {
	if b.Recorded != nil {
		if config.Record, err = b.Recorded(ctx); err != nil {
			return fmt.Errorf("reading which snapshot must be restored at least: %w", err)
		}
	}
	if from.Signed() && accept != (restore.Acceptance{}) {
		config.Accept = accept
		b.Log.Info("The restore may use what is not verified", "unsignedUntil", accept.UnsignedUntil, "revision", accept.Revision)
	}
	return nil
}

// accepted is what a user lets a restore use.
type accepted struct {
	restore.Acceptance
	plainUntil time.Time
}

func acceptance(a *member.Acceptance) (accept accepted, err error) {
	if a == nil {
		return accepted{}, nil
	}
	accept.Revision = a.Revision
	if a.UnsignedUntil != "" {
		if accept.UnsignedUntil, err = time.Parse(time.RFC3339, a.UnsignedUntil); err != nil {
			return accepted{}, fmt.Errorf("reading what the restore may use without a signature: %w", err)
		}
	}
	if a.PlainUntil != "" {
		if accept.plainUntil, err = time.Parse(time.RFC3339, a.PlainUntil); err != nil {
			return accepted{}, fmt.Errorf("reading what the restore may use that is not encrypted: %w", err)
		}
	}
	return accept, nil
}

// remedy returns what a user can do about a restore that was refused for what is not signed or not encrypted, or older than recorded. What is
// older than the revision that it must reach is not accepted.
func (b StoredBackups) remedy(err error, atLeast int64) string {
	if refused, ok := errors.AsType[*backup.UntrustedError](err); ok {
		what, field := "unsigned", "signing.acceptUnsignedUntil"
		if refused.Trust == backup.TrustEncrypted {
			what, field = "plain", "encryption.acceptPlainUntil"
		}
		at := ""
		if s, err := backup.ParseName(refused.Name); err == nil {
			at = s.Created.UTC().Format(time.RFC3339)
		}
		return fmt.Sprintf(". To restore %s snapshots that you trust, set spec.backup.%s of the Etcd to the time of the last one (this one: %s)", what, field, at)
	}
	if older, ok := errors.AsType[*backup.OlderError](err); ok {
		if older.Reached.Revision < atLeast {
			return ". Put the missing snapshots back: what is to be restored must reach revision " + strconv.FormatInt(atLeast, 10)
		}
		do := fmt.Sprintf("accept it: %s%d", b.Accept, older.Reached.Revision)
		if b.Config.SigningKeys != "" {
			do = fmt.Sprintf("set spec.backup.signing.acceptRevision of the Etcd to %d", older.Reached.Revision)
		}
		return ". Put the missing snapshots back. To restore the older state and lose what was written since, " + do
	}
	return ""
}
