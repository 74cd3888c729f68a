// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// seen is what is known of a cluster whose leader and second voter serve, whose third does not, and in which a learner and a foreign voter are.
func seen(changes ...func(*input)) input {
	in := input{Known: members.Known{
		Etcd: &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}},
		Snapshot: &cluster.Snapshot{
			StatefulSet: cluster.StatefulSet{Name: "main"}, Cluster: cluster.Cluster{Term: 7},
			Ordinals: []cluster.Ordinal{
				{Pod: &cluster.Pod{ResourceVersion: "10"}}, {Pod: &cluster.Pod{ResourceVersion: "11"}},
				{Class: v1alpha1.ClassDead, Pod: &cluster.Pod{ResourceVersion: "12", Refusal: &cluster.Refusal{Volume: cluster.Volume{Store: cluster.StoreLeft}}}},
			},
		},
		Claims: map[int]*corev1.PersistentVolumeClaim{3: {ObjectMeta: metav1.ObjectMeta{ResourceVersion: "33"}}},
	}}
	in.Goal.Size = 3
	in.Members = []membership.Member{
		{ID: 0xa, Name: "main-0", Owner: membership.Ours, Serving: true, Leads: true},
		{ID: 0xb, Name: "main-1", Owner: membership.Ours, Ordinal: 1, Serving: true, Told: true},
		{ID: 0xc, Name: "main-2", Owner: membership.Ours, Ordinal: 2},
		{ID: 0xd, Name: "d", Owner: membership.Ours, Ordinal: 3, Learner: true, Serving: true},
		{ID: 0xe, Name: "far", Serving: true},
	}
	for _, c := range changes {
		c(&in)
	}
	return in
}

func act(action membership.Action, ordinal int, id uint64) membership.Decision {
	return membership.Decision{Conclusion: membership.Act, Step: &membership.Step{Action: action, Ordinal: ordinal, Member: id, Reason: "why"}}
}

func blocked(ordinal int, guards ...membership.Guard) membership.Decision {
	d := membership.Decision{Conclusion: membership.Wait, Step: &membership.Step{Action: membership.AddLearner, Ordinal: ordinal}}
	for _, g := range guards {
		d.Blocking = append(d.Blocking, membership.Hold{Guard: g, Message: "because of " + string(g)})
	}
	return d
}

// The status says who is listed, who votes, and who of them serves.
func TestTheMemberListIsRecorded(t *testing.T) {
	g := NewWithT(t)
	r := record(seen(), blocked(1, membership.GuardMembersSettled), noon)
	g.Expect([]int32{r.Size, r.Voters, r.ServingVoters}).To(Equal([]int32{3, 4, 3}))
	g.Expect(r.Members).To(Equal([]v1alpha1.ListedMember{
		{ID: "a", Name: "main-0", Role: v1alpha1.RoleLeader, Serving: true},
		{ID: "b", Name: "main-1", Role: v1alpha1.RoleFollower, Serving: true, Leaving: true},
		{ID: "c", Name: "main-2", Role: v1alpha1.RoleUnknown, Store: "Left"},
		{ID: "d", Name: "d", Role: v1alpha1.RoleLearner, Serving: true},
		{ID: "e", Name: "far", Role: v1alpha1.RoleFollower, Serving: true},
	}))
	again := record(seen(func(in *input) { in.recorded = r; in.Members = in.Members[:2] }), blocked(1, membership.GuardMembersSettled), noon)
	g.Expect(again.Members).To(Equal(r.Members[:2]), "what was listed before does not count")
	unread := record(seen(func(in *input) { in.recorded = r; in.Members = nil }), blocked(1, membership.GuardMembersSettled), noon)
	g.Expect([]int32{unread.Voters, unread.ServingVoters}).To(Equal([]int32{4, 0}), "no member returned the list")
	g.Expect(unread.Members).To(BeEmpty(), "whether they serve is not known")
	crowd := seen(func(in *input) {
		in.Members = nil
		for i := range 20 {
			in.Members = append(in.Members, membership.Member{ID: uint64(i + 1), Serving: true})
		}
	})
	r = record(crowd, blocked(1, membership.GuardMembersSettled), noon)
	g.Expect(r.Members).To(HaveLen(maxMembers), "what the API takes")
	g.Expect(r.Voters).To(Equal(int32(20)))
}

