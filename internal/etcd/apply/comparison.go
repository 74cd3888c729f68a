// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"unique"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// comparison is a comparison of desired with live objects that found nothing to do. While neither side changes, the result holds, so an
// idle Etcd costs no rendering.
type comparison struct {
	// input is what the objects were rendered from, live what they were compared with.
	input, live fingerprint
	// due: changes of the spec were to be applied.
	due bool
	// objects are those that were compared.
	objects []objectID
	// settled: each was as applied for the present spec. complete: none was left out.
	settled, complete bool
}

// objectID names an object in the namespace of the Etcd.
type objectID struct {
	kind unique.Handle[schema.GroupVersionKind]
	name string
}

// fingerprint is a hash of a value. Equal values have equal fingerprints.
type fingerprint [sha256.Size]byte

func fingerprintOf(value any) (fingerprint, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return fingerprint{}, fmt.Errorf("encoding a %T: %w", value, err)
	}
	return sha256.Sum256(data), nil
}

// renderInput returns the fields of an Etcd that its objects are rendered from.
func renderInput(etcd *v1alpha1.Etcd) *v1alpha1.Etcd {
	return &v1alpha1.Etcd{
		ObjectMeta: metav1.ObjectMeta{Namespace: etcd.Namespace, Name: etcd.Name, UID: etcd.UID, Annotations: etcd.Annotations},
		Spec:       etcd.Spec,
		// The initial cluster has all members that the cluster is known to have, and the one that a recovery began with.
		Status: v1alpha1.EtcdStatus{ClusterSize: etcd.Status.ClusterSize, Recovery: etcd.Status.Recovery},
	}
}

// state is the part of a live object that a comparison depends on. It is encoded as a whole.
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

// version changes with the object, but not with its metadata, nor with its status if the API server counts generations.
func version(live client.Object) string {
	if _, ok := live.(*coordinationv1.Lease); ok {
		// Its agent renews it all the time, and the operator applies nothing of that.
		return ""
	}
	if g := live.GetGeneration(); g != 0 {
		return strconv.FormatInt(g, 10)
	}
	return live.GetResourceVersion()
}

// cached returns an object from the cache, which the caller must not modify; nil if there is none. The StatefulSet is the one that this
// reconcile has observed, so what is reported as applied is not newer than the observation.
func (s *Session) cached(ctx context.Context, kind schema.GroupVersionKind, name string) (client.Object, error) {
	if s.seen != nil && (component.Key{Kind: kind, Name: name}) == component.StatefulSetKey(s.etcd) {
		return s.seen, nil
	}
	key := types.NamespacedName{Namespace: s.etcd.Namespace, Name: name}
	object, err := s.objects.Client.Scheme().New(kind)
	if err != nil {
		return nil, fmt.Errorf("making a %s: %w", kind.Kind, err)
	}
	cached := object.(client.Object)
	if err := s.objects.Client.Get(ctx, key, cached, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, key, err)
	}
	return cached, nil
}

// stillHolds reports whether a comparison would have the same result again.
func (s *Session) stillHolds(ctx context.Context, c comparison, input fingerprint, due bool) (bool, error) {
	if c.input != input || c.due != due {
		return false, nil
	}
	states := make([]state, 0, len(c.objects))
	for _, o := range c.objects {
		live, err := s.cached(ctx, o.kind.Value(), o.name)
		if err != nil || live == nil {
			return false, err
		}
		states = append(states, stateOf(live))
	}
	live, err := fingerprintOf(states)
	return live == c.live, err
}

// compare renders the objects and compares them with the cache. If one has to be written, it returns all of them, since the cache may be
// behind.
func (s *Session) compare(ctx context.Context, q Request) (c comparison, pending []Desired, err error) {
	objects, err := component.Objects(q.Input)
	if err != nil {
		return comparison{}, nil, err
	}
	c.settled, c.complete = true, true
	differ := false
	var states []state
	for _, object := range objects {
		d, err := Render(object, q.Annotations())
		if err != nil {
			return comparison{}, nil, err
		}
		cached, err := s.cached(ctx, d.GroupVersionKind(), d.GetName())
		if err != nil {
			return comparison{}, nil, err
		}
		c.settled = c.settled && d.appliedTo(cached)
		if cached == nil && q.NoStatefulSet && d.key() == component.StatefulSetKey(q.Etcd) {
			c.complete = false
			continue
		}
		why, err := d.differs(cached, q.Due)
		if err != nil {
			return comparison{}, nil, err
		}
		d.own = cached != nil && ownership.Of(q.Etcd, d.GetKind(), cached) == nil
		d.unchanged = d.own && why == ""
		differ, pending = differ || !d.unchanged, append(pending, d)
		if cached != nil {
			c.objects, states = append(c.objects, objectID{unique.Make(d.GroupVersionKind()), d.GetName()}), append(states, stateOf(cached))
		}
	}
	if !differ {
		pending = nil
	}
	c.live, err = fingerprintOf(states)
	return c, pending, err
}
