// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Users cannot give an object the operator's label, which would keep it in the operator's memory, and make a claim that of an Etcd.
func TestTheLabelIsReserved(t *testing.T) {
	w := newWorld(t)
	user := w.user("admin", "admin")
	labeled := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: w.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"}}
	}
	const refusal = "the label app.kubernetes.io/managed-by: etcd-foreman is reserved for the operator"
	// The API server compiles policies in the background.
	w.Eventually(func() error {
		return user.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: labeled("probe")}, client.DryRunAll)
	}).
		Should(MatchError(ContainSubstring(refusal)))
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: labeled("data-main-3"), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	for _, object := range []client.Object{
		claim.DeepCopy(), &corev1.Pod{ObjectMeta: labeled("a"), Spec: template.Spec}, &corev1.ServiceAccount{ObjectMeta: labeled("a")},
		&corev1.Service{ObjectMeta: labeled("a"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}},
		&appsv1.StatefulSet{ObjectMeta: labeled("a"), Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: template}},
	} {
		w.Expect(user.Create(t.Context(), object)).To(MatchError(ContainSubstring(refusal)), "%T", object)
	}

	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "own"}}
	w.Expect(user.Create(t.Context(), own)).To(Succeed())
	own.Labels = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
	w.Expect(user.Update(t.Context(), own)).To(MatchError(ContainSubstring(refusal)))
	own.Labels[v1alpha1.LabelManagedBy] = "helm"
	w.Expect(user.Update(t.Context(), own)).To(Succeed())

	// What has the label can still be changed, and those who make such objects can make them.
	operator := as(w, testEnv.AsOperator())
	theirs := &corev1.ConfigMap{ObjectMeta: labeled("main-config")}
	theirs.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Etcd", Name: "main", UID: "e", Controller: ptr.To(true)}}
	w.Expect(operator.Create(t.Context(), theirs)).To(Succeed())
	theirs.Annotations = map[string]string{"note": "x"}
	w.Expect(user.Update(t.Context(), theirs)).To(Succeed())
	kubernetes := rest.CopyConfig(testEnv.Config)
	kubernetes.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:statefulset-controller", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}}
	w.Expect(as(w, kubernetes).Create(t.Context(), claim.DeepCopy(), client.DryRunAll)).To(Succeed())
	w.Expect(testEnv.Client.Create(t.Context(), claim.DeepCopy(), client.DryRunAll)).To(Succeed(), "an administrator")
}

func as(w *world, config *rest.Config) client.Client {
	c, err := client.New(config, client.Options{Scheme: testEnv.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	return c
}
