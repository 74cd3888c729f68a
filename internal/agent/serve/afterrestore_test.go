// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
)

// record is the lease that the members share.
type record struct {
	clusterID string
	err       error
	logged    []string
}

// log returns a log that is kept.
func (r *record) log() logr.Logger {
	return funcr.New(func(_, args string) { r.logged = append(r.logged, args) }, funcr.Options{})
}

// member returns what the agent of a member knows, which has a note.
func (r *record) member(t *testing.T, note string) (m AfterRestore, file string) {
	shared := member.Shared{Config: map[string]any{"data-dir": filepath.Join(t.TempDir(), "data")}}
	file = shared.RestoreNoteFile()
	if note != "" {
		if err := os.WriteFile(file, []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return AfterRestore{
		Log: r.log(), Shared: func() (member.Shared, error) { return shared, nil },
		Recorded: func(context.Context) (string, error) { return r.clusterID, r.err },
		Record: func(_ context.Context, id string) error {
			if r.err == nil {
				r.clusterID = id
			}
			return r.err
		},
	}, file
}

// A full snapshot is needed until one was taken: by this member after a restore, by any member after a recovery.
func TestFullSnapshotAfterARestore(t *testing.T) {
	ctx := t.Context()
	t.Run("neither", func(t *testing.T) {
		g := NewWithT(t)
		lease := &record{}
		m, _ := lease.member(t, "")
		g.Expect(m.NeedsFull(ctx)).To(BeFalse())
		m.Took(ctx)
		g.Expect(lease.logged).To(BeEmpty())
	})
	t.Run("restored", func(t *testing.T) {
		g := NewWithT(t)
		lease := &record{clusterID: "a1"}
		m, file := lease.member(t, "restored")
		g.Expect(m.NeedsFull(ctx)).To(BeTrue())
		g.Expect(m.NeedsFull(ctx)).To(BeTrue(), "asking does not settle it")
		m.Took(ctx)
		g.Expect(m.NeedsFull(ctx)).To(BeFalse())
		g.Expect(file).NotTo(BeAnExistingFile())
		g.Expect(lease.clusterID).To(Equal("a1"), "it has no new ID")
	})
	t.Run("recovered", func(t *testing.T) {
		g := NewWithT(t)
		lease := &record{clusterID: "a1"}
		chosen, _ := lease.member(t, "restored b2")
		second, file := lease.member(t, "recovered b2")
		g.Expect(second.NeedsFull(ctx)).To(BeTrue(), "that of an earlier recovery is not it")
		g.Expect(chosen.NeedsFull(ctx)).To(BeTrue())
		chosen.Took(ctx)
		g.Expect(lease.clusterID).To(Equal("b2"))
		g.Expect(chosen.NeedsFull(ctx)).To(BeFalse())
		g.Expect(second.NeedsFull(ctx)).To(BeFalse(), "another member took it")
		g.Expect(file).NotTo(BeAnExistingFile())
		g.Expect(lease.logged).To(HaveExactElements(ContainSubstring("Another member has taken")))
		again, _ := lease.member(t, "restored b2")
		g.Expect(again.NeedsFull(ctx)).To(BeTrue(), "it was restored once more")
	})
	t.Run("the API server does not answer", func(t *testing.T) {
		g := NewWithT(t)
		lease := &record{clusterID: "b2", err: errors.New("timeout")}
		m, _ := lease.member(t, "recovered b2")
		g.Expect(m.NeedsFull(ctx)).To(BeTrue())
		m.Took(ctx)
		g.Expect(m.NeedsFull(ctx)).To(BeFalse(), "its own snapshot counts")
		g.Expect(lease.logged).To(HaveExactElements(ContainSubstring("Reading which full snapshot"), ContainSubstring("Recording the full snapshot")))
	})
	t.Run("the volume cannot be read", func(t *testing.T) {
		g := NewWithT(t)
		lease := &record{clusterID: "b2"}
		m, file := lease.member(t, "")
		g.Expect(os.Mkdir(file, 0o700)).To(Succeed())
		g.Expect(m.NeedsFull(ctx)).To(BeTrue())
		m.Took(ctx)
		g.Expect(m.NeedsFull(ctx)).To(BeTrue())
		g.Expect(lease.logged).To(HaveEach(ContainSubstring("whether the member was restored")))
		g.Expect(lease.logged).To(HaveLen(2))
		m.Shared = func() (member.Shared, error) { return member.Shared{}, os.ErrPermission }
		g.Expect(m.NeedsFull(ctx)).To(BeTrue())
		m.Took(ctx)
		g.Expect(lease.logged).To(HaveLen(3))
	})
}

// A note that cannot be removed is logged.
func TestANoteThatStays(t *testing.T) {
	g := NewWithT(t)
	lease := &record{}
	m, file := lease.member(t, "")
	m.remove(file)
	g.Expect(lease.logged).To(HaveExactElements(ContainSubstring("Removing the note")))
}

// The ID of the recovered cluster is in the lease of full snapshots.
func TestRecoveredCluster(t *testing.T) {
	g := NewWithT(t)
	answer := func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/coordination.k8s.io/v1/namespaces/n/leases/full" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		answer(w)
	}))
	defer server.Close()
	recorded, err := RecoveredCluster(&rest.Config{Host: server.URL}, "n", "full")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = recorded(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("reading lease n/full: ")))
	answer = func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"annotations": {"druid.gardener.cloud/backup-of-recovered-cluster": "b2"}}}`))
	}
	g.Expect(recorded(t.Context())).To(Equal("b2"))
	_, err = RecoveredCluster(&rest.Config{Host: "http://%"}, "n", "full")
	g.Expect(err).To(MatchError(ContainSubstring("making a client for leases")))
}
