// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package component

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	cronschedule "github.com/etcd-foreman/etcd-foreman/internal/base/schedule"
	"github.com/etcd-foreman/etcd-foreman/internal/job/storeaccess"
	. "github.com/onsi/gomega"
	"github.com/robfig/cron/v3"
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

// restorable returns a schedule that is around a time as a text says, and for how long an Etcd with it can be restored, with a retention of deltas
// and a limit of full snapshots.
func restorable(t *testing.T, retention time.Duration, limit *int32, text string, around time.Time) (cron.Schedule, time.Duration) {
	t.Helper()
	s, err := cronschedule.Parse(text)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	etcd := &v1alpha1.Etcd{}
	etcd.Spec.Backup = &v1alpha1.BackupSpec{DeltaSnapshotRetentionPeriod: &metav1.Duration{Duration: retention}, MaxBackupsLimitBasedGC: limit}
	shortest, longest := cronschedule.Gaps(s, around)
	return s, RestorableFor(etcd, shortest, longest)
}

// Every second can be restored since the full snapshot before the newest, or for as long as deltas are kept, but for the time until the first full
// snapshot among them that is kept.
func TestRestorableFor(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		retention time.Duration
		max       *int32
		schedule  string
		want      time.Duration
	}{
		"by default":                      {0, nil, "0 0 * * *", day},
		"the deltas of a week":            {7 * day, nil, "0 0 * * *", 6 * day},
		"of less than a day":              {time.Hour, nil, "0 0 * * *", day},
		"on working days":                 {0, nil, "0 0 * * 1-5", day},
		"on working days, for a week":     {7 * day, nil, "0 0 * * 1-5", 4 * day},
		"twice on working days":           {0, nil, "0 8,12 * * 1-5", 4 * time.Hour},
		"full snapshots of a year":        {0, nil, "0 0 1 1 *", 7 * day},
		"one full snapshot":               {0, ptr.To[int32](1), "0 0 * * *", 0},
		"one, and the deltas of a week":   {7 * day, ptr.To[int32](1), "0 0 * * *", 0},
		"seven, and those of three days":  {3 * day, ptr.To[int32](7), "0 * * * *", 6 * time.Hour},
		"seventy, and those of two days":  {2 * day, ptr.To[int32](70), "0 * * * *", 47 * time.Hour},
		"hourly, and those of three days": {3 * day, nil, "0 * * * *", 3*day - 25*time.Hour},
		"hourly, and those of a year":     {365 * day, nil, "0 * * * *", 4*7*day - 7*day - time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			_, got := restorable(t, c.retention, c.max, c.schedule, time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
			NewWithT(t).Expect(got).To(Equal(c.want))
		})
	}
}

// What is promised is there at any time: retention never leaves less, and so no alert fires, whatever the schedule.
func TestRetentionKeepsWhatIsPromised(t *testing.T) {
	const day, step = 24 * time.Hour, 6 * time.Hour
	for _, text := range []string{"0 0 * * *", "0 0 * * 1-5", "0 8,12 * * 1-5", "30 * * * *", "0 3 * * 0", "0 0 1,15 * *", "0 */5 * * *", "0 0 */5 * *"} {
		for _, retention := range []time.Duration{0, 3 * day, 10 * day, 40 * day} {
			for _, limit := range []*int32{nil, ptr.To[int32](1), ptr.To[int32](7)} {
				t.Run(fmt.Sprint(text, retention, ptr.Deref(limit, 0)), func(t *testing.T) {
					t.Parallel()
					begin := time.Date(2026, 8, 3, 2, 0, 0, 0, time.UTC)
					s, _ := restorable(t, retention, limit, text, begin)
					var list []backup.Snapshot
					var full time.Time
					for now, revision := begin, int64(1); now.Before(begin.Add(60 * day)); now, revision = now.Add(step), revision+1 {
						for at := s.Next(now.Add(-step)); !at.After(now); at = s.Next(at) {
							list, full = append(list, backup.Snapshot{Kind: backup.Full, LastRevision: revision, Created: at}), at
						}
						list = append(list, backup.Snapshot{Kind: backup.Delta, StartRevision: revision + 1, LastRevision: revision + 1, Created: now})
						expired := backup.Retention{Limit: int(ptr.Deref(limit, 0)), Due: s.Next, Deltas: retention}.Expired(list, now)
						list = slices.DeleteFunc(list, func(s backup.Snapshot) bool { return slices.Contains(expired, s) })
						if now.Sub(begin) < 45*day {
							continue // it has not been there for long enough
						}
						all := backup.Restorable(list, nil)
						since := all[len(all)-1].From.Time
						_, promised := restorable(t, retention, limit, text, full)
						if now.Sub(since) < promised {
							t.Fatalf("at %s, %s are promised, and every second since %s can be restored", now, promised, since)
						}
					}
				})
			}
		}
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
