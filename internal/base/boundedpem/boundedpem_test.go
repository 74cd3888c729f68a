// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package boundedpem_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/base/boundedpem"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
)

func TestBounds(t *testing.T) {
	g := NewWithT(t)
	ca, err := certs.NewCA("ca")
	g.Expect(err).NotTo(HaveOccurred())
	pair, err := ca.Issue([]string{"m-0"})
	g.Expect(err).NotTo(HaveOccurred())
	key := pair.Key
	repeated := func(n int) []byte { return bytes.Repeat(ca.PEM, n) }
	giant, _, err := certs.Giant(8200)
	g.Expect(err).NotTo(HaveOccurred())
	for name, c := range map[string]struct {
		parse func() error
		want  string // empty for none
	}{
		"as many CAs as fit":     {certificates(repeated(boundedpem.MaxCertificates)), ""},
		"one CA too many":        {certificates(repeated(boundedpem.MaxCertificates + 1)), "more than 32 certificates"},
		"a long comment":         {certificates(append(make([]byte, boundedpem.MaxBytes), ca.PEM...)), "at most 131072 are parsed"},
		"a giant key":            {certificates(giant), "certificate 1 has an RSA key of 8200 bits: at most 8192 are used. Issue it with a smaller key"},
		"a giant key behind one": {certificates(append(repeated(1), giant...)), "certificate 2 has"},
		"a private key":          {certificates(key), `of type "PRIVATE KEY"`},
		"nothing":                {certificates(nil), "there is no certificate"},
		"a pair":                 {both(pair.Certificate, key), ""},
		"a pair with its CA":     {both(append(bytes.Clone(pair.Certificate), repeated(boundedpem.MaxChain-1)...), key), ""},
		"a pair in one value":    {both(append(bytes.Clone(pair.Certificate), key...), key), ""},
		"a long chain":           {both(append(bytes.Clone(pair.Certificate), repeated(boundedpem.MaxChain)...), key), "more than 8 certificates"},
		"a giant intermediate":   {both(append(bytes.Clone(pair.Certificate), giant...), key), "certificate 2 has an RSA key"},
		"a long private key":     {both(pair.Certificate, append(make([]byte, boundedpem.MaxKeyBytes), key...)), "a private key of"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.parse(); c.want == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
			} else {
				NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.want)))
			}
		})
	}
}

func certificates(bundle []byte) func() error {
	return func() error { _, err := boundedpem.Certificates(bundle); return err }
}

func both(chain, key []byte) func() error {
	return func() error { _, err := boundedpem.Pair(chain, key); return err }
}

func TestPause(t *testing.T) {
	g := NewWithT(t)
	g.Expect(boundedpem.Pause(5*time.Second, 5*time.Minute, time.Millisecond)).To(Equal(5 * time.Second))
	g.Expect(boundedpem.Pause(5*time.Second, 5*time.Minute, time.Second)).To(Equal(100 * time.Second))
	g.Expect(boundedpem.Pause(5*time.Second, 5*time.Minute, time.Minute)).To(Equal(5 * time.Minute))
}
