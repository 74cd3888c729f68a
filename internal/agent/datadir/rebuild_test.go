// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir/datadirtest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/cindex"
	"go.etcd.io/etcd/server/v3/lease"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	testingclock "k8s.io/utils/clock/testing"
)

// newMember returns the data directory of a member.
func newMember(t *testing.T, commit uint64, requests ...[]byte) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "new.etcd")
	datadirtest.Write(t, dir, commit, requests...)
	return dir
}

func configFor(t *testing.T, dir string) RebuildConfig {
	return RebuildConfig{
		DataDir: dir, Task: "task", Member: "m", PeerURL: "http://m:2380", Token: "token-task", PreviousClusterID: "cafe",
		Clock: testingclock.NewFakePassiveClock(time.Unix(1234, 0)), Log: testr.New(t),
	}
}

// value reads a key from a data directory.
func value(g Gomega, dir, key string) string {
	return valueIn(g, filepath.Join(dir, "member", "snap", "db"), key)
}

// valueIn reads a key from a database.
func valueIn(g Gomega, file, key string) string {
	b := backend.NewDefaultBackend(quiet, file)
	defer func() { g.Expect(b.Close()).To(Succeed()) }()
	s := mvcc.NewStore(quiet, b, &lease.FakeLessor{}, mvcc.StoreConfig{})
	defer func() { g.Expect(s.Close()).To(Succeed()) }()
	r, err := s.Range(context.Background(), []byte(key), nil, mvcc.RangeOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	if len(r.KVs) == 0 {
		return ""
	}
	return string(r.KVs[0].Value)
}

// content returns a checksum of a folder.
func content(g Gomega, dir string) string {
	h := sha256.New()
	g.Expect(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		_, _ = fmt.Fprintf(h, "%s %d ", name, len(data))
		_, _ = h.Write(data)
		return err
	})).To(Succeed())
	return string(h.Sum(nil))
}

func TestRebuildKeepsWhatTheMemberHas(t *testing.T) {
	g := NewWithT(t)
	v2 := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 9)
	v2 = protowire.AppendString(protowire.AppendTag(v2, fieldV2, protowire.BytesType), "PUT")
	v2 = protowire.AppendString(protowire.AppendTag(v2, 3, protowire.BytesType), "/0/members/7/attributes")
	dir := newMember(
		t, 4,
		datadirtest.Put("a", "1", 0),
		v2,
		datadirtest.Encode(&etcdserverpb.InternalRaftRequest{Header: &etcdserverpb.RequestHeader{ID: 2}, LeaseGrant: &etcdserverpb.LeaseGrantRequest{ID: 77, TTL: 600}}),
		datadirtest.Put("leased", "2", 77),
		datadirtest.Put("refused", "3", 78), // no such lease
		datadirtest.Encode(&etcdserverpb.InternalRaftRequest{Header: &etcdserverpb.RequestHeader{ID: 3}, DeleteRange: &etcdserverpb.DeleteRangeRequest{Key: []byte("a")}}),
		datadirtest.Put("b", "4", 0),
	)
	before := content(g, dir)
	result, err := Rebuild(t.Context(), configFor(t, dir))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(RebuildResult{Revision: 5, Replayed: 9, Uncommitted: 5}))
	for key, want := range map[string]string{"a": "", "leased": "2", "refused": "", "b": "4"} {
		g.Expect(value(g, dir, key)).To(Equal(want), key)
	}
	survey, err := Survey(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(survey.State).To(Equal(member.SurveyPresent), survey.Damage)
	g.Expect(survey.ClusterID).NotTo(BeElementOf("", "cafe"))
	g.Expect(survey.Revision).To(Equal(int64(5)))
	aside := dir + member.BeforeSuffix + "task-1234"
	g.Expect(content(g, aside)).To(Equal(before), "the data was only renamed")
	g.Expect(filepath.Glob(dir + "*")).To(ConsistOf(dir, aside))
}

