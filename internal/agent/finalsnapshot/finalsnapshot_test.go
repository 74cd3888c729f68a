// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package finalsnapshot

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir/datadirtest"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
)

// lastRevision of the data: etcd's first revision is 1, and each of three puts takes one.
const lastRevision = 4

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// trial is a stopped member of cluster cafe, whose data is in its log alone, before a store.
type trial struct {
	*WithT
	t      *testing.T
	config Config
}

func newTrial(t *testing.T, signed bool) *trial {
	r := &trial{WithT: NewWithT(t), t: t}
	to := store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "ns/main"}
	if signed {
		to.SigningKeys = signaturetest.Keys(t)
	}
	r.config = Config{
		Store: r.open(to), DataDir: filepath.Join(t.TempDir(), "new.etcd"), ClusterID: "cafe", WorkDir: t.TempDir(), Compression: backup.Gzip,
		Clock: hooked{func() {}}, Log: testr.New(t),
	}
	datadirtest.Write(t, r.config.DataDir, 3, datadirtest.Put("a", "1", 0), datadirtest.Put("b", "2", 0), datadirtest.Put("c", "3", 0))
	return r
}

func (r *trial) open(to store.Config) *store.Store {
	s, err := store.Open(r.t.Context(), to)
	r.Expect(err).NotTo(HaveOccurred())
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// taken adds a snapshot, some minutes before noon, or after it.
func (r *trial) taken(to *store.Store, kind backup.Kind, from, last int64, minutes time.Duration) backup.Snapshot {
	s, err := to.Write(r.t.Context(), backup.Snapshot{
		Kind: kind, StartRevision: from, LastRevision: last, Created: noon.Add(minutes * time.Minute), Compression: backup.None,
	}, func(w io.Writer) error { _, err := io.WriteString(w, "content"); return err })
	r.Expect(err).NotTo(HaveOccurred())
	return s
}

func (r *trial) stored() (names []string) {
	list, err := r.config.Store.List(r.t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	for _, s := range list {
		names = append(names, s.Name())
	}
	return names
}

// hooked is a clock at noon. Its hook is called after the store was listed, and before the snapshot is written.
type hooked struct{ hook func() }

func (h hooked) Now() time.Time                  { h.hook(); return noon }
func (h hooked) Since(t time.Time) time.Duration { return noon.Sub(t) }

// All that the member has is in one full snapshot, which a restore would start with. Neither the member's data nor the folder to work in is
// another afterwards, also after an interruption.
func TestTake(t *testing.T) {
	for name, signed := range map[string]bool{"unsigned": false, "signed": true} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, signed)
			log := filepath.Join(r.config.DataDir, "member", "wal", "0000000000000000-0000000000000000.wal")
			before, err := os.ReadFile(log)
			r.Expect(err).NotTo(HaveOccurred())
			left := filepath.Join(r.config.WorkDir, "final-snapshot")
			r.Expect(os.MkdirAll(filepath.Join(left, "database.db"), 0o700)).To(Succeed(), "by a run that was killed")

			got, err := Take(t.Context(), r.config)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(got.Name()).To(Equal("Full-00000000-00000004-1767268800.gz.final"))
			r.Expect(got.Size).To(BeNumerically(">", 0))
			r.Expect(got.Proof != nil).To(Equal(signed))
			r.Expect(r.stored()).To(Equal([]string{got.Name()}))
			r.Expect(r.config.Store.Verify(t.Context(), got)).To(Succeed())
			r.Expect(os.ReadFile(log)).To(Equal(before))
			r.Expect(os.ReadDir(r.config.WorkDir)).To(BeEmpty())

			again, err := Take(t.Context(), r.config)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(again.Created).To(Equal(got.Created.Add(time.Second)), "it is newer, also within one second")
			r.config.ClusterID = "beef"
			_, err = Take(t.Context(), r.config)
			r.Expect(err).To(MatchError(And(ContainSubstring("copying the data of the member: "), ContainSubstring("not of cluster beef"))))
			r.Expect(r.stored()).To(HaveLen(2))
			r.Expect(os.ReadDir(r.config.WorkDir)).To(BeEmpty())
		})
	}
}

