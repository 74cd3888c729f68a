// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	. "github.com/onsi/gomega"
)

// buckets returns stores on real servers of their kind.
var buckets = map[string]func(testing.TB) *store.Store{
	store.S3:  func(t testing.TB) *store.Store { return startS3(t).store() },
	store.GCS: startGCS,
	store.ABS: startABS,
}

func TestObjectsInBuckets(t *testing.T) {
	t.Parallel()
	for name, start := range buckets {
		t.Run(name, func(t *testing.T) { objectsIn(t, start(t)) })
	}
}

func objectsIn(t *testing.T, s *store.Store) {
	g := NewWithT(t)
	ctx := t.Context()
	g.Expect(s.List(ctx)).To(BeEmpty())
	snapshot := backup.Snapshot{Kind: backup.Full, LastRevision: 1, Created: time.Unix(1_700_000_000, 0).UTC(), Compression: backup.None, Prefix: prefix + "/v2"}
	content := make([]byte, 21<<20) // several parts
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	write := func(w io.Writer) error { _, err := w.Write(content); return err }

	failed := errors.New("etcd went away")
	_, err := s.Write(ctx, snapshot, func(w io.Writer) error { return errors.Join(write(w), failed) })
	g.Expect(err).To(MatchError(failed))
	g.Expect(s.List(ctx)).To(BeEmpty(), "no partial object")

	snapshot.Size = int64(len(content))
	g.Expect(s.Write(ctx, snapshot, write)).To(Equal(snapshot))
	g.Expect(s.List(ctx)).To(Equal([]backup.Snapshot{snapshot}))
	r, err := s.Reader(ctx, snapshot)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := io.ReadAll(r)
	g.Expect(errors.Join(err, r.Close())).To(Succeed())
	g.Expect(string(got) == string(content)).To(BeTrue())
	g.Expect(s.Delete(ctx, snapshot)).To(Succeed())
	g.Expect(s.Delete(ctx, snapshot)).To(Succeed())
	g.Expect(s.List(ctx)).To(BeEmpty())
}

func TestCopyIntoBuckets(t *testing.T) {
	t.Parallel()
	for name, start := range buckets {
		t.Run(name, func(t *testing.T) { copiedInto(t, start(t)) })
	}
}

func copiedInto(t *testing.T, target *store.Store) {
	g := NewWithT(t)
	source := folder(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 20)
	r := run(t, e, source, options())
	r.begin(g)
	put(g, e, "k", 20)
	_, err := r.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	result, err := copier.Copy(t.Context(), copier.Config{Source: source, Target: target, Now: time.Now(), Log: logOf(t)})
	g.Expect(err).NotTo(HaveOccurred())
	revision, _ := world(g, e)
	g.Expect(result.LastRevision).To(Equal(revision))
	restoresTo(t, g, e, target)
}
