// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
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
	"PersistentVolume": func() client.Object { return &corev1.PersistentVolume{} }, "Etcd": func() client.Object { return &v1alpha1.Etcd{} },
}

// objectsOfAnEtcd are an Etcd with three members and backups and its objects, in JSON, as the API server has them, by kind.
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
		add("PersistentVolume", volumeOf(claim), 40+i)
	}
	add("Etcd", wellEtcd(set.Namespace, set.Name), 50)
	return all
}

// volumeOf is the volume of a claim, in a zone.
func volumeOf(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	zone := corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"eu-1a"}}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: claim.Spec.VolumeName, Finalizers: []string{"kubernetes.io/pv-protection"}, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "csi.example.com"}}}
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: "4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e99"}
	v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{zone}}}}}
	return v
}

// wellEtcd is an Etcd of three members that is well, with the status that it has then.
func wellEtcd(namespace, name string) *v1alpha1.Etcd {
	e := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	e.Spec.Replicas = 3
	e.Spec.Backup = &v1alpha1.BackupSpec{Store: &v1alpha1.StoreSpec{Container: "bucket", Provider: "S3", Prefix: namespace + "/" + name}}
	for _, c := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionAllMembersUpdated, v1alpha1.ConditionBackupReady, v1alpha1.ConditionDataVolumesReady, v1alpha1.ConditionScaled, v1alpha1.ConditionReconciled, v1alpha1.ConditionTLSReady} {
		e.Status.Conditions.Set(metav1.Condition{Type: c, Status: metav1.ConditionTrue, ObservedGeneration: 3, Reason: c, Message: "all 3 members are as they should be", LastTransitionTime: metav1.Now()})
	}
	for i := range 3 {
		e.Status.Members = append(e.Status.Members, v1alpha1.Member{Name: fmt.Sprint(name, "-", i), ID: "8e9e05c52164694d", Role: "Member", Status: "Ready", Reason: "Participating", LastTransitionTime: metav1.Now()})
	}
	e.Status.Replicas, e.Status.CurrentReplicas, e.Status.ReadyReplicas, e.Status.UpdatedReplicas, e.Status.ClusterSize, e.Status.Ready, e.Status.ClusterID = 3, 3, 3, 3, 3, ptr.To(true), "cdf818194e3a8c32"
	return e
}

// elsewhere is an object as another Etcd of the same name has it: in another namespace, with other UIDs and another template.
func elsewhere(data []byte, i int) []byte {
	for _, text := range []string{"shoot-a", "9a8e-0d6a4c1d2e", "37dcb462aa1b02c6"} {
		data = bytes.ReplaceAll(data, []byte(text), fmt.Appendf(nil, "%s%06d", text[:len(text)-6], i))
	}
	return data
}

// The heap that the cache takes for the objects of an Etcd, by their kind.
func BenchmarkObjectsOfAnEtcd(b *testing.B) {
	b.Run("of the same name", func(b *testing.B) { benchmarkObjects(b, elsewhere) })
	b.Run("of another name", func(b *testing.B) {
		benchmarkObjects(b, func(data []byte, i int) []byte {
			return bytes.ReplaceAll(elsewhere(data, i), []byte("etcd-main"), fmt.Appendf(nil, "etcd-%04d", i))
		})
	})
}

func benchmarkObjects(b *testing.B, elsewhere func([]byte, int) []byte) {
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
			for i := range etcds {
				for _, data := range all {
					o := kinds[kind]()
					if err := json.Unmarshal(elsewhere(data, i), o); err != nil {
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
