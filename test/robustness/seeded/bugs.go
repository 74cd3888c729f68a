// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// bug is a change of the operator's source that makes it unsafe.
type bug struct {
	Name  string
	Edits []edit
	// Operations and Faults with which it shows, separated by commas.
	Operations, Faults string
	// Members of the etcd cluster; as many as the test has by default if 0.
	Members int
	// After is how long after its first fault an operation begins; chosen by the seed if 0.
	After  time.Duration
	Length time.Duration
	// Patience is how long an operation may take: with some bugs it never ends, and what is judged has happened long before.
	Patience time.Duration
	// Fleet: it takes several Etcds and an EtcdFleetPolicy to show.
	Fleet bool
	// Issue says what the operator once did; empty for a bug that it never had.
	Issue string
	// Modeled is what the simulation has in place of what the bug changes, so that it cannot show there; empty if it can.
	Modeled string
}

// edit replaces a text that a file has exactly once.
type edit struct{ File, Old, New string }

// Edits that several bugs share. Guards overlap, so a bug in one of them alone is harmless, which is the point of having
// several.
var (
	othersIgnored = edit{"internal/rollout/guards.go",
		"	if laggard := s.Snapshot.NotParticipating(next); laggard != \"\" {",
		"	if laggard := s.Snapshot.NotParticipating(next); laggard != \"\" && s.now.IsZero() {"}
	unservingIgnored = edit{"internal/rollout/guards.go",
		"	if laggard := s.Snapshot.NotServing(next); laggard != \"\" {",
		"	if laggard := s.Snapshot.NotServing(next); laggard != \"\" && s.now.IsZero() {"}
)

// leaderRemoved is for the local Kubernetes and the simulation.
var leaderRemoved = []edit{
	{"internal/membership/guards.go", "{name: GuardLeaderStays, judges: []Action{RemoveMember},", "{name: GuardLeaderStays, judges: []Action{},"},
	{"internal/membership/order.go", "		if m.Leads && to != nil {", "		if m.Leads && to != nil && m.Learner {"},
}

// What several bugs show with.
const (
	rollout  = "rollout"
	needless = "recovery that is not needed"
	apart    = "members cut off from each other"
	short    = 45 * time.Second
)

