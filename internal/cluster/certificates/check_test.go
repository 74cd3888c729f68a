// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"crypto/x509"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
)

var hosts = []string{"m-0.m-peer.ns.svc", "m-1.m-peer.ns.svc"}

func newCA(t *testing.T) *certs.CA {
	t.Helper()
	ca, err := certs.NewCA("ca")
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca *certs.CA, secret string, hosts []string, changes ...certs.Change) Pair {
	t.Helper()
	pair, err := ca.Issue(hosts, changes...)
	if err != nil {
		t.Fatal(err)
	}
	return Pair{Secret: secret, Certificate: pair.Certificate, Key: pair.Key}
}

// good returns valid material.
func good(t *testing.T, ca *certs.CA) Material {
	bundle := Bundle{Secret: "ca", Key: "ca.crt", PEM: ca.PEM}
	return Material{
		Client: &ClientSide{CA: bundle, Server: issue(t, ca, "server", hosts, certs.ServerOnly), Client: issue(t, ca, "client", nil, certs.ClientOnly)},
		Peer:   &PeerSide{CA: bundle, Server: issue(t, ca, "peer", []string{"*.m-peer.ns.svc"})},
		Backup: &BackupSide{CA: bundle, Server: issue(t, ca, "agent", append([]string{"m-client.ns.svc"}, hosts...), certs.ServerOnly), Host: "m-client.ns.svc"},
	}
}

func TestCheck(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	for _, tc := range []struct {
		name   string
		change func(*Material)
		secret string // empty: the material is valid
		want   string
	}{
		{"good", func(*Material) {}, "", ""},
		{"nothing", func(m *Material) { *m = Material{} }, "", ""},
		{"two CAs", func(m *Material) { m.Peer.CA.PEM = append(append([]byte("# old\n"), other.PEM...), ca.PEM...) }, "", ""},
		{"no PEM", func(m *Material) { m.Client.CA.PEM = []byte("x") }, "ca", "has no CA certificates in ca.crt"},
		{"a key as CA", func(m *Material) { m.Client.CA.PEM = m.Client.Client.Key }, "ca", `of type "PRIVATE KEY"`},
		{"garbage", func(m *Material) { m.Client.Server.Certificate = []byte("x") }, "server", "cannot be used"},
		{"foreign key", func(m *Material) { m.Client.Server.Key = m.Client.Client.Key }, "server", "private key does not match"},
		{"expired", func(m *Material) { m.Client.Client = issue(t, ca, "client", nil, certs.Expired) }, "client", "expired at"},
		{"foreign CA", func(m *Material) { m.Peer.Server = issue(t, other, "peer", hosts) }, "peer", "is not signed by a CA"},
		{"client as server", func(m *Material) { m.Client.Server = issue(t, ca, "server", hosts, certs.ClientOnly) }, "server", "for use as a server"},
		{"server as client", func(m *Material) { m.Client.Client = issue(t, ca, "client", hosts, certs.ServerOnly) }, "client", "for use as a client"},
		{"peer that cannot call", func(m *Material) { m.Peer.Server = issue(t, ca, "peer", hosts, certs.ServerOnly) }, "peer", "for use as a client"},
		{"agent without a CA", func(m *Material) { m.Backup.CA.PEM = []byte("x") }, "ca", "has no CA certificates in ca.crt"},
		{"agent of a foreign CA", func(m *Material) { m.Backup.CA.PEM = other.PEM }, "agent", "is not signed by a CA"},
		{"agent left out", func(m *Material) { m.Backup.Host = "x-client.ns.svc" }, "agent", "x-client.ns.svc"},
		{"member left out", func(m *Material) { m.Client.Server = issue(t, ca, "server", hosts[:1]) }, "server", "m-1.m-peer.ns.svc"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			m := good(t, ca)
			tc.change(&m)
			_, err := m.Check(hosts, time.Now())
			if tc.secret == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			var problem *Problem
			g.Expect(errors.As(err, &problem)).To(BeTrue())
			g.Expect(problem.Secret).To(Equal(tc.secret))
			g.Expect(err).To(MatchError(And(ContainSubstring("Secret "+tc.secret), ContainSubstring(tc.want))))
		})
	}
}

