// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package auth authenticates the operator to agents: the operator signs each request, and publishes its public key in
// the ConfigMap of the Etcd (ADR 18). No secret is kept in a tenant's namespace, and a signature is valid for one request
// only. It imports the standard library only.
package auth

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Trust is who may use the API of the agents of an Etcd. The operator writes it into the ConfigMap of the members.
type Trust struct {
	// Audience is the UID of the Etcd: a signature for another Etcd is not valid here.
	Audience string `json:"audience"`
	// PublicKey of the operator.
	PublicKey ed25519.PublicKey `json:"publicKey"`
	// AllowUnauthenticated accepts unsigned requests, and GET in place of POST, as etcd-backup-restore does.
	AllowUnauthenticated bool `json:"allowUnauthenticated,omitempty"`
	// MetricsTokenHash is the SHA-256, in hex, of the token that reads the metrics of all Etcds; empty for none.
	MetricsTokenHash string `json:"metricsTokenHash,omitempty"`
	// EtcdMetricsTokenHash is that of the MetricsToken of this Etcd.
	EtcdMetricsTokenHash string `json:"etcdMetricsTokenHash,omitempty"`
	// AllowUnauthenticatedMetrics serves the agents' metrics to every client.
	AllowUnauthenticatedMetrics bool `json:"allowUnauthenticatedMetrics,omitempty"`
	// TLSMinVersion and TLSCipherSuites restrict TLS, by the numbers of the standard; unset, Go's defaults with TLS 1.2 apply.
	TLSMinVersion   uint16   `json:"tlsMinVersion,omitempty"`
	TLSCipherSuites []uint16 `json:"tlsCipherSuites,omitempty"`
}

// ParseTrust parses the output of String. A Trust without an audience or a key is an error.
func ParseTrust(data []byte) (Trust, error) {
	var t Trust
	if err := json.Unmarshal(data, &t); err != nil {
		return Trust{}, fmt.Errorf("reading the agent API's trust: %w", err)
	}
	if t.Audience == "" || len(t.PublicKey) != ed25519.PublicKeySize {
		return Trust{}, errors.New("reading the agent API's trust: the audience or the public key is missing")
	}
	return t, nil
}

// String returns the Trust as JSON. It is deterministic.
func (t Trust) String() string {
	// Strings and bytes can always be encoded.
	data, _ := json.Marshal(t)
	return string(data)
}

// KeySecret is the Secret in the operator's namespace with the key that the operator signs requests with, and KeySeed the key of its seed.
const (
	KeySecret = "etcd-foreman-signing-key"
	KeySeed   = "ed25519.seed"
)

const (
	// header of every token, which is a JWT. It is compared byte by byte, so that no other algorithm can be chosen.
	header = `{"alg":"EdDSA","typ":"JWT"}`
	scheme = "Bearer "
	// maxToken bounds a token, in bytes.
	maxToken = 4 << 10
	// lifetime is the allowed difference between the clocks of operator and agent, and thus how long a request can be
	// replayed.
	lifetime = 5 * time.Minute
)

// claims of a token, which is for one request. Method and URL are named as in RFC 9449.
type claims struct {
	Audience string `json:"aud"`
	IssuedAt int64  `json:"iat"`
	Method   string `json:"htm"`
	URI      string `json:"htu"`
}

var encoding = base64.RawURLEncoding.Strict()

// Sign signs a request to the agents of the Etcd with this UID.
func Sign(key ed25519.PrivateKey, audience string, r *http.Request, now time.Time) error {
	payload, err := json.Marshal(claims{Audience: audience, IssuedAt: now.Unix(), Method: r.Method, URI: r.URL.RequestURI()})
	if err != nil {
		return fmt.Errorf("signing the request: %w", err)
	}
	signed := encoding.EncodeToString([]byte(header)) + "." + encoding.EncodeToString(payload)
	r.Header.Set("Authorization", scheme+signed+"."+encoding.EncodeToString(ed25519.Sign(key, []byte(signed))))
	return nil
}

// Verify returns nil if the operator has just signed the request for these agents, and otherwise why not.
func (t Trust) Verify(r *http.Request, now time.Time) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), scheme)
	if !ok || len(token) > maxToken {
		return errors.New("the request is not signed: create an EtcdOperatorTask of type OnDemandSnapshot instead")
	}
	c, err := t.read(token)
	if err != nil {
		return err
	}
	switch age := now.Sub(time.Unix(c.IssuedAt, 0)); {
	case c.Audience != t.Audience:
		return errors.New("the request is signed for the agents of another Etcd")
	case c.Method != r.Method || c.URI != r.URL.RequestURI():
		return errors.New("the signature is for another request")
	case age > lifetime || age < -lifetime:
		return fmt.Errorf("the request was signed at %s, and it is now %s: it is a replay, or the clocks of the nodes differ",
			time.Unix(c.IssuedAt, 0).UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	return nil
}

// VerifyScrape returns nil if a request may read the agents' metrics, and otherwise why not.
func (t Trust) VerifyScrape(r *http.Request) error {
	if t.AllowUnauthenticatedMetrics {
		return nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), scheme)
	if !ok || len(token) > maxToken || !hasHash(token, t.MetricsTokenHash) && !hasHash(token, t.EtcdMetricsTokenHash) {
		return errors.New("metrics need a client certificate of the CA in spec.backup.tls, the metrics token of this Etcd, or the token of agentAPI.metricsTokenHash in the operator's configuration")
	}
	return nil
}

// hasHash reports whether a token has a SHA-256, in hex. No token has an empty one.
func hasHash(token, hash string) bool {
	want, err := hex.DecodeString(hash)
	got := sha256.Sum256([]byte(token))
	return err == nil && subtle.ConstantTimeCompare(got[:], want) == 1
}

// MetricsToken returns the token that reads the metrics of the agents of the Etcd with this UID, and of no other: a tenant who sees it
// cannot read those of others. Who may read the operator's signing key can compute it (docs/operator.md).
func MetricsToken(key ed25519.PrivateKey, uid string) string {
	mac := hmac.New(sha256.New, key.Seed())
	// A hash never fails to write.
	_, _ = mac.Write([]byte("metrics/" + uid))
	return hex.EncodeToString(mac.Sum(nil))
}

// HashOf returns the hash of a token.
func HashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// read verifies the signature of a token and returns its claims.
func (t Trust) read(token string) (claims, error) {
	errForeign := errors.New("the request is not signed with the key of this Etcd's operator")
	end := strings.LastIndexByte(token, '.')
	if end < 0 {
		return claims{}, errForeign
	}
	signature, err := encoding.DecodeString(token[end+1:])
	if err != nil || !ed25519.Verify(t.PublicKey, []byte(token[:end]), signature) {
		return claims{}, errForeign
	}
	head, body, ok := strings.Cut(token[:end], ".")
	payload, err := encoding.DecodeString(body)
	if err != nil || !ok || head != encoding.EncodeToString([]byte(header)) {
		return claims{}, errForeign
	}
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return claims{}, errForeign
	}
	return c, nil
}
