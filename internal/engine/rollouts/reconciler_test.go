// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// state is what a reader sees of a cluster of one member.
type state struct {
	// update is the update revision, pod the one of the pod.
	update, pod string
	tasks       []v1alpha1.EtcdOperatorTask
	// strategy is that of the StatefulSet, if not OnDelete.
	strategy appsv1.StatefulSetUpdateStrategyType
	noEtcd   bool
}

func (s state) client(t *testing.T) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	NewWithT(t).Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "main"}
	set := &appsv1.StatefulSet{
		ObjectMeta: meta,
		Spec:       appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}},
		Status:     appsv1.StatefulSetStatus{UpdateRevision: s.update},
	}
	set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&v1alpha1.Etcd{ObjectMeta: meta}, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))}
	if s.strategy != "" {
		set.Spec.UpdateStrategy.Type = s.strategy
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "main-0",
		Labels:          map[string]string{v1alpha1.LabelPartOf: "main", appsv1.StatefulSetRevisionLabel: s.pod},
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
	}}
	objects := []client.Object{set, pod}
	if !s.noEtcd {
		objects = append(objects, &v1alpha1.Etcd{ObjectMeta: meta})
	}
	for i := range s.tasks {
		objects = append(objects, &s.tasks[i])
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	NewWithT(t).Expect(etcdtasks.Index(t.Context(), indexer{builder})).To(Succeed())
	return builder.Build()
}

type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(o, field, extract)
	return nil
}

// split is a manager's client: it reads from the cache, and writes to the API server.
type split struct {
	client.Client
	cache client.Reader
}

func (s split) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	return s.cache.Get(ctx, key, o, options...)
}

func (s split) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return s.cache.List(ctx, list, options...)
}

// The cache may be stale: whether a task is needed, and which, is decided on live reads before one is made.
func TestTasksAreMadeOfLiveReads(t *testing.T) {
	of := func(task v1alpha1.EtcdOperatorTask) []v1alpha1.EtcdOperatorTask {
		task.Namespace, task.Spec.OwnerEtcdReference = "ns", v1alpha1.EtcdReference{Name: "main"}
		return []v1alpha1.EtcdOperatorTask{task}
	}
	failed := rolloutTask("targetRevision: main-new", v1alpha1.TaskStateFailed, 0)
	failed.Name = pending{etcd: &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "main"}}, set: "main", revision: "main-new"}.prefix() + "1"
	outdated := state{update: "main-new", pod: "main-old"}
	for name, c := range map[string]struct {
		cached, live state
		// config of the tasks that are made.
		want  []string
		waits bool
	}{
		"a pod is outdated":                           {cached: outdated, live: outdated, want: []string{"targetRevision: main-new\n"}},
		"no pod is":                                   {cached: state{update: "main-new", pod: "main-new"}, live: state{update: "main-new", pod: "main-new"}},
		"the pod is replaced already":                 {cached: outdated, live: state{update: "main-new", pod: "main-new"}},
		"the template changed once more":              {cached: outdated, live: state{update: "main-newer", pod: "main-new"}, want: []string{"targetRevision: main-newer\n"}},
		"a task for it exists":                        {cached: outdated, live: state{update: "main-new", pod: "main-old", tasks: of(rolloutTask("", v1alpha1.TaskStatePending, 1))}},
		"the attempt before failed a moment ago":      {cached: outdated, live: state{update: "main-new", pod: "main-old", tasks: of(failed)}, waits: true},
		"the StatefulSet is no longer the operator's": {cached: outdated, live: state{update: "main-new", pod: "main-old", strategy: appsv1.RollingUpdateStatefulSetStrategyType}},
		"the Etcd is gone":                            {cached: outdated, live: state{update: "main-new", pod: "main-old", noEtcd: true}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			cached, live := c.cached.client(t), c.live.client(t)
			r := &Reconciler{Client: split{Client: live, cache: cached}, Live: live, Clock: clocktesting.NewFakePassiveClock(now), Rule: replacer.Operator{}}
			key := types.NamespacedName{Namespace: "ns", Name: "main"}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.RequeueAfter > 0).To(Equal(c.waits))
			all := &v1alpha1.EtcdOperatorTaskList{}
			g.Expect(live.List(t.Context(), all, etcdtasks.Of(key))).To(Succeed())
			var made []string
			for _, task := range all.Items[len(c.live.tasks):] {
				made = append(made, task.Spec.Config)
			}
			g.Expect(made).To(Equal(c.want))
		})
	}
}

// The cache may show a pod later than its StatefulSet, so that the pod is what makes the controller look again.
func TestPodsThatMayBeOutdatedAreLookedAt(t *testing.T) {
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-0", UID: "pod", Labels: map[string]string{v1alpha1.LabelPartOf: "main", appsv1.StatefulSetRevisionLabel: "old"}}}
		change(p)
		return p
	}
	same := pod(func(*corev1.Pod) {})
	marked := pod(func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationInPlaceUpdate: `{"uid":"pod"}`}
	})
	for name, c := range map[string]struct {
		before, after *corev1.Pod
		want          bool
	}{
		"ready":            {same, pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }), false},
		"another revision": {same, pod(func(p *corev1.Pod) { p.Labels[appsv1.StatefulSetRevisionLabel] = "new" }), true},
		"marked":           {same, marked, true},
		"no longer marked": {marked, same, true},
		"marked as before": {marked, marked.DeepCopy(), false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(revisions.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after})).To(Equal(c.want))
		})
	}
	g := NewWithT(t)
	g.Expect(revisions.Create(event.CreateEvent{Object: same})).To(BeTrue())
	g.Expect(revisions.Delete(event.DeleteEvent{Object: same})).To(BeFalse())
	g.Expect(controller.PartOf(same)).To(Equal(types.NamespacedName{Namespace: "ns", Name: "main"}))
	g.Expect(controller.PartOf(&corev1.Pod{}).Name).To(BeEmpty())
}

// What etcd-druid kept from being created while it was back is looked for once it has gone.
func TestEventsOfAnEtcdThatDruidHasLeft(t *testing.T) {
	g := NewWithT(t)
	gone, back := &v1alpha1.Etcd{}, &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{v1alpha1.FinalizerDruid}}}
	for _, c := range []struct {
		before, after *v1alpha1.Etcd
		want          bool
	}{{back, gone, true}, {gone, back, false}, {back, back, false}, {gone, gone, false}} {
		g.Expect(druidGone.Update(event.UpdateEvent{ObjectOld: c.before, ObjectNew: c.after})).To(Equal(c.want))
	}
	g.Expect(druidGone.Create(event.CreateEvent{Object: gone})).To(BeFalse(), "its StatefulSet has an event of its own")
	g.Expect(druidGone.Delete(event.DeleteEvent{Object: back})).To(BeFalse())
}
