// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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
	w.Expect(as(w, asKubernetes("statefulset-controller")).Create(t.Context(), claim.DeepCopy(), client.DryRunAll)).To(Succeed())
	w.Expect(testEnv.Client.Create(t.Context(), claim.DeepCopy(), client.DryRunAll)).To(Succeed(), "an administrator")
}

// The controllers of Kubernetes give the label to pods and claims if a template carries it: users cannot make or change such
// a template, nor give claims the other label by which one is an Etcd's own.
func TestTheLabelIsReservedInTemplates(t *testing.T) {
	w := newWorld(t)
	user, kubernetes := w.user("admin", "admin"), as(w, asKubernetes("statefulset-controller"))
	named := func() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: w.Namespace, GenerateName: "a-"} }
	selected := map[string]string{"a": "b"}
	reserved := map[string]string{"a": "b", v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"}
	claim := func(labels map[string]string) corev1.PersistentVolumeClaim {
		return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "main", Labels: labels}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}}
	}
	// What a controller makes: pods with labels, or with claims that have them, or claims beside pods.
	template := func(labels, ofClaims map[string]string) corev1.PodTemplateSpec {
		c := claim(ofClaims)
		return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i"}},
			Volumes: []corev1.Volume{{Name: "other", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, {Name: "main-0", VolumeSource: corev1.VolumeSource{
				Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Labels: c.Labels}, Spec: c.Spec}},
			}}},
		}}
	}
	selector := &metav1.LabelSelector{MatchLabels: selected}
	once := func(labels, ofClaims map[string]string) corev1.PodTemplateSpec {
		t := template(labels, ofClaims)
		t.Spec.RestartPolicy = corev1.RestartPolicyNever
		return t
	}
	kinds := map[string]func(labels, ofClaims map[string]string) client.Object{
		"Pod": func(_, ofClaims map[string]string) client.Object {
			return &corev1.Pod{ObjectMeta: named(), Spec: template(nil, ofClaims).Spec}
		},
		"ReplicationController": func(labels, ofClaims map[string]string) client.Object {
			t := template(labels, ofClaims)
			return &corev1.ReplicationController{ObjectMeta: named(), Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To[int32](0), Selector: selected, Template: &t}}
		},
		"DaemonSet": func(labels, ofClaims map[string]string) client.Object {
			return &appsv1.DaemonSet{ObjectMeta: named(), Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template(labels, ofClaims)}}
		},
		"Deployment": func(labels, ofClaims map[string]string) client.Object {
			return &appsv1.Deployment{ObjectMeta: named(), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0), Selector: selector, Template: template(labels, ofClaims)}}
		},
		"ReplicaSet": func(labels, ofClaims map[string]string) client.Object {
			return &appsv1.ReplicaSet{ObjectMeta: named(), Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](0), Selector: selector, Template: template(labels, ofClaims)}}
		},
		"StatefulSet": func(labels, ofClaims map[string]string) client.Object {
			return &appsv1.StatefulSet{ObjectMeta: named(), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](0), Selector: selector, Template: template(labels, ofClaims)}}
		},
		"StatefulSet with claims": func(_, ofClaims map[string]string) client.Object {
			return &appsv1.StatefulSet{ObjectMeta: named(), Spec: appsv1.StatefulSetSpec{
				Replicas: ptr.To[int32](0), Selector: selector, Template: template(selected, nil), VolumeClaimTemplates: []corev1.PersistentVolumeClaim{claim(ofClaims)},
			}}
		},
		"Job": func(labels, ofClaims map[string]string) client.Object {
			return &batchv1.Job{ObjectMeta: named(), Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: once(labels, ofClaims)}}
		},
		"CronJob": func(labels, ofClaims map[string]string) client.Object {
			return &batchv1.CronJob{ObjectMeta: named(), Spec: batchv1.CronJobSpec{
				Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once(labels, ofClaims)}},
			}}
		},
	}
	const refusal = "which is reserved for the operator"
	w.Eventually(func() error { return user.Create(t.Context(), kinds["Pod"](nil, reserved), client.DryRunAll) }).Should(MatchError(ContainSubstring(refusal)))
	another := map[string]string{"a": "b", v1alpha1.LabelCreatedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: "main"}
	for kind, make := range kinds {
		for _, labels := range []map[string]string{reserved, another} {
			if kind != "Pod" && kind != "StatefulSet with claims" {
				w.Expect(user.Create(t.Context(), make(labels, nil), client.DryRunAll)).To(MatchError(ContainSubstring(refusal)), kind)
			}
			w.Expect(user.Create(t.Context(), make(selected, labels), client.DryRunAll)).To(MatchError(ContainSubstring(refusal)), kind)
			w.Expect(fmt.Sprint(kubernetes.Create(t.Context(), make(selected, labels), client.DryRunAll))).NotTo(ContainSubstring(refusal), kind)
		}
		w.Expect(user.Create(t.Context(), make(selected, selected), client.DryRunAll)).To(Succeed(), kind)
		w.Expect(testEnv.Client.Create(t.Context(), make(selected, reserved), client.DryRunAll)).To(Succeed(), kind)
	}

	// A template gets the label by a change, too, and one that has it can be changed otherwise.
	deployment := kinds["Deployment"](selected, nil).(*appsv1.Deployment)
	w.Expect(user.Create(t.Context(), deployment)).To(Succeed())
	deployment.Spec.Template.Labels = reserved
	w.Expect(user.Update(t.Context(), deployment)).To(MatchError(ContainSubstring(refusal)))
	w.Expect(testEnv.Client.Update(t.Context(), deployment)).To(Succeed())
	w.Eventually(func() error {
		w.Expect(user.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		deployment.Spec.Template.Annotations = map[string]string{"note": "x"}
		return user.Update(t.Context(), deployment)
	}).Should(Succeed())

	planted := claim(another)
	planted.Namespace, planted.Name = w.Namespace, "main-main-0"
	w.Expect(user.Create(t.Context(), planted.DeepCopy())).To(MatchError(ContainSubstring("app.kubernetes.io/created-by: etcd-foreman of claims is reserved")))
	w.Expect(kubernetes.Create(t.Context(), planted.DeepCopy(), client.DryRunAll)).To(Succeed())
	planted.Labels = selected
	w.Expect(user.Create(t.Context(), &planted)).To(Succeed())
	planted.Labels = another
	w.Expect(user.Update(t.Context(), &planted)).To(MatchError(ContainSubstring("is reserved")))
}

// asKubernetes returns a Config of a controller of Kubernetes.
func asKubernetes(controller string) *rest.Config {
	c := rest.CopyConfig(testEnv.Config)
	c.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:" + controller, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:kube-system"}}
	return c
}

func as(w *world, config *rest.Config) client.Client {
	c, err := client.New(config, client.Options{Scheme: testEnv.Scheme})
	w.Expect(err).NotTo(HaveOccurred())
	return c
}
