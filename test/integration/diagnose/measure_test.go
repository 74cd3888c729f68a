// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/diagnose"
	judge "github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose/diagnosetest"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
)

// measure measures the cluster as the plugin does.
func (c *etcds) measure(window time.Duration) judge.Input {
	c.t.Helper()
	// It stands for the agent: another process that is reached in the same way.
	beside := httptest.NewServer(http.NotFoundHandler())
	defer beside.Close()
	in := judge.Input{Namespace: "demo", Etcd: "etcd-main", Window: window, Quorum: &judge.Quorum{Voters: len(c.members), Size: len(c.members)/2 + 1}}
	var targets []diagnose.Target
	answers, leader := map[string]bool{}, uint64(0)
	for i, m := range c.members {
		s := c.status(i)
		t := diagnose.Target{Name: m.name, HTTP: &http.Client{}, AgentHTTP: &http.Client{}, AgentPing: beside.URL}
		if m.cmd.ProcessState == nil {
			t.Metrics, t.Ping, t.Etcd = "http://"+m.metrics+"/metrics", "http://"+m.metrics+"/no-such-path", c.dial(i)
		}
		if s != nil {
			leader = max(leader, s.Leader)
		}
		if s != nil && s.Leader != 0 || s == nil && m.ready() {
			answers[m.name] = true
			in.Quorum.Serving++
		}
		targets = append(targets, t)
	}
	if in.Quorum.Serving < in.Quorum.Size {
		leader = 0
	}
	for i := range targets {
		targets[i].Kubelet = c.kubelet(i)
	}
	began := time.Now()
	for i, got := range diagnose.Measure(c.t.Context(), targets, window, clock.RealClock{}) {
		m := got.Member
		m.Serving = answers[m.Name]
		if s := c.status(i); s != nil {
			m.Leader, m.Learner = s.MemberID == leader, s.Learner
		}
		m.Pod = &judge.Pod{Node: fmt.Sprintf("node-%d", i), Running: time.Hour, CPULimit: float64(c.members[i].limit) / 100}
		if again := c.members[i].again; !again.IsZero() {
			m.Pod.Running = time.Since(again)
		}
		var err error
		m.Logs, err = judge.ParseLogs(func(yield func([]byte, error) bool) {
			for line := range strings.Lines(c.members[i].log.String()) {
				if !yield([]byte(line), nil) {
					return
				}
			}
		}, began, time.Now())
		NewWithT(c.t).Expect(err).NotTo(HaveOccurred())
		in.Members = append(in.Members, m)
		in.Missing = append(in.Missing, got.Missing...)
	}
	c.alarms(&in)
	return in
}

// kubelet returns what a kubelet says of a member with a limit, by the same file; nil without a limit.
func (c *etcds) kubelet(i int) func(context.Context) (judge.Metrics, error) {
	m := c.members[i]
	if m.limit == 0 {
		return nil
	}
	return func(context.Context) (judge.Metrics, error) {
		raw, err := os.ReadFile(filepath.Join(m.cgroup, "cpu.stat"))
		if err != nil {
			return nil, err
		}
		var periods, throttled int
		if _, err := fmt.Sscanf(string(raw), "nr_periods %d\nnr_throttled %d", &periods, &throttled); err != nil {
			return nil, err
		}
		text := fmt.Sprintf("# TYPE container_cpu_cfs_periods_total counter\ncontainer_cpu_cfs_periods_total %d\n# TYPE container_cpu_cfs_throttled_periods_total counter\ncontainer_cpu_cfs_throttled_periods_total %d\n", periods, throttled)
		return judge.ParseMetrics(text, nil)
	}
}

// ready is what the readiness probe says, which vouches for a member that refuses to say its status.
func (m *member) ready() bool {
	response, err := (&http.Client{Timeout: 2 * time.Second}).Get("http://" + m.metrics + "/readyz")
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func (c *etcds) alarms(in *judge.Input) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Second)
	defer cancel()
	all, err := c.dial(0).Alarms(ctx)
	if err != nil {
		return
	}
	for _, a := range all {
		for i, m := range c.members {
			if s := c.status(i); s != nil && s.MemberID == a.MemberID {
				in.Alarms = append(in.Alarms, judge.Alarm{Kind: string(a.Kind), Member: m.name})
			}
		}
	}
}

// expect measures, and expects a cause first.
func (c *etcds) expect(name string, cause judge.Cause, about string, window time.Duration) judge.Verdict {
	c.t.Helper()
	in := c.measure(window)
	if os.Getenv("RECORD") != "" {
		r := diagnosetest.Recording{About: about + " Recorded of " + c.version() + ".", Expect: cause, Input: in}
		folder := filepath.Join("..", "..", "..", "internal", "diagnose", "testdata", name)
		c.Expect(diagnosetest.Save(folder, r)).To(Succeed())
	}
	v := judge.Judge(in)
	c.compare(name, v.Headline)
	first := judge.Cause("")
	if len(v.Findings) > 0 {
		first = v.Findings[0].Cause
	}
	c.Expect(first).To(Equal(cause), "%s\n%+v", v.Headline, v.Findings)
	return v
}

func (c *etcds) version() string {
	for i := range c.members {
		if s := c.status(i); s != nil {
			return "etcd " + s.Version
		}
	}
	return c.o.program
}
