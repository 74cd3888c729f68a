// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

const before, after = 0xcafe, 0xbeef

// newInput is a cluster of three without a quorum: main-2 answers and knows no leader, and the others are not there.
func newInput(change ...func(*Input)) Input {
	in := Input{Task: "task", ClusterID: id(before), Evidence: Evidence{Lineage: []string{id(before)}, Members: 3}, Snapshot: &cluster.Snapshot{At: epoch, StatefulSet: cluster.StatefulSet{Name: "main", Observed: true}}}
	for i := range 3 {
		in.Snapshot.Ordinals = append(in.Snapshot.Ordinals, cluster.Ordinal{Name: fmt.Sprintf("main-%d", i), Member: fmt.Sprintf("x-main-%d", i), Class: v1alpha1.ClassMissing})
		in.Snapshot.Cluster.Voters = append(in.Snapshot.Cluster.Voters, cluster.Voter{ID: uint64(i + 1), Name: fmt.Sprintf("main-%d", i), Ordinal: i})
	}
	in.Snapshot.Cluster.ID, in.Snapshot.Cluster.Reachable = before, true
	in.Snapshot.Ordinals[2] = cluster.Ordinal{Name: "main-2", Member: "x-main-2", Class: v1alpha1.ClassUnready, Answers: true, Pod: &cluster.Pod{EtcdStarted: epoch}}
	for _, c := range change {
		c(&in)
	}
	return in
}

// hold scales to zero for the task; the pods of the given names are left.
func hold(left ...string) func(*Input) {
	return func(in *Input) {
		in.Snapshot.StatefulSet.HeldAtZeroBy = in.Task
		in.Snapshot.Ordinals, in.Snapshot.Surplus = nil, left
		in.Snapshot.Cluster = cluster.Cluster{}
	}
}

// serving has some members of a cluster serve and vote.
func serving(clusterID uint64, ordinals ...int) func(*Input) {
	return func(in *Input) {
		in.Snapshot.Cluster = cluster.Cluster{ID: clusterID, Reachable: true, LeaderKnown: true, Leader: 1}
		for n, i := range ordinals {
			role := v1alpha1.RoleFollower
			if n == 0 {
				role = v1alpha1.RoleLeader
			}
			in.Snapshot.Ordinals[i] = cluster.Ordinal{Name: fmt.Sprintf("main-%d", i), Member: fmt.Sprintf("x-main-%d", i), Class: v1alpha1.ClassParticipating, Answers: true, Serving: true, Role: role, Pod: &cluster.Pod{EtcdStarted: epoch}}
			in.Snapshot.Cluster.Voters = append(in.Snapshot.Cluster.Voters, cluster.Voter{ID: uint64(i + 1), Ordinal: i, Serving: true})
		}
	}
}

// ended is a member that the agent has let start, and whose etcd has ended.
func ended(ordinal int) func(*Input) {
	return func(in *Input) {
		in.Snapshot.Ordinals[ordinal].Class, in.Snapshot.Ordinals[ordinal].Pod = v1alpha1.ClassDead, &cluster.Pod{Prepared: true}
	}
}

// at has the pod of main-1 be at a revision, and outdated the StatefulSet be at the newest one.
func at(revision string) func(*Input) {
	return func(in *Input) { in.Snapshot.Ordinals[1].Pod.Revision = revision }
}

func outdated(in *Input) { in.Snapshot.StatefulSet.UpdateRevision = "newest" }

// refuses has the agent of a member keep it from starting.
func refuses(ordinal int, reason string) func(*Input) {
	return func(in *Input) {
		in.Snapshot.Ordinals[ordinal].Class, in.Snapshot.Ordinals[ordinal].Pod = v1alpha1.ClassDead, &cluster.Pod{Refusal: &cluster.Refusal{Reason: reason}}
	}
}