// Whatever an interrupted rebuild left, another one has the same result.
func TestRebuildResumes(t *testing.T) {
	for name, interrupt := range map[string]func(g Gomega, dir, rebuilt string){
		"a partial copy": func(g Gomega, dir, _ string) {
			g.Expect(os.MkdirAll(dir+rebuildingSuffix+"/data/member/snap", 0o700)).To(Succeed())
			g.Expect(os.WriteFile(dir+rebuildingSuffix+"/data/member/snap/db", []byte("half"), 0o600)).To(Succeed())
		},
		"complete, not renamed": func(g Gomega, dir, rebuilt string) {
			g.Expect(os.CopyFS(dir+rebuildingSuffix+"/data", os.DirFS(rebuilt))).To(Succeed())
		},
		"before the renames": func(g Gomega, dir, rebuilt string) {
			g.Expect(os.CopyFS(dir+rebuiltSuffix+"task", os.DirFS(rebuilt))).To(Succeed())
		},
		"finished, its folder not removed": func(g Gomega, dir, rebuilt string) {
			g.Expect(os.CopyFS(dir+rebuiltSuffix+"task", os.DirFS(rebuilt))).To(Succeed())
			g.Expect(os.Mkdir(dir+rebuildingSuffix, 0o700)).To(Succeed())
		},
		"between the renames": func(g Gomega, dir, rebuilt string) {
			g.Expect(os.CopyFS(dir+rebuiltSuffix+"task", os.DirFS(rebuilt))).To(Succeed())
			g.Expect(os.Rename(dir, dir+member.BeforeSuffix+"task-1000")).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := newMember(t, 3, datadirtest.Put("a", "1", 0), datadirtest.Put("b", "2", 0))
			before := content(g, dir)
			rebuilt := filepath.Join(t.TempDir(), "rebuilt")
			g.Expect(os.CopyFS(rebuilt, os.DirFS(dir))).To(Succeed())
			_, err := Rebuild(t.Context(), configFor(t, rebuilt))
			g.Expect(err).NotTo(HaveOccurred())

			interrupt(g, dir, rebuilt)
			_, err = Rebuild(t.Context(), configFor(t, dir))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(value(g, dir, "b")).To(Equal("2"))
			aside, err := filepath.Glob(dir + member.BeforeSuffix + "*")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(aside).To(HaveLen(1))
			g.Expect(content(g, aside[0])).To(Equal(before))
			g.Expect(filepath.Glob(dir + "*")).To(ConsistOf(dir, aside[0]))
		})
	}
}

func TestRebuildRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		requests [][]byte
		change   func(*RebuildConfig)
		says     string
	}{
		"data of another cluster":      {[][]byte{datadirtest.Put("a", "1", 0)}, func(c *RebuildConfig) { c.PreviousClusterID = "beef" }, "holds data of cluster cafe, but cluster beef is to be recovered"},
		"an entry that cannot be read": {[][]byte{datadirtest.Put("a", "1", 0), []byte("this is no request")}, nil, "applying entry 4 of term 2"},
		"an unknown request":           {[][]byte{datadirtest.Encode(&etcdserverpb.InternalRaftRequest{ID: 5})}, nil, "applying entry 3 of term 2: etcd panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := newMember(t, 3, tc.requests...)
			before := content(g, dir)
			config := configFor(t, dir)
			if tc.change != nil {
				tc.change(&config)
			}
			_, err := Rebuild(t.Context(), config)
			g.Expect(err).To(MatchError(ContainSubstring(tc.says)))
			g.Expect(content(g, dir)).To(Equal(before))
			g.Expect(filepath.Glob(dir + "*")).To(ConsistOf(dir))
		})
	}
}

func TestRebuildNeedsSpace(t *testing.T) {
	g := NewWithT(t)
	g.Expect(checkSpace(t.TempDir(), 1)).To(Succeed())
	g.Expect(checkSpace(t.TempDir(), 1<<60)).To(MatchError(MatchRegexp(`1152921504606846976 bytes are needed on the volume of .*, but only \d+ are free`)))
	s := stopped{database: database{bytes: 100}, log: &writeAheadLog{bytes: 10}}
	g.Expect(s.needs()).To(BeNumerically(">", 120))
}

