// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/base/background"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const before, after = 0xcafe, 0xbeef

// at is a restore in a phase, of a cluster of three that serves.
func at(phase v1alpha1.RecoveryPhase, change ...func(*Input)) Input {
	in := Input{
		Input:     newcluster.Input{Task: "task", Snapshot: &cluster.Snapshot{At: epoch, StatefulSet: cluster.StatefulSet{Name: "main", Observed: true, AgentImage: "agent:v1"}}},
		ClusterID: newcluster.ID(before), Members: 3, Known: 90, MaxWrites: 100, Fenced: true, Since: epoch,
	}
	in.Recorded = v1alpha1.RecoveryStatus{
		Phase: phase, PhaseSince: metav1.Time{Time: epoch}, PreviousClusterID: newcluster.ID(before),
		Restore: &v1alpha1.RestoreStatus{ClusterRestore: v1alpha1.ClusterRestore{Base: "full", Revision: 40, Hash: 7}, Fenced: true, FinalSnapshot: "final", HighestRevision: 100},
	}
	serving(before, 0, 1, 2)(&in)
	for _, c := range change {
		c(&in)
	}
	return in
}

// serving has some members of a cluster serve and vote.
func serving(id uint64, ordinals ...int) func(*Input) {
	return func(in *Input) {
		in.Snapshot.Cluster, in.Snapshot.Ordinals = cluster.Cluster{ID: id, Reachable: true, LeaderKnown: len(ordinals) > 0}, nil
		for i := range 3 {
			in.Snapshot.Ordinals = append(in.Snapshot.Ordinals, cluster.Ordinal{Name: fmt.Sprintf("main-%d", i), Member: fmt.Sprintf("m-%d", i), Class: v1alpha1.ClassMissing})
			in.Snapshot.Cluster.Voters = append(in.Snapshot.Cluster.Voters, cluster.Voter{ID: uint64(i + 1), Ordinal: i})
		}
		for _, i := range ordinals {
			o := &in.Snapshot.Ordinals[i]
			o.Class, o.Answers, o.Serving, o.Role, o.Pod = v1alpha1.ClassParticipating, true, true, v1alpha1.RoleFollower, &cluster.Pod{EtcdStarted: epoch}
			in.Snapshot.Cluster.Voters[i].Serving = true
		}
	}
}

// stopped has no member run.
func stopped(in *Input) {
	in.Snapshot.StatefulSet.HeldAtZeroBy, in.Snapshot.Ordinals, in.Snapshot.Cluster = in.Task, nil, cluster.Cluster{}
}

// claimGoes has a claim go with its data once its pod stops.
func claimGoes(in *Input) {
	in.Snapshot.Ordinals[1].Pod.VolumeTrouble = "its claim c is being deleted, and goes with its data"
}

func took(revision int64) func(*Input) {
	return func(in *Input) {
		in.Call = &background.Request[backup.Snapshot]{Result: backup.Snapshot{Kind: backup.Full, LastRevision: revision, Created: epoch, Final: true}}
	}
}

// live is the newest revision that a member reports.
func live(revision int64) func(*Input) {
	return func(in *Input) { in.Snapshot.Cluster.Revision = revision }
}

func failed(in *Input) {
	in.Call = &background.Request[backup.Snapshot]{Err: errors.New("the store is away")}
}

// runs is a request that has not been answered.
func runs(in *Input) {
	in.Call = &background.Request[backup.Snapshot]{Running: true, Name: "asked"}
}

func unfenced(in *Input) { in.Recorded.Restore.Fenced, in.Fenced = false, false }

// on has a volume for each position in the log; 0 for one that is gone.
func on(positions ...uint64) func(*Input) {
	return func(in *Input) {
		for i, index := range positions {
			v := survey.Volume{Ordinal: int32(i), Member: fmt.Sprintf("m-%d", i), State: survey.Seen, Survey: member.Survey{
				State: member.SurveyPresent, ClusterID: newcluster.ID(before), LastTerm: 2, LastIndex: index, AppliedIndex: index, Revision: 100, Free: 1 << 40,
			}}
			if index == 0 {
				v.State, v.Survey = survey.Gone, member.Survey{}
			}
			in.Volumes = append(in.Volumes, v)
		}
	}
}

// obstructed has a foreign Lease keep the Etcd controller from stopping and starting members.
func obstructed(in *Input) { in.Obstacle = "Lease m-1 is foreign" }

// thousandBytes is the size of the restored database.
func thousandBytes(in *Input) { in.Recorded.Restore.Bytes = 1000 }

// free is the free space on each volume.
func free(bytes ...int64) func(*Input) {
	return func(in *Input) {
		for i, n := range bytes {
			in.Volumes[i].Survey.Free = n
		}
	}
}

