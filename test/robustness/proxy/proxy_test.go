// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package proxy

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
)

// apiServer is one that counts writes, and sends an event of a watch at once.
func apiServer(t *testing.T) (server *httptest.Server, writes *atomic.Int64) {
	writes = &atomic.Int64{}
	server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			writes.Add(1)
		}
		_, _ = fmt.Fprint(w, "answer")
		if r.URL.Query().Get("watch") != "" {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	t.Cleanup(server.Close)
	return server, writes
}

// start starts a proxy before a server, and returns it with a client that uses it.
func start(t *testing.T, server *httptest.Server) (*Proxy, *http.Client, string) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := newProxy(Options{Server: server.URL, CA: ca, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(p)
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
	})
	return p, front.Client(), front.URL
}

func do(t *testing.T, c *http.Client, method, url string) (int, string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close() //nolint:errcheck // it is only read
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// held returns how many requests were affected since the last Set.
func (p *Proxy) held() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.affected
}

func TestPassesThrough(t *testing.T) {
	server, writes := apiServer(t)
	p, c, url := start(t, server)
	for _, method := range []string{http.MethodGet, http.MethodPatch} {
		if code, body, err := do(t, c, method, url); code != http.StatusOK || body != "answer" || err != nil {
			t.Errorf("%s: %d %q %v", method, code, body, err)
		}
	}
	if n := p.Set(Mischief{}); n != 0 || writes.Load() != 1 {
		t.Errorf("%d requests were affected, and %d writes carried out", n, writes.Load())
	}
}

func TestRefuses(t *testing.T) {
	server, writes := apiServer(t)
	p, c, url := start(t, server)
	p.Set(Mischief{Refuse: http.StatusConflict, Share: 100})
	code, body, err := do(t, c, http.MethodPut, url)
	if code != http.StatusConflict || !strings.Contains(body, `"reason":"Conflict"`) || err != nil {
		t.Errorf("%d %q %v", code, body, err)
	}
	if n := p.Set(Mischief{}); n != 1 || writes.Load() != 0 {
		t.Errorf("%d requests were affected, and %d writes carried out", n, writes.Load())
	}
}

func TestLosesAnswersOfWhatWasCarriedOut(t *testing.T) {
	server, writes := apiServer(t)
	p, c, url := start(t, server)
	p.Set(Mischief{Lose: true, Share: 100})
	if code, _, err := do(t, c, http.MethodPost, url); err == nil {
		t.Errorf("answered %d", code)
	}
	if code, _, err := do(t, c, http.MethodGet, url); code != http.StatusOK || err != nil {
		t.Errorf("a read: %d %v", code, err)
	}
	if n := p.Set(Mischief{}); n != 1 || writes.Load() != 1 {
		t.Errorf("%d requests were affected, and %d writes carried out", n, writes.Load())
	}
}

func TestHoldsWatchesBack(t *testing.T) {
	server, _ := apiServer(t)
	p, c, url := start(t, server)
	p.Set(Mischief{Hold: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan string, 1)
	go func() {
		response, err := c.Do(request)
		if err != nil {
			got <- err.Error()
			return
		}
		defer response.Body.Close() //nolint:errcheck // it is only read
		event := make([]byte, len("answer"))
		_, _ = io.ReadFull(response.Body, event)
		got <- string(event)
	}()
	for p.held() == 0 && pause(t.Context(), 10*time.Millisecond) { // until the event has arrived at the proxy
	}
	select {
	case event := <-got:
		t.Fatalf("got %q while watches are held", event)
	default:
	}
	p.Set(Mischief{})
	if event := <-got; event != "answer" {
		t.Errorf("got %q", event)
	}
}

func TestDelays(t *testing.T) {
	server, _ := apiServer(t)
	p, c, url := start(t, server)
	const delay = 50 * time.Millisecond
	p.Set(Mischief{Delay: delay})
	from := time.Now()
	if code, _, err := do(t, c, http.MethodGet, url); code != http.StatusOK || err != nil {
		t.Errorf("%d %v", code, err)
	}
	if took := time.Since(from); took < delay {
		t.Errorf("took %s", took)
	}
}

// The first, third, ... removal arrives late, whether or not the operator still waits; all else arrives at once.
func TestRemovalsArriveLate(t *testing.T) {
	server, writes := apiServer(t)
	p, c, url := start(t, server)
	// The client gives up sooner, and the second removal is carried out sooner.
	late := machine.Scaled(time.Second)
	p.Set(Mischief{Late: late})
	pod := url + "/api/v1/namespaces/n/pods/main-0"
	for _, other := range []string{http.MethodPatch + " " + pod, http.MethodDelete + " " + url + "/api/v1/namespaces/n/configmaps/c", http.MethodPost + " " + pod + "/eviction?dryRun=All", http.MethodDelete + " " + url + "/api/v1/namespaces/n/pods"} {
		method, target, _ := strings.Cut(other, " ")
		if code, _, err := do(t, c, method, target); code != http.StatusOK || err != nil || p.held() != 0 {
			t.Errorf("%s: %d %v, %d were late", other, code, err, p.held())
		}
	}
	before := writes.Load()
	from := time.Now()
	giveUp, cancel := context.WithCancel(t.Context())
	defer cancel()
	request, err := http.NewRequestWithContext(giveUp, http.MethodPost, pod+"/eviction", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for p.held() == 0 && pause(t.Context(), time.Millisecond) {
		}
		cancel()
	}()
	if response, err := c.Do(request); err == nil {
		_ = response.Body.Close()
		t.Errorf("answered %d", response.StatusCode)
	}
	if code, _, err := do(t, c, http.MethodDelete, pod); code != http.StatusOK || err != nil || writes.Load() != before+1 {
		t.Errorf("the second: %d %v, %d were carried out", code, err, writes.Load()-before)
	}
	for writes.Load() != before+2 && pause(t.Context(), 10*time.Millisecond) && time.Since(from) < time.Minute {
	}
	if took := time.Since(from); writes.Load() != before+2 || took < late {
		t.Errorf("%d were carried out after %s", writes.Load()-before, took)
	}
	if n := p.Set(Mischief{}); n != 1 {
		t.Errorf("%d requests were affected", n)
	}
}

// Events of one resource are held back from one client, and from nobody else.
func TestHolds(t *testing.T) {
	watch := func(url, from string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, url+"?watch=true", nil)
		r.RemoteAddr = from + ":1234"
		return r
	}
	const pods, all = "/api/v1/namespaces/a/pods", "/apis/druid.gardener.cloud/v1alpha1/etcds"
	for name, test := range map[string]struct {
		mischief Mischief
		want     [4]bool // pods from 10.0.0.1 and 10.0.0.2, etcds from both
	}{
		"nothing":                   {Mischief{Of: "pods", From: []string{"10.0.0.1"}}, [4]bool{}},
		"all":                       {Mischief{Hold: true}, [4]bool{true, true, true, true}},
		"a resource":                {Mischief{Hold: true, Of: "etcds"}, [4]bool{false, false, true, true}},
		"a client":                  {Mischief{Hold: true, From: []string{"10.0.0.3", "10.0.0.2"}}, [4]bool{false, true, false, true}},
		"a resource from a client":  {Mischief{Hold: true, Of: "pods", From: []string{"10.0.0.1"}}, [4]bool{true, false, false, false}},
		"a resource of that ending": {Mischief{Hold: true, Of: "ods"}, [4]bool{}},
	} {
		got := [4]bool{}
		for i, url := range []string{pods, pods, all, all} {
			got[i] = test.mischief.holds(watch(url, fmt.Sprintf("10.0.0.%d", 1+i%2)))
		}
		if got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
