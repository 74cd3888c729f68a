// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A new cluster begins with one copy, however often that is said, and with no other one; nor do clusters with other tokens count.
func TestBegin(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	kept := filepath.Join(filepath.Dir(dir), keptFolder)
	begun := func(token, copyID string) bool {
		is, err := s.Begun(t.Context(), token, copyID)
		g.Expect(err).NotTo(HaveOccurred())
		return is
	}
	g.Expect(begun("uid-task", "")).To(BeFalse())
	g.Expect(s.Begin(t.Context(), "uid-task", "A")).To(Succeed())
	g.Expect([]bool{begun("uid-task", ""), begun("uid-task", "A"), begun("uid-task", "B"), begun("uid-task", "AA")}).To(Equal([]bool{true, false, true, true}))
	g.Expect(s.Begin(t.Context(), "uid-task", "B")).To(MatchError(ErrBegun))
	g.Expect(filepath.Join(kept, "begun.uid-task.B")).NotTo(BeAnExistingFile(), "the one that has begun is not taken for the second one")
	g.Expect([]bool{begun("uid", ""), begun("uid-tas", ""), begun("uid-task-2", "")}).To(Equal([]bool{false, false, false}))
	g.Expect(s.Begin(t.Context(), "uid-task-2", "B")).To(Succeed(), "another recovery")

	marker := filepath.Join(kept, "begun.uid-task.A")
	before, err := os.Stat(marker)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Begin(t.Context(), "uid-task", "A")).To(Succeed())
	after, err := os.Stat(marker)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.SameFile(before, after)).To(BeTrue(), "it is not written again: a bucket may refuse that")
}

// Markers of clusters keep no snapshot from retention, and are not swept.
func TestMarkersOfClustersStay(t *testing.T) {
	g := NewWithT(t)
	s, _ := local(t)
	database(g, t, s, full(1))
	g.Expect(s.Begin(t.Context(), "uid-task", "A")).To(Succeed())
	list, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list).To(ConsistOf(HaveField("Kept", false)))
	g.Expect(s.Sweep(t.Context(), time.Now().Add(1000*time.Hour))).To(Succeed())
	g.Expect(s.Begun(t.Context(), "uid-task", "")).To(BeTrue())
}

// Of agents that begin a cluster at the same time on several volumes, at most one does.
func TestTwoBegin(t *testing.T) {
	for range 50 {
		g := NewWithT(t)
		s, _ := local(t)
		errs := make([]error, 3)
		var all sync.WaitGroup
		for i := range errs {
			all.Go(func() { errs[i] = s.Begin(t.Context(), "uid-task", string(rune('A'+i))) })
		}
		all.Wait()
		began := 0
		for _, err := range errs {
			if err == nil {
				began++
			} else {
				g.Expect(err).To(MatchError(ErrBegun))
			}
		}
		g.Expect(began).To(BeNumerically("<=", 1))
	}
}

// A store that cannot be read or written does not say that nothing has begun.
func TestBeginWithoutTheStore(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	kept := filepath.Join(filepath.Dir(dir), keptFolder)
	g.Expect(os.MkdirAll(filepath.Dir(kept), 0o750)).To(Succeed())
	g.Expect(os.WriteFile(kept, nil, 0o600)).To(Succeed(), "a file in place of the folder")
	_, err := s.Begun(t.Context(), "uid-task", "")
	g.Expect(err).To(HaveOccurred())
	g.Expect(s.Begin(t.Context(), "uid-task", "A")).To(MatchError(ContainSubstring("marking in Local container")))
}

// A store that can be read and takes no marker says which right is missing, and where.
func TestBeginWhereNothingCanBeWritten(t *testing.T) {
	g := NewWithT(t)
	status := http.StatusForbidden
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, "<ListBucketResult><Name>bucket</Name></ListBucketResult>")
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code></Error>")
	}))
	t.Cleanup(server.Close)
	s, err := Open(t.Context(), bucketAt(t, server.URL))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Begun(t.Context(), "uid-task", "")).To(BeFalse())
	err = s.Begin(t.Context(), "uid-task", "A")
	g.Expect(err).To(MatchError("S3 container bucket, prefix a/b can be read, and refuses the marker that the new cluster begins: let its credentials write objects to a/b/kept/, beside the snapshots. Without the marker a cluster of several members does not begin from the backup, since it could begin twice (S3 container bucket, prefix a/b answered 403 AccessDenied: check the credentials of the store, and that they may list, read, write and delete objects there)"))
	g.Expect(Trouble(err)).To(ContainSubstring("answered 403"))
	status = http.StatusNotImplemented
	g.Expect(s.Begin(t.Context(), "uid-task", "A")).To(MatchError(ContainSubstring("marking in S3 container bucket, prefix a/b that the new cluster begins: ")), "it is no matter of rights")
}
