// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
)

type bufferOf struct {
	*backup.DeltaBuffer
	of backup.Snapshot
}

func (b bufferOf) write(w io.Writer) error { return b.Write(w, b.of) }

// A restore brings the newest state, with every revision and version as it was, and leaves nothing else behind.
func TestRestore(t *testing.T) {
	for name, signed := range map[string]bool{"unsigned": false, "signed": true} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, signed)
			r.put("a=1", "b=1")
			r.full()
			r.put("a=2", "b", "c=1")
			first := r.delta()
			r.put("a", "a=3")
			second := r.delta()
			config := r.into()
			left := filepath.Join(filepath.Dir(config.DataDir), filepath.Base(config.DataDir)+".restoring")
			r.Expect(os.MkdirAll(filepath.Join(left, "data", "member"), 0o700)).To(Succeed(), "by a restore that was killed")
			r.Expect(os.Mkdir(config.DataDir, 0o700)).To(Succeed())
			result, err := Restore(t.Context(), config)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(result.Revision).To(BeEquivalentTo(8))
			r.Expect(result.Bump).To(BeZero())
			r.Expect(result.Chain.Deltas).To(HaveLen(2))
			r.Expect([]string{result.Chain.Deltas[0].Name(), result.Chain.Deltas[1].Name()}).To(Equal([]string{first.Name(), second.Name()}))
			keys, revision := r.keys(databaseIn(config.DataDir))
			r.Expect(revision).To(BeEquivalentTo(8))
			r.Expect(keys).To(Equal(map[string]string{"a": "3 8 8 1", "c": "1 6 6 1"}))
			r.Expect(filepath.Glob(config.DataDir + "*")).To(ConsistOf(config.DataDir))
			_, err = os.Stat(filepath.Join(config.DataDir, "member", "wal"))
			r.Expect(err).NotTo(HaveOccurred())
			_, err = Restore(t.Context(), config)
			r.Expect(err).To(MatchError(ContainSubstring("it must be empty")))
		})
	}
}

// Two members that each considered itself the leader have taken deltas that overlap. Each change counts once: the state is byte for byte
// what etcd has.
func TestRestoreOfDeltasThatOverlap(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1")
	r.full()
	r.put("a=2", "b=1", "b")
	r.delta()
	r.taken -= 2
	r.put("a")
	r.delta()
	want, err := hashKV(r.oldDatabase(), 6)
	r.Expect(err).NotTo(HaveOccurred())
	config := r.into()
	result, err := Restore(t.Context(), config)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(result.Chain.Deltas).To(HaveLen(2))
	r.Expect(result.Revision).To(BeEquivalentTo(6))
	r.Expect(hashKV(databaseIn(config.DataDir), 6)).To(Equal(want))
	preview, err := Preview(t.Context(), PreviewConfig{Store: r.store, WorkDir: t.TempDir(), Target: backup.Target{Revision: 5}})
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(preview.Revision).To(BeEquivalentTo(5))
	r.Expect(preview.Deltas).To(Equal(1), "the other one repeats it")
}

