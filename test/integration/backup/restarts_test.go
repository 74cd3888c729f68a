// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	memberserve "github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
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

// restarts runs the agent of a member a number of times, until it can take deltas, as one in a pod with the note of prepare.
func restarts(t *testing.T, e *etcd, s *store.Store, n memberserve.AfterRestore, times int) {
	t.Helper()
	g := NewWithT(t)
	for range times {
		r := run(t, e, s, options(), func(c *snapshotter.Config) {
			c.FullFirst = n.NeedsFull
			c.OnSnapshot = func(s backup.Snapshot) {
				if s.Kind == backup.Full {
					n.Took(context.Background())
				}
			}
		})
		g.Eventually(func() error { _, err := r.Delta(t.Context()); return err }).WithTimeout(machine.Patience()).Should(Succeed())
		r.stop()
	}
}

// noted returns what the agents of members know that have a note, and share a lease.
func noted(t *testing.T, note string, lease *string) memberserve.AfterRestore {
	t.Helper()
	shared := member.Shared{Config: map[string]any{"data-dir": filepath.Join(t.TempDir(), "data")}}
	NewWithT(t).Expect(os.WriteFile(shared.RestoreNoteFile(), []byte(note), 0o600)).To(Succeed())
	return memberserve.AfterRestore{
		Log: logOf(t), Shared: func() (member.Shared, error) { return shared, nil },
		Recorded: func(context.Context) (string, error) { return *lease, nil },
		Record:   func(_ context.Context, id string) error { *lease = id; return nil },
	}
}

// However often the agent of a restored member restarts, and whichever member of a recovered cluster leads, one full snapshot is taken
// first. What is written later is in deltas that follow it.
func TestRestartsTakeOneFullSnapshot(t *testing.T) {
	t.Parallel()
	for name, notes := range map[string][]string{"restored": {"restored"}, "recovered": {"recovered b2", "recovered b2", "recovered b2"}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			e, s := startEtcd(t, filepath.Join(t.TempDir(), "data")), folder(t)
			put(g, e, "k", 10)
			r := run(t, e, s, options())
			r.begin(g)
			r.stop()
			again, _ := restored(t, s)
			before := fullsIn(t, s)
			lease := "a1"
			var members []memberserve.AfterRestore
			for _, note := range notes {
				members = append(members, noted(t, note, &lease))
			}
			for range 3 {
				for _, m := range members {
					restarts(t, again, s, m, 3)
				}
			}
			g.Expect(fullsIn(t, s)).To(Equal(before + 1))
			put(g, again, "later", 5)
			restarts(t, again, s, members[0], 1)
			g.Expect(fullsIn(t, s)).To(Equal(before + 1))
			restoresTo(t, g, again, s)
		})
	}
}

// The store has deltas that the restored member lacks, of another history, and by the time its agent leads it is at a later revision than
// they are. Nothing but the note shows that they must not be continued. A crash after the snapshot, before the note is removed, costs one
// more.
func TestRebuiltLeaderTakesAFullSnapshotFirst(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := folder(t)
	first := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, first, "k", 10)
	r := run(t, first, s, options())
	full := r.begin(g)
	put(g, first, "of the other history", 10)
	_, err := r.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	r.stop()
	list, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	back := hide(t, s, slices.DeleteFunc(list, func(s backup.Snapshot) bool { return s.Kind == backup.Full }))
	rebuilt, result := restored(t, s)
	g.Expect(result.Revision).To(Equal(full.LastRevision))
	back()
	put(g, rebuilt, "of this one", 30)

	before := fullsIn(t, s)
	lease := ""
	killed := run(t, rebuilt, s, options(), func(c *snapshotter.Config) { c.FullFirst = noted(t, "recovered b2", &lease).NeedsFull })
	g.Eventually(func() error { _, err := killed.Delta(t.Context()); return err }).WithTimeout(machine.Patience()).Should(Succeed())
	killed.stop()
	g.Expect(fullsIn(t, s)).To(Equal(before + 1))
	restoresTo(t, g, rebuilt, s)
	restarts(t, rebuilt, s, noted(t, "recovered b2", &lease), 3)
	g.Expect(fullsIn(t, s)).To(Equal(before + 2))
	restoresTo(t, g, rebuilt, s)
}

// A final snapshot was taken of a stopped member that had more in its log than the others, and the cluster woke up with its volumes: the others have
// discarded that, and are at a later revision by the time the agent leads. No note and no record shows it.
func TestAWithdrawnFinalSnapshotIsNotContinued(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := folder(t)
	advanced := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, advanced, "k", 10)
	r := run(t, advanced, s, options())
	r.begin(g)
	woken, _ := restored(t, s)
	put(g, advanced, "never committed", 10)
	_, err := r.Full(t.Context(), true)
	g.Expect(err).NotTo(HaveOccurred())
	r.stop()
	put(g, woken, "of this one", 30)

	before := fullsIn(t, s)
	leads := run(t, woken, s, options())
	g.Eventually(func() error { _, err := leads.Delta(t.Context()); return err }).WithTimeout(machine.Patience()).Should(Succeed())
	g.Expect(fullsIn(t, s)).To(Equal(before + 1))
	put(g, woken, "later", 5)
	_, err = leads.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	leads.stop()
	restoresTo(t, g, woken, s)
}