// An encrypted snapshot is read back, so nothing is taken that only people could read, and nothing is left of what the identity does not
// read: the volumes are kept then.
func TestTakeEncrypted(t *testing.T) {
	identity, recipient := encryptiontest.Identity(t)
	r := newTrial(t, false)
	to := store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "ns/main", Recipients: []string{recipient}}
	for identities, says := range map[string]string{"": "or keep the volumes", encryptiontest.Folder(t): "is encrypted and cannot be read here"} {
		to.Identities = identities
		r.config.Store = r.open(to)
		_, err := Take(t.Context(), r.config)
		r.Expect(err).To(MatchError(ContainSubstring(says)))
		r.Expect(r.stored()).To(BeEmpty())
	}
	to.Identities = encryptiontest.Folder(t, identity)
	r.config.Store = r.open(to)
	got, err := Take(t.Context(), r.config)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(r.stored()).To(Equal([]string{got.Name()}))
	r.Expect(got.Name()).To(HaveSuffix(".age.gz.final"))
}

// A member that has less than a restore would reach is not the most advanced one. What no restore can use does not count.
func TestTakeFromAMemberThatLags(t *testing.T) {
	for name, tc := range map[string]struct {
		signed bool
		store  func(r *trial)
		// created is when the snapshot was taken, in minutes after noon.
		created time.Duration
		fails   string
	}{
		"the store has as much": {store: func(r *trial) {
			r.taken(r.config.Store, backup.Full, 0, 2, -2)
			r.taken(r.config.Store, backup.Delta, 3, lastRevision, -1)
		}},
		"the store has more": {store: func(r *trial) {
			r.taken(r.config.Store, backup.Full, 0, 2, -2)
			r.taken(r.config.Store, backup.Delta, 3, lastRevision+1, -1)
		}, fails: "ends at revision 4, but the snapshots in "},
		"what the store has more follows a gap": {store: func(r *trial) {
			r.taken(r.config.Store, backup.Full, 0, 2, -2)
			r.taken(r.config.Store, backup.Delta, 4, lastRevision+1, -1)
		}},
		"what the store has more follows a signed delta that is lost": {signed: true, store: func(r *trial) {
			full := r.taken(r.config.Store, backup.Full, 0, 2, -2)
			_, err := r.config.Store.Write(r.t.Context(), backup.Snapshot{
				Kind: backup.Delta, StartRevision: 3, LastRevision: lastRevision + 1, Created: noon.Add(-time.Minute), Compression: backup.None,
				Proof: &backup.Proof{History: full.Proof.History, Predecessor: backup.Reference{Name: "Incr-00000003-00000003-1767268700", SHA256: full.Proof.SHA256}},
			}, func(w io.Writer) error { _, err := io.WriteString(w, "delta"); return err })
			r.Expect(err).NotTo(HaveOccurred())
		}},
		"the store has no full snapshot": {store: func(r *trial) {
			r.taken(r.config.Store, backup.Delta, 3, lastRevision+1, -1)
		}},
		"what the store has more is of an earlier history": {store: func(r *trial) {
			r.taken(r.config.Store, backup.Full, 0, lastRevision+1, -2)
			r.taken(r.config.Store, backup.Full, 0, 2, -1)
		}},
		"it is behind one of a clock that was ahead": {store: func(r *trial) {
			r.taken(r.config.Store, backup.Full, 0, 2, 2)
		}, created: 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, tc.signed)
			tc.store(r)
			before := r.stored()
			got, err := Take(t.Context(), r.config)
			if tc.fails != "" {
				r.Expect(err).To(MatchError(And(ContainSubstring(tc.fails), ContainSubstring("the member lacks data of the cluster"))))
				r.Expect(r.stored()).To(Equal(before))
				return
			}
			r.Expect(err).NotTo(HaveOccurred())
			want := noon
			if tc.created != 0 {
				want = noon.Add(tc.created*time.Minute + time.Second)
			}
			r.Expect(got.Created).To(Equal(want))
		})
	}
}

// Unsigned snapshots in a store that must be signed are neither data that the member lacks, nor do they displace the final snapshot. One that is
// newer would be restored, which is said.
func TestTakeBesideUnsignedSnapshots(t *testing.T) {
	r := newTrial(t, true)
	unsigned := r.unsigned()
	r.taken(unsigned, backup.Full, 0, lastRevision+1, -1)
	got, err := Take(t.Context(), r.config)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(got.LastRevision).To(BeEquivalentTo(lastRevision))

	ahead := r.taken(unsigned, backup.Full, 0, lastRevision, 365*24*60)
	before := r.stored()
	_, err = Take(t.Context(), r.config)
	r.Expect(err).To(MatchError(And(ContainSubstring("verifying the snapshot: "), ContainSubstring(ahead.Name()), ContainSubstring("is refused"))))
	r.Expect(r.stored()).To(Equal(before), "what does not count is not left behind")
}