// claimGoes has someone delete the claim of a member.
func claimGoes(ordinal int) func(*Input) {
	return func(in *Input) { in.Snapshot.Ordinals[ordinal].Pod.VolumeGoes = true }
}

// hibernated has the spec ask for no members, and none be left.
func hibernated(in *Input) {
	in.Hibernates, in.Snapshot.Ordinals, in.Snapshot.Cluster = true, nil, cluster.Cluster{}
}

func in(phase v1alpha1.RecoveryPhase, source v1alpha1.RecoverySource) func(*Input) {
	return func(in *Input) {
		in.Recorded = v1alpha1.RecoveryStatus{Phase: phase, PhaseSince: metav1.Time{Time: epoch}, PreviousClusterID: id(before), Source: source}
		if source != "" {
			in.Recorded.Member = "x-main-2"
		}
	}
}

func TestPhases(t *testing.T) {
	const (
		confirming = v1alpha1.RecoveryConfirming
		stopping   = v1alpha1.RecoveryStopping
		surveying  = v1alpha1.RecoverySurveying
		starting   = v1alpha1.RecoveryStarting
		growing    = v1alpha1.RecoveryGrowing
		data       = v1alpha1.RecoverFromData
	)
	lostFor := func(d time.Duration) func(*Input) {
		return func(in *Input) {
			in.Recorded = v1alpha1.RecoveryStatus{Phase: confirming, PhaseSince: metav1.Time{Time: epoch.Add(-d)}, PreviousClusterID: id(before)}
			in.LostSince = epoch.Add(-d)
		}
	}
	recordedFor := func(d time.Duration) func(*Input) {
		return func(in *Input) { in.Recorded.LostSince = &metav1.Time{Time: epoch.Add(-d)} }
	}
	told := func(in *Input) { in.Configured = true }
	volume := func(state survey.State, s member.Survey) func(*Input) {
		return func(in *Input) {
			in.Volumes = append(in.Volumes, survey.Volume{Member: fmt.Sprintf("main-%d", len(in.Volumes)), State: state, Survey: s, Message: fmt.Sprintf("volume %d", len(in.Volumes))})
		}
	}
	survivor := member.Survey{State: member.SurveyPresent, ClusterID: id(before), LastTerm: 2, LastIndex: 9}
	silent := func(ordinals ...int) func(*Input) {
		return func(in *Input) {
			for _, i := range ordinals {
				in.Snapshot.Ordinals[i].Pod = &cluster.Pod{EtcdStarted: epoch}
			}
		}
	}
	for name, c := range map[string]struct {
		in      Input
		later   time.Duration
		outcome tasks.Outcome
		want    v1alpha1.RecoveryPhase
		says    string
	}{
		"lost, just now":                                {newInput(), 0, tasks.Continue, confirming, "main-2 answers but knows no leader"},
		"lost for less than enough":                     {newInput(lostFor(29 * time.Second)), 0, tasks.Continue, confirming, "30s"},
		"lost for long":                                 {newInput(lostFor(30 * time.Second)), 0, tasks.Continue, stopping, "all members are stopped"},
		"lost for long, as the status says":             {newInput(lostFor(time.Second), recordedFor(time.Hour)), 0, tasks.Continue, confirming, "without interruption"},
		"lost for long, and not observed":               {newInput(recordedFor(time.Hour)), 0, tasks.Continue, confirming, ""},
		"lost for long, a while ago":                    {newInput(lostFor(time.Hour)), 11 * time.Second, tasks.Continue, confirming, ""},
		"lost for long, seen ten seconds ago":           {newInput(lostFor(time.Hour)), 10 * time.Second, tasks.Continue, stopping, ""},
		"lost for long, and no status could be written": {newInput(func(in *Input) { in.LostSince = epoch.Add(-30 * time.Second) }), 0, tasks.Continue, stopping, "all members are stopped"},
		"back by itself":                                {newInput(lostFor(time.Hour), serving(before, 0, 2)), 0, tasks.Done, confirming, "nothing was changed"},
		"a leader that has yet to step down":            {newInput(lostFor(time.Hour), func(in *Input) { in.Snapshot.Cluster.LeaderKnown = true }), 0, tasks.Continue, confirming, "a member still knows a leader"},
		"too many are silent":                           {newInput(lostFor(time.Hour), silent(0, 1)), 0, tasks.Continue, confirming, "main-0, main-1 do not answer, may be running"},
		"a claim goes with its data":                    {newInput(lostFor(time.Hour), claimGoes(2)), 0, tasks.Continue, confirming, "main-2 is kept: its claim is being deleted, and goes with its data once no pod uses it. "},
		"that of one that crashes":                      {newInput(lostFor(time.Hour), ended(0), claimGoes(0)), 0, tasks.Continue, confirming, "main-0 is kept: "},
		"that of one whose data is lost":                {newInput(lostFor(time.Hour), refuses(0, v1alpha1.ReasonDataLost), claimGoes(0)), 0, tasks.Continue, stopping, ""},
		"that of one whose restore has failed":          {newInput(lostFor(time.Hour), refuses(0, v1alpha1.ReasonRestoreFailed), claimGoes(0)), 0, tasks.Continue, confirming, "main-0 is kept: "},
		"that of one that was removed":                  {newInput(lostFor(time.Hour), refuses(0, v1alpha1.ReasonMemberRemoved), claimGoes(0)), 0, tasks.Continue, stopping, ""},
		"that of one that has left":                     {newInput(lostFor(time.Hour), ended(0), claimGoes(0), func(in *Input) { in.Snapshot.Cluster.Voters = in.Snapshot.Cluster.Voters[1:] }), 0, tasks.Continue, stopping, ""},
		"that of one, and it is not known who votes":    {newInput(lostFor(time.Hour), ended(0), claimGoes(0), func(in *Input) { in.Snapshot.Cluster.Voters = nil }), 0, tasks.Continue, confirming, "main-0 is kept: "},
		"that of one that goes":                         {newInput(lostFor(time.Hour), ended(0), claimGoes(0), func(in *Input) { in.Snapshot.Ordinals[0].Class = v1alpha1.ClassTerminating }), 0, tasks.Continue, stopping, ""},
		"one is silent":                                 {newInput(lostFor(time.Hour), silent(0)), 0, tasks.Continue, stopping, ""},
		"a foreign voter and a silent one": {newInput(lostFor(time.Hour), silent(0), func(in *Input) {
			in.Snapshot.Cluster.Voters[1] = cluster.Voter{ID: 7, Name: "stranger", Ordinal: -1}
		}), 0, tasks.Continue, confirming, "main-0, stranger"},

		"not scaled yet": {newInput(in(stopping, "")), 0, tasks.Continue, stopping, "scaled to zero"},
		"a pod is left":  {newInput(in(stopping, ""), hold("main-0")), 0, tasks.Continue, stopping, "main-0; if a node is gone"},
		"all are gone":   {newInput(in(stopping, ""), hold()), 0, tasks.Continue, surveying, "no member is running"},
		"held by another": {newInput(in(stopping, ""), hold(), func(in *Input) { in.Snapshot.StatefulSet.HeldAtZeroBy = "other" }), 0,
			tasks.Continue, stopping, "waiting until"},

		"scaled up by another client":         {newInput(in(surveying, "")), 0, tasks.Continue, surveying, "no longer scaled to zero"},
		"members that were started still run": {newInput(in(surveying, ""), hold("m-1"), volume(survey.Seen, survivor)), 0, tasks.Continue, surveying, "waiting until these are gone: m-1"},
		"a volume is looked at":               {newInput(in(surveying, ""), hold(), volume(survey.Seen, survivor), volume(survey.Looking, member.Survey{})), 0, tasks.Continue, surveying, "volume 1"},
		"a volume is not known": {newInput(in(surveying, ""), hold(), volume(survey.Seen, survivor), volume(survey.Unread, member.Survey{}), volume(survey.Gone, member.Survey{})), 0,
			tasks.Continue, surveying, "volume 1"},
		"a claim is another owner's": {newInput(in(surveying, ""), hold(), volume(survey.Seen, survivor), volume(survey.Foreign, member.Survey{}), volume(survey.Gone, member.Survey{})), 0,
			tasks.Continue, surveying, "volume 1"},
		"one survives": {newInput(in(surveying, ""), hold(), volume(survey.Gone, member.Survey{}), volume(survey.Seen, survivor), volume(survey.Gone, member.Survey{})), 0,
			tasks.Continue, starting, "the data of main-1"},
		"a person has to decide": {newInput(in(surveying, ""), hold(), volume(survey.Seen, survivor), volume(survey.Seen, member.Survey{State: member.SurveyDamaged, ClusterID: "new"}), func(in *Input) { in.Lineage = []string{id(before), "new"} }), 0,
			tasks.Continue, surveying, "to go on without it"},
		"none survives": {newInput(in(surveying, ""), hold(), volume(survey.Gone, member.Survey{}), volume(survey.Gone, member.Survey{})), 0,
			tasks.Fail, surveying, "nothing can be recovered"},

		"hibernated while confirming":            {newInput(lostFor(time.Hour), hibernated), 0, tasks.Fail, confirming, "spec.replicas was set to 0, and no data was changed"},
		"hibernated before anything is recorded": {newInput(hibernated), 0, tasks.Fail, confirming, "spec.replicas was set to 0, and no data was changed"},
		"hibernated while stopping":              {newInput(in(stopping, ""), hibernated), 0, tasks.Fail, stopping, "spec.replicas was set to 0, and no data was changed"},
		"hibernated while surveying":             {newInput(in(surveying, ""), hibernated), 0, tasks.Fail, surveying, "spec.replicas was set to 0, and no data was changed"},
		"hibernated while starting":              {newInput(in(starting, data), told, hibernated), 0, tasks.Continue, starting, "the Etcd is hibernated, with spec.replicas 0: wake it up"},
		"hibernated, and the chosen one serves":  {newInput(in(starting, data), told, serving(after, 2), func(in *Input) { in.Hibernates = true }), 0, tasks.Continue, growing, "x-main-2 serves alone"},
		"hibernated, started as they were":       {newInput(in(starting, ""), hibernated), 0, tasks.Fail, starting, "spec.replicas was set to 0, and no data was changed"},

		"members are not told":  {newInput(in(starting, data), hold()), 0, tasks.Continue, starting, "configuring the members"},
		"still held":            {newInput(in(starting, data), told, hold()), 0, tasks.Continue, starting, "scaled up again"},
		"the chosen one starts": {newInput(in(starting, data), told), 0, tasks.Continue, starting, "waiting until x-main-2 serves: main-0 is Missing"},
		"an old quorum serves":  {newInput(in(starting, data), told, serving(before, 0, 2)), 0, tasks.Continue, starting, "waiting until x-main-2 serves"},
		"the chosen one serves without a quorum": {newInput(in(starting, data), told, serving(after, 2), func(in *Input) {
			in.Snapshot.Cluster.LeaderKnown, in.Snapshot.Cluster.Voters = false, append(in.Snapshot.Cluster.Voters, cluster.Voter{ID: 8}, cluster.Voter{ID: 9})
		}), 0, tasks.Continue, starting, "waiting until x-main-2 serves"},
		"of an unknown cluster": {newInput(in(starting, data), told, serving(0, 2)), 0, tasks.Continue, starting, "waiting until x-main-2 serves"},
		"the chosen one serves": {newInput(in(starting, data), told, serving(after, 2)), 0, tasks.Continue, growing, "x-main-2 serves alone, as cluster beef"},
		"started as they were":  {newInput(in(starting, "")), 0, tasks.Continue, starting, "have a quorum again"},
		"and found each other":  {newInput(in(starting, ""), serving(before, 0, 2)), 0, tasks.Done, starting, "nothing was rebuilt"},
		"by another clock":      {newInput(in(starting, "")), time.Hour, tasks.Continue, starting, "have a quorum again"},
		"for the whole time":    {newInput(in(starting, ""), func(in *Input) { in.StartedSince = in.Snapshot.At.Add(-quorumDeadline) }), 0, tasks.Continue, starting, "have a quorum again"},
		"and have not":          {newInput(in(starting, ""), func(in *Input) { in.StartedSince = in.Snapshot.At.Add(-quorumDeadline - 1) }), 0, tasks.Fail, starting, "main-0 is Missing"},

		"one votes":                 {newInput(in(growing, data), told, serving(after, 2)), 0, tasks.Continue, growing, "1 of 3 members vote"},
		"all vote":                  {newInput(in(growing, data), told, serving(after, 2, 0, 1)), 0, tasks.Done, growing, "rebuilt from the data of x-main-2"},
		"all vote, backup":          {newInput(in(growing, v1alpha1.RecoverFromBackup), told, serving(after, 2, 0, 1)), 0, tasks.Done, growing, "are lost"},
		"one still learns":          {newInput(in(growing, data), told, serving(after, 2, 0, 1), func(in *Input) { in.Snapshot.Ordinals[1].Role = v1alpha1.RoleLearner }), 0, tasks.Continue, growing, "main-1 is a learner"},
		"hibernated while growing":  {newInput(in(growing, data), told, hibernated), 0, tasks.Continue, growing, "the Etcd is hibernated, with spec.replicas 0: wake it up"},
		"hibernated, and all vote":  {newInput(in(growing, data), told, serving(after, 2, 0, 1), func(in *Input) { in.Hibernates = true }), 0, tasks.Done, growing, "rebuilt from the data of x-main-2"},
		"one may have been removed": {newInput(in(growing, data), told, serving(after, 2, 0), ended(1)), 0, tasks.Continue, growing, "main-1 is Dead, and no voter: if etcdctl member list does not name it, it was removed, and joins again once pod main-1 is deleted"},
		"the list has changed since one was prepared": {newInput(in(growing, data), told, serving(after, 2, 0), ended(1), func(in *Input) {
			in.Snapshot.Ordinals[1].Pod.ListChanged = true
		}), 0, tasks.Continue, growing, "main-1 is Dead: the member list has changed since its pod was prepared to join, and its etcd refuses to start. Delete pod main-1, and it joins"},
		"the template of one was fixed": {newInput(in(growing, data), told, serving(after, 2, 0), ended(1), at("older"), outdated), 0, tasks.Continue, growing, "main-1 is Dead: its pod has an older template than the StatefulSet, and rollouts wait for this task. If its template was fixed since, delete pod main-1, and it starts with the newest template"},
		"that of one is the newest":     {newInput(in(growing, data), told, serving(after, 2, 0), ended(1), at("newest"), outdated), 0, tasks.Continue, growing, "main-1 is Dead, and no voter"},
		"its report is stale": {newInput(in(growing, data), told, serving(after, 2, 0), ended(1), at("older"), outdated, func(in *Input) {
			in.Snapshot.Ordinals[1].Pod.Node.Trouble = "not ready"
		}), 0, tasks.Continue, growing, "unknown now: its node"},
		"a voter has ended": {newInput(in(growing, data), told, serving(after, 2, 0), ended(1), func(in *Input) {
			in.Snapshot.Cluster.Voters = append(in.Snapshot.Cluster.Voters, cluster.Voter{ID: 9, Ordinal: 1})
		}), 0, tasks.Continue, growing, "main-1 is Dead; main-2"},
		"told by the agent": {newInput(in(growing, data), told, func(in *Input) {
			in.Snapshot.Ordinals[0].Pod = &cluster.Pod{Refusal: &cluster.Refusal{Reason: "NotReplaced", Message: "too many learners"}}
		}), 0, tasks.Continue, growing, "NotReplaced: too many learners"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := decide(c.in, epoch.Add(c.later))
			g.Expect(d.Outcome).To(Equal(c.outcome), d.Message)
			g.Expect(d.Recovery.Phase).To(Equal(c.want), d.Message)
			g.Expect(d.Message).To(ContainSubstring(c.says))
			g.Expect(d.Recovery.PreviousClusterID).To(Equal(id(before)))
			if d.Outcome == tasks.Fail {
				g.Expect(d.Code).NotTo(BeEmpty())
			}
		})
	}
}

