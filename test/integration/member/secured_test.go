// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// secured are the certificates of a cluster that speaks TLS alone, to clients and among peers.
type secured struct {
	dir     string
	trusted []byte
	pair    certs.Pair
	client  *tls.Config
}

// secure has a cluster speak TLS alone, with a certificate of one CA, for the addresses of its members and further hosts, and trust
// several.
func (c *cluster) secure(g Gomega, ca *certs.CA, hosts []string, trusts ...*certs.CA) {
	for i := range c.members {
		hosts = append(hosts, fmt.Sprintf("127.0.0.%d", i+1))
	}
	s := &secured{dir: c.t.TempDir()}
	for _, t := range trusts {
		s.trusted = slices.Concat(s.trusted, t.PEM)
	}
	var err error
	s.pair, err = ca.Issue(hosts)
	g.Expect(err).NotTo(HaveOccurred())
	security := map[string]any{"client-cert-auth": true}
	for key, file := range map[string]struct {
		name string
		data []byte
	}{
		"trusted-ca-file": {member.CAFile, s.trusted}, "cert-file": {member.CertificateFile, s.pair.Certificate}, "key-file": {member.KeyFile, s.pair.Key},
	} {
		path := filepath.Join(s.dir, file.name)
		g.Expect(os.WriteFile(path, file.data, 0o600)).To(Succeed())
		security[key] = path
	}
	c.options = map[string]any{"client-transport-security": security, "peer-transport-security": security}
	pair, err := tls.X509KeyPair(s.pair.Certificate, s.pair.Key)
	g.Expect(err).NotTo(HaveOccurred())
	roots := x509.NewCertPool()
	g.Expect(roots.AppendCertsFromPEM(s.trusted)).To(BeTrue())
	s.client = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: roots}
	c.secured = s
}

func (c *cluster) scheme() string {
	if c.secured == nil {
		return "http"
	}
	return "https"
}

func (c *cluster) certificateDir() string {
	if c.secured == nil {
		return ""
	}
	return c.secured.dir
}

func (c *cluster) clientConfig(endpoints ...string) clientv3.Config {
	config := clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop()}
	if c.secured != nil {
		config.TLS = c.secured.client
	}
	return config
}

// secrets are those that the Etcd names; none without TLS.
func (s *secured) secrets() []client.Object {
	if s == nil {
		return nil
	}
	return []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ca"}, Data: map[string][]byte{"ca.crt": s.trusted}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pair"}, Data: map[string][]byte{"tls.crt": s.pair.Certificate, "tls.key": s.pair.Key}},
	}
}

// configure has an Etcd name them.
func (s *secured) configure(etcd *v1alpha1.Etcd) {
	if s == nil {
		return
	}
	ca, pair := v1alpha1.CASecretReference{SecretReference: v1alpha1.SecretReference{Name: "ca"}}, v1alpha1.SecretReference{Name: "pair"}
	etcd.Spec.Etcd.ClientURLTLS = &v1alpha1.ClientURLTLS{TLSCASecretRef: ca, ServerTLSSecretRef: pair, ClientTLSSecretRef: pair}
	etcd.Spec.Etcd.PeerURLTLS = &v1alpha1.PeerURLTLS{TLSCASecretRef: ca, ServerTLSSecretRef: pair}
}

// A source and the members that join it speak TLS alone, with certificates of a CA of each side, and trust both: to clients and among
// peers, with client certificates. So do the agents and the operator.
func TestMigrationBetweenTwoCAs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	theirs, err := certs.NewCA("source")
	g.Expect(err).NotTo(HaveOccurred())
	ours, err := certs.NewCA("target")
	g.Expect(err).NotTo(HaveOccurred())
	source, own := newCluster(t, 3), newCluster(t, 3)
	source.secure(g, theirs, nil, theirs, ours)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	own.secure(g, ours, []string{etcd.MemberHost("main-0"), etcd.MemberHost("main-1"), etcd.MemberHost("main-2")}, theirs, ours)
	source.startThree(g)
	source.put(g, "before")
	m := migrateTo(g, source, own)
	m.until(g, func() bool { return m.etcd.Status.BootstrapWithExistingCluster != nil })
	g.Expect(m.list(g)).To(Equal("m0 m1 m2 main-0 main-1 main-2?"))
	m.etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
	m.until(g, func() bool { return m.ended })
	g.Expect(m.list(g)).To(Equal("main-0 main-1 main-2"))
	g.Expect(m.leader(g)).To(HavePrefix("main-"))
	g.Expect(own.get(g, 0)).To(Equal("before"))
}
