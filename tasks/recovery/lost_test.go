// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Whatever may run and does not answer may be part of a quorum that the operator cannot reach: pods of the StatefulSet, pods
// beyond its replicas, and members elsewhere.
func TestQuorumIsLostOnlyWhenTheSilentAreNone(t *testing.T) {
	// Of three, main-2 answers and knows no leader, and the others are not there.
	silent := func(ordinal int) func(*Input) {
		return func(in *Input) {
			in.Snapshot.Ordinals[ordinal].Class = v1alpha1.ClassUnready
			in.Snapshot.Ordinals[ordinal].Pod = &cluster.Pod{EtcdStarted: epoch}
		}
	}
	created := func(in *Input) {
		in.Snapshot.Ordinals[1].Class, in.Snapshot.Ordinals[1].Pod = v1alpha1.ClassStarting, &cluster.Pod{}
	}
	lastSeen := func(class v1alpha1.PodClass, ordinals ...int) func(*Input) {
		return func(in *Input) {
			for _, i := range ordinals {
				in.Snapshot.Ordinals[i].Class = class
				in.Snapshot.Ordinals[i].Pod = &cluster.Pod{Node: cluster.Node{Name: "n", Trouble: "not ready"}}
			}
		}
	}
	surplus := func(names ...string) func(*Input) {
		return func(in *Input) { in.Snapshot.Surplus = names }
	}
	elsewhere := func(in *Input) {
		in.Snapshot.Cluster.Voters[1] = cluster.Voter{ID: 7, Name: "stranger", Ordinal: -1}
	}
	grows := func(in *Input) {
		in.Snapshot.Ordinals = append(in.Snapshot.Ordinals, cluster.Ordinal{Name: "main-3", Class: v1alpha1.ClassMissing})
	}
	ready := func(probed bool) func(*Input) {
		return func(in *Input) { in.Snapshot.Ordinals[0].Pod.Ready, in.Snapshot.Ordinals[0].Pod.Probed = true, probed }
	}
	unknown := func(in *Input) { in.Snapshot.Cluster.Voters = nil }
	leaderless := func(in *Input) {
		in.Snapshot.Cluster.LeaderKnown = false
		for len(in.Snapshot.Cluster.Voters) < 3 {
			in.Snapshot.Cluster.Voters = append(in.Snapshot.Cluster.Voters, cluster.Voter{ID: 9, Ordinal: 1})
		}
	}
	only := func(in *Input) {
		in.Snapshot.Cluster.Voters, in.Snapshot.Ordinals = in.Snapshot.Cluster.Voters[:1], in.Snapshot.Ordinals[2:]
	}
	nothing := func(in *Input) {
		in.Snapshot.Cluster = cluster.Cluster{}
		in.Snapshot.Ordinals[2] = cluster.Ordinal{Name: "main-2", Class: v1alpha1.ClassMissing}
	}
	leads := func(in *Input) {
		in.Snapshot.Cluster.LeaderKnown, in.Snapshot.Cluster.Voters[2].Serving = true, true
	}
	for name, c := range map[string]struct {
		change []func(*Input)
		lost   bool
		says   string
	}{
		"a leader has not stepped down yet":    {[]func(*Input){leads}, false, "a member still knows a leader, although only 1 of 3 voters serve"},
		"a quorum":                             {[]func(*Input){serving(before, 0, 2)}, false, "2 of 3 voters serve"},
		"none is silent":                       {nil, true, "main-2"},
		"one is":                               {[]func(*Input){silent(0)}, true, "main-2"},
		"one that has not started is not":      {[]func(*Input){silent(0), created}, true, "main-2"},
		"two are":                              {[]func(*Input){silent(0), silent(1)}, false, "main-0, main-1 do not answer"},
		"two of three, as the fourth is added": {[]func(*Input){silent(0), silent(1), grows}, false, "main-0, main-1 do not answer"},
		"one whose probe passes, and voters are unknown":     {[]func(*Input){silent(0), unknown, ready(true)}, false, "the readiness probe of main-0 passes"},
		"one that has no probe, and voters are unknown":      {[]func(*Input){silent(0), unknown, ready(false)}, true, "main-2"},
		"two that were dead when their nodes were lost":      {[]func(*Input){lastSeen(v1alpha1.ClassDead, 0, 1)}, false, "main-0, main-1 do not answer"},
		"two that were starting when their nodes were lost":  {[]func(*Input){lastSeen(v1alpha1.ClassStarting, 0, 1)}, false, "main-0, main-1 do not answer"},
		"two that were terminating when their nodes were":    {[]func(*Input){lastSeen(v1alpha1.ClassTerminating, 0, 1)}, false, "main-0, main-1 do not answer"},
		"one that was dead when its node was lost":           {[]func(*Input){lastSeen(v1alpha1.ClassDead, 0)}, true, "main-2"},
		"a pod beyond the replicas":                          {[]func(*Input){surplus("main-3")}, true, "main-2"},
		"one, and a pod beyond the replicas":                 {[]func(*Input){silent(0), surplus("main-3")}, false, "main-0, main-3 do not answer"},
		"two pods beyond the replicas":                       {[]func(*Input){surplus("main-3", "main-4")}, false, "main-3, main-4 do not answer"},
		"a member elsewhere":                                 {[]func(*Input){elsewhere}, true, "main-2"},
		"a quorum whose leader is unknown":                   {[]func(*Input){serving(before, 0, 2), leaderless}, false, "2 of 3 voters serve"},
		"the only voter serves":                              {[]func(*Input){serving(before, 2), leaderless, only}, false, "voters serve"},
		"no member answers, nothing is known, one is silent": {[]func(*Input){nothing, silent(0)}, true, "no member serves"},
		"no member answers, nothing is known, two are":       {[]func(*Input){nothing, silent(0), silent(1)}, false, "main-0, main-1 do not answer"},
		"one that is elsewhere, and a surplus":               {[]func(*Input){elsewhere, surplus("main-3")}, false, "main-3, stranger do not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			lost, why := quorumLost(newInput(c.change...).Snapshot, 3)
			g.Expect(lost).To(Equal(c.lost), why)
			g.Expect(why).To(ContainSubstring(c.says))
		})
	}
}

