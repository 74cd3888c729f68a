// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/finalsnapshot"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
)

// workDir is where Jobs mount a volume with room for a database.
const workDir = "/var/etcd/work"

// job is a command that ends, and leaves its result or error in a file.
type job struct {
	resultFile string
	work       func(context.Context) (any, error)
}

func (j *job) newCommand(use, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := j.work(cmd.Context())
			if err != nil {
				result = map[string]string{"error": err.Error()}
			}
			return errors.Join(err, j.leave(result))
		},
	}
	cmd.Flags().StringVar(&j.resultFile, "result-file", terminationLog, "file for the result, as JSON")
	return cmd
}

// leave writes the result. Outside a container there is no termination log.
func (j *job) leave(result any) error {
	if _, err := os.Stat(j.resultFile); errors.Is(err, os.ErrNotExist) && j.resultFile == terminationLog {
		return nil
	}
	data, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	if err := os.WriteFile(j.resultFile, data, 0o644); err != nil {
		return fmt.Errorf("leaving the result: %w", err)
	}
	return nil
}

// output is where, and how compressed, a job writes its snapshot.
type output struct {
	store       store.Config
	compression backup.Compression
}

func (o *output) addFlags(flags *pflag.FlagSet) {
	o.store.AddFlags(flags, "")
	flags.StringVar((*string)(&o.compression), "compression", string(backup.Gzip), "gzip, lzw, zlib or none")
}

func (o *output) open(ctx context.Context) (*store.Store, error) {
	if !o.compression.Valid() {
		return nil, fmt.Errorf("there is no compression %q", o.compression)
	}
	return store.Open(ctx, o.store)
}

// record is the newest snapshot that is recorded outside of the store.
type record struct {
	revision int64
	created  string
}

func (r *record) addFlags(flags *pflag.FlagSet) {
	flags.Int64Var(&r.revision, "recorded-revision", 0, "revision of the newest recorded snapshot: where snapshots are signed, a store that ends before it is refused")
	flags.StringVar(&r.created, "recorded-created", "", "time of the newest recorded snapshot, in RFC 3339")
}

func (r *record) parse() (backup.Record, error) {
	if r.created == "" {
		return backup.Record{Revision: r.revision}, nil
	}
	created, err := time.Parse(time.RFC3339, r.created)
	if err != nil {
		return backup.Record{}, fmt.Errorf("reading the time of the recorded snapshot: %w", err)
	}
	return backup.Record{Revision: r.revision, Created: created}, nil
}

func compactCommand(log logr.Logger) *cobra.Command {
	var out output
	var recorded record
	config := restore.CompactConfig{Log: log}
	j := &job{work: func(ctx context.Context) (any, error) {
		var err error
		if config.Store, err = out.open(ctx); err != nil {
			return nil, err
		}
		if config.Record, err = recorded.parse(); err != nil {
			return nil, err
		}
		config.Compression = out.compression
		done, err := restore.Compact(ctx, config)
		if err != nil {
			return nil, err
		}
		facts := done.Snapshot.Facts()
		facts["bytesBefore"], facts["bytesAfter"] = strconv.FormatInt(done.BytesBefore, 10), strconv.FormatInt(done.BytesAfter, 10)
		return facts, nil
	}}
	cmd := j.newCommand("compact", "Compact the newest full snapshot and its deltas into one full snapshot")
	out.addFlags(cmd.Flags())
	recorded.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&config.WorkDir, "work-dir", workDir, "folder with room for the database twice")
	return cmd
}

func copyCommand(log logr.Logger) *cobra.Command {
	var from, to store.Config
	var maxAge int
	var schedule string
	var recorded record
	config := copier.Config{Log: log}
	j := &job{work: func(ctx context.Context) (any, error) {
		var err error
		if config.Source, err = store.Open(ctx, from); err != nil {
			return nil, fmt.Errorf("source: %w", err)
		}
		if config.Target, err = store.Open(ctx, to); err != nil {
			return nil, fmt.Errorf("target: %w", err)
		}
		if config.Record, err = recorded.parse(); err != nil {
			return nil, err
		}
		if schedule != "" {
			if config.Due, err = snapshotter.Due(schedule); err != nil {
				return nil, fmt.Errorf("--full-snapshot-schedule: %w", err)
			}
		}
		config.Now, config.MaxAge = time.Now(), time.Duration(maxAge)*24*time.Hour
		return copier.Copy(ctx, config)
	}}
	cmd := j.newCommand("copy", "Copy snapshots from one store to another")
	from.AddFlags(cmd.Flags(), "source-")
	to.AddFlags(cmd.Flags(), "")
	recorded.addFlags(cmd.Flags())
	cmd.Flags().IntVar(&maxAge, "max-backup-age", 0, "maximum age, in days, of snapshots to copy; 0: any")
	cmd.Flags().IntVar(&config.MaxBackups, "max-backups", 0, "number of full snapshots to copy, newest first, and as many of the schedule; 0: all")
	cmd.Flags().StringVar(&schedule, "full-snapshot-schedule", "", "schedule of full snapshots in the source, as in a crontab, in UTC; empty: all are of the schedule")
	cmd.Flags().DurationVar(&config.WaitForFinal, "wait-for-final-snapshot", 0, "how long to wait for a final snapshot in the source; 0s: not at all")
	return cmd
}

func surveyCommand() *cobra.Command {
	var dataDir string
	j := &job{work: func(context.Context) (any, error) {
		return datadir.SurveyFor(dataDir, os.Getenv(member.KeptForVariable))
	}}
	cmd := j.newCommand("survey", "Report what is in the data directory of a stopped member; read-only")
	cmd.Flags().StringVar(&dataDir, "data-dir", member.DataDir, "etcd's data directory")
	return cmd
}

func finalSnapshotCommand(log logr.Logger) *cobra.Command {
	var out output
	config := finalsnapshot.Config{Clock: clock.RealClock{}, Log: log}
	j := &job{work: func(ctx context.Context) (any, error) {
		var err error
		if config.Store, err = out.open(ctx); err != nil {
			return nil, err
		}
		config.Compression = out.compression
		snapshot, err := finalsnapshot.Take(ctx, config)
		if err != nil {
			return nil, err
		}
		return snapshot.Facts(), nil
	}}
	cmd := j.newCommand("final-snapshot", "Take a full snapshot of the data of a stopped member; the data is only read")
	out.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&config.DataDir, "data-dir", member.DataDir, "etcd's data directory")
	cmd.Flags().StringVar(&config.ClusterID, "cluster-id", "", "ID, in hex, of the cluster that the data must belong to")
	cmd.Flags().StringVar(&config.WorkDir, "work-dir", workDir, "folder with room for the database")
	return cmd
}
