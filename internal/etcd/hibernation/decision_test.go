// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package hibernation

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// stoppedOf returns the input of a stopped cluster of n members that is to hibernate without its volumes.
func stoppedOf(n int, change ...func(*input)) input {
	s := input{stopped: true, deletes: true, clusterID: "cafe", size: n, round: "7"}
	var voters []string
	for i := range n {
		voters = append(voters, fmt.Sprint(i))
	}
	for i := range survey.MaxMembers {
		v := survey.Volume{Ordinal: int32(i), Member: fmt.Sprintf("m-%d", i), Claim: fmt.Sprintf("c-%d", i)}
		if i < n {
			v.State, v.UID = survey.Seen, types.UID(fmt.Sprintf("claim-%d", i))
			v.Survey = member.Survey{
				State: member.SurveyPresent, ClusterID: "cafe", MemberID: fmt.Sprint(i), Voters: voters, LastTerm: 2, LastIndex: uint64(100 + i), Revision: 40,
			}
		}
		s.volumes = append(s.volumes, v)
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func volume(i int, change func(*survey.Volume)) func(*input) {
	return func(s *input) { change(&s.volumes[i]) }
}

// taken adds a Job for the final snapshot of the most advanced of n members.
func taken(n int, state job.State, age time.Duration) func(*input) {
	return func(s *input) {
		s.final = finalJob{uid: "job", subject: fmt.Sprintf("7/claim-%d/2/%d", n-1, 100+n-1), retry: retryFinalSnapshot - age, state: state}
	}
}

// recordOfThree returns the record of a hibernation without three volumes.
func recordOfThree() *v1alpha1.Hibernation {
	h := &v1alpha1.Hibernation{ID: "job", Snapshot: "p/v2/Full-x", Revision: 42, ClusterID: "cafe"}
	for i := range 3 {
		h.Claims = append(h.Claims, v1alpha1.HibernatedClaim{Name: fmt.Sprintf("c-%d", i), UID: types.UID(fmt.Sprintf("claim-%d", i))})
	}
	return h
}

// recorded adds the record of a hibernation without three volumes, with the claims that still exist.
func recorded(claims ...v1alpha1.HibernatedClaim) func(*input) {
	return func(s *input) { s.record, s.claims, s.volumes = recordOfThree(), claims, nil }
}

var whole = job.State{Message: "Job is complete", Result: []byte(`{"snapshot":"p/v2/Full-x","revision":"42"}`)}

func TestDecide(t *testing.T) {
	const hibernating, none, done = v1alpha1.ReasonHibernating, v1alpha1.ReasonNoFinalSnapshot, v1alpha1.ReasonHibernated
	ours := recordOfThree().Claims
	for name, c := range map[string]struct {
		in     input
		step   step
		reason string
		says   string
	}{
		"kept running":     {stoppedOf(3, func(s *input) { s.blocked, s.pods = "The cluster is kept running.", 3 }), wait, none, "kept running"},
		"pods are left":    {stoppedOf(3, func(s *input) { s.pods = 2 }), wait, hibernating, "2 pods are left"},
		"with its volumes": {stoppedOf(3, func(s *input) { s.deletes = false }), wait, done, "its volumes are kept"},
		"with its volumes, after a change of policy": {stoppedOf(3, func(s *input) { s.deletes, s.jobs = false, true }), removeJobs, hibernating, "removing the Jobs"},
		"never started":                       {stoppedOf(3, func(s *input) { s.clusterID, s.obstacle = "", "it has never served" }), wait, done, "has no volumes yet"},
		"never served":                        {stoppedOf(3, func(s *input) { s.clusterID, s.obstacle, s.claims = "", "it has never served", ours }), wait, none, "it has never served"},
		"no store":                            {stoppedOf(3, func(s *input) { s.obstacle = "there is no backup" }), wait, none, "the volumes are kept: there is no backup"},
		"newest spec not applied yet":         {stoppedOf(3, func(s *input) { s.stopped = false }), wait, hibernating, "waiting until the newest spec is applied"},
		"a volume is to be surveyed":          {stoppedOf(3, volume(1, func(v *survey.Volume) { v.State, v.Message = survey.Unseen, "Job j" })), surveyVolumes, hibernating, "Job j"},
		"a volume is being surveyed":          {stoppedOf(3, volume(1, func(v *survey.Volume) { v.State, v.Message = survey.Looking, "pod runs" })), wait, hibernating, "pod runs"},
		"a volume cannot be surveyed":         {stoppedOf(3, volume(1, func(v *survey.Volume) { v.State, v.Message = survey.Unread, "it is not known" })), wait, none, "it is not known"},
		"a foreign claim":                     {stoppedOf(3, volume(1, func(v *survey.Volume) { v.State, v.Message = survey.Foreign, "claim c-1 is web's" }), taken(3, whole, time.Hour)), wait, none, "the volumes are kept: claim c-1 is web's"},
		"a foreign Job":                       {stoppedOf(3, func(s *input) { s.final.foreign = "Job j is web's" }), wait, none, "the volumes are kept: Job j is web's"},
		"data of another cluster":             {stoppedOf(3, volume(1, func(v *survey.Volume) { v.Survey.ClusterID = "beef" }), taken(3, whole, time.Hour)), wait, none, "claim c-1 has data of another cluster, beef"},
		"damaged data of another cluster":     {stoppedOf(3, volume(1, func(v *survey.Volume) { v.Survey.ClusterID, v.Survey.State = "beef", member.SurveyDamaged }), taken(3, whole, time.Hour)), wait, none, "claim c-1 has data of another cluster, beef"},
		"no quorum of the data":               {stoppedOf(3, volume(0, emptied), volume(1, lost), taken(3, whole, time.Hour)), wait, none, "do not have the data of a quorum, so acknowledged writes may be missing: the volume of m-0 is empty; m-1 has no volume"},
		"no data at all":                      {stoppedOf(1, volume(0, emptied), taken(1, whole, time.Hour)), wait, none, "the volume of m-0 is empty"},
		"the most advanced is a learner":      {stoppedOf(3, volume(0, lost), volume(2, func(v *survey.Volume) { v.Survey.MemberID = "9" }), taken(3, whole, time.Hour)), wait, none, "do not have the data of a quorum"},
		"a quorum of the data":                {stoppedOf(3, volume(0, lost)), takeSnapshot, hibernating, "of m-2, the most advanced"},
		"a snapshot is to be taken":           {stoppedOf(3), takeSnapshot, hibernating, "of m-2, the most advanced"},
		"a single member":                     {stoppedOf(1), takeSnapshot, hibernating, "of m-0"},
		"a snapshot is taken":                 {stoppedOf(3, taken(3, job.State{Running: true, Message: "pod p runs"}, 0)), wait, hibernating, "of m-2: pod p runs"},
		"of another round":                    {stoppedOf(3, taken(3, whole, 0), func(s *input) { s.round = "8" }), dropSnapshot, hibernating, "earlier"},
		"of a recreated claim":                {stoppedOf(3, volume(2, func(v *survey.Volume) { v.UID = "new" }), taken(3, whole, 0)), dropSnapshot, hibernating, "earlier"},
		"of a log that has grown":             {stoppedOf(3, volume(2, func(v *survey.Volume) { v.Survey.LastIndex++ }), taken(3, whole, 0)), dropSnapshot, hibernating, "earlier"},
		"the store is broken":                 {stoppedOf(3, taken(3, job.State{Code: v1alpha1.ErrJobFailed, Message: "no such bucket"}, 0)), wait, none, "the volumes are kept: the final snapshot failed; retrying: no such bucket"},
		"the store is broken, a retry is due": {stoppedOf(3, taken(3, job.State{Code: v1alpha1.ErrJobFailed, Message: "no such bucket"}, time.Minute)), dropSnapshot, none, "no such bucket"},
		"the Job has no result":               {stoppedOf(3, taken(3, job.State{}, 0)), wait, none, "cannot be read"},
		"the Job names no snapshot":           {stoppedOf(3, taken(3, job.State{Result: []byte(`{"revision":"42"}`)}, 0)), wait, none, "cannot be read"},
		"the snapshot is of nothing":          {stoppedOf(3, volume(2, func(v *survey.Volume) { v.Survey.Revision = 0 }), taken(3, job.State{Result: []byte(`{"snapshot":"x","revision":"0"}`)}, 0)), wait, none, `at revision "0"`},
		"the snapshot is too old":             {stoppedOf(3, taken(3, job.State{Result: []byte(`{"snapshot":"p/v2/Full-x","revision":"39"}`)}, 0)), wait, none, "revision 40"},
		"the snapshot is taken":               {stoppedOf(3, taken(3, whole, time.Hour)), wait, hibernating, "snapshot p/v2/Full-x, at revision 42, has all that is on the volumes"},

		"recorded":                                 {stoppedOf(3, recorded(ours...)), deleteClaims, hibernating, "deleting claims c-0, c-1, c-2."},
		"recorded, and not stopped":                {stoppedOf(3, recorded(ours...), func(s *input) { s.stopped = false }), wait, hibernating, "waiting"},
		"one is left, and not stopped":             {stoppedOf(3, recorded(ours[0]), func(s *input) { s.stopped = false }), wait, hibernating, "waiting"},
		"recorded, and the policy changed":         {stoppedOf(3, recorded(ours[1:]...), func(s *input) { s.deletes = false }), deleteClaims, hibernating, "deleting claims c-1, c-2."},
		"recorded, and the store is removed":       {stoppedOf(3, recorded(ours[2]), func(s *input) { s.obstacle = "no store" }), deleteClaims, hibernating, "deleting claims c-2."},
		"without volumes":                          {stoppedOf(3, recorded()), wait, done, "wakes up from snapshot p/v2/Full-x, at revision 42"},
		"stopped while waking up":                  {stoppedOf(3, recorded(v1alpha1.HibernatedClaim{Name: "c-0", UID: "new"})), wait, none, "was stopped while it woke up"},
		"stopped while waking up, old claims left": {stoppedOf(3, recorded(ours[1], v1alpha1.HibernatedClaim{Name: "c-0", UID: "new"})), deleteClaims, hibernating, "deleting claims c-1."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := decide(c.in, noon)
			g.Expect(d.condition.Message).To(ContainSubstring(c.says))
			g.Expect(d.condition.Reason).To(Equal(c.reason), d.condition.Message)
			g.Expect(d.condition.Status == metav1.ConditionTrue).To(Equal(c.reason == done))
			g.Expect(d.step).To(Equal(c.step), d.condition.Message)
			switch {
			case c.in.record != nil:
				g.Expect(d.record).To(BeIdenticalTo(c.in.record), "the record does not change")
			case name == "the snapshot is taken":
				want := recordOfThree()
				want.Since = metav1.NewTime(noon)
				g.Expect(d.record).To(Equal(want))
			default:
				g.Expect(d.record).To(BeNil())
			}
			g.Expect(d.step == deleteClaims && c.in.record == nil).To(BeFalse(), "no claim is deleted without a record")
		})
	}
}

func emptied(v *survey.Volume) { v.Survey = member.Survey{State: member.SurveyNone} }

func lost(v *survey.Volume) { *v = survey.Volume{Member: v.Member, Claim: v.Claim} }

// A missing volume is not in the record, so its claim is not deleted if it is recreated.
func TestRecordHasWhatWasSeen(t *testing.T) {
	g := NewWithT(t)
	d := decide(stoppedOf(3, volume(0, lost), volume(1, emptied), volume(1, func(v *survey.Volume) { v.Survey.MemberID = "1" }),
		volume(2, func(v *survey.Volume) { v.Survey.Voters = []string{"2"} }), taken(3, whole, 0)), noon)
	g.Expect(d.record).NotTo(BeNil(), d.condition.Message)
	g.Expect(d.record.Claims).To(Equal(recordOfThree().Claims[1:]))
}

// A member that joined while no operator watched has a volume beyond the size of the cluster. What an earlier Etcd left there stays.
func TestVolumesBeyondTheSize(t *testing.T) {
	beyond := func(clusterID string) func(*input) {
		return func(s *input) {
			for i := range 4 {
				v := &s.volumes[i]
				v.State, v.UID = survey.Seen, types.UID(fmt.Sprintf("claim-%d", i))
				v.Survey = member.Survey{State: member.SurveyPresent, ClusterID: "cafe", MemberID: fmt.Sprint(i), Voters: []string{"0", "1", "2", "3"}, LastTerm: 2, LastIndex: uint64(100 + i), Revision: 40}
			}
			s.volumes[3].Survey.ClusterID = clusterID
		}
	}
	for _, c := range []struct {
		clusterID, source string
		members, claims   int
	}{{"cafe", "m-3", 4, 4}, {"beef", "m-2", 3, 3}} {
		g := NewWithT(t)
		s := stoppedOf(3, beyond(c.clusterID))
		d := decide(s, noon)
		g.Expect(d.step).To(Equal(takeSnapshot), d.condition.Message)
		g.Expect(d.source.Member).To(Equal(c.source))
		d = decide(stoppedOf(3, beyond(c.clusterID), taken(c.members, whole, 0)), noon)
		g.Expect(d.record).NotTo(BeNil(), d.condition.Message)
		g.Expect(d.record.Claims).To(HaveLen(c.claims))

		etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "m"}, Status: v1alpha1.EtcdStatus{ClusterSize: 3, Hibernation: &v1alpha1.Hibernation{}}}
		for i := range c.claims {
			etcd.Status.Hibernation.Claims = append(etcd.Status.Hibernation.Claims, v1alpha1.HibernatedClaim{Name: fmt.Sprintf("m-m-%d", i)})
		}
		g.Expect(membersOf(etcd)).To(BeEquivalentTo(c.claims), "those that are given up are deleted")
	}
}

