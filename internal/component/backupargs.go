// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// defaultMaxBackups is what the policy LimitBased keeps where the Etcd does not say.
const defaultMaxBackups = 7

// storeAccess is how the pods of an Etcd use its store; nil when it has none.
func storeAccess(in Input) (*StoreAccess, error) {
	store := BackupStore(in.Etcd)
	if store == nil {
		return nil, nil
	}
	access, err := Store(*store, in.Etcd.Namespace, StoreMain)
	if err != nil {
		return nil, fmt.Errorf("spec.backup: %w", err)
	}
	return &access, nil
}

// snapshotArgs are the arguments of the agent that say when snapshots are taken and how long they are kept.
func snapshotArgs(etcd *v1alpha1.Etcd) []string {
	b := etcd.Spec.Backup
	limit := int32(0)
	if ptr.Deref(b.GarbageCollectionPolicy, v1alpha1.GarbageCollectionExponential) == v1alpha1.GarbageCollectionLimitBased {
		limit = ptr.Deref(b.MaxBackupsLimitBasedGC, defaultMaxBackups)
	}
	compression := "none"
	if c := ptr.Deref(b.SnapshotCompression, v1alpha1.CompressionSpec{}); ptr.Deref(c.Enabled, true) {
		compression = string(ptr.Deref(c.Policy, v1alpha1.CompressionGzip))
	}
	memory := ptr.Deref(b.DeltaSnapshotMemoryLimit, resource.MustParse("10Mi"))
	return []string{
		"--full-snapshot-schedule=" + cmp.Or(ptr.Deref(b.FullSnapshotSchedule, ""), snapshotSchedule(etcd)),
		"--delta-snapshot-period=" + duration(b.DeltaSnapshotPeriod, 5*time.Minute),
		fmt.Sprintf("--delta-snapshot-memory-limit=%d", memory.Value()),
		"--delta-snapshot-retention-period=" + duration(b.DeltaSnapshotRetentionPeriod, 0),
		"--garbage-collection-period=" + duration(b.GarbageCollectionPeriod, time.Hour),
		fmt.Sprintf("--max-backups=%d", limit),
		"--compression=" + compression,
		"--snapshot-timeout=" + duration(b.EtcdSnapshotTimeout, 15*time.Minute),
	}
}

// snapshotSchedule is once a day, at a time that differs from one Etcd to another.
func snapshotSchedule(etcd *v1alpha1.Etcd) string {
	h := fnv.New32a()
	// It never fails.
	_, _ = fmt.Fprintf(h, "%s/%s", etcd.Namespace, etcd.Name)
	minute := h.Sum32() % (24 * 60)
	return fmt.Sprintf("%d %d * * *", minute%60, minute/60)
}

func duration(d *metav1.Duration, otherwise time.Duration) string {
	if d == nil {
		return otherwise.String()
	}
	return d.Duration.String()
}
