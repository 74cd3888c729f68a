// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	. "github.com/onsi/gomega"
)

// Where snapshots are in the bucket, besides the own ones.
const (
	copyAt  = "shoot-a/copy"
	movedAt = "shoot-a/moved"
	bareAt  = "shoot-a/bare"
)

// places are the stores of a restore from another prefix: the archive of a cluster that is gone, the bucket of the one that goes back, and what was
// copied there.
type places struct {
	t       *testing.T
	archive store.Config
	own     store.Config
	server  *s3
}

// at returns the own store at another prefix.
func (p places) at(prefix string) store.Config {
	c := p.own
	c.Prefix = prefix
	return c
}

// preview previews a restore from another prefix, with the keys of a store.
func (p places) preview(target backup.Target, from store.Config) backup.Preview {
	p.t.Helper()
	return previewed(p.t, openStore(p.t, p.own), target, func(c *restore.PreviewConfig) { c.From = openStore(p.t, from) })
}

// copied copies the archive into the bucket as the Job of a CopyBackups does: it has the keys that sign, and no identity.
func (p places) copied() {
	p.t.Helper()
	source, target := p.archive, p.at(copyAt)
	for _, side := range []*store.Config{&source, &target} {
		side.Recipients, side.Identities = nil, ""
	}
	_, err := copier.Copy(p.t.Context(), copier.Config{Source: openStore(p.t, source), Target: openStore(p.t, target), Now: time.Now(), Log: logOf(p.t)})
	NewWithT(p.t).Expect(err).NotTo(HaveOccurred())
}

// moved puts the objects of the archive into the bucket as any other tool does.
func (p places) moved() {
	p.t.Helper()
	to := filepath.Join(p.server.dir, bucket, filepath.FromSlash(movedAt))
	NewWithT(p.t).Expect(os.CopyFS(to, os.DirFS(filepath.Join(p.archive.Container, p.archive.Prefix)))).To(Succeed())
}

// A cluster goes back to what is at another prefix of its bucket, where snapshots are signed, encrypted, or both. A CopyBackups signs for the new
// prefix, and needs no identity. What another tool has put there restores if it is only encrypted, which binds no prefix; a signature binds one. What
// is plain, or for others, or signed by others, is refused as among the own snapshots.
func TestRestoreFromAProtectedCopy(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]struct{ signed, encrypted bool }{"signed": {true, false}, "encrypted": {false, true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			p := places{t: t, archive: store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "archive"}, server: startS3(t)}
			p.own = p.server.config(secret)
			identity, recipient := encryptiontest.Identity(t)
			keys := signaturetest.Keys(t)
			for _, c := range []*store.Config{&p.archive, &p.own} {
				if kind.signed {
					c.SigningKeys = keys
				}
				if kind.encrypted {
					c.Recipients, c.Identities = []string{recipient}, encryptiontest.Folder(t, identity)
				}
			}
			theirs := startEtcd(t, filepath.Join(t.TempDir(), "theirs"))
			put(g, theirs, "theirs", 20)
			r := run(t, theirs, openStore(t, p.archive), options())
			r.begin(g)
			put(g, theirs, "theirs", 20)
			_, want := world(g, theirs)
			wanted := takenDelta(g, r).LastRevision
			put(g, theirs, "later", 5)
			last := takenDelta(g, r)
			r.stop()
			ours := startEtcd(t, filepath.Join(t.TempDir(), "ours"))
			put(g, ours, "ours", 5)
			r = run(t, ours, openStore(t, p.own), options())
			end := r.begin(g)
			r.stop()
			target := backup.Target{Revision: wanted}
			restores := func(from store.Config) {
				t.Helper()
				found := p.preview(target, from)
				g.Expect(found.Refused).To(BeNil())
				g.Expect(found.End).To(HaveValue(HaveField("Revision", end.LastRevision)), "compared with the own newest state")
				g.Expect(found.FromTaken).To(BeTemporally("==", last.Created))
				dir, err := restorePoint(t, openStore(t, from), pointOf(found), raise)
				g.Expect(err).NotTo(HaveOccurred())
				_, got := world(g, startEtcd(t, dir))
				g.Expect(got).To(Equal(want))
			}
			refuses := func(from store.Config, code backup.RefusalCode, says string) {
				t.Helper()
				refused := p.preview(target, from).Refused
				g.Expect(refused).To(HaveValue(And(HaveField("Code", code), HaveField("Message", ContainSubstring(says)))))
			}

			p.copied()
			restores(p.at(copyAt))
			p.moved()
			if kind.signed {
				refuses(p.at(movedAt), backup.NotTrusted, `it was signed for prefix "archive"`)
				others := p.at(copyAt)
				others.SigningKeys = signaturetest.Keys(t)
				refuses(others, backup.NotTrusted, "is refused")
			} else {
				restores(p.at(movedAt))
			}
			if kind.encrypted {
				others, another := p.at(copyAt), p.at(copyAt)
				others.Identities = ""
				refuses(others, backup.Locked, "identitySecretRef")
				stranger, _ := encryptiontest.Identity(t)
				another.Identities = encryptiontest.Folder(t, stranger)
				refuses(another, backup.Locked, "for others than")
			}

			// A cluster whose snapshots were neither signed nor encrypted.
			bare := p.at(bareAt)
			bare.SigningKeys, bare.Recipients, bare.Identities = "", nil, ""
			r = run(t, theirs, openStore(t, bare), options())
			g.Expect(r.begin(g).LastRevision).To(BeNumerically(">=", last.LastRevision))
			r.stop()
			target = backup.Target{Latest: true}
			plain := p.at(bareAt)
			if kind.signed {
				refuses(plain, backup.NotTrusted, "it is not signed")
			} else {
				refuses(plain, backup.NotTrusted, "it is not encrypted")
				plain.PlainUntil = time.Now().Add(time.Hour) // acceptPlainUntil of the Etcd
				g.Expect(p.preview(target, plain).Refused).To(BeNil())
			}
		})
	}
}
