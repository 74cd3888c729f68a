// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// keeps writes a snapshot into a store.
func keeps(t *testing.T, in store.Config, s backup.Snapshot) {
	g := NewWithT(t)
	to, err := store.Open(t.Context(), in)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = to.Close() }()
	s.Created, s.Compression = noon, backup.None
	_, err = to.Write(t.Context(), s, func(w io.Writer) error { _, err := io.WriteString(w, "content"); return err })
	g.Expect(err).NotTo(HaveOccurred())
}

// There is a backup once there is a full snapshot, whether or not it can be used.
func TestBackupsExist(t *testing.T) {
	g := NewWithT(t)
	b := StoredBackups{Config: store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"}, Log: testr.New(t)}
	exist := func() bool {
		is, err := b.Exist(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		return is
	}
	g.Expect(exist()).To(BeFalse())
	keeps(t, b.Config, backup.Snapshot{Kind: backup.Delta, StartRevision: 9, LastRevision: 9})
	g.Expect(exist()).To(BeFalse(), "a delta alone is none")
	keeps(t, b.Config, backup.Snapshot{Kind: backup.Full, LastRevision: 5})
	g.Expect(exist()).To(BeTrue())
	keys := signaturetest.Keys(t)
	b.Config.SigningKeys = keys
	g.Expect(exist()).To(BeTrue(), "it is not signed, which the restore reports")
	b.Config.SigningKeys = filepath.Join(keys, "missing")
	for _, b.Config.Provider = range []string{"unknown", store.Local} {
		is, err := b.Exist(t.Context())
		g.Expect(err).To(HaveOccurred())
		g.Expect(is).To(BeFalse())
	}
}

// What a store that gives no list has is unknown: a member that took it for empty would begin a cluster beside its backups.
func TestBackupsThatCannotBeListed(t *testing.T) {
	g := NewWithT(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(server.Close)
	credentials := t.TempDir()
	for key, value := range map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "c", "endpoint": server.URL, "s3ForcePathStyle": "true"} {
		g.Expect(os.WriteFile(filepath.Join(credentials, key), []byte(value), 0o600)).To(Succeed())
	}
	is, err := StoredBackups{Config: store.Config{Provider: store.S3, Container: "bucket", Credentials: credentials}, Log: testr.New(t)}.Exist(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("answered 403")))
	g.Expect(is).To(BeFalse())
}

// A restore that is refused says what a person can do: accept what is not signed, or what is older than recorded.
func TestRestoresThatAreRefused(t *testing.T) {
	unsigned := store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"}
	keeps(t, unsigned, backup.Snapshot{Kind: backup.Full, LastRevision: 5})
	signed := unsigned
	signed.SigningKeys = signaturetest.Keys(t)
	older := store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a", SigningKeys: signed.SigningKeys}
	keeps(t, older, backup.Snapshot{Kind: backup.Full, LastRevision: 5})
	_, recipient := encryptiontest.Identity(t)
	encrypted, sealed := unsigned, unsigned
	encrypted.Recipients = []string{recipient}
	sealed.Container, sealed.Recipients = t.TempDir(), encrypted.Recipients
	keeps(t, sealed, backup.Snapshot{Kind: backup.Full, LastRevision: 5})
	record := func(revision int64, err error) func(context.Context) (backup.Record, error) {
		return func(context.Context) (backup.Record, error) { return backup.Record{Revision: revision}, err }
	}
	for name, c := range map[string]struct {
		in       store.Config
		recorded func(context.Context) (backup.Record, error)
		accept   *member.Acceptance
		says     string
	}{
		"no store":                   {store.Config{Provider: "unknown"}, nil, nil, "opening the store"},
		"not signed":                 {signed, nil, nil, "acceptUnsignedUntil of the Etcd to the time of the last one (this one: 2026-01-01T12:00:00Z)"},
		"accepted, and no snapshot":  {signed, nil, &member.Acceptance{UnsignedUntil: "2026-01-01T12:00:00Z"}, "is corrupt"},
		"accepted, but illegible":    {signed, nil, &member.Acceptance{UnsignedUntil: "noon"}, "reading what the restore may use without a signature"},
		"older than recorded":        {older, record(7, nil), nil, "acceptRevision of the Etcd to 5"},
		"older, which is accepted":   {older, record(7, nil), &member.Acceptance{Revision: 5}, "is corrupt"},
		"what is recorded is hidden": {older, record(0, errors.New("forbidden")), nil, "reading which snapshot must be restored at least: forbidden"},
		"nothing needs to be signed": {unsigned, record(5, nil), nil, "is corrupt"},
		"unsigned, and older":        {unsigned, record(7, nil), nil, "lose what was written since, accept it: kubectl annotate lease a b=5"},
		"unsigned, and too old":      {unsigned, record(7, nil), nil, "what is to be restored must reach revision 6"},
		"unsigned, and hidden":       {unsigned, record(0, errors.New("forbidden")), nil, "reading which snapshot must be restored at least: forbidden"},
		"not encrypted":              {encrypted, nil, nil, "encryption.acceptPlainUntil of the Etcd to the time of the last one (this one: 2026-01-01T12:00:00Z)"},
		"accepted plain ones":        {encrypted, nil, &member.Acceptance{PlainUntil: "2026-01-01T12:00:00Z"}, "is corrupt"},
		"accepted, and no time":      {encrypted, nil, &member.Acceptance{PlainUntil: "noon"}, "reading what the restore may use that is not encrypted"},
		"no identity":                {sealed, nil, nil, "is encrypted and cannot be read here"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			shared := sharedIn(t.TempDir())
			shared.Accept, shared.Bootstrap = c.accept, map[string]any{"initial-cluster": "m-0=http://m-0:2380", "initial-cluster-token": "uid"}
			if strings.Contains(name, "too old") {
				shared.Revision = 6
			}
			var logged []string
			log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
			err := StoredBackups{Config: c.in, Recorded: c.recorded, Accept: "kubectl annotate lease a b=", Log: log}.Restore(t.Context(), shared, member.Identity{Name: "m-0", PeerURL: "http://m-0:2380"})
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			g.Expect(shared.DataDir()).NotTo(BeADirectory())
			said := strings.Contains(strings.Join(logged, "\n"), "The restore may use what is not verified")
			g.Expect(said).To(Equal(c.in.SigningKeys != "" && strings.Contains(name, "accepted") && !strings.Contains(name, "illegible")))
		})
	}
	NewWithT(t).Expect(StoredBackups{}.remedy(errors.New("no space"), 0)).To(BeEmpty())
	NewWithT(t).Expect(StoredBackups{}.remedy(&backup.UntrustedError{Name: "illegible"}, 0)).To(ContainSubstring("(this one: )"))
}

