// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package compactionmetrics publishes the compactions of snapshots under the names of etcd-druid's metrics, so that its alerts and
// dashboards work.
package compactionmetrics

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are the metrics.
type Metrics struct {
	jobs, fullSnapshots *prometheus.CounterVec
	duration            *prometheus.HistogramVec
	// running has a 1 for each Etcd with a compaction that is running.
	running sums
}

// The labels, and the values of the reason of a failure.
const (
	labelSucceeded = "succeeded"
	labelReason    = "failureReason"
	labelNamespace = "etcd_namespace"

	reasonNone     = "none"
	reasonDeadline = "deadlineExceeded"
	reasonProcess  = "processFailure"
	reasonUnknown  = "unknown"
)

// New makes the metrics and registers them.
func New(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcddruid_compaction_jobs_total", Help: "Compactions of snapshots that have ended.",
		}, []string{labelSucceeded, labelReason, labelNamespace}),
		fullSnapshots: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcddruid_compaction_full_snapshot_triggered_total", Help: "Full snapshots that the operator requested instead of a compaction, and that have ended.",
		}, []string{labelSucceeded, labelNamespace}),
		running: newSums(prometheus.GaugeOpts{
			Name: "etcddruid_compaction_jobs_current", Help: "Compactions of snapshots that are running.",
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "etcddruid_compaction_job_duration_seconds", Help: "Time that compactions of snapshots took.",
			Buckets: []float64{60, 300, 600, 900, 1200, 1800},
		}, []string{labelSucceeded, labelReason, labelNamespace}),
	}
	registerer.MustRegister(m.jobs, m.fullSnapshots, m.running.gauge, m.duration)
	return m
}

// Observe counts a change of a task's status that was written.
func (m *Metrics) Observe(before, after *v1alpha1.EtcdOperatorTask, now time.Time) {
	is := after.Status.State
	if before.Status.State == is || !is.IsFinal() || is == v1alpha1.TaskStateRejected {
		return
	}
	succeeded := strconv.FormatBool(is == v1alpha1.TaskStateSucceeded)
	switch {
	case after.Spec.Type == v1alpha1.OnDemandCompaction:
		labels := []string{succeeded, reason(after), after.Namespace}
		m.jobs.WithLabelValues(labels...).Inc()
		if at := after.Status.InitiatedAt; at != nil {
			m.duration.WithLabelValues(labels...).Observe(now.Sub(at.Time).Seconds())
		}
	case after.Spec.Type == v1alpha1.OnDemandSnapshot && after.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy:
		m.fullSnapshots.WithLabelValues(succeeded, after.Namespace).Inc()
	}
}

// reason returns why a task has failed, in the words of etcd-druid's metrics.
func reason(task *v1alpha1.EtcdOperatorTask) string {
	if task.Status.State == v1alpha1.TaskStateSucceeded {
		return reasonNone
	}
	if len(task.Status.LastErrors) == 0 {
		return reasonUnknown
	}
	switch task.Status.LastErrors[len(task.Status.LastErrors)-1].Code {
	case v1alpha1.ErrDeadlineExceeded:
		return reasonDeadline
	case v1alpha1.ErrJobFailed, v1alpha1.ErrJobOutOfMemory:
		return reasonProcess
	}
	return reasonUnknown
}

// Show publishes whether a compaction of an Etcd is running. The queue is empty for one that is gone.
func (m *Metrics) Show(etcd types.NamespacedName, q queue.Queue) {
	running := slices.ContainsFunc(q, func(t *v1alpha1.EtcdOperatorTask) bool {
		return t.Spec.Type == v1alpha1.OnDemandCompaction && t.Status.State == v1alpha1.TaskStateInProgress
	})
	if running {
		m.running.publish(etcd, new(int64(1)))
	} else {
		m.running.publish(etcd, nil)
	}
}

// Events publish how much a compaction would compact.
type Events struct{ counts sums }

// NewEvents makes the metric and registers it.
func NewEvents(registerer prometheus.Registerer) *Events {
	e := &Events{newSums(prometheus.GaugeOpts{
		Name: "etcddruid_compaction_num_delta_events", Help: "Events in the deltas since the newest full snapshots, of all Etcds of the namespace whose snapshots are compacted.",
	})}
	registerer.MustRegister(e.counts.gauge)
	return e
}

// Publish publishes the number of an Etcd; nil removes that of an Etcd that is gone, or whose snapshots are not compacted.
func (e *Events) Publish(etcd types.NamespacedName, count *int64) { e.counts.publish(etcd, count) }

// sums publish the sum of the values of the Etcds of each namespace; none for a namespace without values.
type sums struct {
	gauge *prometheus.GaugeVec

	mu     *sync.Mutex
	values map[types.NamespacedName]int64
}

func newSums(options prometheus.GaugeOpts) sums {
	return sums{prometheus.NewGaugeVec(options, []string{labelNamespace}), &sync.Mutex{}, map[types.NamespacedName]int64{}}
}

// publish replaces the value of an Etcd; nil removes it.
func (s sums) publish(etcd types.NamespacedName, value *int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, etcd)
	if value != nil {
		s.values[etcd] = *value
	}
	sum, known := int64(0), false
	for other, value := range s.values {
		if other.Namespace == etcd.Namespace {
			sum, known = sum+value, true
		}
	}
	if !known {
		s.gauge.DeleteLabelValues(etcd.Namespace)
		return
	}
	s.gauge.WithLabelValues(etcd.Namespace).Set(float64(sum))
}
