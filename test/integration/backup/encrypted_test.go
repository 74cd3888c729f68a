// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

// The backups of a cluster are encrypted while it runs: they restore, to the newest state and to earlier ones, by what has the identity; they are
// compacted and copied; a recipient is exchanged; and encryption is switched off again. Without the identity, everything says so and
// stays.
func TestEncryptedSnapshots(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T) store.Config{
		"folder": func(t *testing.T) store.Config {
			return store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: prefix}
		},
		"S3, signed": func(t *testing.T) store.Config {
			config := startS3(t).config(secret)
			config.SigningKeys = signaturetest.Keys(t)
			return config
		},
	} {
		t.Run(name, func(t *testing.T) {
			g, ctx := NewWithT(t), t.Context()
			config := begin(t)
			e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
			put(g, e, "k", 20)
			plain := run(t, e, openStore(t, config), options())
			plain.begin(g)
			plain.stop()

			identity, recipient := encryptiontest.Identity(t)
			config.Recipients, config.Identities = []string{recipient}, encryptiontest.Folder(t, identity)
			s := openStore(t, config)
			r := run(t, e, s, options())
			r.begin(g)
			put(g, e, "d", 20)
			delta := takenDelta(g, r)
			put(g, e, "d", 20)
			g.Expect(takenDelta(g, r).Name()).To(ContainSubstring(".age.gz"))
			g.Expect(r.Healthy()).To(Succeed())
			r.stop()
			restoresTo(t, g, e, s)

			// Going back, and the automatic restore of a single member, which may lack what was written last.
			p := previewed(t, s, backup.Target{Revision: delta.LastRevision - 3})
			g.Expect(p.Refused).To(BeNil())
			_, err := restorePoint(t, s, pointOf(p), 1000)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = restore.Restore(ctx, restore.Config{
				Store: s, DataDir: filepath.Join(t.TempDir(), "new.etcd"), Member: memberName, PeerURL: peerURL,
				InitialCluster: memberName + "=" + peerURL, Token: "token", Behind: true, Log: logOf(t),
			})
			g.Expect(err).NotTo(HaveOccurred())

			withoutIdentity(t, config)

			// A compaction is encrypted as well, and deltas continue it.
			_, err = restore.Compact(ctx, restore.CompactConfig{Store: s, WorkDir: t.TempDir(), Compression: backup.None, Log: logOf(t)})
			g.Expect(err).NotTo(HaveOccurred())
			r = run(t, e, s, options())
			put(g, e, "after", 5)
			g.Expect(takenDelta(g, r).Kind).To(Equal(backup.Delta))
			r.stop()
			restoresTo(t, g, e, s)

			// A recipient is added, and later the first one is removed with its identity: the first full snapshot after that is for the new one.
			newIdentity, added := encryptiontest.Identity(t)
			config.Recipients, config.Identities = []string{recipient, added}, encryptiontest.Folder(t, identity, newIdentity)
			r = run(t, e, openStore(t, config), options())
			put(g, e, "both", 5)
			g.Expect(takenDelta(g, r).Kind).To(Equal(backup.Delta))
			r.stop()
			restoresTo(t, g, e, openStore(t, config))
			config.Recipients, config.Identities = []string{added}, encryptiontest.Folder(t, newIdentity)
			_, err = restoreTo(t, openStore(t, config), filepath.Join(t.TempDir(), "new.etcd"))
			g.Expect(err).To(MatchError(ContainSubstring("for others than")))
			s = openStore(t, config)
			run(t, e, s, options()).begin(g)
			restoresTo(t, g, e, s)

			// Off: plain deltas follow encrypted snapshots as long as they can be read.
			config.Recipients = nil
			r = run(t, e, openStore(t, config), options())
			put(g, e, "plain", 5)
			last := takenDelta(g, r)
			g.Expect([]any{last.Kind, last.Encrypted}).To(Equal([]any{backup.Delta, false}))
			r.stop()
			restoresTo(t, g, e, openStore(t, config))
			config.Identities = ""
			r = run(t, e, openStore(t, config), options())
			r.begin(g)
			restoresTo(t, g, e, openStore(t, config))
		})
	}
}

// takenDelta takes a delta as soon as requests are accepted.
func takenDelta(g Gomega, r *snapshots) (delta *backup.Snapshot) {
	g.Eventually(func() (err error) { delta, err = r.Delta(context.Background()); return err }).WithTimeout(machine.Patience()).Should(Succeed())
	return delta
}

// withoutIdentity asserts that a store whose snapshots cannot be decrypted says so and loses nothing, and that a copy of it needs no key.
func withoutIdentity(t *testing.T, config store.Config) {
	t.Helper()
	keys, recipients, identities := config.SigningKeys, config.Recipients, config.Identities
	config.Identities = ""
	blind := openStore(t, config)
	g, ctx := NewWithT(t), t.Context()
	before, err := blind.List(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	dir := filepath.Join(t.TempDir(), "new.etcd")
	_, err = restoreTo(t, blind, dir)
	_, locked := errors.AsType[*backup.LockedError](err)
	g.Expect(locked).To(BeTrue(), "%v", err)
	g.Expect(dir).NotTo(BeADirectory())
	_, err = restore.Compact(ctx, restore.CompactConfig{Store: blind, WorkDir: t.TempDir(), Compression: backup.None, Log: logOf(t)})
	_, locked = errors.AsType[*backup.LockedError](err)
	g.Expect(locked).To(BeTrue(), "%v", err)
	refused := previewed(t, blind, backup.Target{Latest: true}).Refused
	g.Expect(refused).To(HaveValue(HaveField("Code", backup.Locked)))
	g.Expect(refused.Message).To(ContainSubstring("identitySecretRef"))

	// The copy holds what the original does. That of signed snapshots needs the keys that sign, and no other.
	config = store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "other/prefix", SigningKeys: keys}
	for want := range 2 {
		copied, err := copier.Copy(ctx, copier.Config{Source: blind, Target: openStore(t, config), Now: time.Now(), Log: logOf(t)})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(copied.Copied == 0).To(Equal(want == 1), "once")
	}
	config.Recipients, config.Identities = recipients, identities
	_, err = restoreTo(t, openStore(t, config), dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(blind.List(ctx)).To(Equal(before))
}