// What keeps a restore from the newest state, and what it does about it.
func TestRestoreOfWhatIsBroken(t *testing.T) {
	for name, c := range map[string]struct {
		signed bool
		begin  func(r *trial) func(*Config)
		want   int64
		fails  string
		check  func(r *trial, err error)
	}{
		"an older full snapshot reaches the same revision": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			r.delta()
			r.corrupt(r.fullOf(r.revision(), func(string) {}))
			return nil
		}, want: 3},
		"the only full snapshot is corrupt": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.corrupt(r.full())
			return nil
		}, fails: "is corrupt", check: func(r *trial, err error) {
			_, ok := errors.AsType[*backup.CorruptError](err)
			r.Expect(ok).To(BeTrue())
		}},
		"a delta is corrupt": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			r.corrupt(r.delta())
			return nil
		}, fails: "is corrupt"},
		"a delta is missing": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			r.taken = len(r.events)
			r.put("a=3")
			r.delta()
			return nil
		}, fails: "looking for a backup in", check: func(r *trial, err error) {
			gap, ok := errors.AsType[*backup.GapError](err)
			r.Expect(ok).To(BeTrue())
			r.Expect(gap.After).To(BeEquivalentTo(2))
		}},
		"an event of a type that is not known": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			r.events[len(r.events)-1].EtcdEvent.Type = 9
			r.delta()
			return nil
		}, fails: "event at revision 3 has an unknown type 9"},
		"there is none": {begin: func(*trial) func(*Config) { return nil }, fails: backup.ErrNoFull.Error()},
		"a full snapshot has less than its name says": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.fullOf(3, nil)
			return nil
		}, fails: "restored revision 2, but the newest snapshot ends at 3"},
		"the final one is missing": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			return func(c *Config) { c.AtLeast = 3 }
		}, fails: "end at revision 2, and must reach revision 3"},
		"the final one is there": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			return func(c *Config) { c.AtLeast = 2 }
		}, want: 2},
		"the store ends before what is recorded": {signed: true, begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			return func(c *Config) { c.Record = backup.Record{Revision: 9, Created: r.now().Add(time.Hour)} }
		}, fails: "newer snapshots were removed from the store"},
		"that is accepted": {signed: true, begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			return func(c *Config) {
				c.Record, c.Accept.Revision = backup.Record{Revision: 9, Created: r.now().Add(time.Hour)}, 2
			}
		}, want: 2},
		"another end is accepted": {signed: true, begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			return func(c *Config) {
				c.Record, c.Accept.Revision = backup.Record{Revision: 9, Created: r.now().Add(time.Hour)}, 3
			}
		}, fails: "newer snapshots were removed from the store"},
		"it is not signed, and ends before what is recorded": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			return func(c *Config) { c.Record = backup.Record{Revision: 9, Created: r.now().Add(time.Hour)} }
		}, fails: "newer snapshots were removed from the store"},
		"that is accepted of what is not signed": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			return func(c *Config) { c.Record = backup.Record{Revision: 9, Created: r.now().Add(time.Hour), Accepted: 2} }
		}, want: 2},
		"another end of it is": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			return func(c *Config) { c.Record = backup.Record{Revision: 9, Created: r.now().Add(time.Hour), Accepted: 3} }
		}, fails: "newer snapshots were removed from the store"},
		"nothing is, and the name of the snapshot says 0": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.fullOf(0, nil)
			return func(c *Config) { c.Record = backup.Record{Revision: 9, Created: r.now().Add(time.Hour)} }
		}, fails: "newer snapshots were removed from the store"},
		"of signed ones, the record says nothing of that": {signed: true, begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			return func(c *Config) { c.Record = backup.Record{Revision: 9, Created: r.now().Add(time.Hour), Accepted: 2} }
		}, fails: "newer snapshots were removed from the store"},
		"it is not signed, and etcd-druid has renewed the record later": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			return func(c *Config) { c.Record = backup.Record{Revision: 2, Created: r.now().Add(time.Hour)} }
		}, want: 2},
		"one is unsigned": {signed: true, begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.full()
			r.put("a=2")
			signed := r.store
			plain := r.config
			plain.SigningKeys = ""
			r.store = r.open(plain)
			r.full()
			r.store = signed
			return nil
		}, fails: "is refused"},
		"one that is unsigned is accepted": {signed: true, begin: func(r *trial) func(*Config) {
			signed := r.store
			plain := r.config
			plain.SigningKeys = ""
			r.store = r.open(plain)
			r.put("a=1")
			r.full()
			r.store = signed
			return func(c *Config) { c.Accept.UnsignedUntil = r.now() }
		}, want: 2},
		"the only full snapshot is corrupt, and signed": {signed: true, begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.corrupt(r.full())
			return nil
		}, fails: "is not what was signed"},
		"it is not a database of etcd, and signed": {signed: true, begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.fullOf(2, func(path string) { r.Expect(os.WriteFile(path, make([]byte, 32<<10), 0o600)).To(Succeed()) })
			return nil
		}, fails: "is corrupt: its database: "},
		"it is not a database of etcd": {begin: func(r *trial) func(*Config) {
			r.put("a=1")
			r.fullOf(2, func(path string) { r.Expect(os.WriteFile(path, make([]byte, 32<<10), 0o600)).To(Succeed()) })
			return nil
		}, fails: "is corrupt: its database: "},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, c.signed)
			change := c.begin(r)
			config := r.into()
			if change != nil {
				change(&config)
			}
			result, err := Restore(t.Context(), config)
			if c.fails == "" {
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(result.Revision).To(Equal(c.want))
				_, revision := r.keys(databaseIn(config.DataDir))
				r.Expect(revision).To(Equal(c.want))
				return
			}
			r.Expect(err).To(MatchError(ContainSubstring(c.fails)))
			if c.check != nil {
				c.check(r, err)
			}
			r.Expect(result).To(Equal(Result{}))
			r.Expect(os.ReadDir(filepath.Dir(config.DataDir))).To(BeEmpty())
		})
	}
}

