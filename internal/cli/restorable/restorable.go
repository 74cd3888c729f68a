// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package restorable is the verb restorable: the states of an Etcd that its backup leads to.
package restorable

import (
	"context"
	"strconv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/spf13/cobra"
)

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	return &cobra.Command{
		Use: "restorable ETCD", Short: "List the states that an Etcd can be restored to",
		Long: "Lists the states that the backup of an Etcd leads to, the newest first, as the agent of the leader last found them. Where deltas lead from one to the other, every revision and every second in between is a target of restore.\n" +
			"It reads the Lease of full snapshots.",
		Example: "  # List what etcd-main can be restored to\n  kubectl etcdtask restorable etcd-main",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: k.CompleteEtcds(),
		RunE: k.Run(func(ctx context.Context, cluster *kube.Cluster, arg string) error { return run(ctx, k, cluster, arg) }),
	}
}

func run(ctx context.Context, k *kube.Kube, cluster *kube.Cluster, arg string) error {
	etcd, err := cluster.NamedEtcd(ctx, arg)
	if err != nil {
		return err
	}
	if !etcd.HasBackupStore() {
		return kube.Failure("Etcd %q in namespace %s has no backup, and so nothing to restore: set spec.backup.store", etcd.Name, etcd.Namespace)
	}
	leases, err := observe.ReadSnapshotLeases(ctx, cluster, etcd)
	if err != nil {
		return err
	}
	if leases.Full == nil || leases.Full.Annotations[v1alpha1.AnnotationRestorable] == "" {
		return kube.Failure("no agent of Etcd %q in namespace %s has said yet what can be restored: see condition BackupReady, or preview a restore", etcd.Name, etcd.Namespace)
	}
	text.Print(k.Out, lines(leases.Full.Annotations)...)
	return nil
}

// lines is the table of the states, and what is said of snapshots that lead to none, or of the last one, by the annotations of the Lease.
func lines(annotations map[string]string) []string {
	intervals := backup.ReadIntervals(annotations[v1alpha1.AnnotationRestorable])
	locked, failed := annotations[v1alpha1.AnnotationUndecryptable], annotations[v1alpha1.AnnotationBackupError]
	table := text.Table{Columns: []text.Column{{Name: "FROM"}, {Name: "REVISION"}, {Name: "TO"}, {Name: "REVISION"}, {Name: "TARGETS"}}}
	for i, interval := range intervals {
		targets := "this full snapshot"
		switch {
		case interval.Fine && i == 0 && failed == "":
			targets = "every revision and second, and what was written since"
		case interval.Fine:
			targets = "every revision and second"
		}
		table.Add(at(interval.From), revision(interval.From), at(interval.To), revision(interval.To), targets)
	}
	said := table.Lines(0)
	if len(intervals) == 0 {
		said = []string{"The backup leads to no state that can be restored."}
	}
	if locked != "" {
		said = append(said, "", sanitize.Text(locked, 1024)+".")
	}
	if failed != "" {
		said = append(said, "", "The last snapshot failed, or could not be restored: "+sanitize.Text(failed, 1024)+".")
	}
	return said
}

func at(p backup.Point) string { return p.Time.UTC().Format(time.RFC3339) }

func revision(p backup.Point) string { return strconv.FormatInt(p.Revision, 10) }
