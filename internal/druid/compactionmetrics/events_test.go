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
)

// The label has no name of the Etcd, so the Etcds of a namespace add up.
func TestEventsOfANamespace(t *testing.T) {
	g := NewWithT(t)
	e := NewEvents(prometheus.NewRegistry())
	value := func(namespace string) float64 { return testutil.ToFloat64(e.gauge.WithLabelValues(namespace)) }
	a, b, c := types.NamespacedName{Namespace: "one", Name: "a"}, types.NamespacedName{Namespace: "one", Name: "b"}, types.NamespacedName{Namespace: "two", Name: "a"}
	e.Set(a, 3)
	e.Set(b, 4)
	e.Set(c, 10)
	e.Set(a, 5)
	g.Expect(value("one")).To(Equal(9.0))
	g.Expect(value("two")).To(Equal(10.0))
	e.Forget(a)
	g.Expect(value("one")).To(Equal(4.0))
	e.Forget(b)
	g.Expect(testutil.CollectAndCount(e.gauge)).To(Equal(1), "nothing is said of a namespace without Etcds")
	var none *Events
	none.Set(a, 1)
	none.Forget(a)
}
