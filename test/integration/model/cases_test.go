// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// player makes requests, and notes the answers in words that both servers have in common.
type player struct {
	ctx       context.Context
	client    client.Client
	namespace string
	answers   []string
}

// note notes an answer: the reason of an error, or what is asked of the object.
func (p *player) note(what string, err error, more ...any) {
	p.answers = append(p.answers, fmt.Sprint(append([]any{what, ": ", apierrors.ReasonForError(err), " "}, more...)...))
}

func (p *player) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: p.namespace, Name: name}
}

func (p *player) set() *appsv1.StatefulSet {
	labels := map[string]string{"app": "x"}
	return &appsv1.StatefulSet{ObjectMeta: p.meta("set"), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](3), ServiceName: "x", Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: p.pod("x").Spec},
	}}
}

func (p *player) pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: p.meta(name), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

// changed notes whether an object has another resourceVersion than before.
func (p *player) changed(what, before string, o client.Object, err error) {
	p.note(what, err, "changed ", o.GetResourceVersion() != before, " generation ", o.GetGeneration())
}

var cases = []struct {
	name string
	do   func(p *player)
}{
	{"create and read", func(p *player) {
		c := &corev1.ConfigMap{ObjectMeta: p.meta("c"), Data: map[string]string{"a": "1"}}
		p.note("create", p.client.Create(p.ctx, c), c.UID != "", c.ResourceVersion != "")
		p.note("again", p.client.Create(p.ctx, &corev1.ConfigMap{ObjectMeta: p.meta("c")}))
		p.note("another", p.client.Get(p.ctx, types.NamespacedName{Namespace: p.namespace, Name: "d"}, c))
		named := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "g-"}}
		p.note("generated", p.client.Create(p.ctx, named), len(named.Name))
		list := &corev1.ConfigMapList{}
		p.note("list", p.client.List(p.ctx, list, client.InNamespace(p.namespace), client.MatchingLabels{"no": "such"}), len(list.Items))
	}},
	{"optimistic concurrency", func(p *player) {
		c := &corev1.ConfigMap{ObjectMeta: p.meta("c"), Data: map[string]string{"a": "1"}}
		p.note("create", p.client.Create(p.ctx, c))
		stale, before := c.DeepCopy(), c.ResourceVersion
		p.changed("the same again", before, c, p.client.Update(p.ctx, c))
		c.Data["a"] = "2"
		p.changed("update", before, c, p.client.Update(p.ctx, c))
		stale.Data["a"] = "3"
		p.note("stale update", p.client.Update(p.ctx, stale))
		p.note("stale patch", p.client.Patch(p.ctx, c, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"resourceVersion":"`+before+`"},"data":{"a":"4"}}`))))
		p.note("patch of another UID", p.client.Patch(p.ctx, c, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"uid":"other"},"data":{"a":"4"}}`))))
		p.note("patch of another UID and version", p.client.Patch(p.ctx, c, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"uid":"other","resourceVersion":"`+before+`"},"data":{"a":"4"}}`))))
		p.note("patch", p.client.Patch(p.ctx, c, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":null,"b":"5"}}`))), c.Data)
		p.note("of none", p.client.Patch(p.ctx, &corev1.ConfigMap{ObjectMeta: p.meta("d")}, client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"1"}}`))))
	}},
	{"generation and status", func(p *player) {
		s := p.set()
		s.Status.Replicas = 7
		p.note("create", p.client.Create(p.ctx, s), s.Generation, s.Status.Replicas)
		before := s.ResourceVersion
		s.Labels, s.Status.Replicas = map[string]string{"l": "1"}, 8
		p.changed("update of labels and status", before, s, p.client.Update(p.ctx, s))
		p.note("its status", nil, s.Status.Replicas)
		before, s.Status.Replicas, s.Spec.Replicas = s.ResourceVersion, 2, ptr.To[int32](5)
		p.changed("update of the status, and of the spec through it", before, s, p.client.Status().Update(p.ctx, s))
		p.note("is", nil, s.Status.Replicas, *s.Spec.Replicas)
		before, s.Spec.Replicas = s.ResourceVersion, ptr.To[int32](1)
		p.changed("update of the spec", before, s, p.client.Update(p.ctx, s))
		stale := client.MergeFromWithOptions(s.DeepCopy(), client.MergeFromWithOptimisticLock{})
		s.Status.Replicas = 4
		p.note("patch of the status", p.client.Status().Patch(p.ctx, s.DeepCopy(), stale))
		p.note("once more", p.client.Status().Patch(p.ctx, s.DeepCopy(), stale))
	}},
	{"deletion", func(p *player) {
		c := &corev1.ConfigMap{ObjectMeta: p.meta("c"), Data: map[string]string{"a": "1"}}
		c.Finalizers = []string{"example.com/waits"}
		p.note("create", p.client.Create(p.ctx, c))
		p.note("of another UID", p.client.Delete(p.ctx, c, client.Preconditions{UID: ptr.To[types.UID]("other")}))
		p.note("of another version", p.client.Delete(p.ctx, c, client.Preconditions{ResourceVersion: ptr.To("1")}))
		p.note("dry run", p.client.Delete(p.ctx, c, client.DryRunAll))
		p.note("delete", p.client.Delete(p.ctx, c, client.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion}))
		p.note("waits", p.client.Get(p.ctx, client.ObjectKeyFromObject(c), c), c.DeletionTimestamp != nil)
		c.Finalizers = nil
		p.note("without finalizer", p.client.Update(p.ctx, c))
		p.note("is gone", p.client.Get(p.ctx, client.ObjectKeyFromObject(c), c))
		p.note("of none", p.client.Delete(p.ctx, c))
	}},
	{"deletion that orphans", func(p *player) {
		s := p.set()
		p.note("create", p.client.Create(p.ctx, s))
		p.note("delete", p.client.Delete(p.ctx, s, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		p.note("waits", p.client.Get(p.ctx, client.ObjectKeyFromObject(s), s), s.Finalizers, s.DeletionTimestamp != nil)
		before := s.ResourceVersion
		p.changed("again", before, s, p.client.Delete(p.ctx, s, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		p.note("another of its name", p.client.Create(p.ctx, p.set()))
		s.Finalizers = nil
		p.note("without finalizer", p.client.Update(p.ctx, s))
		p.note("is gone", p.client.Get(p.ctx, client.ObjectKeyFromObject(s), s))
	}},
	{"pods and budgets", func(p *player) {
		pod := p.pod("a")
		pod.Labels = map[string]string{"app": "x"}
		p.note("create", p.client.Create(p.ctx, pod))
		p.note("patch of another UID", p.client.Patch(p.ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"uid":"other","annotations":{"a":"1"}}}`))))
		p.note("budget", p.client.Create(p.ctx, &policyv1.PodDisruptionBudget{ObjectMeta: p.meta("b"), Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: pod.Labels},
		}}))
		other := p.pod("z")
		p.note("another", p.client.Create(p.ctx, other))
		evict := func(of *corev1.Pod, uid types.UID, dryRun ...string) error {
			e := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{DryRun: dryRun, Preconditions: &metav1.Preconditions{UID: &uid}}}
			return p.client.SubResource("eviction").Create(p.ctx, of, e, &client.SubResourceCreateOptions{CreateOptions: client.CreateOptions{DryRun: dryRun}})
		}
		p.note("evict by another UID", evict(other, "other"))
		p.note("evict without a budget, dry run", evict(other, other.UID, metav1.DryRunAll))
		p.note("it is there", p.client.Get(p.ctx, client.ObjectKeyFromObject(other), other))
		p.note("evict without a budget", evict(other, other.UID))
		p.note("it is gone", p.client.Get(p.ctx, client.ObjectKeyFromObject(other), other))
	}},
	{"apply", func(p *player) {
		p.note("create", p.client.Create(p.ctx, p.set(), client.FieldOwner("etcd-foreman")))
		apply := func(image string, labels map[string]any) error {
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{"namespace": p.namespace, "name": "set", "labels": labels}, "spec": map[string]any{
				"replicas": int64(3), "serviceName": "x", "selector": map[string]any{"matchLabels": map[string]any{"app": "x"}},
				"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "x"}}, "spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": image}}}},
			}}}
			return p.client.Apply(p.ctx, client.ApplyConfigurationFromUnstructured(u), client.ForceOwnership, client.FieldOwner("etcd-foreman"))
		}
		show := func(what string, err error) {
			s := p.set()
			p.note(what, err, p.client.Get(p.ctx, client.ObjectKeyFromObject(s), s), s.Generation, *s.Spec.Replicas, s.Labels, s.Annotations, s.Spec.Template.Spec.Containers[0].Image)
		}
		show("apply", apply("i", map[string]any{"a": "1", "b": "2"}))
		p.note("others annotate", p.client.Patch(p.ctx, p.set(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"foreign":"1"}}}`)), client.FieldOwner("other")))
		show("a label less", apply("i", map[string]any{"a": "1"}))
		show("another image", apply("j", map[string]any{"a": "1"}))
		show("the same again", apply("j", map[string]any{"a": "1"}))
	}},
}
