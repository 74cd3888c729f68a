// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	lone := func(in *Input) { in.Snapshot.Cluster.Voters = in.Snapshot.Cluster.Voters[:1] }
	grows := func(in *Input) {
		in.Snapshot.Ordinals = append(in.Snapshot.Ordinals, cluster.Ordinal{Name: "main-3", Class: v1alpha1.ClassMissing})
	}
	ready := func(probed bool) func(*Input) {
		return func(in *Input) { in.Snapshot.Ordinals[0].Pod.Ready, in.Snapshot.Ordinals[0].Pod.Probed = true, probed }
	}
	learner := func(in *Input) { in.Snapshot.Cluster.Voters, in.Snapshot.Ordinals[2].Role = nil, v1alpha1.RoleLearner }
	asked := func(n int) func(*Input) {
		return func(in *Input) { in.Asked = n }
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
		"a leader has not stepped down yet": {[]func(*Input){leads}, false, "a member still knows a leader, although only 1 of 3 voters serve"},
		"a quorum":                          {[]func(*Input){serving(before, 0, 2)}, false, "2 of 3 voters serve"},
		"none is silent":                    {nil, true, "main-2"},
		"one is":                            {[]func(*Input){silent(0)}, true, "main-2"},
		"one that has not started is not":   {[]func(*Input){silent(0), created}, true, "main-2"},
		"two are":                           {[]func(*Input){silent(0), silent(1)}, false, "main-0, main-1 do not answer"},
		"a voter beside a learner, which has no list to give":  {[]func(*Input){silent(0), learner}, false, "main-0 does not answer, may be running, and would be a quorum by itself"},
		"none, beside such a learner":                          {[]func(*Input){learner}, true, "main-2 answers but knows no leader"},
		"the only voter of a recovered cluster":                {[]func(*Input){silent(0), lone}, false, "main-0 does not answer, may be running, and would be a quorum by itself"},
		"two of three, as the fourth is added":                 {[]func(*Input){silent(0), silent(1), grows}, false, "main-0, main-1 do not answer"},
		"one whose probe passes, and voters are unknown":       {[]func(*Input){silent(0), unknown, ready(true)}, false, "the readiness probe of main-0 passes"},
		"one that has no probe, and voters are unknown":        {[]func(*Input){silent(0), unknown, ready(false)}, true, "main-2"},
		"two that were dead when their nodes were lost":        {[]func(*Input){lastSeen(v1alpha1.ClassDead, 0, 1)}, false, "main-0, main-1 do not answer"},
		"two that were starting when their nodes were lost":    {[]func(*Input){lastSeen(v1alpha1.ClassStarting, 0, 1)}, false, "main-0, main-1 do not answer"},
		"two that were terminating when their nodes were":      {[]func(*Input){lastSeen(v1alpha1.ClassTerminating, 0, 1)}, false, "main-0, main-1 do not answer"},
		"one that was dead when its node was lost":             {[]func(*Input){lastSeen(v1alpha1.ClassDead, 0)}, true, "main-2"},
		"a pod beyond the replicas":                            {[]func(*Input){surplus("main-3")}, true, "main-2"},
		"one, and a pod beyond the replicas":                   {[]func(*Input){silent(0), surplus("main-3")}, false, "main-0, main-3 do not answer"},
		"two pods beyond the replicas":                         {[]func(*Input){surplus("main-3", "main-4")}, false, "main-3, main-4 do not answer"},
		"a member elsewhere":                                   {[]func(*Input){elsewhere}, true, "main-2"},
		"a quorum whose leader is unknown":                     {[]func(*Input){serving(before, 0, 2), leaderless}, false, "2 of 3 voters serve"},
		"the only voter serves":                                {[]func(*Input){serving(before, 2), leaderless, only}, false, "voters serve"},
		"no member answers, nothing is known, one is silent":   {[]func(*Input){nothing, silent(0)}, true, "no member serves"},
		"so it is beside members that users no longer ask for": {[]func(*Input){nothing, silent(0), asked(1)}, false, "main-0 does not answer, may be running, and would be a quorum by itself"},
		"not if there are as many as they ask for":             {[]func(*Input){nothing, silent(0), asked(3)}, true, "no member serves"},
		"no member answers, nothing is known, two are":         {[]func(*Input){nothing, silent(0), silent(1)}, false, "main-0, main-1 do not answer"},
		"one that is elsewhere, and a surplus":                 {[]func(*Input){elsewhere, surplus("main-3")}, false, "main-3, stranger do not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			in := newInput(c.change...)
			lost, why := quorumLost(in.Snapshot, in.Asked)
			g.Expect(lost).To(Equal(c.lost), why)
			g.Expect(why).To(ContainSubstring(c.says))
		})
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

// The grace period permits to stop all members. A clock that was set back says nothing of how long the quorum has been lost.
func TestTimeThatGoesBackBeginsTheGracePeriodAgain(t *testing.T) {
	g := NewWithT(t)
	var l losses
	at := func(seconds time.Duration) time.Time {
		s := newInput().Snapshot
		s.At = epoch.Add(seconds * time.Second)
		return l.observe("task", 1, s, 3)
	}
	g.Expect(at(0)).To(Equal(epoch))
	g.Expect(at(5)).To(Equal(epoch))
	g.Expect(at(4)).To(Equal(epoch.Add(4 * time.Second)))
	g.Expect(at(6)).To(Equal(epoch.Add(4 * time.Second)))
}