func source(s v1alpha1.RecoverySource) func(*Input) {
	return func(in *Input) { in.Recorded.Source, in.Recorded.Member, in.Configured = s, "m-1", true }
}

const (
	fencing   = v1alpha1.RecoveryFencing
	saving    = v1alpha1.RecoverySaving
	stopping  = v1alpha1.RecoveryStopping
	surveying = v1alpha1.RecoverySurveying
	starting  = v1alpha1.RecoveryStarting
	growing   = v1alpha1.RecoveryGrowing
	reopening = v1alpha1.RecoveryReopening
)

func TestPhases(t *testing.T) {
	const target = v1alpha1.RecoverFromTarget
	later := func(in *Input) { in.Since = epoch.Add(-retrySnapshots) }
	long := func(in *Input) { in.Since = epoch.Add(-fullStrength) }
	unbounded := func(in *Input) { in.MaxWrites = -1 }
	for name, c := range map[string]struct {
		in      Input
		outcome tasks.Outcome
		want    v1alpha1.RecoveryPhase
		says    string
	}{
		"clients are let in":                       {at(fencing, func(in *Input) { in.Fenced = false }), tasks.Continue, fencing, "waiting until the client Service selects no member"},
		"clients are kept away":                    {at(fencing), tasks.Continue, saving, "selects no member"},
		"clients are to stay":                      {at(fencing, unfenced), tasks.Continue, saving, "clients stay connected"},
		"hibernated in the middle":                 {at(saving, func(in *Input) { in.Hibernates = true }), tasks.Fail, saving, "wake it up, and create the task again. Nothing was changed"},
		"another cluster":                          {at(saving, func(in *Input) { in.ClusterID = "feed" }), tasks.Fail, saving, "preview it again"},
		"no snapshot is asked for":                 {at(saving), tasks.Continue, saving, "is taking a final snapshot"},
		"the snapshot is taken now":                {at(saving, runs), tasks.Continue, saving, "asked"},
		"the snapshot takes long":                  {at(saving, runs, later), tasks.Continue, saving, "asked"},
		"the store is away":                        {at(saving, failed), tasks.Continue, saving, "retried every few seconds: the store is away"},
		"the store stays away":                     {at(saving, failed, later), tasks.Fail, saving, "no final snapshot could be taken: the store is away. Check the store and the log of the leader's container backup-restore. Nothing was changed"},
		"the quorum is lost":                       {at(saving, took(100), serving(before, 0)), tasks.Continue, saving, "create a QuorumLossRecovery"},
		"members of another cluster":               {at(saving, took(100), serving(after, 0, 1, 2)), tasks.Continue, saving, "serve as cluster cafe"},
		"the present is saved":                     {at(saving, took(190)), tasks.Continue, stopping, "everything up to revision 190"},
		"too much was written":                     {at(saving, took(191)), tasks.Fail, saving, "101 revisions were written since revision 90, the newest one that the preview knew, and at most 100"},
		"nothing may be lost":                      {at(saving, took(91), func(in *Input) { in.MaxWrites = 0 }), tasks.Fail, saving, "1 revisions were written since revision 90, the newest one that the preview knew, and at most 0"},
		"a pod is behind the template":             {at(saving, took(100), func(in *Input) { in.Snapshot.Ordinals[2].Pod.Revision = "old" }), tasks.Fail, saving, "1 of 3 pods are not at the newest template of StatefulSet main, and a restore would start all members with it at once: let a rollout replace them first, or change the Etcd back. Nothing was changed"},
		"a claim is being deleted":                 {at(saving, took(100), claimGoes), tasks.Fail, saving, "main-1 could not start again with its data once it is stopped: its claim c is being deleted, and goes with its data. Fix this first. If the claim is going and other members serve, delete the pod: its member is replaced while they serve. Nothing was changed"},
		"a member serves, and its pod is not seen": {at(saving, took(100), func(in *Input) { in.Snapshot.Ordinals[1].Pod = nil }), tasks.Continue, stopping, ""},
		"that of one that does not serve": {at(saving, took(100), claimGoes, func(in *Input) {
			in.Snapshot.Ordinals[1].Serving, in.Snapshot.Cluster.Voters[1].Serving = false, false
		}), tasks.Continue, stopping, ""},
		"one is updated in place":    {at(saving, took(100), func(in *Input) { in.Snapshot.Ordinals[0].Pod.Updating = true }), tasks.Fail, saving, "1 of 3 pods"},
		"the template has changed":   {at(saving, took(100), func(in *Input) { in.Snapshot.StatefulSet.Observed = false }), tasks.Continue, saving, "waiting until the controller of StatefulSet main"},
		"a foreign object":           {at(saving, took(100), obstructed), tasks.Fail, saving, "Lease m-1 is foreign. Nothing was changed"},
		"an undo has no bound":       {at(saving, took(1e6), unbounded), tasks.Continue, stopping, ""},
		"much is written since then": {at(saving, took(100), live(191)), tasks.Fail, saving, "101 revisions were written since revision 90, the newest one that the preview knew, and at most 100"},
		"a little is":                {at(saving, took(100), live(190)), tasks.Continue, stopping, "everything up to revision 100"},
		"the store was away before":  {at(saving, failed, func(in *Input) { in.Recorded.PhaseSince.Time = epoch.Add(-time.Hour) }), tasks.Continue, saving, "retried"},

		"members run":                          {at(stopping, took(100)), tasks.Continue, stopping, "scaled to zero"},
		"a claim goes before they are stopped": {at(stopping, took(100), claimGoes), tasks.Fail, stopping, "main-1 could not start again with its data once it is stopped: its claim c is being deleted, and goes with its data. Fix this first. If the claim is going and other members serve, delete the pod: its member is replaced while they serve. Nothing was changed"},
		"a claim goes while they are stopped":  {at(stopping, took(100), claimGoes, func(in *Input) { in.Snapshot.StatefulSet.HeldAtZeroBy = in.Task }), tasks.Continue, stopping, ""},
		"members run after a gap":              {at(stopping), tasks.Continue, saving, "that the final snapshot has everything"},
		"stopped by another task":              {at(stopping, stopped, func(in *Input) { in.Snapshot.StatefulSet.HeldAtZeroBy = "other" }), tasks.Continue, saving, "that the final snapshot has everything"},
		"a foreign object since":               {at(stopping, took(100), obstructed), tasks.Fail, stopping, "Lease m-1 is foreign. Nothing was changed"},
		"scaled up, and not again":             {at(surveying, stopped, obstructed, func(in *Input) { in.Snapshot.Ordinals = make([]cluster.Ordinal, 3) }), tasks.Continue, surveying, "StatefulSet main is no longer scaled to zero: waiting until it is: Lease m-1 is foreign"},
		"stopped, and not started":             {at(starting, source(target), stopped, obstructed), tasks.Continue, starting, "waiting until StatefulSet main is scaled up again: Lease m-1 is foreign"},
		"no member runs":                       {at(stopping, stopped), tasks.Continue, surveying, "no member is running"},
		"hibernated while stopped":             {at(stopping, stopped, func(in *Input) { in.Hibernates = true }), tasks.Fail, stopping, "No data was changed; the members start as they were when the Etcd wakes up"},
		"a volume is not read":                 {at(surveying, stopped, on(9, 9, 9), func(in *Input) { in.Volumes[1].State, in.Volumes[1].Message = survey.Unread, "unknown content" }), tasks.Continue, surveying, "unknown content"},
		"all volumes are there":                {at(surveying, stopped, on(7, 9, 8)), tasks.Continue, starting, "back to revision 40, on m-1, from full"},
		"a volume is lost":                     {at(surveying, stopped, on(7, 0, 8)), tasks.Continue, starting, "on m-2"},
		"all volumes are lost":                 {at(surveying, stopped, on(0, 0, 0)), tasks.Continue, starting, "on m-0, from full and the deltas after it; no volume has the present data, which is only in the final snapshot final"},
		"much was written since":               {at(surveying, stopped, on(9, 9, 9), func(in *Input) { in.Volumes[2].Survey.Revision = 191 }), tasks.Fail, surveying, "preview it again. No data was changed; the members start as they were"},
		"a little was":                         {at(surveying, stopped, on(9, 9, 9), func(in *Input) { in.Volumes[2].Survey.Revision = 190 }), tasks.Continue, starting, ""},
		"the log says more":                    {at(surveying, stopped, on(9, 9, 9), func(in *Input) { in.Volumes[2].Survey.LastIndex = 1009 }), tasks.Continue, starting, "continue above 1100"},
		"only a no-op follows":                 {at(surveying, stopped, on(9, 9, 9), func(in *Input) { in.Known, in.MaxWrites, in.Volumes[2].Survey.LastIndex = 100, 0, 10 }), tasks.Continue, starting, "on m-2"},
		"a database is missing": {at(surveying, stopped, on(9, 9, 9), func(in *Input) {
			in.Volumes[2].Survey = member.Survey{State: member.SurveyDamaged, ClusterID: newcluster.ID(before), LastTerm: 2, LastIndex: 2_000_100, Free: 1 << 40}
		}), tasks.Continue, starting, "continue above 2000100"},
		"a member lies":             {at(surveying, stopped, on(9, 9, 9), unbounded, func(in *Input) { in.Volumes[0].Survey.Revision = 1 << 62 }), tasks.Continue, starting, "continue above 4611686018427387904"},
		"a member lies more":        {at(surveying, stopped, on(9, 9, 9), unbounded, func(in *Input) { in.Volumes[0].Survey.Revision = 1<<62 + 1 }), tasks.Fail, surveying, "which no cluster reaches"},
		"a full volume":             {at(surveying, stopped, on(7, 9, 8), thousandBytes, free(1<<40, 1<<40, 0)), tasks.Fail, surveying, "the volume of m-2 has 0 free bytes, and it takes 128001000"},
		"just enough space":         {at(surveying, stopped, on(7, 9, 8), thousandBytes, free(member.LogSize+1000, member.LogSize+2000, member.LogSize+1000)), tasks.Continue, starting, "on m-1"},
		"the first lacks space":     {at(surveying, stopped, on(7, 9, 8), thousandBytes, free(1<<40, member.LogSize+1999, 1<<40)), tasks.Fail, surveying, "the volume of m-1 has 128001999 free bytes, and it takes 128002000"},
		"another one lacks space":   {at(surveying, stopped, on(7, 9, 8), thousandBytes, free(1<<40, 1<<40, member.LogSize+999)), tasks.Fail, surveying, "the volume of m-2"},
		"one beyond lacks space":    {at(surveying, stopped, on(7, 9, 8), thousandBytes, free(1<<40, 1<<40, 1), func(in *Input) { in.Members = 2 }), tasks.Continue, starting, "on m-1"},
		"the members are not told":  {at(starting, source(target), stopped, func(in *Input) { in.Configured = false }), tasks.Continue, starting, "configuring the members"},
		"the cluster before serves": {at(starting, source(target)), tasks.Continue, starting, "waiting until m-1 serves"},
		"the store went away": {at(starting, source(target), serving(after), func(in *Input) {
			in.Snapshot.Ordinals[1].Pod = &cluster.Pod{Refusal: &cluster.Refusal{Reason: v1alpha1.ReasonRestoreFailed, Message: "no such bucket"}}
		}), tasks.Continue, starting, "no such bucket"},
		"one serves":                     {at(starting, source(target), serving(after, 1)), tasks.Continue, growing, "serves alone, as cluster beef"},
		"hibernated once it is recorded": {at(starting, source(target), serving(after, 1), func(in *Input) { in.Hibernates = true }), tasks.Continue, growing, ""},
		"hibernated before one serves":   {at(starting, source(target), serving(after), func(in *Input) { in.Hibernates, in.Snapshot.Ordinals = true, nil }), tasks.Continue, starting, "the Etcd is hibernated, with spec.replicas 0: wake it up"},
		"hibernated while it grows":      {at(growing, source(target), serving(after, 1), func(in *Input) { in.Hibernates, in.Snapshot.Ordinals = true, nil }), tasks.Continue, growing, "the Etcd is hibernated, with spec.replicas 0: wake it up"},
		"the new cluster is recorded":    {at(growing, source(target), serving(after, 1), func(in *Input) { in.ClusterID = newcluster.ID(after) }), tasks.Continue, growing, "1 of 3 members vote"},
		"all vote":                       {at(growing, source(target), serving(after, 0, 1, 2)), tasks.Continue, reopening, "all 3 members vote"},
		"a quorum votes":                 {at(growing, source(target), serving(after, 0, 1)), tasks.Continue, growing, "2 of 3 members vote"},
		"a quorum votes for long":        {at(growing, source(target), serving(after, 0, 1), long), tasks.Continue, reopening, "main-2 is Missing. They are a quorum, and the others join by themselves; taking a full snapshot"},
		"watched for a short time":       {at(growing, source(target), serving(after, 0, 1), func(in *Input) { in.Recorded.PhaseSince.Time = epoch.Add(-time.Hour) }), tasks.Continue, growing, "2 of 3 members vote"},
		"one votes alone for long": {at(growing, source(target), serving(after, 1), long, func(in *Input) {
			in.Snapshot.Cluster.Voters = in.Snapshot.Cluster.Voters[1:2]
		}), tasks.Continue, growing, "1 of 3 members vote"},
		"two of four are no quorum": {at(growing, source(target), serving(after, 0, 1), long, func(in *Input) {
			in.Snapshot.Cluster.Voters = append(in.Snapshot.Cluster.Voters, cluster.Voter{ID: 4, Ordinal: -1})
		}), tasks.Continue, growing, "2 of 3 members vote"},
		"the members are held at zero again": {at(growing, source(target), serving(after, 0, 1), long, func(in *Input) { in.Snapshot.StatefulSet.HeldAtZeroBy = "other" }), tasks.Continue, growing, "2 of 3 members vote"},
		"clients are let in without one":     {at(reopening, source(target), serving(after, 0, 1), took(1e9)), tasks.Done, reopening, "has everything of it. 2 of 3 members vote: main-0 is Participating; main-1 is Participating; main-2 is Missing. The others join by themselves. What the members had before"},
		"there is a full snapshot":           {at(reopening, source(target), serving(after, 0, 1, 2), took(1e9)), tasks.Done, reopening, "has everything of it. What the members had before"},
		"there is no full snapshot":          {at(reopening, source(target), serving(after, 0, 1, 2), failed, later), tasks.Done, reopening, "the agents go on trying (the store is away)"},
		"there is no full snapshot yet":      {at(reopening, source(target), serving(after, 0, 1, 2), failed), tasks.Continue, reopening, "retried"},
		"the full snapshot is taken now":     {at(reopening, source(target), serving(after, 0, 1, 2), runs), tasks.Continue, reopening, "asked"},
		"the full snapshot takes long":       {at(reopening, source(target), serving(after, 0, 1, 2), runs, later), tasks.Done, reopening, "there is no full snapshot of it yet, and the agents go on trying (the leading agent is still taking it)"},
		"no agent could be asked for it":     {at(reopening, source(target), serving(after, 0, 1, 2), later), tasks.Done, reopening, "the agents go on trying (the leading agent could not be asked for it)"},
		"the kept data is back, and serves":  {at(reopening, source(v1alpha1.RecoverFromKeptData), serving(after, 0, 1, 2), took(1e9)), tasks.Done, reopening, "the data that m-1 had kept"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := decide(c.in, epoch)
			g.Expect(d.Outcome).To(Equal(c.outcome), d.Message)
			g.Expect(d.Recovery.Phase).To(Equal(c.want), d.Message)
			g.Expect(d.Message).To(ContainSubstring(c.says))
			if d.Outcome == tasks.Fail {
				g.Expect(d.Recovery.Source).To(BeEmpty(), "members start as they were")
			}
		})
	}
}

