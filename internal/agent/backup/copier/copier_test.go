// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package copier

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
)

var now = time.Unix(1_700_000_000, 0).UTC()

func day(n int) time.Time { return now.AddDate(0, 0, n) }

func snapshot(kind backup.Kind, first, last int64, created time.Time) backup.Snapshot {
	return backup.Snapshot{Kind: kind, StartRevision: first, LastRevision: last, Created: created, Compression: backup.Gzip}
}

// history is what a store holds: three full snapshots, with deltas.
func history() []backup.Snapshot {
	return []backup.Snapshot{
		snapshot(backup.Delta, 5, 9, day(-31)),
		snapshot(backup.Full, 0, 10, day(-30)),
		snapshot(backup.Delta, 11, 20, day(-29)),
		snapshot(backup.Full, 0, 20, day(-10)),
		snapshot(backup.Full, 0, 20, day(-2)),
		snapshot(backup.Delta, 21, 30, day(-1)),
	}
}

// The cluster has ended with a final snapshot, however many others were taken since.
func TestHasFinal(t *testing.T) {
	final := func(created time.Time) backup.Snapshot {
		s := snapshot(backup.Full, 0, 40, created)
		s.Final = true
		return s
	}
	marked := func(s backup.Snapshot) backup.Snapshot {
		s.Kept, s.Marked = true, true
		return s
	}
	held := func(s backup.Snapshot) backup.Snapshot {
		s.Kept = true
		return s
	}
	// since are full snapshots of each hour since.
	since := func(from int, revision int64) (all []backup.Snapshot) {
		for i := range 9 {
			all = append(all, snapshot(backup.Full, 0, revision, day(from).Add(time.Duration(i+1)*time.Hour)))
		}
		return all
	}
	for name, c := range map[string]struct {
		more []backup.Snapshot
		want bool
	}{
		"none":                                         {nil, false},
		"it is the newest":                             {[]backup.Snapshot{final(day(0))}, true},
		"it is the newest, and old":                    {[]backup.Snapshot{final(day(-2).Add(time.Hour))}, true},
		"many since, and nothing was written":          {append(since(-2, 40), final(day(-2).Add(time.Minute))), true},
		"many since, and keys have expired":            {append(since(0, 41), final(day(0))), true},
		"after the copy has begun, by its clock":       {append(since(1, 41), final(day(1))), true},
		"it is a day old, and keys have expired":       {append(since(-1, 41), final(day(-1))), true},
		"it belongs to an earlier move":                {append(since(-1, 41), final(day(-1).Add(-time.Second))), false},
		"the cluster was restored to what was before":  {append(since(-1, 39), final(day(-2))), false},
		"restored, and written to as much":             {append(since(-2, 39), snapshot(backup.Full, 0, 40, day(0)), final(day(-2).Add(-time.Hour))), false},
		"only a delta since the cluster woke up":       {[]backup.Snapshot{final(day(-2)), snapshot(backup.Delta, 41, 50, day(0))}, false},
		"that of a Restore":                            {append(since(0, 1_000_000_041), marked(final(day(0)))), false},
		"that of a Restore, and one of a move":         {append(since(0, 1_000_000_041), marked(final(day(0))), final(day(0).Add(20*time.Hour))), true},
		"that of a move, which a preview holds":        {append(since(0, 41), held(final(day(0)))), true},
		"an earlier one, and one that nothing follows": {append(since(-4, 39), final(day(-5)), final(day(-2).Add(time.Hour))), true},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(hasFinal(append(history()[:5], c.more...), now)).To(Equal(c.want))
		})
	}
}

// A copy waits for a final snapshot, but not forever. That of a Restore, which marks it, is none of a move; a preview may hold any.
func TestWaitingForTheFinalSnapshot(t *testing.T) {
	keep := func(source *store.Store, s backup.Snapshot) error {
		_, err := source.Keep(t.Context(), s.Name())
		return err
	}
	hold := func(source *store.Store, s backup.Snapshot) error {
		_, err := source.Hold(t.Context(), s.Name(), 0, now)
		return err
	}
	for name, c := range map[string]struct {
		is    bool
		then  func(source *store.Store, s backup.Snapshot) error
		final bool
	}{
		"there is one":          {true, nil, true},
		"a preview holds it":    {true, hold, true},
		"a Restore has kept it": {true, keep, false},
		"there is none":         {false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, final := NewWithT(t), c.final
			source, _ := filled(t)
			s := snapshot(backup.Full, 0, 40, day(0))
			s.Final = c.is
			s = write(t, source, s)
			if c.then != nil {
				g.Expect(c.then(source, s)).To(Succeed())
			}
			target, _ := open(t)
			config := Config{Source: source, Target: target, WaitForFinal: 10 * time.Millisecond, Now: now, Log: logr.Discard()}
			result, err := Copy(t.Context(), config)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.FinalSnapshot).To(HaveValue(Equal(final)))
			g.Expect(result.LastRevision).To(BeEquivalentTo(40))
			copied, err := target.List(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(hasFinal(copied, now)).To(BeFalse(), "the next move has a final snapshot of its own")
			again, err := Copy(t.Context(), config)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(again.Copied).To(BeZero())
		})
	}
}

