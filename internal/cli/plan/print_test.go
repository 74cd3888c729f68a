// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

const (
	older = "etcd-main-6c4b8f9d5c"
	newer = "etcd-main-7d9f9c7bd5"
)

// snapshot returns a cluster whose last member leads; functions change each member.
func snapshot(n int, change ...func(i int, o *cluster.Ordinal)) *cluster.Snapshot {
	s := &cluster.Snapshot{
		At:          clitest.Now,
		StatefulSet: cluster.StatefulSet{Name: "etcd-main", Observed: true, OnDelete: true, UpdateRevision: newer, EtcdVersion: "3.6.8"},
		Cluster:     cluster.Cluster{Reachable: true, ID: 1, Term: 2, Leader: uint64(n), LeaderKnown: true},
	}
	for i := range n {
		o := cluster.Ordinal{
			Name: fmt.Sprintf("etcd-main-%d", i), Class: v1alpha1.ClassParticipating, Role: v1alpha1.RoleFollower, MemberID: uint64(i + 1),
			Answers: true, Serving: true, AppliedIndex: 100, LeaseRole: v1alpha1.RoleUnknown,
			Pod: &cluster.Pod{UID: types.UID(fmt.Sprint(i)), ResourceVersion: "1", Revision: older, Ready: true, AllContainersReady: true, BackupSidecarReady: true, EtcdVersion: "3.6.8", Probed: true, GracePeriod: 30 * time.Second},
		}
		if i == n-1 {
			o.Role = v1alpha1.RoleLeader
		}
		for _, c := range change {
			c(i, &o)
		}
		s.Ordinals = append(s.Ordinals, o)
		s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: o.MemberID, Name: o.Name, Ordinal: i, Serving: o.Serving})
	}
	return s
}

// frozen makes a member stop answering.
func frozen(which int) func(int, *cluster.Ordinal) {
	return func(i int, o *cluster.Ordinal) {
		if i == which {
			o.Class, o.Role, o.Answers, o.Serving = v1alpha1.ClassUnready, v1alpha1.RoleUnknown, false, false
			o.Pod.Ready, o.Pod.AllContainersReady = false, false
		}
	}
}

// badNode makes the node of the first member not ready.
func badNode(i int, o *cluster.Ordinal) {
	if i == 0 {
		o.Pod.Node = cluster.Node{Name: "n0", Trouble: "not ready"}
	}
}

func updated(_ int, o *cluster.Ordinal) { o.Pod.Revision = newer }

// cutOff makes a ready member stop answering.
func cutOff(i int, o *cluster.Ordinal) {
	o.Class, o.LeaseRole, o.Role, o.Answers, o.Serving, o.MemberID = v1alpha1.ClassUnready, o.Role, v1alpha1.RoleUnknown, false, false, 0
}

func planned(t *testing.T, p *result, tasks ...*v1alpha1.EtcdOperatorTask) *result {
	t.Helper()
	p.etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "etcd-main"}}
	p.etcd.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Provider: v1alpha1.ProviderS3}}
	in, err := p.input(tasks, rollout.Config{Restart: p.restart}, clitest.Now)
	if err != nil {
		t.Fatal(err)
	}
	p.foresee(in, clitest.Now)
	return p
}

func TestPlan(t *testing.T) {
	reachable := snapshot(3, cutOff)
	reachable.Cluster = cluster.Cluster{}
	otherStrategy := snapshot(1)
	otherStrategy.StatefulSet.OnDelete = false
	suspended := clitest.Held()
	suspended.Spec.Suspend = true
	upgraded := snapshot(3, func(_ int, o *cluster.Ordinal) { o.Versions = cluster.Versions{Etcd: "3.6.16", Storage: "3.6.0"} })
	upgraded.StatefulSet.EtcdVersion = "3.7.3"
	skipped := snapshot(3, func(_ int, o *cluster.Ordinal) { o.Versions = cluster.Versions{Etcd: "3.5.33"} })
	skipped.StatefulSet.EtcdVersion = "3.7.3"
	lost := snapshot(3, frozen(1), frozen(2), func(i int, o *cluster.Ordinal) {
		o.Class, o.Role, o.Serving = v1alpha1.ClassUnready, v1alpha1.RoleUnknown, false
	})
	lost.Cluster.Leader, lost.Cluster.LeaderKnown = 0, false
	for name, p := range map[string]*result{
		"healthy":        planned(t, &result{snapshot: snapshot(3)}),
		"frozen":         planned(t, &result{snapshot: snapshot(3, frozen(0))}),
		"nothing":        planned(t, &result{snapshot: snapshot(3, updated)}),
		"restart":        planned(t, &result{snapshot: snapshot(3, updated), restart: true}),
		"leases":         planned(t, &result{snapshot: reachable, unreachable: "pods \"etcd-main-0\" is forbidden: User \"ann\" cannot create resource \"pods/portforward\""}),
		"no-nodes":       planned(t, &result{snapshot: snapshot(3, updated), surroundings: "not permitted: nodes \"a\" is forbidden"}),
		"single":         planned(t, &result{snapshot: snapshot(1)}),
		"other-strategy": planned(t, &result{snapshot: otherStrategy}),
		"going-on":       planned(t, &result{snapshot: snapshot(3, frozen(1))}, suspended),
		"bad-node":       planned(t, &result{snapshot: snapshot(3, badNode)}),
		"upgrade":        planned(t, &result{snapshot: upgraded}),
		"skips-a-minor":  planned(t, &result{snapshot: skipped}),
		"lost":           planned(t, &result{snapshot: lost}),
		"waits":          planned(t, &result{snapshot: snapshot(3), policies: []v1alpha1.EtcdFleetPolicy{limiting("production", full)}}),
	} {
		for suffix, width := range map[string]int{"": 0, "-80": 80} {
			golden.Check(t, "plan-"+name+suffix+".txt", []byte(strings.Join(p.lines(width), "\n")+"\n"))
		}
		var out bytes.Buffer
		k := kube.Kube{IOStreams: genericiooptions.IOStreams{Out: &out}}
		if err := k.PrintDocument(p.document(), "yaml"); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "plan-"+name+".yaml", out.Bytes())
	}
}

func TestPlanFitsInto80Columns(t *testing.T) {
	lines := planned(t, &result{snapshot: snapshot(5, frozen(0))}).lines(80)
	for line := range strings.Lines(strings.Join(lines, "\n")) {
		line = strings.TrimRight(line, "\n")
		if len([]rune(line)) > 80 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
}
