// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package tls moves the members of an Etcd to TLS: it checks the Secrets, decides how far the template goes next, and lists the
// members under the peer URLs that they have on the way (docs/adr/0005-peer-tls-in-two-rollouts.md).
package tls

import (
	"context"
	"errors"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/boundedpem"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/managedtls"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"k8s.io/apimachinery/pkg/types"
)

// How long the result of a check of the Secrets is valid. The operator does not watch Secrets: the right to watch them is the right
// to read all of them.
const (
	recheckSecrets = 5 * time.Minute
	// recheckBrokenSecrets is how often Secrets that cannot be used are read. They are checked again once they have changed.
	recheckBrokenSecrets = 5 * time.Second
)

// Plan is the state of an Etcd's TLS before its objects are rendered.
type Plan struct {
	// Problem is what a person has to fix in a Secret; nil if there is none.
	Problem error
	Facts   certificates.Facts
	// Stage that the template is to have on the way to TLS among members.
	Stage component.PeerTLS
	// Due: the template has to change because of TLS.
	Due bool
	// Managed is what is known of the Secrets of managed TLS.
	Managed managedtls.Result
}

// Wanted reports whether the spec of an Etcd asks for TLS.
func Wanted(etcd *v1alpha1.Etcd) bool {
	return etcd.ClientTLS() != nil || etcd.PeerTLS() != nil || etcd.BackupTLS() != nil
}

// Arrived reports whether the template has reached the stage that the spec asks for.
func (p Plan) Arrived(etcd *v1alpha1.Etcd) bool {
	return p.Problem == nil && (etcd.PeerTLS() == nil || p.Stage == component.PeerTLSOn)
}

// Mover moves members to TLS.
type Mover struct {
	state.Access
	// Dialer and Credentials connect to members.
	Dialer      etcdclient.Dialer
	Credentials *certificates.Credentials
	// Managed keeps the Secrets of managed TLS.
	Managed *managedtls.Manager

	checked memory.PerEtcd[check]
}

// check is the result of a check of the Secrets of an Etcd.
type check struct {
	// at is when the Secrets were last read or compared, and full when they were checked, which took a time.
	at, full   time.Time
	took       time.Duration
	versions   map[string]string
	generation int64
	facts      certificates.Facts
	err        error
}

// Forget forgets an Etcd that is gone.
func (m *Mover) Forget(etcd types.NamespacedName) {
	m.checked.Forget(etcd)
	m.Managed.Forget(etcd)
}

// Plan reconciles, reads and checks the Secrets of an Etcd, and decides on the next stage of its members. Frozen: the spec is not
// carried out.
func (m *Mover) Plan(ctx context.Context, s *state.State, frozen bool) (Plan, error) {
	if !Wanted(s.Etcd) {
		return Plan{}, nil
	}
	last := m.checked.Of(s.Etcd)
	managed, err := m.Managed.Ensure(ctx, managedtls.Request{State: s, Frozen: frozen, Authorities: last.facts.Authorities, Doubt: last.err != nil})
	if managed.Wrote {
		m.checked.Set(s.Etcd, check{})
	}
	if err != nil {
		return Plan{Managed: managed}, err
	}
	facts, err := m.checkSecrets(ctx, s.Etcd)
	var problem *certificates.Problem
	if err != nil && !errors.As(err, &problem) {
		return Plan{Managed: managed}, err
	}
	if managed.Problem != nil && (err != nil || len(managed.Foreign) > 0) {
		// It says more than "a Secret is missing".
		err = managed.Problem
	}
	plan := Plan{Facts: facts, Problem: err, Managed: managed}
	at, err := m.stage(ctx, s)
	if err != nil {
		return Plan{Managed: managed}, err
	}
	plan.Stage = at
	if plan.Problem != nil {
		return plan, nil
	}
	if s.Etcd.PeerTLS() != nil && at != component.PeerTLSOn {
		plan.Stage = nextStage(at, s.Snapshot)
	}
	plan.Due = s.StatefulSet != nil &&
		(plan.Stage != at || s.StatefulSet.Spec.Template.Annotations[v1alpha1.AnnotationCAChecksum] != facts.Authorities)
	return plan, nil
}

// stage returns the present stage of the template on the way to TLS among members. Without a StatefulSet, the ConfigMap says so; a
// new cluster uses TLS from the start.
func (m *Mover) stage(ctx context.Context, s *state.State) (component.PeerTLS, error) {
	if s.Etcd.PeerTLS() == nil {
		return component.PeerTLSOff, nil
	}
	if s.StatefulSet != nil {
		return component.PeerTLS(observe.PeerTLS(s.StatefulSet.Spec.Template.ObjectMeta, s.StatefulSet.Spec.Template.Spec)), nil
	}
	config, err := memberconfig.ConfigMap(ctx, m.Client, s.Etcd, s.Manager)
	switch {
	case err != nil:
		return "", err
	case config == nil || s.Etcd.Status.ClusterID == "":
		return component.PeerTLSOn, nil
	}
	return component.PeerTLS(config.Annotations[v1alpha1.AnnotationPeerTLS]), nil
}

// checkSecrets reads and checks the Secrets of an Etcd, unless that was done recently and no check is requested.
func (m *Mover) checkSecrets(ctx context.Context, etcd *v1alpha1.Etcd) (certificates.Facts, error) {
	now, last := m.Clock.Now(), m.checked.Of(etcd)
	valid := recheckSecrets
	if last.err != nil {
		valid = boundedpem.Pause(recheckBrokenSecrets, recheckSecrets, last.took)
	}
	if last.generation == etcd.Generation && !state.OperationRequested(etcd) {
		if now.Sub(last.at) < valid {
			return last.facts, last.err
		}
		// Otherwise only time changes the result: a certificate becomes valid, or expires.
		if last.err != nil && now.Sub(last.full) < recheckSecrets && certificates.Unchanged(ctx, m.API, etcd.Namespace, last.versions) {
			last.at = now
			m.checked.Set(etcd, last)
			return last.facts, last.err
		}
	}
	next := check{at: now, full: now, generation: etcd.Generation}
	material, err := certificates.Read(ctx, m.API, etcd)
	if next.versions = material.Versions; err == nil {
		began := m.Clock.Now()
		next.facts, err = material.Check(etcd.MemberHosts(), now)
		next.took = m.Clock.Since(began)
	}
	if problem := (*certificates.Problem)(nil); err != nil && !errors.As(err, &problem) {
		// Nothing is known of the Secrets.
		return next.facts, err
	}
	next.err = err
	m.checked.Set(etcd, next)
	return next.facts, next.err
}
