// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package compactionmetrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

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