// Revisions are raised above what clients may have seen: by what is asked for, or by a margin above all that is known.
func TestRestoreRaisesTheRevision(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *trial, c *Config)
		want   int64
	}{
		"by a bump":           {func(_ *trial, c *Config) { c.Bump = 100 }, 100},
		"behind nothing else": {func(_ *trial, c *Config) { c.Behind = true }, margin},
		"behind a record":     {func(_ *trial, c *Config) { c.Behind, c.Record.Revision, c.Accept.Revision = true, 12, 3 }, margin + 9},
		"behind what is accepted as lost": {func(_ *trial, c *Config) {
			c.Behind, c.Record = true, backup.Record{Revision: 3 + margin + 4000, Accepted: 3}
		}, 2*margin + 4000},
		"behind what is known": {func(_ *trial, c *Config) { c.Behind, c.Known = true, 12 }, margin + 9},
		"behind a huge record": {func(_ *trial, c *Config) { c.Behind, c.Record.Revision, c.Accept.Revision = true, 1<<63-1, 3 }, margin + maxRevision},
		"behind a full snapshot that has more than its name says": {func(r *trial, c *Config) {
			c.Behind = true
			r.Expect(os.Remove(r.path(r.last))).To(Succeed())
			r.fullOf(2, nil)
		}, margin},
		"behind a snapshot that no chain reaches": {func(r *trial, c *Config) {
			c.Behind = true
			r.put("b=1", "b=2", "b=3")
			full := r.full()
			// Another full snapshot is newer, though it is of an earlier revision.
			r.events = r.events[:2]
			_, err := r.store.WriteDatabase(r.t.Context(), r.oldDatabase(), backup.Snapshot{Kind: backup.Full, LastRevision: 3, Created: full.Created.Add(time.Minute), Compression: backup.None})
			r.Expect(err).NotTo(HaveOccurred())
		}, margin + 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, false)
			r.put("a=1", "a=2")
			r.full()
			config := r.into()
			c.change(r, &config)
			result, err := Restore(t.Context(), config)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(result.Revision).To(BeEquivalentTo(3))
			r.Expect(result.Bump).To(Equal(c.want))
			_, revision := r.keys(databaseIn(config.DataDir))
			r.Expect(revision).To(Equal(3 + c.want))
		})
	}
}

func (r *trial) oldDatabase() string {
	path := filepath.Join(r.t.TempDir(), "db")
	r.database(path)
	return path
}

// An earlier state is exactly the one that was previewed, or none.
func TestRestoreOfAPoint(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1")
	base := r.full()
	r.put("a=2", "a=3")
	first := r.delta()
	r.put("a=4")
	r.delta()
	preview, err := Preview(t.Context(), PreviewConfig{Store: r.store, WorkDir: t.TempDir(), Target: backup.Target{Revision: 3}})
	r.Expect(err).NotTo(HaveOccurred())
	point := Point{Base: base.Name(), Revision: 3, Hash: preview.Hash, Bytes: preview.Bytes}
	for name, c := range map[string]struct {
		change func(*Point)
		fails  string
	}{
		"as previewed":          {func(*Point) {}, ""},
		"another hash":          {func(p *Point) { p.Hash++ }, "have to be put back"},
		"no such base":          {func(p *Point) { p.Base = "Full-00000000-00000001-1767268800" }, "looking for revision 3 in "},
		"no room for it":        {func(p *Point) { p.Bytes = 1 << 60 }, "checking for free space: "},
		"a revision of no hash": {func(p *Point) { p.Revision = 4 }, "HashKV at revision 4"},
	} {
		t.Run(name, func(t *testing.T) {
			r := *r
			r.WithT, r.t = NewWithT(t), t
			p, config := point, r.into()
			c.change(&p)
			config.Point = &p
			result, err := Restore(t.Context(), config)
			if c.fails != "" {
				r.Expect(err).To(MatchError(ContainSubstring(c.fails)))
				r.Expect(os.ReadDir(filepath.Dir(config.DataDir))).To(BeEmpty())
				return
			}
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(result.Revision).To(BeEquivalentTo(3))
			keys, _ := r.keys(databaseIn(config.DataDir))
			r.Expect(keys).To(Equal(map[string]string{"a": "2 2 3 2"}))
		})
	}
	r.Expect(point.verify("", 4, nil)).To(MatchError("revision 3 cannot be restored: the snapshots lead to revision 4"))

	r.Expect(os.Remove(r.path(first))).To(Succeed())
	config := r.into()
	config.Point = &point
	_, err = Restore(t.Context(), config)
	r.Expect(err).To(MatchError(And(ContainSubstring("the snapshots lead to revision 2 ("), ContainSubstring("revisions 3 to 4 are missing"))))

	r.corrupt(base)
	_, err = Restore(t.Context(), config)
	r.Expect(err).To(MatchError(ContainSubstring("snapshot " + base.Name() + " is corrupt: ")))
}