// The new cluster begins above every revision that the one before may have reported, wherever the highest is known.
func TestBump(t *testing.T) {
	for name, change := range map[string]func(*Input){
		"the final snapshot": func(in *Input) { in.Recorded.Restore.HighestRevision = 5000 },
		"a lease":            func(in *Input) { in.Leased = 5000 },
		"a volume":           func(in *Input) { in.Volumes[2].Survey.Revision = 5000 },
		"the log of a volume": func(in *Input) {
			in.Volumes[2].Survey.Revision, in.Volumes[2].Survey.AppliedIndex, in.Volumes[2].Survey.LastIndex = 4000, 6, 1006
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := at(surveying, stopped, on(7, 9, 8), change, func(in *Input) { in.MaxWrites = 10_000 })
			d := decide(in, epoch)
			r := d.Recovery.Restore
			g.Expect(r.Revision + r.Bump).To(BeNumerically(">=", 5000+newcluster.Margin))
			g.Expect(r.HighestRevision).To(BeNumerically("==", 5000))
			g.Expect(r.Base).To(Equal("full"))
			g.Expect(d.Recovery.Source).To(Equal(v1alpha1.RecoverFromTarget))
		})
	}
	g := NewWithT(t)
	in := at(surveying, stopped, on(7, 9, 8), func(in *Input) { in.Volumes[0].Survey.ClusterID, in.Volumes[0].Survey.Revision = "other", 9000 })
	g.Expect(decide(in, epoch).Recovery.Restore.HighestRevision).To(BeNumerically("==", 100), "data of another cluster says nothing")
	for _, revision := range []int64{0, 1, 40, 5000, 6000} {
		bump, err := bumpOf(5000, revision)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bump).To(BeNumerically(">", 0))
		g.Expect(revision + bump).To(BeNumerically("==", max(5000, revision)+newcluster.Margin))
	}
	g.Expect(bumpOf(0, 0)).To(BeEquivalentTo(newcluster.Margin))
	for _, c := range [][2]int64{{-1, 1}, {1, -1}, {newcluster.MaxRevision + 1, 1}} {
		_, err := bumpOf(c[0], c[1])
		g.Expect(err).To(HaveOccurred())
	}
}