// A person goes back to what is at another prefix, in the same container: what is among the own snapshots does not count.
func TestRestoreFromAnotherPrefix(t *testing.T) {
	g := NewWithT(t)
	own := store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "own"}
	other := own
	other.Prefix = "other"
	base := backup.Snapshot{Kind: backup.Full, LastRevision: 5}
	keeps(t, other, base)
	from, err := store.Open(t.Context(), other)
	g.Expect(err).NotTo(HaveOccurred())
	there, err := from.List(t.Context())
	g.Expect(errors.Join(err, from.Close())).To(Succeed())
	restores := func(prefix string) error {
		shared := sharedIn(t.TempDir())
		shared.Bootstrap = map[string]any{"initial-cluster": "m-0=http://m-0:2380", "initial-cluster-token": "uid"}
		shared.Recovery = &member.Recovery{Task: "task", Source: member.RecoverFromPoint, Restore: &member.RestorePoint{Base: there[0].Name(), Prefix: prefix, Revision: 5, Bump: 1}}
		return StoredBackups{Config: own, Log: testr.New(t)}.Restore(t.Context(), shared, member.Identity{Name: "m-0", PeerURL: "http://m-0:2380"})
	}
	g.Expect(restores("other")).To(MatchError(ContainSubstring("is corrupt")), "it is found")
	g.Expect(restores("")).To(MatchError(ContainSubstring("looking for revision 5")))
}

// Without a record of where the cluster begins, no data is made of a backup, nor of the data of a member.
func TestNothingBeginsWithoutARecord(t *testing.T) {
	g := NewWithT(t)
	away := func(context.Context, string, func(int64, bool) int64) (int64, error) {
		return 0, errors.New("no API server")
	}
	in := store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"}
	keeps(t, in, backup.Snapshot{Kind: backup.Full, LastRevision: 5})
	shared := sharedIn(t.TempDir())
	shared.Bootstrap = map[string]any{"initial-cluster": "m-0=http://m-0:2380", "initial-cluster-token": "uid"}
	err := StoredBackups{Config: in, Begins: away, Log: testr.New(t)}.Restore(t.Context(), shared, member.Identity{Name: "m-0", PeerURL: "http://m-0:2380"})
	g.Expect(err).To(MatchError(ContainSubstring("recording at which revision the cluster begins, above which a later restore has to begin: no API server")))
	g.Expect(shared.DataDir()).NotTo(BeADirectory())
	p := &preparation{shared: shared, Options: Options{Begins: away}}
	p.shared.Recovery = &member.Recovery{}
	g.Expect(p.rebuildConfig().Begins.Check(t.Context())).To(MatchError(ContainSubstring("no API server")))
}
