// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	testingclock "k8s.io/utils/clock/testing"
)

// fakeMember is a member with fixed answers.
type fakeMember struct {
	status   Status
	err      error
	promotes []uint64
	refusal  error
	stirs    int
	reads    func(context.Context) error
	// unlisted: the others serve without the member; listing is why they give no list.
	unlisted bool
	listing  error
}

func (m *fakeMember) Listed(_ context.Context, clusterID, memberID uint64) (bool, error) {
	return !m.unlisted || clusterID != 0xcafe || memberID != 0x1a, m.listing
}

func (m *fakeMember) Status(context.Context) (Status, error) { return m.status, m.err }

func (m *fakeMember) Read(ctx context.Context, _ bool) error {
	if m.reads == nil {
		return m.err
	}
	return m.reads(ctx)
}

func (m *fakeMember) Promote(_ context.Context, id uint64) error {
	m.promotes = append(m.promotes, id)
	return m.refusal
}

func (m *fakeMember) Stir(context.Context) error {
	m.stirs++
	return m.refusal
}

// fakeLease records its renewals.
type fakeLease struct {
	holders     []string
	annotations []string
	err         error
}

func (l *fakeLease) Renew(_ context.Context, holder string, _ time.Time) error {
	if l.err == nil {
		l.holders = append(l.holders, holder)
	}
	return l.err
}

func (l *fakeLease) Annotate(_ context.Context, key, value string) error {
	if l.err == nil {
		l.annotations = append(l.annotations, key+"="+value)
	}
	return l.err
}

func newServer() (*Server, *fakeMember, *fakeLease, *testingclock.FakeClock) {
	m, l := &fakeMember{status: Status{ClusterID: 0xcafe, MemberID: 0xa, Leader: 0xb}}, &fakeLease{}
	clock := testingclock.NewFakeClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	return &Server{
		Log: logr.Discard(), Member: m, Lease: l, Heartbeat: 10 * time.Second,
		Metrics: NewMetrics(prometheus.NewRegistry()), Clock: clock,
	}, m, l, clock
}

func TestLeaseIsRenewedEveryHeartbeatAndWhenTheRoleChanges(t *testing.T) {
	g := NewWithT(t)
	s, m, l, clock := newServer()
	ctx := t.Context()
	s.once(ctx)
	g.Expect(l.holders).To(Equal([]string{"a:cafe:Member"}))
	clock.Step(9 * time.Second)
	s.once(ctx)
	g.Expect(l.holders).To(HaveLen(1), "the renewal is not due")
	clock.Step(time.Second)
	s.once(ctx)
	g.Expect(l.holders).To(HaveLen(2))
	m.status.Leader = 0xa
	s.once(ctx)
	g.Expect(l.holders[2]).To(Equal("a:cafe:Leader"))
}

// Whatever its role, an agent tells which revision the member has, and nothing of one that does not answer.
func TestTheRevisionThatWasSeen(t *testing.T) {
	g := NewWithT(t)
	s, m, _, clock := newServer()
	type seen struct {
		revision int64
		at       time.Time
	}
	var all []seen
	s.Saw = func(revision int64, at time.Time) { all = append(all, seen{revision, at}) }
	for _, status := range []Status{{Revision: 7, MemberID: 1, Leader: 1}, {Revision: 8, Learner: true}, {Revision: 9}} {
		m.status = status
		s.once(t.Context())
		g.Expect(all).To(ConsistOf(seen{status.Revision, clock.Now()}))
		all = nil
		clock.Step(time.Second)
	}
	m.err = errors.New("it hangs")
	s.once(t.Context())
	g.Expect(all).To(BeEmpty())
}

func TestLeaseIsRenewedAgainAfterAFailure(t *testing.T) {
	g := NewWithT(t)
	s, _, l, clock := newServer()
	l.err = errors.New("no")
	s.once(t.Context())
	l.err = nil
	clock.Step(time.Second)
	s.once(t.Context())
	g.Expect(l.holders).To(HaveLen(1))
}

func TestLeaseIsNotRenewedForAMemberThatDoesNotParticipate(t *testing.T) {
	for name, change := range map[string]func(*fakeMember){
		"unreachable": func(m *fakeMember) { m.err = errors.New("connection refused") },
		"leaderless":  func(m *fakeMember) { m.status.Leader = 0 },
		"learner":     func(m *fakeMember) { m.status.Learner = true },
	} {
		t.Run(name, func(t *testing.T) {
			s, m, l, _ := newServer()
			change(m)
			s.once(t.Context())
			NewWithT(t).Expect(l.holders).To(BeEmpty())
		})
	}
}

// recovering is what the members of a cluster read that is being recovered.
func recovering() (member.Shared, error) {
	return member.Shared{Bootstrap: map[string]any{"initial-cluster": "a=http://a:1,b=http://b:1"}, Recovery: &member.Recovery{Task: "task"}}, nil
}

