// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Desired is an object to apply. An annotation records its checksum, so a later reconcile sees in the cache whether it was already applied.
type Desired struct {
	*unstructured.Unstructured
	checksum string
	// instructions are added to a ConfigMap that is created for a cluster that has served: its members read them there, and they are not
	// applied.
	instructions map[string]string
	// own: the cache shows an object of the Etcd; unchanged: and nothing of it is to be written.
	own, unchanged bool
}

// Render makes a Desired of an apply configuration, with annotations that all objects of the Etcd have.
func Render(object runtime.ApplyConfiguration, common map[string]string) (Desired, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return Desired{}, fmt.Errorf("converting a %T: %w", object, err)
	}
	d := Desired{Unstructured: &unstructured.Unstructured{Object: content}}
	annotations := d.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if len(common) > 0 {
		maps.Copy(annotations, common)
		d.SetAnnotations(annotations)
	}
	if d.checksum, err = checksum(d.Object); err != nil {
		return Desired{}, fmt.Errorf("encoding %s %s: %w", d.GetKind(), client.ObjectKeyFromObject(d), err)
	}
	annotations[v1alpha1.AnnotationAppliedChecksum] = d.checksum
	d.SetAnnotations(annotations)
	return d, nil
}

// checksum of an object without the update strategy of a StatefulSet, which package strategy changes.
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

// key of the object.
func (d Desired) key() component.Key {
	return component.Key{Kind: d.GroupVersionKind(), Name: d.GetName()}
}

// appliedTo reports whether this is what was last applied to an object.
func (d Desired) appliedTo(object client.Object) bool {
	return object != nil && object.GetAnnotations()[v1alpha1.AnnotationAppliedChecksum] == d.checksum
}

// differs returns why an object has to be written: it is missing, changes of the spec are due, or what was applied has been changed. It is
// empty if there is nothing to write, or not yet.
func (d Desired) differs(object client.Object, due bool) (why string, err error) {
	switch {
	case object == nil:
		return "it is missing", nil
	case !d.appliedTo(object) && due:
		return "it should be different", nil
	case !d.appliedTo(object):
		return "", nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return "", fmt.Errorf("converting %s %s: %w", d.GetKind(), client.ObjectKeyFromObject(object), err)
	}
	// Objects from a typed client have no apiVersion and kind.
	content["apiVersion"], content["kind"] = d.GetAPIVersion(), d.GetKind()
	if Contains(content, d.Object) {
		return "", nil
	}
	return "it was changed", nil
}

// Contains reports whether a live JSON value has everything that a desired one has. It ignores what the API server or another client has
// added: fields of an object, and items in a list of objects, as long as the desired items keep their order. Unlike
// equality.DeepDerivative, it also compares a desired false or 0.
func Contains(live, desired any) bool {
	switch d := desired.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			// The API server drops empty objects.
			return live == nil && len(d) == 0
		}
		for key, value := range d {
			if !Contains(l[key], value) {
				return false
			}
		}
		return true
	case []any:
		l, _ := live.([]any)
		if len(d) > 0 {
			if _, object := d[0].(map[string]any); object {
				return containsInOrder(l, d)
			}
		}
		return equality.Semantic.DeepEqual(l, d)
	default:
		return equality.Semantic.DeepEqual(live, desired)
	}
}

func containsInOrder(live, desired []any) bool {
	for _, l := range live {
		if len(desired) == 0 {
			break
		}
		if Contains(l, desired[0]) {
			desired = desired[1:]
		}
	}
	return len(desired) == 0
}