func TestSurvey(t *testing.T) {
	original := newMember(t, 3, datadirtest.Put("big", string(bytes.Repeat([]byte("x"), 500_000)), 0), datadirtest.Put("b", "2", 0))
	_, err := Rebuild(t.Context(), configFor(t, original))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	db := func(dir string) string { return filepath.Join(dir, "member", "snap", "db") }
	log := func(dir string) string { return filepath.Join(dir, "member", "wal") }
	for _, tc := range []struct {
		name   string
		change func(g Gomega, dir string)
		want   member.SurveyState
		damage string
	}{
		{"good", func(Gomega, string) {}, member.SurveyPresent, ""},
		{"no directory", func(g Gomega, dir string) { g.Expect(os.RemoveAll(dir)).To(Succeed()) }, member.SurveyNone, ""},
		{"the log is gone", func(g Gomega, dir string) { g.Expect(os.RemoveAll(log(dir))).To(Succeed()) }, member.SurveyDamaged, "the write-ahead log is missing"},
		{"the database is gone", func(g Gomega, dir string) { g.Expect(os.RemoveAll(filepath.Dir(db(dir)))).To(Succeed()) }, member.SurveyDamaged, "the database: it is missing"},
		{
			"the pages of the database", func(g Gomega, dir string) {
				data, err := os.ReadFile(db(dir))
				g.Expect(err).NotTo(HaveOccurred())
				for page := 2 * os.Getpagesize(); page < len(data); page += os.Getpagesize() {
					copy(data[page:], bytes.Repeat([]byte("not by etcd"), 20))
				}
				g.Expect(os.WriteFile(db(dir), data, 0o600)).To(Succeed())
			},
			member.SurveyDamaged, "the database: ",
		},
		{
			"the value of a key", func(g Gomega, dir string) {
				b, err := bolt.Open(db(dir), 0o600, nil)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(b.Update(func(tx *bolt.Tx) error {
					bucket := tx.Bucket(schema.Key.Name())
					k, _ := bucket.Cursor().First()
					return bucket.Put(k, []byte("not by etcd"))
				})).To(Succeed())
				g.Expect(b.Close()).To(Succeed())
			},
			member.SurveyDamaged, "the database: revision 2_0 cannot be read: ",
		},
		{
			"no bbolt database", func(g Gomega, dir string) {
				g.Expect(os.WriteFile(db(dir), make([]byte, 65536), 0o600)).To(Succeed())
			},
			member.SurveyDamaged, "the database: invalid database",
		},
		{
			"a truncated database", func(g Gomega, dir string) { g.Expect(os.Truncate(db(dir), 64<<10)).To(Succeed()) },
			member.SurveyDamaged, "the database: ",
		},
		{
			"a record of the log", func(g Gomega, dir string) {
				name := filepath.Join(log(dir), "0000000000000000-0000000000000000.wal")
				data, err := os.ReadFile(name)
				g.Expect(err).NotTo(HaveOccurred())
				copy(data[200:], "this was not written by etcd")
				g.Expect(os.WriteFile(name, data, 0o600)).To(Succeed())
			},
			member.SurveyDamaged, "the write-ahead log: ",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			dir := filepath.Join(t.TempDir(), "new.etcd")
			g.Expect(os.CopyFS(dir, os.DirFS(original))).To(Succeed())
			tc.change(g, dir)
			before := content(g, filepath.Dir(dir))
			got, err := Survey(dir)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.State).To(Equal(tc.want), got.Damage)
			g.Expect(got.Damage).To(HavePrefix(tc.damage))
			g.Expect(got.Damage == "").To(Equal(tc.damage == ""), got.Damage)
			if tc.want == member.SurveyPresent {
				g.Expect(got.LastIndex).To(Equal(uint64(1)), "a recovered cluster starts a new log")
				g.Expect(got.Revision).To(Equal(int64(3)))
				g.Expect(got.MaxRevision()).To(Equal(int64(3)), "the database has all of the log")
				g.Expect(got.Hash).NotTo(BeZero())
				g.Expect(got.Voters).To(Equal([]string{got.MemberID}))
				g.Expect(got.Bytes).To(BeNumerically(">", 500_000))
			}
			g.Expect(content(g, filepath.Dir(dir))).To(Equal(before), "the survey changes nothing")
		})
	}
}

// A new member that has received nothing yet has no data.
func TestSurveyOfANewMember(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "new.etcd")
	g.Expect(os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700)).To(Succeed())
	newLog(t, filepath.Join(dir, "member", "wal")).close()
	got, err := Survey(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.State).To(Equal(member.SurveyNone))
	g.Expect(got.ClusterID).To(Equal("cafe"))
}

