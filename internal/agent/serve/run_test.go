// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/client-go/rest"
)

// keeps has a server log to a list.
func keeps(s *Server) *[]string {
	logged := &[]string{}
	s.Log = funcr.New(func(_, args string) { *logged = append(*logged, args) }, funcr.Options{})
	return logged
}

// What fails is logged when it begins to fail, when it fails otherwise, and when it fails again after it did not.
func TestFailuresAreLoggedOnce(t *testing.T) {
	g := NewWithT(t)
	s, m, l, clock := newServer()
	logged := keeps(s)
	pass := func(says ...string) {
		t.Helper()
		*logged = nil
		clock.Step(s.Heartbeat)
		s.once(t.Context())
		var want []any
		for _, text := range says {
			want = append(want, ContainSubstring(text))
		}
		g.Expect(*logged).To(HaveExactElements(want...))
	}
	pass(`"Member lease changed" "holder"="a:cafe:Member"`)
	pass()
	m.err = errors.New("connection refused")
	pass(`"The member is not answering" "reason"="connection refused"`)
	pass()
	m.err = errors.New("timeout")
	pass(`"reason"="timeout"`)
	m.err, l.err = nil, errors.New("no API server")
	pass(`"Renewing the member lease failed" "reason"="no API server"`)
	pass()
	g.Expect(testutil.ToFloat64(s.Metrics.leaseFailures)).To(Equal(2.0))
	l.err = nil
	pass()
	l.err = errors.New("no API server")
	pass(`"Renewing the member lease failed"`)
	l.err = nil
	m.status.Leader = 0xa
	pass(`"Member lease changed" "holder"="a:cafe:Leader"`)

	s.Shared, m.status.Learner, m.refusal = recovering, true, errors.New("not in sync")
	pass(`"The learner is not promoted yet" "reason"="not in sync"`)
	pass()
	m.refusal = nil
	pass(`"Promoted the learner to a voter" "memberID"="a"`)
	m.refusal = errors.New("not in sync")
	pass(`"The learner is not promoted yet"`)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	*logged, m.refusal = nil, errors.New("canceled")
	s.once(ended)
	g.Expect(*logged).To(BeEmpty(), "the agent ends")
}

// started runs a server until it is to end.
func started(t *testing.T, s *Server) (end func(), ended chan error) {
	s.Address, s.Handler = fmt.Sprintf("127.0.0.1:%d", machine.FreePort(t)), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return cancel, ended
}

// The agent of a leader works at once, and with each second. Before it ends, the work of the leader has, and clients are refused.
func TestRunEnds(t *testing.T) {
	g := machine.Gomega(t)
	s, m, l, clock := newServer()
	m.status.Leader = 0xa
	begun, finish := make(chan struct{}), make(chan struct{})
	s.Lead = func(ctx context.Context) {
		close(begun)
		<-ctx.Done()
		<-finish
	}
	end, ended := started(t, s)
	g.Eventually(begun).Should(BeClosed())
	var c net.Conn
	g.Eventually(func() (err error) { c, err = net.Dial("tcp", s.Address); return err }).Should(Succeed())
	g.Eventually(clock.HasWaiters).Should(BeTrue())
	clock.Step(s.Heartbeat)
	g.Eventually(clock.HasWaiters).Should(BeTrue())
	end()
	g.Consistently(ended).ShouldNot(Receive())
	close(finish)
	g.Eventually(ended).Should(Receive(BeNil()))
	g.Expect(l.holders).NotTo(BeEmpty())
	g.Expect(l.holders[0]).To(Equal("a:cafe:Leader"))
	_, err := net.Dial("tcp", s.Address)
	g.Expect(err).To(HaveOccurred())
	g.Expect(c.SetReadDeadline(time.Now().Add(20 * time.Second))).To(Succeed())
	_, err = c.Read(make([]byte, 1))
	g.Expect(err).To(HaveOccurred())
	g.Expect(errors.Is(err, os.ErrDeadlineExceeded)).To(BeFalse(), "clients see at once that it is gone")

	s.Address = "256.0.0.1:0"
	g.Expect(s.Run(t.Context())).To(MatchError(HavePrefix("listening: ")))
}

// With a certificate, the agent answers over TLS alone.
func TestRunWithTLS(t *testing.T) {
	g := machine.Gomega(t)
	s, _, _, _ := newServer()
	logged := keeps(s)
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: certified.TLS.Certificates}
	end, ended := started(t, s)
	g.Eventually(func() error {
		r, err := certified.Client().Get("https://" + s.Address)
		if err == nil {
			err = r.Body.Close()
		}
		return err
	}).Should(Succeed())
	r, err := http.Get("http://" + s.Address)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Body.Close()).To(Succeed())
	g.Expect(r.StatusCode).To(Equal(http.StatusBadRequest))
	end()
	g.Eventually(ended).Should(Receive(BeNil()))
	g.Expect(*logged).NotTo(ContainElement(ContainSubstring("Serving ended")), "it was to end")
}

// What is removed, or cannot be, is logged.
func TestRemovalsAreLogged(t *testing.T) {
	g := NewWithT(t)
	s, _, _, _ := newServer()
	logged := keeps(s)
	data := filepath.Join(t.TempDir(), "new.etcd")
	g.Expect(os.Mkdir(data+member.ReplacedSuffix+"1", 0o700)).To(Succeed())
	from := func(dir string) SharedFrom {
		return func() (member.Shared, error) {
			return member.Shared{Config: map[string]any{"data-dir": dir}, ClusterID: "cafe"}, nil
		}
	}
	g.Expect(RemoveReplaced(s.Log, from(data))).To(BeTrue())
	g.Expect(*logged).To(HaveExactElements(And(ContainSubstring("Removed data that was set aside"), ContainSubstring("new.etcd.replaced-1"))))
	*logged = nil
	g.Expect(RemoveReplaced(s.Log, from("[")) || RemoveReplaced(s.Log, func() (member.Shared, error) { return member.Shared{}, errors.New("illegible") })).To(BeFalse())
	g.Expect(*logged).To(HaveExactElements(ContainSubstring("looking for data that was set aside"), ContainSubstring("illegible")))
}

// A configuration that no client can be made of is an error at once.
func TestClientsOfLeases(t *testing.T) {
	g := NewWithT(t)
	bad := &rest.Config{Host: "http://%"}
	_, err := NewMemberLease(bad, "ns", "m-0", time.Minute, member.Shared{})
	g.Expect(err).To(MatchError(ContainSubstring("making a client for leases: ")))
	_, err = Recorded(bad, "ns", "full")
	g.Expect(err).To(MatchError(ContainSubstring("making a client for leases: ")))
	_, err = Begins(bad, owned, "full")
	g.Expect(err).To(MatchError(ContainSubstring("making a client for leases: ")))
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	l, err := newLease(config, "ns", "full", 0)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(l.Annotate(t.Context(), "a", "b")).To(MatchError(ContainSubstring("patching lease full: ")))
}