// Outside of a recovery, who votes is the operator's to decide.
func TestLearnerIsNotPromotedWithoutARecovery(t *testing.T) {
	g := NewWithT(t)
	s, m, _, _ := newServer()
	m.status.Learner = true
	s.once(t.Context())
	for _, shared := range []SharedFrom{
		func() (member.Shared, error) { return member.Shared{}, nil },
		func() (member.Shared, error) {
			shared, err := recovering()
			shared.Members = &member.Members{Generation: 1}
			return shared, err
		},
		func() (member.Shared, error) { return member.Shared{}, errors.New("illegible") },
	} {
		s.Shared = shared
		s.once(t.Context())
	}
	g.Expect(m.promotes).To(BeEmpty())
}

// A recovery completes without an operator: what that announced to the cluster before, which is still recorded, does not keep a learner of the new
// one from its vote. A learner of the cluster before gets none.
func TestAnAnnouncementToTheClusterBeforeKeepsNoLearnerFromItsVote(t *testing.T) {
	g := NewWithT(t)
	s, m, _, _ := newServer()
	s.Shared = func() (member.Shared, error) {
		return member.ParseShared(map[string]string{
			member.KeyBootstrap: "initial-cluster: a=http://a:1,b=http://b:1\ninitial-cluster-token: uid\n", member.KeyClusterID: "beef",
			member.KeyRecovery: "task: t\nmember: a\nsource: Data\npreviousClusterID: beef\n", member.KeyMembers: "etcd: uid\nclusterID: beef\ngeneration: 7\n",
		})
	}
	m.status.Learner, m.status.ClusterID = true, 0xbeef
	s.once(t.Context())
	g.Expect(m.promotes).To(BeEmpty())
	m.status.ClusterID = 0xcafe
	s.once(t.Context())
	g.Expect(m.promotes).To(Equal([]uint64{0xa}))
}

func TestLearnerIsPromotedInARecoveryOnceItHasCaughtUp(t *testing.T) {
	g := NewWithT(t)
	s, m, _, clock := newServer()
	s.Shared = recovering
	tidied := 0
	s.Tidy = func() bool { tidied++; return true }
	m.status.Learner, m.refusal = true, errors.New("not in sync")
	s.once(t.Context())
	s.once(t.Context())
	g.Expect(m.promotes).To(Equal([]uint64{0xa, 0xa}), "the promotion is retried")
	g.Expect(tidied).To(BeZero())
	m.status.Learner = false
	s.once(t.Context())
	s.once(t.Context())
	g.Expect(m.promotes).To(HaveLen(2))
	g.Expect(tidied).To(BeZero(), "writes may wait for it at that moment")
	clock.Step(s.Heartbeat)
	s.once(t.Context())
	s.once(t.Context())
	g.Expect(tidied).To(Equal(1))
	g.Expect(testutil.ToFloat64(s.Metrics.isLearner)).To(BeZero())
	m.status.Learner, m.refusal = true, nil
	s.once(t.Context())
	m.err = errors.New("connection refused")
	s.once(t.Context())
	m.err = nil
	s.once(t.Context())
	g.Expect(testutil.ToFloat64(s.Metrics.isLearner)).To(Equal(1.0))
	g.Expect(testutil.ToFloat64(s.Metrics.becameLearner)).To(Equal(2.0), "a member that did not answer for a while has not become one again")
	g.Expect(testutil.ToFloat64(s.Metrics.promotions)).To(Equal(2.0))
	g.Expect(testutil.CollectAndCount(s.Metrics.promotion)).To(Equal(2), "failures and successes")
	m.status.Learner = false
	s.once(t.Context())
	g.Expect(tidied).To(Equal(1))
	clock.Step(s.Heartbeat)
	s.once(t.Context())
	g.Expect(tidied).To(Equal(2), "what the learner replaced is tidied once it votes again")
}

func TestLeaderWorksWhileItLeads(t *testing.T) {
	g := machine.Gomega(t)
	s, m, _, _ := newServer()
	started, ended := make(chan struct{}, 10), make(chan struct{}, 10)
	s.Lead = func(ctx context.Context) {
		started <- struct{}{}
		<-ctx.Done()
		ended <- struct{}{}
	}
	s.once(t.Context())
	g.Expect(started).NotTo(Receive())
	m.status.Leader = 0xa
	s.once(t.Context())
	s.once(t.Context())
	g.Eventually(started).Should(Receive())
	g.Expect(ended).NotTo(Receive())
	m.err = errors.New("it hangs")
	s.once(t.Context())
	g.Expect(ended).To(Receive(), "the former leader's work ends before anything else happens")
	m.err = nil
	s.once(t.Context())
	g.Eventually(started).Should(Receive())
	g.Expect(started).NotTo(Receive(), "once per term")
	s.lead(t.Context(), false)
}

