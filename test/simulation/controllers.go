// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const claimProtection = "kubernetes.io/pvc-protection"

// protect removes claims that are deleted once no pod uses them that has not ended.
func (w *World) protect() {
	used := map[string]bool{}
	for _, p := range apiserver.Of[*corev1.Pod](w.API.Live()) {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && !ended {
				used[v.PersistentVolumeClaim.ClaimName] = true
			}
		}
	}
	for _, c := range apiserver.Of[*corev1.PersistentVolumeClaim](w.API.Live()) {
		if c.DeletionTimestamp == nil {
			continue
		}
		if used[c.Name] {
			w.controller("claims", w.between(500, 1000), w.protect)
			continue
		}
		edit(w, c.Namespace, c.Name, "", func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
		if c.Spec.VolumeName != "" {
			delete(w.disks, c.Spec.VolumeName)
			w.remove(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.Spec.VolumeName}})
		}
	}
}

// statefulSets is the controller of StatefulSets, under OnDelete and Parallel.
func (w *World) statefulSets() {
	for _, set := range apiserver.Of[*appsv1.StatefulSet](w.API.Live()) {
		if set.DeletionTimestamp == nil {
			w.statefulSet(set)
		}
	}
}

func (w *World) statefulSet(set *appsv1.StatefulSet) {
	revision, replicas := w.revision(set), int(ptr.Deref(set.Spec.Replicas, 1))
	w.adopt(set)
	w.remember(set, revision)
	status := appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, UpdateRevision: revision, CurrentRevision: cmp.Or(set.Status.CurrentRevision, revision), CollisionCount: set.Status.CollisionCount}
	there := map[int]bool{}
	for _, p := range w.podsOf(set) {
		n := ordinalOf(p.Name)
		there[n] = true
		status.Replicas++
		if isReady(p) && p.DeletionTimestamp == nil {
			status.ReadyReplicas++
			status.AvailableReplicas++
		}
		if p.Labels[appsv1.StatefulSetRevisionLabel] == revision {
			status.UpdatedReplicas++
		}
		surplus, ended := n >= replicas, p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
		if (surplus || ended) && p.DeletionTimestamp == nil {
			w.remove(p, client.Preconditions{UID: &p.UID})
		}
	}
	for i := range replicas {
		// A pod without a controller that ends is not adopted, and there is no other one of its name until it is gone.
		if !there[i] && w.claims(set, i) && apiserver.Find[*corev1.Pod](w.API.Live(), set.Namespace, fmt.Sprintf("%s-%d", set.Name, i)) == nil {
			w.must(w.writer.Create(context.Background(), podOf(set, i, revision)))
		}
	}
	if !equality.Semantic.DeepEqual(set.Status, status) {
		edit(w, set.Namespace, set.Name, "status", func(s *appsv1.StatefulSet) { s.Status = status })
	}
}

// remember keeps a template as a revision.
func (w *World) remember(set *appsv1.StatefulSet, revision string) {
	if w.fleet == nil || apiserver.Find[*appsv1.ControllerRevision](w.API.Live(), set.Namespace, revision) != nil {
		return
	}
	template, err := json.Marshal(map[string]any{"spec": map[string]any{"template": set.Spec.Template}})
	w.must(err)
	w.revisions++
	w.must(w.writer.Create(context.Background(), &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: revision, Labels: set.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Data: runtime.RawExtension{Raw: template}, Revision: w.revisions,
	}))
}

// podsOf returns the pods of a StatefulSet, by name.
func (w *World) podsOf(set *appsv1.StatefulSet) []*corev1.Pod {
	return slices.DeleteFunc(apiserver.Of[*corev1.Pod](w.API.Live()), func(p *corev1.Pod) bool { return !metav1.IsControlledBy(p, set) })
}

// adopt takes over the pods that a StatefulSet of this name has left behind.
func (w *World) adopt(set *appsv1.StatefulSet) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	w.must(err)
	for _, p := range apiserver.Of[*corev1.Pod](w.API.Live()) {
		if p.Namespace == set.Namespace && etcdOf(p.Name) == set.Name && p.DeletionTimestamp == nil && metav1.GetControllerOf(p) == nil && selector.Matches(labels.Set(p.Labels)) {
			edit(w, p.Namespace, p.Name, "", func(p *corev1.Pod) {
				p.OwnerReferences = append(p.OwnerReferences, *metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet")))
			})
		}
	}
}

// claims makes the claims of a pod, if there are none, and reports whether the pod may be made: not while one of them is being deleted.
func (w *World) claims(set *appsv1.StatefulSet, i int) bool {
	for _, t := range set.Spec.VolumeClaimTemplates {
		name := fmt.Sprintf("%s-%s-%d", t.Name, set.Name, i)
		if c := apiserver.Find[*corev1.PersistentVolumeClaim](w.API.Live(), set.Namespace, name); c != nil && c.DeletionTimestamp != nil {
			return false
		} else if c != nil {
			continue
		}
		own := maps.Clone(t.Labels)
		if own == nil {
			own = map[string]string{}
		}
		maps.Copy(own, set.Spec.Selector.MatchLabels)
		w.must(w.writer.Create(context.Background(), &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: name, Labels: own, Annotations: t.Annotations, Finalizers: []string{claimProtection}},
			Spec:       t.Spec,
		}))
	}
	return true
}

// revised is the revision of a generation of a StatefulSet.
type revised struct {
	generation int64
	revision   string
}

// revision returns that of a StatefulSet's template, which it computes once for each generation.
func (w *World) revision(set *appsv1.StatefulSet) string {
	known, ok := w.revised[set.UID]
	if !ok || known.generation != set.Generation {
		known = revised{set.Generation, Revision(set)}
		w.revised[set.UID] = known
	}
	return known.revision
}

// Revision is that of a StatefulSet's template.
func Revision(set *appsv1.StatefulSet) string {
	template, err := json.Marshal(set.Spec.Template)
	if err != nil {
		panic(err)
	}
	hash := fnv.New32a()
	_, _ = hash.Write(template)
	return fmt.Sprintf("%s-%x", set.Name, hash.Sum32())
}

func podOf(set *appsv1.StatefulSet, i int, revision string) *corev1.Pod {
	labels := maps.Clone(set.Spec.Template.Labels)
	name := fmt.Sprintf("%s-%d", set.Name, i)
	maps.Copy(labels, map[string]string{appsv1.StatefulSetRevisionLabel: revision, appsv1.StatefulSetPodNameLabel: name, appsv1.PodIndexLabel: strconv.Itoa(i)})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: name, GenerateName: set.Name + "-", Labels: labels, Annotations: set.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"))},
		},
		Spec: *set.Spec.Template.Spec.DeepCopy(),
	}
	pod.Spec.Hostname, pod.Spec.Subdomain = name, set.Spec.ServiceName
	for _, t := range set.Spec.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: t.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("%s-%s", t.Name, name)}}})
	}
	return pod
}

// ordinalOf returns the number of a pod; -1 if it has none.
func ordinalOf(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndex(name, "-")+1:])
	if err != nil {
		return -1
	}
	return n
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}