// What blocks is recorded with the time since when it has, for the same pod.
func TestWhatBlocksIsRecorded(t *testing.T) {
	g := NewWithT(t)
	r := record(seen(), blocked(1, membership.GuardMembersSettled, membership.GuardBackedUp), noon)
	since := func(r v1alpha1.MembershipStatus, d membership.Decision, after time.Duration) time.Time {
		next := record(seen(func(in *input) { in.recorded = r }), d, noon.Add(after))
		return next.HeldBy.Since.Time
	}
	g.Expect(r.HeldBy).To(Equal(&v1alpha1.Hold{Guard: "MembersSettled", Pod: "main-1", Message: "because of MembersSettled", Since: metav1.Time{Time: noon}}))
	g.Expect(r.BlockedBy).To(Equal([]v1alpha1.BlockedBy{
		{Guard: "MembersSettled", Pod: "main-1", Message: "because of MembersSettled"}, {Guard: "BackedUp", Pod: "main-1", Message: "because of BackedUp"},
	}))
	g.Expect(since(r, blocked(1, membership.GuardMembersSettled), time.Minute)).To(Equal(noon))
	g.Expect(since(r, blocked(2, membership.GuardMembersSettled), time.Minute)).To(Equal(noon.Add(time.Minute)), "for another pod")
	g.Expect(since(r, blocked(1, membership.GuardBackedUp), time.Minute)).To(Equal(noon.Add(time.Minute)), "by another guard")
	unblocked := record(seen(func(in *input) { in.recorded = r }), act(membership.AddLearner, 1, 0), noon)
	g.Expect(unblocked.HeldBy).To(BeNil())
	g.Expect(unblocked.BlockedBy).To(BeEmpty())
	g.Expect(r.HeldBy).NotTo(BeNil(), "what was recorded is left as it is")

	foreign := blocked(-1, membership.GuardMembersSettled)
	g.Expect(record(seen(), foreign, noon).HeldBy.Pod).To(BeEmpty(), "a member that is not ours has no pod")
	foreign.Step = nil
	g.Expect(record(seen(), foreign, noon).HeldBy.Pod).To(BeEmpty())
}

// Each step is recorded with what it rests on. A request is one that changes the member list.
func TestStepsAreRecorded(t *testing.T) {
	at := metav1.MicroTime{Time: noon}
	evidence := func(version string) v1alpha1.Evidence {
		return v1alpha1.Evidence{ObservedAt: at, Term: 7, Voters: 4, ServingVoters: 3, Quorum: 3, Serving: []string{"main-0", "main-1", "far"}, Leader: "main-0", ResourceVersion: version}
	}
	for _, c := range []struct {
		d       membership.Decision
		step    v1alpha1.MembershipStep
		request *v1alpha1.MembershipRequest
	}{
		{
			act(membership.AddLearner, 1, 0), v1alpha1.MembershipStep{Action: "AddLearner", Pod: "main-1", Evidence: evidence("11")},
			&v1alpha1.MembershipRequest{Action: "AddLearner", Pod: "main-1", Before: 5, RequestedAt: at},
		},
		{
			act(membership.PromoteLearner, 0, 0xa), v1alpha1.MembershipStep{Action: "PromoteLearner", Pod: "main-0", Member: "a", Evidence: evidence("10")},
			&v1alpha1.MembershipRequest{Action: "PromoteLearner", Pod: "main-0", Member: "a", Before: 5, RequestedAt: at},
		},
		{
			act(membership.RemoveMember, -1, 0xe), v1alpha1.MembershipStep{Action: "RemoveMember", Member: "e", Evidence: evidence("")},
			&v1alpha1.MembershipRequest{Action: "RemoveMember", Member: "e", Before: 5, RequestedAt: at},
		},
		{act(membership.Announce, 2, 0xc), v1alpha1.MembershipStep{Action: "Announce", Pod: "main-2", Member: "c", Evidence: evidence("12")}, nil},
		{act(membership.DeleteClaim, 3, 0), v1alpha1.MembershipStep{Action: "DeleteClaim", Pod: "main-3", Evidence: evidence("33")}, nil},
		{act(membership.DeletePod, 3, 0), v1alpha1.MembershipStep{Action: "DeletePod", Pod: "main-3", Evidence: evidence("")}, nil},
		{act(membership.DeleteClaim, 0, 0), v1alpha1.MembershipStep{Action: "DeleteClaim", Pod: "main-0", Evidence: evidence("10")}, nil},
	} {
		r := record(seen(), c.d, noon)
		c.step.Reason = "why"
		NewWithT(t).Expect(r.Steps).To(Equal([]v1alpha1.MembershipStep{c.step}))
		NewWithT(t).Expect(r.Request).To(Equal(c.request))
		NewWithT(t).Expect(r.LastProgressTime).To(Equal(&metav1.Time{Time: noon}))
	}
	none := seen(func(in *input) { in.Snapshot.Ordinals[1].Pod = nil })
	NewWithT(t).Expect(record(none, act(membership.AddLearner, 1, 0), noon).Steps[0].Evidence.ResourceVersion).To(BeEmpty())
}

