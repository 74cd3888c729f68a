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
	cronschedule "github.com/etcd-foreman/etcd-foreman/internal/base/schedule"
	"github.com/robfig/cron/v3"
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

// maxChain is how long the deltas since the scheduled full snapshot before the newest one are kept, regardless of the retention.
const maxChain = 7 * 24 * time.Hour

// RestorableFor returns how far back every second can be restored at least, given the shortest and the longest time between two full
// snapshots of the schedule: since the one before the newest, and for as long as deltas are kept that follow a full snapshot which is kept.
// The first of those deltas leads nowhere before the next such snapshot.
func RestorableFor(etcd *v1alpha1.Etcd, shortest, longest time.Duration) time.Duration {
	spec := ptr.Deref(etcd.Spec.Backup, v1alpha1.BackupSpec{})
	kept := ptr.Deref(spec.DeltaSnapshotRetentionPeriod, metav1.Duration{}).Duration
	limit := maxBackups(spec)
	if limit == 0 {
		kept = min(kept, exponential) - longestKept(kept, shortest, longest)
	} else if kept -= longest; kept > 0 && kept/shortest >= time.Duration(limit-1) {
		kept = time.Duration(limit-1) * shortest
	}
	if limit != 1 {
		kept = max(kept, min(shortest, maxChain))
	}
	return max(kept, 0)
}

// exponential is how far back the exponential policy keeps full snapshots.
const exponential = 4 * 7 * 24 * time.Hour

// longestKept returns the longest time between two full snapshots of the last span that the exponential policy keeps: the newest of each
// hour, day or week.
func longestKept(span, shortest, longest time.Duration) time.Duration {
	period := time.Hour
	switch {
	case span > 7*24*time.Hour:
		period = 7 * 24 * time.Hour
	case span > 24*time.Hour:
		period = 24 * time.Hour
	}
	if shortest >= period {
		return longest
	}
	return longest + period
}

// FullSnapshotSchedule returns when full snapshots of an Etcd are taken.
func FullSnapshotSchedule(etcd *v1alpha1.Etcd) string {
	return cmp.Or(ptr.Deref(ptr.Deref(etcd.Spec.Backup, v1alpha1.BackupSpec{}).FullSnapshotSchedule, ""), dailySchedule(etcd))
}

// dailySchedule is once a day, at a minute derived from the name, so that clusters do not all start at the same time.
func dailySchedule(etcd *v1alpha1.Etcd) string {
	hash := fnv.New32a()
	// A hash never fails to write.
	_, _ = hash.Write([]byte(etcd.Namespace + "/" + etcd.Name))
	minute := hash.Sum32() % (24 * 60)
	return fmt.Sprintf("%d %d * * *", minute%60, minute/60)
}

// checkSchedule returns an error if the schedule of full snapshots is invalid. Running agents keep their schedule.
func checkSchedule(etcd *v1alpha1.Etcd) error {
	text := ptr.Deref(ptr.Deref(etcd.Spec.Backup, v1alpha1.BackupSpec{}).FullSnapshotSchedule, "")
	if text == "" {
		return nil
	}
	if _, err := cronschedule.Parse(text); err != nil {
		return fmt.Errorf("reading spec.backup.fullSnapshotSchedule: %w", err)
	}
	return nil
}

// DefragmentationSchedule returns when members are defragmented; nil if the spec does not say. The API server admits some that are
// invalid: a range whose end is before its beginning.
func DefragmentationSchedule(etcd *v1alpha1.Etcd) (cron.Schedule, error) {
	text := etcd.Spec.Etcd.DefragmentationSchedule
	if text == nil {
		return nil, nil
	}
	parsed, err := cronschedule.Parse(*text)
	if err != nil {
		return nil, fmt.Errorf("reading spec.etcd.defragmentationSchedule: %w", err)
	}
	return parsed, nil
}
