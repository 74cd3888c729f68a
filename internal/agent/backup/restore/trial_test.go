// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// trial is a cluster that writes keys, one a minute from noon on, beside a store of its snapshots. Its first revision is 2.
type trial struct {
	*WithT
	t      *testing.T
	store  *store.Store
	config store.Config
	events []backup.Event
	// taken is how many of the events are in snapshots, and last is the newest of these.
	taken int
	last  backup.Snapshot
}

func newTrial(t *testing.T, signed bool) *trial {
	r := &trial{WithT: NewWithT(t), t: t, config: store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "ns/main"}}
	if signed {
		r.config.SigningKeys = signaturetest.Keys(t)
	}
	r.store = r.open(r.config)
	return r
}

func (r *trial) open(config store.Config) *store.Store {
	s, err := store.Open(r.t.Context(), config)
	r.Expect(err).NotTo(HaveOccurred())
	r.t.Cleanup(func() { _ = s.Close() })
	return s
}

// now is when the last event was seen.
func (r *trial) now() time.Time { return noon.Add(time.Duration(len(r.events)) * time.Minute) }

func (r *trial) revision() int64 { return int64(len(r.events)) + 1 }

// put writes keys with values, as in "a=1", and removes those without, as in "a".
func (r *trial) put(changes ...string) {
	for _, change := range changes {
		r.events = append(r.events, backup.Event{})
		e := &r.events[len(r.events)-1]
		e.Time = r.now()
		e.EtcdEvent.Kv.ModRevision = r.revision()
		for i, c := range change {
			if c == '=' {
				e.EtcdEvent.Kv = backup.KeyValue{Key: []byte(change[:i]), Value: []byte(change[i+1:]), ModRevision: r.revision(), CreateRevision: r.revision(), Version: 1}
			}
		}
		if e.EtcdEvent.Kv.Key == nil {
			e.EtcdEvent.Type, e.EtcdEvent.Kv.Key = backup.DeletedKey, []byte(change)
		}
		for _, before := range r.events[:len(r.events)-1] {
			if kv := before.EtcdEvent.Kv; e.EtcdEvent.Type == backup.Put && string(kv.Key) == string(e.EtcdEvent.Kv.Key) {
				e.EtcdEvent.Kv.CreateRevision, e.EtcdEvent.Kv.Version = kv.CreateRevision, kv.Version+1
				if before.EtcdEvent.Type == backup.DeletedKey {
					e.EtcdEvent.Kv.CreateRevision, e.EtcdEvent.Kv.Version = r.revision(), 1
				}
			}
		}
	}
}

// database writes the database of now into a file.
func (r *trial) database(path string) {
	b := backend.NewDefaultBackend(quiet, path)
	schema.NewMembershipBackend(quiet, b).MustCreateBackendBuckets()
	s := mvcc.NewStore(quiet, b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	for _, e := range r.events {
		if e.EtcdEvent.Type == backup.DeletedKey {
			s.DeleteRange(e.EtcdEvent.Kv.Key, nil)
		} else {
			s.Put(e.EtcdEvent.Kv.Key, e.EtcdEvent.Kv.Value, lease.NoLease)
		}
	}
	r.Expect(s.Rev()).To(Equal(r.revision()))
	s.Commit()
	r.Expect(s.Close()).To(Succeed())
	r.Expect(b.Close()).To(Succeed())
}

// full takes a full snapshot.
func (r *trial) full() backup.Snapshot {
	return r.fullOf(r.revision(), nil)
}

// fullOf takes a full snapshot whose name says another revision, after the database was changed.
func (r *trial) fullOf(revision int64, change func(path string)) backup.Snapshot {
	path := filepath.Join(r.t.TempDir(), "db")
	r.database(path)
	if change != nil {
		change(path)
	}
	s := backup.Snapshot{Kind: backup.Full, LastRevision: revision, Created: r.now(), Compression: backup.None}
	s, err := r.store.WriteDatabase(r.t.Context(), path, s)
	r.Expect(err).NotTo(HaveOccurred())
	r.taken, r.last = len(r.events), s
	return s
}

// delta takes a delta snapshot of what was written since the last snapshot.
func (r *trial) delta() backup.Snapshot {
	var buffer backup.DeltaBuffer
	for _, e := range r.events[r.taken:] {
		r.Expect(buffer.Add(e)).To(Succeed())
	}
	first, last := buffer.Revisions()
	return r.write(&buffer, backup.Snapshot{Kind: backup.Delta, StartRevision: first, LastRevision: last, Created: r.now(), Compression: backup.Gzip})
}

func (r *trial) write(buffer *backup.DeltaBuffer, s backup.Snapshot) backup.Snapshot {
	if r.store.Signed() {
		s.Proof = &backup.Proof{History: r.last.Proof.History, Predecessor: r.last.Reference()}
	}
	s, err := r.store.Write(r.t.Context(), s, bufferOf{buffer, s}.write)
	r.Expect(err).NotTo(HaveOccurred())
	r.taken, r.last = len(r.events), s
	return s
}

// path of a snapshot's object.
func (r *trial) path(s backup.Snapshot) string {
	name, ok := r.store.File(s)
	r.Expect(ok).To(BeTrue())
	return name
}

// corrupt changes a byte of a snapshot's object.
func (r *trial) corrupt(s backup.Snapshot) {
	content, err := os.ReadFile(r.path(s))
	r.Expect(err).NotTo(HaveOccurred())
	content[len(content)/2] ^= 1
	r.Expect(os.WriteFile(r.path(s), content, 0o600)).To(Succeed())
}

// into returns the configuration of a restore into a new data directory.
func (r *trial) into() Config {
	return Config{
		Store: r.store, DataDir: filepath.Join(r.t.TempDir(), "new.etcd"), Member: "main-0", PeerURL: "http://main-0:2380",
		InitialCluster: "main-0=http://main-0:2380", Token: "token", Log: testr.New(r.t),
	}
}

// keys returns the present keys of a database, with their values, and its revision.
func (r *trial) keys(path string) (keys map[string]string, revision int64) {
	b := backend.NewDefaultBackend(quiet, path)
	s := mvcc.NewStore(quiet, b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	result, err := s.Range(context.Background(), []byte{0}, []byte{}, mvcc.RangeOptions{})
	r.Expect(err).NotTo(HaveOccurred())
	keys = map[string]string{}
	for _, kv := range result.KVs {
		keys[string(kv.Key)] = fmt.Sprintf("%s %d %d %d", kv.Value, kv.CreateRevision, kv.ModRevision, kv.Version)
	}
	revision = s.Rev()
	r.Expect(s.Close()).To(Succeed())
	r.Expect(b.Close()).To(Succeed())
	return keys, revision
}
