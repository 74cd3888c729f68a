// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

func ordinal(class v1alpha1.PodClass, changes ...func(*cluster.Ordinal)) *cluster.Ordinal {
	o := &cluster.Ordinal{Name: "m-0", Class: class, Answers: true, Serving: true, Role: v1alpha1.RoleFollower, Pod: &cluster.Pod{Trouble: "CrashLoopBackOff", Node: cluster.Node{Name: "n"}}}
	for _, c := range changes {
		c(o)
	}
	return o
}

func lost(o *cluster.Ordinal) { o.Pod.Node.Trouble = "not ready" }

// What a member lacks has words of its own.
func TestAdvice(t *testing.T) {
	quiet := func(o *cluster.Ordinal) { o.Pod.Trouble = "" }
	kept := func(o *cluster.Ordinal) { o.Pod.Finalizers = []string{"x/y", "z"} }
	learner := func(o *cluster.Ordinal) { o.Role = v1alpha1.RoleLearner }
	unproven := func(o *cluster.Ordinal) { o.Unproven = true }
	mute := func(o *cluster.Ordinal) { o.Answers = false }
	behind := func(by uint64) func(*cluster.Ordinal) { return func(o *cluster.Ordinal) { o.Lag = by } }
	idle := func(o *cluster.Ordinal) { o.Serving = false }
	for want, o := range map[string]*cluster.Ordinal{
		"does not exist yet: if this persists, check the events of StatefulSet set": {Class: v1alpha1.ClassMissing},
		"is terminating, and its node n is not ready: power":                        ordinal(v1alpha1.ClassTerminating, lost, kept),
		"is terminating, and is kept by finalizers (x/y, z)":                        ordinal(v1alpha1.ClassTerminating, kept),
		"is terminating: if its node is gone":                                       ordinal(v1alpha1.ClassTerminating),
		"may be running although it was last reported as Dead (CrashLoopBackOff), and its node n is not ready: if the node does not come back, power off": ordinal(v1alpha1.ClassDead, lost),
		"is not running (CrashLoopBackOff)":                 ordinal(v1alpha1.ClassDead),
		"does not start (CrashLoopBackOff)":                 ordinal(v1alpha1.ClassStarting),
		"is starting":                                       ordinal(v1alpha1.ClassStarting, quiet),
		"does not participate, and its node n is not ready": ordinal(v1alpha1.ClassUnready, lost, learner),
		"is a learner that is catching up":                  ordinal(v1alpha1.ClassUnready, learner, unproven),
		"may be a learner although it is ready":             ordinal(v1alpha1.ClassUnready, unproven, mute),
		"is running but not answering the operator":         ordinal(v1alpha1.ClassUnready, mute, idle),
		"raft entries behind the leader":                    ordinal(v1alpha1.ClassUnready, behind(cluster.MaxLag+1), idle),
		"is running but knows no leader":                    ordinal(v1alpha1.ClassUnready, behind(cluster.MaxLag), idle),
		"serves, but its readiness probe does not pass yet": ordinal(v1alpha1.ClassUnready),
	} {
		want, _ = strings.CutSuffix(want, ": power")
		if got := adviceFor(*o, "set"); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
}

// Each voter that does not serve is named once, with what is known of it.
func TestDownVotersAreNamed(t *testing.T) {
	down := func(changes ...func(*cluster.Ordinal)) cluster.Ordinal {
		return *ordinal(v1alpha1.ClassUnready, append([]func(*cluster.Ordinal){func(o *cluster.Ordinal) { o.Serving = false }}, changes...)...)
	}
	probed := func(o *cluster.Ordinal) { o.Answers, o.Pod.Ready = false, true }
	for name, c := range map[string]struct {
		ordinals []cluster.Ordinal
		voters   []cluster.Voter
		want     string
	}{
		"no voters are known":  {nil, nil, "No voter has returned the member list"},
		"all serve":            {[]cluster.Ordinal{down()}, []cluster.Voter{{Name: "a", Serving: true}}, ""},
		"down":                 {[]cluster.Ordinal{down()}, []cluster.Voter{{Name: "a"}}, "Down, or unreachable from the operator: a"},
		"its pod is missing":   {[]cluster.Ordinal{{Class: v1alpha1.ClassMissing}}, []cluster.Voter{{Name: "a"}}, "Down, or unreachable from the operator: a"},
		"its node is lost":     {[]cluster.Ordinal{down(lost)}, []cluster.Voter{{Name: "a"}}, "Down, or unreachable from the operator: a (its node n is not ready)"},
		"its probe passes":     {[]cluster.Ordinal{down(probed)}, []cluster.Voter{{Name: "a"}}, "Down, or unreachable from the operator: a (its readiness probe passes, and counts once it has for 1m0s)"},
		"its probe fails":      {[]cluster.Ordinal{down(func(o *cluster.Ordinal) { o.Answers, o.Pod.Ready = false, false })}, []cluster.Voter{{Name: "a"}}, "Down, or unreachable from the operator: a"},
		"not far behind":       {[]cluster.Ordinal{down(func(o *cluster.Ordinal) { o.Lag = cluster.MaxLag })}, []cluster.Voter{{Name: "a"}}, "Down, or unreachable from the operator: a"},
		"it may be a learner":  {[]cluster.Ordinal{down(func(o *cluster.Ordinal) { o.Unproven = true })}, []cluster.Voter{{Name: "a"}}, "Possibly learners although they are ready, since they have no readiness probe, or the tag of their image is not that of etcd " + cluster.FirstNonLearnerProbe + " or later: a"},
		"foreign":              {nil, []cluster.Voter{{Name: "a", Ordinal: -1}, {Name: "b", Ordinal: -1}}, "Down, and not a pod of this StatefulSet: a, b; if it is not coming back, remove it with etcdctl member remove"},
		"one down and foreign": {[]cluster.Ordinal{down()}, []cluster.Voter{{Name: "a"}, {Name: "b", Ordinal: -1}}, "Down, or unreachable from the operator: a. Down, and not a pod of this StatefulSet: b; if it is not coming back, remove it with etcdctl member remove"},
	} {
		s := &cluster.Snapshot{Ordinals: c.ordinals, Cluster: cluster.Cluster{Voters: c.voters}}
		if got := downVoters(s, time.Minute); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
	s := &cluster.Snapshot{Ordinals: []cluster.Ordinal{down(func(o *cluster.Ordinal) { o.Lag = cluster.MaxLag + 1 })}, Cluster: cluster.Cluster{Voters: []cluster.Voter{{Name: "a"}}}}
	if got := downVoters(s, 0); !strings.Contains(got, "a (") || !strings.Contains(got, "raft entries behind)") {
		t.Errorf("behind: %q", got)
	}
	s.Ordinals[0] = down(probed)
	if got := downVoters(s, 0); got != "Down, or unreachable from the operator: a" {
		t.Errorf("probes never count: %q", got)
	}
}

func TestMayHaveLeader(t *testing.T) {
	s := &state{Input: Input{Snapshot: &cluster.Snapshot{}, Config: DefaultConfig()}}
	if got := s.mayHaveLeader([]string{"a", "b"}); !strings.HasPrefix(got, "no member answers the operator, but a, b may still have a leader") || !strings.Contains(got, "If this persists for 30s, the rollout goes by readiness probes") {
		t.Error(got)
	}
	s.Snapshot.Cluster.Reachable = true
	if got := s.mayHaveLeader([]string{"a"}); !strings.HasPrefix(got, "no member that answers the operator knows a leader, but a may") || strings.Contains(got, "If this persists") {
		t.Error(got)
	}
}

func TestMagnitude(t *testing.T) {
	for lag, want := range map[uint64]uint64{
		cluster.MaxLag + 1: 5_000, 50_000: 5_000, 50_010: 50_000, 500_000: 50_000, 4_999_988: 500_000, math.MaxUint64: 5_000_000_000_000_000_000,
	} {
		if got := magnitude(lag); got != want || got >= lag {
			t.Errorf("of %d: %d, want %d", lag, got, want)
		}
	}
}
