// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Manager is the field manager of what is applied, and of what the Etcd controller patches.
const Manager = client.FieldOwner("etcd-foreman")

// creator is the field manager of what is created, until it is first applied. The API server lists its fields as those of an update, which
// no apply removes. Patched fields stay with Manager; the instructions in the ConfigMap are applied unchanged.
const creator = client.FieldOwner("etcd-foreman-create")

// errForeign: a foreign object has appeared, which the Proof names.
var errForeign = errors.New("an object that is not the Etcd's own has appeared")

// put writes an object, given a Proof without foreign ones: it creates the object, or applies it to the existing one. It returns a conflict
// if the object has changed since.
func (w Writer) put(ctx context.Context, etcd *v1alpha1.Etcd, p *Proof, d Desired, why string) error {
	live := p.Objects[d.key()]
	var err error
	if live == nil {
		err = w.create(ctx, etcd, p, d)
	} else {
		err = w.apply(ctx, d, live)
	}
	if errors.Is(err, errForeign) {
		return err
	}
	if err != nil {
		return fmt.Errorf("applying %s %s: %w", d.GetKind(), client.ObjectKeyFromObject(d), err)
	}
	ctrl.LoggerFrom(ctx).Info("Applied an object", "kind", d.GetKind(), "object", client.ObjectKeyFromObject(d), "why", why)
	return nil
}

// create creates an object. If one of that name exists by now, it checks the owner. A ConfigMap is created with its instructions: members
// that read it without them would conclude that there are none.
func (w Writer) create(ctx context.Context, etcd *v1alpha1.Etcd, p *Proof, d Desired) error {
	object := d.DeepCopy()
	if err := instruct(object, d.instructions); err != nil {
		return err
	}
	err := w.Client.Create(ctx, object, creator)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if err := w.proveOne(ctx, etcd, p, d.key()); err != nil {
		return err
	}
	if !p.owned() {
		return errForeign
	}
	return conflict(d.key(), "it was just created")
}

// instruct adds instructions to the data of an object.
func instruct(object *unstructured.Unstructured, instructions map[string]string) error {
	for key, value := range instructions {
		if err := unstructured.SetNestedField(object.Object, value, "data", key); err != nil {
			return fmt.Errorf("adding instructions: %w", err)
		}
	}
	return nil
}

// apply applies to an object as it was read, and to no other of that name. The instructions in a ConfigMap stay, including those of a newer
// operator.
func (w Writer) apply(ctx context.Context, d Desired, live client.Object) error {
	live, err := w.release(ctx, live)
	if err != nil {
		return gone(d.key(), err)
	}
	next := d.DeepCopy()
	if config, ok := live.(*corev1.ConfigMap); ok {
		instructions := maps.Clone(config.Data)
		maps.DeleteFunc(instructions, func(key, _ string) bool { return slices.Contains(member.AppliedKeys, key) })
		if err := instruct(next, instructions); err != nil {
			return err
		}
	}
	next.SetUID(live.GetUID())
	next.SetResourceVersion(live.GetResourceVersion())
	return gone(d.key(), w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(next), client.ForceOwnership, Manager))
}

// release turns created fields into applied ones, so that the next apply removes those that are no longer wanted. It does the same to the
// template of an adopted StatefulSet: if it were merged with the present one, containers of the same name would have the arguments, probes
// and volumes of both. It returns the object with its new resourceVersion.
func (w Writer) release(ctx context.Context, live client.Object) (client.Object, error) {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, managersBefore(live), string(Manager))
	if err != nil {
		return nil, fmt.Errorf("moving fields of other managers to %s: %w", Manager, err)
	}
	if patch == nil {
		return live, nil
	}
	next := live.DeepCopyObject().(client.Object)
	return next, w.Client.Patch(ctx, next, client.RawPatch(types.JSONPatchType, patch), Manager)
}

// managersBefore are the field managers whose fields become those of Manager.
func managersBefore(live client.Object) sets.Set[string] {
	managers := sets.New(string(creator))
	set, ok := live.(*appsv1.StatefulSet)
	if !ok || set.Annotations[v1alpha1.AnnotationAdoptedBy] == "" || set.Annotations[v1alpha1.AnnotationAppliedChecksum] != "" {
		return managers
	}
	for _, f := range set.ManagedFields {
		if f.Operation == metav1.ManagedFieldsOperationUpdate && f.Subresource == "" && ownsTemplate(f) {
			managers.Insert(f.Manager)
		}
	}
	return managers
}

// ownsTemplate reports whether a field manager has written the template of a StatefulSet.
func ownsTemplate(f metav1.ManagedFieldsEntry) bool {
	fields := struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}{}
	return f.FieldsV1 != nil && json.Unmarshal(f.FieldsV1.GetRawBytes(), &fields) == nil && fields.Spec["f:template"] != nil
}

// gone turns a not-found error into a conflict: the object was read just now.
func gone(key component.Key, err error) error {
	if apierrors.IsNotFound(err) {
		return conflict(key, "it was just deleted")
	}
	return err
}

func conflict(key component.Key, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: key.Kind.Group, Resource: key.Kind.Kind}, key.Name, errors.New(why))
}
