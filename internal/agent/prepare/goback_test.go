// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir/datadirtest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
)

// goesBack tells the member to restore an earlier state. Its data, if it has any, is of cluster cafe.
func (p *pod) goesBack(source member.RecoverySource, point member.RestorePoint, earlier ...string) {
	point.Bump = cmp.Or(point.Bump, 1000)
	text, err := member.Recovery{Task: "task", TaskName: "name", Member: "m-0", Source: source, PreviousClusterID: "beef", EarlierClusterIDs: earlier, Restore: &point}.Encode()
	p.Expect(err).NotTo(HaveOccurred())
	p.share(member.KeyClusterID, "beef")
	p.share(member.KeyRecovery, text)
}

// toPoint tells it to restore a state from the backups.
func (p *pod) toPoint() {
	p.goesBack(member.RecoverFromPoint, member.RestorePoint{Base: "full", Revision: 5}, "cafe")
	p.holds()
}

// toKept tells it to return to data that an earlier recovery has set aside.
func (p *pod) toKept(requests ...[]byte) {
	p.goesBack(member.RecoverFromKept, member.RestorePoint{Kept: "data.before-old-1"}, "cafe")
	datadirtest.Write(p.t, p.data+".before-old-1", 3, requests...)
}

// makes puts the state that the task restores beside the data directory.
func (p *pod) makes() error {
	return os.CopyFS(p.data+".rebuilt-task", os.DirFS(rebuilt(p.t, recoverFrom(p.t, member.RecoverFromData, "cafe"))))
}

// A member goes back to an earlier state, or keeps what it has and says why.
func TestGoingBack(t *testing.T) {
	const fails = "task name restores an earlier state on member m-0, which failed, and its data is unchanged: "
	logs := []string{"Restoring an earlier state failed"}
	for name, c := range map[string]attempt{
		"to a state from the backups": {
			given: func(p *pod) { p.toPoint(); p.options.Backups = stored{restore: p.makes} },
			state: "existing", aside: ".before-task-1", note: "recovered ",
		},
		"to a state that was restored already": {
			given: func(p *pod) { p.toPoint(); p.Expect(p.makes()).To(Succeed()); p.options.Backups = unasked{p.t} },
			state: "existing", aside: ".before-task-1", note: "recovered ",
		},
		"to a state that was restored already, beside others, and the store is gone": {
			given:  func(p *pod) { p.toPoint(); p.share(member.KeyBootstrap, inOne); p.Expect(p.makes()).To(Succeed()) },
			reason: v1alpha1.ReasonRestoreFailed, says: fails + "the Etcd has no backup store any more", logs: logs,
		},
		"without a store": {
			given:  (*pod).toPoint,
			reason: v1alpha1.ReasonRestoreFailed, says: fails + "the Etcd has no backup store any more", logs: logs,
		},
		"to a state that cannot be restored": {
			given: func(p *pod) {
				p.toPoint()
				p.options.Backups = stored{restore: func() error { return errors.New("no space") }}
			},
			reason: v1alpha1.ReasonRestoreFailed, says: fails + "no space. It is tried again. To give up, create a QuorumLossRecovery", logs: logs,
		},
		"and its data cannot be set aside": {
			given:  func(p *pod) { p.toPoint(); p.blocks(".before-task-"); p.options.Backups = stored{restore: p.makes} },
			reason: v1alpha1.ReasonRestoreFailed, says: fails + "setting the previous data aside", aside: ".before-task-1", logs: logs,
		},
		"to data that was kept": {
			given: func(p *pod) { p.toKept(datadirtest.Put("a", "1", 0)) },
			state: "existing", aside: ".before-old-1", note: "recovered ",
		},
		"to data that was kept of another directory": {
			given: func(p *pod) {
				p.goesBack(member.RecoverFromKept, member.RestorePoint{Kept: "other.before-old-1"})
				datadirtest.Write(p.t, filepath.Join(filepath.Dir(p.data), "other.before-old-1"), 3)
			},
			reason: v1alpha1.ReasonRestoreFailed, says: fails + "other.before-old-1 is not data that was set aside from",
		},
		"to data that was kept of another cluster": {
			given: func(p *pod) {
				p.toKept()
				p.goesBack(member.RecoverFromKept, member.RestorePoint{Kept: "data.before-old-1"})
			},
			reason: v1alpha1.ReasonRestoreFailed, says: "has data of cluster cafe, which is none that was before", aside: ".before-old-1",
		},
		"to data that was kept and cannot be read": {
			given: func(p *pod) {
				p.goesBack(member.RecoverFromKept, member.RestorePoint{Kept: "data.before-old-1"}, "cafe")
				p.Expect(os.WriteFile(p.data+".before-old-1", nil, 0o600)).To(Succeed())
			},
			reason: v1alpha1.ReasonRestoreFailed, says: fails + "reading the kept data", aside: ".before-old-1",
		},
		"to data that was kept and is damaged": {
			given:  func(p *pod) { p.toKept([]byte("no request")) },
			reason: v1alpha1.ReasonRestoreFailed, says: fails, aside: ".before-old-1",
		},
	} {
		t.Run(name, c.run)
	}
}

