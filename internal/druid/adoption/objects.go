// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/asread"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// gather reads all that a decision rests on from the API server, and asks the members.
func (a Adopter) gather(ctx context.Context, cached *v1alpha1.Etcd) (input, error) {
	etcd, err := a.Live().Etcd(ctx, cached)
	if err != nil {
		return input{}, err
	}
	f := input{etcd: etcd, onDelete: a.QuorumAware, enabled: a.Enabled, images: component.Input{Etcd: etcd, Images: a.Images}.Containers()}
	set, err := lookup.Get[appsv1.StatefulSet](ctx, a.API, "StatefulSet", client.ObjectKeyFromObject(etcd))
	if err != nil || set == nil {
		return f, err
	}
	f.set = set
	f.peerTLS = observe.PeerTLS(set.Spec.Template.ObjectMeta, set.Spec.Template.Spec) == v1alpha1.TLSOn
	if foreign := ownership.Of(etcd, "StatefulSet", set); foreign != nil && !ownership.Adoptable(etcd, set) {
		f.foreign = append(f.foreign, *foreign)
		return f, nil
	}
	if _, f.foreign, err = a.objects(ctx, f); err != nil {
		return input{}, err
	}
	if f.snapshot, err = a.Observe(ctx, a.API, etcd); errors.Is(err, observe.ErrTooManyReplicas) {
		return f, nil
	}
	return f, err
}

// objects reads the objects that the Etcd needs, with those of etcd-druid among them, and the claims of its members: those to adopt
// or to hand back, the StatefulSet last, and those that are foreign.
func (a Adopter) objects(ctx context.Context, f input) (all []client.Object, foreign []ownership.Foreign, err error) {
	members := ptr.Deref(f.set.Spec.Replicas, 1)
	for _, key := range component.Keys(f.etcd, members, v1alpha1.ManagedByDruid) {
		if key == component.StatefulSetKey(f.etcd) {
			continue
		}
		object, err := a.get(ctx, f.etcd, key)
		if err != nil {
			return nil, nil, err
		}
		if object == nil {
			continue
		}
		if other := ownership.Of(f.etcd, key.Kind.Kind, object); other != nil && !ownership.Adoptable(f.etcd, object) {
			foreign = append(foreign, *other)
		} else if key.Kind.Group != rbacv1.GroupName || other == nil {
			// A Role, and its binding, that the operator did not write has rights that it may not give.
			all = append(all, object)
		}
	}
	for i := range members {
		key := component.Key{Kind: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), Name: f.etcd.ClaimName(i)}
		claim, err := a.get(ctx, f.etcd, key)
		if err != nil {
			return nil, nil, err
		}
		if claim == nil {
			continue
		}
		if other := ownership.OfClaim(f.etcd, claim); other != nil && !madeFor(f.set, claim) {
			foreign = append(foreign, *other)
		} else {
			all = append(all, claim)
		}
	}
	return append(all, f.set), foreign, nil
}

func (a Adopter) get(ctx context.Context, etcd *v1alpha1.Etcd, key component.Key) (client.Object, error) {
	typed, err := a.Client.Scheme().New(key.Kind)
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", key.Kind.Kind, err)
	}
	object, at := typed.(client.Object), types.NamespacedName{Namespace: etcd.Namespace, Name: key.Name}
	if err := a.API.Get(ctx, at, object); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", key.Kind.Kind, at, err)
	}
	return object, nil
}

// madeSince reports whether the StatefulSet controller has made a claim since there is a StatefulSet. An older one may have the data
// of another cluster.
func madeSince(set *appsv1.StatefulSet, claim *corev1.PersistentVolumeClaim) bool {
	return madeFor(set, claim) && !claim.CreationTimestamp.Before(&set.CreationTimestamp)
}

// madeFor reports whether the StatefulSet controller has made a claim: it has the labels of the selector, and it has no owner.
func madeFor(set *appsv1.StatefulSet, claim client.Object) bool {
	return set.Spec.Selector != nil && maps.Equal(claim.GetLabels(), set.Spec.Selector.MatchLabels) && len(claim.GetOwnerReferences()) == 0
}

// annotate sets and removes annotations of an object as it was read, with more of a merge patch.
func (a Adopter) annotate(ctx context.Context, object client.Object, annotations, more map[string]any) error {
	metadata, ok := more["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	metadata["annotations"], more["metadata"] = annotations, metadata
	if err := a.Client.Patch(ctx, object, asread.Merge(more), apply.Manager); err != nil {
		// It has a kind: it was made by the scheme.
		kind, _ := a.Client.GroupVersionKindFor(object)
		return fmt.Errorf("annotating %s %s: %w", kind.Kind, client.ObjectKeyFromObject(object), err)
	}
	return nil
}

// finish removes the annotation that asked for it, with more of a merge patch, and returns state.ErrBehind.
func (a Adopter) finish(ctx context.Context, etcd *v1alpha1.Etcd, more map[string]any) error {
	if err := a.annotate(ctx, etcd, map[string]any{v1alpha1.AnnotationOperation: nil}, more); err != nil {
		return err
	}
	return state.ErrBehind
}
