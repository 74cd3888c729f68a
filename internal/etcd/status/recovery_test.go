// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func recoveryTask(phase v1alpha1.RecoveryPhase, source v1alpha1.RecoverySource) v1alpha1.EtcdOperatorTask {
	return v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: "recover", UID: "recovery"},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumLossRecovery},
		Status: v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, Recovery: &v1alpha1.RecoveryStatus{
			Phase: phase, Source: source, Member: "etcd-main-2", PreviousClusterID: "cafe",
		}},
	}
}

func TestRecoveryInTheStatus(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.UID, etcd.Status.ClusterID = etcdUID, "cafe"
	other := recovered("http", "recovery")
	step := func(s *cluster.Snapshot, tasks ...v1alpha1.EtcdOperatorTask) v1alpha1.EtcdStatus {
		o := observed(etcd, s, noon)
		o.Tasks = tasks
		etcd.Status = Next(o)
		return etcd.Status
	}
	g.Expect(step(nil, recoveryTask(v1alpha1.RecoverySurveying, "")).Recovery).To(BeNil())

	chosen := step(nil, recoveryTask(v1alpha1.RecoveryStarting, v1alpha1.RecoverFromData)).Recovery
	g.Expect(chosen).To(Equal(&v1alpha1.ClusterRecovery{Task: "recover", TaskUID: "recovery", Member: "etcd-main-2", Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe"}))

	// The task is deleted before the recovered cluster serves: the choice stays.
	g.Expect(step(nil).Recovery).To(Equal(chosen))
	g.Expect(step(serving(3, "cafe")).Recovery).To(Equal(chosen))

	// The cluster serves: the ID is the new one. The task still exists.
	growing := recoveryTask(v1alpha1.RecoveryGrowing, v1alpha1.RecoverFromData)
	one := serving(3, other)
	one.Ordinals[0].Role = v1alpha1.RoleLearner
	g.Expect(step(one, growing).ClusterID).To(Equal(other))
	growing.Status.State = v1alpha1.TaskStateSucceeded
	g.Expect(step(serving(3, other), growing).Recovery).To(Equal(chosen))

	// The task is deleted: the record stays until every member votes.
	g.Expect(step(one).Recovery).To(Equal(chosen))
	g.Expect(step(nil).Recovery).To(Equal(chosen))
	g.Expect(step(serving(3, other)).Recovery).To(BeNil())

	// Only a recovery records another ID.
	g.Expect(step(serving(3, "dead")).ClusterID).To(Equal(other))
}
