// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// link passes connections on to a server, until the network between the two is gone: nothing comes through any more, and neither side is
// told. What is connected later comes through.
type link struct {
	server string
	gone   atomic.Int64
	opened atomic.Int64
}

// start returns the address to connect to.
func (l *link) start(t *testing.T) string {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			go l.pass(t, c, l.opened.Add(1))
		}
	}()
	return listener.Addr().String()
}

func (l *link) pass(t *testing.T, client net.Conn, n int64) {
	server, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.server)
	if err != nil {
		return
	}
	t.Cleanup(func() { _ = server.Close() })
	through := func(to io.Writer) io.Writer {
		return writer(func(p []byte) (int, error) {
			if n <= l.gone.Load() {
				return len(p), nil
			}
			return to.Write(p)
		})
	}
	go func() { _, _ = io.Copy(through(server), client) }()
	_, _ = io.Copy(through(client), server)
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// An API server that vanishes without a word, with its node or with the network, costs a request what two pings take, and not the quarter of
// an hour that TCP sends again.
func TestAVanishedAPIServer(t *testing.T) {
	g := NewWithT(t)
	// Otherwise it takes 30 seconds, and 15 more.
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the operator asks by HTTP/%d", r.ProtoMajor)
		}
		_, _ = fmt.Fprint(w, `{"gitVersion": "v1"}`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	between := &link{server: server.Listener.Addr().String()}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{
		Server: "https://" + between.start(t), TLSServerName: "example.com",
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	kubeconfig.Contexts["c"], kubeconfig.CurrentContext = &clientcmdapi.Context{Cluster: "c"}, "c"
	content, err := clientcmd.Write(*kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	t.Setenv("KUBECONFIG", machine.WriteFile(t, "kubeconfig", content))
	options := configv1alpha1.OperatorConfiguration{}
	configv1alpha1.SetDefaults(&options)
	config, err := clientConfig(&options)
	g.Expect(err).NotTo(HaveOccurred())
	api, err := discovery.NewDiscoveryClientForConfig(config)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = api.ServerVersionWithContext(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	between.gone.Store(between.opened.Load())
	answered := make(chan error, 1)
	go func() { _, err := api.ServerVersionWithContext(t.Context()); answered <- err }()
	g.Eventually(answered).WithTimeout(machine.Patience()).Should(Receive(BeNil()), "over another connection")
	g.Expect(between.opened.Load()).To(BeNumerically(">", between.gone.Load()))
}

// A reconcile that waits for ever keeps neither its worker nor the lock of its Etcd.
func TestReconcilesAreBounded(t *testing.T) {
	g := NewWithT(t)
	options := configv1alpha1.OperatorConfiguration{}
	configv1alpha1.SetDefaults(&options)
	manager, err := managerOptions(&options)
	g.Expect(err).NotTo(HaveOccurred())
	// An API server gives a request up after a minute.
	g.Expect(manager.Controller.ReconciliationTimeout).To(And(BeNumerically(">", time.Minute), BeNumerically("<=", 5*time.Minute)))
}
