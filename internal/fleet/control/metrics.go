// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Metrics are those of the fleet, by policy.
type Metrics struct {
	slots, used, waiting, paused, awaited *prometheus.GaugeVec
	wait                                  prometheus.Histogram
	rebuilt                               prometheus.Gauge
	// known are the policies of which there is something.
	known map[string]*fleet.Policy
}

const labelPolicy = "policy"

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{labelPolicy})
	}
	m := &Metrics{
		slots:   gauge("etcd_foreman_fleet_slots", "Slots of an EtcdFleetPolicy."),
		used:    gauge("etcd_foreman_fleet_slots_used", "Slots of an EtcdFleetPolicy that are in use, including those of clusters that lack a member."),
		waiting: gauge("etcd_foreman_fleet_waiting", "Tasks that wait for an EtcdFleetPolicy."),
		paused:  gauge("etcd_foreman_fleet_paused", "1 while a change that tasks ask for is paused because it, or another one to the same template, failed, or an EtcdFleetPolicy is invalid or not in force yet, or a newer operator has written the ledger."),
		awaited: gauge("etcd_foreman_fleet_slot_awaited_since_timestamp_seconds", "Unix time since which tasks have waited for a slot of an EtcdFleetPolicy, or for a canary whose task has not ended or which is watched for more than twice the soak, and none was given; 0 while none waits. A task whose namespace has its share of the slots does not count."),
		wait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "etcd_foreman_fleet_slot_wait_seconds", Help: "Time from when a task could start until it got a slot.", Buckets: prometheus.ExponentialBuckets(0.5, 2, 18),
		}),
	}
	m.rebuilt = prometheus.NewGauge(prometheus.GaugeOpts{Name: "etcd_foreman_fleet_ledger_rebuilt_timestamp_seconds", Help: "Unix time at which the ledger of the fleet was last made again because it was lost; 0 if it never was."})
	registerer.MustRegister(m.slots, m.used, m.waiting, m.paused, m.awaited, m.wait, m.rebuilt)
	return m
}

func (m *Metrics) waited(d time.Duration) { m.wait.Observe(d.Seconds()) }

// show publishes the status of a policy.
func (m *Metrics) show(policy string, s *v1alpha1.EtcdFleetPolicyStatus) {
	m.slots.WithLabelValues(policy).Set(float64(s.Limit))
	m.used.WithLabelValues(policy).Set(float64(s.Used))
	m.waiting.WithLabelValues(policy).Set(float64(s.Waiting))
	paused := 0.0
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused); c != nil && c.Reason != v1alpha1.ReasonPausedBySpec {
		paused = 1
	}
	m.paused.WithLabelValues(policy).Set(paused)
}

// await publishes since when tasks have waited for a slot of each policy.
func (m *Metrics) await(policies map[string]*fleet.Policy, since map[string]time.Time) {
	for name := range policies {
		at := 0.0
		if t, waits := since[name]; waits {
			at = float64(t.Unix())
		}
		m.awaited.WithLabelValues(name).Set(at)
	}
}

// ledger publishes when the ledger was lost.
func (m *Metrics) ledger(l *fleet.Ledger) {
	if !l.Rebuilt.IsZero() {
		m.rebuilt.Set(float64(l.Rebuilt.Unix()))
	}
}

// keep removes what there is of policies that are gone.
func (m *Metrics) keep(policies map[string]*fleet.Policy) {
	for name := range m.known {
		if policies[name] == nil {
			for _, v := range []*prometheus.GaugeVec{m.slots, m.used, m.waiting, m.paused, m.awaited} {
				v.DeleteLabelValues(name)
			}
		}
	}
	m.known = policies
}