// Kept data begins by a margin above what the operator knows, which does not know how far the data reaches, and above the data itself. Its own
// revisions do not count twice: each undo about doubled the revision.
func TestWhereKeptDataBegins(t *testing.T) {
	const reaches = 3
	for bump, begins := range map[int64]int64{
		1: reaches + datadir.Margin, datadir.Margin: reaches + datadir.Margin, datadir.Margin + reaches: reaches + datadir.Margin,
		datadir.Margin + 100: datadir.Margin + 100, 5 * datadir.Margin: 5 * datadir.Margin, 1<<62 + datadir.Margin: 1<<62 + datadir.Margin,
	} {
		t.Run(strconv.FormatInt(bump, 10), func(t *testing.T) {
			p := newPod(t)
			p.goesBack(member.RecoverFromKept, member.RestorePoint{Kept: "data.before-old-1", Bump: bump}, "cafe")
			datadirtest.Write(t, p.data+".before-old-1", 4, datadirtest.Put("a", "1", 0), datadirtest.Put("a", "2", 0))
			p.Expect(Run(t.Context(), testr.New(t), p.options)).To(Succeed())
			found, err := datadir.Survey(p.data)
			p.Expect(err).NotTo(HaveOccurred())
			p.Expect(found.Revision).To(Equal(begins))
		})
	}
}

// The first member of a new cluster begins it on the volume that it had when it was chosen, and on no empty one in its place.
func TestANewClusterBeginsOnItsVolume(t *testing.T) {
	begins := func(p *pod) {
		p.share(member.KeyBootstrap, inOne)
		p.share(member.KeyClusterID, "cafe")
		text, err := member.Recovery{Task: "task", TaskName: "name", Member: "m-0", Source: member.RecoverFromBackup, PreviousClusterID: "cafe"}.Encode()
		p.Expect(err).NotTo(HaveOccurred())
		p.share(member.KeyRecovery, text)
		p.share(member.KeyRecoveryDetails, "task: task\nhadData: true\n")
		p.options.Backups = stored{exist: true, restore: func() error { return errors.New("no space") }}
	}
	for name, c := range map[string]attempt{
		"an empty one": {given: begins, reason: v1alpha1.ReasonDataLost, says: "may have begun"},
		"one on which its data was set aside": {
			given:  func(p *pod) { begins(p); p.blocks(".before-task-") },
			reason: v1alpha1.ReasonDataLost, says: "may have begun", aside: ".before-task-1",
		},
		"one with its data, which stays until the backup is restored": {
			given:  func(p *pod) { begins(p); p.holds() },
			reason: v1alpha1.ReasonRestoreFailed, says: "restoring the backup of member m-0 failed, and what is on its volume is unchanged: no space", note: "restored",
		},
	} {
		t.Run(name, c.run)
	}
}

