// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// marked is a replacer.Rule by which the operator replaces the pods of StatefulSets with its annotation.
type marked struct{}

func (marked) Foreign(*v1alpha1.Etcd, string, metav1.Object) *ownership.Foreign { return nil }

func (marked) Objection(_ *v1alpha1.Etcd, set *appsv1.StatefulSet) string {
	if set.Annotations[v1alpha1.AnnotationRolloutBy] != v1alpha1.ManagedBy {
		return "it is not marked"
	}
	return ""
}

// An outdated pod that no task replaces shows in the metrics, and a StatefulSet of another operator does not.
func TestOutdatedWithoutTaskShows(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: "main"}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "main", UID: "set", Labels: labels, Annotations: map[string]string{v1alpha1.AnnotationRolloutBy: v1alpha1.ManagedBy},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
	}}
	set.Spec.UpdateStrategy.Type, set.Status.UpdateRevision = appsv1.OnDeleteStatefulSetStrategyType, "main-new"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "main-0", Labels: map[string]string{v1alpha1.LabelPartOf: "main", appsv1.StatefulSetRevisionLabel: "main-old"},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
	}}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1alpha1.AddToScheme, appsv1.AddToScheme, corev1.AddToScheme} {
		g.Expect(add(scheme)).To(Succeed())
	}
	refusal := errors.New("the API server refuses")
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(etcd, set, pod)
	g.Expect(etcdtasks.Index(t.Context(), indexer{builder})).To(Succeed())
	server := builder.WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if refusal != nil {
			return refusal
		}
		return c.Create(ctx, o, options...)
	}}).Build()
	says := make(chan string, 1)
	metrics := NewMetrics(prometheus.NewRegistry())
	r := &Reconciler{Client: server, Live: server, Clock: clocktesting.NewFakePassiveClock(now), Recorder: &events.FakeRecorder{Events: says}, Rule: marked{}, Metrics: metrics}
	look := func() error {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "main"}})
		return err
	}
	shown := func() float64 { return testutil.ToFloat64(metrics.uncovered.WithLabelValues("main", "ns")) }

	g.Expect(look()).To(MatchError(refusal))
	g.Expect(shown()).To(Equal(1.0))
	refusal = nil
	g.Expect(look()).To(Succeed())
	g.Expect(shown()).To(BeZero())
	g.Expect(look()).To(Succeed())
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	g.Expect(server.List(t.Context(), tasks)).To(Succeed())
	g.Expect(tasks.Items).To(HaveLen(1))
	g.Expect(says).To(BeEmpty())

	// The task is for another Etcd now, as is the next one of that name: the rollout has another task, and the user is told.
	squatter := tasks.Items[0].DeepCopy()
	squatter.ResourceVersion, squatter.Spec.OwnerEtcdReference.Name, squatter.OwnerReferences = "", "other", nil
	g.Expect(server.Delete(t.Context(), &tasks.Items[0])).To(Succeed())
	g.Expect(server.Create(t.Context(), squatter)).To(Succeed())
	for range 2 {
		g.Expect(look()).To(Succeed())
		g.Expect(shown()).To(BeZero())
		g.Expect(server.List(t.Context(), tasks)).To(Succeed())
		g.Expect(tasks.Items).To(HaveLen(2))
	}
	g.Expect(says).To(Receive(ContainSubstring("TaskNameTaken")))
	own := tasks.Items[slices.IndexFunc(tasks.Items, func(t v1alpha1.EtcdOperatorTask) bool { return t.Name != squatter.Name })]
	own.Status.State, own.Status.CompletedAt = v1alpha1.TaskStateFailed, &metav1.Time{Time: now}
	g.Expect(server.Update(t.Context(), &own)).To(Succeed())
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "main"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.RequeueAfter).To(BeEquivalentTo(10e9), "it counts as an attempt")
	g.Expect(server.Delete(t.Context(), &own)).To(Succeed())

	set.Annotations = nil
	g.Expect(server.Update(t.Context(), set)).To(Succeed())
	g.Expect(look()).To(Succeed())
	g.Expect(testutil.CollectAndCount(metrics.uncovered)).To(BeZero())
}
