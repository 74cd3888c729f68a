// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package jobs_test

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/tasks/snapshot"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// startOps starts an operator that serves EtcdOpsTasks, and runs their EtcdOperatorTasks only if it has the engine.
func (w *world) startOps(withEngine bool) (stop func()) {
	w.T.Helper()
	if withEngine {
		return w.startOnly(composed.OpsTasks, composed.Tasks)
	}
	return w.startOnly(composed.OpsTasks)
}

func (w *world) opsTask(etcd *string, config v1alpha1.OnDemandSnapshotConfig, ttl int32) *v1alpha1.EtcdOpsTask {
	w.T.Helper()
	t := &v1alpha1.EtcdOpsTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "snapshot"},
		Spec:       v1alpha1.EtcdOpsTaskSpec{EtcdName: etcd, TTLSecondsAfterFinished: &ttl, Config: v1alpha1.EtcdOpsTaskConfig{OnDemandSnapshot: &config}},
	}
	w.Expect(testEnv.Client.Create(w.T.Context(), t)).To(Succeed())
	return t
}

// untilOps waits until a task is in a state.
func (w *world) untilOps(task *v1alpha1.EtcdOpsTask, state v1alpha1.TaskState) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(context.Background(), client.ObjectKeyFromObject(task), task)).To(Succeed())
		g.Expect(task.Status.State).To(HaveValue(Equal(state)), "%+v", task.Status)
	}).Should(Succeed())
}

// operatorTask waits for the EtcdOperatorTask of a task.
func (w *world) operatorTask(task *v1alpha1.EtcdOpsTask) *v1alpha1.EtcdOperatorTask {
	w.T.Helper()
	all := &v1alpha1.EtcdOperatorTaskList{}
	w.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.List(context.Background(), all, client.InNamespace(w.Namespace))).To(Succeed())
		g.Expect(all.Items).To(HaveLen(1))
	}).Should(Succeed())
	w.Expect(metav1.IsControlledBy(&all.Items[0], task)).To(BeTrue())
	return &all.Items[0]
}

// The status follows the EtcdOperatorTask, in the words of etcd-druid, until the TTL is over.
func TestEtcdOpsTask(t *testing.T) {
	w := newWorld(t)
	stop := w.startOps(false)
	// It has to be seen before it is gone.
	seconds := int32(machine.Scaled(4 * time.Second).Seconds())
	task := w.opsTask(ptr.To("main"), v1alpha1.OnDemandSnapshotConfig{Type: "full", IsFinal: ptr.To(true)}, seconds)
	w.untilOps(task, v1alpha1.TaskStatePending)
	w.Expect(task.Status.LastOperation).To(HaveValue(And(HaveField("Type", "Admit"), HaveField("State", "InProgress"), HaveField("RunID", Not(BeEmpty())))))
	by := w.operatorTask(task)
	w.Expect(by.Spec).To(And(HaveField("Type", v1alpha1.OnDemandSnapshot), HaveField("OwnerEtcdReference.Name", "main")))
	w.Expect(taskconfig.Decode[snapshot.Config](by.Spec.Config)).To(Equal(snapshot.Config{Type: snapshot.Full, IsFinal: true, Timeout: &metav1.Duration{Duration: 15 * time.Minute}}))
	stop()
	w.startOps(false)

	now := metav1.NewTime(time.Now().Truncate(time.Second))
	by.Status = v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateInProgress, InitiatedAt: &now, LastErrors: []v1alpha1.LastError{
		{Code: v1alpha1.ErrSnapshot, Description: "the agent is restarting", ObservedAt: now},
	}}
	w.Expect(testEnv.Client.Status().Update(t.Context(), by)).To(Succeed())
	w.untilOps(task, v1alpha1.TaskStateInProgress)
	w.Expect(task.Status.StartedAt.Time).To(BeTemporally("==", now.Time))
	w.Expect(task.Status.LastOperation).To(HaveValue(And(HaveField("Type", "Execution"), HaveField("State", "InProgress"))))
	w.Expect(task.Status.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrCreateSnapshot)))

	by.Status.State, by.Status.CompletedAt = v1alpha1.TaskStateSucceeded, &now
	w.Expect(testEnv.Client.Status().Update(t.Context(), by)).To(Succeed())
	w.untilOps(task, v1alpha1.TaskStateSucceeded)
	w.Expect(task.Status.LastOperation).To(HaveValue(And(HaveField("Type", "Execution"), HaveField("State", "Completed"))))
	w.Eventually(func() bool {
		return apierrors.IsNotFound(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	}).Should(BeTrue(), "its TTL is over")
}

// What the engine rejects has the error codes of etcd-druid.
func TestEtcdOpsTasksThatAreRejected(t *testing.T) {
	for name, c := range map[string]struct {
		etcd *string
		code v1alpha1.ErrorCode
	}{
		"without an Etcd":       {nil, v1alpha1.ErrGetEtcd},
		"of an unknown Etcd":    {ptr.To("other"), v1alpha1.ErrGetEtcd},
		"of one without backup": {ptr.To("main"), v1alpha1.ErrBackupNotEnabled},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(e *v1alpha1.Etcd) { e.Spec.Backup = nil })
			w.startOps(true)
			task := w.opsTask(c.etcd, v1alpha1.OnDemandSnapshotConfig{Type: "delta"}, 3600)
			w.untilOps(task, v1alpha1.TaskStateRejected)
			w.Expect(task.Status.LastErrors).To(ConsistOf(HaveField("Code", c.code)))
			w.Expect(task.Status.LastOperation).To(HaveValue(And(HaveField("Type", "Admit"), HaveField("State", "Failed"))))
		})
	}
}

// A task whose EtcdOperatorTask is deleted has failed. One that etcd-druid has left behind can be deleted.
func TestEtcdOpsTaskWithoutItsOperatorTask(t *testing.T) {
	w := newWorld(t)
	w.startOps(false)
	task := w.opsTask(ptr.To("main"), v1alpha1.OnDemandSnapshotConfig{Type: "delta"}, 3600)
	w.untilOps(task, v1alpha1.TaskStatePending)
	w.Expect(testEnv.Client.Delete(t.Context(), w.operatorTask(task))).To(Succeed())
	w.untilOps(task, v1alpha1.TaskStateFailed)
	task.Finalizers = []string{v1alpha1.FinalizerOpsTask}
	w.Expect(testEnv.Client.Update(t.Context(), task)).To(Succeed())
	w.Expect(testEnv.Client.Delete(t.Context(), task)).To(Succeed())
	w.Eventually(func() bool {
		return apierrors.IsNotFound(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(task), task))
	}).Should(BeTrue())
}
