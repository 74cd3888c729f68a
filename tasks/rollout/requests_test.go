// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A removal is of the pod that was judged, as it was then: without the preconditions it would also remove a pod that has
// recovered since, or its replacement.
func TestRemovalCarriesPreconditions(t *testing.T) {
	for name, how := range map[string]rollout.PodRemoval{"a deletion": rollout.Delete, "an eviction": rollout.Evict} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon), observed(noon))
			config := rollout.DefaultConfig()
			config.PodRemoval = how
			r.task.Config = config
			var sent []*metav1.Preconditions
			r.handler.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
					sent = append(sent, (&client.DeleteOptions{}).ApplyOptions(options).Preconditions)
					return nil
				},
				SubResourceCreate: func(_ context.Context, _ client.Client, _ string, _, eviction client.Object, _ ...client.SubResourceCreateOption) error {
					sent = append(sent, ptr.Deref(eviction.(*policyv1.Eviction).DeleteOptions, metav1.DeleteOptions{}).Preconditions)
					return nil
				},
			}).Build()
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(r.handler.Perform(t.Context(), r.task.Task, *v.Step)).To(Succeed())
			r.Expect(sent).To(HaveExactElements(HaveValue(Equal(metav1.Preconditions{UID: ptr.To(types.UID("m-2")), ResourceVersion: ptr.To("1")}))))
		})
	}
}

// The pod of a member that does not serve is deleted with the grace period that its intent records; any other keeps its own, and
// so does one that serves again when its removal is decided on live reads.
func TestRemovalCarriesTheGracePeriod(t *testing.T) {
	// serves is what the API server says once the pod has recovered: its probe has yet to pass.
	serves := func(s *cluster.Snapshot) {
		dead(2)(s)
		o := &s.Ordinals[2]
		o.Class, o.Answers, o.Serving = v1alpha1.ClassUnready, true, true
		s.Cluster.Voters[2].Serving = true
	}
	for name, c := range map[string]struct {
		cached, live change
		want         *int64
	}{
		"a member that serves":                       {func(*cluster.Snapshot) {}, func(*cluster.Snapshot) {}, nil},
		"a member that is dead":                      {dead(2), dead(2), ptr.To(int64(2))},
		"a member that is dead in a stale cache":     {dead(2), serves, nil},
		"a member that serves only in a stale cache": {serves, dead(2), ptr.To(int64(2))},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon, c.cached), observed(noon, c.live))
			var sent []client.DeleteOptions
			r.handler.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.DeleteOption) error {
					sent = append(sent, *(&client.DeleteOptions{}).ApplyOptions(options))
					return nil
				},
			}).Build()
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(v.Rollout.Pods).To(HaveLen(1))
			r.Expect(v.Rollout.Pods[0].GracePeriodSeconds).To(Equal(c.want), "it is recorded first")
			r.Expect(r.handler.Perform(t.Context(), r.task.Task, *v.Step)).To(Succeed())
			r.Expect(sent).To(HaveLen(1))
			r.Expect(sent[0].GracePeriodSeconds).To(Equal(c.want))
			r.Expect(sent[0].Preconditions).NotTo(BeNil())
		})
	}
}

// errNoAnswer leaves open whether a request was carried out.
var errNoAnswer = errors.New("no answer")