// answering are members of three that the observer reaches, by their endpoints. A learner refuses to return the member list.
type answering map[string]etcdclient.Status

type answeringMember struct {
	etcdclient.Client
	status etcdclient.Status
	silent bool
}

func (a answering) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	status, answers := a[endpoint]
	return answeringMember{status: status, silent: !answers}, nil
}

func (m answeringMember) Status(context.Context) (etcdclient.Status, error) {
	if m.silent {
		return etcdclient.Status{}, errors.New("i/o timeout")
	}
	return m.status, nil
}

func (m answeringMember) Members(context.Context) ([]etcdclient.Member, error) {
	if m.status.Learner {
		return nil, rpctypes.ErrGRPCNotSupportedForLearner
	}
	return []etcdclient.Member{{ID: 1, Name: "main-0"}, {ID: 2, Name: "main-1"}, {ID: 3, Name: "main-2"}}, nil
}

func (answeringMember) Close() error { return nil }

// observed is what the observer makes of the pods of a cluster: of those that are listed, the containers of etcd run.
func observed(t *testing.T, replicas int, running []int, members answering) *cluster.Snapshot {
	t.Helper()
	etcd := lostEtcd(ofSize(int32(replicas)))
	set := apitest.StatefulSet(etcd, int32(replicas))
	objects := []client.Object{set}
	for i := range replicas {
		pod := &corev1.Pod{ObjectMeta: apitest.Own(etcd, fmt.Sprintf("main-%d", i))}
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true)}}
		state := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		if slices.Contains(running, i) {
			state = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Time{Time: epoch}}}
		}
		pod.Status = corev1.PodStatus{PodIP: fmt.Sprintf("10.0.0.%d", i), ContainerStatuses: []corev1.ContainerStatus{{Name: v1alpha1.ContainerEtcd, State: state}}}
		objects = append(objects, pod)
	}
	s, err := observe.New(members, clocktesting.NewFakePassiveClock(epoch)).Observe(t.Context(), apitest.API(objects...), etcd)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s
}

