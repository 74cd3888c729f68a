// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/etcd-foreman/etcd-foreman/internal/survey"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// asleepOf is a cluster of n members that is to sleep without its volumes, and has stopped.
func asleepOf(n int, change ...func(*sleep)) sleep {
	s := sleep{stopped: true, deletes: true, clusterID: "cafe", size: n, round: "7"}
	var voters []string
	for i := range n {
		voters = append(voters, fmt.Sprint(i))
	}
	for i := range maxMembers {
		v := survey.Volume{Member: fmt.Sprintf("m-%d", i), Claim: fmt.Sprintf("c-%d", i)}
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

func volume(i int, change func(*survey.Volume)) func(*sleep) {
	return func(s *sleep) { change(&s.volumes[i]) }
}

// taken is a Job for the final snapshot of the most advanced of n members.
func taken(n int, state job.State, age time.Duration) func(*sleep) {
	return func(s *sleep) {
		s.final = finalJob{uid: "job", subject: fmt.Sprintf("7/claim-%d/2/%d", n-1, 100+n-1), created: noon.Add(-age), state: state}
	}
}

// recordOfThree is the record of the sleep of three volumes.
func recordOfThree() *v1alpha1.Hibernation {
	h := &v1alpha1.Hibernation{ID: "job", Snapshot: "p/v2/Full-x", Revision: 42, ClusterID: "cafe"}
	for i := range 3 {
		h.Claims = append(h.Claims, v1alpha1.HibernatedClaim{Name: fmt.Sprintf("c-%d", i), UID: types.UID(fmt.Sprintf("claim-%d", i))})
	}
	return h
}

// recorded has the sleep of three volumes recorded, of which these claims are left, or others.
func recorded(claims ...v1alpha1.HibernatedClaim) func(*sleep) {
	return func(s *sleep) { s.record, s.claims, s.volumes = recordOfThree(), claims, nil }
}

var whole = job.State{Message: "Job is complete", Result: []byte(`{"snapshot":"p/v2/Full-x","revision":"42"}`)}

func TestDecideSleep(t *testing.T) {
	const hibernating, none, done = v1alpha1.ReasonHibernating, v1alpha1.ReasonNoFinalSnapshot, v1alpha1.ReasonHibernated
	ours := recordOfThree().Claims
	for name, c := range map[string]struct {
		sleep  sleep
		step   sleepStep
		reason string
		says   string
	}{
		"kept awake":                         {asleepOf(3, func(s *sleep) { s.awake, s.pods = "The cluster is kept awake.", 3 }), rest, none, "kept awake"},
		"pods are left":                      {asleepOf(3, func(s *sleep) { s.pods = 2 }), rest, hibernating, "2 pods are left"},
		"with its volumes":                   {asleepOf(3, func(s *sleep) { s.deletes = false }), rest, done, "its volumes are kept"},
		"with its volumes after all":         {asleepOf(3, func(s *sleep) { s.deletes, s.jobs = false, true }), removeJobs, hibernating, "are removed"},
		"it has never been awake":            {asleepOf(3, func(s *sleep) { s.clusterID, s.obstacle = "", "it has never served" }), rest, done, "has no volumes yet"},
		"it has never served":                {asleepOf(3, func(s *sleep) { s.clusterID, s.obstacle, s.claims = "", "it has never served", ours }), rest, none, "it has never served"},
		"no store":                           {asleepOf(3, func(s *sleep) { s.obstacle = "there is no backup" }), rest, none, "the volumes are kept: there is no backup"},
		"not seen yet":                       {asleepOf(3, func(s *sleep) { s.stopped = false }), rest, hibernating, "waiting until the newest spec is applied"},
		"a volume is to be looked at":        {asleepOf(3, volume(1, func(v *survey.Volume) { v.State, v.Message = survey.Unseen, "Job j" })), surveyVolumes, hibernating, "Job j"},
		"a volume is looked at":              {asleepOf(3, volume(1, func(v *survey.Volume) { v.State, v.Message = survey.Looking, "pod runs" })), rest, hibernating, "pod runs"},
		"a volume is not known":              {asleepOf(3, volume(1, func(v *survey.Volume) { v.State, v.Message = survey.Unread, "it is not known" })), rest, none, "it is not known"},
		"a claim of somebody else":           {asleepOf(3, volume(1, func(v *survey.Volume) { v.State, v.Message = survey.Foreign, "claim c-1 is web's" }), taken(3, whole, time.Hour)), rest, none, "the volumes are kept: claim c-1 is web's"},
		"a Job of somebody else":             {asleepOf(3, func(s *sleep) { s.final.foreign = "Job j is web's" }), rest, none, "the volumes are kept: Job j is web's"},
		"data of another cluster":            {asleepOf(3, volume(1, func(v *survey.Volume) { v.Survey.ClusterID = "beef" }), taken(3, whole, time.Hour)), rest, none, "claim c-1 has data of another cluster, beef"},
		"damaged data of another cluster":    {asleepOf(3, volume(1, func(v *survey.Volume) { v.Survey.ClusterID, v.Survey.State = "beef", member.SurveyDamaged }), taken(3, whole, time.Hour)), rest, none, "claim c-1 has data of another cluster, beef"},
		"no quorum of the data":              {asleepOf(3, volume(0, emptied), volume(1, lost), taken(3, whole, time.Hour)), rest, none, "no data of a quorum, so nobody knows whether they are all that was acknowledged: the volume of m-0 is empty; m-1 has no volume"},
		"no data at all":                     {asleepOf(1, volume(0, emptied), taken(1, whole, time.Hour)), rest, none, "the volume of m-0 is empty"},
		"the most advanced is a learner":     {asleepOf(3, volume(0, lost), volume(2, func(v *survey.Volume) { v.Survey.MemberID = "9" }), taken(3, whole, time.Hour)), rest, none, "no data of a quorum"},
		"a quorum of the data":               {asleepOf(3, volume(0, lost)), takeSnapshot, hibernating, "of m-2, the most advanced"},
		"a snapshot is to be taken":          {asleepOf(3), takeSnapshot, hibernating, "of m-2, the most advanced"},
		"a single member":                    {asleepOf(1), takeSnapshot, hibernating, "of m-0"},
		"a snapshot is taken":                {asleepOf(3, taken(3, job.State{Running: true, Message: "pod p runs"}, 0)), rest, hibernating, "of m-2: pod p runs"},
		"of another round":                   {asleepOf(3, taken(3, whole, 0), func(s *sleep) { s.round = "8" }), dropSnapshot, hibernating, "earlier"},
		"of a claim that was made anew":      {asleepOf(3, volume(2, func(v *survey.Volume) { v.UID = "anew" }), taken(3, whole, 0)), dropSnapshot, hibernating, "earlier"},
		"of a log that has grown":            {asleepOf(3, volume(2, func(v *survey.Volume) { v.Survey.LastIndex++ }), taken(3, whole, 0)), dropSnapshot, hibernating, "earlier"},
		"the store is broken":                {asleepOf(3, taken(3, job.State{Code: v1alpha1.ErrJobFailed, Message: "no such bucket"}, 0)), rest, none, "the volumes are kept: the final snapshot could not be taken, and is tried again: no such bucket"},
		"the store is broken, and it is due": {asleepOf(3, taken(3, job.State{Code: v1alpha1.ErrJobFailed, Message: "no such bucket"}, time.Minute)), dropSnapshot, none, "no such bucket"},
		"the Job says nothing":               {asleepOf(3, taken(3, job.State{}, 0)), rest, none, "told nothing"},
		"the snapshot is too old":            {asleepOf(3, taken(3, job.State{Result: []byte(`{"snapshot":"p/v2/Full-x","revision":"39"}`)}, 0)), rest, none, "revision 40"},
		"the snapshot is there":              {asleepOf(3, taken(3, whole, time.Hour)), rest, hibernating, "snapshot p/v2/Full-x, at revision 42, has all that is on the volumes"},

		"recorded":                           {asleepOf(3, recorded(ours...)), deleteClaims, hibernating, "these are deleted: c-0, c-1, c-2."},
		"recorded, and not stopped":          {asleepOf(3, recorded(ours...), func(s *sleep) { s.stopped = false }), rest, hibernating, "waiting"},
		"recorded, and the policy changed":   {asleepOf(3, recorded(ours[1:]...), func(s *sleep) { s.deletes = false }), deleteClaims, hibernating, "these are deleted: c-1, c-2."},
		"recorded, and the store is gone":    {asleepOf(3, recorded(ours[2]), func(s *sleep) { s.obstacle = "no store" }), deleteClaims, hibernating, "these are deleted: c-2."},
		"without volumes":                    {asleepOf(3, recorded()), rest, done, "wakes up from snapshot p/v2/Full-x, at revision 42"},
		"stopped while it woke up":           {asleepOf(3, recorded(v1alpha1.HibernatedClaim{Name: "c-0", UID: "anew"})), rest, none, "was stopped while it woke up"},
		"stopped while it woke up, in parts": {asleepOf(3, recorded(ours[1], v1alpha1.HibernatedClaim{Name: "c-0", UID: "anew"})), deleteClaims, hibernating, "these are deleted: c-1."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := decideSleep(c.sleep, noon.Time)
			g.Expect(d.condition.Message).To(ContainSubstring(c.says))
			g.Expect(d.condition.Reason).To(Equal(c.reason), d.condition.Message)
			g.Expect(d.condition.Status == metav1.ConditionTrue).To(Equal(c.reason == done))
			g.Expect(d.step).To(Equal(c.step), d.condition.Message)
			switch {
			case c.sleep.record != nil:
				g.Expect(d.record).To(BeIdenticalTo(c.sleep.record), "a record does not change")
			case name == "the snapshot is there":
				want := recordOfThree()
				want.Since = noon
				g.Expect(d.record).To(Equal(want))
			default:
				g.Expect(d.record).To(BeNil())
			}
			g.Expect(d.step == deleteClaims && c.sleep.record == nil).To(BeFalse(), "no claim goes without a record")
		})
	}
}

func emptied(v *survey.Volume) { v.Survey = member.Survey{State: member.SurveyNone} }

func lost(v *survey.Volume) { *v = survey.Volume{Member: v.Member, Claim: v.Claim} }

// A volume that is gone is not in the record, and its claim, if it is made anew, is not deleted by it.
func TestRecordHasWhatWasSeen(t *testing.T) {
	g := NewWithT(t)
	d := decideSleep(asleepOf(3, volume(0, lost), volume(1, emptied), volume(1, func(v *survey.Volume) { v.Survey.MemberID = "1" }),
		volume(2, func(v *survey.Volume) { v.Survey.Voters = []string{"2"} }), taken(3, whole, 0)), noon.Time)
	g.Expect(d.record).NotTo(BeNil(), d.condition.Message)
	g.Expect(d.record.Claims).To(Equal(recordOfThree().Claims[1:]))
}

func TestDecideWaking(t *testing.T) {
	record := recordOfThree()
	told := &v1alpha1.ClusterRecovery{TaskUID: "job", PreviousClusterID: "cafe"}
	earlier := &v1alpha1.ClusterRecovery{TaskUID: "other", PreviousClusterID: "ace"}
	for name, c := range map[string]struct {
		waking waking
		want   wakingDecision
	}{
		"with its volumes":               {waking{}, wakingDecision{}},
		"while Jobs look at them":        {waking{jobs: true}, wakingDecision{why: "Jobs", cleanUp: true}},
		"while Jobs are there":           {waking{jobs: true, record: record, recorded: told, told: true}, wakingDecision{why: "Jobs", cleanUp: true}},
		"while a claim is left":          {waking{record: record, left: []string{"c-1", "c-2"}, recorded: told, told: true}, wakingDecision{why: "deleted first: c-1, c-2", cleanUp: true}},
		"not recorded":                   {waking{record: record}, wakingDecision{why: "recorded first", begin: true}},
		"recorded is an earlier one":     {waking{record: record, recorded: earlier, told: true}, wakingDecision{why: "recorded first", begin: true}},
		"not told":                       {waking{record: record, recorded: told}, wakingDecision{why: "told first", begin: true}},
		"told":                           {waking{record: record, recorded: told, told: true}, wakingDecision{begin: true}},
		"a task has recovered it, so to": {waking{record: record, recorded: &v1alpha1.ClusterRecovery{TaskUID: "task", PreviousClusterID: "cafe"}, told: true}, wakingDecision{begin: true}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := decideWaking(c.waking)
			g.Expect(d.why).To(ContainSubstring(c.want.why))
			g.Expect(d.why == "").To(Equal(c.want.why == ""))
			g.Expect(d.cleanUp).To(Equal(c.want.cleanUp))
			g.Expect(d.begin).To(Equal(c.want.begin))
		})
	}
}