// What is compacted of nothing but a final snapshot is final as well: it may have entries that were never committed, and deltas must not continue it. One
// that a Restore has marked was taken of a cluster that went on.
func TestCompactAFinalSnapshot(t *testing.T) {
	for name, c := range map[string]struct{ marked, written, final bool }{
		"alone":        {final: true},
		"with a delta": {written: true},
		"of a Restore": {marked: true},
		"and a delta":  {marked: true, written: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, false)
			r.put("a=1")
			path := filepath.Join(t.TempDir(), "db")
			r.database(path)
			final := backup.Snapshot{Kind: backup.Full, LastRevision: r.revision(), Created: r.now(), Compression: backup.None, Final: true}
			final, err := r.store.WriteDatabase(t.Context(), path, final)
			r.Expect(err).NotTo(HaveOccurred())
			r.taken, r.last = len(r.events), final
			if c.marked {
				_, err := r.store.Keep(t.Context(), final.Name())
				r.Expect(err).NotTo(HaveOccurred())
			}
			if c.written {
				r.put("a=2")
				r.delta()
			}
			result, err := Compact(t.Context(), CompactConfig{Store: r.store, WorkDir: t.TempDir(), Compression: backup.Gzip})
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(result.Snapshot.Final).To(Equal(c.final))
			newest, err := r.store.List(t.Context())
			r.Expect(err).NotTo(HaveOccurred())
			chain, err := backup.Newest(newest)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(chain.Last().Name()).To(Equal(result.Snapshot.Name()))
		})
	}
}

// A compaction makes one full snapshot of the newest state, dated so that the deltas after it still follow.
func TestCompact(t *testing.T) {
	for name, signed := range map[string]bool{"unsigned": false, "signed": true} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, signed)
			r.put("a=1", "b=1")
			full := r.full()
			r.put("a=2", "b", "a=3")
			delta := r.delta()
			work := t.TempDir()
			r.Expect(os.MkdirAll(filepath.Join(work, "compaction", "snapshot.db"), 0o700)).To(Succeed(), "by one that was killed")
			config := CompactConfig{Store: r.store, WorkDir: work, Compression: backup.Gzip}
			result, err := Compact(t.Context(), config)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(os.ReadDir(work)).To(BeEmpty())
			r.Expect(result.Snapshot.Kind).To(Equal(backup.Full))
			r.Expect(result.Snapshot.LastRevision).To(BeEquivalentTo(6))
			r.Expect(result.Snapshot.Created).To(Equal(delta.Created))
			r.Expect(result.Snapshot.Compression).To(Equal(backup.Gzip))
			r.Expect(result.BytesBefore).To(BeNumerically(">", 0))
			r.Expect(result.BytesAfter).To(BeNumerically(">", 0))
			r.Expect(result.BytesAfter).NotTo(Equal(result.Snapshot.Size))
			if signed {
				r.Expect(result.Snapshot.Proof.History).To(Equal(full.Proof.History))
			}
			restored := r.into()
			after, err := Restore(t.Context(), restored)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(after.Chain.Full.Name()).To(Equal(result.Snapshot.Name()))
			r.Expect(after.Chain.Deltas).To(BeEmpty())
			keys, revision := r.keys(databaseIn(restored.DataDir))
			r.Expect(revision).To(BeEquivalentTo(6))
			r.Expect(keys).To(Equal(map[string]string{"a": "3 2 6 3"}))
			again, err := Compact(t.Context(), config)
			r.Expect(err).NotTo(HaveOccurred(), "it is compacted at this revision")
			r.Expect(again.Snapshot.Created).To(Equal(delta.Created.Add(time.Second)))
			r.Expect(again.BytesBefore).To(Equal(result.BytesAfter))
		})
	}
	r := newTrial(t, false)
	_, err := Compact(t.Context(), CompactConfig{Store: r.store, WorkDir: t.TempDir()})
	r.Expect(err).To(MatchError(backup.ErrNoFull))
	r.put("a=1")
	r.full()
	r.put("a=2")
	_, err = Compact(t.Context(), CompactConfig{Store: r.store, WorkDir: t.TempDir(), Compression: backup.Gzip, Record: backup.Record{Revision: 9, Created: r.now().Add(time.Hour)}})
	r.Expect(err).NotTo(HaveOccurred(), "the Leases of etcd-druid stay above the store when its revision has gone back")
	r.corrupt(r.delta())
	_, err = Compact(t.Context(), CompactConfig{Store: r.store, WorkDir: t.TempDir()})
	r.Expect(err).To(MatchError(ContainSubstring("is corrupt")))
	list, err := r.store.List(t.Context())
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(list).To(HaveLen(3))
}