// Only a voter returns the member list. Without it, the quorum may be as small as the tasks leave it that change how many vote: a single voter,
// which serves where the operator cannot reach it, is one.
func TestQuorumIsNotLostWhileTheOnlyVoterMayRun(t *testing.T) {
	task := func(of v1alpha1.TaskType, uid types.UID, state v1alpha1.TaskState, created time.Duration, m *v1alpha1.MembershipStatus) v1alpha1.EtcdOperatorTask {
		t := v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{UID: uid, CreationTimestamp: metav1.Time{Time: epoch.Add(created)}}, Spec: v1alpha1.EtcdOperatorTaskSpec{Type: of}}
		t.Status.State, t.Status.Membership = state, m
		return t
	}
	const running, succeeded, failed = v1alpha1.TaskStateInProgress, v1alpha1.TaskStateSucceeded, v1alpha1.TaskStateFailed
	const recovers, restores, changes = v1alpha1.QuorumLossRecovery, v1alpha1.Restore, v1alpha1.MembershipChange
	growth := func(voters, size int32) *v1alpha1.MembershipStatus {
		return &v1alpha1.MembershipStatus{Voters: voters, Size: size}
	}
	removes := growth(4, 5)
	removes.Request = &v1alpha1.MembershipRequest{Action: "RemoveMember"}
	added := growth(4, 5)
	added.Request = &v1alpha1.MembershipRequest{Action: "AddLearner"}
	recovery := leaving("recover", before)
	voters := func(n int32) func(*v1alpha1.Etcd) { return func(e *v1alpha1.Etcd) { e.Status.Voters = n } }
	learner := answering{"http://10.0.0.1:2379": {ClusterID: after, MemberID: 2, Learner: true}}
	for name, c := range map[string]struct {
		replicas int
		running  []int
		members  answering
		etcd     []func(*v1alpha1.Etcd)
		tasks    []v1alpha1.EtcdOperatorTask
		lost     bool
	}{
		"no change is recorded":                       {3, []int{0}, nil, nil, nil, true},
		"two of three":                                {3, []int{0, 1}, nil, nil, nil, false},
		"a learner answers":                           {3, []int{0, 1}, learner, nil, nil, false},
		"users ask for one by now":                    {3, []int{0}, nil, []func(*v1alpha1.Etcd){ofSize(1)}, nil, false},
		"a voter returns the list":                    {3, []int{0, 1}, answering{"http://10.0.0.1:2379": {ClusterID: before, MemberID: 2}}, []func(*v1alpha1.Etcd){recovery}, nil, true},
		"recovered, and its task is deleted":          {3, []int{0}, nil, []func(*v1alpha1.Etcd){recovery}, nil, false},
		"recovered, and a learner answers":            {3, []int{0, 1}, learner, []func(*v1alpha1.Etcd){recovery}, nil, false},
		"recovered, and none may run":                 {3, nil, nil, []func(*v1alpha1.Etcd){recovery}, nil, true},
		"recovered, and its task has failed":          {3, []int{0}, nil, []func(*v1alpha1.Etcd){recovery}, []v1alpha1.EtcdOperatorTask{task(recovers, "uid", failed, 0, nil)}, false},
		"recovered, and every member has voted":       {3, []int{0}, nil, []func(*v1alpha1.Etcd){recovery}, []v1alpha1.EtcdOperatorTask{task(recovers, "uid", succeeded, 0, nil)}, true},
		"recovered, and another task has succeeded":   {3, []int{0}, nil, []func(*v1alpha1.Etcd){recovery}, []v1alpha1.EtcdOperatorTask{task(recovers, "other", succeeded, 0, nil)}, false},
		"restored, and one of two is silent":          {3, []int{0}, nil, []func(*v1alpha1.Etcd){recovery}, []v1alpha1.EtcdOperatorTask{task(restores, "uid", succeeded, 0, nil)}, true},
		"restored, and two of three are silent":       {5, []int{0, 1}, nil, []func(*v1alpha1.Etcd){recovery}, []v1alpha1.EtcdOperatorTask{task(restores, "uid", succeeded, 0, nil)}, false},
		"two of five, which are two of three":         {5, []int{1, 2}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "c", running, 0, growth(3, 5))}, false},
		"one of five, which is one of three":          {5, []int{1}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "c", running, 0, growth(3, 5))}, true},
		"two of five, and the voters are not counted": {5, []int{1, 2}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "c", running, 0, growth(0, 5))}, false},
		"the change has failed":                       {5, []int{1, 2}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "c", failed, 0, growth(3, 5))}, false},
		"the change has succeeded":                    {5, []int{1, 2}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "c", succeeded, 0, growth(3, 5))}, true},
		"another has succeeded since":                 {5, []int{1, 2}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "b", succeeded, 1, growth(5, 5)), task(changes, "a", failed, 0, growth(3, 5))}, true},
		"another has begun since":                     {5, []int{1, 2}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "a", succeeded, 0, growth(3, 3)), task(changes, "b", running, time.Second, growth(3, 5))}, false},
		"the next has not begun":                      {5, []int{1, 2}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "a", failed, 0, growth(3, 5)), task(changes, "b", running, time.Second, nil)}, false},
		"a removal may have taken effect":             {5, []int{1, 2}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "c", running, 0, removes)}, false},
		"an addition takes nothing away":              {5, []int{1, 2}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "c", running, 0, added)}, true},
		"one voted when it was last seen":             {3, []int{0}, nil, []func(*v1alpha1.Etcd){voters(1)}, nil, false},
		"two of three voted, of five":                 {5, []int{0, 1}, nil, []func(*v1alpha1.Etcd){voters(3)}, nil, false},
		"all voted when they were last seen":          {3, []int{0}, nil, []func(*v1alpha1.Etcd){voters(3)}, nil, true},
		"more voted than there are by now":            {3, []int{0}, nil, []func(*v1alpha1.Etcd){voters(5)}, nil, true},
		"shrinking to one":                            {3, []int{0}, nil, nil, []v1alpha1.EtcdOperatorTask{task(changes, "c", running, 0, growth(3, 1))}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := observed(t, c.replicas, c.running, c.members)
			etcd := lostEtcd(append([]func(*v1alpha1.Etcd){ofSize(int32(c.replicas))}, c.etcd...)...)
			lost, why := quorumLost(s, fewestVoters(etcd, c.tasks, s.Replicas()))
			g.Expect(lost).To(Equal(c.lost), why)
		})
	}
}

