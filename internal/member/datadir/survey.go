// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// stopped is what the data directory of a member holds that does not run.
type stopped struct {
	log      *writeAheadLog
	database database
}

// last is the last entry that the member has. A database that is ahead of its log has entries that the log has lost.
func (s stopped) last() position {
	if s.database.applied.compare(s.log.last()) > 0 {
		return s.database.applied
	}
	return s.log.last()
}

// open reads a data directory, and does not look into the depth of the database.
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

// voters are the IDs, in hex, of the members that vote after the last entry.
func (s stopped) voters() ([]string, error) {
	voters := map[uint64]bool{}
	maps.Copy(voters, s.database.voters)
	if s.database.applied.index < s.log.last().index {
		err := s.log.entries(s.database.applied.index, func(entry *raftpb.Entry) error {
			if entry.GetType() != raftpb.EntryConfChange {
				return nil
			}
			change := &raftpb.ConfChange{}
			if err := proto.Unmarshal(entry.Data, change); err != nil {
				return fmt.Errorf("decoding a change of members: %w", err)
			}
			switch change.GetType() {
			case raftpb.ConfChangeAddNode:
				voters[change.GetNodeId()] = true
			case raftpb.ConfChangeRemoveNode:
				delete(voters, change.GetNodeId())
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	var ids []string
	for id := range voters {
		ids = append(ids, strconv.FormatUint(id, 16))
	}
	slices.Sort(ids)
	return ids, nil
}

// Survey looks at what is in the data directory of a member that does not run, as thoroughly as can be done without
// changing anything: every record of the log with its checksum, and every page of the database. What cannot be read for
// a reason other than its content is an error.
func Survey(dir string) (member.Survey, error) {
	found, err := Inspect(dir)
	if err != nil {
		return member.Survey{}, err
	}
	if found.State == member.DataNone {
		return surveyWithoutLog(dir)
	}
	survey := member.Survey{State: member.SurveyPresent, ClusterID: found.ClusterID}
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
	if survey.Voters, err = data.voters(); err != nil {
		return damaged(fmt.Errorf("the write-ahead log: %w", err))
	}
	db := data.database
	survey.Bytes = db.bytes
	if err := db.check(); err != nil {
		return damaged(fmt.Errorf("the database: %w", err))
	}
	survey.Revision, survey.Hash = db.revision, db.hash
	switch {
	case found.State == member.DataDamaged:
		return damaged(errors.New(found.Damage))
	case data.last().index == 0:
		// A member that was added, and has not been sent anything yet.
		survey.State = member.SurveyNone
	}
	return survey, nil
}

// surveyWithoutLog tells a member that never ran from one that has lost its log. What is in the database alone is no
// longer known to be all that the member has acknowledged.
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

// maxDamage bytes leave room for the rest of a survey in the termination message of a container.
const maxDamage = 1000

func shorten(s string) string {
	if len(s) <= maxDamage {
		return s
	}
	return strings.ToValidUTF8(s[:maxDamage], "") + " ..."
}