func TestSelect(t *testing.T) {
	h := history()
	for _, tc := range []struct {
		name string
		s    Selection
		want []backup.Snapshot
	}{
		{"everything that can be restored", Selection{}, h[1:]},
		{"the newest", Selection{MaxBackups: 1}, h[4:]},
		{"the newest two", Selection{MaxBackups: 2}, h[3:]},
		{"more than there are", Selection{MaxBackups: 9}, h[1:]},
		{"two weeks", Selection{MaxAge: 14 * 24 * time.Hour}, h[3:]},
		{"two weeks, one backup", Selection{MaxAge: 14 * 24 * time.Hour, MaxBackups: 1}, h[4:]},
		{"the newest however old", Selection{MaxAge: time.Hour}, h[4:]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(tc.s.Select(h, now)).To(Equal(tc.want))
			g.Expect(tc.s.Select(h[:1], now)).To(BeEmpty(), "deltas alone are of no use")
		})
	}
}

// Snapshots that were requested, or taken when the agent started again, do not displace scheduled ones from a copy.
func TestRequestedSnapshotsDisplaceNoneFromACopy(t *testing.T) {
	g := NewWithT(t)
	midnight := func(after time.Time) time.Time { return after.Truncate(24 * time.Hour).Add(24 * time.Hour) }
	var list, scheduled []backup.Snapshot
	today := now.Truncate(24 * time.Hour)
	for i := range 10 {
		at := today.AddDate(0, 0, i-9)
		revision := int64(100 * (i + 1))
		daily := snapshot(backup.Full, 0, revision, at)
		list, scheduled = append(list, daily, snapshot(backup.Delta, revision+1, revision+9, at.Add(time.Hour))), append(scheduled, daily)
	}
	var requested []backup.Snapshot
	for i := range 20 {
		s := snapshot(backup.Full, 0, 1009, today.Add(2*time.Hour+time.Duration(i)*time.Minute))
		list, requested = append(list, s), append(requested, s)
	}
	fulls := func(all []backup.Snapshot) []backup.Snapshot {
		return slices.DeleteFunc(all, func(s backup.Snapshot) bool { return s.Kind != backup.Full })
	}
	got := Selection{MaxBackups: 7, Due: midnight}.Select(list, now)
	g.Expect(got).To(HaveLen(7+7+7), "seven of the schedule, seven requested ones, and a delta of each day")
	g.Expect(got[0]).To(Equal(scheduled[3]))
	g.Expect(fulls(got)).To(Equal(append(slices.Clone(scheduled[3:]), requested[13:]...)))
	g.Expect(Selection{MaxBackups: 7}.Select(list, now)).To(Equal(requested[13:]), "no schedule is known")
	aged := Selection{MaxBackups: 7, Due: midnight, MaxAge: now.Sub(today.AddDate(0, 0, -2))}.Select(list, now)
	g.Expect(fulls(aged)).To(Equal(append(slices.Clone(scheduled[7:]), requested[13:]...)))
	g.Expect(fulls(Selection{Due: midnight}.Select(list, now))).To(HaveLen(30), "all")
}

func open(t *testing.T) (*store.Store, string) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: dir, Prefix: "p"})
	if err != nil {
		t.Fatal(err)
	}
	return s, filepath.Join(dir, "p", "v2")
}

// filled is a store with the history.
func filled(t *testing.T) (*store.Store, string) {
	s, dir := open(t)
	for _, snapshot := range history() {
		write(t, s, snapshot)
	}
	return s, dir
}

// write writes a snapshot with some content.
func write(t *testing.T, to *store.Store, snapshot backup.Snapshot) backup.Snapshot {
	t.Helper()
	content := bytes.Repeat([]byte(snapshot.Name()), 1000)
	sum := sha256.Sum256(content)
	written, err := to.Write(t.Context(), snapshot, func(w io.Writer) error {
		return backup.WriteFull(w, snapshot, bytes.NewReader(append(content, sum[:]...)))
	})
	if err != nil {
		t.Fatal(err)
	}
	return written
}

