// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package maintenance is the task type OnDemandMaintenance: it compacts the key space of a cluster to the current
// revision, and defragments the database of its members, one at a time, the leader last and not while it leads.
//
// It observes, decides and acts. decide is a pure function; it knows earlier steps from the task's status.result, where each step is
// recorded as an intent before it is carried out. So an operator that takes over knows which members it must not defragment again.
package maintenance

import (
	"fmt"
	"slices"
	"strings"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/tasks"
)

// Input is everything that a decision rests on.
type Input struct {
	Config   Operations
	Snapshot *cluster.Snapshot
	// Databases of the members that answer reads, by ordinal.
	Databases map[int]etcdclient.Database
	// Alarms of the cluster; AlarmsKnown is false if no member reported them.
	Alarms      []etcdclient.Alarm
	AlarmsKnown bool
	// Recorded is the task's status.result.
	Recorded map[string]string
	// Completed is the name of the newest step that this operator knows to be carried out.
	Completed string
	// Failed is the name of the step that is not requested again after Failure; empty for none.
	Failed  string
	Failure error
}

// Action is a kind of step.
type Action string

// The actions.
const (
	compact    Action = "Compact"
	defragment Action = "Defragment"
	moveLeader Action = "MoveLeader"
	disarm     Action = "DisarmAlarm"
)

// Step is one action on a cluster.
type Step struct {
	Action Action
	// Ordinal of the member that gets the request, and for moveLeader that of its Successor.
	Ordinal, Successor int
	// Revision to compact to.
	Revision int64
	// Alarm to disarm.
	Alarm etcdclient.Alarm
	// Reason is a sentence: why this, and why now.
	Reason string
}

// name identifies the step within its task.
func (s Step) name(members []cluster.Ordinal) string {
	if s.Action == compact {
		return string(compact)
	}
	return string(s.Action) + " " + members[s.Ordinal].Name
}

// Decision is what to do next, and why.
type Decision struct {
	// Outcome is Continue, Done or Fail; Code goes with Fail.
	Outcome tasks.Outcome
	Code    v1alpha1.ErrorCode
	// Step to carry out. Without one, Continue waits.
	Step *Step
	// Message says what the task waits for, or how it has ended.
	Message string
	// Result is the status.result to record.
	Result map[string]string
	// Progress is how many members are done, such as 1/3.
	Progress string
}

// decide returns what to do next. It is pure.
func decide(in Input) Decision {
	s := &work{Input: in, record: in.Recorded}
	s.settle()
	d := s.first(
		(*work).owned,
		(*work).uncorrupted,
		(*work).healthy,
		(*work).compaction,
		(*work).defragmentation,
		(*work).space,
		(*work).end,
	)
	d.Result, d.Progress = s.record, s.progress()
	return d
}

// work is a decision in progress: an Input, with what the steps so far have found.
type work struct {
	Input
	record record
}

// first returns the first decision that one of the stages makes.
func (s *work) first(stages ...func(*work) *Decision) Decision {
	for _, stage := range stages {
		if d := stage(s); d != nil {
			return *d
		}
	}
	return Decision{Outcome: tasks.Done}
}

func wait(format string, args ...any) *Decision {
	return &Decision{Outcome: tasks.Continue, Message: fmt.Sprintf(format, args...)}
}

func fail(code v1alpha1.ErrorCode, format string, args ...any) *Decision {
	return &Decision{Outcome: tasks.Fail, Code: code, Message: fmt.Sprintf(format, args...)}
}

func act(step Step) *Decision {
	return &Decision{Outcome: tasks.Continue, Step: &step, Message: step.Reason}
}

// settle records the outcome of the intents, as far as it is known.
func (s *work) settle() {
	if s.record.revision() > 0 && !s.record.isCompacted() && s.Completed == string(compact) {
		s.record = s.record.with(keyCompacted, "true")
	}
	for i, o := range s.Snapshot.Ordinals {
		db, answers := s.Databases[i]
		if !answers || !s.record.hasIntent(o.Name) {
			continue
		}
		// The operator that recorded it may have ended before the answer came. A file that has shrunk, or has no free space left, proves
		// that it was carried out.
		completed := s.Completed == (Step{Action: defragment, Ordinal: i}).name(s.Snapshot.Ordinals)
		if completed || db.Size < s.record.number(o.Name, keyBefore) || !s.isWorthIt(db) {
			s.record = s.record.withMember(o.Name, keyAfter, db.Size)
		}
	}
}

// owned fails the task if another operator manages the cluster by now, such as an etcd-druid to which it was handed back.
func (s *work) owned() *Decision {
	if foreign := s.Snapshot.StatefulSet.Foreign; foreign != "" {
		return fail(v1alpha1.ErrForeignObject, "%s", foreign)
	}
	return nil
}

