// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
)

func TestReasonsAreSplitAsTheyWereJoined(t *testing.T) {
	g := NewWithT(t)
	op := v1alpha1.LastOperation{State: v1alpha1.OperationStateInProgress, Reason: "it is outdated; it follows"}
	why, end := SplitReason(op)
	g.Expect([]string{why, end}).To(Equal([]string{op.Reason, ""}), "in progress, nothing was appended")

	ended := v1alpha1.LastOperation{State: v1alpha1.OperationStateCompleted, Reason: withEnd(op.Reason, "its successor participates")}
	why, end = SplitReason(ended)
	g.Expect([]string{why, end}).To(Equal([]string{op.Reason, "its successor participates"}))

	ended.Reason = withEnd("", "it was refused")
	why, end = SplitReason(ended)
	g.Expect([]string{why, end}).To(Equal([]string{"", "it was refused"}), "an earlier operator gave no reason")
}

// The reason of a removal is what the state of its pod and of the others makes true.
func TestReasonOfARemoval(t *testing.T) {
	const participating, unready = v1alpha1.ClassParticipating, v1alpha1.ClassUnready
	type removal func(*state, *cluster.Ordinal)
	is := func(class v1alpha1.PodClass, role v1alpha1.Role) removal {
		return func(_ *state, o *cluster.Ordinal) { o.Class, o.Role = class, role }
	}
	evict := func(s *state, _ *cluster.Ordinal) { s.Config.PodRemoval = Evict }
	leaderless := func(s *state, _ *cluster.Ordinal) { s.Snapshot.Cluster.LeaderKnown = false }
	containers := func(_ *state, o *cluster.Ordinal) { o.Pod.AllContainersReady = false }
	others := func(s *state, _ *cluster.Ordinal) { s.Snapshot.Ordinals[1].Class = unready }
	failed := func(s *state, _ *cluster.Ordinal) {
		s.Recorded.LeaderHandover = &v1alpha1.LeaderHandover{From: "m-0", Attempts: maxHandoverAttempts}
	}
	small := func(s *state, _ *cluster.Ordinal) { s.Snapshot.Cluster.Voters = make([]cluster.Voter, 2) }
	for want, changes := range map[string][]removal{
		"m-0 is not running (OOMKilled)": {is(v1alpha1.ClassDead, v1alpha1.RoleUnknown), evict, containers},
		"m-0 was last reported as Dead and may be running by now, since its node n is not ready": {is(v1alpha1.ClassDead, v1alpha1.RoleUnknown), func(_ *state, o *cluster.Ordinal) { o.Pod.Node = cluster.Node{Name: "n", Trouble: "not ready"} }},
		"m-0 has not started": {is(v1alpha1.ClassStarting, v1alpha1.RoleUnknown)},
		"m-0 is running, and no member has known a leader for 30s":                                           {is(unready, v1alpha1.RoleUnknown), leaderless},
		"m-0 serves, but its readiness probe fails":                                                          {is(unready, v1alpha1.RoleFollower), evict, small, containers},
		"m-0 is running but does not participate":                                                            {is(unready, v1alpha1.RoleUnknown), func(_ *state, o *cluster.Ordinal) { o.Serving = false }},
		"m-0 is a follower, and all others participate":                                                      {is(participating, v1alpha1.RoleFollower), evict},
		"m-0 is next, and all others participate":                                                            {is(participating, v1alpha1.RoleUnknown), containers},
		"m-0 is next, although not all others participate":                                                   {is(participating, v1alpha1.RoleFollower), others},
		"m-0 leads; leadership could not be moved in 3 attempts, so the rollout proceeds without a handover": {is(participating, v1alpha1.RoleLeader), failed, others},
		"m-0 leads and is the last one":                                                                      {is(participating, v1alpha1.RoleLeader), func(s *state, _ *cluster.Ordinal) { s.target = newRevision }},
		"m-0 leads; one of its containers is not ready, so it goes first":                                    {is(participating, v1alpha1.RoleLeader), evict, containers},
		"m-0 leads; a cluster of 2 cannot spare a member: writes stop until it is back":                      {is(participating, v1alpha1.RoleLeader), small},
		"m-0 leads; no member answers the operator: using readiness probes for health and leases for roles":  {is(participating, v1alpha1.RoleLeader), func(s *state, _ *cluster.Ordinal) { s.byReadiness = true }},
	} {
		s := &state{target: "newer", Input: Input{Config: DefaultConfig(), Snapshot: &cluster.Snapshot{Cluster: cluster.Cluster{LeaderKnown: true}, Ordinals: []cluster.Ordinal{
			{Name: "m-0", Serving: true, Pod: &cluster.Pod{Trouble: "OOMKilled", AllContainersReady: true, Revision: oldRevision}},
			{Name: "m-1", Serving: true, Class: participating, Pod: &cluster.Pod{AllContainersReady: true, Revision: newRevision}},
		}}}}
		for _, change := range changes {
			change(s, s.ordinal(0))
		}
		if got := s.reason(0); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A learner catches up with a leader, and is promoted by one: without one, the message says that it is missing.
func TestALearnerIsSaidToCatchUpWithALeader(t *testing.T) {
	for known, want := range map[bool]string{true: "is a learner that is catching up with the leader", false: "is a learner, and no leader is known that could promote it"} {
		s := &state{Input: Input{Snapshot: &cluster.Snapshot{Cluster: cluster.Cluster{LeaderKnown: known}, Ordinals: []cluster.Ordinal{{Name: "m-0", Role: v1alpha1.RoleLearner}}}}}
		NewWithT(t).Expect(learnerPromoted(s, &Step{Ordinals: []int{0}}).Message).To(ContainSubstring(want))
	}
}
