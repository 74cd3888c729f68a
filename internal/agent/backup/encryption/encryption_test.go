// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package encryption_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"filippo.io/age"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	. "github.com/onsi/gomega"
)

// chunk is the plaintext of a chunk of age, in bytes.
const chunk = 64 << 10

func full(revision int64) backup.Snapshot {
	return backup.Snapshot{Kind: backup.Full, LastRevision: revision, Created: time.Unix(1_700_000_000, 0).UTC(), Compression: backup.Gzip, Encrypted: true}
}

// text of three chunks.
var text = bytes.Repeat([]byte("0123456789abcdef"), 3*chunk/16)

func encrypted(t testing.TB, s backup.Snapshot, plain []byte, recipients ...string) []byte {
	t.Helper()
	to, err := encryption.ParseRecipients(recipients)
	if err != nil {
		t.Fatal(err)
	}
	object := &bytes.Buffer{}
	w, err := to.Encrypt(s, object)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return object.Bytes()
}

func decrypted(t testing.TB, s backup.Snapshot, object io.Reader, identities ...string) ([]byte, error) {
	t.Helper()
	with, err := encryption.ReadIdentities(encryptiontest.Folder(t, identities...))
	if err != nil {
		t.Fatal(err)
	}
	r, err := with.Decrypt(s, object)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// A snapshot is encrypted for several recipients, each of which reads it, and for no other: one that is added or removed changes what is
// encrypted from then on. The age command reads it, too.
func TestRecipients(t *testing.T) {
	g := NewWithT(t)
	oldIdentity, old := encryptiontest.Identity(t)
	newIdentity, added := encryptiontest.Identity(t)
	before, both, after := encrypted(t, full(1), text, old), encrypted(t, full(1), text, old, added), encrypted(t, full(1), text, added)
	for name, tc := range map[string]struct {
		object   []byte
		identity []string
		locked   string
	}{
		"the only one":          {before, []string{oldIdentity}, ""},
		"the first":             {both, []string{oldIdentity}, ""},
		"the second":            {both, []string{newIdentity}, ""},
		"any of the identities": {after, []string{oldIdentity, newIdentity}, ""},
		"one that was removed":  {after, []string{oldIdentity}, "for others than the 1 identities"},
		"one that was added":    {before, []string{newIdentity}, "for others than the 1 identities"},
		"without the Secret":    {both, nil, "does not exist, or has no identity"},
		"with a foreign Secret": {both, []string{identityOf(t), identityOf(t)}, "for others than the 2 identities"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := decrypted(t, full(1), bytes.NewReader(tc.object), tc.identity...)
			if tc.locked == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(bytes.Equal(got, text)).To(BeTrue())
				return
			}
			locked, ok := errors.AsType[*backup.LockedError](err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(locked.Error()).To(And(ContainSubstring(full(1).Name()), ContainSubstring(tc.locked)))
		})
	}
	identity, err := age.ParseX25519Identity(newIdentity)
	g.Expect(err).NotTo(HaveOccurred())
	r, err := age.Decrypt(bytes.NewReader(both), identity)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := io.ReadAll(r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bytes.Equal(got, text)).To(BeTrue(), "what a person decrypts is what the object would be")
	_, err = encryption.ParseRecipients([]string{added[:len(added)-1] + "q"})
	g.Expect(err).To(MatchError(ContainSubstring("is not the public key")), "a typing error does not encrypt for another one")
}

func identityOf(t *testing.T) string { identity, _ := encryptiontest.Identity(t); return identity }