// Etcd begins with revision 1: a cluster in which nothing was ever written hibernates as well.
func TestRecordOfAnEmptyCluster(t *testing.T) {
	empty := func(v *survey.Volume) { v.Survey.Revision = 1 }
	d := decide(stoppedOf(1, volume(0, empty), taken(1, job.State{Result: []byte(`{"snapshot":"x","revision":"1"}`)}, 0)), noon)
	NewWithT(t).Expect(d.record).To(HaveValue(HaveField("Revision", int64(1))), d.condition.Message)
}

func TestDecideWaking(t *testing.T) {
	record := recordOfThree()
	recovery := &v1alpha1.ClusterRecovery{TaskUID: "job", PreviousClusterID: "cafe"}
	earlier := &v1alpha1.ClusterRecovery{TaskUID: "other", PreviousClusterID: "ace"}
	for name, c := range map[string]struct {
		waking waking
		want   wakingDecision
	}{
		"with its volumes":                {waking{}, wakingDecision{}},
		"while Jobs survey them":          {waking{jobs: true}, wakingDecision{why: "Jobs", cleanUp: true}},
		"while Jobs exist":                {waking{jobs: true, record: record, recorded: recovery, instructed: true}, wakingDecision{why: "Jobs", cleanUp: true}},
		"while a claim is left":           {waking{record: record, left: []string{"c-1", "c-2"}, recorded: recovery, instructed: true}, wakingDecision{why: "that were given up: c-1, c-2", cleanUp: true}},
		"while a single claim is left":    {waking{record: record, left: []string{"c-1"}, recorded: recovery, instructed: true}, wakingDecision{why: "that were given up: c-1", cleanUp: true}},
		"not recorded":                    {waking{record: record}, wakingDecision{why: "the status records", restore: true}},
		"an earlier recovery is recorded": {waking{record: record, recorded: earlier, instructed: true}, wakingDecision{why: "the status records", restore: true}},
		"recovered by a task, from the cluster that it woke up as": {waking{record: record, recorded: &v1alpha1.ClusterRecovery{TaskUID: "task", PreviousClusterID: "woken", EarlierClusterIDs: []string{"cafe"}}, instructed: true}, wakingDecision{restore: true}},
		"not instructed":      {waking{record: record, recorded: recovery}, wakingDecision{why: "are instructed", restore: true}},
		"instructed":          {waking{record: record, recorded: recovery, instructed: true}, wakingDecision{restore: true}},
		"recovered by a task": {waking{record: record, recorded: &v1alpha1.ClusterRecovery{TaskUID: "task", PreviousClusterID: "cafe"}, instructed: true}, wakingDecision{restore: true}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := decideWaking(c.waking)
			g.Expect(d.why).To(ContainSubstring(c.want.why))
			g.Expect(d.why == "").To(Equal(c.want.why == ""))
			g.Expect(d.cleanUp).To(Equal(c.want.cleanUp))
			g.Expect(d.restore).To(Equal(c.want.restore))
		})
	}
}

