// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	testingclock "k8s.io/utils/clock/testing"
)

var (
	noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	key  = ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize)))
)

// trusting admits requests that the operator with that key has signed, or all.
func trusting(all bool) func() (auth.Trust, error) {
	return func() (auth.Trust, error) {
		return auth.Trust{Audience: "uid", PublicKey: key.Public().(ed25519.PublicKey), AllowUnauthenticated: all}, nil
	}
}

func sign(r *http.Request) error { return auth.Sign(key, "uid", r, noon) }

func unsigned(*http.Request) error { return nil }

// Only the operator can request snapshots, which may remove old ones, and only by POST. Every client may ask for the health and,
// where the setting allows it, for everything.
func TestAccess(t *testing.T) {
	unknown := func() (auth.Trust, error) { return auth.Trust{}, errors.New("agent-api.json is not there") }
	for name, c := range map[string]struct {
		trust  func() (auth.Trust, error)
		by     func(*http.Request) error
		method string
		path   string
		code   int
	}{
		"anonymous GET":                              {trusting(false), unsigned, http.MethodGet, api.PathFull, 401},
		"anonymous POST":                             {trusting(false), unsigned, http.MethodPost, api.PathFull, 401},
		"anonymous delta":                            {trusting(false), unsigned, http.MethodPost, api.PathDelta, 401},
		"anonymous listing":                          {trusting(false), unsigned, http.MethodGet, api.PathLatest, 401},
		"anonymous, and health":                      {trusting(false), unsigned, http.MethodGet, api.PathHealth, 200},
		"the operator":                               {trusting(false), sign, http.MethodPost, api.PathFull + "?final=true", 200},
		"the operator's delta":                       {trusting(false), sign, http.MethodPost, api.PathDelta, 200},
		"the operator's listing":                     {trusting(false), sign, http.MethodGet, api.PathLatest, 200},
		"a signed GET of what changes something":     {trusting(false), sign, http.MethodGet, api.PathFull, 405},
		"a signed HEAD":                              {trusting(false), sign, http.MethodHead, api.PathFull, 405},
		"no operator is known yet":                   {unknown, sign, http.MethodPost, api.PathFull, 401},
		"no operator is known yet, and health":       {unknown, unsigned, http.MethodGet, api.PathHealth, 200},
		"any client, as the setting has it":          {trusting(true), unsigned, http.MethodGet, api.PathFull + "?final=true", 200},
		"any client posts":                           {trusting(true), unsigned, http.MethodPost, api.PathDelta, 200},
		"any client, but by HEAD":                    {trusting(true), unsigned, http.MethodHead, api.PathFull, 405},
		"an operator that signs, and need not":       {trusting(true), sign, http.MethodPost, api.PathFull, 200},
		"an operator of before":                      {nil, unsigned, http.MethodPost, api.PathFull, 200},
		"automation beside an operator of before":    {nil, unsigned, http.MethodGet, api.PathFull, 200},
		"anonymous hot prefixes":                     {trusting(false), unsigned, http.MethodGet, api.PathHotPrefixes, 401},
		"anonymous whole keys":                       {trusting(true), unsigned, http.MethodGet, api.PathHotPrefixes + "?keys=true", 401},
		"the operator's hot prefixes":                {trusting(false), sign, http.MethodGet, api.PathHotPrefixes, 200},
		"unsigned hot prefixes, whatever is set":     {trusting(true), unsigned, http.MethodGet, api.PathHotPrefixes, 401},
		"the operator's, where none needs to sign":   {trusting(true), sign, http.MethodGet, api.PathHotPrefixes, 200},
		"hot prefixes and an operator of before":     {nil, unsigned, http.MethodGet, api.PathHotPrefixes, 401},
		"anonymous marking":                          {trusting(true), unsigned, http.MethodPost, api.PathKeep + "?name=" + full.Name(), 401},
		"the operator's marking":                     {trusting(false), sign, http.MethodPost, api.PathKeep + "?name=" + full.Name(), 200},
		"anonymous holding":                          {trusting(true), unsigned, http.MethodPost, api.PathHold + "?revision=42&base=" + full.Name(), 401},
		"the operator's holding":                     {trusting(false), sign, http.MethodPost, api.PathHold + "?revision=42&base=" + full.Name(), 200},
		"holding what is no snapshot":                {trusting(false), sign, http.MethodPost, api.PathHold + "?revision=42&base=../etc", 400},
		"holding no revision":                        {trusting(false), sign, http.MethodPost, api.PathHold + "?revision=-1&base=" + full.Name(), 400},
		"marking what is no snapshot":                {trusting(false), sign, http.MethodPost, api.PathKeep + "?name=../etc", 400},
		"a HEAD beside an operator of before":        {nil, unsigned, http.MethodHead, api.PathDelta, 405},
		"an operator of now, and an agent of before": {nil, sign, http.MethodPost, api.PathFull, 200},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			taker := &counting{}
			url := serve(t, Config{Snapshots: taker, Leader: self, Trust: c.trust, Clock: testingclock.NewFakePassiveClock(noon)})
			request, err := http.NewRequestWithContext(t.Context(), c.method, url+c.path, nil)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c.by(request)).To(Succeed())
			response, err := http.DefaultClient.Do(request)
			g.Expect(err).NotTo(HaveOccurred())
			body, err := io.ReadAll(response.Body)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(response.Body.Close()).To(Succeed())
			g.Expect(response.StatusCode).To(Equal(c.code))
			if c.method != http.MethodHead {
				g.Expect(json.Valid(body)).To(BeTrue(), "one answer: %s", body)
				g.Expect(response.Header.Get("Content-Type")).To(Equal("application/json"))
			}
			g.Expect(response.Header.Get("WWW-Authenticate") == "Bearer").To(Equal(c.code == http.StatusUnauthorized))
			g.Expect(response.Header.Get("Allow") != "").To(Equal(c.code == http.StatusMethodNotAllowed))
			if c.code != http.StatusOK {
				g.Expect(taker.taken.Load()).To(BeZero())
			}
		})
	}
}

