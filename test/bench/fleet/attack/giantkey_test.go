// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package attack

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// The computation is what the attack is about: a certificate that is refused earlier costs nothing.
func TestGiantKeyTakesLong(t *testing.T) {
	g := NewWithT(t)
	check := func(size int) time.Duration {
		secrets, err := giantKey(size)
		g.Expect(err).NotTo(HaveOccurred())
		roots := x509.NewCertPool()
		g.Expect(roots.AppendCertsFromPEM(secrets[secretCA]["ca.crt"])).To(BeTrue())
		pair, err := tls.X509KeyPair(secrets[secretPair]["tls.crt"], secrets[secretPair]["tls.key"])
		g.Expect(err).NotTo(HaveOccurred())
		from := time.Now()
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots})
		g.Expect(err).To(HaveOccurred())
		return time.Since(from)
	}
	small, giant := check(256), check(2048)
	t.Logf("2048 bit: %s, 16384 bit: %s", small, giant)
	g.Expect(giant).To(BeNumerically(">", 4*small))
}
