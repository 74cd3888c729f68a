// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Clients are kept away for as long as the task runs and asks for it, by what the API server says, and not by a Service of another owner.
func TestReconcile(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	task := &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t", UID: "task", OwnerReferences: []metav1.OwnerReference{etcdtasks.Owner(etcd)}}}
	task.Spec.Type, task.Spec.OwnerEtcdReference.Name = v1alpha1.Restore, "main"
	task.Status.State = v1alpha1.TaskStateInProgress
	service := &corev1.Service{ObjectMeta: apitest.Own(etcd, etcd.ClientServiceName()), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "etcd"}}}
	api := apitest.API(etcd, task, service)
	fencer := Fencer{state.Access{Client: api, API: api, Clock: clock.RealClock{}}}
	selector := func(cached ...v1alpha1.EtcdOperatorTask) map[string]string {
		g.Expect(fencer.Reconcile(t.Context(), &state.State{Etcd: etcd, Tasks: cached})).To(Succeed())
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(service), service)).To(Succeed())
		return service.Spec.Selector
	}
	open, closed := map[string]string{"app": "etcd"}, map[string]string{"app": "etcd", v1alpha1.LabelFencedBy: "task"}

	g.Expect(selector(*task)).To(Equal(open), "it only previews")
	task.Status.Recovery = &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryFencing, Restore: &v1alpha1.RestoreStatus{}}
	g.Expect(selector(*task)).To(Equal(open), "clients are to stay")
	stale := *task.DeepCopy()
	stale.Status.Recovery.Restore.Fenced = true
	g.Expect(selector(stale)).To(Equal(open), "the API server does not say so")
	g.Expect(api.Update(t.Context(), stale.DeepCopy())).To(Succeed())
	g.Expect(selector()).To(Equal(open), "the cache does not show it yet")
	g.Expect(selector(stale)).To(Equal(closed))
	g.Expect(selector()).To(Equal(closed), "the task still runs")
	newer := &v1alpha1.EtcdOperatorTask{}
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(task), newer)).To(Succeed())
	newer.Spec.Type, newer.Status.Recovery = "Dance", nil
	g.Expect(api.Update(t.Context(), newer)).To(Succeed())
	g.Expect(selector(*newer)).To(Equal(closed), "a newer operator keeps them away")
	g.Expect(selector()).To(Equal(closed), "which the cache may not show")
	service.OwnerReferences = nil
	g.Expect(api.Update(t.Context(), service)).To(Succeed())
	g.Expect(api.Delete(t.Context(), task)).To(Succeed())
	g.Expect(selector()).To(Equal(closed), "it is not the Etcd's any more")
	service.OwnerReferences = apitest.ControlledBy(etcd)
	g.Expect(api.Update(t.Context(), service)).To(Succeed())
	g.Expect(selector()).To(Equal(open))
	g.Expect(api.Delete(t.Context(), service)).To(Succeed())
	g.Expect(fencer.Reconcile(t.Context(), &state.State{Etcd: etcd, Tasks: []v1alpha1.EtcdOperatorTask{stale}})).To(Succeed())
}
