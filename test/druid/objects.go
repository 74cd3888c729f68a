// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package druid

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

//go:embed testdata/objects.yaml
var objects []byte

// done removes the annotation that asked for the reconciliation.
func (d Druid) done(ctx context.Context) error {
	etcd := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd}}
	etcd.SetNamespace(d.Etcd.GetNamespace())
	etcd.SetName(d.Etcd.GetName())
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, v1alpha1.AnnotationGardenerOperation)
	if err := d.Client.Patch(ctx, etcd, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("removing the operation annotation of Etcd %s: %w", client.ObjectKeyFromObject(d.Etcd), err)
	}
	return nil
}

// Finish removes the finalizer of etcd-druid, as it does when an Etcd that is being deleted has no objects any more.
func (d Druid) Finish(ctx context.Context) error { return d.finalize(ctx, false) }

// finalize adds the finalizer to the Etcd, or removes it.
func (d Druid) finalize(ctx context.Context, add bool) error {
	etcd := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindEtcd}}
	if err := d.Client.Get(ctx, client.ObjectKeyFromObject(d.Etcd), etcd); !add && apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading Etcd %s: %w", client.ObjectKeyFromObject(d.Etcd), err)
	}
	before, change := etcd.DeepCopy(), controllerutil.RemoveFinalizer
	if add {
		change = controllerutil.AddFinalizer
	}
	if !change(etcd, v1alpha1.FinalizerDruid) {
		return nil
	}
	if err := d.Client.Patch(ctx, etcd, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("writing the finalizers of Etcd %s: %w", client.ObjectKeyFromObject(d.Etcd), err)
	}
	return nil
}

// objects are those beside the StatefulSet.
func (d Druid) objects() (all []*unstructured.Unstructured, err error) {
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(bytes.ReplaceAll(objects, []byte("$NAMESPACE"), []byte(d.Etcd.GetNamespace()))), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := documents.Decode(&u.Object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("decoding the objects of an Etcd: %w", err)
		}
		labels := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByDruid, v1alpha1.LabelPartOf: Name, v1alpha1.LabelName: strings.ReplaceAll(u.GetName(), ":", "-")}
		maps.Copy(labels, u.GetLabels())
		u.SetNamespace(d.Etcd.GetNamespace())
		u.SetLabels(labels)
		u.SetOwnerReferences(d.owner())
		all = append(all, u)
	}
}

// write creates an object, or patches what etcd-druid writes of it. Of the annotations it writes those of the client Service alone.
func (d Druid) write(ctx context.Context, object *unstructured.Unstructured) error {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(object.GroupVersionKind())
	if err := d.Client.Get(ctx, client.ObjectKeyFromObject(object), found); apierrors.IsNotFound(err) {
		return d.Client.Create(ctx, object)
	} else if err != nil {
		return err
	}
	patch := object.DeepCopy()
	if object.GetName() == Name+"-client" {
		_ = unstructured.SetNestedField(patch.Object, nil, "metadata", "annotations")
	}
	content, err := json.Marshal(patch.Object)
	if err != nil {
		return err
	}
	return d.Client.Patch(ctx, found, client.RawPatch(types.MergePatchType, content))
}

func (d Druid) owner() []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(d.Etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))}
}

// clientTLS reports whether the members serve clients with TLS.
func (d Druid) clientTLS() bool {
	_, found, _ := unstructured.NestedMap(d.content(), "spec", "etcd", "clientUrlTls")
	return found
}

// text is that of a field of the Etcd.
func (d Druid) text(otherwise string, path ...string) string {
	if value, found, _ := unstructured.NestedString(d.content(), path...); found {
		return value
	}
	return otherwise
}

func (d Druid) content() map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d.Etcd)
	if err != nil {
		panic(err) // an Etcd is an object
	}
	return content
}
