// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
)

// record is the lease that the members share.
type record struct {
	clusterID string
	err       error
}

// member returns what the agent of a member knows, which has a note.
func (r *record) member(t *testing.T, note string) (m Restored, file string) {
	shared := member.Shared{Config: map[string]any{"data-dir": filepath.Join(t.TempDir(), "data")}}
	file = shared.RestoredFile()
	if note != "" {
		if err := os.WriteFile(file, []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Restored{
		Log: logr.Discard(), Shared: func() (member.Shared, error) { return shared, nil },
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
		m, _ := (&record{}).member(t, "")
		g.Expect(m.NeedsFull(ctx)).To(BeFalse())
		m.Took(ctx)
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
	})
	t.Run("the volume cannot be read", func(t *testing.T) {
		g := NewWithT(t)
		m, file := (&record{}).member(t, "")
		g.Expect(os.Mkdir(file, 0o700)).To(Succeed())
		g.Expect(m.NeedsFull(ctx)).To(BeTrue())
		m.Took(ctx)
		g.Expect(m.NeedsFull(ctx)).To(BeTrue())
		m.Shared = func() (member.Shared, error) { return member.Shared{}, os.ErrPermission }
		g.Expect(m.NeedsFull(ctx)).To(BeTrue())
	})
}
