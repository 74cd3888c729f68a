// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/ed25519"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	. "github.com/onsi/gomega"
)

var (
	noon  = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	key   = ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize)))
	other = ed25519.NewKeyFromSeed([]byte(strings.Repeat("b", ed25519.SeedSize)))
	trust = Trust{Audience: "uid", PublicKey: key.Public().(ed25519.PublicKey)}
)

const full = "/snapshot/full?final=false"

func signed(t testing.TB, with ed25519.PrivateKey, audience string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, full, nil)
	NewWithT(t).Expect(Sign(with, audience, r, noon)).To(Succeed())
	return r
}

// A request is valid for a few minutes, only as signed, and only with the key that the agent knows.
func TestVerify(t *testing.T) {
	as := func(change func(*http.Request)) *http.Request {
		r := signed(t, key, "uid")
		change(r)
		return r
	}
	token := func(edit func(string) string) *http.Request {
		return as(func(r *http.Request) {
			r.Header.Set("Authorization", scheme+edit(strings.TrimPrefix(r.Header.Get("Authorization"), scheme)))
		})
	}
	for name, c := range map[string]struct {
		request *http.Request
		later   time.Duration
		says    string
	}{
		"the operator":                {as(func(*http.Request) {}), 0, ""},
		"a slow clock":                {as(func(*http.Request) {}), -lifetime, ""},
		"a fast clock":                {as(func(*http.Request) {}), lifetime, ""},
		"a replay":                    {as(func(*http.Request) {}), lifetime + time.Second, "clocks of the nodes differ"},
		"a request from the future":   {as(func(*http.Request) {}), -lifetime - time.Second, "clocks of the nodes differ"},
		"no signature":                {as(func(r *http.Request) { r.Header.Del("Authorization") }), 0, "not signed: create"},
		"a password":                  {as(func(r *http.Request) { r.SetBasicAuth("a", "b") }), 0, "not signed: create"},
		"another key":                 {signed(t, other, "uid"), 0, "not signed with the key"},
		"another Etcd":                {signed(t, key, "else"), 0, "another Etcd"},
		"another method":              {as(func(r *http.Request) { r.Method = http.MethodGet }), 0, "another request"},
		"another path":                {as(func(r *http.Request) { r.URL.Path = "/snapshot/delta" }), 0, "another request"},
		"another query":               {as(func(r *http.Request) { r.URL.RawQuery = "final=true" }), 0, "another request"},
		"a token of many bytes":       {token(func(s string) string { return strings.Repeat("a", maxToken) + s }), 0, "not signed: create"},
		"a token without a signature": {token(func(s string) string { return s[:strings.LastIndex(s, ".")+1] }), 0, "not signed with the key"},
		"a token of one part":         {token(func(s string) string { return "x" }), 0, "not signed with the key"},
		"no algorithm": {token(func(s string) string {
			_, rest, _ := strings.Cut(s, ".")
			return encoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + rest
		}), 0, "not signed with the key"},
		"a signature of something else": {signedText(t, "hello"), 0, "not signed with the key"},
		"a signature of other claims":   {signedText(t, encoding.EncodeToString([]byte(`{"alg":"HS256"}`))+"."+encoding.EncodeToString([]byte(`{"aud":"uid"}`))), 0, "not signed with the key"},
	} {
		t.Run(name, func(t *testing.T) {
			err := trust.Verify(c.request, noon.Add(c.later))
			if c.says == "" {
				NewWithT(t).Expect(err).NotTo(HaveOccurred())
				return
			}
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.says)))
		})
	}
}

// signedText returns a request with a text that the operator's key has signed, but that is not a token.
func signedText(t testing.TB, text string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, full, nil)
	r.Header.Set("Authorization", scheme+text+"."+encoding.EncodeToString(ed25519.Sign(key, []byte(text))))
	return r
}

// The token is a JWT as others read and write it. Its header is fixed: agents compare it byte by byte.
func TestTokenIsAJWT(t *testing.T) {
	g := NewWithT(t)
	written := strings.TrimPrefix(signed(t, key, "uid").Header.Get("Authorization"), scheme)
	parsed, err := jwt.ParseSigned(written, []jose.SignatureAlgorithm{jose.EdDSA})
	g.Expect(err).NotTo(HaveOccurred())
	var standard jwt.Claims
	var own claims
	g.Expect(parsed.Claims(trust.PublicKey, &standard, &own)).To(Succeed())
	g.Expect(standard.Validate(jwt.Expected{AnyAudience: jwt.Audience{"uid"}, Time: noon})).To(Succeed())
	g.Expect(own).To(Equal(claims{Audience: "uid", IssuedAt: noon.Unix(), Method: http.MethodPost, URI: full}))

	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, (&jose.SignerOptions{}).WithType("JWT"))
	g.Expect(err).NotTo(HaveOccurred())
	foreign, err := jwt.Signed(signer).Claims(own).Serialize()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(trust.read(foreign)).To(Equal(own))
}

func TestTrust(t *testing.T) {
	g := NewWithT(t)
	open := trust
	open.AllowUnauthenticated = true
	for _, want := range []Trust{trust, open} {
		got, err := ParseTrust([]byte(want.String()))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(Equal(want))
	}
	for _, wrong := range []string{"", "{}", `{"audience":"uid"}`, `{"audience":"uid","publicKey":"AAAA"}`, `{"allowUnauthenticated":true}`} {
		_, err := ParseTrust([]byte(wrong))
		g.Expect(err).To(HaveOccurred(), wrong)
	}
}

// Only the operator's own token is accepted.
func FuzzVerify(f *testing.F) {
	f.Add("")
	f.Add("a.b.c")
	f.Add(encoding.EncodeToString([]byte(header)) + "." + encoding.EncodeToString([]byte(`{"aud":"uid"}`)) + ".")
	good := strings.TrimPrefix(signed(f, key, "uid").Header.Get("Authorization"), scheme)
	f.Fuzz(func(t *testing.T, token string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, full, nil)
		r.Header.Set("Authorization", scheme+token)
		if err := trust.Verify(r, noon); err == nil && token != good {
			t.Errorf("%q was accepted", token)
		}
	})
}

// The token is what docs/operator.md has openssl compute: this one is from there.
func TestMetricsTokenIsThatOfTheDocs(t *testing.T) {
	seed := make([]byte, ed25519.SeedSize)
	for i := range seed {
		seed[i] = byte(i)
	}
	NewWithT(t).Expect(MetricsToken(ed25519.NewKeyFromSeed(seed), "0d6a4c1d")).To(Equal("e9dea0fe37087a03a6539c7cec3c4d881e6269e58c2367c627db297c27303d08"))
}
