// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
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

// The record has all that the task has found out for the members.
func TestTheRecordHasWhatTheTaskHasFound(t *testing.T) {
	g := NewWithT(t)
	etcd, task := served(), recoveryTask(v1alpha1.RecoveryStarting, v1alpha1.RecoverFromBackup)
	etcd.UID, etcd.Status.ClusterID = etcdUID, "cafe"
	task.Status.Recovery.Revision, task.Status.Recovery.HighestRevision, task.Status.Recovery.HadData = 5, 7, true
	o := observed(etcd, nil, noon)
	o.Tasks = []v1alpha1.EtcdOperatorTask{task}
	r := Next(o).Recovery
	g.Expect(component.Recovery(r)).To(Equal(&member.Recovery{
		Task: "recovery", TaskName: "recover", Member: "etcd-main-2", Source: member.RecoverFromBackup, PreviousClusterID: "cafe",
		Revision: 5, HighestRevision: 7, HadData: true,
	}))
}

// A lone member that was restored once it had woken up has made the successor of the recovered cluster. A recovery that stayed in the
// status would have it refuse its data, and a second member refuse to join, as soon as the cluster grows.
func TestTheRecoveryOfALoneMemberEndsWithItsSuccessor(t *testing.T) {
	g := NewWithT(t)
	awake := member.ClusterID(etcdUID+"-hibernation", "etcd-main-0=http"+memberURL0)
	etcd := served()
	etcd.UID, etcd.Spec.Replicas, etcd.Status.ClusterID, etcd.Status.ClusterSize = etcdUID, 3, "cafe", 1
	etcd.Status.Recovery = &v1alpha1.ClusterRecovery{TaskUID: "hibernation", Member: "etcd-main-0", Source: v1alpha1.RecoverFromBackup, PreviousClusterID: "cafe", Revision: 42}
	step := func(id string) v1alpha1.EtcdStatus {
		etcd.Status = Next(observed(etcd, serving(1, id), noon))
		return etcd.Status
	}
	g.Expect(step(awake).ClusterID).To(Equal(awake))
	g.Expect(step(awake).Recovery).NotTo(BeNil(), "it is restored, and grows to three")

	restored := successor("http", awake)
	s := step(restored)
	g.Expect(s.ClusterID).To(Equal(restored))
	g.Expect(s.Recovery).To(BeNil())
	config := component.Lineage(etcd)
	g.Expect(member.Decide(member.Input{
		Member: "etcd-main-0", ClusterID: s.ClusterID, Data: member.Data{State: member.DataPresent, ClusterID: restored},
		Recovery: config.Recovery, NewClusterID: config.RecoveredID(),
	}).Action).To(Equal(member.Start), "beside a second member")
}

// What a Restore chose is recorded with all that the members need. It stays while any task exists that has had data set aside, since the
// members remove all of that without it.
func TestARestoreKeepsTheRecord(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.UID, etcd.Status.ClusterID = etcdUID, "cafe"
	step := func(s *cluster.Snapshot, tasks ...v1alpha1.EtcdOperatorTask) v1alpha1.EtcdStatus {
		o := observed(etcd, s, noon)
		o.Tasks = tasks
		etcd.Status = Next(o)
		return etcd.Status
	}
	task := recoveryTask(v1alpha1.RecoverySurveying, "")
	task.Spec.Type = v1alpha1.Restore
	from := v1alpha1.ClusterRestore{Base: "full", Revision: 40, Hash: 7, Bump: 9}
	task.Status.Recovery.Restore = &v1alpha1.RestoreStatus{ClusterRestore: from, Fenced: true}
	g.Expect(step(nil, task).Recovery).To(BeNil(), "it can still be aborted")
	task.Status.Recovery.Phase, task.Status.Recovery.Source = v1alpha1.RecoveryStarting, v1alpha1.RecoverFromTarget
	chosen := step(nil, task).Recovery
	g.Expect(chosen.Source).To(Equal(v1alpha1.RecoverFromTarget))
	g.Expect(chosen.Restore).To(Equal(&from))

	other := recovered("http", "recovery")
	task.Status.State = v1alpha1.TaskStateSucceeded
	earlier := *task.DeepCopy()
	earlier.UID = "earlier"
	g.Expect(step(serving(3, other), task).Recovery).To(Equal(chosen))
	g.Expect(step(serving(3, other), earlier).Recovery).To(Equal(chosen), "what an earlier restore has kept")
	earlier.Spec.Type = v1alpha1.QuorumLossRecovery
	g.Expect(step(serving(3, other), earlier).Recovery).To(Equal(chosen), "what an earlier recovery has had set aside")
	preview := *earlier.DeepCopy()
	preview.Status.Recovery = nil
	g.Expect(step(serving(3, other), preview).Recovery).To(BeNil(), "a preview keeps nothing, nor does a recovery that has chosen nothing")
}
