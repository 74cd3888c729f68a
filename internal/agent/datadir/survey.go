// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// stopped is the data of a stopped member.
type stopped struct {
	log      *writeAheadLog
	database database
}

// last returns the position of the member's last entry. A database ahead of its log has entries that the log lost.
func (s stopped) last() position {
	if s.database.applied.compare(s.log.last()) > 0 {
		return s.database.applied
	}
	return s.log.last()
}

// open reads a data directory, without checking the whole database.
func open(dir string) (stopped, error) {
	log, err := readLog(filepath.Join(dir, "member", "wal"))
	if err != nil {
		return stopped{}, fmt.Errorf("the write-ahead log: %w", err)
	}
	db, err := findDatabase(filepath.Join(dir, "member", "snap"), log.snapshot)
	if err != nil {
		return stopped{log: log}, fmt.Errorf("the database: %w", err)
	}
	return stopped{log, db}, nil
}

// voters returns the IDs, in hex, of the voters after the last entry, and of those after the last entry that the member knows to be committed. As
// etcd does when it starts, it takes the commit index from the log: what the member has learned since is not on disk.
func (s stopped) voters() (last, committed []string, err error) {
	voters, after := s.votersBefore()
	removed, atCommit := map[uint64]bool{}, maps.Clone(voters)
	if after < s.log.last().index {
		err := s.log.entries(after, func(entry *raftpb.Entry) error {
			if entry.GetType() != raftpb.EntryConfChange {
				return nil
			}
			change := &raftpb.ConfChange{}
			if err := proto.Unmarshal(entry.Data, change); err != nil {
				return fmt.Errorf("decoding a change of members: %w", err)
			}
			switch id := change.GetNodeId(); change.GetType() {
			case raftpb.ConfChangeAddNode:
				// etcd refuses a member that was removed, also when such an entry is in the log.
				voters[id] = !removed[id]
			case raftpb.ConfChangeRemoveNode:
				voters[id], removed[id] = false, true
			}
			if entry.GetIndex() <= s.log.commit {
				atCommit = maps.Clone(voters)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return idsOf(voters), idsOf(atCommit), nil
}

// idsOf returns the IDs, in hex, of those that vote.
func idsOf(voters map[uint64]bool) (ids []string) {
	for id, votes := range voters {
		if votes {
			ids = append(ids, strconv.FormatUint(id, 16))
		}
	}
	slices.Sort(ids)
	return ids
}

// votersBefore returns the voters before the entries that follow an index. It trusts the log more than the database: the databases of etcd
// 3.5.1 to 3.5.19 never show that a learner was promoted (etcd-io/etcd#19557), and until 3.5.25 some name members that were removed
// (etcd-io/etcd#20793). The database counts only if the log has no voters, as before etcd 3.5, or has lost entries.
func (s stopped) votersBefore() (voters map[uint64]bool, after uint64) {
	log, applied := s.log, s.database.applied.index
	if at := log.snapshot.index; applied <= log.last().index && (at == 0 || len(log.configuration.GetVoters()) > 0) {
		voters = map[uint64]bool{}
		for _, id := range log.configuration.GetVoters() {
			voters[id] = true
		}
		return voters, at
	}
	return maps.Clone(s.database.voters), max(applied, log.snapshot.index)
}

// reaches returns the highest revision that the data may reach once its log is replayed: each entry that the database lacks adds one revision
// at most. The database must have been checked.
func (s stopped) reaches() (int64, error) {
	revision := max(s.database.revision, 1) // of an empty database
	if s.database.applied.index >= s.log.last().index {
		return revision, nil
	}
	return revision, s.log.entries(max(s.database.applied.index, s.log.snapshot.index), func(entry *raftpb.Entry) error {
		request, err := requestOf(entry)
		if err == nil && request != nil && (request.Put != nil || request.DeleteRange != nil || request.Txn != nil) {
			revision++
		}
		return err
	})
}

// Survey reads the data directory of a stopped member completely: every record of the log with its checksum, and every page of
// the database. If the content cannot be read for other reasons, it returns an error.
func Survey(dir string) (member.Survey, error) { return SurveyFor(dir, "") }

// SurveyFor surveys as Survey does, for an undo of a task: of the kept data, it describes what was set aside for that task, not for the newest. For
// member.KeptForNone, it describes none of it.
func SurveyFor(dir, task string) (member.Survey, error) {
	survey, err := surveyData(dir)
	if err == nil && survey.State != member.SurveyPresent {
		survey.SetAside, err = setAside(dir)
	}
	if err == nil {
		survey.Kept, err = kept(dir, task)
	}
	if err == nil && task != member.KeptForNone {
		survey.Needs, survey.KeptRevisions = describeKept(dir, survey.Kept)
	}
	if err == nil {
		survey.Free, err = freeSpace(filepath.Dir(dir))
	}
	return survey, err
}

// maxKept is how many directories with kept data a survey names.
const maxKept = 8

// kept returns the directories with data from before recoveries and restores, the newest ones in the order in which they were set aside. Those of a
// task that is undone come last; it is empty if none is.
func kept(dir, task string) ([]string, error) {
	names, err := named(dir, member.BeforeSuffix)
	at := func(name string) int64 {
		if task != "" && strings.HasPrefix(name, filepath.Base(dir)+member.BeforeSuffix+task+"-") {
			return math.MaxInt64
		}
		n, _ := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 64) // 0 for a name that a person has given
		return n
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(at(a), at(b)) })
	return names[max(len(names)-maxKept, 0):], err
}

// describeKept returns, for kept data, how many bytes a rebuild from it takes, and the revisions that it reaches. It describes only the
// directories of the task that has set the last of them aside: one restore is undone at a time, and reading takes time. It reads them completely,
// since an undo that is recorded relies on them.
func describeKept(dir string, kept []string) (needs, revisions map[string]int64) {
	if len(kept) == 0 {
		return nil, nil
	}
	last := kept[len(kept)-1]
	needs, revisions = map[string]int64{}, map[string]int64{}
	for _, name := range kept {
		if name[:strings.LastIndexByte(name, '-')] != last[:strings.LastIndexByte(last, '-')] {
			continue
		}
		needs[name] = member.Unreadable
		data, err := open(filepath.Join(filepath.Dir(dir), name))
		if err == nil {
			err = data.database.check()
		}
		reaches := int64(0)
		if err == nil {
			reaches, err = data.reaches()
		}
		if err == nil {
			needs[name], revisions[name] = data.needs(), reaches
		}
	}
	return needs, revisions
}

func surveyData(dir string) (member.Survey, error) {
	found, err := Inspect(dir)
	if err != nil {
		return member.Survey{}, err
	}
	if found.State == member.DataNone {
		return surveyWithoutLog(dir)
	}
	survey := member.Survey{State: member.SurveyPresent, ClusterID: found.ClusterID, Removed: found.Removed}
	damaged := func(err error) (member.Survey, error) {
		if isIOError(err) {
			return member.Survey{}, fmt.Errorf("reading %s: %w", dir, err)
		}
		survey.State, survey.Damage = member.SurveyDamaged, shorten(err.Error())
		return survey, nil
	}
	data, err := open(dir)
	if log := data.log; log != nil {
		survey.ClusterID, survey.MemberID = strconv.FormatUint(log.clusterID, 16), strconv.FormatUint(log.memberID, 16)
		survey.CommitIndex = log.commit
		survey.LastTerm, survey.LastIndex = data.last().term, data.last().index
	}
	if err != nil {
		return damaged(err)
	}
	if survey.Voters, survey.CommittedVoters, err = data.voters(); err != nil {
		return damaged(fmt.Errorf("the write-ahead log: %w", err))
	}
	if slices.Equal(survey.CommittedVoters, survey.Voters) {
		survey.CommittedVoters = nil
	}
	db := data.database
	survey.Bytes, survey.AppliedIndex = db.bytes, db.applied.index
	if err := db.check(); err != nil {
		return damaged(fmt.Errorf("the database: %w", err))
	}
	survey.Revision, survey.Hash = db.revision, db.hash
	switch {
	case found.State == member.DataDamaged:
		return damaged(errors.New(found.Damage))
	case data.last().index == 0:
		// The member was added, but has not received anything yet.
		survey.State = member.SurveyNone
	}
	return survey, nil
}

// surveyWithoutLog distinguishes a member that never ran from one that lost its log. A database without its log may lack
// entries that the member acknowledged.
func surveyWithoutLog(dir string) (member.Survey, error) {
	db, err := findDatabase(filepath.Join(dir, "member", "snap"), position{})
	switch {
	case isIOError(err):
		return member.Survey{}, fmt.Errorf("reading %s: %w", dir, err)
	case err == nil && db.applied.index == 0:
		return member.Survey{State: member.SurveyNone}, nil
	}
	return member.Survey{State: member.SurveyDamaged, Damage: "the write-ahead log is missing", Bytes: db.bytes}, nil
}

// maxSetAside is how many directories a survey names.
const maxSetAside = 3

// setAside returns the directories beside a data directory that may hold the only copy of its data: damaged data, data from before a
// recovery, data of a removed member, and rebuilt data without its final name. Data that a learner has replaced is not among them, since a
// quorum has it.
func setAside(dir string) (names []string, err error) {
	for _, suffix := range []string{member.BeforeSuffix, member.AsideSuffix, member.RemovedSuffix, rebuiltSuffix} {
		found, err := named(dir, suffix)
		if err != nil {
			return nil, err
		}
		names = append(names, found...)
	}
	return names[:min(len(names), maxSetAside)], nil
}

// named returns the directories beside a data directory whose names begin with its name and a suffix.
func named(dir, suffix string) (names []string, err error) {
	found, err := filepath.Glob(dir + suffix + "*")
	if err != nil {
		return nil, fmt.Errorf("looking for data beside %s: %w", dir, err)
	}
	for _, path := range found {
		names = append(names, filepath.Base(path))
	}
	return names, nil
}

// maxDamage, in bytes, leaves room for the rest of a survey in the termination message of a container.
const maxDamage = 1000

func shorten(s string) string {
	if len(s) <= maxDamage {
		return s
	}
	return strings.ToValidUTF8(s[:maxDamage], "") + " ..."
}
