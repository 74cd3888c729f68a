// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
)

// database writes a snapshot of a database of some pages.
func database(g *WithT, t *testing.T, s *Store, snapshot backup.Snapshot) backup.Snapshot {
	file := filepath.Join(t.TempDir(), "db")
	g.Expect(os.WriteFile(file, bytes.Repeat([]byte("page"), 1024), 0o600)).To(Succeed())
	written, err := s.WriteDatabase(t.Context(), file, snapshot)
	g.Expect(err).NotTo(HaveOccurred())
	return written
}

// A snapshot that is marked is kept, in every list from then on; what is not there cannot be kept.
func TestKeep(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	first, second := database(g, t, s, full(1)), database(g, t, s, full(2))
	_, err := s.Keep(t.Context(), full(3).Name())
	g.Expect(err).To(MatchError(HaveSuffix("has no snapshot %s, so it is not marked as kept", full(3).Name())))
	for _, snapshot := range []backup.Snapshot{first, second} {
		kept, err := s.Keep(t.Context(), snapshot.Name())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(kept.Name()).To(Equal(snapshot.Name()))
		g.Expect([]bool{kept.Kept, kept.Marked}).To(Equal([]bool{true, true}))
		list, err := s.List(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect([]bool{list[0].Kept, list[1].Kept}).To(Equal([]bool{true, snapshot.Name() == second.Name()}))
		g.Expect([]bool{list[0].Marked, list[1].Marked}).To(Equal([]bool{true, snapshot.Name() == second.Name()}))
	}
	mark, err := os.ReadFile(filepath.Join(filepath.Dir(dir), keptFolder, keptPrefix+first.Name()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(mark)).To(Equal(first.Name() + "\n"))
	g.Expect(os.WriteFile(filepath.Join(filepath.Dir(dir), keptFolder, "note"), nil, 0o600)).To(Succeed())
	list, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list).To(HaveLen(2))

	g.Expect(os.RemoveAll(filepath.Join(filepath.Dir(dir), keptFolder))).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(filepath.Dir(dir), keptFolder), nil, 0o600)).To(Succeed(), "a file in place of the folder")
	_, err = s.Keep(t.Context(), first.Name())
	g.Expect(err).To(HaveOccurred())
}

// However many holds there are, the newest ones count: a restore that has its hold stops the members.
func TestManyHolds(t *testing.T) {
	for name, base := range map[string]func(i int) backup.Snapshot{
		"of one full snapshot": func(int) backup.Snapshot { return full(1) }, "of full snapshots that are gone": func(i int) backup.Snapshot { return full(int64(100 + i)) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, dir := local(t)
			noon := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
			first, last := database(g, t, s, full(1)), database(g, t, s, full(2))
			_, err := s.Hold(t.Context(), first.Name(), 0, noon)
			g.Expect(err).NotTo(HaveOccurred())
			for i := range 2 * maxHolds {
				hold := backup.Hold{Since: noon.Add(time.Duration(i) * time.Second), Base: base(i)}
				g.Expect(os.WriteFile(filepath.Join(filepath.Dir(dir), keptFolder, holdPrefix+hold.String()), nil, 0o600)).To(Succeed())
			}
			_, err = s.Hold(t.Context(), last.Name(), 0, noon.Add(time.Hour))
			g.Expect(err).NotTo(HaveOccurred())
			list, err := s.List(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list[1].Kept).To(BeTrue())
			g.Expect(list[1].Marked).To(BeFalse(), "a hold ends")
		})
	}
}

// A full snapshot that is not signed, and that splits a history, is left out of a restore, and does not keep a hold from being made.
func TestHoldAmongUntrustedSnapshots(t *testing.T) {
	g := NewWithT(t)
	c := newScene(t, g)
	c.put("ns/main/v2/Full-00000000-00000005-1700000150", []byte("evil"))
	held, err := c.s.Hold(t.Context(), c.full1.Name(), 30, c.end.Created)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(held.Name()).To(Equal(c.full1.Name()))
	list, err := c.s.Trusted(t.Context(), time.Time{})
	g.Expect(err).NotTo(HaveOccurred())
	kept := map[string]bool{}
	for _, s := range list {
		kept[s.Name()] = s.Kept
	}
	g.Expect(kept).To(And(HaveKeyWithValue(c.full1.Name(), true), HaveKeyWithValue(c.delta1.Name(), true), HaveKeyWithValue(c.delta2.Name(), true)))
}