// An undo goes back to what was kept, by the first directory of the task, or else by the final snapshot.
func TestUndo(t *testing.T) {
	undo := func(in *Input) {
		in.Undone = &Undone{Task: "first", TaskName: "r1", Member: "m-2", FinalSnapshot: "final-of-r1"}
	}
	kept := func(ordinal int, dirs ...string) func(*Input) {
		return func(in *Input) { in.Volumes[ordinal].Survey.Kept = dirs }
	}
	noBase := func(in *Input) { in.Recorded.Restore.Base = "" }
	reaches := func(revision int64) func(*Input) {
		return func(in *Input) {
			in.Undone.FinalSnapshot = "Full-00000000-00000100-1700000000"
			in.Volumes[2].Survey.KeptRevisions = map[string]int64{"new.etcd.before-first-1": revision}
		}
	}
	unreadable := func(in *Input) {
		in.Volumes[2].Survey.Needs = map[string]int64{"new.etcd.before-first-1": member.Unreadable, "new.etcd.before-first-2": 5}
	}
	for name, c := range map[string]struct {
		in     Input
		member string
		kept   string
		fails  bool
	}{
		"kept":                        {at(surveying, stopped, on(9, 9, 9), undo, kept(2, "new.etcd.before-first-2", "new.etcd.before-first-1")), "m-2", "new.etcd.before-first-1", false},
		"kept, without a snapshot":    {at(surveying, stopped, on(9, 9, 9), undo, noBase, kept(2, "new.etcd.before-first-1")), "m-2", "new.etcd.before-first-1", false},
		"of another task":             {at(surveying, stopped, on(9, 9, 8), undo, kept(2, "new.etcd.before-firstborn-1")), "m-0", "", false},
		"by another member":           {at(surveying, stopped, on(9, 9, 8), undo, kept(1, "new.etcd.before-first-1")), "m-0", "", false},
		"the member is gone":          {at(surveying, stopped, on(8, 9, 9), undo, kept(2, "new.etcd.before-first-1"), func(in *Input) { in.Members = 1 }), "m-0", "", false},
		"the last member is gone":     {at(surveying, stopped, on(8, 9, 9), undo, kept(2, "new.etcd.before-first-1"), func(in *Input) { in.Members = 2 }), "m-1", "", false},
		"it cannot be read":           {at(surveying, stopped, on(9, 9, 8), undo, kept(2, "new.etcd.before-first-1", "new.etcd.before-first-2"), unreadable), "m-0", "", false},
		"and there is no snapshot":    {at(surveying, stopped, on(9, 9, 8), undo, noBase, kept(2, "new.etcd.before-first-1"), unreadable), "", "", true},
		"it is behind the snapshot":   {at(surveying, stopped, on(9, 9, 8), undo, kept(2, "new.etcd.before-first-1"), reaches(99)), "m-0", "", false},
		"it has all of the snapshot":  {at(surveying, stopped, on(9, 9, 9), undo, kept(2, "new.etcd.before-first-1"), reaches(100)), "m-2", "new.etcd.before-first-1", false},
		"behind one that is gone":     {at(surveying, stopped, on(9, 9, 8), undo, noBase, kept(2, "new.etcd.before-first-1"), reaches(99)), "", "", true},
		"the volume is gone":          {at(surveying, stopped, on(8, 9, 0), undo), "m-1", "", false},
		"and the snapshot is as well": {at(surveying, stopped, on(8, 9, 0), undo, noBase), "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := decide(c.in, epoch)
			if c.fails {
				g.Expect(d.Outcome).To(Equal(tasks.Fail))
				g.Expect(d.Code).To(Equal(v1alpha1.ErrRestoreRefused), "not a code for which one is told to delete the Etcd")
				g.Expect(d.Message).To(ContainSubstring("A preview says why (--to snapshot=" + c.in.Undone.FinalSnapshot + "). No data was changed; the members start as they were"))
				return
			}
			g.Expect(d.Recovery.Member).To(Equal(c.member), d.Message)
			g.Expect(d.Recovery.Restore.KeptData).To(Equal(c.kept))
			if c.kept != "" {
				g.Expect(d.Message).To(ContainSubstring("the data that m-2 had before task r1"))
			}
			g.Expect(d.Recovery.Restore.Bump).To(BeNumerically(">=", newcluster.Margin))
			g.Expect(d.Recovery.Source == v1alpha1.RecoverFromKeptData).To(Equal(c.kept != ""))
			g.Expect(d.Recovery.Restore.Base == "").To(Equal(c.kept != ""))
			g.Expect(d.Recovery.Restore.KeptBy).To(BeEmpty(), "the member that it starts on has everything")
		})
	}
}

