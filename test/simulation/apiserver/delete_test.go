// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A StatefulSet that orphans its pods owns them until the garbage collector has seen to it, and there is no other one of its name until then.
func TestAnOrphaningDeletionWaitsForTheGarbageCollector(t *testing.T) {
	s := New(clientgoscheme.Scheme, time.Now)
	c := s.Direct()
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-0"}}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.Create(t.Context(), set))
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))}
	must(c.Create(t.Context(), pod))
	must(c.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)))

	live := Find[*appsv1.StatefulSet](s.Live(), "ns", "main")
	if live == nil || live.DeletionTimestamp == nil || len(live.Finalizers) != 1 || live.Finalizers[0] != metav1.FinalizerOrphanDependents {
		t.Fatalf("the StatefulSet is %+v", live)
	}
	if p := Find[*corev1.Pod](s.Live(), "ns", "main-0"); !metav1.IsControlledBy(p, set) {
		t.Errorf("the pod is owned by %v before the garbage collector has done anything", p.OwnerReferences)
	}
	s.Collect()
	if live := Find[*appsv1.StatefulSet](s.Live(), "ns", "main"); live != nil {
		t.Errorf("the StatefulSet is still there: %+v", live)
	}
	if p := Find[*corev1.Pod](s.Live(), "ns", "main-0"); p == nil || len(p.OwnerReferences) > 0 || p.DeletionTimestamp != nil {
		t.Errorf("the pod is %+v", p)
	}
}
