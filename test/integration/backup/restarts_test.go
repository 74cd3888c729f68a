// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/store"
	. "github.com/onsi/gomega"
)

// fullsIn returns the number of full snapshots in a store.
func fullsIn(t *testing.T, s *store.Store) (fulls int) {
	t.Helper()
	list, err := s.List(t.Context())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, snapshot := range list {
		if snapshot.Kind == backup.Full {
			fulls++
		}
	}
	return fulls
}

func TestRestartsAfterARestoreTakeOneFullSnapshot(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	e, s := startEtcd(t, filepath.Join(t.TempDir(), "data")), folder(t)
	put(g, e, "k", 10)
	r := run(t, e, s, options())
	r.begin(g)
	r.stop()
	again, _ := restored(t, s)
	before := fullsIn(t, s)
	for range 9 {
		r := run(t, again, s, options(), func(c *snapshotter.Config) { c.FullFirst = true })
		g.Eventually(func() error { _, err := r.Delta(t.Context()); return err }).WithTimeout(patience).Should(Succeed())
		r.stop()
	}
	g.Expect(fullsIn(t, s)).To(Equal(before + 1))
}
