// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kinds are those of the objects of an Etcd.
var kinds = map[string]func() client.Object{
	"ServiceAccount": func() client.Object { return &corev1.ServiceAccount{} }, "Role": func() client.Object { return &rbacv1.Role{} },
	"RoleBinding": func() client.Object { return &rbacv1.RoleBinding{} }, "ConfigMap": func() client.Object { return &corev1.ConfigMap{} },
	"Service": func() client.Object { return &corev1.Service{} }, "PodDisruptionBudget": func() client.Object { return &policyv1.PodDisruptionBudget{} },
	"StatefulSet": func() client.Object { return &appsv1.StatefulSet{} }, "Lease": func() client.Object { return &coordinationv1.Lease{} },
	"Pod": func() client.Object { return &corev1.Pod{} }, "PersistentVolumeClaim": func() client.Object { return &corev1.PersistentVolumeClaim{} },
}

// objectsOfAnEtcd are those of an Etcd with three members and backups, in JSON, as the API server has them, by kind.
func objectsOfAnEtcd(b testing.TB) map[string][][]byte {
	b.Helper()
	file, err := os.Open("../etcd/component/testdata/backup-default.yaml")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	all := map[string][][]byte{}
	add := func(kind string, o client.Object, i int) {
		o.SetUID(types.UID(fmt.Sprintf("4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e%02d", i)))
		o.SetResourceVersion("123456789")
		o.SetGeneration(3)
		o.SetCreationTimestamp(metav1.Now())
		o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "etcd-foreman", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{}}}`)}})
		data, err := json.Marshal(o)
		if err != nil {
			b.Fatal(err)
		}
		all[kind] = append(all[kind], data)
	}
	set := &appsv1.StatefulSet{}
	for documents := utilyaml.NewYAMLOrJSONDecoder(file, 4096); ; {
		raw := json.RawMessage{}
		if documents.Decode(&raw) != nil {
			break
		}
		kind := metav1.TypeMeta{}
		if err := json.Unmarshal(raw, &kind); err != nil {
			b.Fatal(err)
		}
		o := kinds[kind.Kind]()
		if err := json.Unmarshal(raw, o); err != nil {
			b.Fatal(err)
		}
		metav1.SetMetaDataAnnotation(&metav1.ObjectMeta{Annotations: o.GetAnnotations()}, v1alpha1.AnnotationAppliedChecksum, "0123456789abcdef")
		if s, is := o.(*appsv1.StatefulSet); is {
			set = s
		}
		add(kind.Kind, o, len(all))
	}
	for i := range 3 {
		pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.Name = set.Namespace, fmt.Sprint(set.Name, "-", i)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true)}}
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-" + pod.Name}}})
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady}}}
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}})
		}
		add("Pod", pod, 20+i)
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "data-" + pod.Name, Labels: set.Spec.Selector.MatchLabels}}
		claim.Spec = set.Spec.VolumeClaimTemplates[0].Spec
		claim.Spec.VolumeName, claim.Status.Phase, claim.Status.Capacity = "pvc-4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f", corev1.ClaimBound, claim.Spec.Resources.Requests
		add("PersistentVolumeClaim", claim, 30+i)
	}
	return all
}

// The heap that the cache takes for the objects of an Etcd, by their kind.
func BenchmarkObjectsOfAnEtcd(b *testing.B) {
	const etcds = 200
	objects := objectsOfAnEtcd(b)
	options, err := CacheOptions()
	if err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	for b.Loop() {
		total := 0.0
		for kind, all := range objects {
			runtime.GC()
			runtime.ReadMemStats(&before)
			var kept []any
			for range etcds {
				for _, data := range all {
					o := kinds[kind]()
					if err := json.Unmarshal(data, o); err != nil {
						b.Fatal(err)
					}
					transform := options.DefaultTransform
					for of, by := range options.ByObject {
						if fmt.Sprintf("%T", of) == fmt.Sprintf("%T", o) && by.Transform != nil {
							transform = by.Transform
						}
					}
					object, err := transform(o)
					if err != nil {
						b.Fatal(err)
					}
					kept = append(kept, object)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			each := float64(after.HeapAlloc-before.HeapAlloc) / etcds
			b.ReportMetric(each, kind+"-bytes")
			total += each
			runtime.KeepAlive(kept)
		}
		b.ReportMetric(total, "bytes/etcd")
	}
}