// A member begins a new cluster of several members on one volume only: a marker in the store says so before that can start, and stays when the
// volume is lost. Without the store, it begins none.
func TestANewClusterIsMarkedBeforeItBegins(t *testing.T) {
	for name, begins := range map[string]func(p *pod){
		"from the newest backup": func(p *pod) { p.recovers(recoverFrom(p.t, member.RecoverFromBackup, "cafe")) },
		"from a point": func(p *pod) {
			p.goesBack(member.RecoverFromPoint, member.RestorePoint{Base: "full", Revision: 5, Prefix: "other"}, "cafe")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := StoredBackups{Config: store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"}}
			restores := 0
			// on returns a member on an empty volume of its own.
			on := func() *pod {
				p := newPod(t)
				begins(p)
				p.share(member.KeyBootstrap, inOne)
				p.options.Backups = stored{exist: true, marked: &of, restore: func() error { restores++; return p.makes() }}
				return p
			}
			starts := func(p *pod) error { return Run(t.Context(), testr.New(t), p.options) }
			begun := func(p *pod) bool {
				is, err := of.Begun(t.Context(), "uid-task", "")
				p.Expect(err).NotTo(HaveOccurred())
				return is
			}

			first := on()
			folder := of.Config.Container
			first.Expect(os.Rename(folder, folder+".away")).To(Succeed())
			first.Expect(starts(first)).To(MatchError(ContainSubstring("it is unknown whether the new cluster")))
			first.Expect(os.Rename(folder+".away", folder)).To(Succeed())
			first.Expect(restores).To(BeZero())
			// The store goes away while the backup is restored.
			first.options.Backups = stored{exist: true, marked: &of, restore: func() error { return errors.Join(first.makes(), os.Rename(folder, folder+".away")) }}
			first.Expect(starts(first)).To(MatchError(ContainSubstring("its folder cannot be found")))
			first.Expect(first.data).NotTo(BeADirectory(), "nothing can start")
			first.Expect(os.Rename(folder+".away", folder)).To(Succeed())
			first.Expect(begun(first)).To(BeFalse())

			second := on() // It has restored the same beside the first one.
			second.Expect(second.makes()).To(Succeed())
			// The first one is killed between the marker and the names.
			first.holds()
			first.blocks(".before-task-")
			first.Expect(starts(first)).To(MatchError(ContainSubstring("setting the previous data aside")))
			first.Expect(begun(first)).To(BeTrue())
			first.Expect(os.RemoveAll(first.data + ".before-task-1")).To(Succeed())
			first.Expect(starts(first)).To(Succeed())
			first.Expect(first.starts()).To(HaveKeyWithValue("initial-cluster-state", "existing"))
			first.Expect(first.data + ".before-task-1").To(BeADirectory())

			for _, other := range []*pod{second, on()} {
				err := starts(other)
				other.Expect(err).To(MatchError(ContainSubstring("may have begun with other data of it")))
				other.Expect(other.data).NotTo(BeADirectory())
			}
			first.Expect(os.RemoveAll(first.data)).To(Succeed())
			first.Expect(starts(first)).To(MatchError(ContainSubstring("may have begun")), "of the volume, the data alone is lost")
			first.Expect(restores).To(BeZero(), "nothing was restored again")
		})
	}
}

// What an agent has marked after it was asked whether the new cluster has begun counts as well: at most one begins.
func TestAnotherBeginsMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPod(t)
	p.recovers(recoverFrom(t, member.RecoverFromBackup, "cafe"))
	p.share(member.KeyBootstrap, inOne)
	of := StoredBackups{Config: store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a"}}
	p.options.Backups = stored{exist: true, marked: &of, restore: func() error {
		return errors.Join(p.makes(), of.Begin(t.Context(), "uid-task", "another"))
	}}
	p.Expect(Run(t.Context(), testr.New(t), p.options)).To(MatchError(ContainSubstring(store.ErrBegun.Error())))
	p.Expect(p.data).NotTo(BeADirectory())
	p.Expect(p.starts()).To(BeNil())
}

// A single member restores the backup again, and needs no marker for it: no other has joined it.
func TestASingleMemberNeedsNoMarker(t *testing.T) {
	p := newPod(t)
	p.recovers(recoverFrom(t, member.RecoverFromBackup, "cafe"))
	unmarked := StoredBackups{Config: store.Config{Provider: "unknown"}}
	p.options.Backups = stored{exist: true, marked: &unmarked, restore: p.makes}
	p.Expect(Run(t.Context(), testr.New(t), p.options)).To(Succeed())
	p.Expect(os.RemoveAll(p.data)).To(Succeed())
	p.Expect(Run(t.Context(), testr.New(t), p.options)).To(Succeed())
}