// unsigned is the same store for a writer without the keys.
func (r *trial) unsigned() *store.Store {
	folder, ok := r.config.Store.File(backup.Snapshot{Kind: backup.Full})
	r.Expect(ok).To(BeTrue())
	container := filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(folder))))
	return r.open(store.Config{Provider: store.Local, Container: container, Prefix: "ns/main"})
}

// The cluster is not hibernated on a snapshot that a restore would not use, or would not use alone: another writer is at work.
func TestTakeBesideAnotherWriter(t *testing.T) {
	for name, other := range map[string]struct {
		kind backup.Kind
		from int64
		says string
	}{
		"a full snapshot":   {backup.Full, 0, "a restore would start with "},
		"a delta":           {backup.Delta, lastRevision + 1, "another writer uses "},
		"a delta too early": {backup.Delta, lastRevision + 3, "revisions 5 to 6 are missing"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, false)
			var theirs backup.Snapshot
			r.config.Clock = hooked{func() { theirs = r.taken(r.config.Store, other.kind, other.from, lastRevision+3, 1) }}
			_, err := Take(t.Context(), r.config)
			r.Expect(err).To(MatchError(And(HavePrefix("verifying the snapshot: "), ContainSubstring(other.says))))
			r.Expect(r.stored()).To(Equal([]string{theirs.Name()}))
		})
	}
}

// Without an answer of the store, or space to work in, nothing is taken.
func TestTakeFails(t *testing.T) {
	r := newTrial(t, false)
	for says, change := range map[string]func(c *Config){
		"removing leftovers of an interrupted snapshot: ": func(c *Config) {
			c.WorkDir = filepath.Join(r.t.TempDir(), "file", "inside")
			r.file(filepath.Dir(c.WorkDir))
		},
		"making a folder for the snapshot: ": func(c *Config) {
			c.WorkDir = filepath.Join(r.t.TempDir(), "link")
			r.Expect(os.Symlink("missing", c.WorkDir)).To(Succeed())
		},
		"reading the signing keys": func(c *Config) {
			keys := signaturetest.Keys(t)
			c.Store = r.open(store.Config{Provider: store.Local, Container: r.t.TempDir(), SigningKeys: keys})
			r.Expect(os.RemoveAll(keys)).To(Succeed())
		},
		"listing the store: ": func(c *Config) {
			container := r.t.TempDir()
			c.Store = r.open(store.Config{Provider: store.Local, Container: container, Prefix: "file"})
			r.file(filepath.Join(container, "file"))
		},
		"copying the data of the member: ": func(c *Config) { c.DataDir = filepath.Join(r.t.TempDir(), "missing") },
	} {
		config := r.config
		change(&config)
		_, err := Take(t.Context(), config)
		r.Expect(err).To(MatchError(HavePrefix(says)))
	}
	r.Expect(r.stored()).To(BeEmpty())
}

func (r *trial) file(path string) { r.Expect(os.WriteFile(path, nil, 0o600)).To(Succeed()) }

// A Job that is stopped while it reads its snapshot back removes it: what was not verified is not left to be the newest.
func TestTakeIsStoppedWhileItVerifies(t *testing.T) {
	r := newTrial(t, false)
	ctx, stop := context.WithCancel(t.Context())
	var written, removed sync.Map
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.Method == http.MethodPut:
			_, _ = io.Copy(io.Discard, q.Body)
			written.Store(path.Base(q.URL.Path), true)
		case q.Method == http.MethodDelete:
			removed.Store(path.Base(q.URL.Path), true)
			w.WriteHeader(http.StatusNoContent)
		case q.Method == http.MethodGet && strings.HasSuffix(q.URL.Path, ".final"):
			stop()
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			_, _ = io.WriteString(w, "<ListBucketResult></ListBucketResult>")
		}
	}))
	t.Cleanup(server.Close)
	credentials := t.TempDir()
	for key, value := range map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "c", "endpoint": server.URL, "s3ForcePathStyle": "true"} {
		r.Expect(os.WriteFile(filepath.Join(credentials, key), []byte(value), 0o600)).To(Succeed())
	}
	r.config.Store = r.open(store.Config{Provider: store.S3, Container: "bucket", Prefix: "a", Credentials: credentials})
	_, err := Take(ctx, r.config)
	r.Expect(err).To(MatchError(context.Canceled))
	const name = "Full-00000000-00000004-1767268800.gz.final"
	for what, objects := range map[string]*sync.Map{"written": &written, "removed": &removed} {
		_, is := objects.Load(name)
		r.Expect(is).To(BeTrue(), what)
	}
}
