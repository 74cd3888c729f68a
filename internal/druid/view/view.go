// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package view is how an operator in executor mode sees Etcds that etcd-druid owns, under the CRD of etcd-druid: the few
// fields that tasks need, and of its status what the fleet's policies judge a change by. No task decides by that. A field of another
// type elsewhere in such an Etcd, today or in a later version of the CRD, does not keep the operator from reading it.
package view

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fields are what is kept of an Etcd. Images are not: those of etcd-druid are not the agent's.
var fields = [][]string{
	{"metadata", "name"},
	{"metadata", "namespace"},
	{"metadata", "uid"},
	{"metadata", "resourceVersion"},
	{"metadata", "generation"},
	{"metadata", "creationTimestamp"},
	{"metadata", "deletionTimestamp"},
	{"metadata", "labels"},
	{"metadata", "annotations", v1alpha1.AnnotationRollout},
	{"spec", "replicas"},
	{"spec", "memberNamePrefix"},
	{"spec", "etcd", "clientUrlTls"},
	{"spec", "etcd", "quota"},
	{"spec", "etcd", "resources"},
	{"spec", "etcd", "etcdDefragTimeout"},
	{"spec", "backup", "port"},
	{"spec", "backup", "tls"},
	{"spec", "backup", "store"},
	{"spec", "backup", "compression"},
	{"spec", "backup", "snapshotCompaction", "resources"},
}

// New returns an empty Etcd as the API server sends it.
func New() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))
	return u
}

// Trim returns what is kept of an Etcd, for a cache.
func Trim(u *unstructured.Unstructured) *unstructured.Unstructured {
	kept := New()
	for _, path := range fields {
		if value, found, err := unstructured.NestedFieldNoCopy(u.Object, path...); found && err == nil {
			// It fails only where a parent is no object, which is none that was written here.
			_ = unstructured.SetNestedField(kept.Object, runtime.DeepCopyJSONValue(value), path...)
		}
	}
	for field, trim := range map[string]func(map[string]any) map[string]any{"conditions": condition, "members": member} {
		if trimmed := list(u, field, trim); len(trimmed) > 0 {
			_ = unstructured.SetNestedSlice(kept.Object, trimmed, "status", field)
		}
	}
	return kept
}

// maxEntries bounds the lists of a status, and maxMessage a text, in bytes.
const maxEntries, maxMessage = 20, 1024

// list returns what is kept of a list in the status: what is no entry of it is left out.
func list(u *unstructured.Unstructured, field string, trim func(map[string]any) map[string]any) (all []any) {
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", field)
	entries, _ := value.([]any)
	for _, entry := range entries[:min(len(entries), maxEntries)] {
		if o, ok := entry.(map[string]any); ok {
			if kept := trim(o); kept != nil {
				all = append(all, kept)
			}
		}
	}
	return all
}

// condition returns what is kept of a condition of etcd-druid; nil for one that is not read. A status that is neither True nor False says
// nothing.
func condition(o map[string]any) map[string]any {
	of, _ := o["type"].(string)
	if of != v1alpha1.ConditionReady && of != v1alpha1.ConditionAllMembersReady && of != v1alpha1.ConditionBackupReady {
		return nil
	}
	kept := map[string]any{"type": of, "status": string(metav1.ConditionUnknown)}
	if o["status"] == string(metav1.ConditionTrue) || o["status"] == string(metav1.ConditionFalse) {
		kept["status"] = o["status"]
	}
	for _, field := range []string{"reason", "message"} {
		if text, ok := o[field].(string); ok {
			kept[field] = sanitize.Text(text, maxMessage)
		}
	}
	if at, ok := o["lastTransitionTime"].(string); ok {
		if _, err := time.Parse(time.RFC3339, at); err == nil {
			kept["lastTransitionTime"] = at
		}
	}
	return kept
}

// member returns the name of a member: that there are any tells a cluster that lacks one from a new one.
func member(o map[string]any) map[string]any {
	if name, ok := o["name"].(string); ok {
		return map[string]any{"name": sanitize.Text(name, maxMessage)}
	}
	return nil
}

// decode reads into an Etcd what is kept of it.
func decode(u *unstructured.Unstructured, into *v1alpha1.Etcd) error {
	var etcd v1alpha1.Etcd
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(Trim(u).Object, &etcd); err != nil {
		return fmt.Errorf("decoding Etcd %s: %w", client.ObjectKeyFromObject(u), err)
	}
	*into = etcd
	return nil
}

// Reader reads Etcds as this package sees them, and all else as it is.
type Reader struct{ client.Reader }

// Get implements client.Reader.
func (r Reader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	etcd, ok := object.(*v1alpha1.Etcd)
	if !ok {
		return r.Reader.Get(ctx, key, object, options...)
	}
	u := New()
	if err := r.Reader.Get(ctx, key, u, options...); err != nil {
		return err
	}
	return decode(u, etcd)
}

// List implements client.Reader. It fails if one of the Etcds cannot be read: what is not listed may matter.
func (r Reader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	etcds, ok := list.(*v1alpha1.EtcdList)
	if !ok {
		return r.Reader.List(ctx, list, options...)
	}
	all := &unstructured.UnstructuredList{}
	all.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd + "List"))
	if err := r.Reader.List(ctx, all, options...); err != nil {
		return err
	}
	etcds.ResourceVersion, etcds.Continue = all.GetResourceVersion(), all.GetContinue()
	etcds.Items = make([]v1alpha1.Etcd, len(all.Items))
	for i := range all.Items {
		if err := decode(&all.Items[i], &etcds.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// Cache is a cache that holds Etcds as this package sees them. Handlers of their events get them without a type.
type Cache struct{ cache.Cache }

// Get implements client.Reader.
func (c Cache) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	return Reader{c.Cache}.Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (c Cache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	return Reader{c.Cache}.List(ctx, list, options...)
}

// GetInformer implements cache.Informers.
func (c Cache) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := object.(*v1alpha1.Etcd); ok {
		object = New()
	}
	return c.Cache.GetInformer(ctx, object, options...)
}
