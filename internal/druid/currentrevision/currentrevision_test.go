// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package currentrevision

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/druid/executor"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var key = types.NamespacedName{Namespace: "ns", Name: "main"}

// world is a StatefulSet whose pods have all been replaced, by default.
type world struct {
	*WithT
	t     *testing.T
	set   *appsv1.StatefulSet
	pods  []*corev1.Pod
	clock *clocktesting.FakePassiveClock
	*Reconciler
	// patches are the statuses that were written.
	patches []string
}

func newWorld(t *testing.T, changes ...func(*world)) *world {
	w := &world{WithT: NewWithT(t), t: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))}
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: "main"}
	w.set = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "main", UID: "set", Generation: 2, Labels: labels, Annotations: map[string]string{v1alpha1.AnnotationRolloutBy: v1alpha1.ManagedBy},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
	}}
	w.set.Spec.Replicas, w.set.Spec.UpdateStrategy.Type = ptr.To(int32(3)), appsv1.OnDeleteStatefulSetStrategyType
	w.set.Status = appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3, CurrentRevision: "old", UpdateRevision: "new"}
	for i := range 3 {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("main-%d", i), Labels: map[string]string{v1alpha1.LabelPartOf: "main", appsv1.StatefulSetRevisionLabel: "new"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(w.set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		w.pods = append(w.pods, pod)
	}
	for _, c := range changes {
		c(w)
	}
	scheme := runtime.NewScheme()
	w.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	w.Expect(appsv1.AddToScheme(scheme)).To(Succeed())
	w.Expect(corev1.AddToScheme(scheme)).To(Succeed())
	objects := []client.Object{etcd, w.set}
	for _, pod := range w.pods {
		objects = append(objects, pod)
	}
	server := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&appsv1.StatefulSet{}).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			data, err := patch.Data(o)
			w.Expect(err).NotTo(HaveOccurred())
			w.patches = append(w.patches, sub+" "+string(data))
			return c.SubResource(sub).Patch(ctx, o, patch, options...)
		},
	}).Build()
	w.Reconciler = &Reconciler{Client: server, Live: server, Locker: &lock.Locks{}, Clock: w.clock, Rule: executor.Rule{}}
	return w
}

// look has the controller look every second for a while, from now on.
func (w *world) look(seconds int) time.Duration {
	w.t.Helper()
	var again time.Duration
	for i := range seconds + 1 {
		if i > 0 {
			w.clock.SetTime(w.clock.Now().Add(time.Second))
		}
		result, err := w.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key})
		w.Expect(err).NotTo(HaveOccurred())
		again = result.RequeueAfter
	}
	return again
}

func (w *world) change(change func(*appsv1.StatefulSet)) {
	w.t.Helper()
	set := &appsv1.StatefulSet{}
	w.Expect(w.Live.Get(w.t.Context(), key, set)).To(Succeed())
	change(set)
	w.Expect(w.Client.Status().Update(w.t.Context(), set)).To(Succeed())
}

func TestStaleRevisionIsPromotedAfterAWhile(t *testing.T) {
	w := newWorld(t)
	w.Expect(w.look(4)).To(Equal(time.Second), "it looks again")
	w.Expect(w.patches).To(BeEmpty())
	set := &appsv1.StatefulSet{}
	w.Expect(w.Live.Get(t.Context(), key, set)).To(Succeed())
	w.look(1)
	w.Expect(w.patches).To(Equal([]string{`status {"metadata":{"resourceVersion":"` + set.ResourceVersion + `"},"status":{"currentRevision":"new"}}`}))
	w.Expect(w.look(10)).To(BeZero(), "it is settled")
	w.Expect(w.patches).To(HaveLen(1))
}

// Kubernetes 1.37 promotes the revision itself.
func TestRevisionThatIsPromotedByKubernetesIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.look(4)
	w.change(func(s *appsv1.StatefulSet) { s.Status.CurrentRevision = "new" })
	w.look(20)
	w.Expect(w.patches).To(BeEmpty())
}

// The time starts again after anything that interrupts it.
func TestPatienceIsNotInterrupted(t *testing.T) {
	for name, interrupt := range map[string]func(*world){
		"another revision": func(w *world) {
			w.change(func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "newer" })
			for _, pod := range w.pods {
				patch := client.MergeFrom(pod.DeepCopy())
				pod.Labels[appsv1.StatefulSetRevisionLabel] = "newer"
				w.Expect(w.Client.Patch(w.t.Context(), pod, patch)).To(Succeed())
			}
		},
		"not ready in between": func(w *world) {
			w.change(func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 2 })
			w.look(0)
			w.change(func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 3 })
		},
		"the operator was paused": func(w *world) { w.clock.SetTime(w.clock.Now().Add(time.Minute)) },
		"the clock was set back":  func(w *world) { w.clock.SetTime(w.clock.Now().Add(-time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.look(4)
			interrupt(w)
			w.look(4)
			w.Expect(w.patches).To(BeEmpty())
			w.look(1)
			w.Expect(w.patches).To(HaveLen(1))
		})
	}
}

func TestWhatIsNotSettled(t *testing.T) {
	status := func(change func(*appsv1.StatefulSetStatus)) func(*world) {
		return func(w *world) { change(&w.set.Status) }
	}
	for name, change := range map[string]func(*world){
		"RollingUpdate":        func(w *world) { w.set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType },
		"no marker":            func(w *world) { w.set.Annotations = nil },
		"another manager":      func(w *world) { w.set.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedBy },
		"of no Etcd":           func(w *world) { w.set.OwnerReferences = nil },
		"not observed":         func(w *world) { w.set.Generation = 3 },
		"hibernated":           func(w *world) { w.set.Spec.Replicas = ptr.To(int32(0)) },
		"a pod is missing":     status(func(s *appsv1.StatefulSetStatus) { s.Replicas = 2 }),
		"a pod is not ready":   status(func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 2 }),
		"a pod is outdated":    status(func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 2 }),
		"the revisions agree":  status(func(s *appsv1.StatefulSetStatus) { s.CurrentRevision = "new" }),
		"a pod says it is not": func(w *world) { w.pods[1].Status.Conditions[0].Status = corev1.ConditionFalse },
		"a pod is at another":  func(w *world) { w.pods[1].Labels[appsv1.StatefulSetRevisionLabel] = "old" },
		"a pod is going": func(w *world) {
			w.pods[1].DeletionTimestamp, w.pods[1].Finalizers = ptr.To(metav1.Now()), []string{"example.com/x"}
		},
		"a pod is foreign": func(w *world) { w.pods[1].OwnerReferences = nil },
		"one pod too many": func(w *world) { w.pods = append(w.pods, extra(w.pods[0])) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change)
			w.look(10)
			w.Expect(w.patches).To(BeEmpty())
		})
	}
}

func extra(like *corev1.Pod) *corev1.Pod {
	pod := like.DeepCopy()
	pod.Name = "main-3"
	return pod
}
