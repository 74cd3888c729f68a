// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Events have the Etcd reconciled that their object is about, and nothing else.
func TestEvents(t *testing.T) {
	pod := func(etcd string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod", Labels: map[string]string{v1alpha1.LabelPartOf: etcd}}}
	}
	task := taskOf(pending, 0)
	for name, c := range map[string]struct {
		by     handler.EventHandler
		object client.Object
		want   []reconcile.Request
	}{
		"a task":           {controller.EnqueueEtcdOfTask(), task, []reconcile.Request{{NamespacedName: mainKey}}},
		"a pod of an Etcd": {controller.Enqueue(controller.PartOf), pod("main"), []reconcile.Request{{NamespacedName: mainKey}}},
		"any other pod":    {controller.Enqueue(controller.PartOf), pod(""), nil},
	} {
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		c.by.Create(t.Context(), event.CreateEvent{Object: c.object}, q)
		var got []reconcile.Request
		for q.Len() > 0 {
			r, _ := q.Get()
			got = append(got, r)
		}
		q.ShutDown()
		NewWithT(t).Expect(got).To(Equal(c.want), name)
	}
}
