// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unique"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// comparison is one of the objects of an Etcd as they should be with those that there are, which found nothing to do.
// While both sides are what they were, another would find the same: so an Etcd with nothing to do costs no rendering.
type comparison struct {
	// input that the objects were rendered from, and live ones that they were compared with.
	input, live fingerprint
	// due: what should be different was to be applied.
	due bool
	// objects that were compared.
	objects []objectID
	// settled: each was as it was applied for the present spec. complete: none was left out.
	settled, complete bool
}

// objectID names an object in the namespace of the Etcd.
type objectID struct {
	kind unique.Handle[schema.GroupVersionKind]
	name string
}

func idOf(key component.Key) objectID {
	return objectID{kind: unique.Make(key.Kind), name: key.Name}
}

// fingerprint of a value: equal values have the same, and others another one.
type fingerprint [sha256.Size]byte

func fingerprintOf(value any) (fingerprint, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return fingerprint{}, fmt.Errorf("encoding a %T: %w", value, err)
	}
	return sha256.Sum256(data), nil
}

// essence is all of an Etcd that its objects are made from. What it leaves out changes without a change of them.
func essence(etcd *v1alpha1.Etcd) *v1alpha1.Etcd {
	return &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: etcd.Name, UID: etcd.UID, Annotations: etcd.Annotations},
		Spec:       etcd.Spec,
	}
}

// state of an object that there is, as far as it may matter to a comparison.
type state struct {
	UID         types.UID
	Version     string
	Labels      map[string]string
	Annotations map[string]string
	Owners      []metav1.OwnerReference
}

func stateOf(live client.Object) state {
	return state{
		UID: live.GetUID(), Version: version(live), Labels: live.GetLabels(), Annotations: live.GetAnnotations(), Owners: live.GetOwnerReferences(),
	}
}

// version changes with all of an object but its metadata, and but its status where the API server counts generations.
func version(live client.Object) string {
	if _, ok := live.(*coordinationv1.Lease); ok {
		// Its agent renews it all the time. Nothing of that is applied.
		return ""
	}
	if g := live.GetGeneration(); g != 0 {
		return strconv.FormatInt(g, 10)
	}
	return live.GetResourceVersion()
}

// cached is an object in the cache, which is only to be read; nil when there is none.
func (r *Reconciler) cached(ctx context.Context, kind schema.GroupVersionKind, key types.NamespacedName) (client.Object, error) {
	object, err := r.Client.Scheme().New(kind)
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", kind.Kind, err)
	}
	cached := object.(client.Object)
	if err := r.Client.Get(ctx, key, cached, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, key, err)
	}
	return cached, nil
}

// stillHolds tells whether a comparison would find the same again.
func (r *Reconciler) stillHolds(ctx context.Context, c comparison, namespace string, input fingerprint, due bool) (bool, error) {
	if len(c.objects) == 0 || c.input != input || c.due != due {
		return false, nil
	}
	states := make([]state, 0, len(c.objects))
	for _, o := range c.objects {
		live, err := r.cached(ctx, o.kind.Value(), types.NamespacedName{Namespace: namespace, Name: o.name})
		if err != nil || live == nil {
			return false, err
		}
		states = append(states, stateOf(live))
	}
	live, err := fingerprintOf(states)
	return live == c.live, err
}

// applyObjects applies the objects that are not as they should be, and reports whether the cache shows each as it was
// applied for this input. due: what should be different is to be applied; blocked: no StatefulSet is to be made.
func (r *Reconciler) applyObjects(ctx context.Context, p *pass, in component.Input, due, blocked bool) (settled bool, err error) {
	in.Etcd = essence(in.Etcd)
	input, err := fingerprintOf(in)
	if err != nil {
		return false, err
	}
	key := client.ObjectKeyFromObject(in.Etcd)
	last := r.memory.of(key).comparison
	if holds, err := r.stillHolds(ctx, last, key.Namespace, input, due); err != nil || holds {
		return last.settled, err
	}
	next, pending, err := r.compare(ctx, in, due, blocked)
	if err != nil {
		return false, err
	}
	if len(pending) > 0 {
		return next.settled, r.write(ctx, p, pending, due)
	}
	next.input, next.due = input, due
	if next.complete {
		r.memory.change(key, func(m *remembered) { m.comparison = next })
	}
	return next.settled, nil
}

// compare renders the objects, and compares them with those in the cache. When one of them has to be written it returns
// all: those in the cache may not be the ones that there are.
func (r *Reconciler) compare(ctx context.Context, in component.Input, due, blocked bool) (c comparison, pending []apply.Desired, err error) {
	objects, err := component.Objects(in)
	if err != nil {
		return comparison{}, nil, err
	}
	c.settled, c.complete = true, true
	differ := false
	var states []state
	for _, object := range objects {
		d, err := apply.Render(object)
		if err != nil {
			return comparison{}, nil, err
		}
		cached, err := r.cached(ctx, d.GroupVersionKind(), client.ObjectKeyFromObject(d))
		if err != nil {
			return comparison{}, nil, err
		}
		c.settled = c.settled && d.AppliedTo(cached)
		if cached == nil && blocked && d.Key() == component.StatefulSetKey(in.Etcd) {
			c.complete = false
			continue
		}
		why, err := d.Differs(cached, due)
		if err != nil {
			return comparison{}, nil, err
		}
		differ, pending = differ || why != "", append(pending, d)
		if cached != nil {
			differ = differ || ownership.Of(in.Etcd, d.GetKind(), cached) != nil
			c.objects, states = append(c.objects, idOf(d.Key())), append(states, stateOf(cached))
		}
	}
	if !differ {
		pending = nil
	}
	c.live, err = fingerprintOf(states)
	return c, pending, err
}

// write writes those of the objects that are not as they should be, as the API server says, once it has said that all are
// the Etcd's own.
func (r *Reconciler) write(ctx context.Context, p *pass, objects []apply.Desired, due bool) error {
	owned, err := r.owns(ctx, p)
	if err != nil || !owned {
		return err
	}
	for _, d := range objects {
		live := p.proof.Objects[d.Key()]
		why, err := d.Differs(live, due)
		if err != nil {
			return err
		}
		if why == "" {
			continue
		}
		if set, ok := live.(*appsv1.StatefulSet); ok && !sameVersion(p.set, set) {
			// It was rendered by another: its update strategy and its claim template are what was seen.
			return errAgain
		}
		if d.Key() == component.StatefulSetKey(p.etcd) {
			set, _ := live.(*appsv1.StatefulSet)
			if err := p.scale.permit(ctx, set); err != nil {
				return err
			}
		}
		if err := r.writer().Put(ctx, p.etcd, p.proof, d, why); errors.Is(err, apply.ErrForeign) {
			r.rememberObstruction(p)
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// sameVersion reports whether a StatefulSet is what was seen of it.
func sameVersion(seen, live *appsv1.StatefulSet) bool {
	return seen != nil && seen.UID == live.UID && seen.ResourceVersion == live.ResourceVersion
}