func TestObstacle(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{}
	g.Expect(obstacle(&state.State{Etcd: etcd}, nil)).To(ContainSubstring("there is no backup"))
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "c"}}
	g.Expect(obstacle(&state.State{Etcd: etcd}, nil)).To(ContainSubstring("has never served"))
	etcd.Status.ClusterID, etcd.Status.ClusterSize = "cafe", 3
	g.Expect(obstacle(&state.State{Etcd: etcd}, nil)).To(BeEmpty())
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{PreviousClusterID: "cafe"}
	g.Expect(obstacle(&state.State{Etcd: etcd}, nil)).To(ContainSubstring("was being recovered"))
	etcd.Status.Recovery.PreviousClusterID = "ace"
	g.Expect(obstacle(&state.State{Etcd: etcd}, nil)).To(BeEmpty())
	etcd.Status.Recovery.EarlierClusterIDs = []string{"cafe"}
	g.Expect(obstacle(&state.State{Etcd: etcd}, nil)).To(ContainSubstring("was being recovered"), "the second recovery in a row")
}

// What a task has had members set aside is on claims that existed when the task ended, for as long as it exists.
func TestVolumesAreKeptForATask(t *testing.T) {
	g := NewWithT(t)
	n := newNight(t)
	etcd := n.state().Etcd
	claimed := func(at time.Time) *state.State {
		return &state.State{Etcd: etcd, Claims: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(at)}}}}
	}
	for _, of := range []v1alpha1.TaskType{v1alpha1.Restore, v1alpha1.QuorumLossRecovery} {
		task := setsAside(of)
		task.Status.CompletedAt = ptr.To(metav1.NewTime(noon))
		tasks := []v1alpha1.EtcdOperatorTask{{}, *task}
		g.Expect(obstacle(claimed(noon.Add(-time.Hour)), tasks)).To(Equal("what members had before task back is on them, and goes with them: delete the task once you do not want to go back to that"))
		g.Expect(obstacle(claimed(noon.Add(time.Hour)), tasks)).To(BeEmpty(), "it has nothing of before")
		tasks[1].Status.CompletedAt = nil
		g.Expect(obstacle(claimed(noon.Add(time.Hour)), tasks)).NotTo(BeEmpty(), "the task has not ended")
		tasks[1].Status.Recovery.Source = ""
		g.Expect(obstacle(claimed(noon.Add(-time.Hour)), tasks)).To(BeEmpty(), "members have started as they were")
	}
}
