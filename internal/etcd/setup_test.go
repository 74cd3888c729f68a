// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A starting operator finds many Etcds. It first reconciles those that have changed while no operator was running, and those that are
// quorate while their pods are replaced or their certificates renewed.
func TestChangedEtcdsComeFirst(t *testing.T) {
	g := NewWithT(t)
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	for _, name := range []string{"a", "changed", "b", "rolled", "hangs", "renewed"} {
		etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Status: v1alpha1.EtcdStatus{ObservedGeneration: 1}}
		if name != "hangs" {
			etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue})
		}
		switch name {
		case "changed":
			etcd.Generation = 2
		case "rolled", "hangs":
			etcd.Status.Rollout = &v1alpha1.CurrentRollout{}
		case "renewed":
			etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionTLSReady, Status: metav1.ConditionFalse})
		}
		found := event.CreateEvent{Object: etcd, IsInInitialList: true}
		for _, h := range []handler.EventHandler{&handler.EnqueueRequestForObject{}, urgentFirst()} {
			h.Create(t.Context(), found, queue)
		}
	}
	var order []string
	for range 6 {
		request, _, _ := queue.GetWithPriority()
		order = append(order, request.Name)
		queue.Done(request)
	}
	g.Expect(order).To(Equal([]string{"changed", "rolled", "renewed", "a", "b", "hangs"}))
	g.Expect(priorityOf(pollHealthy, false)).To(HaveValue(Equal(handler.LowPriority)))
	g.Expect(priorityOf(pollTroubled, false)).To(HaveValue(BeZero()))
	g.Expect(priorityOf(pollTroubled, true)).To(HaveValue(BeNumerically("<", handler.LowPriority)))
}
