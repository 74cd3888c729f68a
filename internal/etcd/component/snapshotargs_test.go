// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestSnapshotArgs(t *testing.T) {
	g := NewWithT(t)
	etcd := input(3).Etcd
	defaults := "--full-snapshot-schedule=" + dailySchedule(etcd) + " --delta-snapshot-period=5m0s --delta-snapshot-memory-limit=10485760" +
		" --delta-snapshot-retention-period=0s --garbage-collection-period=1h0m0s --max-backups=0 --compression=gzip --snapshot-timeout=15m0s"
	g.Expect(strings.Join(snapshotArgs(etcd), " ")).To(Equal(defaults))
	etcd.Spec.Backup = &v1alpha1.BackupSpec{GarbageCollectionPolicy: ptr.To(v1alpha1.GarbageCollectionLimitBased)}
	g.Expect(snapshotArgs(etcd)).To(ContainElement("--max-backups=7"))
	second := &metav1.Duration{Duration: time.Second}
	etcd.Spec.Backup = &v1alpha1.BackupSpec{
		FullSnapshotSchedule: ptr.To("0 1 * * *"), DeltaSnapshotPeriod: &metav1.Duration{}, DeltaSnapshotRetentionPeriod: second,
		DeltaSnapshotMemoryLimit: ptr.To(resource.MustParse("1Mi")), GarbageCollectionPeriod: second, EtcdSnapshotTimeout: second,
		GarbageCollectionPolicy: ptr.To(v1alpha1.GarbageCollectionLimitBased), MaxBackupsLimitBasedGC: ptr.To[int32](3),
		SnapshotCompression: &v1alpha1.CompressionSpec{Policy: ptr.To(v1alpha1.CompressionZlib)},
	}
	g.Expect(strings.Join(snapshotArgs(etcd), " ")).To(Equal("--full-snapshot-schedule=0 1 * * * --delta-snapshot-period=0s --delta-snapshot-memory-limit=1048576" +
		" --delta-snapshot-retention-period=1s --garbage-collection-period=1s --max-backups=3 --compression=zlib --snapshot-timeout=1s"))
	etcd.Spec.Backup.SnapshotCompression.Enabled = ptr.To(false)
	g.Expect(SnapshotCompression(etcd)).To(Equal("none"))
}

// Every second can be restored since the full snapshot before the newest, or for as long as deltas are kept, but for the time until the first full
// snapshot among them.
func TestRestorableFor(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		retention time.Duration
		max       *int32
		period    time.Duration
		want      time.Duration
	}{
		"by default":                     {0, nil, day, day},
		"the deltas of a week":           {7 * day, nil, day, 6 * day},
		"of less than a day":             {time.Hour, nil, day, day},
		"full snapshots of a year":       {0, nil, 365 * day, 7 * day},
		"one full snapshot":              {0, ptr.To[int32](1), day, 0},
		"one, and the deltas of a week":  {7 * day, ptr.To[int32](1), day, 6 * day},
		"seven, and those of three days": {3 * day, ptr.To[int32](7), time.Hour, 3*day - time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := &v1alpha1.Etcd{}
			etcd.Spec.Backup = &v1alpha1.BackupSpec{DeltaSnapshotRetentionPeriod: &metav1.Duration{Duration: c.retention}, MaxBackupsLimitBasedGC: c.max}
			NewWithT(t).Expect(RestorableFor(etcd, c.period)).To(Equal(c.want))
		})
	}
}

// Clusters of the same name in many namespaces do not all begin at once.
func TestSchedulesDiffer(t *testing.T) {
	g := NewWithT(t)
	seen := map[string]bool{}
	for i := range 100 {
		etcd := input(3).Etcd
		etcd.Namespace = "shoot-" + strings.Repeat("x", i)
		seen[dailySchedule(etcd)] = true
	}
	g.Expect(len(seen)).To(BeNumerically(">", 50))
}

// An agent is not told of a schedule that never comes: the one that it has goes on.
func TestScheduleThatNeverComes(t *testing.T) {
	etcd := &v1alpha1.Etcd{Spec: v1alpha1.EtcdSpec{Backup: &v1alpha1.BackupSpec{FullSnapshotSchedule: ptr.To("0 0 31 2 *")}}}
	if err := checkSchedule(etcd); err == nil || !strings.Contains(err.Error(), "spec.backup.fullSnapshotSchedule") || !strings.Contains(err.Error(), "never comes") {
		t.Errorf("%v", err)
	}
	etcd.Spec.Backup.Store = &v1alpha1.StoreSpec{Provider: "Local", Container: "claim"}
	if _, err := agentContainer(Input{Etcd: etcd}, backupAccesses{store: &storeaccess.Access{}}); err == nil {
		t.Error("it was taken")
	}
	etcd.Spec.Etcd.DefragmentationSchedule = ptr.To("0 0 30 2 *")
	if _, err := DefragmentationSchedule(etcd); err == nil || !strings.Contains(err.Error(), "never comes") {
		t.Errorf("%v", err)
	}
}