func TestVolumesWithoutAJobGetOne(t *testing.T) {
	g := NewWithT(t)
	i := newInput(in(v1alpha1.RecoverySurveying, ""), hold())
	for _, state := range []survey.State{survey.Unseen, survey.Abandoned} {
		i.Volumes = []survey.Volume{{Member: "main-0", State: state, Message: "Job j"}, {Member: "main-1"}}
		v := verdict(i, decide(i, epoch), v1alpha1.EtcdOperatorTaskStatus{}, epoch)
		g.Expect(v.Step.Operation).To(Equal("SurveyVolumes"))
		g.Expect(v.Step.Detail.(newcluster.Survey).Volumes).To(Equal(i.Volumes))
	}
}

// A recovery after one that did not come to its end: members may have data of what either has left behind.
func TestEarlierClustersAreToldOf(t *testing.T) {
	g := NewWithT(t)
	i := newInput(in(v1alpha1.RecoverySurveying, ""), hold())
	i.Lineage = []string{"ace", id(before), "new"}
	i.Volumes = []survey.Volume{
		{Member: "main-0", State: survey.Seen, Survey: member.Survey{State: member.SurveyPresent, ClusterID: id(before)}}, {Member: "main-1"},
		{Member: "main-2", State: survey.Seen, Survey: member.Survey{State: member.SurveyPresent, ClusterID: "new"}},
	}
	d := decide(i, epoch)
	g.Expect(d.Recovery.Member).To(Equal("main-2"))
	g.Expect(d.Recovery.PreviousClusterID).To(Equal("new"))
	g.Expect(d.Recovery.EarlierClusterIDs).To(Equal([]string{"ace", id(before)}))

	i.Volumes[2].Survey.ClusterID = id(before)
	i.Volumes[0] = survey.Volume{Member: "main-0"}
	d = decide(i, epoch)
	g.Expect(d.Recovery.PreviousClusterID).To(Equal(id(before)))
	g.Expect(d.Recovery.EarlierClusterIDs).To(Equal(i.Lineage), "the order is kept, and the member that was chosen before may come back")
}