// The same step again is neither another one nor progress, but the newest attempt is what counts. Scaling is attempted once, by another controller.
func TestTheSameStepAgain(t *testing.T) {
	g := NewWithT(t)
	later := func(r v1alpha1.MembershipStatus, d membership.Decision, after time.Duration) v1alpha1.MembershipStatus {
		return record(seen(func(in *input) { in.recorded = r }), d, noon.Add(after))
	}
	first := record(seen(), act(membership.RemoveMember, 1, 0xb), noon)
	again := later(first, act(membership.RemoveMember, 1, 0xb), time.Minute)
	g.Expect(again.Steps).To(HaveLen(1))
	g.Expect(again.Steps[0].Evidence.ObservedAt.Time).To(Equal(noon.Add(time.Minute)))
	g.Expect(again.Request.RequestedAt.Time).To(Equal(noon.Add(time.Minute)))
	g.Expect(again.LastProgressTime.Time).To(Equal(noon))
	for _, other := range []membership.Decision{act(membership.RemoveMember, 1, 0xc), act(membership.RemoveMember, 2, 0xb), act(membership.Announce, 1, 0xb)} {
		next := later(first, other, time.Minute)
		g.Expect(next.Steps).To(HaveLen(2))
		g.Expect(next.LastProgressTime.Time).To(Equal(noon.Add(time.Minute)))
	}
	g.Expect(first.Steps).To(HaveLen(1), "what was recorded is left as it is")

	scaled := record(seen(), act(membership.ScaleUp, 3, 0), noon)
	waits := later(scaled, act(membership.ScaleUp, 3, 0), time.Minute)
	g.Expect(waits.Steps).To(Equal(scaled.Steps))

	r := scaled
	for i := range maxSteps + 5 {
		r = later(r, act(membership.Announce, i%3, 0), time.Duration(i)*time.Second)
		g.Expect(r.Steps).To(HaveLen(min(i+2, maxSteps)), "what the API takes")
	}
	g.Expect(r.Steps[maxSteps-1].Evidence.ObservedAt.Time).To(Equal(noon.Add((maxSteps + 4) * time.Second)))
	back := later(r, act(membership.Announce, 1, 0), -time.Hour)
	g.Expect(back.LastProgressTime.Time).To(Equal(noon.Add(-time.Hour)), "a clock that was set back does not hide that there is no progress")
}

