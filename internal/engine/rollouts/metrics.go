// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

// Metrics are the metrics of the controller. A nil *Metrics has none.
type Metrics struct{ uncovered *prometheus.GaugeVec }

// NewMetrics makes the metrics and registers them.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	m := &Metrics{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "etcddruid_rollout_outdated_without_task", Help: "1 while a StatefulSet whose pods the operator replaces has an outdated pod, and no task replaces it.",
	}, []string{"etcd", "etcd_namespace"})}
	registerer.MustRegister(m.uncovered)
	return m
}

// show publishes whether an outdated pod of an Etcd waits without a task.
func (m *Metrics) show(etcd types.NamespacedName, uncovered bool) {
	if m == nil {
		return
	}
	value := 0.0
	if uncovered {
		value = 1
	}
	m.uncovered.WithLabelValues(etcd.Name, etcd.Namespace).Set(value)
}

// forget removes the series of an Etcd whose pods the operator does not replace.
func (m *Metrics) forget(etcd types.NamespacedName) {
	if m != nil {
		m.uncovered.DeleteLabelValues(etcd.Name, etcd.Namespace)
	}
}
