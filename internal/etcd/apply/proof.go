// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package apply writes the objects of an Etcd, and no foreign ones.
//
// Before the first write, they are read from the API server: a Proof holds those that exist, and names those that are not the Etcd's own.
// While there is such a foreign object, nothing is written. Missing objects are created rather than applied, so that one that appears
// in between is not taken over; existing ones are applied with the UID and resourceVersion that were read. While all members run, a change
// leaves to the cache what it neither writes nor has new pods start with (docs/adr/0117-a-change-reads-what-it-concerns.md).
package apply

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Writer writes the objects of Etcds.
type Writer struct {
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
}

// Proof is what the API server says of all objects of an Etcd.
type Proof struct {
	// Objects that exist. They must not be modified.
	Objects map[component.Key]client.Object
	// Foreign are those that are not the Etcd's own.
	Foreign []ownership.Foreign
	// Manager is the value of the label managed-by of an Etcd that was adopted from another operator.
	Manager string
	// left are the objects that were not read: the cache shows them as the Etcd's own.
	left map[component.Key]bool
	// runs is how many members the StatefulSet runs.
	runs int32
}

// owned reports whether each object is the Etcd's own.
func (p *Proof) owned() bool { return len(p.Foreign) == 0 }

// statefulSet of the Etcd; nil when there is none.
func (p *Proof) statefulSet(etcd *v1alpha1.Etcd) *appsv1.StatefulSet {
	set, _ := p.Objects[component.StatefulSetKey(etcd)].(*appsv1.StatefulSet)
	return set
}

// Foreign returns the objects that keep the operator from scaling the StatefulSet of an Etcd, by live reads: those that are not the Etcd's
// own. With stops, all members are to be stopped: then the claims of those that run count too, since they could not start again with them.
func (w Writer) Foreign(ctx context.Context, etcd *v1alpha1.Etcd, stops bool) ([]ownership.Foreign, error) {
	p, err := w.prove(ctx, etcd, nil)
	if err != nil {
		return nil, err
	}
	for i := int32(0); stops && i < p.runs; i++ {
		if err := w.proveClaim(ctx, etcd, p, etcd.ClaimName(i)); err != nil {
			return nil, err
		}
	}
	return p.Foreign, nil
}

// prove reads the objects of an Etcd, except for those that are left to the cache, and the claims of the members that its StatefulSet does
// not run yet, since these members would start with them. If there are such members, or others that are to stop, no object is left.
func (w Writer) prove(ctx context.Context, etcd *v1alpha1.Etcd, left map[component.Key]bool) (*Proof, error) {
	p := &Proof{Objects: map[component.Key]client.Object{}}
	if err := w.proveOne(ctx, etcd, p, component.StatefulSetKey(etcd)); err != nil {
		return nil, err
	}
	if set := p.statefulSet(etcd); set != nil && p.owned() {
		// A user who may scale it can choose any number.
		p.runs = min(ptr.Deref(set.Spec.Replicas, 1), observe.MaxReplicas)
	}
	runs := p.runs
	read, err := w.findManager(ctx, etcd, p)
	if err != nil {
		return nil, err
	}
	members := max(runs, etcd.Spec.Replicas, etcd.Status.ClusterSize)
	if runs > 0 && runs == members && runs == etcd.Spec.Replicas {
		p.left = left
	}
	for _, key := range component.Keys(etcd, members, p.Manager) {
		if key == read || key == component.StatefulSetKey(etcd) || p.left[key] {
			continue
		}
		if err := w.proveOne(ctx, etcd, p, key); err != nil {
			return nil, err
		}
	}
	for i := runs; i < members; i++ {
		if err := w.proveClaim(ctx, etcd, p, etcd.ClaimName(i)); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// proveOne adds an object to a Proof.
func (w Writer) proveOne(ctx context.Context, etcd *v1alpha1.Etcd, p *Proof, key component.Key) error {
	typed, err := w.Client.Scheme().New(key.Kind)
	if err != nil {
		return fmt.Errorf("making a %s: %w", key.Kind.Kind, err)
	}
	object := typed.(client.Object)
	at := types.NamespacedName{Namespace: etcd.Namespace, Name: key.Name}
	if err := w.Live.Get(ctx, at, object); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("reading %s %s: %w", key.Kind.Kind, at, err)
	}
	p.Objects[key] = object
	if f := ownership.Of(etcd, key.Kind.Kind, object); f != nil && !p.follows(etcd, key, object) {
		p.Foreign = append(p.Foreign, *f)
	}
	return nil
}

// findManager finds out from which operator the objects were adopted, if any. Without a StatefulSet, the Service for peers tells; its key
// is then returned as read.
func (w Writer) findManager(ctx context.Context, etcd *v1alpha1.Etcd, p *Proof) (read component.Key, err error) {
	if set := p.statefulSet(etcd); set != nil {
		p.Manager = ownership.Manager(etcd, set)
		return component.Key{}, nil
	}
	read = component.Key{Kind: corev1.SchemeGroupVersion.WithKind("Service"), Name: etcd.PeerServiceName()}
	if err := w.proveOne(ctx, etcd, p, read); err != nil {
		return read, err
	}
	if service := p.Objects[read]; service != nil {
		p.Manager = ownership.Manager(etcd, service)
	}
	return read, nil
}

// ManagerOfServices returns the operator from which an Etcd without a StatefulSet was adopted; empty if it was not adopted.
func ManagerOfServices(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (string, error) {
	service, err := lookup.Get[corev1.Service](ctx, reader, "Service", types.NamespacedName{Namespace: etcd.Namespace, Name: etcd.PeerServiceName()})
	if err != nil || service == nil {
		return "", err
	}
	return ownership.Manager(etcd, service), nil
}

// follows reports whether an object counts as adopted although it is not marked. The operator cannot annotate etcd-druid's Role and
// RoleBinding, since it lacks some of the rights in the Role: it may only replace the Role with one that has fewer.
func (p *Proof) follows(etcd *v1alpha1.Etcd, key component.Key, object client.Object) bool {
	return v1alpha1.IsAdopted(p.Manager) && key.Kind.Group == rbacv1.GroupName && ownership.Adoptable(etcd, object)
}

func (w Writer) proveClaim(ctx context.Context, etcd *v1alpha1.Etcd, p *Proof, name string) error {
	claim, err := lookup.Get[corev1.PersistentVolumeClaim](ctx, w.Live, "claim", types.NamespacedName{Namespace: etcd.Namespace, Name: name})
	if err != nil || claim == nil {
		return err
	}
	if f := ownership.OfClaim(etcd, claim); f != nil {
		p.Foreign = append(p.Foreign, *f)
	}
	return nil
}