// uncorrupted fails the task if members disagree on the data: a person has to look at it first.
func (s *work) uncorrupted() *Decision {
	for _, a := range s.Alarms {
		if a.Kind != etcdclient.AlarmNoSpace {
			return fail(v1alpha1.ErrAlarm, "etcd has raised the alarm %s for member %s: resolve it before anything else is done to the cluster", a.Kind, s.memberName(a.MemberID))
		}
	}
	return nil
}

// healthy waits until every member participates, since a member does not serve while it is defragmented.
func (s *work) healthy() *Decision {
	var lacking []string
	for i, o := range s.Snapshot.Ordinals {
		switch _, reads := s.Databases[i]; {
		case o.Role == v1alpha1.RoleLearner && o.Answers:
		case s.record.hasIntent(o.Name) && !reads:
			lacking = append(lacking, o.Name+" does not answer: its defragmentation was asked for, and may still go on")
		case o.Class != v1alpha1.ClassParticipating:
			lacking = append(lacking, fmt.Sprintf("%s is %s", o.Name, o.Class))
		case !reads:
			lacking = append(lacking, o.Name+" takes no reads")
		}
	}
	for _, v := range s.Snapshot.Cluster.Voters {
		if v.Ordinal < 0 && !v.Serving {
			lacking = append(lacking, v.Name+", a voter without a pod, does not serve")
		}
	}
	switch {
	case len(lacking) > 0:
		return wait("waiting until all members participate: %s", strings.Join(lacking, "; "))
	case s.Snapshot.Leader() < 0:
		return wait("waiting until a member of StatefulSet %s leads", s.Snapshot.StatefulSet.Name)
	case !s.AlarmsKnown:
		return wait("waiting for a member to report the alarms of the cluster")
	}
	return nil
}

func (s *work) compaction() *Decision {
	if !s.Config.EtcdCompaction || s.record.isCompacted() {
		return nil
	}
	leader := s.Snapshot.Leader()
	revision := s.record.revision()
	if revision == 0 {
		revision = s.Databases[leader].Revision
		s.record = s.record.with(keyRevision, fmt.Sprint(revision))
	}
	return act(Step{Action: compact, Ordinal: leader, Revision: revision, Reason: fmt.Sprintf(
		"compact to revision %d, and wait until every member has done so", revision)})
}

// space disarms the NOSPACE alarm once there is space again.
func (s *work) space() *Decision {
	if !s.Config.EtcdDefragmentation || len(s.Alarms) == 0 {
		return nil
	}
	for i, o := range s.Snapshot.Ordinals {
		if db := s.Databases[i]; db.Quota > 0 && db.Size >= db.Quota {
			return fail(v1alpha1.ErrNoSpace, "the database of %s still takes %s of its quota of %s, so the alarm NOSPACE was not disarmed: "+
				"compact as well, delete keys, or raise spec.etcd.quota, and run the maintenance again", o.Name, size(db.Size), size(db.Quota))
		}
	}
	alarm := s.Alarms[0]
	s.record = s.record.with(keyDisarmed, string(alarm.Kind))
	return act(Step{Action: disarm, Ordinal: s.Snapshot.Leader(), Alarm: alarm, Reason: fmt.Sprintf(
		"the databases are within their quota again: disarm %s of member %s", alarm.Kind, s.memberName(alarm.MemberID))})
}

func (s *work) end() *Decision {
	var did []string
	if s.Config.EtcdCompaction {
		did = append(did, fmt.Sprintf("compacted to revision %d", s.record.revision()))
	}
	if s.Config.EtcdDefragmentation {
		freed, members := s.freed()
		s.record = s.record.with(keyFreed, fmt.Sprint(freed))
		did = append(did, fmt.Sprintf("defragmented %d of %d members, which freed %s", members, len(s.Snapshot.Ordinals), size(freed)))
	}
	return &Decision{Outcome: tasks.Done, Message: strings.Join(did, "; ")}
}

// freed returns by how much the databases have shrunk, and how many were defragmented.
func (s *work) freed() (bytes int64, members int) {
	for _, o := range s.Snapshot.Ordinals {
		if _, done := s.record.of(o.Name, keyAfter); done {
			bytes += s.record.number(o.Name, keyBefore) - s.record.number(o.Name, keyAfter)
			members++
		}
	}
	return bytes, members
}

func (s *work) progress() string {
	if !s.Config.EtcdDefragmentation {
		return ""
	}
	done := s.Snapshot.CountOrdinals(func(o cluster.Ordinal) bool { return s.record.isDone(o.Name) })
	return fmt.Sprintf("%d/%d", done, len(s.Snapshot.Ordinals))
}

func (s *work) memberName(id uint64) string {
	if i := slices.IndexFunc(s.Snapshot.Ordinals, func(o cluster.Ordinal) bool { return o.MemberID == id }); i >= 0 {
		return s.Snapshot.Ordinals[i].Name
	}
	return fmt.Sprintf("%x", id)
}

// Deadlines of requests to etcd.
const (
	// lastingTimeout is for requests whose duration depends on the size of the database.
	lastingTimeout = 20 * time.Minute
	// requestTimeout is for all others.
	requestTimeout = configv1alpha1.StepTimeout
)
