// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of the agent beside a member.
type Metrics struct {
	up, leads, learner        prometheus.Gauge
	leaseFailures, promotions prometheus.Counter
	reads                     *prometheus.HistogramVec
	wakeups                   prometheus.Histogram

	// Those that have the names of etcd-backup-restore's, so that its dashboards work.
	isLearner     prometheus.Gauge
	becameLearner prometheus.Counter
	promotion     *prometheus.HistogramVec

	// wasLearner is what the last answer of the member said.
	wasLearner bool
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "etcd_agent", Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "etcd_agent", Name: name, Help: help})
	}
	m := &Metrics{
		up:            gauge("member_up", "1 while the member answers."),
		leads:         gauge("member_is_leader", "1 while the member leads."),
		learner:       gauge("member_is_learner", "1 while the member is a learner."),
		leaseFailures: counter("lease_renewal_failures_total", "Renewals of the member lease that failed."),
		promotions:    counter("learner_promotions_total", "Times that the agent had the member promoted to a voter, in a recovery."),
	}
	m.reads = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "etcd_agent", Name: "read_duration_seconds", Help: "Time that reads of a key that does not exist took, asked by the agent in the pod of the member. A read without an answer counts with the time that it waited.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13),
	}, []string{"kind"})
	m.wakeups = prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "etcd_agent", Name: "wakeup_delay_seconds", Help: "How late timers of the agent fire. Where the CPUs of the node are free, that is less than a millisecond.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
	})
	m.isLearner = prometheus.NewGauge(prometheus.GaugeOpts{Name: "etcdbr_is_learner", Help: "1 while the member is a learner."})
	m.becameLearner = prometheus.NewCounter(prometheus.CounterOpts{Name: "etcdbr_is_learner_count_total", Help: "Times that the member was found to have become a learner."})
	m.promotion = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "etcdbr_member_promote_duration_seconds", Help: "Time that attempts of the agent to promote the member took, in a recovery.",
		Buckets: prometheus.ExponentialBuckets(0.1, 2, 8),
	}, []string{"succeeded"})
	registry.MustRegister(m.up, m.leads, m.learner, m.leaseFailures, m.promotions, m.reads, m.wakeups, m.isLearner, m.becameLearner, m.promotion)
	return m
}

func (m *Metrics) observe(status Status, err error) {
	set := func(gauge prometheus.Gauge, is bool) {
		if is {
			gauge.Set(1)
		} else {
			gauge.Set(0)
		}
	}
	set(m.up, err == nil)
	set(m.leads, err == nil && status.leads())
	set(m.learner, err == nil && status.Learner)
	set(m.isLearner, err == nil && status.Learner)
	if err != nil {
		return
	}
	if status.Learner && !m.wasLearner {
		m.becameLearner.Inc()
	}
	m.wasLearner = status.Learner
}

// promoted counts an attempt to promote the member.
func (m *Metrics) promoted(took time.Duration, err error) {
	m.promotion.WithLabelValues(strconv.FormatBool(err == nil)).Observe(took.Seconds())
	if err == nil {
		m.promotions.Inc()
	}
}