// A cluster that restores the same backup again, because it has lost its volumes before its first snapshot, begins above where it began before: that is
// recorded before the data has a name. Attempts that were never used, and answers that were lost, cost revisions and nothing else.
func TestRestoreBeginsAboveWhatIsRecorded(t *testing.T) {
	r := newTrial(t, false)
	r.put("a=1", "a=2")
	r.full()
	began, with, fails := int64(0), "", error(nil)
	restore := func(change func(*Config)) (int64, error) {
		config := r.into()
		config.Token = fmt.Sprint("start at ", began)
		change(&config)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		config.Begins = func(_ context.Context, token string, at func(int64, bool) int64) (int64, error) {
			r.Expect(config.DataDir).NotTo(BeADirectory())
			began = max(began, at(began, token == with))
			if with = cmp.Or(token, with); token != "" && fails != nil {
				cancel() // the agent ends
				return 0, fails
			}
			return began, nil
		}
		if _, err := Restore(ctx, config); err != nil {
			r.Expect(config.DataDir).NotTo(BeADirectory())
			return 0, err
		}
		_, revision := r.keys(databaseIn(config.DataDir))
		return revision, nil
	}
	behind := func(c *Config) { c.Behind = true }
	wakes := func(token string) func(*Config) { return func(c *Config) { c.Token = token } }
	r.Expect(restore(wakes("1"))).To(BeEquivalentTo(3), "it goes on")
	r.Expect(restore(wakes("2"))).To(BeEquivalentTo(3), "it wakes up again, and nothing was written")
	r.Expect(restore(wakes("2"))).To(BeEquivalentTo(3+margin), "it has lost its volume")
	began = 3
	r.Expect(restore(behind)).To(BeEquivalentTo(3 + margin))
	r.Expect(restore(behind)).To(BeEquivalentTo(3 + 2*margin))
	fails = errors.New("the answer was lost")
	_, err := restore(behind)
	r.Expect(err).To(MatchError(ContainSubstring("the answer was lost")))
	fails = nil
	r.Expect(restore(func(c *Config) { c.Behind, c.Known = true, 3+margin })).To(BeEquivalentTo(3+4*margin), "a recovery")
	r.Expect(restore(func(c *Config) { c.Bump = 3 * margin })).To(BeEquivalentTo(3+5*margin), "a chosen state")
	r.Expect(restore(func(c *Config) { c.Bump = 9 * margin })).To(BeEquivalentTo(3 + 9*margin))
	r.Expect(restore(func(*Config) {})).To(BeEquivalentTo(3+10*margin), "it wakes up from a snapshot of before")
	r.put("b=1")
	r.full()
	r.Expect(restore(behind)).To(BeEquivalentTo(3+11*margin), "a snapshot that was found late")
}
