// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package compactionmetrics

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// The label has no name of the Etcd, so the Etcds of a namespace add up.
func TestEventsOfANamespace(t *testing.T) {
	g := NewWithT(t)
	e := NewEvents(prometheus.NewRegistry())
	value := func(namespace string) float64 { return testutil.ToFloat64(e.counts.gauge.WithLabelValues(namespace)) }
	a, b, c := types.NamespacedName{Namespace: "one", Name: "a"}, types.NamespacedName{Namespace: "one", Name: "b"}, types.NamespacedName{Namespace: "two", Name: "a"}
	e.Publish(a, ptr.To[int64](3))
	e.Publish(b, ptr.To[int64](4))
	e.Publish(c, ptr.To[int64](10))
	e.Publish(a, ptr.To[int64](5))
	g.Expect(value("one")).To(Equal(9.0))
	g.Expect(value("two")).To(Equal(10.0))
	e.Publish(a, nil)
	g.Expect(value("one")).To(Equal(4.0))
	e.Publish(b, nil)
	g.Expect(testutil.CollectAndCount(e.counts.gauge)).To(Equal(1), "nothing is said of a namespace without Etcds")
}