// A member that was down has kept what an undo goes back to, and lacks what the others have acknowledged since: another one keeps that.
func TestWhoKeepsThePresent(t *testing.T) {
	undo := func(in *Input) {
		in.Undone = &Undone{Task: "first", TaskName: "r1", Member: "m-2", FinalSnapshot: "final-of-r1"}
		in.Volumes[2].Survey.Kept = []string{"new.etcd.before-first-1"}
	}
	for name, c := range map[string]struct {
		in      Input
		want    string
		hadData bool
	}{
		"all have it":                {at(surveying, stopped, on(9, 9, 9), undo), "", true},
		"it is ahead":                {at(surveying, stopped, on(8, 7, 9), undo), "", true},
		"it is behind":               {at(surveying, stopped, on(8, 9, 7), undo), "m-1", true},
		"it is of an earlier term":   {at(surveying, stopped, on(9, 9, 9), undo, func(in *Input) { in.Volumes[2].Survey.LastTerm = 1 }), "m-0", true},
		"it has the data of another": {at(surveying, stopped, on(9, 9, 9), undo, func(in *Input) { in.Volumes[2].Survey.ClusterID = "other" }), "m-0", false},
		"the others are gone":        {at(surveying, stopped, on(0, 0, 7), undo), "", true},
		"the one ahead is a removed": {at(surveying, stopped, on(8, 9, 8), undo, func(in *Input) { in.Volumes[1].Survey.Removed = true }), "", true},
		"none has any":               {at(surveying, stopped, on(9, 9, 9), undo, func(in *Input) { in.Recorded.PreviousClusterID, in.ClusterID = "feed", "feed" }), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := decide(c.in, epoch)
			g.Expect(d.Recovery.Source).To(Equal(v1alpha1.RecoverFromKeptData), d.Message)
			g.Expect(d.Recovery.Member).To(Equal("m-2"))
			g.Expect(d.Recovery.Restore.KeptBy).To(Equal(c.want))
			g.Expect(d.Recovery.HadData).To(Equal(c.hadData), "what is lost of it is noticed")
		})
	}
}

