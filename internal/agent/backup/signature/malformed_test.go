// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
)

// A text that a trusted key has signed but that is no statement is not accepted either, and no error quotes it.
func TestSignedButMalformed(t *testing.T) {
	g := NewWithT(t)
	k := keys(t, map[string][]byte{SigningKey: private(t)})
	seal := func(change func(*envelope), payload []byte) []byte {
		e := envelope{
			PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(payload),
			Signatures: []envelopeSignature{{KeyID: k.signerID, Sig: base64.StdEncoding.EncodeToString(ed25519.Sign(k.signer, encoding(payload)))}},
		}
		change(&e)
		data, err := json.Marshal(e)
		g.Expect(err).NotTo(HaveOccurred())
		return data
	}
	same := func(*envelope) {}
	whole, err := json.Marshal(statement())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(k.Verify(seal(same, whole))).To(Equal(statement()))
	negative := statement()
	negative.Size = -1
	size, err := json.Marshal(negative)
	g.Expect(err).NotTo(HaveOccurred())
	for says, data := range map[string][]byte{
		"its signature is malformed: invalid character":    seal(same, []byte("x")),
		"its signature is malformed: json: unknown field":  seal(same, append(bytes.Clone(bytes.TrimSuffix(whole, []byte("}"))), []byte(`,"also":1}`)...)),
		"its signature is malformed: something follows it": seal(same, append(bytes.Clone(whole), []byte("{}")...)),
		"its signature is malformed: its size is negative": seal(same, size),
		"its signature is of another version":              seal(func(e *envelope) { e.Signatures = append(e.Signatures, e.Signatures...) }, whole),
		"its signature cannot be read":                     seal(func(e *envelope) { e.Payload = "?" }, whole),
		"its signature is invalid":                         seal(func(e *envelope) { e.Signatures[0].Sig = "AAAA" }, whole),
		"it is signed with a key that the Secret":          seal(func(e *envelope) { e.Signatures[0].KeyID = "other" }, whole),
		"its signature has more than 8192 bytes":           append(seal(same, whole), bytes.Repeat([]byte(" "), MaxSize)...),
	} {
		s, err := k.Verify(data)
		g.Expect(err).To(MatchError(ContainSubstring(says)))
		g.Expect(s).To(BeZero(), says)
	}
	for _, data := range [][]byte{[]byte("x"), seal(func(e *envelope) { e.Signatures[0].Sig = "?" }, whole)} {
		s, err := k.Verify(data)
		g.Expect(err).To(MatchError("its signature cannot be read"))
		g.Expect(s).To(BeZero())
	}
	padded := seal(same, whole)
	padded = append(padded, bytes.Repeat([]byte(" "), MaxSize-len(padded))...)
	g.Expect(k.Verify(padded)).To(Equal(statement()), "as large as it may be")
	empty := statement()
	empty.Size = 0
	_, err = k.Sign(empty)
	g.Expect(err).NotTo(HaveOccurred(), "a delta may be empty")
}

// A snapshot keeps of its statement what the next one refers to.
func TestProof(t *testing.T) {
	g, s := NewWithT(t), statement()
	g.Expect(*s.Proof()).To(Equal(backup.Proof{SHA256: digest, History: s.History, Predecessor: *s.Predecessor}))
	s.Predecessor = nil
	g.Expect(*s.Proof()).To(Equal(backup.Proof{SHA256: digest, History: s.History}))
}

// Files that cannot be read, or have a key of another kind, are refused.
func TestKeyFiles(t *testing.T) {
	g := NewWithT(t)
	_, err := ReadKeys(filepath.Join(t.TempDir(), "none"))
	g.Expect(err).To(MatchError(ContainSubstring("reading the signing keys")))
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	g.Expect(err).NotTo(HaveOccurred())
	der, err := x509.MarshalPKIXPublicKey(weak.Public())
	g.Expect(err).NotTo(HaveOccurred())
	_, err = read(t, map[string][]byte{"weak.pub": pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})})
	g.Expect(err).To(MatchError(ContainSubstring("it is not a public Ed25519 key")))
	dir := t.TempDir()
	g.Expect(os.Symlink("nowhere", filepath.Join(dir, SigningKey))).To(Succeed())
	_, err = ReadKeys(dir)
	g.Expect(err).To(MatchError(ContainSubstring("reading signing.key of the signing keys")))
	g.Expect(os.Mkdir(filepath.Join(dir, "folder.pub"), 0o700)).To(Succeed())
	g.Expect(os.Remove(filepath.Join(dir, SigningKey))).To(Succeed())
	_, err = ReadKeys(dir)
	g.Expect(err).To(MatchError(ContainSubstring("reading folder.pub of the signing keys")))
	key := private(t)
	large := append(bytes.Clone(key), bytes.Repeat([]byte("\n"), maxKeyFile-len(key))...)
	_, err = read(t, map[string][]byte{SigningKey: large})
	g.Expect(err).NotTo(HaveOccurred(), "as large as it may be")
	_, err = read(t, map[string][]byte{SigningKey: append(bytes.Clone(key), 'x')})
	g.Expect(err).To(MatchError(ContainSubstring("not one key in PEM")))
}

// Nothing of a malformed name is returned.
func TestNamesThatAreNone(t *testing.T) {
	g := NewWithT(t)
	for _, name := range []string{"x", "sig.x." + digest, "sig..a"} {
		r, err := ParseName(name)
		g.Expect(err).To(HaveOccurred(), name)
		g.Expect(r).To(BeZero(), name)
	}
	g.Expect(NamesOf("a")).To(Equal("sig.a."))
}