func TestCopy(t *testing.T) {
	g := NewWithT(t)
	source, from := filled(t)
	target, to := open(t)
	config := Config{Source: source, Target: target, Now: now, Log: logr.Discard()}
	result, err := Copy(t.Context(), config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Copied).To(Equal(5))
	g.Expect(result.LastRevision).To(BeEquivalentTo(30))
	for _, s := range history()[1:] {
		want, err := os.ReadFile(filepath.Join(from, s.Name()))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.ReadFile(filepath.Join(to, s.Name()))).To(Equal(want), "byte by byte")
	}
	again, err := Copy(t.Context(), config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(Result{Skipped: 5, LastRevision: 30}), "nothing is copied twice")
}

// No copy is final, and a delta that continues a final snapshot continues its copy: the signatures in the target say so.
func TestSignedCopyOfAFinalSnapshot(t *testing.T) {
	g := NewWithT(t)
	keys := signaturetest.Keys(t)
	signed := func() *store.Store {
		s, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "p", SigningKeys: keys})
		g.Expect(err).NotTo(HaveOccurred())
		return s
	}
	source, target := signed(), signed()
	full := snapshot(backup.Full, 0, 10, day(-1))
	full.Final = true
	full = write(t, source, full)
	delta := snapshot(backup.Delta, 11, 20, day(0))
	delta.Proof = &backup.Proof{History: full.Proof.History, Predecessor: full.Reference()}
	write(t, source, delta)
	config := Config{Source: source, Target: target, WaitForFinal: time.Second, Now: now, Log: logr.Discard()}
	result, err := Copy(t.Context(), config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(And(HaveField("Copied", 2), HaveField("LastRevision", int64(20)), HaveField("FinalSnapshot", HaveValue(BeTrue()))))
	list, err := target.Trusted(t.Context(), time.Time{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(list).To(HaveEach(HaveField("Final", false)))
	again, err := Copy(t.Context(), config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.Skipped).To(Equal(2))
}

// A copy that is killed continues where it was, and what it had begun is no snapshot.
func TestInterruptedCopy(t *testing.T) {
	g := NewWithT(t)
	source, from := filled(t)
	target, to := open(t)
	config := Config{Source: source, Target: target, Now: now, Log: logr.Discard()}
	names := history()
	lost := filepath.Join(from, names[3].Name())
	g.Expect(os.Rename(lost, lost+".away")).To(Succeed())
	g.Expect(os.Mkdir(lost, 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(lost, "chunk"), nil, 0o600)).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Copy(ctx, config)
	g.Expect(err).To(HaveOccurred())
	g.Expect(target.List(t.Context())).To(BeEmpty())
	g.Expect(os.RemoveAll(lost)).To(Succeed())
	g.Expect(os.Rename(lost+".away", lost)).To(Succeed())

	// Half an object, as another tool might leave it.
	whole, err := os.ReadFile(filepath.Join(from, names[1].Name()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.MkdirAll(to, 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(to, names[1].Name()), whole[:len(whole)/2], 0o600)).To(Succeed())
	result, err := Copy(t.Context(), config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Copied).To(Equal(5), "half an object is not taken for a whole one")
	g.Expect(os.ReadFile(filepath.Join(to, names[1].Name()))).To(Equal(whole))
}

func TestCorruptObjectsAreNotCopied(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return b[:len(b)-9] },
		"altered":   func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			source, from := filled(t)
			target, to := open(t)
			broken := history()[2]
			file := filepath.Join(from, broken.Name())
			data, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(os.WriteFile(file, damage(data), 0o600)).To(Succeed())
			_, err = Copy(t.Context(), Config{Source: source, Target: target, Now: now, Log: logr.Discard()})
			var corrupt *backup.CorruptError
			g.Expect(errors.As(err, &corrupt)).To(BeTrue(), "%v", err)
			g.Expect(corrupt.Name).To(Equal(broken.Name()))
			g.Expect(filepath.Join(to, broken.Name())).NotTo(BeAnExistingFile())
			g.Expect(target.List(t.Context())).To(HaveLen(1), "what came before is there")
		})
	}
}

func TestCopyOfNothing(t *testing.T) {
	g := NewWithT(t)
	source, _ := open(t)
	target, _ := open(t)
	_, err := Copy(t.Context(), Config{Source: source, Target: target, Now: now, Log: logr.Discard()})
	g.Expect(err).To(MatchError(backup.ErrNoFull))
}