func TestServerStaysUpAndStopsAtOnce(t *testing.T) {
	g := machine.Gomega(t)
	s, m, _, _ := newServer()
	s.Address = fmt.Sprintf("127.0.0.1:%d", machine.FreePort(t))
	s.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	m.err = errors.New("etcd is not up yet")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	g.Eventually(func() error {
		r, err := http.Get("http://" + s.Address)
		if err == nil {
			err = r.Body.Close()
		}
		return err
	}).Should(Succeed())
	g.Expect(ended).NotTo(Receive())
	cancel()
	g.Eventually(ended).Should(Receive(BeNil()))
}

func TestTidyIsCalledUntilItIsDone(t *testing.T) {
	g := NewWithT(t)
	s, _, _, clock := newServer()
	calls := 0
	s.Tidy = func() bool { calls++; return calls == 3 }
	for range 100 {
		s.once(t.Context())
		clock.Step(look)
	}
	g.Expect(calls).To(Equal(3))
	s.tidied, calls = false, 0
	for range 21 {
		s.once(t.Context())
		clock.Step(look)
	}
	g.Expect(calls).To(Equal(3), "once per heartbeat")
}

func TestReplacedDataIsRemovedAndNothingElse(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	in := func(suffix string) string { return filepath.Join(dir, "new.etcd"+suffix) }
	kept := []string{in(""), in(member.AsideSuffix + "2")}
	before := []string{in(member.BeforeSuffix + "task-3"), in(member.RemovedSuffix + "4"), in(".rebuilding"), in(".rebuilt-task")}
	for _, d := range append(append([]string{in(member.ReplacedSuffix + "1")}, kept...), before...) {
		g.Expect(os.MkdirAll(filepath.Join(d, "member"), 0o700)).To(Succeed())
	}
	shared := member.Shared{Config: map[string]any{"data-dir": in("")}, Recovery: &member.Recovery{Task: "task"}}
	from := func() (member.Shared, error) { return shared, nil }

	removed, done, err := removeReplaced(from)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(removed).To(ConsistOf(in(member.ReplacedSuffix + "1")))
	g.Expect(done).To(BeFalse(), "the recovery is in progress")
	for _, d := range append(kept, before...) {
		g.Expect(filepath.Join(d, "member")).To(BeADirectory())
	}

	shared.Recovery, shared.Kept = nil, true
	removed, done, err = removeReplaced(from)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(removed).To(BeEmpty(), "a Restore can be undone")
	g.Expect(done).To(BeFalse())

	shared.Kept = false
	removed, done, err = removeReplaced(from)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(removed).To(BeEmpty(), "the ConfigMap was deleted, and does not say yet which cluster there is")
	g.Expect(done).To(BeFalse())

	shared.ClusterID = "cafe"
	removed, done, err = removeReplaced(from)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(removed).To(ConsistOf(before))
	g.Expect(done).To(BeTrue())
	for _, d := range kept {
		g.Expect(filepath.Join(d, "member")).To(BeADirectory())
	}

	_, done, err = removeReplaced(func() (member.Shared, error) { return member.Shared{}, errors.New("illegible") })
	g.Expect(err).To(HaveOccurred())
	g.Expect(done).To(BeFalse(), "it is unknown whether there is a recovery")
}

// No client can hold a connection forever.
func TestTimeoutsOfTheServer(t *testing.T) {
	g := NewWithT(t)
	web := newWeb(nil)
	for _, timeout := range []time.Duration{web.ReadHeaderTimeout, web.ReadTimeout, web.WriteTimeout, web.IdleTimeout} {
		g.Expect(timeout).To(And(BeNumerically(">", 0), BeNumerically("<=", 2*time.Minute)))
	}
	g.Expect(web.MaxHeaderBytes).To(BeNumerically("<=", 16<<10))
}

// A member that does not answer may wait for an entry. The others are not troubled for one that starts, or was silent for a moment.
func TestOthersCommitAnEntryForAMemberThatDoesNotAnswer(t *testing.T) {
	g := NewWithT(t)
	s, m, _, clock := newServer()
	silent := errors.New("connection refused")
	m.refusal = errors.New("no quorum")
	for _, step := range []struct {
		after time.Duration
		err   error
		stirs int
	}{
		{0, silent, 0}, {stirPeriod - 1, silent, 0}, {1, silent, 1}, {stirPeriod - 1, silent, 1}, {1, silent, 2},
		{time.Hour, nil, 2}, {stirPeriod - 1, silent, 2}, {1, silent, 3},
	} {
		clock.Step(step.after)
		m.err = step.err
		s.once(t.Context())
		g.Expect(m.stirs).To(Equal(step.stirs))
	}
}
