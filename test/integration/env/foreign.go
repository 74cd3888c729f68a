// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Foreigners returns a foreign object for each name that an Etcd needs.
func Foreigners(name string) map[string]client.Object {
	web := map[string]string{"app": "web"}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: web}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}}}
	budget := intstr.FromInt32(7)
	service := func(name string) client.Object {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Selector: web, Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	none, roleName := int32(0), "druid.gardener.cloud:etcd:"+name
	return map[string]client.Object{
		"ServiceAccount": &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}},
		"Role": &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: roleName}, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}},
		}},
		"RoleBinding":          &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: roleName}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: roleName}},
		"member Lease":         &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: PodName(name, 0)}},
		"full snapshot Lease":  &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name + "-full-snap"}},
		"delta snapshot Lease": &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name + "-delta-snap"}},
		"ConfigMap":            &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name + "-config"}, Data: map[string]string{"a": "b"}},
		"client Service":       service(name + "-client"),
		"peer Service":         service(name + "-peer"),
		"PodDisruptionBudget": &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &budget, Selector: &metav1.LabelSelector{MatchLabels: web},
		}},
		"StatefulSet": &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
			Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: web}, Template: pod,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
		}},
		"PersistentVolumeClaim": ForeignClaim(name+"-"+PodName(name, 0), web),
	}
}

// ForeignClaim returns a claim that is not an Etcd's.
func ForeignClaim(name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}