func TestVerdictTellsWhatWasChosen(t *testing.T) {
	g := NewWithT(t)
	i := newInput(in(v1alpha1.RecoverySurveying, ""), hold())
	i.Volumes = []survey.Volume{{Member: "main-0", State: survey.Gone}, {Member: "main-1", State: survey.Seen, Survey: member.Survey{State: member.SurveyPresent, ClusterID: id(before), LastTerm: 3, LastIndex: 17}}, {Member: "main-2", State: survey.Gone}}
	v := verdict(i, decide(i, epoch), v1alpha1.EtcdOperatorTaskStatus{}, epoch)
	g.Expect(v.LastOperation.Name).To(Equal("StartMembers"))
	g.Expect(v.LastOperation.Reason).To(ContainSubstring("its log ends at index 17 of term 3"))
	g.Expect(v.Result).To(HaveKeyWithValue("member", "main-1"))
	g.Expect(v.Result).To(HaveKeyWithValue("main-0", "no volume"))
	g.Expect(v.Result["main-1"]).To(ContainSubstring(`"lastIndex":17`))
	g.Expect(v.Event).To(Equal("StartMembers"))

	// At the end, what was found is still there.
	i = newInput(in(v1alpha1.RecoveryGrowing, v1alpha1.RecoverFromData), serving(after, 1, 0, 2))
	v = verdict(i, decide(i, epoch), v1alpha1.EtcdOperatorTaskStatus{Result: v.Result}, epoch)
	g.Expect(v.Result).To(HaveKeyWithValue("clusterID", "beef"))
	g.Expect(v.Result).To(HaveKeyWithValue("member", "main-1"))
}

