// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var ownerAttacks = []attack{
	{17, "name Etcds so that their objects have the names of existing ones", author, "no object changes, no member uses them; ObjectsOwned is False", takeOver},
	{17, "roll out a foreign StatefulSet", operate, "the task ends without success; the pod stays", rollForeign},
}

var shop = map[string]string{"app": "shop"}

// victims are objects of somebody else. Each has a name that the Etcd with the name of its kind needs.
func (t *tenant) victims() map[string]client.Object {
	at := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: t.namespace, Name: name, Labels: shop}
	}
	return map[string]client.Object{
		"account": &corev1.ServiceAccount{ObjectMeta: at("account")},
		"service": &corev1.Service{ObjectMeta: at("service-client"), Spec: corev1.ServiceSpec{Selector: shop, Ports: []corev1.ServicePort{{Port: 80}}}},
		"config":  &corev1.ConfigMap{ObjectMeta: at("config-config"), Data: map[string]string{"a": "b"}},
		"role":    &rbacv1.Role{ObjectMeta: at("druid.gardener.cloud:etcd:role"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}},
		"lease":   &coordinationv1.Lease{ObjectMeta: at("lease-0"), Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("shop")}},
		"budget":  &policyv1.PodDisruptionBudget{ObjectMeta: at("budget"), Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: shop}}},
		"set":     t.foreignSet("set"),
	}
}

// foreignSet returns a StatefulSet of somebody else, with a pod.
func (t *tenant) foreignSet(name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: name, Labels: shop}, Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "pause", Image: "localhost/pause:dev", ImagePullPolicy: corev1.PullIfNotPresent}},
		}},
	}}
}

// content is what somebody else has written into an object.
func content(o client.Object) string {
	o = o.DeepCopyObject().(client.Object)
	o.SetManagedFields(nil)
	o.SetResourceVersion("")
	o.SetGeneration(0)
	data, err := json.Marshal(o)
	if err != nil {
		return err.Error()
	}
	all := fields{}
	if err := json.Unmarshal(data, &all); err != nil {
		return err.Error()
	}
	delete(all, "status")
	data, _ = json.Marshal(all)
	return string(data)
}

func takeOver(ctx context.Context, t *tenant) (finding, error) {
	a, err := t.as(ctx, author)
	if err != nil {
		return finding{}, err
	}
	victims, before, changed := t.victims(), map[string]string{}, map[string]bool{}
	for name, v := range victims {
		if err := t.admin.Create(ctx, v); err != nil {
			return finding{}, fmt.Errorf("creating the object of somebody else: %w", err)
		}
		before[name] = content(v)
		if err := a.Create(ctx, t.etcd(name, nil)); err != nil {
			return finding{}, fmt.Errorf("creating Etcd %s: %w", name, err)
		}
	}
	var told, used []string
	look := func(ctx context.Context) error {
		var toldNow, usedNow []string
		for name, v := range victims {
			if err := t.refresh(ctx, v); err != nil {
				return err
			}
			changed[name] = changed[name] || content(v) != before[name]
			etcd := t.etcd(name, nil)
			if err := t.refresh(ctx, etcd); err != nil {
				return err
			}
			if owned, _, _ := condition(etcd, "ObjectsOwned"); owned == "False" {
				toldNow = append(toldNow, name)
			}
		}
		pods := &corev1.PodList{}
		if err := t.admin.List(ctx, pods, client.InNamespace(t.namespace)); err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.Spec.ServiceAccountName == "account" {
				usedNow = append(usedNow, p.Name)
			}
		}
		told, used = toldNow, usedNow
		return nil
	}
	if _, err := within(ctx, answer, func(ctx context.Context) (bool, error) {
		err := look(ctx)
		return len(told) == len(victims), err
	}); err != nil {
		return finding{}, err
	}
	if _, err := within(ctx, t.watch, func(ctx context.Context) (bool, error) { return false, look(ctx) }); err != nil {
		return finding{}, err
	}
	var taken []string
	for name, is := range changed {
		if is {
			taken = append(taken, name)
		}
	}
	return finding{
		fmt.Sprintf("changed: [%s]; pods with the foreign ServiceAccount: [%s]; told of: %d of %d",
			strings.Join(sorted(taken), " "), strings.Join(sorted(used), " "), len(told), len(victims)),
		len(taken) == 0 && len(used) == 0 && len(told) == len(victims),
	}, nil
}