// counting counts what it is asked for.
type counting struct {
	fake
	taken atomic.Int32
}

func (c *counting) Full(ctx context.Context, final bool) (backup.Snapshot, error) {
	c.taken.Add(1)
	return full, nil
}

func (c *counting) Delta(ctx context.Context) (*backup.Snapshot, error) {
	c.taken.Add(1)
	return nil, nil
}

// The leader verifies a forwarded request itself.
func TestForwardingKeepsTheSignature(t *testing.T) {
	g := NewWithT(t)
	config := Config{Snapshots: fake{full: full}, Trust: trusting(false), Clock: testingclock.NewFakePassiveClock(noon), Leader: self}
	leader := serve(t, config)
	config.Snapshots, config.Leader = fake{err: errors.New("not here")}, func(context.Context) (Leader, error) { return Leader{URL: leader}, nil }
	got, err := api.Client{BaseURL: serve(t, config), Authorize: sign}.Full(t.Context(), true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Final).To(BeTrue())

	config.Trust = nil // a follower of before
	got, err = api.Client{BaseURL: serve(t, config), Authorize: sign}.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Final).To(BeFalse())
	_, err = api.Client{BaseURL: serve(t, config)}.Full(t.Context(), false)
	g.Expect(err).To(MatchError(ContainSubstring("not signed")))
}

// The agent of a follower passes the request on to the leader, which collects the events.
func TestHotPrefixes(t *testing.T) {
	g := NewWithT(t)
	config := Config{Snapshots: fake{}, Trust: trusting(false), Clock: testingclock.NewFakePassiveClock(noon), Leader: self}
	leader := serve(t, config)
	config.Leader = func(context.Context) (Leader, error) { return Leader{URL: leader}, nil }
	got, err := api.Client{BaseURL: serve(t, config), Authorize: sign}.HotPrefixes(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(fake{}.HotPrefixes(false)))
	got, err = api.Client{BaseURL: serve(t, config), Authorize: sign}.HotPrefixes(t.Context(), true)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(fake{}.HotPrefixes(true)))
	config.Snapshots = nil
	_, err = api.Client{BaseURL: serve(t, config), Authorize: sign}.HotPrefixes(t.Context(), false)
	g.Expect(err).To(MatchError(ContainSubstring("there is no backup store")))
}

// slow takes a given time.
type slow struct {
	fake
	proceed chan struct{}
}

func (s slow) Full(ctx context.Context, _ bool) (backup.Snapshot, error) {
	select {
	case <-s.proceed:
		return full, nil
	case <-ctx.Done():
		return backup.Snapshot{}, ctx.Err()
	}
}

