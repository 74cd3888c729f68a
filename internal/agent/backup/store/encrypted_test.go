// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	. "github.com/onsi/gomega"
)

// sealed is a store in a folder whose snapshots are encrypted, and can be read.
func sealed(t *testing.T) Config {
	identity, recipient := encryptiontest.Identity(t)
	return Config{Provider: Local, Container: t.TempDir(), Prefix: "a/b", Recipients: []string{recipient}, Identities: encryptiontest.Folder(t, identity)}
}

func opened(t *testing.T, config Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func contentOf(t *testing.T, s *Store, snapshot backup.Snapshot) (string, error) {
	r, err := s.Reader(t.Context(), snapshot)
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(r)
	return string(data), errors.Join(err, r.Close())
}

// The object is ciphertext, its name says so, and its size is that of the object. Without an identity it is there, and cannot be read.
func TestEncryptedObjects(t *testing.T) {
	g := NewWithT(t)
	config := sealed(t)
	s := opened(t, config)
	written, err := s.Write(t.Context(), full(1), content)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(written.Name()).To(Equal("Full-00000000-00000001-1700000001.age"))
	object, err := os.ReadFile(filepath.Join(config.Container, "a", "b", "v2", written.Name()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(object).To(HavePrefix("age-encryption.org/v1\n"))
	g.Expect(string(object)).NotTo(ContainSubstring("content"))
	g.Expect(written.Size).To(BeEquivalentTo(len(object)))
	g.Expect(s.List(t.Context())).To(Equal([]backup.Snapshot{written}))
	g.Expect(contentOf(t, s, written)).To(Equal("content"))
	g.Expect(s.CanRead(t.Context(), written)).To(Succeed())

	for name, tc := range map[string]struct {
		identities, says string
	}{
		"none named":       {"", "names no Secret"},
		"an absent Secret": {filepath.Join(t.TempDir(), "missing"), "does not exist"},
		"a foreign one":    {sealed(t).Identities, "for others"},
		"a malformed one":  {signaturetest.Keys(t), "signing.key of the Secret with the identities: line 1 is not"},
	} {
		config.Identities = tc.identities
		blind := opened(t, config)
		g.Expect(blind.List(t.Context())).To(HaveLen(1), name)
		_, err := contentOf(t, blind, written)
		locked, ok := errors.AsType[*backup.LockedError](err)
		g.Expect(ok).To(BeTrue(), "%s: %v", name, err)
		g.Expect(locked).To(MatchError(ContainSubstring(tc.says)), name)
		g.Expect(blind.CanRead(t.Context(), written)).To(MatchError(locked), name)
		g.Expect(blind.PeopleOnly()).To(Equal(name == "none named"))
		_, err = blind.Identities()
		g.Expect(locked.NoneFits).To(Equal(err == nil), name)
		g.Expect(locked.NoneFits).To(Equal(name != "a malformed one"), name)
		r, err := blind.Object(t.Context(), written)
		g.Expect(err).NotTo(HaveOccurred(), "it can be copied as it is")
		g.Expect(io.ReadAll(r)).To(Equal(object))
		g.Expect(r.Close()).To(Succeed())
	}
	config.Recipients = []string{"age1nonsense"}
	_, err = Open(t.Context(), config)
	g.Expect(err).To(MatchError(ContainSubstring("age1nonsense")))
}

// An object under the name of another, a truncated one, and one with more at its end, is corrupt, whether or not snapshots are signed.
func TestEncryptedObjectsThatAreAltered(t *testing.T) {
	for _, keys := range []string{"", signaturetest.Keys(t)} {
		g := NewWithT(t)
		config := sealed(t)
		config.SigningKeys = keys
		s := opened(t, config)
		first, err := s.Write(t.Context(), full(1), content)
		g.Expect(err).NotTo(HaveOccurred())
		second, err := s.Write(t.Context(), full(2), content)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(first.Size).To(Equal(second.Size))
		path := func(s backup.Snapshot) string { return filepath.Join(config.Container, "a", "b", "v2", s.Name()) }
		object, err := os.ReadFile(path(first))
		g.Expect(err).NotTo(HaveOccurred())
		for name, data := range map[string][]byte{"swapped": object, "truncated": object[:len(object)-1], "appended": append(bytes.Clone(object), 'x')} {
			g.Expect(os.WriteFile(path(second), data, 0o600)).To(Succeed())
			_, err := contentOf(t, s, second)
			_, corrupt := errors.AsType[*backup.CorruptError](err)
			g.Expect(corrupt).To(BeTrue(), "%s: %v", name, err)
		}
	}
}

// A writer of the store puts a plain object after encrypted ones, or in place of one: it is not used, unless it is signed, or a person accepts
// plain ones of its time. Those from before the encryption do not count.
func TestDowngrade(t *testing.T) {
	g := NewWithT(t)
	config := sealed(t)
	plain := config
	plain.Recipients, plain.Identities = nil, ""
	writer, s := opened(t, plain), opened(t, config)
	_, err := writer.Write(t.Context(), full(1), content)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.Trusted(t.Context(), time.Time{})
	g.Expect(err).To(MatchError(ContainSubstring("is refused: it is not encrypted")), "none is encrypted yet")
	ours, err := s.Write(t.Context(), full(2), content)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Trusted(t.Context(), time.Time{})).To(Equal([]backup.Snapshot{ours}))

	forged, err := writer.Write(t.Context(), full(3), content)
	g.Expect(err).NotTo(HaveOccurred())
	trusted, err := s.Trusted(t.Context(), forged.Created)
	refused, ok := errors.AsType[*backup.UntrustedError](err)
	g.Expect(ok).To(BeTrue(), "%v", err)
	g.Expect(refused.Name).To(Equal(forged.Name()), "what is accepted of unsigned ones does not accept plain ones")
	g.Expect(trusted).To(Equal([]backup.Snapshot{ours}))
	config.PlainUntil = forged.Created
	g.Expect(opened(t, config).Trusted(t.Context(), time.Time{})).To(HaveLen(3))
	g.Expect(writer.Trusted(t.Context(), time.Time{})).To(HaveLen(3), "encryption is off")

	// A signature says whose it is, and an encryption does not.
	config.PlainUntil, config.SigningKeys = time.Time{}, signaturetest.Keys(t)
	plain.SigningKeys = config.SigningKeys
	_, err = opened(t, plain).Write(t.Context(), full(4), content)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.Write(t.Context(), full(5), content)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = opened(t, config).Trusted(t.Context(), time.Time{})
	g.Expect(err).To(MatchError(ContainSubstring(full(5).Name()+".age in")), "everyone who knows the recipients can encrypt")
	_, err = opened(t, config).Write(t.Context(), full(6), content)
	g.Expect(err).NotTo(HaveOccurred())
	trusted, err = opened(t, config).Trusted(t.Context(), time.Time{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(trusted).To(HaveLen(2), "a signed plain one, and a signed encrypted one")
}
