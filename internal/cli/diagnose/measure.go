// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

const (
	// timedReads is how often each kind of read is timed in a measurement.
	timedReads = 20
	// readTimeout is how long a read, and a member's status, may take.
	readTimeout = 5 * time.Second
	// scrapeTimeout and maxScrape bound the answer with metrics.
	scrapeTimeout = 10 * time.Second
	maxScrape     = 16 << 20
)

// Target is a member, and how it is reached. What is empty is not measured.
type Target struct {
	Name string
	// Metrics and Agent are the URLs of the metrics of etcd and of its agent; Ping and AgentPing are URLs that etcd and another process in
	// the same pod answer without the disk and their peers.
	Metrics, Agent, Ping, AgentPing string
	// HTTP reaches the URLs of etcd, AgentHTTP those of the agent. The token is for the agent's metrics alone.
	HTTP, AgentHTTP *http.Client
	AgentToken      string
	// Etcd asks the member.
	Etcd etcdclient.Client
	// Kubelet reads what the kubelet measures about the pod; nil if that is not asked for.
	Kubelet func(ctx context.Context) (diagnose.Metrics, error)
	// Lost returns why the way to the member ended in the meantime, or why there was none; nil if there was one. It may be nil.
	Lost func() error
}

// Measured is what was measured of a Target, with what could not be had.
type Measured struct {
	diagnose.Member
	Missing []diagnose.Missing
	// Ahead is by how much the member's clock is ahead of ours, within a second or two; nil if it did not answer.
	Ahead *time.Duration
}

// measurement is that of one member.
type measurement struct {
	Target
	clock clock.WithTicker

	mu   sync.Mutex
	out  *Measured
	seen map[diagnose.Signal]bool
	// untrusted is why one of both sides refused the other's certificate; nil if none did.
	untrusted error
	// scraped is when the metrics of etcd arrived, which a member that is slow delays.
	scraped [2]time.Time
}

// Measure measures members for a time. It changes nothing.
func Measure(ctx context.Context, targets []Target, window time.Duration, clock clock.WithTicker) []Measured {
	measured := make([]Measured, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		m := &measurement{Target: t, clock: clock, out: &measured[i], seen: map[diagnose.Signal]bool{}}
		m.out.Name = t.Name
		all.Go(func() { m.run(ctx, window) })
	}
	all.Wait()
	return measured
}

func (m *measurement) run(ctx context.Context, window time.Duration) {
	end := m.clock.Now().Add(window)
	var all sync.WaitGroup
	// A member that does not answer would leave no time for the rest.
	all.Go(func() { m.out.First = m.sample(ctx, 0) })
	for _, k := range m.kinds() {
		all.Go(func() { m.repeat(ctx, k, end) })
	}
	all.Wait()
	m.wait(ctx, end)
	if ctx.Err() == nil {
		m.out.Second = m.sample(ctx, 1)
	}
	if !m.scraped[0].IsZero() && !m.scraped[1].IsZero() {
		m.out.Elapsed = m.scraped[1].Sub(m.scraped[0])
	}
	m.excuse()
}

// excuse forgets the reads without an answer if the member was not asked: its certificate or ours was refused, or the way to it has ended.
func (m *measurement) excuse() {
	if m.untrusted != nil {
		m.out.FailedReads = 0
		m.missing(diagnose.SignalReads, fmt.Errorf("certificates were refused: %w", m.untrusted), "a client certificate and a CA that fit this member")
		return
	}
	if m.Lost == nil || m.out.FailedReads == 0 {
		return
	}
	if err := m.Lost(); err != nil {
		m.missing(diagnose.SignalReads, fmt.Errorf("%d reads had no answer, since the port-forward failed: %w", m.out.FailedReads, err), "measure again")
		m.out.FailedReads = 0
	}
}

// kind of a timed request, and where its times are kept.
type kind struct {
	request func(context.Context) error
	to      *[]time.Duration
	// read is a read of etcd; the others are pings.
	read bool
}

func (m *measurement) kinds() []kind {
	var all []kind
	if m.Ping != "" {
		all = append(all, kind{request: ping(m.HTTP, m.Ping), to: &m.out.Pings})
	}
	if m.AgentPing != "" {
		all = append(all, kind{request: ping(m.AgentHTTP, m.AgentPing), to: &m.out.AgentPings})
	}
	if m.Etcd != nil {
		all = append(all,
			kind{func(ctx context.Context) error { return m.Etcd.Read(ctx, false) }, &m.out.Serializable, true},
			kind{func(ctx context.Context) error { return m.Etcd.Read(ctx, true) }, &m.out.Linearizable, true})
	}
	return all
}

