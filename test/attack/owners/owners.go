// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package owners attacks objects and claims of somebody else.
package owners

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/test/attack/engine"
	"github.com/etcd-foreman/etcd-foreman/test/attack/scene"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Attacks are those on objects of somebody else.
var Attacks = []engine.Attack{
	{Item: 17, What: "name Etcds so that their objects have the names of existing ones", By: scene.Author, Want: "no object changes, no member uses them; ObjectsOwned is False", Try: takeOver},
	{Item: 17, What: "roll out a foreign StatefulSet", By: scene.Operate, Want: "the task ends without success; the pod stays", Try: rollForeign},
}

var shop = map[string]string{"app": "shop"}

// victimsOf returns objects of somebody else. Each has a name that the Etcd with the name of its kind needs.
func victimsOf(t *scene.Tenant) map[string]client.Object {
	at := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: t.Namespace, Name: name, Labels: shop}
	}
	return map[string]client.Object{
		"account": &corev1.ServiceAccount{ObjectMeta: at("account")},
		"service": &corev1.Service{ObjectMeta: at("service-client"), Spec: corev1.ServiceSpec{Selector: shop, Ports: []corev1.ServicePort{{Port: 80}}}},
		"config":  &corev1.ConfigMap{ObjectMeta: at("config-config"), Data: map[string]string{"a": "b"}},
		"role":    &rbacv1.Role{ObjectMeta: at("druid.gardener.cloud:etcd:role"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}},
		"lease":   &coordinationv1.Lease{ObjectMeta: at("lease-0"), Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("shop")}},
		"budget":  &policyv1.PodDisruptionBudget{ObjectMeta: at("budget"), Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: shop}}},
		"set":     foreignSet(t.Namespace, "set"),
	}
}

// foreignSet returns a StatefulSet of somebody else, with a pod.
func foreignSet(namespace, name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: shop}, Spec: appsv1.StatefulSetSpec{
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
	all := scene.Fields{}
	if err := json.Unmarshal(data, &all); err != nil {
		return err.Error()
	}
	delete(all, "status")
	data, _ = json.Marshal(all)
	return string(data)
}

func takeOver(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	a := t.As(scene.Author)
	w := takeover{tenant: t, victims: victimsOf(t), before: map[string]string{}, changed: map[string]bool{}}
	for name, v := range w.victims {
		if err := t.Admin.Create(ctx, v); err != nil {
			return engine.Finding{}, fmt.Errorf("creating the object of somebody else: %w", err)
		}
		w.before[name] = content(v)
		if err := a.Create(ctx, t.Etcd(name, nil)); err != nil {
			return engine.Finding{}, fmt.Errorf("creating Etcd %s: %w", name, err)
		}
	}
	if _, err := scene.Within(ctx, scene.Answer, func(ctx context.Context) (bool, error) {
		err := w.look(ctx)
		return len(w.told) == len(w.victims), err
	}); err != nil {
		return engine.Finding{}, err
	}
	if _, err := scene.Within(ctx, t.Watch, func(ctx context.Context) (bool, error) { return false, w.look(ctx) }); err != nil {
		return engine.Finding{}, err
	}
	return engine.Found(
		fmt.Sprintf("changed: [%s]; pods with the foreign ServiceAccount: [%s]; told of: %d of %d",
			strings.Join(slices.Sorted(maps.Keys(w.changed)), " "), strings.Join(slices.Sorted(slices.Values(w.used)), " "), len(w.told), len(w.victims)),
		len(w.changed) == 0 && len(w.used) == 0 && len(w.told) == len(w.victims),
	), nil
}

// takeover is what is seen of objects of somebody else, by the names of the Etcds that need their names.
type takeover struct {
	tenant  *scene.Tenant
	victims map[string]client.Object
	before  map[string]string
	// changed are those that were different at any time, told the Etcds that say that an object is not theirs.
	changed map[string]bool
	told    []string
	// used are the pods that run with the foreign ServiceAccount.
	used []string
}

func (w *takeover) look(ctx context.Context) error {
	var told, used []string
	for name, v := range w.victims {
		if err := w.tenant.Refresh(ctx, v); err != nil {
			return err
		}
		if content(v) != w.before[name] {
			w.changed[name] = true
		}
		etcd := w.tenant.Etcd(name, nil)
		if err := w.tenant.Refresh(ctx, etcd); err != nil {
			return err
		}
		if owned, _, _ := scene.Condition(etcd, "ObjectsOwned"); owned == "False" {
			told = append(told, name)
		}
	}
	pods := &corev1.PodList{}
	if err := w.tenant.Admin.List(ctx, pods, client.InNamespace(w.tenant.Namespace)); err != nil {
		return err
	}
	for _, p := range pods.Items {
		if p.Spec.ServiceAccountName == "account" {
			used = append(used, p.Name)
		}
	}
	w.told, w.used = told, used
	return nil
}

