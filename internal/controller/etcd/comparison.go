// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"unique"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
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
	// settled: each was as it was applied for the present spec.
	settled bool
}

// objectID names an object in the namespace of the Etcd.
type objectID struct {
	kind unique.Handle[schema.GroupVersionKind]
	name string
}

func (d desired) id() objectID {
	return objectID{kind: unique.Make(d.GroupVersionKind()), name: d.GetName()}
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

// stillHolds tells whether a comparison would find the same again.
func (r *Reconciler) stillHolds(ctx context.Context, c comparison, namespace string, input fingerprint, due bool) (bool, error) {
	if len(c.objects) == 0 || c.input != input || c.due != due {
		return false, nil
	}
	states := make([]state, 0, len(c.objects))
	for _, o := range c.objects {
		live, err := r.live(ctx, o.kind.Value(), types.NamespacedName{Namespace: namespace, Name: o.name})
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
	next, applied, err := r.compare(ctx, p, in, due, blocked)
	if err != nil || applied {
		return next.settled, err
	}
	next.input, next.due = input, due
	r.memory.change(key, func(m *remembered) { m.comparison = next })
	return next.settled, nil
}

// compare renders the objects, and applies those that are not as they should be. It tells whether it applied any; one
// that it was not to make counts as such.
func (r *Reconciler) compare(ctx context.Context, p *pass, in component.Input, due, blocked bool) (c comparison, applied bool, err error) {
	objects, err := component.Objects(in)
	if err != nil {
		return comparison{}, false, err
	}
	settled := true
	var states []state
	for _, object := range objects {
		d, err := newDesired(object)
		if err != nil {
			return comparison{}, false, err
		}
		live, err := r.live(ctx, d.GroupVersionKind(), client.ObjectKeyFromObject(d))
		if err != nil {
			return comparison{}, false, err
		}
		if live == nil && blocked && d.GetKind() == "StatefulSet" {
			return comparison{}, true, nil
		}
		if d.GetKind() == "StatefulSet" {
			base, _ := live.(*appsv1.StatefulSet)
			if err := p.scale.permit(ctx, base); err != nil {
				return comparison{}, false, err
			}
		}
		changed, err := r.ensure(ctx, d, live, due)
		if err != nil {
			return comparison{}, false, err
		}
		applied, settled = applied || changed, settled && d.appliedTo(live)
		if live != nil {
			c.objects, states = append(c.objects, d.id()), append(states, stateOf(live))
		}
	}
	c.settled = settled
	c.live, err = fingerprintOf(states)
	return c, applied, err
}