// repeat times a kind of request again and again, at random moments: those of a process that stops regularly would be met in its pauses
// always or never. The kinds do not wait for each other, or the first would take the time of a pause and the others none.
func (m *measurement) repeat(ctx context.Context, k kind, end time.Time) {
	// The first request makes the connection, and is not timed. Without an answer, there may be no time for another.
	if _, err := m.time(ctx, k.request); err != nil && ctx.Err() == nil {
		m.failed(err, k.read)
	}
	start := m.clock.Now()
	step := end.Sub(start) / timedReads
	for n := range timedReads {
		m.wait(ctx, start.Add(time.Duration((float64(n)+rand.Float64())*float64(step))))
		if ctx.Err() != nil || !m.clock.Now().Before(end) {
			return
		}
		took, err := m.time(ctx, k.request)
		switch {
		case err == nil:
			*k.to = append(*k.to, took)
		case ctx.Err() == nil:
			m.failed(err, k.read)
		}
	}
}

func (m *measurement) wait(ctx context.Context, until time.Time) {
	select {
	case <-ctx.Done():
	case <-m.clock.After(until.Sub(m.clock.Now())):
	}
}

// failed counts a read without an answer; one that was refused is not slow.
func (m *measurement) failed(err error, read bool) {
	if isUntrusted(err) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.untrusted = err
		return
	}
	if !read {
		return
	}
	if errors.Is(err, context.DeadlineExceeded) || isUnavailable(err) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.out.FailedReads++
		return
	}
	m.missing(diagnose.SignalReads, fmt.Errorf("reads were not timed: %w", err), "a client certificate that may read, where etcd has users")
}

// time returns how long a request took.
func (m *measurement) time(ctx context.Context, request func(context.Context) error) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	// The monotonic clock, whatever the clock of a test.
	began := time.Now()
	err := request(ctx)
	return time.Since(began), err
}

// sample asks a member for what it says now.
func (m *measurement) sample(ctx context.Context, at int) diagnose.Sample {
	// The status comes first, so that the members say at the same time how far they are.
	s := diagnose.Sample{Status: m.status(ctx)}
	if m.Metrics != "" {
		body, date, err := scrape(ctx, m.HTTP, m.Metrics, "")
		if err == nil {
			if !date.IsZero() {
				m.out.Ahead = ptr.To(date.Sub(m.clock.Now()))
			}
			// The monotonic clock, whatever the clock of a test.
			m.scraped[at] = time.Now()
			s.Metrics, err = diagnose.ParseMetrics(string(body), nil)
		}
		m.missing(diagnose.SignalMetrics, err, "the member did not answer: measure again")
	}
	if m.Agent != "" {
		body, _, err := scrape(ctx, m.AgentHTTP, m.Agent, m.AgentToken)
		if err == nil {
			s.Agent, err = diagnose.ParseMetrics(string(body), nil)
		}
		m.missing(diagnose.SignalAgent, err, "the token of the Etcd in --agent-token-file (docs/operator.md, «The agents' metrics»)")
	}
	if m.Kubelet != nil {
		var err error
		s.Kubelet, err = m.Kubelet(ctx)
		m.missing(diagnose.SignalKubelet, err, "the right to get nodes/proxy, which is as powerful as root on the nodes: let an administrator of the cluster run this command")
	}
	return s
}

// status asks etcd for its status; nil without an answer.
func (m *measurement) status(ctx context.Context) *diagnose.Status {
	if m.Etcd == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	said, err := m.Etcd.Status(ctx)
	if isUntrusted(err) {
		m.failed(err, false)
		return nil
	}
	if err != nil {
		m.missing(diagnose.SignalStatus, err, "the member did not answer: measure again")
		return nil
	}
	return &diagnose.Status{Version: said.Version, Term: said.Term, Committed: said.CommittedIndex, Applied: said.AppliedIndex}
}

// maxReason bounds an error, whose text a member may have written, in bytes.
const maxReason = 500

func reason(err error) string { return sanitize.Text(kube.Sentence(err), maxReason) }

// missing notes a signal that could not be had, once.
func (m *measurement) missing(signal diagnose.Signal, err error, remedy string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil || m.seen[signal] {
		return
	}
	m.seen[signal] = true
	m.out.Missing = append(m.out.Missing, diagnose.Missing{Signal: signal, Member: m.Name, Why: reason(err), Remedy: remedy})
}