func rollForeign(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	c := t.As(scene.Operate)
	a := t.As(scene.Author)
	set := foreignSet(t.Namespace, "rolled")
	if err := t.Admin.Create(ctx, set); err != nil {
		return engine.Finding{}, fmt.Errorf("creating the StatefulSet of somebody else: %w", err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: t.Namespace, Name: "rolled-0"}}
	exists := func(ctx context.Context) (bool, error) {
		err := t.Refresh(ctx, pod)
		return err == nil, scene.Ignore(err, apierrors.IsNotFound)
	}
	if err := scene.Until(ctx, scene.Patience, exists); err != nil {
		return engine.Finding{}, fmt.Errorf("waiting for its pod: %w", err)
	}
	if err := a.Create(ctx, t.Etcd("rolled", nil)); err != nil {
		return engine.Finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	task := t.Task("roll", "QuorumAwareRollout", "rolled", scene.Fields{"config": "restart: true"})
	if err := c.Create(ctx, task); err != nil {
		return engine.Finding{}, fmt.Errorf("creating a task: %w", err)
	}
	said, over, err := t.End(ctx, task, scene.Answer)
	if err != nil {
		return engine.Finding{}, err
	}
	uid := pod.UID
	err = t.Refresh(ctx, pod)
	kept := err == nil && pod.UID == uid && pod.DeletionTimestamp == nil
	return engine.Found(fmt.Sprintf("%s; its pod is kept: %t", said, kept), kept && over && scene.State(task) != "Succeeded"), scene.Ignore(err, apierrors.IsNotFound)
}

// Claims are attacks on claims of somebody else.
var Claims = []engine.Attack{
	{Item: 18, What: "name an Etcd and its volumeClaimTemplate so that a claim of another StatefulSet fits", By: scene.Author, Want: "the claim does not grow, no member mounts it, hibernation keeps it", Try: takeClaim},
}

func takeClaim(ctx context.Context, t *scene.Tenant) (engine.Finding, error) {
	a := t.As(scene.Author)
	w := claimed{tenant: t, claim: foreignClaim(t.Namespace)}
	if err := t.Admin.Create(ctx, w.claim); err != nil {
		return engine.Finding{}, fmt.Errorf("creating the claim of somebody else: %w", err)
	}
	retention := scene.Fields{"whenDeleted": "Delete", "whenScaled": "Delete"}
	w.etcd = t.Etcd("app", scene.Fields{
		"replicas": int64(3), "storageCapacity": "1Gi", "volumeClaimTemplate": "data-my", "persistentVolumeClaimRetentionPolicy": retention,
		"backup": scene.Fields{"store": scene.Fields{"provider": "Local", "container": "backups"}},
	})
	if err := a.Create(ctx, w.etcd); err != nil {
		return engine.Finding{}, fmt.Errorf("creating an Etcd: %w", err)
	}
	if _, err := scene.Within(ctx, t.Watch, w.look); err != nil {
		return engine.Finding{}, err
	}
	for _, patch := range []string{`{"spec":{"storageCapacity":"2Gi"}}`, `{"spec":{"replicas":0}}`} {
		if err := scene.Change(ctx, a, w.etcd, patch); err != nil {
			return engine.Finding{}, fmt.Errorf("changing the Etcd: %w", err)
		}
		if _, err := scene.Within(ctx, t.Watch, w.look); err != nil {
			return engine.Finding{}, err
		}
	}
	if len(w.done) == 0 {
		return engine.Held("untouched"), nil
	}
	return engine.Broken("%s", strings.Join(w.done, ", ")), nil
}

// foreignClaim is the claim of member 1 of StatefulSet my-app, whose template is called data.
func foreignClaim(namespace string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "data-my-app-1", Labels: shop},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// claimed is what was done to a claim of somebody else.
type claimed struct {
	tenant *scene.Tenant
	claim  *corev1.PersistentVolumeClaim
	etcd   *unstructured.Unstructured
	done   []string
}

func (w *claimed) note(what string) {
	if !slices.Contains(w.done, what) {
		w.done = append(w.done, what)
	}
}

func (w *claimed) look(ctx context.Context) (bool, error) {
	err := w.tenant.Refresh(ctx, w.claim)
	switch {
	case apierrors.IsNotFound(err) || err == nil && w.claim.DeletionTimestamp != nil:
		w.note("deleted")
	case err != nil:
		return false, err
	case w.claim.Spec.Resources.Requests.Storage().Cmp(resource.MustParse("1Gi")) > 0:
		w.note("grown")
	case len(w.claim.OwnerReferences) > 0:
		w.note("owned by " + w.claim.OwnerReferences[0].Kind)
	}
	pods := &corev1.PodList{}
	if err := w.tenant.Admin.List(ctx, pods, client.InNamespace(w.tenant.Namespace)); err != nil {
		return false, err
	}
	for _, p := range pods.Items {
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == w.claim.Name {
				w.note("mounted by " + p.Name)
			}
		}
	}
	if err := w.tenant.Refresh(ctx, w.etcd); err != nil {
		return false, err
	}
	recorded, _ := json.Marshal(w.etcd.Object["status"])
	if strings.Contains(string(recorded), string(w.claim.UID)) && strings.Contains(string(recorded), `"hibernation"`) {
		w.note("recorded for deletion")
	}
	return false, nil
}
