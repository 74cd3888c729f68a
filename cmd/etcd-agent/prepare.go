// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/prepare"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// terminationLog is where the kubelet reads why a container ended.
const terminationLog = "/dev/termination-log"

func prepareCommand(log logr.Logger) *cobra.Command {
	var storeConfig store.Config
	var leases leaseNames
	options := prepare.Options{Name: os.Getenv(member.NameVariable), ClientDir: member.ClientDir, Clock: clock.RealClock{}}
	cmd := &cobra.Command{
		Use:   "prepare",
		Short: "Decide how the member starts, and write its configuration file",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if storeConfig.Provider != "" {
				options.Begins = leases.begins(options.SharedDir)
				options.Backups = limitedBackups{prepare.StoredBackups{Config: storeConfig, Recorded: leases.recorded(), Accept: leases.accept(), Begins: options.Begins, Log: log}}
			}
			err := prepare.Run(cmd.Context(), log, options)
			if refusal, ok := errors.AsType[*cluster.Refusal](err); ok {
				report(log, refusal)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&options.Name, "name", options.Name, "name of the member, by default $"+member.NameVariable)
	cmd.Flags().StringVar(&options.SharedDir, "shared-dir", member.SharedDir, "folder with the configuration that the members share")
	cmd.Flags().StringVar(&options.ConfigFile, "config-file", member.ConfigFile, "file to write")
	cmd.Flags().DurationVar(&options.Patience, "patience", time.Minute, "how long to wait for conditions that may change before failing, so that the kubelet restarts the container")
	storeConfig.AddFlags(cmd.Flags(), "")
	leases.addFlags(cmd.Flags())
	return cmd
}

// leaseNames names the leases that record the newest snapshots.
type leaseNames struct{ namespace, full, delta string }

func (l *leaseNames) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&l.namespace, "namespace", os.Getenv(member.NamespaceVariable), "namespace of the leases, by default $"+member.NamespaceVariable)
	flags.StringVar(&l.full, "full-snapshot-lease", "", "lease that reports the newest full snapshot")
	flags.StringVar(&l.delta, "delta-snapshot-lease", "", "lease that reports the newest delta snapshot")
}

// recorded returns a function that reads what the leases record; nil without leases. Without a restore nothing is read: a member with intact
// data starts also if the API server cannot be asked.
func (l *leaseNames) recorded() func(context.Context) (backup.Record, error) {
	if l.full == "" {
		return nil
	}
	return func(ctx context.Context) (backup.Record, error) {
		config, err := rest.InClusterConfig()
		if err != nil {
			return backup.Record{}, fmt.Errorf("loading the in-cluster configuration: %w", err)
		}
		read, err := serve.Recorded(config, l.namespace, l.full, l.delta)
		if err != nil {
			return backup.Record{}, err
		}
		return read(ctx)
	}
}

// begins returns the record of at which revision clusters of the Etcd begin that the shared configuration is of; nil without leases. A member that
// nothing can be recorded for waits.
func (l *leaseNames) begins(sharedDir string) datadir.Recorder {
	if l.full == "" {
		return nil
	}
	return func(ctx context.Context, token string, at func(began int64, again bool) int64) (int64, error) {
		shared, err := member.ReadShared(sharedDir)
		if err != nil {
			return 0, err
		}
		config, err := rest.InClusterConfig()
		if err != nil {
			return 0, fmt.Errorf("loading the in-cluster configuration: %w", err)
		}
		record, err := serve.Begins(config, l.etcd(shared.EtcdUID()), l.full)
		if err != nil {
			return 0, err
		}
		return record(ctx, token, at)
	}
}

// etcd returns what is known of the Etcd of a UID: its name is in that of the lease.
func (l *leaseNames) etcd(uid string) *v1alpha1.Etcd {
	name := strings.TrimSuffix(l.full, (&v1alpha1.Etcd{}).FullSnapshotLeaseName())
	return &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name, UID: types.UID(uid)}}
}

// accept returns the command with which a person accepts a store that ends before what the leases record, but for the revision.
func (l *leaseNames) accept() string {
	return fmt.Sprintf("kubectl annotate lease -n %s %s --overwrite %s=", l.namespace, l.full, v1alpha1.AnnotationAcceptRevision)
}

// report writes why a member does not start to the termination log, from where the operator gets it.
func report(log logr.Logger, refusal *cluster.Refusal) {
	file, err := os.OpenFile(terminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if err == nil {
		_, err = fmt.Fprint(file, refusal.TerminationMessage())
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		log.Info("Could not write the termination message", "reason", err.Error())
	}
}

// limitedBackups restores backups within a limit of memory.
type limitedBackups struct{ prepare.StoredBackups }

// Restore limits the memory of this process while it restores.
func (b limitedBackups) Restore(ctx context.Context, shared member.Shared, id member.Identity) error {
	release, err := limitMemory()
	if err != nil {
		return err
	}
	return errors.Join(b.StoredBackups.Restore(ctx, shared, id), release())
}

// What a restore may use of memory. It streams, maps the database, and bounds its transactions, so it needs a few hundred MiB;
// only a list of free pages grows with the database.
const (
	// softMemory is from where on the garbage collector works harder.
	softMemory = 1 << 30
	// maxMemory is where the process ends, before its node has no memory left.
	maxMemory = 4 << 30
	// maxStack ends a recursion over hostile content early. Go's default is 1 GiB.
	maxStack = 64 << 20
)

// limitMemory limits the memory of this process until release is called. The init container of a member has no limit of its
// own: it would add to what a namespace's quota counts, could exceed what its LimitRange allows, and could not be changed in
// place together with the limit of etcd.
func limitMemory() (release func() error, err error) {
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_DATA, &before); err != nil {
		return nil, fmt.Errorf("reading the limit of memory: %w", err)
	}
	limited := before
	limited.Cur = min(before.Cur, maxMemory)
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &limited); err != nil {
		return nil, fmt.Errorf("limiting memory: %w", err)
	}
	stack, soft := debug.SetMaxStack(maxStack), debug.SetMemoryLimit(math.MaxInt64)
	debug.SetMemoryLimit(min(soft, softMemory))
	return func() error {
		debug.SetMaxStack(stack)
		debug.SetMemoryLimit(soft)
		return unix.Setrlimit(unix.RLIMIT_DATA, &before)
	}, nil
}