// So may that of a member which had just joined a recovered cluster, and set aside what it had before.
func TestSurveyOfANewMemberNamesWhatWasSetAside(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "new.etcd")
	g.Expect(os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700)).To(Succeed())
	g.Expect(os.MkdirAll(dir+".before-task-1", 0o700)).To(Succeed())
	newLog(t, filepath.Join(dir, "member", "wal")).close()
	got, err := Survey(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.ClusterID).To(Equal("cafe"))
	g.Expect(got.SetAside).To(Equal([]string{"new.etcd.before-task-1"}))
}

// A volume without data may have the only copy beside it. What a learner replaced is none.
func TestSurveyNamesWhatWasSetAside(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "new.etcd")
	for _, suffix := range []string{".aside-1", ".before-task-1", ".rebuilt-task", ".rebuilding", ".replaced-1"} {
		g.Expect(os.MkdirAll(dir+suffix, 0o700)).To(Succeed())
	}
	got, err := Survey(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Free).To(BeNumerically(">", 0))
	got.Free = 0
	g.Expect(got).To(Equal(member.Survey{State: member.SurveyNone, SetAside: []string{"new.etcd.before-task-1", "new.etcd.aside-1", "new.etcd.rebuilt-task"}, Kept: []string{"new.etcd.before-task-1"}, Needs: map[string]int64{"new.etcd.before-task-1": member.Unreadable}, KeptRevisions: map[string]int64{}}))
}

// The data from before restores is named in the order in which it was set aside, whatever the present data is; only so much.
func TestSurveyNamesWhatIsKept(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(t.TempDir(), "new.etcd")
	for _, suffix := range []string{".before-9-8-1", ".before-task-2", ".before-a-100", ".before-b-90", ".before-c-3", ".before-d-4", ".before-e-5", ".before-f-6", ".before-g-7"} {
		g.Expect(os.MkdirAll(dir+suffix, 0o700)).To(Succeed())
	}
	names, err := kept(dir, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(names).To(HaveLen(maxKept))
	g.Expect(names[0]).To(Equal("new.etcd.before-task-2"))
	g.Expect(names[maxKept-2:]).To(Equal([]string{"new.etcd.before-b-90", "new.etcd.before-a-100"}))
}

// A survey says what an undo takes: as much as the rebuild itself checks for, of the newest data that was set aside.
func TestSurveySaysWhatAnUndoNeeds(t *testing.T) {
	g := NewWithT(t)
	g.Expect(member.LogSize).To(BeEquivalentTo(2*wal.SegmentSizeBytes), "what etcd allocates")
	g.Expect(member.NeedsOfRestore(100)).To(BeEquivalentTo(200 + member.LogSize))
	dir, rebuilt := newMember(t, 3, datadirtest.Put("key", "value", 0)), newMember(t, 3, datadirtest.Put("key", "value", 0))
	_, err := Rebuild(t.Context(), configFor(t, rebuilt))
	g.Expect(err).NotTo(HaveOccurred())
	for _, kept := range []string{".before-older-4", ".before-task-5", ".before-task-6"} {
		g.Expect(os.CopyFS(dir+kept, os.DirFS(dir))).To(Succeed())
	}
	g.Expect(os.RemoveAll(filepath.Join(dir+".before-task-6", "member"))).To(Succeed(), "a crash has set aside what was not started yet")
	db, err := os.ReadFile(filepath.Join(rebuilt, "member", "snap", "db"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(dir+".before-task-5", "member", "snap", "db"), db, 0o600)).To(Succeed())
	source, err := open(dir + ".before-task-5")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(source.log.bytes).To(BeNumerically(">", 0))
	got, err := Survey(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Kept).To(HaveLen(3))
	g.Expect(got.Needs).To(Equal(map[string]int64{
		"new.etcd.before-task-5": source.database.bytes + 2*source.log.bytes + member.LogSize, "new.etcd.before-task-6": member.Unreadable,
	}))
	g.Expect(got.KeptRevisions).To(Equal(map[string]int64{"new.etcd.before-task-5": 3}), "at most: the database begins before the write that it has")
}

// An undo of an earlier task is told what that takes, however much was set aside since: the newest eight are named otherwise.
func TestSurveyForAnUndoOfAnEarlierTask(t *testing.T) {
	g := NewWithT(t)
	dir := newMember(t, 3, datadirtest.Put("key", "value", 0))
	for _, kept := range []string{".before-task-3", ".before-task-4", ".before-tasks-5"} {
		g.Expect(os.CopyFS(dir+kept, os.DirFS(dir))).To(Succeed())
	}
	for i := range maxKept {
		g.Expect(os.Mkdir(fmt.Sprintf("%s.before-newer-%d", dir, 10+i), 0o700)).To(Succeed())
	}
	got, err := SurveyFor(dir, "task")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Kept).To(HaveLen(maxKept))
	g.Expect(got.Kept).To(ContainElements("new.etcd.before-task-3", "new.etcd.before-task-4", "new.etcd.before-newer-17"))
	g.Expect(got.KeptRevisions).To(Equal(map[string]int64{"new.etcd.before-task-3": 2, "new.etcd.before-task-4": 2}))
	got, err = SurveyFor(dir, "gone")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Needs).To(HaveKeyWithValue("new.etcd.before-newer-17", BeEquivalentTo(member.Unreadable)))
}

