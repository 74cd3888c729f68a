// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/member"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func recovery(phase v1alpha1.RecoveryPhase, source v1alpha1.RecoverySource) v1alpha1.EtcdOperatorTask {
	return v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: "recover", UID: "recovery"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumLossRecovery},
		Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, Recovery: &v1alpha1.RecoveryStatus{
			Phase: phase, Source: source, Member: "etcd-main-2", PreviousClusterID: "cafe",
		}},
	}
}

func TestRecoveryHoldsAtZero(t *testing.T) {
	const data = v1alpha1.RecoverFromData
	recorded := &v1alpha1.ClusterRecovery{TaskUID: "recovery"}
	waiting := recreation(v1alpha1.TaskStateInProgress, v1alpha1.RecreateWaitingTermination)
	deleted := recovery(v1alpha1.RecoverySurveying, "")
	deleted.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		tasks    []v1alpha1.EtcdOperatorTask
		recorded *v1alpha1.ClusterRecovery
		want     string
	}{
		"while it confirms":                     {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryConfirming, "")}, nil, ""},
		"while it stops the members":            {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStopping, "")}, nil, "recover"},
		"while it surveys":                      {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoverySurveying, "")}, nil, "recover"},
		"until the choice is recorded":          {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, data)}, nil, "recover"},
		"and that of an earlier one is not his": {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, data)}, &v1alpha1.ClusterRecovery{TaskUID: "earlier"}, "recover"},
		"once it is recorded":                   {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, data)}, recorded, ""},
		"when nothing is rebuilt":               {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryStarting, "")}, nil, ""},
		"while the cluster grows":               {[]v1alpha1.EtcdOperatorTask{recovery(v1alpha1.RecoveryGrowing, data)}, recorded, ""},
		"deleted":                               {[]v1alpha1.EtcdOperatorTask{deleted}, nil, ""},
		"before a recreation that it passed":    {[]v1alpha1.EtcdOperatorTask{waiting, recovery(v1alpha1.RecoveryGrowing, data)}, recorded, ""},
	} {
		got := ""
		if t := holder(c.tasks, c.recorded); t != nil {
			got = t.Name
		}
		if got != c.want {
			t.Errorf("%s: held by %q, want %q", name, got, c.want)
		}
	}
}

func TestMembersAreToldOfARecovery(t *testing.T) {
	g := NewWithT(t)
	etcd := served(3)
	etcd.Status.ClusterID = "cafe"
	serving := func(clusterID uint64) *cluster.Snapshot {
		s := snapshotOf(3)
		s.Cluster.ID = clusterID
		return s
	}
	step := func(s *cluster.Snapshot, tasks ...v1alpha1.EtcdOperatorTask) v1alpha1.EtcdStatus {
		etcd.Status = nextStatus(etcd, observation{snapshot: s, tasks: tasks, wanted: 3, current: true, now: noon})
		return etcd.Status
	}
	g.Expect(step(nil, recovery(v1alpha1.RecoverySurveying, "")).Recovery).To(BeNil())

	told := step(nil, recovery(v1alpha1.RecoveryStarting, v1alpha1.RecoverFromData)).Recovery
	g.Expect(told).To(Equal(&v1alpha1.ClusterRecovery{Task: "recover", TaskUID: "recovery", Member: "etcd-main-2", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe"}))
	text, err := instruction(told)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(member.ParseRecovery([]byte(text))).To(Equal(&member.Recovery{Task: "recovery", TaskName: "recover", Member: "etcd-main-2", Source: member.RecoverFromData, PreviousClusterID: "cafe"}))

	// The task is gone before the cluster has begun anew: what was chosen stays.
	g.Expect(step(nil).Recovery).To(Equal(told))
	g.Expect(step(serving(0xcafe)).Recovery).To(Equal(told))

	// It has begun: the ID is the new one. The task is there still.
	growing := recovery(v1alpha1.RecoveryGrowing, v1alpha1.RecoverFromData)
	one := serving(0xbeef)
	one.Ordinals[0].Role = v1alpha1.RoleLearner
	g.Expect(step(one, growing).ClusterID).To(Equal("beef"))
	growing.Status.State = v1alpha1.TaskStateSucceeded
	g.Expect(step(serving(0xbeef), growing).Recovery).To(Equal(told))

	// The task is gone: not before every member votes.
	g.Expect(step(one).Recovery).To(Equal(told))
	g.Expect(step(nil).Recovery).To(Equal(told))
	g.Expect(step(serving(0xbeef)).Recovery).To(BeNil())
	text, err = instruction(etcd.Status.Recovery)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(BeEmpty())

	// Another ID is recorded by a recovery only.
	g.Expect(step(serving(0xdead)).ClusterID).To(Equal("beef"))
}
