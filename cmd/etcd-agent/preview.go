// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
)

func previewCommand(log logr.Logger) *cobra.Command {
	var own store.Config
	var recorded record
	var at, prefix string
	config := restore.PreviewConfig{Log: log}
	j := &job{work: func(ctx context.Context) (any, error) {
		var err error
		if at != "" {
			if config.Target.Time, err = time.Parse(time.RFC3339, at); err != nil {
				return nil, fmt.Errorf("--time: %w", err)
			}
		}
		if config.Record, err = recorded.parse(); err != nil {
			return nil, err
		}
		if config.Store, err = store.Open(ctx, own); err != nil {
			return nil, err
		}
		if prefix != "" {
			own.Prefix = prefix
			if config.From, err = store.Open(ctx, own); err != nil {
				return nil, err
			}
		}
		return restore.Preview(ctx, config)
	}}
	cmd := j.newCommand("restore-preview", "Report what a restore to an earlier state would bring; the store is only read")
	flags, target := cmd.Flags(), &config.Target
	own.AddFlags(flags, "")
	recorded.addFlags(flags)
	flags.StringVar(&config.WorkDir, "work-dir", workDir, "folder with room for the database and the largest delta")
	flags.BoolVar(&target.Latest, "latest", false, "restore the newest state")
	flags.Int64Var(&target.Revision, "revision", 0, "restore the state at a revision")
	flags.StringVar(&at, "time", "", "restore the state at a time, in RFC 3339")
	flags.StringVar(&target.Snapshot, "snapshot", "", "restore the state at the end of a snapshot, by its name")
	flags.StringVar(&target.Base, "base", "", "name of the full snapshot to begin with; empty: the newest one before the target")
	flags.StringVar(&prefix, "from-prefix", "", "prefix of the snapshots to restore, in the same container; empty: that of the store, with whose newest state the other is compared")
	flags.StringVar(&config.EtcdUID, "etcd-uid", "", "UID of the Etcd, for the digest")
	flags.StringVar(&config.ClusterID, "cluster-id", "", "ID, in hex, of the cluster that goes back, for the digest")
	flags.StringVar(&config.Members.Version, "etcd-version", "", "version of etcd of the members; data of a newer minor version is refused")
	flags.Int64Var(&config.Members.Quota, "quota", 0, "quota of the members in bytes; a database that reaches it is refused")
	flags.BoolVar(&config.Members.AcceptAuth, "accept-auth", false, "accept a state in which clients have to log in")
	return cmd
}

func snapshotPrefixesCommand(log logr.Logger) *cobra.Command {
	var from store.Config
	config := restore.AtRestConfig{Log: log}
	j := &job{work: func(ctx context.Context) (any, error) {
		var err error
		if config.Store, err = store.Open(ctx, from); err != nil {
			return nil, err
		}
		return restore.ReadAtRest(ctx, config)
	}}
	cmd := j.newCommand("snapshot-prefixes", "Report which prefixes of keys the newest full snapshot has most of; the store is only read")
	from.AddFlags(cmd.Flags(), "")
	cmd.Flags().StringVar(&config.WorkDir, "work-dir", workDir, "folder with room for the database")
	return cmd
}
