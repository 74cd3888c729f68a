// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"context"
	"errors"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/go-logr/logr"
)

// StoredBackups implements Backups with a store. The store is opened only when needed: a member with intact data starts even
// with invalid credentials.
type StoredBackups struct {
	Config store.Config
	Log    logr.Logger
}

// Exist reports whether there is a full snapshot. Restore reports a missing delta.
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

// Restore makes the data directory from the newest full snapshot and the deltas that follow it.
func (b StoredBackups) Restore(ctx context.Context, shared member.Shared, id member.Identity) error {
	from, err := store.Open(ctx, b.Config)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	config := restore.Config{
		Store: from, DataDir: shared.DataDir(), Member: id.Name, PeerURL: id.PeerURL,
		InitialCluster: shared.Founders(), Token: shared.Token(), Log: b.Log,
	}
	if shared.Recovery != nil {
		config.AtLeast = shared.Recovery.Revision
	}
	result, err := restore.Restore(ctx, config)
	if err != nil {
		return fmt.Errorf("restoring from %s: %w", from, err)
	}
	b.Log.Info("Restored the newest backup; later writes are lost", "revision", result.Revision, "full", result.Chain.Full.Name(), "deltas", len(result.Chain.Deltas))
	return nil
}
