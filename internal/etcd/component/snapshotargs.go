// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// snapshotArgs returns the agent's flags for taking and keeping snapshots. All are explicit, so that they do not depend on
// the defaults of the agent's version.
func snapshotArgs(etcd *v1alpha1.Etcd) []string {
	spec := ptr.Deref(etcd.Spec.Backup, v1alpha1.BackupSpec{})
	duration := func(d *metav1.Duration, otherwise time.Duration) time.Duration {
		return ptr.Deref(d, metav1.Duration{Duration: otherwise}).Duration
	}
	limit := ptr.Deref(spec.DeltaSnapshotMemoryLimit, resource.MustParse("10Mi"))
	return []string{
		"--full-snapshot-schedule=" + FullSnapshotSchedule(etcd),
		fmt.Sprintf("--delta-snapshot-period=%s", DeltaSnapshotPeriod(etcd)),
		fmt.Sprintf("--delta-snapshot-memory-limit=%d", limit.Value()),
		fmt.Sprintf("--delta-snapshot-retention-period=%s", duration(spec.DeltaSnapshotRetentionPeriod, 0)),
		fmt.Sprintf("--garbage-collection-period=%s", duration(spec.GarbageCollectionPeriod, time.Hour)),
		fmt.Sprintf("--max-backups=%d", maxBackups(spec)),
		"--compression=" + SnapshotCompression(etcd),
		fmt.Sprintf("--snapshot-timeout=%s", duration(spec.EtcdSnapshotTimeout, 15*time.Minute)),
	}
}

// DeltaSnapshotPeriod returns the time between two delta snapshots of an Etcd; 0 if they are not taken periodically.
func DeltaSnapshotPeriod(etcd *v1alpha1.Etcd) time.Duration {
	spec := ptr.Deref(etcd.Spec.Backup, v1alpha1.BackupSpec{})
	return ptr.Deref(spec.DeltaSnapshotPeriod, metav1.Duration{Duration: 5 * time.Minute}).Duration
}

// maxBackups returns the limit of full snapshots; 0 for the exponential policy.
func maxBackups(spec v1alpha1.BackupSpec) int32 {
	policy := v1alpha1.GarbageCollectionExponential
	if spec.MaxBackupsLimitBasedGC != nil {
		policy = v1alpha1.GarbageCollectionLimitBased
	}
	if ptr.Deref(spec.GarbageCollectionPolicy, policy) != v1alpha1.GarbageCollectionLimitBased {
		return 0
	}
	return ptr.Deref(spec.MaxBackupsLimitBasedGC, 7)
}

// SnapshotCompression returns the value of the agent's flag --compression.
func SnapshotCompression(etcd *v1alpha1.Etcd) string {
	spec := ptr.Deref(ptr.Deref(etcd.Spec.Backup, v1alpha1.BackupSpec{}).SnapshotCompression, v1alpha1.CompressionSpec{})
	if !ptr.Deref(spec.Enabled, true) {
		return "none"
	}
	return string(ptr.Deref(spec.Policy, v1alpha1.CompressionGzip))
}