// An undo that does not take what was kept says why.
func TestWhyKeptDataIsNotTaken(t *testing.T) {
	const kept = "new.etcd.before-first-1"
	in := at(surveying, stopped, on(9, 9, 8), func(in *Input) {
		in.Undone = &Undone{Task: "first", TaskName: "r1", Member: "m-2", FinalSnapshot: "Full-00000000-00000100-1700000000"}
		in.Volumes[2].Survey.Kept, in.Volumes[2].Survey.KeptRevisions = []string{kept}, map[string]int64{kept: 99}
	})
	NewWithT(t).Expect(decide(in, epoch).Message).To(HavePrefix("what m-2 had before task r1 ends at revision 99, and the final snapshot of that task has everything up to revision 100: the cluster goes back"))
	in.Recorded.Restore.Base = ""
	NewWithT(t).Expect(decide(in, epoch).Message).To(ContainSubstring("and the final snapshot Full-00000000-00000100-1700000000 cannot be restored. A preview says why (--to snapshot="))
}

// Where an agent is too old to say where kept data ends, it is not taken for less than the final snapshot, nor for more: nothing is undone.
func TestAnAgentIsTooOldToSayWhereKeptDataEnds(t *testing.T) {
	g := NewWithT(t)
	in := at(surveying, stopped, on(9, 9, 8), func(in *Input) {
		in.Undone = &Undone{Task: "first", TaskName: "r1", Member: "m-2", FinalSnapshot: "Full-00000000-00000100-1700000000"}
		in.Volumes[2].Survey.Kept = []string{"new.etcd.before-first-1"}
	})
	d := decide(in, epoch)
	g.Expect(d.Outcome).To(Equal(tasks.Fail))
	g.Expect(d.Code).To(Equal(v1alpha1.ErrRestoreRefused))
	g.Expect(d.Message).To(HavePrefix("the agent that surveyed the volume of m-2 is too old to say at which revision ends what that member had before task r1: roll out a newer one (spec.backup.image), and undo again. Or preview the final snapshot of that task, which lacks what was written after it was taken (--to snapshot=Full-00000000-00000100-1700000000). No data was changed; the members start as they were"))
	in.Volumes[2].Survey.KeptRevisions = map[string]int64{"new.etcd.before-later-2": 100}
	g.Expect(decide(in, epoch).Message).To(HavePrefix("the agent that surveyed the volume of m-2 is too old to say"), "it describes only what was set aside last")
	in.Volumes[2].Survey.KeptRevisions, in.Undone.FinalSnapshot = nil, "unknown"
	g.Expect(decide(in, epoch).Recovery.Restore.KeptData).To(Equal("new.etcd.before-first-1"), "there is nothing to compare it with")
}

