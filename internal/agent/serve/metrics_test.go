// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// The metrics say how the member is by its last answer, and count what happened. A member that does not answer is neither leader nor
// learner, and does not become a learner again by answering as before.
func TestMetrics(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	states := func() []float64 {
		return []float64{testutil.ToFloat64(m.up), testutil.ToFloat64(m.leads), testutil.ToFloat64(m.learner), testutil.ToFloat64(m.isLearner)}
	}
	leader, learner := Status{MemberID: 1, Leader: 1}, Status{MemberID: 1, Leader: 2, Learner: true}
	for _, c := range []struct {
		status  Status
		err     error
		want    []float64
		learned float64
	}{
		{leader, nil, []float64{1, 1, 0, 0}, 0},
		{learner, nil, []float64{1, 0, 1, 1}, 1},
		{learner, nil, []float64{1, 0, 1, 1}, 1},
		{learner, errors.New("no answer"), []float64{0, 0, 0, 0}, 1},
		{leader, errors.New("no answer"), []float64{0, 0, 0, 0}, 1},
		{learner, nil, []float64{1, 0, 1, 1}, 1},
		{leader, nil, []float64{1, 1, 0, 0}, 1},
		{learner, nil, []float64{1, 0, 1, 1}, 2},
	} {
		m.observe(c.status, c.err)
		g.Expect(states()).To(Equal(c.want))
		g.Expect(testutil.ToFloat64(m.becameLearner)).To(Equal(c.learned))
	}
	m.promoted(time.Second, errors.New("not yet"))
	g.Expect(testutil.ToFloat64(m.promotions)).To(BeZero())
	g.Expect(m.promotion.DeleteLabelValues("true")).To(BeFalse(), "none has succeeded")
	m.promoted(time.Second, nil)
	g.Expect(testutil.ToFloat64(m.promotions)).To(Equal(1.0))
	g.Expect(testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP etcd_agent_learner_promotions_total Times that the agent had the member promoted to a voter, in a recovery.
# TYPE etcd_agent_learner_promotions_total counter
etcd_agent_learner_promotions_total 1
`), "etcd_agent_learner_promotions_total")).To(Succeed())
	for _, succeeded := range []string{"true", "false"} {
		g.Expect(m.promotion.DeleteLabelValues(succeeded)).To(BeTrue(), succeeded)
	}
}
