// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errNetwork = errors.New("the network is down")

// faults makes one part of a controller fail while it is switched on.
type faults struct {
	client.Client
	observing, instructing, strategy, holding atomic.Bool
	// held: the StatefulSet was scaled to zero for a task.
	held atomic.Bool
}

func (f *faults) before(next client.Client) client.Client {
	f.Client = next
	return f
}

func (f *faults) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	if _, ok := into.(*corev1.PodList); ok && f.observing.Load() {
		return errNetwork
	}
	return f.Client.List(ctx, into, options...)
}

func (f *faults) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	switch object.(type) {
	case *corev1.ConfigMap:
		if f.instructing.Load() {
			return errNetwork
		}
	case *appsv1.StatefulSet:
		if data, err := patch.Data(object); err == nil && bytes.Contains(data, []byte(v1alpha1.AnnotationHeldAtZeroBy)) {
			if f.holding.Load() {
				return errNetwork
			}
			f.held.Store(f.held.Load() || bytes.Contains(data, []byte(`"replicas":0`)))
		}
		if data, err := patch.Data(object); err == nil && f.strategy.Load() && bytes.Contains(data, []byte(`"updateStrategy"`)) {
			return errNetwork
		}
	}
	return f.Client.Patch(ctx, object, patch, options...)
}

// eventuallyReports waits until the status reports an error, or none if the code is empty.
func (w *world) eventuallyReports(code v1alpha1.ErrorCode, more ...func(Gomega, v1alpha1.EtcdStatus)) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		status := w.Status(g)
		reconciled := w.condition(g, v1alpha1.ConditionReconciled)
		if code == "" {
			g.Expect(status.LastErrors).To(BeEmpty())
			g.Expect(reconciled.Status).To(Equal(metav1.ConditionTrue))
			g.Expect(status.LastOperation.State).To(Equal(v1alpha1.OperationSucceeded))
		} else {
			g.Expect(status.LastErrors).To(ContainElement(And(HaveField("Code", code), HaveField("Description", ContainSubstring(errNetwork.Error())))))
			g.Expect(reconciled.Status).To(Equal(metav1.ConditionFalse))
			g.Expect(reconciled.Message).To(ContainSubstring(errNetwork.Error()))
			g.Expect(status.LastOperation.State).To(Equal(v1alpha1.OperationError))
		}
		for _, m := range more {
			m(g, status)
		}
	}).Should(Succeed())
}

// The status reports a failure of any stage of a reconcile, and only while it lasts.
func TestErrorOfAnyStageIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	f := &faults{}
	w.start(reading(f.before))
	w.eventuallyWell()
	w.eventuallyReports("")

	// Before the observation: the status of the members stays.
	f.observing.Store(true)
	w.Change(annotate("test/nudge", "observe"))
	w.eventuallyReports(v1alpha1.ErrObserve, func(g Gomega, status v1alpha1.EtcdStatus) {
		g.Expect(status.Members).To(HaveLen(3))
		g.Expect(status.Ready).To(HaveValue(BeTrue()))
	})
	f.observing.Store(false)
	w.eventuallyReports("")

	// After the status was written: the rest of the status stays up to date.
	f.instructing.Store(true)
	config := &corev1.ConfigMap{}
	w.Get(w, name+"-config", config)
	before := client.MergeFrom(config.DeepCopy())
	config.Data[member.KeyClusterID] = "beef"
	w.Expect(testEnv.Client.Patch(t.Context(), config, before)).To(Succeed())
	w.eventuallyReports(v1alpha1.ErrApply)
	w.Kubelet.Set(pod(1), env.NotReady)
	w.eventuallyReports(v1alpha1.ErrApply, func(g Gomega, status v1alpha1.EtcdStatus) {
		g.Expect(status.Members[1].Status).To(Equal(v1alpha1.MemberNotReady))
	})
	w.Kubelet.Set(pod(1), env.Ready)
	f.instructing.Store(false)
	w.eventuallyReports("")
	w.eventuallyWell()

	// A stage that does not depend on the failed one runs.
	f.strategy.Store(true)
	set := w.StatefulSet(w)
	before = client.MergeFrom(set.DeepCopy())
	set.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
	w.Expect(testEnv.Client.Patch(t.Context(), set, before)).To(Succeed())
	w.eventuallyReports(v1alpha1.ErrApply, func(g Gomega, status v1alpha1.EtcdStatus) {
		g.Expect(status.LastErrors).To(ContainElement(HaveField("Description", ContainSubstring("changing the update strategy"))))
	})
	f.strategy.Store(false)
	w.eventuallyReports("")
	w.Expect(w.strategy()).To(Satisfy(onDelete))
}

// A recovery has chosen its data while members run that somebody has started, and they cannot be stopped at first. Until they
// are, the status does not record what was chosen: members that run would be instructed to rebuild their data.
func TestRecoveryIsRecordedOnceMembersAreStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	f := &faults{}
	f.holding.Store(true)
	o := w.start(reading(f.before))
	w.eventuallyWell()
	task := w.CreateTask("recover", v1alpha1.QuorumLossRecovery, "")
	before := client.MergeFrom(task.DeepCopy())
	task.Status.State = v1alpha1.TaskStateInProgress
	task.Status.Recovery = &v1alpha1.RecoveryStatus{
		Phase: v1alpha1.RecoveryStarting, PhaseSince: metav1.Now(), Member: pod(0), Source: v1alpha1.RecoverFromData, PreviousClusterID: w.Status(w).ClusterID,
	}
	w.Expect(testEnv.Client.Status().Patch(t.Context(), task, before)).To(Succeed())
	w.eventuallyReports(v1alpha1.ErrApply)
	w.nudge(o)
	w.Expect(w.Status(w).Recovery).To(BeNil())
	w.Expect(f.held.Load()).To(BeFalse())

	f.holding.Store(false)
	w.Eventually(f.held.Load).Should(BeTrue())
	w.Eventually(func(g Gomega) { g.Expect(w.Status(g).Recovery).NotTo(BeNil()) }).Should(Succeed())
}

// A suspended spec does not hide that the cluster has another size.
func TestSizeWhileTheSpecIsSuspended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.start()
	w.eventuallyWell()
	w.Change(func(e *v1alpha1.Etcd) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationSuspendSpecReconcile, "")
		e.Spec.Replicas = 3
	})
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionScaled).Message).To(Equal("1 of 3 members have joined."))
		g.Expect(w.Status(g).Ready).To(HaveValue(BeFalse()))
	}).Should(Succeed())
}
