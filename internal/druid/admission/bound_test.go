// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Of a request that is too large not more is read than fits, whatever it says of its length; and a few are in memory at once.
func TestBounded(t *testing.T) {
	g := NewWithT(t)
	most, now := 0, 0
	var mu sync.Mutex
	full, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	server := httptest.NewServer(Bounded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		now++
		if most = max(most, now); now == maxAtOnce {
			once.Do(func() { close(full) })
		}
		mu.Unlock()
		if r.URL.Path == "/wait" {
			<-release
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
		mu.Lock()
		now--
		mu.Unlock()
	})))
	t.Cleanup(server.Close)
	post := func(path string, body io.Reader) int {
		response, err := http.Post(server.URL+path, "application/json", body)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	g.Expect(post("/", bytes.NewReader(make([]byte, maxBody)))).To(Equal(http.StatusOK))
	g.Expect(post("/", bytes.NewReader(make([]byte, maxBody+1)))).To(Equal(http.StatusRequestEntityTooLarge))
	g.Expect(post("/", io.MultiReader(bytes.NewReader(make([]byte, 8*maxBody))))).To(BeElementOf(http.StatusRequestEntityTooLarge, 0), "of unknown length")

	var all sync.WaitGroup
	for range 3 * maxAtOnce {
		all.Go(func() { post("/wait", bytes.NewReader([]byte("{}"))) })
	}
	<-full
	close(release)
	all.Wait()
	g.Expect(most).To(Equal(maxAtOnce))
}

// Senders that never finish lose their turn.
func TestSlowSendersLoseTheirTurn(t *testing.T) {
	g := machine.Gomega(t)
	server := httptest.NewServer(bounded(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) }), 200*time.Millisecond))
	t.Cleanup(server.Close)
	for range maxAtOnce {
		connection, err := net.Dial("tcp", server.Listener.Addr().String())
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = connection.Close() })
		_, err = connection.Write([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"))
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Eventually(func(g Gomega) {
		response, err := http.Post(server.URL, "application/json", bytes.NewReader([]byte("{}")))
		g.Expect(err).NotTo(HaveOccurred())
		_ = response.Body.Close()
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	}).Should(Succeed())
}

// Strangers cannot have the API server read for each of their requests.
func TestTheSwitchIsReadOnceASecond(t *testing.T) {
	g := NewWithT(t)
	reads, clock := 0, clocktesting.NewFakePassiveClock(time.Unix(100, 0))
	h := &Handler{Namespace: "own", Clock: clock, Live: server().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, o, options...)
		},
	}).Build()}
	for range 50 {
		g.Expect(h.Handle(t.Context(), request(t, druids(), nil)).Patch).NotTo(BeEmpty())
	}
	g.Expect(reads).To(Equal(1))
	clock.SetTime(clock.Now().Add(trustSwitch))
	h.Handle(t.Context(), request(t, druids(), nil))
	g.Expect(reads).To(Equal(2))
	clock.SetTime(clock.Now().Add(-time.Hour))
	h.Handle(t.Context(), request(t, druids(), nil))
	g.Expect(reads).To(Equal(3), "the clock was set back")
}

// What one request takes of memory, before anything of it is known.
func BenchmarkLargeRequest(b *testing.B) {
	body := bytes.Repeat([]byte(" "), 7<<20)
	handler := Bounded(&webhookOf{})
	b.ReportAllocs()
	for b.Loop() {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(body)))
	}
}

// webhookOf reads a body as the library does.
type webhookOf struct{}

func (*webhookOf) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.ReadAll(io.LimitReader(r.Body, 7<<20))
}