// A recovery is deleted while it grows, and the next one is created: the only voter serves where only clients reach it.
func TestTheNextRecoveryWaitsForTheOnlyVoterOfTheLast(t *testing.T) {
	g := NewWithT(t)
	etcd := lostEtcd(leaving("first", before))
	change := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "change"}, Spec: v1alpha1.EtcdOperatorTaskSpec{OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}}}
	for says, c := range map[string]struct {
		etcd   *v1alpha1.Etcd
		voters int32
		silent []int
	}{
		"main-0 does not answer, may be running, and would be a quorum by itself": {etcd, 5, []int{0}},
		"main-0, main-1 do not answer":                                            {lostEtcd(ofSize(5)), 3, []int{0, 1}},
	} {
		change := change.DeepCopy()
		change.Status.State, change.Status.Membership = v1alpha1.TaskStateInProgress, &v1alpha1.MembershipStatus{Voters: c.voters, Size: 5}
		api := apitest.API(c.etcd, change, config(t, c.etcd, 3))
		h := handlerOf(api, observed(t, int(c.etcd.Spec.Replicas), c.silent, nil))
		v, err := h.Admit(t.Context(), taskOf(c.etcd, nil))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v.Message).To(ContainSubstring(says))
		v, err = h.Execute(t.Context(), taskOf(c.etcd, nil))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(v.Message).To(ContainSubstring(says))
		g.Expect(v.Recovery.LostSince).To(BeNil())
		g.Expect(h.losses.Of("task").Since()).To(BeZero(), "the grace period does not run")
	}
}

// A quorum that was started has ten minutes in which this operator looks all the time, whatever the status says of when they began: its
// clock was wrong, or it was not running.
func TestStartedQuorumHasItsWholeTime(t *testing.T) {
	r := newTrial(t)
	r.task.Object.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryStarting, PhaseSince: metav1.NewTime(epoch.Add(-time.Hour))}
	r.lose(quorumDeadline)
	r.Expect(r.said.Outcome).To(Equal(tasks.Continue), r.said.Message)
	r.clock.SetTime(r.clock.Now().Add(time.Hour))
	r.lose(quorumDeadline + time.Second)
	r.Expect(r.said.Outcome).To(Equal(tasks.Continue), r.said.Message)
	r.look()
	r.Expect(r.said.Outcome).To(Equal(tasks.Fail), r.said.Message)
	r.Expect(r.said.Code).To(Equal(v1alpha1.ErrNotQuorate))
}

// A recovery that has rebuilt nothing ends when users hibernate the Etcd: it would take members that wake up for lost.
func TestARecoveryEndsWithAHibernation(t *testing.T) {
	for _, phase := range []v1alpha1.RecoveryPhase{v1alpha1.RecoveryConfirming, v1alpha1.RecoveryStopping, v1alpha1.RecoverySurveying, v1alpha1.RecoveryStarting} {
		r := newTrial(t)
		r.task.Object.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: phase, PhaseSince: metav1.NewTime(epoch)}
		etcd := r.task.Etcd.DeepCopy()
		etcd.Spec.Replicas, etcd.ResourceVersion = 0, ""
		r.lives(etcd)
		r.handler.Live, r.witness.says = r.api, newInput(hibernated).Snapshot
		r.look()
		r.Expect(r.said.Outcome).To(Equal(tasks.Fail), r.said.Message)
		r.Expect(r.said.Code).To(Equal(v1alpha1.ErrHibernated))
	}
}

// The grace period permits to stop all members. A clock that was set back says nothing of how long the quorum has been lost.
func TestTimeThatGoesBackBeginsTheGracePeriodAgain(t *testing.T) {
	g := NewWithT(t)
	var l losses
	at := func(seconds time.Duration) time.Time {
		return l.observe("task", 1, epoch.Add(seconds*time.Second), true)
	}
	g.Expect(at(0)).To(Equal(epoch))
	g.Expect(at(5)).To(Equal(epoch))
	g.Expect(at(4)).To(Equal(epoch.Add(4 * time.Second)))
	g.Expect(at(6)).To(Equal(epoch.Add(4 * time.Second)))
}