func TestFacts(t *testing.T) {
	g := NewWithT(t)
	ca, other := newCA(t), newCA(t)
	check := func(m Material) Facts {
		facts, err := m.Check(hosts, time.Now())
		g.Expect(err).NotTo(HaveOccurred())
		return facts
	}
	m := good(t, ca)
	before := check(m)
	g.Expect(before.Expires).To(BeTemporally("~", time.Now().Add(24*time.Hour), time.Minute))
	g.Expect(before.ExpiresIn).NotTo(BeEmpty())

	m.Client.Server = issue(t, ca, "server", hosts)
	g.Expect(check(m).Authorities).To(Equal(before.Authorities), "etcd reloads certificates")
	m.Backup.CA.PEM = append(append([]byte{}, ca.PEM...), other.PEM...)
	g.Expect(check(m).Authorities).To(Equal(before.Authorities), "agents reload certificates")
	m.Client.CA.PEM = append(append([]byte{}, ca.PEM...), other.PEM...)
	both := check(m).Authorities
	g.Expect(both).NotTo(Equal(before.Authorities), "etcd reads a CA only at its start")
	m.Client.CA.PEM = append(append([]byte("# sorted\n"), other.PEM...), ca.PEM...)
	g.Expect(check(m).Authorities).To(Equal(both))
}

// A certificate may outlive its CA, and then is of use until that expires.
func TestACAThatExpiresFirst(t *testing.T) {
	g := NewWithT(t)
	ca, err := certs.NewCA("ca", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(time.Hour) })
	g.Expect(err).NotTo(HaveOccurred())
	m := good(t, ca)
	facts, err := m.Check(hosts, time.Now())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(facts.Expires).To(BeTemporally("~", time.Now().Add(time.Hour), time.Minute))
	g.Expect(facts.ExpiresIn).To(Equal(m.Client.CA.Secret))
}

// A member takes every client for a member that the CA of peers has signed, also where that CA is a common one.
func TestACommonCAIsRemarked(t *testing.T) {
	g := NewWithT(t)
	ca, other := newCA(t), newCA(t)
	m := good(t, ca)
	facts, err := m.Check(hosts, time.Now())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(facts.Remarks).To(HaveExactElements(ContainSubstring("Clients and peers trust the same CA (CN=ca)")))

	m.Peer.CA.PEM = append(append([]byte{}, other.PEM...), ca.PEM...)
	facts, _ = m.Check(hosts, time.Now())
	g.Expect(facts.Remarks).To(HaveLen(1), "as one of two")

	m.Peer = &PeerSide{CA: Bundle{Secret: "peer-ca", Key: "ca.crt", PEM: other.PEM}, Server: issue(t, other, "peer", hosts)}
	facts, err = m.Check(hosts, time.Now())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(facts.Remarks).To(BeEmpty())
	m.Peer = nil
	facts, _ = m.Check(hosts, time.Now())
	g.Expect(facts.Remarks).To(BeEmpty(), "without TLS for peers")
}

// A check of keys that are expensive to verify refuses them before it verifies anything.
func TestGiantKeys(t *testing.T) {
	g := NewWithT(t)
	giant, leaf, err := certs.Giant(64<<10, "*.m-peer.ns.svc")
	g.Expect(err).NotTo(HaveOccurred())
	m := good(t, newCA(t))
	m.Peer = &PeerSide{CA: Bundle{Secret: "giant-ca", Key: "ca.crt", PEM: giant}, Server: Pair{Secret: "peer", Certificate: leaf.Certificate, Key: leaf.Key}}
	_, err = m.Check(hosts, time.Now())
	g.Expect(err).To(MatchError("Secret giant-ca has no CA certificates in ca.crt that can be used: certificate 1 has an RSA key of 65536 bits: at most 8192 are used. Issue it with a smaller key"))

	m = good(t, newCA(t))
	m.Client.Server.Certificate = append(m.Client.Server.Certificate, giant...)
	_, err = m.Check(hosts, time.Now())
	g.Expect(err).To(MatchError(ContainSubstring("Secret server has a tls.crt or a tls.key that cannot be used: certificate 2 has an RSA key of 65536 bits")))
}

// The cost of a check, within the bounds and beyond.
func BenchmarkCheck(b *testing.B) {
	for _, bits := range []int{8 << 10, 64 << 10, 336 << 10} {
		b.Run(fmt.Sprint(bits), func(b *testing.B) {
			giant, leaf, err := certs.Giant(bits, "*.m-peer.ns.svc")
			if err != nil {
				b.Fatal(err)
			}
			m := Material{Peer: &PeerSide{CA: Bundle{Secret: "ca", Key: "ca.crt", PEM: giant}, Server: Pair{Secret: "peer", Certificate: leaf.Certificate, Key: leaf.Key}}}
			b.ReportAllocs()
			for b.Loop() {
				_, _ = m.Check(hosts, time.Now())
			}
		})
	}
}
