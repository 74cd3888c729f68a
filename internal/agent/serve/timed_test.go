// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	dto "github.com/prometheus/client_model/go"
)

// observed returns how often a kind of read was timed, and how long all of them took.
func observed(t *testing.T, m *Metrics, kind string) (count uint64, sum float64) {
	t.Helper()
	said := &dto.Metric{}
	observer, err := m.reads.GetMetricWithLabelValues(kind)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(observer.(interface{ Write(out *dto.Metric) error }).Write(said)).To(Succeed())
	return said.GetHistogram().GetSampleCount(), said.GetHistogram().GetSampleSum()
}

// A read that has no answer in time counts as long as it waited; one that is refused says nothing about speed.
func TestReadsAreTimed(t *testing.T) {
	g := NewWithT(t)
	s, m, _, _ := newServer()
	s.timeRead(t.Context(), "linearizable", true)
	m.reads = func(context.Context) error { return errors.New("permission denied") }
	s.timeRead(t.Context(), "linearizable", true)
	count, _ := observed(t, s.Metrics, "linearizable")
	g.Expect(count).To(BeEquivalentTo(1))

	m.reads = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	s.timeRead(ctx, "serializable", false)
	count, sum := observed(t, s.Metrics, "serializable")
	g.Expect(count).To(BeEquivalentTo(1))
	g.Expect(sum).To(BeNumerically(">=", 0.03))

	ended, end := context.WithCancel(t.Context())
	end()
	s.timeRead(ended, "serializable", false)
	count, _ = observed(t, s.Metrics, "serializable")
	g.Expect(count).To(BeEquivalentTo(1), "an agent that stops is not slow")
}

// How late a timer fires is measured beside everything else, until the server ends.
func TestTimersAreTimed(t *testing.T) {
	g := machine.Gomega(t)
	s, _, _, _ := newServer()
	stop := s.time(t.Context())
	said := &dto.Metric{}
	g.Eventually(func() uint64 {
		g.Expect(s.Metrics.wakeups.Write(said)).To(Succeed())
		return said.GetHistogram().GetSampleCount()
	}).Should(BeNumerically(">", 0))
	g.Expect(said.GetHistogram().GetSampleSum()).To(BeNumerically(">=", 0))
	stop()
}
