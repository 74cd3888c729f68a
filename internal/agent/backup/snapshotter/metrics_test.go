// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
)

// values returns the value of each metric, or how often it was observed, by its name and labels.
func values(g *WithT, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// What alerts and dashboards read.
func TestMetrics(t *testing.T) {
	g, registry := NewWithT(t), prometheus.NewRegistry()
	m := NewMetrics(registry)
	g.Expect(values(g, registry)).To(Equal(map[string]float64{
		"etcdbr_snapshotter_failure ERR_SNAPSHOT": 0, "etcdbr_snapshot_required Full": 0, "etcdbr_snapshot_required Incr": 0,
	}), "what has not happened is zero, not absent")

	at := time.Unix(1_700_000_000, 0)
	m.taken(backup.Full, time.Second, &backup.Snapshot{Kind: backup.Full, LastRevision: 42, Created: at, Size: 1000}, nil)
	m.taken(backup.Full, time.Second, &backup.Snapshot{Kind: backup.Full, LastRevision: 50}, errors.New("no space"))
	m.taken(backup.Delta, time.Second, nil, nil)
	m.removed(backup.Full, nil)
	m.removed(backup.Full, errors.New("forbidden"))
	m.failed()
	m.require(backup.Delta, true)
	g.Expect(values(g, registry)).To(Equal(map[string]float64{
		"etcdbr_snapshot_duration_seconds Full true": 1, "etcdbr_snapshot_duration_seconds Full false": 1, "etcdbr_snapshot_duration_seconds Incr true": 1,
		"etcdbr_snapshot_latest_revision Full": 42, "etcdbr_snapshot_latest_timestamp Full": float64(at.Unix()), "etcdbr_snapshot_latest_bytes Full": 1000,
		"etcdbr_snapshot_gc_total Full true": 1, "etcdbr_snapshot_gc_total Full false": 1,
		"etcdbr_snapshotter_failure ERR_SNAPSHOT": 1, "etcdbr_snapshot_required Full": 0, "etcdbr_snapshot_required Incr": 1,
	}))
	NewMetrics(nil) // registers nothing
}

// The flags by which the operator configures agents.
func TestFlags(t *testing.T) {
	g, flags := NewWithT(t), pflag.NewFlagSet("", pflag.ContinueOnError)
	var o Options
	o.AddFlags(flags)
	g.Expect(flags.Parse(nil)).To(Succeed())
	g.Expect(o).To(Equal(Options{
		Schedule: "0 0 * * *", DeltaPeriod: 5 * time.Minute, DeltaLimit: 10 << 20, Compression: backup.Gzip, Timeout: 15 * time.Minute,
		MinInterval: time.Minute, CollectionPeriod: time.Hour,
	}))
	var args []string
	for name, value := range map[string]string{
		"full-snapshot-schedule": "0 1 * * *", "delta-snapshot-period": "1s", "delta-snapshot-memory-limit": "2", "compression": "lzw", "snapshot-timeout": "3s",
		"min-snapshot-interval": "4s", "garbage-collection-period": "5s", "max-backups": "6", "delta-snapshot-retention-period": "7s",
	} {
		args = append(args, fmt.Sprintf("--%s=%s", name, value))
	}
	g.Expect(flags.Parse(args)).To(Succeed())
	g.Expect(o).To(Equal(Options{
		Schedule: "0 1 * * *", DeltaPeriod: time.Second, DeltaLimit: 2, Compression: backup.LZW, Timeout: 3 * time.Second,
		MinInterval: 4 * time.Second, CollectionPeriod: 5 * time.Second, Retention: backup.Retention{Limit: 6, Deltas: 7 * time.Second},
	}))
}

// The first time after a time, for those who foresee a snapshot.
func TestDue(t *testing.T) {
	g := NewWithT(t)
	due, err := Due("30 1 * * *")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(due(time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC))).To(Equal(time.Date(2026, 1, 2, 1, 30, 0, 0, time.UTC)))
	_, err = Due("nonsense")
	g.Expect(err).To(MatchError(ContainSubstring("reading the schedule of full snapshots")))
}
