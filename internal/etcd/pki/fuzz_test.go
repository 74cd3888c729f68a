// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"bytes"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Whatever the Secrets of managed TLS hold, reading them ends with a pair whose key is that of its certificate, or an error; and whatever was
// put in the place of a certificate or of the bundle, the steps come to an end and no CA is replaced for it.
func FuzzSecrets(f *testing.F) {
	state := fresh(NewWithT(f))
	for _, p := range []*Pair{state.Authority.Signer, &state.Leaves["server"].Pair} {
		certificate, key, err := p.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(certificate, key, int64(0))
		f.Add(certificate, []byte{}, int64(time.Hour*24*60))
		f.Add(append(certificate, certificate...), key, int64(time.Hour*24*900))
	}
	f.Add([]byte{}, []byte{}, int64(0))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"), int64(1))
	f.Fuzz(func(t *testing.T, certificate, key []byte, after int64) {
		g := NewWithT(t)
		pair, err := ParsePair(certificate, key)
		if err != nil {
			g.Expect(err.Error()).NotTo(BeEmpty())
			return
		}
		encoded, encodedKey, err := pair.Encode()
		g.Expect(err).NotTo(HaveOccurred())
		again, err := ParsePair(encoded, encodedKey)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bytes.Equal(again.Certificate.Raw, pair.Certificate.Raw)).To(BeTrue())

		next := fresh(g)
		authority := next.Authority.Signer
		next.Leaves["server"].Pair = *pair
		next.Bundle = append(next.Bundle, pair.Certificate)
		// Within the life of the CA: after it, another one is due.
		now := Input{Now: start.Add(time.Duration(uint64(after) % uint64(spec.CA-spec.CARenewBefore-24*time.Hour)))}
		settle(g, &next, now)
		g.Expect(next.Authority.Signer).To(BeIdenticalTo(authority))
	})
}
