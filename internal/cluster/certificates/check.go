// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package certificates

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/boundedpem"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
)

// Facts are the results of checking valid material.
type Facts struct {
	// Authorities is a checksum of all CAs that members read when they start. It does not depend on their order or on text
	// between them.
	Authorities string
	// Expires is when the first certificate expires, be it that of a CA, and ExpiresIn its Secret.
	Expires   time.Time
	ExpiresIn string
	// Remarks are sentences on what a person should look at.
	Remarks []string
}

// Check checks that members with these host names can serve with the material at a time. It returns a *Problem for each
// unusable certificate, joined.
func (m Material) Check(hosts []string, now time.Time) (Facts, error) {
	c := checker{now: now}
	var clients, peers []*x509.Certificate
	if s := m.Client; s != nil {
		authorities := c.parseBundle(s.CA)
		clients = authorities
		c.authorities.add(authorities)
		c.checkPair(s.Server, s.CA, pool(authorities), hosts, x509.ExtKeyUsageServerAuth)
		c.checkPair(s.Client, s.CA, pool(authorities), nil, x509.ExtKeyUsageClientAuth)
	}
	if s := m.Peer; s != nil {
		authorities := c.parseBundle(s.CA)
		peers = authorities
		c.authorities.add(authorities)
		c.checkPair(s.Server, s.CA, pool(authorities), hosts, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
	}
	if s := m.Backup; s != nil {
		// Agents read these CAs on demand, not only when they start.
		c.checkPair(s.Server, s.CA, pool(c.parseBundle(s.CA)), append(slices.Clone(hosts), s.Host), x509.ExtKeyUsageServerAuth)
	}
	return Facts{Authorities: c.authorities.sum(), Expires: c.expires, ExpiresIn: c.expiresIn, Remarks: common(clients, peers)}, errors.Join(c.problems...)
}

// checker collects what it finds.
type checker struct {
	now         time.Time
	authorities digest
	expires     time.Time
	expiresIn   string
	problems    []error
}

func (c *checker) problem(secret, format string, args ...any) {
	c.problems = append(c.problems, &Problem{Secret: secret, What: fmt.Sprintf(format, args...)})
}

// parseBundle returns the CAs of a bundle; none if it cannot be used.
func (c *checker) parseBundle(b Bundle) []*x509.Certificate {
	certificates, err := b.authorities()
	if err != nil {
		c.problems = append(c.problems, err)
	}
	return certificates
}

// pool returns a pool of CAs; nil if there are none.
func pool(certificates []*x509.Certificate) *x509.CertPool {
	if len(certificates) == 0 {
		return nil
	}
	all := x509.NewCertPool()
	for _, certificate := range certificates {
		all.AddCert(certificate)
	}
	return all
}

// authorities returns the CAs of a bundle. An error is a *Problem.
func (b Bundle) authorities() ([]*x509.Certificate, error) {
	certificates, err := boundedpem.Certificates(b.PEM)
	if err != nil {
		return nil, &Problem{Secret: b.Secret, What: fmt.Sprintf("has no CA certificates in %s that can be used: %v", b.Key, err)}
	}
	return certificates, nil
}

// checkPair checks a pair against the CAs, for each of the usages.
func (c *checker) checkPair(p Pair, ca Bundle, roots *x509.CertPool, hosts []string, usages ...x509.ExtKeyUsage) {
	pair, err := boundedpem.Pair(p.Certificate, p.Key)
	if err != nil {
		c.problem(p.Secret, "has a tls.crt or a tls.key that cannot be used: %v", err)
		return
	}
	leaf, intermediates := pair.Leaf, x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if certificate, err := x509.ParseCertificate(der); err == nil {
			intermediates.AddCert(certificate)
		}
	}
	switch {
	case c.now.After(leaf.NotAfter):
		c.problem(p.Secret, "has a certificate that expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
		return
	case c.now.Before(leaf.NotBefore):
		c.problem(p.Secret, "has a certificate that is not valid before %s", leaf.NotBefore.UTC().Format(time.RFC3339))
		return
	case roots == nil:
		return
	}
	for _, usage := range usages {
		options := x509.VerifyOptions{Roots: roots, Intermediates: intermediates, CurrentTime: c.now, KeyUsages: []x509.ExtKeyUsage{usage}}
		chains, err := leaf.Verify(options)
		if err != nil {
			c.problem(p.Secret, "has a certificate that is not signed by a CA in %s of Secret %s for use as a %s: %v", ca.Key, ca.Secret, usageName(usage), err)
			return
		}
		c.expire(chains, p.Secret, ca.Secret)
	}
	for _, host := range hosts {
		if err := leaf.VerifyHostname(host); err != nil {
			c.problem(p.Secret, "has a certificate that is not valid for every member: %v", err)
			return
		}
	}
}

// expire notes when the first certificate expires of the chain that lasts longest. The last one of a chain is that of the CA.
func (c *checker) expire(chains [][]*x509.Certificate, secret, caSecret string) {
	var ends time.Time
	in := secret
	for _, chain := range chains {
		first := slices.MinFunc(chain, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		if !first.NotAfter.After(ends) {
			continue
		}
		if ends, in = first.NotAfter, secret; first == chain[len(chain)-1] {
			in = caSecret
		}
	}
	if c.expires.IsZero() || ends.Before(c.expires) {
		c.expires, c.expiresIn = ends, in
	}
}

func usageName(usage x509.ExtKeyUsage) string {
	if usage == x509.ExtKeyUsageClientAuth {
		return "client (clientAuth)"
	}
	return "server (serverAuth)"
}

// digest is a checksum of sets of certificates.
type digest []byte

func (d *digest) add(certificates []*x509.Certificate) {
	raw := make([][]byte, 0, len(certificates))
	for _, certificate := range certificates {
		raw = append(raw, certificate.Raw)
	}
	slices.SortFunc(raw, bytes.Compare)
	sum := sha256.Sum256(bytes.Join(raw, nil))
	*d = append(*d, sum[:]...)
}

// sum returns the checksum of all certificates; empty if there are none.
func (d digest) sum() string {
	if len(d) == 0 {
		return ""
	}
	sum := sha256.Sum256(d)
	return hex.EncodeToString(sum[:8])
}

// maxSubject bounds the name of a CA in a remark, in bytes.
const maxSubject = 256

// common returns remarks on a CA that clients and peers share, even under different certificates: members accept every client of such a CA
// as a peer.
func common(clients, peers []*x509.Certificate) []string {
	for _, peer := range peers {
		for _, client := range clients {
			if bytes.Equal(peer.RawSubjectPublicKeyInfo, client.RawSubjectPublicKeyInfo) {
				return []string{fmt.Sprintf("Clients and peers trust the same CA (%s), so every client can act as a member: give peers a CA of their own.",
					sanitize.Text(peer.Subject.String(), maxSubject))}
			}
		}
	}
	return nil
}