// A decision becomes a verdict: done, held, or one step. What was recorded for another controller to carry out is waited for.
func TestVerdict(t *testing.T) {
	g := NewWithT(t)
	done := verdict(seen(), membership.Decision{Conclusion: membership.Finished}, noon)
	g.Expect(done).To(And(HaveField("Outcome", tasks.Done), HaveField("Progress", "4/3"), HaveField("RequeueAfter", time.Duration(0)), HaveField("Message", ContainSubstring("4 voters"))))
	g.Expect(done.Message).NotTo(ContainSubstring("stay"))
	kept := func(in *input) {
		in.Ordinals = []membership.Ordinal{{Kept: true}, {}, {}, {Kept: true}, {Kept: false}}
	}
	g.Expect(verdict(seen(kept), membership.Decision{Conclusion: membership.Finished}, noon).Message).To(ContainSubstring("; %s stay", seen().Etcd.ClaimName(3)))
	foreign := func(in *input) {
		in.Ordinals = []membership.Ordinal{{}, {}, {}, {Claim: true, Foreign: "it is another's"}}
	}
	g.Expect(verdict(seen(foreign), membership.Decision{Conclusion: membership.Finished}, noon).Message).To(ContainSubstring("; %s stay: a Restore keeps data there, they are not the Etcd's own, or", seen().Etcd.ClaimName(3)))
	retained := func(in *input) { in.Goal.KeepClaims = true }
	g.Expect(verdict(seen(kept, retained), membership.Decision{Conclusion: membership.Finished}, noon).Message).NotTo(ContainSubstring("stay"), "as the spec asks for")
	held := verdict(seen(), blocked(1, membership.GuardMembersSettled, membership.GuardBackedUp), noon)
	g.Expect(held).To(And(HaveField("Outcome", tasks.Continue), HaveField("Reason", v1alpha1.ReasonHeld), HaveField("RequeueAfter", pollInterval), HaveField("Message", "MembersSettled: because of MembersSettled")))
	g.Expect(held.Step).To(BeNil())

	up := verdict(seen(), act(membership.ScaleUp, 3, 0), noon)
	g.Expect(up).To(And(HaveField("Reason", v1alpha1.ReasonRunning), HaveField("Message", "why"), HaveField("Step.Operation", "ScaleUp"), HaveField("Step.RecheckAfter", recheckAfter), HaveField("Step.Reason", "why")))
	g.Expect(up.Membership.Replicas).To(HaveValue(Equal(int32(4))), "for the pod of ordinal 3")
	recorded := func(in *input) { in.recorded = *up.Membership }
	waits := verdict(seen(recorded), act(membership.ScaleUp, 3, 0), noon)
	g.Expect(waits.Step).To(BeNil())
	g.Expect(waits.Message).To(Equal("waiting until StatefulSet main has 4 replicas: why"))
	g.Expect(verdict(seen(recorded), act(membership.ScaleUp, 4, 0), noon).Step).NotTo(BeNil(), "to another number")
	down := verdict(seen(recorded), act(membership.ScaleDown, 3, 0), noon)
	g.Expect(down.Membership.Replicas).To(HaveValue(Equal(int32(3))), "without the pod of ordinal 3")
	g.Expect(verdict(seen(recorded), blocked(1, membership.GuardMembersSettled), noon).Membership.Replicas).To(BeNil(), "what is decided otherwise is not scaled")

	held = verdict(seen(recorded), blocked(1, membership.GuardMembersSettled), noon.Add(time.Hour))
	g.Expect(held.Reason).To(Equal(v1alpha1.ReasonHeld), "the engine judges for how long that has lasted")
	g.Expect(held.ProgressDeadline).To(Equal(progressDeadline))
	g.Expect(held.Membership.LastProgressTime.Time).To(Equal(noon))
	g.Expect(held.Message).To(HaveSuffix("MembersSettled: because of MembersSettled"))
}