// A snapshot takes longer than the timeouts of the server, which are for what is answered at once.
func TestSnapshotsOutlastTheTimeouts(t *testing.T) {
	g := NewWithT(t)
	taker := slow{proceed: make(chan struct{})}
	// A request that takes longer than this to arrive fails, as it may on a busy machine.
	timeout := machine.Scaled(200 * time.Millisecond)
	impatient := func(leader func(context.Context) (Leader, error)) string {
		s := httptest.NewUnstartedServer(Handler(Config{Snapshots: taker, Leader: leader, Log: logr.Discard()}))
		s.Config.ReadHeaderTimeout, s.Config.ReadTimeout, s.Config.WriteTimeout = timeout, timeout, timeout
		s.Start()
		t.Cleanup(s.Close)
		return s.URL
	}
	leader := impatient(self)
	follower := impatient(func(context.Context) (Leader, error) { return Leader{URL: leader}, nil })
	time.AfterFunc(3*timeout, func() { close(taker.proceed) })
	got, err := api.Client{BaseURL: follower}.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(Equal(full))
}

// The number of requests that wait for a snapshot is limited.
func TestTooManyWait(t *testing.T) {
	g := machine.Gomega(t)
	taker := slow{proceed: make(chan struct{})}
	client := api.Client{BaseURL: serve(t, Config{Snapshots: taker, Leader: self})}
	var done sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	refused := make(chan error, maxWaiting+1)
	for range maxWaiting + 1 {
		done.Go(func() {
			if _, err := client.Full(ctx, false); ctx.Err() == nil {
				refused <- err
			}
		})
	}
	var err error
	g.Eventually(refused).Should(Receive(&err))
	var status *api.StatusError
	g.Expect(errors.As(err, &status)).To(BeTrue(), "%v", err)
	g.Expect(status.Reason).To(Equal(api.CodeTooManyRequests))
	cancel()
	done.Wait()
	close(taker.proceed)
	g.Expect(refused).To(BeEmpty())
	g.Eventually(func() error { _, err := client.Full(t.Context(), false); return err }).Should(Succeed())
}

// A body is not read.
func TestBodiesAreNotRead(t *testing.T) {
	g := NewWithT(t)
	leader := serve(t, Config{Snapshots: fake{full: full}, Leader: self})
	follower := serve(t, Config{Snapshots: fake{}, Leader: func(context.Context) (Leader, error) { return Leader{URL: leader}, nil }})
	for _, url := range []string{leader, follower} {
		response, err := http.Post(url+api.PathFull, "text/plain", io.LimitReader(endless{}, 1<<20))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK), fmt.Sprint(url == leader))
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// What is no word of yes or no is no final snapshot, and takes none. The address of a leader that no URL is made of is not asked.
func TestMisunderstandings(t *testing.T) {
	g := NewWithT(t)
	taker := &counting{}
	ask := func(url string) (code int, body string) {
		response, err := http.Post(url, "", nil)
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(json.Valid(text)).To(BeTrue(), string(text))
		return response.StatusCode, string(text)
	}
	code, body := ask(serve(t, Config{Snapshots: taker, Leader: self}) + api.PathFull + "?final=perhaps")
	g.Expect(code).To(Equal(http.StatusBadRequest))
	g.Expect(body).To(ContainSubstring("final must be true or false"))
	g.Expect(taker.taken.Load()).To(BeZero())
	code, body = ask(serve(t, Config{Snapshots: taker, Leader: func(context.Context) (Leader, error) { return Leader{URL: "http://%"}, nil }}) + api.PathFull)
	g.Expect(code).To(Equal(http.StatusMethodNotAllowed))
	g.Expect(body).To(ContainSubstring("the address of the leader is not valid"))
}

// The files of the certificates are given as flags.
func TestFlagsOfTLS(t *testing.T) {
	g := NewWithT(t)
	var files TLS
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	files.AddFlags(flags)
	g.Expect(flags.Parse([]string{"--tls-cert-file=a", "--tls-key-file=b", "--tls-ca-file=c"})).To(Succeed())
	g.Expect(files).To(Equal(TLS{CertFile: "a", KeyFile: "b", CAFile: "c"}))
	g.Expect(flags.Lookup("tls-cert-file").DefValue).To(BeEmpty())
	_, err := files.authorities()
	g.Expect(err).To(MatchError(HavePrefix("reading the CAs of the agents: ")))
}
