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
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
)

const (
	full   = "Full-00000000-00000100-1700000000.gz"
	delta  = "Incr-00000101-00000110-1700000300.gz"
	digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

func statement() Statement {
	return Statement{
		Prefix: "ns/main", Name: delta, Size: 7, SHA256: digest, History: strings.Repeat("0a", 16),
		Predecessor: &backup.Reference{Name: full, SHA256: digest},
	}
}

func private(t testing.TB) []byte {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return encoded(t, key)
}

func encoded(t testing.TB, key any) []byte {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func public(t testing.TB, private []byte) []byte {
	block, _ := pem.Decode(private)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.(ed25519.PrivateKey).Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func read(t testing.TB, files map[string][]byte) (*Keys, error) {
	dir := t.TempDir()
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ReadKeys(dir)
}

func keys(t testing.TB, files map[string][]byte) *Keys {
	t.Helper()
	k, err := read(t, files)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRotation(t *testing.T) {
	g := NewWithT(t)
	oldKey, newKey := private(t), private(t)
	old := keys(t, map[string][]byte{SigningKey: oldKey})
	signed, err := old.Sign(statement())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(old.Verify(signed)).To(Equal(statement()))

	_, err = keys(t, map[string][]byte{SigningKey: newKey}).Verify(signed)
	g.Expect(err).To(MatchError(ContainSubstring("a key that the Secret of the signing keys does not have")))
	rotated := keys(t, map[string][]byte{SigningKey: newKey, "2025.pub": public(t, oldKey), "notes.txt": []byte("x")})
	g.Expect(rotated.Verify(signed)).To(Equal(statement()))
	signed, err = rotated.Sign(statement())
	g.Expect(err).NotTo(HaveOccurred())
	_, err = old.Verify(signed)
	g.Expect(err).To(HaveOccurred(), "the new key signs")

	reader := keys(t, map[string][]byte{"new.pub": public(t, newKey)})
	g.Expect(reader.Verify(signed)).To(Equal(statement()))
	_, err = reader.Sign(statement())
	g.Expect(err).To(MatchError(ContainSubstring("can be verified but not written")))
}

// No error contains a part of a key.
func TestInvalidKeys(t *testing.T) {
	g := NewWithT(t)
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	g.Expect(err).NotTo(HaveOccurred())
	key := private(t)
	for name, files := range map[string]map[string][]byte{
		"neither signing.key nor a public key":   {"other": key},
		"signing.key of the signing keys: it is": {SigningKey: []byte("hush")},
		"not a private Ed25519 key":              {SigningKey: encoded(t, weak)},
		"not one key in PEM":                     {SigningKey: append(append([]byte(nil), key...), key...)},
		"not a public Ed25519 key":               {SigningKey: key, "a.pub": key},
		"too large":                              {SigningKey: bytes.Repeat([]byte("x"), maxKeyFile+1)},
	} {
		_, err := read(t, files)
		g.Expect(err).To(MatchError(ContainSubstring(name)))
		g.Expect(err.Error()).NotTo(ContainSubstring("hush"))
	}
}

// Buckets are full of envelopes of this form, and Ed25519 signs the same in the same way.
func TestFormatStays(t *testing.T) {
	g := NewWithT(t)
	k := keys(t, map[string][]byte{SigningKey: encoded(t, ed25519.NewKeyFromSeed([]byte(strings.Repeat("a", ed25519.SeedSize))))})
	const stored = `{"payloadType":"application/vnd.etcd-foreman.snapshot.v1+json","payload":"eyJwcmVmaXgiOiJucy9tYWluIiwibmFtZSI6IkluY3ItMDAwMDAxMDEtMDAwMDAxMTAtMTcwMDAwMDMwMC5neiIsInNpemUiOjcsInNoYTI1NiI6ImUzYjBjNDQyOThmYzFjMTQ5YWZiZjRjODk5NmZiOTI0MjdhZTQxZTQ2NDliOTM0Y2E0OTU5OTFiNzg1MmI4NTUiLCJoaXN0b3J5IjoiMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEwYTBhMGEiLCJwcmVkZWNlc3NvciI6eyJuYW1lIjoiRnVsbC0wMDAwMDAwMC0wMDAwMDEwMC0xNzAwMDAwMDAwLmd6Iiwic2hhMjU2IjoiZTNiMGM0NDI5OGZjMWMxNDlhZmJmNGM4OTk2ZmI5MjQyN2FlNDFlNDY0OWI5MzRjYTQ5NTk5MWI3ODUyYjg1NSJ9fQ==","signatures":[{"keyid":"a3c761e56d55f45e","sig":"jzSYaT+QC8818FAxb8+2p0zrs1JB0fijXap6tH+ra5TH+QYG9wV2MFxJNjO1Z7bpuprSmgHk5y9YbjsKO+ImCg=="}]}`
	g.Expect(k.Verify([]byte(stored))).To(Equal(statement()))
	g.Expect(k.Sign(statement())).To(BeEquivalentTo(stored))
}

func TestAlteredEnvelopes(t *testing.T) {
	g := NewWithT(t)
	k := keys(t, map[string][]byte{SigningKey: private(t)})
	signed, err := k.Sign(statement())
	g.Expect(err).NotTo(HaveOccurred())
	for i := range signed {
		for _, bit := range []byte{1, 0x20} {
			altered := bytes.Clone(signed)
			altered[i] ^= bit
			if s, err := k.Verify(altered); err == nil {
				g.Expect(s).To(Equal(statement()), "byte %d: only spelling may change", i)
				// The names of fields may change their case in JSON; what they say may not.
				g.Expect(strings.EqualFold(string(altered), string(signed))).To(BeTrue())
			}
		}
	}
	// What the key signed for another purpose is no statement.
	var e envelope
	g.Expect(json.Unmarshal(signed, &e)).To(Succeed())
	payload, err := base64.StdEncoding.DecodeString(e.Payload)
	g.Expect(err).NotTo(HaveOccurred())
	e.Signatures[0].Sig = base64.StdEncoding.EncodeToString(ed25519.Sign(k.signer, payload))
	other, err := json.Marshal(e)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = k.Verify(other)
	g.Expect(err).To(MatchError("its signature is invalid"))
	_, err = k.Verify(bytes.Repeat([]byte(" "), MaxSize+1))
	g.Expect(err).To(MatchError(ContainSubstring("more than")))
}

func TestStatementsAreCanonical(t *testing.T) {
	g := NewWithT(t)
	k := keys(t, map[string][]byte{SigningKey: private(t)})
	for name, change := range map[string]func(*Statement){
		"name":                      func(s *Statement) { s.Name = "../" + delta },
		"prefix":                    func(s *Statement) { s.Prefix = "a/../b" },
		"digest":                    func(s *Statement) { s.SHA256 = strings.ToUpper(digest) },
		"history":                   func(s *Statement) { s.History = "" },
		"size":                      func(s *Statement) { s.Size = -1 },
		"delta without":             func(s *Statement) { s.Predecessor = nil },
		"full with a predecessor":   func(s *Statement) { s.Name = full },
		"name of the predecessor":   func(s *Statement) { s.Predecessor.Name = "x" },
		"digest of the predecessor": func(s *Statement) { s.Predecessor.SHA256 = "" },
	} {
		s := statement()
		change(&s)
		_, err := k.Sign(s)
		g.Expect(err).To(HaveOccurred(), name)
	}
}

func TestNames(t *testing.T) {
	g := NewWithT(t)
	r := backup.Reference{Name: full, SHA256: digest}
	g.Expect(ParseName(Name(r))).To(Equal(r))
	g.Expect(Name(r)).To(HavePrefix(NamesOf(full)))
	for _, name := range []string{"", full, "sig.", "sig." + full, "sig." + full + ".x", "sig.x." + digest, Name(r) + "/x"} {
		_, err := ParseName(name)
		g.Expect(err).To(HaveOccurred(), name)
	}
}

// Whatever is parsed is bounded, and what is accepted is what the key signed.
func FuzzVerify(f *testing.F) {
	k := keys(f, map[string][]byte{SigningKey: private(f)})
	signed, err := k.Sign(statement())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(signed)
	f.Add([]byte(`{"payloadType":"application/vnd.etcd-foreman.snapshot.v1+json","payload":"e30=","signatures":[{"keyid":"","sig":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := k.Verify(data); err == nil && (s.Name != delta || *s.Predecessor != *statement().Predecessor || s.SHA256 != digest) {
			t.Errorf("accepted %+v", s)
		}
	})
}

func FuzzParseName(f *testing.F) {
	f.Add(Name(backup.Reference{Name: full, SHA256: digest}))
	f.Fuzz(func(t *testing.T, name string) {
		if r, err := ParseName(name); err == nil && Name(r) != name {
			t.Errorf("%q has the signature %q", name, Name(r))
		}
	})
}
