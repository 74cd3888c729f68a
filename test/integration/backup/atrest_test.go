// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// What a snapshot of a real etcd has by prefix is what was written: after a compaction, only the revisions that it left.
func TestAtRest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	ctx := t.Context()
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	value := strings.Repeat("v", 1000)
	write := func(prefix string, keys, times int) {
		for range times {
			for i := range keys {
				_, err := e.Put(ctx, fmt.Sprintf("%s/ns/%02d", prefix, i), value)
				g.Expect(err).NotTo(HaveOccurred())
			}
		}
	}
	write("/registry/events", 50, 4)
	write("/registry/pods", 20, 1)
	write("/registry/leases", 3, 2)
	_, err := e.Delete(ctx, "/registry/events/ns/1", clientv3.WithPrefix())
	g.Expect(err).NotTo(HaveOccurred())
	s := folder(t)
	r := run(t, e, s, options())
	full := r.begin(g)
	got, err := restore.ReadAtRest(ctx, restore.AtRestConfig{Store: s, WorkDir: t.TempDir(), Log: logOf(t)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Snapshot).To(Equal(full.Name()))
	of := func(prefix string, keys, revisions, deletions int) backup.PrefixSizes {
		key := int64(len(prefix) + len("/ns/00"))
		size := key + int64(len(value))
		if prefix == "…" {
			size = int64(len("/registry/leases/ns/00")) + int64(len(value))
		}
		sizes := backup.Sizes{Keys: int64(keys), Bytes: int64(keys) * size, Largest: size, Revisions: int64(revisions), Deletions: int64(deletions)}
		sizes.Stored = int64(revisions)*size + int64(deletions)*key
		if prefix != "…" {
			prefix += "/…"
		}
		return backup.PrefixSizes{Prefix: prefix, Sizes: sizes}
	}
	g.Expect(got.Prefixes).To(Equal([]backup.PrefixSizes{of("/registry/events", 40, 200, 10), of("/registry/pods", 20, 20, 0), of("…", 3, 6, 0)}))

	now, err := e.Get(ctx, "x")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = e.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	g.Expect(err).NotTo(HaveOccurred())
	r.stop()
	second := folder(t)
	run(t, e, second, options()).begin(g)
	got, err = restore.ReadAtRest(ctx, restore.AtRestConfig{Store: second, WorkDir: t.TempDir(), Log: logOf(t)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Prefixes[0].Sizes).To(And(HaveField("Keys", BeEquivalentTo(40)), HaveField("Revisions", BeEquivalentTo(40))))
	g.Expect(got.Keys).To(BeEquivalentTo(63))
}
