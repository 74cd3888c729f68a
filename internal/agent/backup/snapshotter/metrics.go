// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics have the names of those of etcd-backup-restore, so that its dashboards and alerts work.
type Metrics struct {
	duration  *prometheus.HistogramVec
	revision  *prometheus.GaugeVec
	timestamp *prometheus.GaugeVec
	size      *prometheus.GaugeVec
	required  *prometheus.GaugeVec
	collected *prometheus.CounterVec
	failures  *prometheus.CounterVec
}

// NewMetrics registers the metrics, unless the registry is nil.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "etcdbr_snapshot_duration_seconds", Help: "Time that snapshots took.",
			Buckets: prometheus.ExponentialBuckets(0.1, 2, 14),
		}, []string{"kind", "succeeded"}),
		revision: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcdbr_snapshot_latest_revision", Help: "Revision of the newest snapshot.",
		}, []string{"kind"}),
		timestamp: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcdbr_snapshot_latest_timestamp", Help: "Unix time of the newest snapshot.",
		}, []string{"kind"}),
		size: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcdbr_snapshot_latest_bytes", Help: "Size of the newest snapshot in the store.",
		}, []string{"kind"}),
		collected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcdbr_snapshot_gc_total", Help: "Snapshots that were removed.",
		}, []string{"kind", "succeeded"}),
		required: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcdbr_snapshot_required", Help: "1 while a snapshot is due that is not in the store, or changes are that no snapshot has.",
		}, []string{"kind"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcdbr_snapshotter_failure", Help: "Failures after which taking snapshots began again.",
		}, []string{"error"}),
	}
	// Rates of what has never failed are zero, not absent.
	m.failures.WithLabelValues(failureSession)
	m.require(backup.Full, false)
	m.require(backup.Delta, false)
	if registry != nil {
		registry.MustRegister(m.duration, m.revision, m.timestamp, m.size, m.required, m.collected, m.failures)
	}
	return m
}

// failureSession is the label of a failure: what failed is in the log.
const failureSession = "ERR_SNAPSHOT"

func (m *Metrics) failed() { m.failures.WithLabelValues(failureSession).Inc() }

// require publishes whether a snapshot of a kind is required.
func (m *Metrics) require(kind backup.Kind, required bool) {
	value := 0.0
	if required {
		value = 1
	}
	m.required.WithLabelValues(string(kind)).Set(value)
}

func succeeded(err error) string {
	if err != nil {
		return "false"
	}
	return "true"
}

// taken counts a snapshot; s is nil for a delta without changes.
func (m *Metrics) taken(kind backup.Kind, took time.Duration, s *backup.Snapshot, err error) {
	m.duration.WithLabelValues(string(kind), succeeded(err)).Observe(took.Seconds())
	if err != nil || s == nil {
		return
	}
	m.stored(*s)
}

// stored publishes the newest snapshot of a kind, which may have been taken by another member.
func (m *Metrics) stored(s backup.Snapshot) {
	m.revision.WithLabelValues(string(s.Kind)).Set(float64(s.LastRevision))
	m.timestamp.WithLabelValues(string(s.Kind)).Set(float64(s.Created.Unix()))
	m.size.WithLabelValues(string(s.Kind)).Set(float64(s.Size))
}

func (m *Metrics) removed(kind backup.Kind, err error) {
	m.collected.WithLabelValues(string(kind), succeeded(err)).Inc()
}