// A task that ends, or is deleted, between its record of a removal and the removal itself leaves a request that may still
// come. Cleanup makes it impossible.
func TestCleanupRevokes(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "m-2", errors.New("it has changed"))
	// What an API server says of a patch with another UID (test/integration/model).
	invalid := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "m-2", field.ErrorList{field.Invalid(field.NewPath("metadata", "uid"), "uid", "field is immutable")})
	for name, c := range map[string]struct {
		pod     func(*corev1.Pod) // nil when it is gone
		record  func(*v1alpha1.RolloutPod)
		answer  error
		revoked bool
		failed  bool
		// replaced: the pod is another one when the patch arrives.
		replaced bool
	}{
		"the pod is as it was":   {pod: func(*corev1.Pod) {}, revoked: true},
		"the pod has changed":    {pod: func(p *corev1.Pod) { p.ResourceVersion = "8" }},
		"the pod is another one": {pod: func(p *corev1.Pod) { p.UID = "other" }},
		"the pod is gone":        {},
		"the pod goes": {pod: func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/x"}
		}},
		"it was replaced":           {pod: func(*corev1.Pod) {}, record: func(p *v1alpha1.RolloutPod) { p.LastOperation.State = v1alpha1.OperationStateCompleted }},
		"no answer":                 {pod: func(*corev1.Pod) {}, answer: errNoAnswer, revoked: true, failed: true},
		"it has changed by then":    {pod: func(*corev1.Pod) {}, answer: conflict, revoked: true},
		"it is another one by then": {pod: func(*corev1.Pod) {}, answer: invalid, revoked: true, replaced: true},
		"the patch is refused":      {pod: func(*corev1.Pod) {}, answer: invalid, revoked: true, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, observed(noon), observed(noon))
			record := v1alpha1.RolloutPod{
				Name: "m-2", UID: "uid", LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateInProgress},
				Evidence: v1alpha1.Evidence{ResourceVersion: "7"},
			}
			if c.record != nil {
				c.record(&record)
			}
			r.task.Etcd = nil
			r.task.Object.Name, r.task.Object.Namespace = "t", "ns"
			r.task.Object.Status.Rollout.Pods = []v1alpha1.RolloutPod{record}
			server := fake.NewClientBuilder()
			if c.pod != nil {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m-2", UID: "uid", ResourceVersion: "7"}}
				c.pod(pod)
				server.WithObjects(pod)
			}
			var patches []string
			live := server.Build()
			r.handler.Live = live
			r.handler.Client = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, pod client.Object, patch client.Patch, _ ...client.PatchOption) error {
					data, err := patch.Data(pod)
					r.Expect(err).NotTo(HaveOccurred())
					patches = append(patches, pod.GetNamespace()+"/"+pod.GetName()+" "+string(data))
					if c.replaced {
						another := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m-2", UID: "other"}}
						r.Expect(errors.Join(live.Delete(t.Context(), pod), live.Create(t.Context(), another))).To(Succeed())
					}
					return c.answer
				},
			}).Build()
			r.handler.tracker.refuse("", "uid", rollout.RefusedWrite{At: noon})
			err := r.handler.Cleanup(t.Context(), r.task.Task)
			if c.revoked {
				// The UID: the pod of that name may be its replacement by then. The annotation differs each time.
				r.Expect(patches).To(Equal([]string{`ns/m-2 {"metadata":{"annotations":{"` + v1alpha1.AnnotationDeletionRevoked + `":"t@7"},"uid":"uid"}}`}))
			} else {
				r.Expect(patches).To(BeEmpty())
			}
			if !c.failed {
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(r.handler.tracker.tasks).To(BeEmpty())
				return
			}
			r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrRevokeDeletion))
			r.Expect(err).To(MatchError(c.answer))
			r.Expect(r.handler.tracker.tasks).NotTo(BeEmpty(), "it is called again")
		})
	}
}

// A refusal says nothing of the request of another operator that recorded the same removal before, whatever its kind.
func TestRefusalOfARecordedRemoval(t *testing.T) {
	for _, action := range []rollout.Action{rollout.DeletePod, rollout.EvictPod} {
		for recorded, mayCome := range map[string]bool{"1": true, "0": false} {
			t.Run(string(action)+" at "+recorded, func(t *testing.T) {
				g := NewWithT(t)
				h := &Handler{Clock: clocktesting.NewFakePassiveClock(noon)}
				d := detail{in: rollout.Input{Snapshot: observed(noon), Config: rollout.DefaultConfig()}}
				d.in.Recorded.Pods = []v1alpha1.RolloutPod{{
					Name: "m-2", UID: "m-2", Evidence: v1alpha1.Evidence{ResourceVersion: recorded},
					LastOperation: v1alpha1.LastOperation{Name: string(action), State: v1alpha1.OperationStateInProgress},
				}}
				refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "m-2", errors.New("policy"))
				g.Expect(h.refusable(tasks.Task{Object: &v1alpha1.EtcdOperatorTask{}}, d, 2, "removing", refusal)).NotTo(Succeed())
				g.Expect(h.tracker.refusals("")["m-2"].MayStillHappen).To(Equal(mayCome))
			})
		}
	}
}

// A cache that lags ends no task: it may show the template before the one that the task is for.
func TestSupersededIsDecidedOnLiveReads(t *testing.T) {
	reader := func(revision string, observed int64) client.Reader {
		b := fake.NewClientBuilder()
		if revision != "" {
			b.WithObjects(&appsv1.StatefulSet{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", Generation: 2, OwnerReferences: []metav1.OwnerReference{{UID: "etcd", Controller: ptr.To(true)}}},
				Status:     appsv1.StatefulSetStatus{UpdateRevision: revision, ObservedGeneration: observed},
			})
		}
		return b.Build()
	}
	for name, c := range map[string]struct {
		cached, live string
		observed     int64
		restart      bool
		superseded   bool
	}{
		"as it was":                      {cached: "new", live: "new", observed: 2},
		"another template":               {cached: "newer", live: "newer", observed: 2, superseded: true},
		"the cache lags":                 {cached: "old", live: "new", observed: 2},
		"the cache does not show it yet": {cached: "new", live: "newer", observed: 2},
		"the template was not seen":      {cached: "newer", live: "newer", observed: 1},
		"there is none in the cache":     {live: "newer", observed: 2},
		"there is none":                  {cached: "newer", observed: 2},
		"a restart follows the template": {cached: "newer", live: "newer", observed: 2, restart: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, nil, nil)
			r.task.Etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{UID: "etcd"}}
			r.task.Object.Namespace, r.task.Object.Spec.OwnerEtcdReference.Name = "ns", "m"
			config := rollout.DefaultConfig()
			config.Restart = c.restart
			r.task.Config = config
			cache := reader(c.cached, c.observed)
			r.handler.Client, r.handler.Live = cache.(client.Client), reader(c.live, c.observed)
			by, err := r.handler.Superseded(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(by != "").To(Equal(c.superseded), by)
		})
	}
}