// Kept data whose database is damaged beneath readable metadata is not what an undo can rely on.
func TestSurveyReadsAllOfWhatIsKept(t *testing.T) {
	g := NewWithT(t)
	dir := withDatabase(t, 3, datadirtest.Put("key", "value", 0))
	g.Expect(os.CopyFS(dir+".before-task-5", os.DirFS(dir))).To(Succeed())
	got, err := Survey(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Needs).To(HaveKeyWithValue("new.etcd.before-task-5", BeNumerically(">", 0)))
	update(g, filepath.Join(dir+".before-task-5", "member", "snap", "db"), func(tx *bolt.Tx) error {
		return tx.Bucket(schema.Key.Name()).Put(mvcc.RevToBytes(mvcc.Revision{Main: 1}, mvcc.NewRevBytes()), []byte("\xff not a change"))
	})
	_, err = open(dir + ".before-task-5")
	g.Expect(err).NotTo(HaveOccurred(), "its metadata is readable")
	got, err = Survey(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.Needs).To(Equal(map[string]int64{"new.etcd.before-task-5": member.Unreadable}))
}

// What was kept reaches as far as its log, also if the database was not written to the end: an undo took the final snapshot in its place.
func TestKeptDataReachesAsFarAsItsLog(t *testing.T) {
	for _, applied := range []uint64{3, 4, 5} {
		g := NewWithT(t)
		dir := withDatabase(t, applied, datadirtest.Put("a", "1", 0), datadirtest.Put("b", "2", 0), datadirtest.Put("a", "3", 0))
		g.Expect(os.Rename(dir, dir+".before-task-5")).To(Succeed())
		got, err := Survey(dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.KeptRevisions).To(Equal(map[string]int64{"new.etcd.before-task-5": 4}))
	}
}

