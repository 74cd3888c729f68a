// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import "github.com/prometheus/client_golang/prometheus"

// Metrics of the agent beside a member.
type Metrics struct {
	up, leads, learner        prometheus.Gauge
	leaseFailures, promotions prometheus.Counter
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
		promotions:    counter("learner_promotions_total", "Times that the member was promoted to a voter."),
	}
	registry.MustRegister(m.up, m.leads, m.learner, m.leaseFailures, m.promotions)
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
	set(m.leads, err == nil && status.Leads())
	set(m.learner, err == nil && status.Learner)
}
