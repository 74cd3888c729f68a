// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package portforward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // deprecated, and what package portforward takes
	"k8s.io/client-go/tools/portforward"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubelet forwards the port of a pod, until it ends what it forwards.
type kubelet struct {
	to string

	mu    sync.Mutex
	down  bool
	dials int
	open  []*forward
}

func (k *kubelet) Dial(...string) (httpstream.Connection, string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dials++; k.down {
		return nil, "", errors.New("the API server does not answer")
	}
	f := &forward{to: k.to, closed: make(chan bool)}
	k.open = append(k.open, f)
	return f, portforward.PortForwardProtocolV1Name, nil
}

func (k *kubelet) end(down bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.down = down
	for _, f := range k.open {
		_ = f.Close()
	}
}

func (k *kubelet) dialed() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.dials
}

// forward is one port-forward.
type forward struct {
	to     string
	once   sync.Once
	closed chan bool
}

func (f *forward) CreateStream(headers http.Header) (httpstream.Stream, error) {
	if headers.Get(corev1.StreamType) == corev1.StreamTypeError {
		return stream{nothing{strings.NewReader("")}}, nil
	}
	to, err := net.Dial("tcp", f.to)
	if err != nil {
		return nil, err
	}
	go func() {
		<-f.closed
		_ = to.Close()
	}()
	return stream{to}, nil
}

func (f *forward) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

func (f *forward) CloseChan() <-chan bool             { return f.closed }
func (f *forward) SetIdleTimeout(time.Duration)       {}
func (f *forward) RemoveStreams(...httpstream.Stream) {}

type stream struct{ io.ReadWriteCloser }

func (s stream) Reset() error       { return s.Close() }
func (stream) Headers() http.Header { return nil }
func (stream) Identifier() uint32   { return 0 }

// nothing is the stream of errors of a connection that has none.
type nothing struct{ io.Reader }

func (nothing) Write(p []byte) (int, error) { return len(p), nil }
func (nothing) Close() error                { return nil }

// A port-forward that ends is opened again, once a second at most, and it is known that it had ended.
func TestTunnelsThatEndAreOpenedAgain(t *testing.T) {
	g := machine.Gomega(t)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	const at = "10.0.0.1:2379"
	k := &kubelet{to: server.Listener.Addr().String()}
	through := newTunnels(func(client.ObjectKey) (httpstream.Dialer, error) { return k, nil }, map[string]client.ObjectKey{"10.0.0.1": {Name: "m-0"}})
	defer through.close()
	by := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return through.connect(ctx, address)
	}}}
	ask := func() error {
		response, err := by.Get("http://" + at)
		if err != nil {
			return err
		}
		return response.Body.Close()
	}
	g.Expect(ask()).To(Succeed())
	g.Expect(through.whyLost(at)).To(Succeed())
	g.Expect(through.failure()).To(Succeed())

	k.end(false)
	g.Eventually(func() error { return through.whyLost(at) }).Should(MatchError(portforward.ErrLostConnectionToPod))
	g.Eventually(ask).Should(Succeed())
	g.Expect(k.dialed()).To(Equal(2))
	g.Expect(through.whyLost(at)).To(HaveOccurred(), "it is known that it had ended")

	k.end(true)
	g.Eventually(ask).ShouldNot(Succeed())
	before := k.dialed()
	began := time.Now()
	for range 100 {
		g.Expect(ask()).NotTo(Succeed())
	}
	g.Expect(k.dialed()-before).To(BeNumerically("<=", int(time.Since(began)/pause)+1), "not with each connection")
	k.end(false)
	g.Eventually(ask).Should(Succeed())
}

// What could never be forwarded, such as for a user without the right, is not tried again.
func TestTunnelsThatNeverWorked(t *testing.T) {
	g := machine.Gomega(t)
	k := &kubelet{down: true}
	through := newTunnels(func(client.ObjectKey) (httpstream.Dialer, error) { return k, nil }, map[string]client.ObjectKey{"10.0.0.1": {Name: "m-0"}})
	defer through.close()
	const at = "10.0.0.1:2379"
	ask := func() {
		_, err := through.connect(t.Context(), at)
		g.Expect(err).To(MatchError(ContainSubstring("the API server does not answer")))
	}
	ask()
	g.Eventually(func() bool {
		through.mu.Lock()
		defer through.mu.Unlock()
		last := through.byAddress[at]
		ended := !last.ended.IsZero()
		last.ended = time.Now().Add(-time.Hour)
		return ended
	}).Should(BeTrue())
	ask()
	g.Expect(k.dialed()).To(Equal(1))
	g.Expect(through.whyLost(at)).To(Succeed())
	g.Expect(through.failure()).To(HaveOccurred())
	members := &Members{through: through}
	g.Expect(members.Lost(at)).To(MatchError(ContainSubstring("the API server does not answer")), "no request to this member has left")
	g.Expect(members.Lost("10.0.0.9:2379")).To(MatchError(ContainSubstring("no member pod")))
	g.Expect(members.Lost("10.0.0.1:8080")).To(Succeed(), "it was not asked for")
}
