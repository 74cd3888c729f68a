// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How old the result of a look at the Secrets may be. The operator may not watch Secrets: a role that lets it
// would let it read all of them at once.
const (
	recheckSecrets = 5 * time.Minute
	// recheckBrokenSecrets is that of Secrets that somebody is about to repair.
	recheckBrokenSecrets = 5 * time.Second
)

// tlsLook is what is known of the TLS of an Etcd before its objects are made.
type tlsLook struct {
	// problem is what a person has to repair in a Secret; nil when all is well.
	problem error
	facts   certificates.Facts
	// station of the template on the way to TLS among members, as it is to be.
	station component.PeerTLS
	// due: the template has to be changed for TLS alone.
	due bool
}

// asked tells whether the spec of an Etcd asks for TLS.
func asked(etcd *v1alpha1.Etcd) bool {
	return etcd.Spec.Etcd.ClientURLTLS != nil || etcd.Spec.Etcd.PeerURLTLS != nil || etcd.BackupTLS() != nil
}

// arrived tells whether the template is as the spec asks for, and not only on the way to it.
func (l tlsLook) arrived(etcd *v1alpha1.Etcd) bool {
	return l.problem == nil && (etcd.Spec.Etcd.PeerURLTLS == nil || l.station == component.PeerTLSOn)
}

// lookAtTLS reads and checks the Secrets of an Etcd, and decides how far its members are to go next.
func (r *Reconciler) lookAtTLS(ctx context.Context, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) (tlsLook, error) {
	if !asked(etcd) {
		return tlsLook{}, nil
	}
	facts, err := r.checkSecrets(ctx, etcd)
	var problem *certificates.Problem
	if err != nil && !errors.As(err, &problem) {
		return tlsLook{}, err
	}
	look := tlsLook{facts: facts, problem: err}
	if look.station, err = r.station(ctx, etcd, set); err != nil {
		return tlsLook{}, err
	}
	if look.problem != nil {
		return look, nil
	}
	at := look.station
	if etcd.Spec.Etcd.PeerURLTLS != nil && at != component.PeerTLSOn {
		snapshot, err := r.observe(ctx, r.Client, etcd)
		if err != nil {
			return tlsLook{}, err
		}
		look.station = nextStation(at, snapshot)
	}
	look.due = set != nil && (look.station != at || set.Spec.Template.Annotations[v1alpha1.AnnotationCAChecksum] != facts.Authorities)
	return look, nil
}

// station is how far the template of the members is on the way to TLS among members. Should the StatefulSet be
// gone, the ConfigMap tells; a new cluster is there from the start.
func (r *Reconciler) station(ctx context.Context, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) (component.PeerTLS, error) {
	if etcd.Spec.Etcd.PeerURLTLS == nil {
		return component.PeerTLSOff, nil
	}
	if set != nil {
		return component.PeerTLS(set.Spec.Template.Annotations[v1alpha1.AnnotationPeerTLS]), nil
	}
	config := &corev1.ConfigMap{}
	key := types.NamespacedName{Namespace: etcd.Namespace, Name: component.ConfigMapName(etcd.Name)}
	if err := r.Client.Get(ctx, key, config); apierrors.IsNotFound(err) || err == nil && etcd.Status.ClusterID == "" {
		return component.PeerTLSOn, nil
	} else if err != nil {
		return "", fmt.Errorf("reading ConfigMap %s: %w", key, err)
	}
	return component.PeerTLS(config.Annotations[v1alpha1.AnnotationPeerTLS]), nil
}

// checkedSecrets is the result of a look at the Secrets of an Etcd.
type checkedSecrets struct {
	at         time.Time
	generation int64
	facts      certificates.Facts
	err        error
}

// checkSecrets reads and checks the Secrets of an Etcd, unless that was just done and nobody asks for it.
func (r *Reconciler) checkSecrets(ctx context.Context, etcd *v1alpha1.Etcd) (certificates.Facts, error) {
	key, now := client.ObjectKeyFromObject(etcd), r.Clock.Now()
	last := r.memory.of(key).secrets
	valid := recheckSecrets
	if last.err != nil {
		valid = recheckBrokenSecrets
	}
	if last.generation == etcd.Generation && !operationRequested(etcd) && now.Sub(last.at) < valid {
		return last.facts, last.err
	}
	next := checkedSecrets{at: now, generation: etcd.Generation}
	material, err := certificates.Read(ctx, r.APIReader, etcd)
	if err == nil {
		next.facts, err = material.Check(etcd.MemberHosts(), now)
	}
	next.err = err
	r.memory.change(key, func(m *remembered) { m.secrets = next })
	return next.facts, next.err
}