func rollForeign(ctx context.Context, t *tenant) (finding, error) {
	c, err := t.as(ctx, operate)
	if err != nil {
		return finding{}, err
	}
	a, err := t.as(ctx, author)
	if err != nil {
		return finding{}, err
	}
	set := t.foreignSet("rolled")
	if err := t.admin.Create(ctx, set); err != nil {
		return finding{}, fmt.Errorf("creating the StatefulSet of somebody else: %w", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "rolled-0"}}
	exists := func(ctx context.Context) (bool, error) {
		err := t.refresh(ctx, pod)
		return err == nil, ignore(err, apierrors.IsNotFound)
	}
	if err := until(ctx, patience, exists); err != nil {
		return finding{}, fmt.Errorf("waiting for its pod: %w", err)
	}
	if err := a.Create(ctx, t.etcd("rolled", nil)); err != nil {
		return finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	task := t.task("roll", "QuorumAwareRollout", "rolled", fields{"config": "restart: true"})
	if err := c.Create(ctx, task); err != nil {
		return finding{}, fmt.Errorf("creating a task: %w", err)
	}
	said, over, err := t.end(ctx, task, answer)
	if err != nil {
		return finding{}, err
	}
	uid := pod.UID
	err = t.refresh(ctx, pod)
	kept := err == nil && pod.UID == uid && pod.DeletionTimestamp == nil
	return finding{fmt.Sprintf("%s; its pod is kept: %t", said, kept), kept && over && state(task) != "Succeeded"}, ignore(err, apierrors.IsNotFound)
}

var claimAttacks = []attack{
	{18, "name an Etcd and its volumeClaimTemplate so that a claim of another StatefulSet fits", author, "the claim does not grow, no member mounts it, hibernation keeps it", takeClaim},
}

func takeClaim(ctx context.Context, t *tenant) (finding, error) {
	a, err := t.as(ctx, author)
	if err != nil {
		return finding{}, err
	}
	// The claim of member 1 of StatefulSet my-app, whose template is called data.
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: t.namespace, Name: "data-my-app-1", Labels: shop},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	if err := t.admin.Create(ctx, claim); err != nil {
		return finding{}, fmt.Errorf("creating the claim of somebody else: %w", err)
	}
	retention := fields{"whenDeleted": "Delete", "whenScaled": "Delete"}
	etcd := t.etcd("app", fields{
		"replicas": int64(3), "storageCapacity": "1Gi", "volumeClaimTemplate": "data-my", "persistentVolumeClaimRetentionPolicy": retention,
		"backup": fields{"store": fields{"provider": "Local", "container": "backups"}},
	})
	if err := a.Create(ctx, etcd); err != nil {
		return finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	var done []string
	note := func(what string) {
		if !slices.Contains(done, what) {
			done = append(done, what)
		}
	}
	look := func(ctx context.Context) (bool, error) {
		err := t.refresh(ctx, claim)
		switch {
		case apierrors.IsNotFound(err) || err == nil && claim.DeletionTimestamp != nil:
			note("deleted")
		case err != nil:
			return false, err
		case claim.Spec.Resources.Requests.Storage().Cmp(resource.MustParse("1Gi")) > 0:
			note("grown")
		case len(claim.OwnerReferences) > 0:
			note("owned by " + claim.OwnerReferences[0].Kind)
		}
		pods := &corev1.PodList{}
		if err := t.admin.List(ctx, pods, client.InNamespace(t.namespace)); err != nil {
			return false, err
		}
		for _, p := range pods.Items {
			for _, v := range p.Spec.Volumes {
				if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name {
					note("mounted by " + p.Name)
				}
			}
		}
		if err := t.refresh(ctx, etcd); err != nil {
			return false, err
		}
		recorded, _ := json.Marshal(etcd.Object["status"])
		if strings.Contains(string(recorded), string(claim.UID)) && strings.Contains(string(recorded), `"hibernation"`) {
			note("recorded for deletion")
		}
		return false, nil
	}
	if _, err := within(ctx, t.watch, look); err != nil {
		return finding{}, err
	}
	for _, patch := range []string{`{"spec":{"storageCapacity":"2Gi"}}`, `{"spec":{"replicas":0}}`} {
		if err := change(ctx, a, etcd, patch); err != nil {
			return finding{}, fmt.Errorf("changing the Etcd: %w", err)
		}
		if _, err := within(ctx, t.watch, look); err != nil {
			return finding{}, err
		}
	}
	if len(done) == 0 {
		return held("untouched"), nil
	}
	return broken("%s", strings.Join(done, ", ")), nil
}
