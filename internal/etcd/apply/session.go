// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RecheckForeign is how long a foreign object is assumed to exist without another live read: the deletion of an object that is not cached
// triggers no event.
const RecheckForeign = 10 * time.Second

// Objects applies the objects of Etcds.
type Objects struct {
	Writer
	Clock clock.PassiveClock

	comparisons memory.PerEtcd[comparison]
	obstructed  memory.PerEtcd[obstruction]
}

// obstruction is what a live read found of an Etcd that has foreign objects.
type obstruction struct {
	at      time.Time
	foreign []ownership.Foreign
}

// Forget forgets an Etcd that is gone.
func (o *Objects) Forget(etcd types.NamespacedName) {
	o.comparisons.Forget(etcd)
	o.obstructed.Forget(etcd)
}

// Session writes the objects of one Etcd in one reconcile: all of them, or, if one is foreign, none.
type Session struct {
	objects *Objects
	etcd    *v1alpha1.Etcd
	// seen is the StatefulSet that the reconcile has observed; nil if there is none.
	seen *appsv1.StatefulSet
	// Manager is the value of the label managed-by of the Etcd's objects; empty if the operator's own.
	Manager string
	// proof is nil until something is about to be written.
	proof    *Proof
	compared bool
}

// Begin begins a Session, with the StatefulSet that the reconcile has read, nil if there is none, and the value of the label managed-by of
// the Etcd's objects. It reads again the foreign objects that were found before, so that the status reports them, and that they are gone,
// even while nothing has to be written.
func (o *Objects) Begin(ctx context.Context, etcd *v1alpha1.Etcd, seen *appsv1.StatefulSet, manager string) (*Session, error) {
	s := &Session{objects: o, etcd: etcd, seen: seen, Manager: manager}
	if len(o.obstructed.Of(etcd).foreign) == 0 {
		return s, nil
	}
	_, err := s.Owned(ctx)
	return s, err
}

// Owned reports whether, according to the API server, each existing object of the Etcd is its own. It is called before each write; the
// answer holds for the Session.
func (s *Session) Owned(ctx context.Context) (bool, error) { return s.ownedBut(ctx, nil) }

// ownedBut is Owned, except for objects that are left to the cache.
func (s *Session) ownedBut(ctx context.Context, left map[component.Key]bool) (bool, error) {
	if s.proof != nil && len(s.proof.left) == 0 {
		return s.proof.owned(), nil
	}
	if o := s.objects.obstructed.Of(s.etcd); len(o.foreign) > 0 && s.objects.Clock.Now().Sub(o.at) < RecheckForeign {
		s.proof = &Proof{Foreign: o.foreign}
		return false, nil
	}
	proof, err := s.objects.prove(ctx, s.etcd, left)
	if err != nil {
		return false, err
	}
	s.proof = proof
	s.remember()
	return proof.owned(), nil
}

func (s *Session) remember() {
	o := obstruction{}
	if !s.proof.owned() {
		o = obstruction{at: s.objects.Clock.Now(), foreign: s.proof.Foreign}
	}
	s.objects.obstructed.Set(s.etcd, o)
}

// Obstruct keeps this Session from writing anything.
func (s *Session) Obstruct(by ownership.Foreign) { s.proof = &Proof{Foreign: []ownership.Foreign{by}} }

// Foreign returns the foreign objects. Nothing is written while there are any.
func (s *Session) Foreign() []ownership.Foreign {
	if s.proof == nil {
		return nil
	}
	return s.proof.Foreign
}

// Checked reports whether the Session has checked the owners of the objects, on the API server or in the cache.
func (s *Session) Checked() bool { return s.proof != nil || s.compared }

// StatefulSet returns the StatefulSet that the API server returned to this Session; nil if there was none, or if the Session has
// not asked.
func (s *Session) StatefulSet() *appsv1.StatefulSet {
	if s.proof == nil {
		return nil
	}
	return s.proof.statefulSet(s.etcd)
}

// Request says how the objects are applied.
type Request struct {
	component.Input
	// Due: what should be different is applied; otherwise only what is missing or was changed by others.
	Due bool
	// NoStatefulSet: a missing StatefulSet is not created.
	NoStatefulSet bool
	// Instructions returns what the members read in their ConfigMap in addition to what is applied, for a ConfigMap that is created. It may
	// be nil.
	Instructions func(ctx context.Context) (map[string]string, error)
	// Permit is called right before the StatefulSet is written, with the one that the write is based on; nil if it is created.
	Permit func(ctx context.Context, base *appsv1.StatefulSet) error
}

// Apply applies the objects that differ, and reports whether the cache shows each as it was applied for this request.
func (s *Session) Apply(ctx context.Context, q Request) (settled bool, err error) {
	q.Etcd, q.Manager = renderInput(q.Etcd), s.Manager
	input, err := fingerprintOf(q.Input)
	if err != nil {
		return false, err
	}
	last := s.objects.comparisons.Of(s.etcd)
	if holds, err := s.stillHolds(ctx, last, input, q.Due); err != nil || holds {
		s.compared = err == nil
		return last.settled, err
	}
	next, pending, err := s.compare(ctx, q)
	if err != nil {
		return false, err
	}
	if len(pending) > 0 {
		err := s.write(ctx, pending, q)
		s.compared = err == nil
		return next.settled, err
	}
	s.compared = true
	next.input, next.due = input, q.Due
	if next.complete {
		s.objects.comparisons.Set(s.etcd, next)
	}
	return next.settled, nil
}

// leave returns the objects that the cache may answer for: they stay as they are, and have their effect at any time rather than when a pod
// starts. A pod that starts takes the ServiceAccount and the ConfigMap that have their names by then. Where the cache lacks an object, it may
// be another one's by now, and all are read.
func leave(objects []Desired) map[component.Key]bool {
	left := map[component.Key]bool{}
	for _, d := range objects {
		switch kind := d.GetKind(); {
		case !d.own:
			return nil
		case d.unchanged && kind != "StatefulSet" && kind != "ServiceAccount" && kind != "ConfigMap":
			left[d.key()] = true
		}
	}
	return left
}

// write writes the objects that differ from those on the API server, once all are known to be the Etcd's own.
func (s *Session) write(ctx context.Context, objects []Desired, q Request) error {
	owned, err := s.ownedBut(ctx, leave(objects))
	if err != nil || !owned {
		return err
	}
	for _, d := range objects {
		if s.proof.left[d.key()] {
			continue
		}
		live := s.proof.Objects[d.key()]
		why, err := d.differs(live, q.Due)
		if err != nil {
			return err
		}
		if why == "" {
			continue
		}
		if err := s.permit(ctx, d, live, q); err != nil {
			return err
		}
		if live == nil && q.Instructions != nil && d.GetKind() == "ConfigMap" {
			if d.instructions, err = q.Instructions(ctx); err != nil {
				return err
			}
		}
		if err := s.objects.put(ctx, s.etcd, s.proof, d, why); errors.Is(err, errForeign) {
			s.remember()
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// permit refuses to write a StatefulSet that has changed since it was read, because its update strategy and its claim template were
// rendered from what was read.
func (s *Session) permit(ctx context.Context, d Desired, live client.Object, q Request) error {
	if d.key() != component.StatefulSetKey(s.etcd) {
		return nil
	}
	set, _ := live.(*appsv1.StatefulSet)
	if set != nil && (s.seen == nil || s.seen.UID != set.UID || s.seen.Generation != set.Generation) {
		return conflict(d.key(), "it has changed since it was read")
	}
	if q.Permit == nil {
		return nil
	}
	return q.Permit(ctx, set)
}