// The voters follow from the log: what it begins with, and the changes that it has.
func TestSurveyReportsTheVoters(t *testing.T) {
	type change struct {
		kind raftpb.ConfChangeType
		id   uint64
	}
	grown := []change{
		{raftpb.ConfChangeAddNode, 7},
		{raftpb.ConfChangeAddNode, 8},
		{raftpb.ConfChangeAddLearnerNode, 9},
		{raftpb.ConfChangeAddLearnerNode, 10},
		{raftpb.ConfChangeRemoveNode, 8},
		{raftpb.ConfChangeAddNode, 8},  // refused
		{raftpb.ConfChangeAddNode, 10}, // promoted
	}
	// etcd 3.5.17 has recorded no promotion, and a member that was removed.
	wrong := []string{`{"id":7}`, `{"id":8,"isLearner":true}`, `{"id":9,"isLearner":true}`, `{"id":12}`}
	for name, c := range map[string]struct {
		snapshot uint64 // index of the snapshot that the log begins with
		begins   *raftpb.ConfState
		changes  []change // after it
		members  []string // in the database
		applied  uint64
		voters   []string
		// uncommitted is how many entries at the end of the log the member does not know to be committed, and committed are the voters before them.
		uncommitted uint64
		committed   []string
	}{
		"a removal that is not committed":               {changes: grown[:5], voters: []string{"7"}, uncommitted: 1, committed: []string{"7", "8"}},
		"a promotion that is not committed":             {changes: grown, voters: []string{"7", "a"}, uncommitted: 1, committed: []string{"7"}},
		"several changes that are not committed":        {changes: grown, voters: []string{"7", "a"}, uncommitted: 5, committed: []string{"7", "8"}},
		"a learner whose addition is not committed":     {changes: grown[:4], voters: []string{"7", "8"}, uncommitted: 1},
		"a removal after a snapshot":                    {snapshot: 50, begins: &raftpb.ConfState{Voters: []uint64{7, 8, 9}}, changes: grown[4:5], members: wrong, applied: 50, voters: []string{"7", "9"}, uncommitted: 1, committed: []string{"7", "8", "9"}},
		"a removal that the database has, not the log":  {snapshot: 50, begins: &raftpb.ConfState{}, changes: grown[4:], members: wrong, applied: 53, voters: []string{"7", "c"}, uncommitted: 3},
		"a log from the beginning":                      {changes: grown, voters: []string{"7", "a"}},
		"the same, with a database":                     {changes: grown, members: wrong, applied: 7, voters: []string{"7", "a"}},
		"a log that begins with a snapshot":             {snapshot: 50, begins: &raftpb.ConfState{Voters: []uint64{7, 8, 9}}, members: wrong, applied: 50, voters: []string{"7", "8", "9"}},
		"the same, and changes that the database has":   {snapshot: 50, begins: &raftpb.ConfState{Voters: []uint64{7, 8, 9}}, changes: grown[4:], members: wrong, applied: 53, voters: []string{"7", "9", "a"}},
		"the same, and changes that it lacks":           {snapshot: 50, begins: &raftpb.ConfState{Voters: []uint64{7, 8, 9}}, changes: grown[4:], members: wrong, applied: 50, voters: []string{"7", "9", "a"}},
		"a snapshot of etcd 3.4":                        {snapshot: 50, begins: &raftpb.ConfState{}, changes: grown[6:], members: wrong, applied: 50, voters: []string{"7", "a", "c"}},
		"the same, and a change that the database has":  {snapshot: 50, begins: &raftpb.ConfState{}, changes: grown[4:], members: wrong, applied: 53, voters: []string{"7", "c"}},
		"a database with entries that the log has lost": {snapshot: 50, begins: &raftpb.ConfState{Voters: []uint64{7, 8, 9}}, members: wrong, applied: 60, voters: []string{"7", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			dir := filepath.Join(t.TempDir(), "new.etcd")
			g.Expect(os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700)).To(Succeed())
			smallSegments(t)
			l := newLog(t, filepath.Join(dir, "member", "wal"))
			if c.snapshot > 0 {
				g.Expect(l.wal.SaveSnapshot(&walpb.Snapshot{Index: &c.snapshot, Term: proto.Uint64(1), ConfState: c.begins})).To(Succeed())
			}
			var entries []*raftpb.Entry
			for i, c2 := range c.changes {
				entries = append(entries, &raftpb.Entry{
					Index: proto.Uint64(c.snapshot + uint64(i+1)), Term: proto.Uint64(1), Type: raftpb.EntryConfChange.Enum(),
					Data: datadirtest.Encode(&raftpb.ConfChange{Type: c2.kind.Enum(), NodeId: proto.Uint64(c2.id)}),
				})
			}
			g.Expect(l.wal.Save(&raftpb.HardState{Term: proto.Uint64(1), Commit: proto.Uint64(max(c.snapshot+uint64(len(entries))-c.uncommitted, 1))}, entries)).To(Succeed())
			l.close()
			if c.members != nil {
				path := filepath.Join(dir, "member", "snap", "db")
				g.Expect(makeDatabase(path)).To(Succeed())
				update(g, path, func(tx *bolt.Tx) error {
					for i, m := range c.members {
						g.Expect(tx.Bucket(schema.Members.Name()).Put([]byte{byte(i)}, []byte(m))).To(Succeed())
					}
					return errors.Join(
						tx.Bucket(schema.Meta.Name()).Put(schema.MetaConsistentIndexKeyName, binary.BigEndian.AppendUint64(nil, c.applied)),
						tx.Bucket(schema.Meta.Name()).Put(schema.MetaTermKeyName, binary.BigEndian.AppendUint64(nil, 1)))
				})
			}
			got, err := Survey(dir)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got.State).To(Equal(member.SurveyPresent), got.Damage)
			g.Expect(got.Voters).To(Equal(c.voters))
			g.Expect(got.CommittedVoters).To(Equal(c.committed))
		})
	}
}