// A writer of the store, who knows all of it and has no identity, can make nothing of an encrypted object that is read as a snapshot.
func TestAlteredObjects(t *testing.T) {
	identity, recipient := encryptiontest.Identity(t)
	object := encrypted(t, full(1), text, recipient)
	header := bytes.Index(object, []byte("\n---")) + len("\n--- ") + 44
	name := full(1).BoundName()
	replaced := func(old, by string) []byte { return bytes.Replace(object, []byte(old), []byte(by), 1) }
	for what, tc := range map[string]struct {
		s      backup.Snapshot
		object []byte
	}{
		"another revision":        {full(2), object},
		"another name inside too": {full(2), replaced(name, full(2).BoundName())},
		"without a name":          {full(1), replaced("-> etcd-foreman-snapshot "+name+"\n\n", "")},
		"with two names":          {full(2), replaced(name, full(2).BoundName()+" "+name)},
		"as a delta":              {backup.Snapshot{Kind: backup.Delta, LastRevision: 1, Created: full(1).Created, Compression: backup.Gzip, Encrypted: true}, object},
		"of another compression":  {backup.Snapshot{Kind: backup.Full, LastRevision: 1, Created: full(1).Created, Compression: backup.None, Encrypted: true}, object},
		"at another time":         {backup.Snapshot{Kind: backup.Full, LastRevision: 1, Created: full(1).Created.Add(time.Second), Compression: backup.Gzip, Encrypted: true}, object},
		"an age file of another":  {full(1), foreign(t, recipient)},
		"empty":                   {full(1), nil},
		"plain":                   {full(1), text},
		"without its end":         {full(1), object[:len(object)-1]},
		"without its last chunk":  {full(1), object[:header+16+2*(chunk+16)]},
		"without a chunk":         {full(1), append(bytes.Clone(object[:header+16]), object[header+16+chunk+16:]...)},
		"without chunks":          {full(1), object[:header+16]},
		"with a byte more":        {full(1), append(bytes.Clone(object), 0)},
		"with a chunk more":       {full(1), append(bytes.Clone(object), object[len(object)-chunk-16:]...)},
		"twice":                   {full(1), append(bytes.Clone(object), object...)},
		"an endless header":       {full(1), append([]byte("age-encryption.org/v1\n"), bytes.Repeat([]byte("-> X25519 a\n\n"), encryption.Beginning)...)},
		"an endless line":         {full(1), bytes.Repeat([]byte("a"), 2*encryption.Beginning)},
	} {
		t.Run(what, func(t *testing.T) {
			g := NewWithT(t)
			_, err := decrypted(t, tc.s, bytes.NewReader(tc.object), identity)
			corrupt, ok := errors.AsType[*backup.CorruptError](err)
			g.Expect(ok).To(BeTrue(), "%v", err)
			g.Expect(corrupt.Name).To(Equal(tc.s.Name()))
			g.Expect(len(corrupt.Reason)).To(BeNumerically("<", 400))
		})
	}
	// Nothing but the whole is read without an error, and a bit that flips anywhere is noticed.
	for i := 0; i < len(object); i += 1 + len(object)/200 {
		g := NewWithT(t)
		_, err := decrypted(t, full(1), bytes.NewReader(object[:i]), identity)
		g.Expect(err).To(HaveOccurred(), "the first %d bytes", i)
		altered := bytes.Clone(object)
		altered[i] ^= 4
		_, err = decrypted(t, full(1), bytes.NewReader(altered), identity)
		g.Expect(err).To(HaveOccurred(), "byte %d", i)
	}
}

// foreign is what a person who knows the recipient encrypts with the age command.
func foreign(t *testing.T, recipient string) []byte {
	to, err := age.ParseX25519Recipient(recipient)
	if err != nil {
		t.Fatal(err)
	}
	object := &bytes.Buffer{}
	w, err := age.Encrypt(object, to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return object.Bytes()
}

// A store that fails while it is read says nothing about the object, wherever it fails.
func TestStoreThatFails(t *testing.T) {
	identity, recipient := encryptiontest.Identity(t)
	object := encrypted(t, full(1), text, recipient)
	for _, at := range []int{0, 10, 200, 1000, chunk, len(object)} {
		g := NewWithT(t)
		broken := errors.New("connection reset")
		_, err := decrypted(t, full(1), io.MultiReader(bytes.NewReader(object[:at]), iotest.ErrReader(broken)), identity)
		g.Expect(err).To(MatchError(broken), "after %d bytes", at)
		_, corrupt := errors.AsType[*backup.CorruptError](err)
		g.Expect(corrupt).To(BeFalse())
	}
}

// A Secret that holds something else is named, without its content. One that is missing has no identity.
func TestIdentities(t *testing.T) {
	g := NewWithT(t)
	identity, _ := encryptiontest.Identity(t)
	read := func(name, content string) (encryption.Identities, error) {
		dir := t.TempDir()
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600)).To(Succeed())
		return encryption.ReadIdentities(dir)
	}
	g.Expect(read("key.txt", "# created: today\r\n\n"+identity+"\r\n")).To(HaveLen(1))
	g.Expect(read("..data", "hush")).To(BeEmpty(), "the kubelet's")
	g.Expect(encryption.ReadIdentities(filepath.Join(t.TempDir(), "missing"))).To(BeEmpty())
	for name, content := range map[string]string{
		"words": "hush", "lower": "hush\n" + identity, "cut": identity[:len(identity)-1] + "hush", "long": strings.Repeat("hush", 1<<16), "lines": strings.Repeat("h", 65<<9) + "hush",
	} {
		_, err := read(name, content)
		g.Expect(err).To(MatchError(ContainSubstring(name+" of the Secret with the identities")), name)
		g.Expect(err.Error()).NotTo(ContainSubstring("hush"))
		g.Expect(err.Error()).NotTo(ContainSubstring(identity[20:30]))
	}
}

// Whatever is in an object is bounded, and only what was encrypted as this snapshot is read.
func FuzzDecrypt(f *testing.F) {
	identity, recipient := encryptiontest.Identity(f)
	f.Add(encrypted(f, full(1), []byte("content"), recipient))
	f.Add(encrypted(f, full(2), []byte("other"), recipient))
	f.Fuzz(func(t *testing.T, object []byte) {
		if got, err := decrypted(t, full(1), bytes.NewReader(object), identity); err == nil && string(got) != "content" {
			t.Errorf("read %q", got)
		}
	})
}