// An undo that an older operator has begun may not record whose data was kept: its member would not use that, after there is no way back.
func TestKeptDataOfAClusterThatIsNotRecorded(t *testing.T) {
	g := NewWithT(t)
	in := at(surveying, stopped, on(9, 9, 9), func(in *Input) {
		in.Undone = &Undone{Task: "first", TaskName: "r1", Member: "m-2", FinalSnapshot: "Full-00000000-00000100-1700000000", ClusterID: "feed"}
		in.Volumes[2].Survey.Kept, in.Volumes[2].Survey.KeptRevisions = []string{"new.etcd.before-first-1"}, map[string]int64{"new.etcd.before-first-1": 100}
	})
	d := decide(in, epoch)
	g.Expect(d.Outcome).To(Equal(tasks.Fail), d.Message)
	g.Expect(d.Code).To(Equal(v1alpha1.ErrRestoreRefused))
	g.Expect(d.Message).To(Equal("an older operator has begun this task, and did not record cluster feed, whose data m-2 has kept, as one that was before: undo task r1 again. No data was changed; the members start as they were"))
	for _, known := range []func(*Input){
		func(in *Input) { in.Recorded.EarlierClusterIDs = []string{"ace", "feed"} },
		func(in *Input) { in.Undone.ClusterID = in.Recorded.PreviousClusterID },
	} {
		in := in
		known(&in)
		g.Expect(decide(in, epoch).Recovery.Restore.KeptData).To(Equal("new.etcd.before-first-1"))
	}
}

