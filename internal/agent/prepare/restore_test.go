// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
)

// dying are backups whose restore is as far as a process comes.
type dying struct {
	stored
	seen func()
}

func (dying) Exist(context.Context) (bool, error) { return true, nil }

func (d dying) Restore(context.Context, member.Shared, member.Identity) error {
	d.seen()
	return errors.New("killed")
}

// refusing are backups in a store that refuses.
type refusing struct{ dying }

func (refusing) Exist(context.Context) (bool, error) {
	return false, fmt.Errorf("listing: %w", &store.RefusedError{Store: "S3 container x, prefix y", Status: 403})
}

// A member that waits because its store refuses says which store that is, and what it answered.
func TestAStoreThatRefusesIsNamed(t *testing.T) {
	g := NewWithT(t)
	p := &preparation{shared: sharedIn(t.TempDir()), others: nil}
	p.Backups, p.shared.FirstStart = refusing{}, &member.FirstStart{}
	waits, err := p.once(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(waits).NotTo(BeNil())
	g.Expect(waits.Reason).To(Equal(v1alpha1.ReasonBackupUnreachable))
	g.Expect(waits.Message).To(ContainSubstring("S3 container x, prefix y answered 403: check the credentials"))
}

// Whenever prepare is killed after the data directory has its name, the agent knows that the member was restored: the next prepare starts with
// the data that it finds.
func TestRestoreIsNotedBeforeThereIsData(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	p := &preparation{shared: sharedIn(dir)}
	noted := ""
	p.Backups = dying{seen: func() { noted = noteIn(g, p) }}
	waits, err := p.restore(t.Context(), member.Input{DataDir: filepath.Join(dir, "data")})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(waits.Message).To(ContainSubstring("killed"))
	g.Expect(noted).To(Equal("restored"))

	g.Expect(os.Remove(p.shared.RestoreNoteFile())).To(Succeed())
	g.Expect(os.Mkdir(p.shared.RestoreNoteFile(), 0o700)).To(Succeed())
	p.Backups = dying{seen: func() { t.Error("restored without a note") }}
	_, err = p.restore(t.Context(), member.Input{DataDir: filepath.Join(dir, "data")})
	g.Expect(err).To(MatchError(ContainSubstring("noting that member")))
}

func sharedIn(dir string) member.Shared {
	return member.Shared{Config: map[string]any{"data-dir": filepath.Join(dir, "data"), "listen-client-urls": "http://127.0.0.1:2379"}}
}

// noteIn returns the note that the member was restored; empty for none.
func noteIn(g *WithT, p *preparation) string {
	text, err := os.ReadFile(p.shared.RestoreNoteFile())
	if !errors.Is(err, os.ErrNotExist) {
		g.Expect(err).NotTo(HaveOccurred())
	}
	return string(text)
}

// Each member of a recovered cluster knows of it before it starts. One that was also restored does not count on the full snapshot of
// another.
func TestRecoveryIsNotedBeforeTheMemberStarts(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	p := &preparation{shared: sharedIn(dir), Options: Options{ConfigFile: filepath.Join(dir, "etcd.conf.yaml")}}
	in := member.Input{DataDir: p.shared.DataDir()}
	start := func() string {
		g.Expect(p.configure(in, member.Start, knowledge{})).To(Succeed())
		return noteIn(g, p)
	}
	g.Expect(start()).To(BeEmpty(), "without a recovery")
	p.shared.Recovery, in.NewClusterID = &member.Recovery{Task: "1"}, "a1"
	g.Expect(start()).To(Equal("recovered a1"))
	p.shared.Recovery, in.NewClusterID = &member.Recovery{Task: "2"}, "b2"
	g.Expect(start()).To(Equal("recovered b2"), "by a second recovery")
	p.Backups = dying{seen: func() {}}
	_, err := p.restore(t.Context(), in)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(start()).To(Equal("restored b2"))
	in.NewClusterID = "c3"
	g.Expect(start()).To(Equal("recovered c3"), "by a third one")
	full := &preparation{shared: sharedIn(filepath.Join(dir, "missing"))}
	g.Expect(full.noteRecovered("c3")).To(MatchError(ContainSubstring("noting that member")), "on a volume that takes no file")
	g.Expect(os.Remove(p.shared.RestoreNoteFile())).To(Succeed())
	g.Expect(os.Mkdir(p.shared.RestoreNoteFile(), 0o700)).To(Succeed())
	g.Expect(p.configure(in, member.Start, knowledge{})).To(MatchError(ContainSubstring("whether member")), "it does not start without")
}

// A member that starts with the data of its own rebuild takes a full snapshot when it leads, as one that was restored does: the deltas in the store
// continue another history.
func TestRebuildIsNoted(t *testing.T) {
	for name, tc := range map[string]struct {
		recovery *member.Recovery
		noted    bool
	}{
		"a usual start":   {nil, false},
		"after a rebuild": {&member.Recovery{Task: "task", Member: "main-0", Source: member.RecoverFromData}, true},
		"after a restore": {&member.Recovery{Task: "task", Member: "main-0", Source: member.RecoverFromBackup}, true},
	} {
		t.Run(name, func(t *testing.T) {
			g, dir := NewWithT(t), t.TempDir()
			p := &preparation{
				Options: Options{ConfigFile: filepath.Join(dir, "etcd.yaml")},
				shared:  sharedIn(dir),
			}
			p.shared.Recovery = tc.recovery
			g.Expect(p.configure(member.Input{DataDir: p.shared.DataDir(), NewClusterID: "b2"}, member.Start, knowledge{})).To(Succeed())
			_, err := os.Stat(p.shared.RestoreNoteFile())
			g.Expect(err == nil).To(Equal(tc.noted))
			g.Expect(p.ConfigFile).To(BeARegularFile())
		})
	}
}