// A recovery that failed tells what it looked at, and of no cluster: there is none.
func TestVerdictOfAFailureTellsWhatWasFound(t *testing.T) {
	g := NewWithT(t)
	i := newInput(in(v1alpha1.RecoverySurveying, ""), hold())
	for n := range 3 {
		i.Volumes = append(i.Volumes, survey.Volume{Member: fmt.Sprintf("main-%d", n), State: survey.Gone})
	}
	v := verdict(i, decide(i, epoch), v1alpha1.EtcdOperatorTaskStatus{}, epoch)
	g.Expect(v.Code).To(Equal(v1alpha1.ErrNothingToRecover))
	g.Expect(v.LastOperation.State).To(Equal(v1alpha1.OperationStateFailed))
	g.Expect(v.Result).To(Equal(map[string]string{"previousClusterID": id(before), "main-0": "no volume", "main-1": "no volume", "main-2": "no volume"}))
}

// People see since when the quorum is lost, while it is, and since when that is watched.
func TestConfirmingShowsSinceWhen(t *testing.T) {
	g := NewWithT(t)
	d := decide(newInput(), epoch.Add(time.Second))
	g.Expect(d.Recovery.PhaseSince.Time).To(Equal(epoch.Add(time.Second)))
	again := func(in *Input) {
		in.Recorded, in.LostSince = d.Recovery, epoch.Add(2*time.Second)
		in.Recorded.LostSince = &metav1.Time{Time: epoch}
	}
	d = decide(newInput(again), epoch.Add(9*time.Second))
	g.Expect(d.Recovery.PhaseSince.Time).To(Equal(epoch.Add(time.Second)))
	g.Expect(d.Recovery.LostSince.Time).To(BeTemporally("==", epoch.Add(2*time.Second)))
	d = decide(newInput(again, func(in *Input) {
		in.LostSince = time.Time{}
		in.Snapshot.Ordinals[0].Pod, in.Snapshot.Ordinals[1].Pod = &cluster.Pod{EtcdStarted: epoch}, &cluster.Pod{EtcdStarted: epoch}
	}), epoch)
	g.Expect(d.Recovery.LostSince).To(BeNil(), "whether it is lost is not known")
}

// lastOperation names what is done in a phase, and the result says nothing new while it lasts.
func TestOperations(t *testing.T) {
	g := NewWithT(t)
	for phase, want := range map[v1alpha1.RecoveryPhase]string{
		v1alpha1.RecoveryConfirming: "ConfirmQuorumLoss", v1alpha1.RecoveryStopping: "StopMembers",
		v1alpha1.RecoverySurveying: "SurveyVolumes", v1alpha1.RecoveryStarting: "StartMembers", v1alpha1.RecoveryGrowing: "GrowBack",
	} {
		g.Expect(operations[phase]).To(Equal(want))
	}
	for _, stays := range []Input{newInput(in(v1alpha1.RecoveryStarting, v1alpha1.RecoverFromData)), newInput(in(v1alpha1.RecoverySurveying, ""))} {
		v := verdict(stays, decide(stays, epoch), v1alpha1.EtcdOperatorTaskStatus{Result: map[string]string{"member": "m"}}, epoch)
		g.Expect(v.Result).To(BeNil())
		g.Expect(v.LastOperation).To(BeNil())
	}
}