// A member was stopped after it had received a snapshot, before the snapshot became its database.
func TestReceivedDatabase(t *testing.T) {
	g := NewWithT(t)
	dir := newMember(t, 3, datadirtest.Put("a", "1", 0))
	_, err := Rebuild(t.Context(), configFor(t, dir))
	g.Expect(err).NotTo(HaveOccurred())
	snap := filepath.Join(dir, "member", "snap")
	usual, err := findDatabase(snap, position{1, 1})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(usual.path).To(Equal(filepath.Join(snap, "db")))
	_, err = findDatabase(snap, position{1, 16})
	g.Expect(err).To(MatchError("it ends at entry 1, and the log begins after entry 16"))

	received := filepath.Join(snap, "0000000000000010.snap.db")
	data, err := os.ReadFile(usual.path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(received, data, 0o600)).To(Succeed())
	_, err = findDatabase(snap, position{1, 16})
	g.Expect(err).To(MatchError(ContainSubstring("it ends at entry 1")), "the received database is incomplete")
	setApplied(g, received, 16)
	found, err := findDatabase(snap, position{1, 16})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.path).To(Equal(received))
	g.Expect(os.Remove(filepath.Join(snap, "db"))).To(Succeed())
	found, err = findDatabase(snap, position{1, 16})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(found.path).To(Equal(received))
}

func setApplied(g Gomega, path string, index uint64) {
	b := backend.NewDefaultBackend(quiet, path)
	cindex.UpdateConsistentIndexForce(b.BatchTx(), index, 1)
	g.Expect(b.Close()).To(Succeed())
}

func TestSurveyIsShortEnoughForATerminationMessage(t *testing.T) {
	NewWithT(t).Expect(len(shorten(string(bytes.Repeat([]byte("ä"), 5000))))).To(BeNumerically("<", maxDamage+10))
}

// What is made for a task has one ID on each volume, which is neither that of another task nor of another volume, nor one that was not written
// to its end.
func TestCopyID(t *testing.T) {
	g := NewWithT(t)
	here, there := filepath.Join(t.TempDir(), "new.etcd"), filepath.Join(t.TempDir(), "new.etcd")
	g.Expect(os.WriteFile(here+".copy-task.new", []byte("A"), 0o600)).To(Succeed(), "it was interrupted")
	seen := map[string]bool{}
	for _, c := range []struct{ dir, task string }{{here, "task"}, {here, "task-2"}, {there, "task"}} {
		id, err := CopyID(c.dir, c.task)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(id).To(MatchRegexp(`^[A-Z2-7]{26}$`))
		g.Expect(seen).NotTo(HaveKey(id))
		seen[id] = true
		g.Expect(CopyID(c.dir, c.task)).To(Equal(id), "again")
	}
	g.Expect(os.Mkdir(here+".copy-illegible", 0o700)).To(Succeed())
	_, err := CopyID(here, "illegible")
	g.Expect(err).To(HaveOccurred())
	_, err = CopyID(filepath.Join(here, "missing", "new.etcd"), "task")
	g.Expect(err).To(HaveOccurred())
}

// Where a rebuilt cluster begins is recorded before its data has a name, and a second one begins above. While nothing can be recorded, nothing is made.
func TestRebuildBeginsAboveWhatIsRecorded(t *testing.T) {
	g := NewWithT(t)
	began := int64(0)
	rebuild := func(fails error) (int64, error) {
		dir := newMember(t, 3, datadirtest.Put("a", "1", 0))
		config := configFor(t, dir)
		config.Known = 40
		config.Begins = func(_ context.Context, token string, at func(int64, bool) int64) (int64, error) {
			g.Expect(token).To(BeElementOf("", config.Token))
			g.Expect(RebuiltDir(dir, "task")).NotTo(BeADirectory())
			began = max(began, at(began, false))
			return began, fails
		}
		if _, err := Rebuild(t.Context(), config); err != nil {
			g.Expect(filepath.Glob(dir + "*")).To(ConsistOf(dir))
			return 0, err
		}
		revision := int64(0)
		g.Expect(view(filepath.Join(dir, "member", "snap", "db"), func(tx *bolt.Tx) error { revision = revisionOf(tx); return nil })).To(Succeed())
		return revision, nil
	}
	_, err := rebuild(errors.New("away"))
	g.Expect(err).To(MatchError(ContainSubstring("recording at which revision the cluster begins")))
	g.Expect(began).To(BeZero(), "it is asked first")
	for range 3 {
		before := began
		revision, err := rebuild(nil)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(revision).To(Equal(began))
		g.Expect(began).To(Equal(max(before, 40) + Margin))
	}
}