// Once the volume of the member that starts had data, an empty one is another: it is recorded for the member.
func TestWhatTheVolumeHadIsRecorded(t *testing.T) {
	for _, position := range []uint64{0, 9} {
		d := decide(at(surveying, stopped, on(position)), epoch)
		NewWithT(t).Expect(d.Recovery.HadData).To(Equal(position > 0), d.Message)
	}
}

// What an undo takes is what the member that rebuilds will find that it takes, by its log as well, on every volume: it is checked before
// anything is recorded that has no way back.
func TestSpaceOfAnUndo(t *testing.T) {
	const kept = "new.etcd.before-first-1"
	needs := member.NeedsOfRebuild(1000, 300<<20)
	undo := func(in *Input) {
		in.Undone = &Undone{Task: "first", TaskName: "r1", Member: "m-2", FinalSnapshot: "final-of-r1"}
		in.Volumes[2].Survey.Kept, in.Volumes[2].Survey.Needs = []string{kept}, map[string]int64{kept: needs}
	}
	old := func(in *Input) { in.Volumes[2].Survey.Needs = nil }
	for name, c := range map[string]struct {
		in   Input
		says string
	}{
		"enough":                {at(surveying, stopped, on(9, 9, 9), thousandBytes, undo, free(needs, needs, needs)), ""},
		"its own has none":      {at(surveying, stopped, on(9, 9, 9), thousandBytes, undo, free(needs, needs, needs-1)), fmt.Sprintf("the volume of m-2 has %d free bytes, and it takes %d", needs-1, needs)},
		"another one has none":  {at(surveying, stopped, on(9, 9, 9), thousandBytes, undo, free(needs-1, needs, needs)), "the volume of m-0"},
		"an old agent":          {at(surveying, stopped, on(9, 9, 9), thousandBytes, undo, old, free(member.NeedsOfRebuild(1000, 0), 1<<40, 1<<40)), ""},
		"an old agent, no room": {at(surveying, stopped, on(9, 9, 9), thousandBytes, undo, old, free(member.NeedsOfRebuild(1000, 0)-1, 1<<40, 1<<40)), "the volume of m-0"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := decide(c.in, epoch)
			if c.says == "" {
				g.Expect(d.Recovery.Phase).To(Equal(starting), d.Message)
				return
			}
			g.Expect(d.Outcome).To(Equal(tasks.Fail), d.Message)
			g.Expect(d.Message).To(ContainSubstring(c.says))
			g.Expect(d.Message).To(ContainSubstring("enlarge the volumes. No data was changed"), "what is kept is needed")
		})
	}
}

// The cluster starts from the most advanced member that has data, or else from the first one, however they are listed.
func TestStarter(t *testing.T) {
	g := NewWithT(t)
	in := at(surveying, on(7, 9, 8))
	name, has := starter(in.Volumes, newcluster.ID(before), 3)
	g.Expect(name).To(Equal("m-1"))
	g.Expect(has).To(BeTrue())
	in = at(surveying, on(0, 0, 0))
	slices.Reverse(in.Volumes)
	name, has = starter(in.Volumes, newcluster.ID(before), 3)
	g.Expect(name).To(Equal("m-0"))
	g.Expect(has).To(BeFalse())
}

// A snapshot is asked for once, and again if that fails.
func TestVerdict(t *testing.T) {
	g := NewWithT(t)
	first := at(saving, live(95))
	v := verdict(first, decide(first, epoch), epoch)
	g.Expect(v.Step.Detail).To(Equal(request{final: true, name: "the leading agent is taking a final snapshot", atLeast: 95}))
	g.Expect(v.Reason).To(Equal(v1alpha1.ReasonRestoring))
	again := at(saving, failed)
	v = verdict(again, decide(again, epoch), epoch)
	g.Expect(v.Step.RecheckAfter).To(Equal(retryInterval))
	in := at(saving, took(120))
	v = verdict(in, decide(in, epoch), epoch)
	g.Expect(v.Step).To(BeNil())
	g.Expect(v.Event).To(Equal("StopMembers"))
	g.Expect(v.Recovery.Restore.HighestRevision).To(BeNumerically("==", 120))
	g.Expect(v.Recovery.Restore.FinalSnapshot).To(Equal("Full-00000000-00000120-1767225600.final"))
	g.Expect(in.Recorded.Restore.FinalSnapshot).To(Equal("final"), "what was recorded is not changed")
}