// From the record to the cluster that has begun anew.
func TestHibernationInTheStatus(t *testing.T) {
	g := NewWithT(t)
	etcd := served(3)
	etcd.Status.ClusterID, etcd.Spec.Replicas = "cafe", 0
	step := func(o observation) v1alpha1.EtcdStatus {
		o.current, o.now, o.wanted = true, noon, etcd.Spec.Replicas
		etcd.Status = nextStatus(etcd, o)
		return etcd.Status
	}
	record := recordOfThree()
	g.Expect(step(observation{}).Hibernation).To(BeNil())
	g.Expect(step(observation{hibernation: record}).Hibernation).To(Equal(record))
	g.Expect(replicas(etcd, nil)).To(BeZero())
	other := record.DeepCopy()
	other.ID = "other"
	g.Expect(step(observation{hibernation: other}).Hibernation).To(Equal(record), "it does not change")
	g.Expect(step(observation{}).Hibernation).To(Equal(record), "it is not forgotten")
	g.Expect(etcd.Status.Recovery).To(BeNil())

	etcd.Spec.Replicas = 3
	g.Expect(replicas(etcd, nil)).To(BeZero(), "it is recorded first that the cluster begins anew")
	g.Expect(step(observation{}).Recovery).To(BeNil(), "the claims go first")
	g.Expect(step(observation{begins: true}).Recovery).To(Equal(&v1alpha1.ClusterRecovery{
		TaskUID: "job", Member: "etcd-main-0", Source: v1alpha1.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 42,
	}))
	text, err := instruction(etcd.Status.Recovery)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(member.ParseRecovery([]byte(text))).To(Equal(&member.Recovery{Task: "job", Member: "etcd-main-0", Source: member.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 42}))
	g.Expect(replicas(etcd, nil)).To(Equal(int32(3)))

	// One serves, and the others learn.
	one := snapshotOf(3)
	one.Cluster.ID = 0xbeef
	one.Ordinals[1].Role = v1alpha1.RoleLearner
	waking := condition(v1alpha1.ConditionHibernated, metav1.ConditionFalse, v1alpha1.ReasonWakingUp, "The cluster wakes up.")
	step(observation{snapshot: one, begins: true, hibernation: record, further: []metav1.Condition{waking}})
	g.Expect(etcd.Status.ClusterID).To(Equal("beef"))
	g.Expect(etcd.Status.Hibernation).To(BeNil())
	g.Expect(etcd.Status.Recovery).NotTo(BeNil())
	for _, c := range etcd.Status.Conditions {
		g.Expect(c.Type).NotTo(Equal(v1alpha1.ConditionHibernated))
	}
	all := snapshotOf(3)
	all.Cluster.ID = 0xbeef
	g.Expect(step(observation{snapshot: all}).Recovery).To(BeNil())
}

func TestObstacle(t *testing.T) {
	g := NewWithT(t)
	etcd := served(3)
	etcd.Status.ClusterID, etcd.Status.ClusterSize = "", 0
	g.Expect(obstacle(etcd)).To(ContainSubstring("there is no backup"))
	etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderLocal, Container: "c"}}
	g.Expect(obstacle(etcd)).To(ContainSubstring("has never served"))
	etcd.Status.ClusterID, etcd.Status.ClusterSize = "cafe", 3
	g.Expect(obstacle(etcd)).To(BeEmpty())
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{PreviousClusterID: "cafe"}
	g.Expect(obstacle(etcd)).To(ContainSubstring("was being recovered"))
	etcd.Status.Recovery.PreviousClusterID = "ace"
	g.Expect(obstacle(etcd)).To(BeEmpty())
}
