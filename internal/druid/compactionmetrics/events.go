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
type Events struct {
	gauge *prometheus.GaugeVec

	mu     sync.Mutex
	counts map[types.NamespacedName]int64
}

// NewEvents makes the metric and registers it.
func NewEvents(registerer prometheus.Registerer) *Events {
	e := &Events{
		gauge: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "etcddruid_compaction_num_delta_events", Help: "Events in the deltas since the newest full snapshots, of all Etcds of the namespace whose snapshots are compacted.",
		}, []string{labelNamespace}),
		counts: map[types.NamespacedName]int64{},
	}
	registerer.MustRegister(e.gauge)
	return e
}

// Publish publishes the number of an Etcd; nil removes that of an Etcd that is gone, or whose snapshots are not compacted.
func (e *Events) Publish(etcd types.NamespacedName, count *int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if count != nil {
		e.counts[etcd] = *count
	} else {
		delete(e.counts, etcd)
	}
	e.publish(etcd.Namespace)
}

func (e *Events) publish(namespace string) {
	sum, known := int64(0), false
	for etcd, count := range e.counts {
		if etcd.Namespace == namespace {
			sum, known = sum+count, true
		}
	}
	if !known {
		e.gauge.DeleteLabelValues(namespace)
		return
	}
	e.gauge.WithLabelValues(namespace).Set(float64(sum))
}
