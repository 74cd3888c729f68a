// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	testclock "k8s.io/utils/clock/testing"
)

// members returns the members of clitest.Held.
func members() (*v1alpha1.Etcd, *cluster.Snapshot) {
	etcd := &v1alpha1.Etcd{}
	s := &cluster.Snapshot{StatefulSet: cluster.StatefulSet{UpdateRevision: "etcd-main-7d9f9c7bd5"}}
	for i, revision := range []string{"etcd-main-7d9f9c7bd5", "etcd-main-7d9f9c7bd5", "etcd-main-6c4b8f9d5c"} {
		o := cluster.Ordinal{Name: fmt.Sprintf("etcd-main-%d", i), Class: v1alpha1.ClassParticipating, Pod: &cluster.Pod{Revision: revision}}
		role := v1alpha1.MemberRoleMember
		switch i {
		case 1:
			o.Class = v1alpha1.ClassStarting
		case 2:
			role = v1alpha1.MemberRoleLeader
		}
		etcd.Status.Members = append(etcd.Status.Members, v1alpha1.Member{Name: o.Name, Role: role})
		s.Ordinals = append(s.Ordinals, o)
	}
	return etcd, s
}

func TestTable(t *testing.T) {
	etcd, snapshot := members()
	ended, _ := clitest.Ended()
	stalled := clitest.Held()
	stalled.Status.Conditions[1].Reason = v1alpha1.ReasonStalled
	queued := clitest.With(clitest.Task("etcd-main-snapshot-k9fzx", v1alpha1.OnDemandSnapshot, v1alpha1.TaskStatePending, 30),
		v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonQueued, "number 2 in line, behind etcd-main-rollout-7d9f9c7bd5-5c8fb-1")
	for name, v := range map[string]view{
		"held":    {task: clitest.Held(), etcd: etcd, snapshot: snapshot},
		"stalled": {task: stalled, etcd: etcd, snapshot: snapshot},
		"ended":   {task: ended, etcd: etcd, snapshot: snapshot},
		"queued":  {task: queued, etcd: etcd, snapshot: snapshot},
		"blind":   {task: clitest.Held(), trouble: "not permitted: pods is forbidden: User \"ann\" cannot list resource \"pods\" in API group \"\" in the namespace \"demo\""},
	} {
		for suffix, width := range map[string]int{"-120": 120, "-80": 80} {
			golden.Check(t, "watch-"+name+suffix+".txt", []byte(strings.Join(v.page(clitest.Now, width), "\n")+"\n"))
		}
	}
}

func TestLinesArePrintedOnce(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	k := kube.New(streams)
	k.Clock, k.Location = testclock.NewFakeClock(clitest.Now), time.UTC
	p := newPrinter(k)
	queued := clitest.Task("etcd-main-rollout-7d9f9c7bd5-5c8fb-1", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStatePending, 60)
	clitest.With(queued, v1alpha1.ConditionProgressing, metav1.ConditionFalse, v1alpha1.ReasonQueued, "number 2 in line, behind another")
	ended, _ := clitest.Ended()
	for _, task := range []*v1alpha1.EtcdOperatorTask{queued, queued, clitest.Held(), clitest.Held(), ended} {
		if err := p.print(task); err != nil {
			t.Fatal(err)
		}
	}
	golden.Check(t, "lines.txt", out.Bytes())
}