// That the store does not lead to what is to be held is final; that it cannot be listed is not.
func TestHoldOfWhatIsGone(t *testing.T) {
	g := NewWithT(t)
	s, _ := local(t)
	there := database(g, t, s, full(1))
	_, err := s.Hold(t.Context(), full(3).Name(), 0, there.Created)
	g.Expect(err).To(MatchError(ErrGone))
	_, err = s.Hold(t.Context(), there.Name(), 7, there.Created)
	g.Expect(err).To(MatchError(ErrGone))
	_, err = newScene(t, g).s.Hold(t.Context(), full(3).Name(), 0, there.Created)
	g.Expect(err).To(MatchError(ErrGone), "where snapshots are signed")
	s.maxSnapshots = 0
	_, err = s.Hold(t.Context(), there.Name(), 0, there.Created)
	g.Expect(err).To(MatchError(ContainSubstring("has more than 0 snapshots")))
	g.Expect(err).NotTo(MatchError(ErrGone))
}

// What was written is as it was meant to be, or verifying it fails: volumes may be deleted after it.
func TestVerify(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	written := database(g, t, s, full(1))
	g.Expect(written.Size).To(BeEquivalentTo(4096 + 32))
	g.Expect(s.Verify(t.Context(), written)).To(Succeed())
	name, isFile := s.File(written)
	g.Expect(isFile).To(BeTrue())
	g.Expect(name).To(Equal(filepath.Join(dir, written.Name())))
	other := written
	other.Size++
	g.Expect(s.Verify(t.Context(), other)).To(MatchError(ContainSubstring("has 4128 bytes, and 4129 were written")))
	other.Encrypted = false
	other.Created = other.Created.Add(time.Hour)
	g.Expect(s.Verify(t.Context(), other)).To(MatchError(ContainSubstring(other.Name())), "it is not there")
	content, err := os.ReadFile(name)
	g.Expect(err).NotTo(HaveOccurred())
	content[0] ^= 1
	g.Expect(os.WriteFile(name, content, 0o600)).To(Succeed())
	err = s.Verify(t.Context(), written)
	_, corrupt := errors.AsType[*backup.CorruptError](err)
	g.Expect(corrupt).To(BeTrue(), "%v", err)
	_, err = s.WriteDatabase(t.Context(), filepath.Join(t.TempDir(), "none"), full(2))
	g.Expect(err).To(MatchError(HavePrefix("opening the database: ")))
}

// A write that fails leaves nothing, and says of which snapshot it was.
func TestWriteThatFails(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	full1 := full(1)
	_, err := s.Write(t.Context(), full1, func(io.Writer) error { return errors.New("etcd has ended") })
	g.Expect(err).To(MatchError(And(ContainSubstring("writing snapshot "+full1.Name()), ContainSubstring("etcd has ended"))))
	list, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list).To(BeEmpty())
	g.Expect(os.RemoveAll(dir)).To(Succeed())
	g.Expect(os.WriteFile(dir, nil, 0o600)).To(Succeed(), "a file in place of the folder")
	_, err = s.Write(t.Context(), full1, content)
	g.Expect(err).To(MatchError(ContainSubstring("writing snapshot " + full1.Name())))
}

// Each flag sets what its name says, of the store of a role.
func TestFlags(t *testing.T) {
	g := NewWithT(t)
	var c Config
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.AddFlags(flags, "source-")
	g.Expect(flags.Parse([]string{
		"--source-store-provider=S3", "--source-store-container=c", "--source-store-prefix=p", "--source-store-endpoint=e", "--source-store-credentials=k",
		"--source-store-signing-keys=s", "--source-store-recipients=r,q", "--source-store-identities=i", "--source-store-plain-until=2026-01-01T00:00:00Z",
	})).To(Succeed())
	g.Expect(c).To(Equal(Config{
		Provider: "S3", Container: "c", Prefix: "p", Endpoint: "e", Credentials: "k", SigningKeys: "s", Recipients: []string{"r", "q"}, Identities: "i",
		PlainUntil: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
	}))
}