var bugs = []bug{
	{Name: "the leader is removed", Edits: leaderRemoved, Operations: "scale to one and back", Length: 3 * time.Minute},
	{
		Name: "guards off",
		Edits: []edit{{"internal/rollout/guards.go",
			"		if hold := g.check(s, step); hold != nil {",
			"		if hold := g.check(s, step); hold != nil && step == nil {"}},
		Operations: rollout, Length: short,
	},
	{
		Name: "the quorum is one too small",
		Edits: []edit{othersIgnored, unservingIgnored,
			{"internal/cluster/quorum/quorum.go", "	return n/2 + 1\n", "	return (n + 1) / 3\n"}},
		Operations: rollout, Length: short,
	},
	{
		Name: "members that do not answer count as serving",
		Edits: []edit{othersIgnored, unservingIgnored,
			{"internal/cluster/snapshot.go", "return v.Serving && v.Ordinal != ordinal", "return v.Ordinal != ordinal"}},
		Operations: rollout, Length: short,
	},
	{
		Name: "a quorum out of the operator's sight counts as lost",
		Edits: []edit{{"internal/rollout/quorum.go",
			"	if s.Snapshot.Cluster.LeaderKnown || !s.ordinal(next).MayRun() {",
			"	if !s.now.IsZero() || s.Snapshot.Cluster.LeaderKnown {"}},
		Operations: rollout, Faults: "operator sees only a member that is cut off", Length: time.Minute,
	},
	{
		Name: "no patience without a leader",
		Edits: []edit{
			{"internal/rollout/quorum.go", "!lasting.Since(since, s.now, grace) {\n		return &Hold{Pod: name", "!lasting.Since(since, s.now, grace) && s.now.IsZero() {\n		return &Hold{Pod: name"},
			{"internal/rollout/quorum.go", "		case s.Timers.hasRun(&o, s.now, grace) ||", "		case !s.now.IsZero() || s.Timers.hasRun(&o, s.now, grace) ||"}},
		Operations: rollout, Faults: apart, Length: 90 * time.Second,
	},
	{
		Name: "health from the cache instead of the members",
		Edits: []edit{
			{"tasks/rollout/handler.go", "	return d.Conclusion == rollout.Wait ||", "	return d.Conclusion != \"\" || d.Conclusion == rollout.Wait ||"},
			{"internal/cluster/observe/build.go", "			o.MemberID = memberID(f.members, o.Member)\n", "			o.MemberID, o.Serving = memberID(f.members, o.Member), o.Pod != nil && o.Pod.Ready\n"}},
		// The kubelet takes 15 s to find that a frozen member is not ready.
		Operations: rollout, Faults: "member frozen (SIGSTOP)", After: 7 * time.Second, Length: 2 * time.Minute,
	},
	{
		Name: "a learner counts as a voter",
		Edits: []edit{
			{"internal/cluster/observe/build.go", "		if m.Learner {\n			s.Cluster.Learners", "		if m.Learner && m.ID == 0 {\n			s.Cluster.Learners"},
			{"internal/cluster/observe/build.go", "	if o.Pod.Ready && o.Serving && o.Role != v1alpha1.RoleLearner {", "	if o.Serving && (o.Pod.Ready || o.Role == v1alpha1.RoleLearner) {"},
			{"internal/cluster/readings.go", "(!o.Serving || o.Role == v1alpha1.RoleLearner || ", "(!o.Serving || "},
			{"internal/rollout/guards.go", "	if o.Role != v1alpha1.RoleLearner {\n		return nil", "	if o.Role != v1alpha1.RoleLearner || !s.now.IsZero() {\n		return nil"}},
		Operations: rollout, Faults: "volume lost and no promotion", Length: time.Minute,
	},
	{
		Name: "removals without preconditions",
		Edits: []edit{
			{"tasks/rollout/perform.go", "	observed := metav1.Preconditions{UID: &o.Pod.UID, ResourceVersion: &o.Pod.ResourceVersion}", "	observed := metav1.Preconditions{}"}},
		Operations: rollout, Faults: "removals arrive late", Length: 2 * time.Minute, Patience: 3 * time.Minute,
	},
	{
		Name: "a recovery does not look for a quorum",
		Edits: []edit{
			{"tasks/newcluster/newcluster.go", "	return s.Cluster.LeaderKnown || len(s.Cluster.Voters) > 0 && s.HasQuorum()\n", "	return len(s.Cluster.Voters) > 100 && s.HasQuorum()\n"},
			{"tasks/recovery/decide.go", "	gracePeriod = 30 * time.Second\n", "	gracePeriod = 1 * time.Second\n"}},
		Operations: needless, Length: 30 * time.Second,
	},
	{
		Name: "a recovery does not wait",
		Edits: []edit{
			{"tasks/recovery/decide.go", "	gracePeriod = 30 * time.Second\n", "	gracePeriod = 0\n"}},
		// The members know a leader until its lease has expired.
		Operations: needless, Faults: apart, After: 8 * time.Second, Length: time.Minute,
	},
	{
		Name: "a recovery takes the backup though data has survived",
		Edits: []edit{
			{"tasks/recovery/choose.go", "	case f.newest && e.started(f.voting) > 0 &&", "	case e.Backup != Backup{}:\n		return e.restore(\"a bug\", \"\")\n	case f.newest && e.started(f.voting) > 0 &&"}},
		Operations: "recovery", Length: 10 * time.Second, Patience: 5 * time.Minute,
	},
	{
		Name: "a restore does not raise the revision",
		Edits: []edit{
			{"internal/agent/datadir/renew.go", "err != nil || bump == 0 {", "err != nil || bump >= 0 {"}},
		Operations: "restore", Length: 10 * time.Second, Patience: 6 * time.Minute,
		Modeled: "the model has revisions, and no database",
	},
	{
		Name: "a recovery takes the data of a survivor that is behind",
		Edits: []edit{
			{"internal/job/survey/survey.go",
				"cmp.Or(cmp.Compare(b.Survey.LastTerm, a.Survey.LastTerm), cmp.Compare(b.Survey.LastIndex, a.Survey.LastIndex))",
				"cmp.Or(cmp.Compare(a.Survey.LastTerm, b.Survey.LastTerm), cmp.Compare(a.Survey.LastIndex, b.Survey.LastIndex))"}},
		// Two survivors of three members would be a quorum.
		Operations: "recovery", Members: 5, Length: 10 * time.Second, Patience: 6 * time.Minute,
	},
}

// seed changes the copy of the source. The returned function undoes it.
func (b bug) seed(root string) (undo func(), err error) {
	before := map[string][]byte{}
	undo = func() {
		for path, content := range before {
			_ = os.WriteFile(path, content, 0o644) // the copy is temporary
		}
	}
	for _, e := range b.Edits {
		path := filepath.Join(root, e.File)
		content, err := os.ReadFile(path)
		if err == nil && strings.Count(string(content), e.Old) != 1 {
			err = fmt.Errorf("%s has %q %d times, and not once: adapt the bug to the source", e.File, e.Old, strings.Count(string(content), e.Old))
		}
		if err != nil {
			undo()
			return nil, errors.Join(fmt.Errorf("seeding %q", b.Name), err)
		}
		if before[path] == nil {
			before[path] = content
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(content), e.Old, e.New, 1)), 0o644); err != nil {
			undo()
			return nil, err
		}
	}
	return undo, nil
}
