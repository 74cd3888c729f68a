// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir/datadirtest"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
)

// The data of a member is copied up to the last entry of its log, and is not changed: a second copy, of a member that also
// has a database, has the same result.
func TestCopy(t *testing.T) {
	g := NewWithT(t)
	dir := newMember(t, 3, datadirtest.Put("a", "1", 0), datadirtest.Put("b", "2", 0), datadirtest.Put("a", "3", 0))
	before := content(g, dir)
	copied := func() (Copied, error) {
		return Copy(t.Context(), CopyConfig{DataDir: dir, ClusterID: "cafe", WorkDir: t.TempDir(), Log: testr.New(t)})
	}
	got, err := copied()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Revision).To(Equal(int64(4)))
	g.Expect(got.Replayed).To(Equal(uint64(5)))
	g.Expect(content(g, dir)).To(Equal(before))
	g.Expect(valueIn(g, got.File, "a")).To(Equal("3"))
	g.Expect(valueIn(g, got.File, "b")).To(Equal("2"))

	_, err = Copy(t.Context(), CopyConfig{DataDir: dir, ClusterID: "beef", WorkDir: t.TempDir(), Log: testr.New(t)})
	g.Expect(err).To(MatchError(ContainSubstring("holds data of cluster cafe, not of cluster beef")))
}

func TestCopyOfNothing(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "new.etcd")
	g.Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	_, err := Copy(t.Context(), CopyConfig{DataDir: dir, ClusterID: "cafe", WorkDir: t.TempDir(), Log: testr.New(t)})
	g.Expect(err).To(HaveOccurred())
}