// A request has taken effect if the list says so, and cannot any more once etcd has said so, or after the deadline. A list that was not read says
// nothing.
func TestWhatBecameOfARequest(t *testing.T) {
	listed := func(ids ...uint64) (all []etcdclient.Member) {
		for _, id := range ids {
			all = append(all, etcdclient.Member{ID: id, Learner: id == 0xd})
		}
		return all
	}
	request := func(action membership.Action, member string, before int32) *v1alpha1.MembershipRequest {
		return &v1alpha1.MembershipRequest{Action: string(action), Member: member, Before: before, RequestedAt: metav1.MicroTime{Time: noon}}
	}
	for name, c := range map[string]struct {
		request *v1alpha1.MembershipRequest
		list    []etcdclient.Member
		pending bool
	}{
		"none":                      {nil, listed(1), false},
		"a learner is there":        {request(membership.AddLearner, "", 1), listed(1, 0xd), false},
		"no learner yet":            {request(membership.AddLearner, "", 1), listed(1), true},
		"promoted":                  {request(membership.PromoteLearner, "1", 2), listed(1, 2), false},
		"not promoted yet":          {request(membership.PromoteLearner, "d", 2), listed(1, 0xd), true},
		"the first is not promoted": {request(membership.PromoteLearner, "d", 2), listed(0xd, 1), true},
		"the first is not removed":  {request(membership.RemoveMember, "1", 2), listed(1, 2), true},
		"removed instead":           {request(membership.PromoteLearner, "d", 2), listed(1), false},
		"removed":                   {request(membership.RemoveMember, "2", 2), listed(1), false},
		"not removed yet":           {request(membership.RemoveMember, "2", 2), listed(1, 2), true},
		"removed, in no list":       {request(membership.RemoveMember, "2", 2), nil, true},
	} {
		tr := &tracker{}
		_, pending := tr.observe("task", members.Known{Snapshot: &cluster.Snapshot{}, List: c.list}, c.request, noon)
		NewWithT(t).Expect(pending != "").To(Equal(c.pending), name)
	}

	g, tr := NewWithT(t), &tracker{}
	serving := members.Known{Etcd: seen().Etcd, Snapshot: &cluster.Snapshot{At: noon, Ordinals: []cluster.Ordinal{{Serving: true, Answers: true, MemberID: 1, Pod: &cluster.Pod{}}}}, List: []etcdclient.Member{{ID: 1, Name: "main-0"}}}
	timers, waits := tr.observe("other", serving, request(membership.RemoveMember, "1", 1), noon)
	g.Expect(waits).NotTo(BeEmpty())
	g.Expect(timers).NotTo(BeZero(), "they run on")
	remove := request(membership.RemoveMember, "2", 2)
	pending := func(of *v1alpha1.MembershipRequest, after time.Duration) string {
		_, pending := tr.observe("task", members.Known{Snapshot: &cluster.Snapshot{}, List: listed(1, 2)}, of, noon.Add(after))
		return pending
	}
	g.Expect(pending(remove, 0)).To(Equal("RemoveMember was requested for member 2"))
	remove.Pod = "main-1"
	g.Expect(pending(remove, requestDeadline-1)).To(Equal("RemoveMember was requested for main-1"))
	g.Expect(pending(remove, requestDeadline)).To(BeEmpty())
	newer := remove.DeepCopy()
	newer.RequestedAt.Time = noon.Add(time.Second)
	g.Expect(pending(newer, requestDeadline)).NotTo(BeEmpty(), "of another request, the time counts from when it is known")
	tr.answer("task", newer.RequestedAt.Time)
	g.Expect(pending(newer, requestDeadline)).To(BeEmpty())
	g.Expect(pending(remove, requestDeadline)).NotTo(BeEmpty(), "the answer was to another request")
	tr.answer("task", noon)
	g.Expect(pending(remove, requestDeadline)).To(BeEmpty())
	tr.Forget("task")
	g.Expect(pending(remove, requestDeadline)).NotTo(BeEmpty(), "another operator knows no better")
}

// What members are told has a generation that none of them has read yet, whatever became of the ConfigMap.
func TestTold(t *testing.T) {
	g := NewWithT(t)
	in := seen(func(in *input) {
		in.Told.Generation, in.Told.Leaving = 4, []string{"main-1"}
		in.Snapshot.Ordinals[2].Read.Generation = 9
	})
	next := told(in, membership.Step{Action: membership.Announce, Ordinal: 2})
	g.Expect(next.Generation).To(Equal(int64(10)))
	g.Expect(next.Leaving).To(Equal([]string{"main-1", "main-2"}))
	in.Snapshot.Ordinals[2].Read.Generation = 3
	next = told(in, membership.Step{Action: membership.Retract, Ordinal: 1})
	g.Expect(next.Generation).To(Equal(int64(5)))
	g.Expect(next.Leaving).To(BeEmpty())
	g.Expect(told(in, membership.Step{Action: membership.AddLearner, Ordinal: 2}).Leaving).To(Equal([]string{"main-1"}))
	g.Expect(in.Told.Leaving).To(Equal([]string{"main-1"}), "what was told is left as it is")
	in.Snapshot.Ordinals[2].Pod = &cluster.Pod{UID: "pod"}
	in.Told = told(in, membership.Step{Action: membership.AnnounceJoin, Ordinal: 2})
	g.Expect(in.Told.Leaving).To(Equal([]string{"main-1"}))
	g.Expect(in.Told.Joining).To(Equal(map[string]string{"main-2": "pod"}))
	g.Expect(told(in, membership.Step{Action: membership.Announce, Ordinal: 2}).Joining).To(BeEmpty(), "a later list may be another one")
	in.Etcd.Spec.MemberNamePrefix = ptr.To("seed")
	g.Expect(told(in, membership.Step{Action: membership.Announce, Ordinal: 2}).Leaving).To(ContainElement("seed-main-2"))
}
