// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// desired is an object as it should be. It carries its own checksum in an annotation: so a later reconcile
// sees, without asking the API server, whether what it would apply is what was applied.
type desired struct {
	*unstructured.Unstructured
	checksum string
}

func newDesired(object runtime.ApplyConfiguration) (desired, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return desired{}, fmt.Errorf("converting a %T: %w", object, err)
	}
	d := desired{Unstructured: &unstructured.Unstructured{Object: content}}
	if d.checksum, err = checksum(d.Object); err != nil {
		return desired{}, fmt.Errorf("encoding %s %s: %w", d.GetKind(), client.ObjectKeyFromObject(d), err)
	}
	annotations := d.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationAppliedChecksum] = d.checksum
	d.SetAnnotations(annotations)
	return d, nil
}

// checksum of an object but for a StatefulSet's update strategy, which has rules of its own.
func checksum(object map[string]any) (string, error) {
	if spec, ok := object["spec"].(map[string]any); ok && spec["updateStrategy"] != nil {
		object, spec = maps.Clone(object), maps.Clone(spec)
		delete(spec, "updateStrategy")
		object["spec"] = spec
	}
	data, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8]), nil
}

// appliedTo tells whether this is what was last applied to the live object.
func (d desired) appliedTo(live client.Object) bool {
	return live != nil && live.GetAnnotations()[v1alpha1.AnnotationAppliedChecksum] == d.checksum
}

// live is an object in the cache, which is only to be read; nil when there is none.
func (r *Reconciler) live(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (client.Object, error) {
	object, err := r.Client.Scheme().New(kind)
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", kind.Kind, err)
	}
	live := object.(client.Object)
	if err := r.Client.Get(ctx, key, live, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, key, err)
	}
	return live, nil
}

// ensure applies an object when it is missing, when something else was applied and changes are due, and when
// somebody changed what was applied. It tells whether it did.
func (r *Reconciler) ensure(ctx context.Context, d desired, live client.Object, due bool) (applied bool, err error) {
	switch {
	case live == nil:
		return true, r.apply(ctx, d, "it is missing")
	case !d.appliedTo(live):
		if !due {
			return false, nil
		}
		return true, r.apply(ctx, d.at(live), "it should be different")
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return false, fmt.Errorf("converting %s %s: %w", d.GetKind(), client.ObjectKeyFromObject(live), err)
	}
	// Objects from a typed cache do not say what they are.
	content["apiVersion"], content["kind"] = d.GetAPIVersion(), d.GetKind()
	if contains(content, d.Object) {
		return false, nil
	}
	return true, r.apply(ctx, d.at(live), "somebody changed it")
}

// at makes a StatefulSet hold only for the live one as it was seen: its update strategy is what was seen.
func (d desired) at(live client.Object) desired {
	if _, ok := live.(*appsv1.StatefulSet); !ok {
		return d
	}
	d.Unstructured = d.DeepCopy()
	d.SetResourceVersion(live.GetResourceVersion())
	return d
}

func (r *Reconciler) apply(ctx context.Context, d desired, why string) error {
	key := client.ObjectKeyFromObject(d)
	err := r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(d.Unstructured), client.ForceOwnership, fieldOwner)
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", d.GetKind(), key, err)
	}
	ctrl.LoggerFrom(ctx).Info("Applied an object", "kind", d.GetKind(), "object", key, "why", why)
	return nil
}
