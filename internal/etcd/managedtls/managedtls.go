// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package managedtls reconciles the Secrets of an Etcd with managed TLS: it reads them, and carries out what internal/etcd/pki decides. It
// writes no Secret that is not the Etcd's own (docs/adr/0020-a-ca-is-renewed-in-two-rollouts.md).
package managedtls

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/boundedpem"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/servertime"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/pki"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// How long the result of a check of the Secrets is valid: the operator does not watch them.
const (
	recheck = time.Hour
	// Unusable Secrets are read again after the first of these, and no later than after the second.
	recheckBroken, recheckExpensive = 5 * time.Second, 5 * time.Minute
)

// maxSteps bounds the steps of one reconcile. A new Etcd takes fewer.
const maxSteps = 20

// Manager reconciles the Secrets of Etcds with managed TLS.
type Manager struct {
	state.Access

	looks  memory.PerEtcd[look]
	timers memory.PerEtcd[timers]
}

// look is the result of the last reading of the Secrets.
type look struct {
	at time.Time
	// took is how long parsing and signing took, without the requests.
	took       time.Duration
	generation int64
	frozen     bool
	// next is when something is due; zero if nothing is.
	next   time.Time
	result Result
}

// Result is what is known of the Secrets.
type Result struct {
	// Problem is what a person has to fix: *certificates.Problems, joined; nil if there is none.
	Problem error
	// Foreign are Secrets under names that the Etcd needs that are not its own.
	Foreign []ownership.Foreign
	// Remarks are sentences on renewals in progress, and on what a person should check.
	Remarks []string
	// Events of this reconcile.
	Events []Event
	// Wrote: Secrets were written in this reconcile.
	Wrote bool
	// RenewalBegun: a requested renewal of CAs has begun.
	RenewalBegun bool
}

// Event is an action to report.
type Event struct{ Reason, Note string }

// Request says what is known of an Etcd.
type Request struct {
	*state.State
	// Frozen: its spec is not carried out.
	Frozen bool
	// Authorities is the checksum of the CAs in the Secrets; empty if it is not known.
	Authorities string
	// Doubt: the Secrets were found unusable, so they are read again.
	Doubt bool
}

// Forget forgets an Etcd that is gone.
func (m *Manager) Forget(etcd types.NamespacedName) {
	m.looks.Forget(etcd)
	m.timers.Forget(etcd)
}

// Ensure reconciles the Secrets of an Etcd.
func (m *Manager) Ensure(ctx context.Context, q Request) (Result, error) {
	if q.Etcd.Spec.ManagedTLS == nil {
		return Result{}, nil
	}
	now, last := m.Clock.Now(), m.looks.Of(q.Etcd)
	m.observe(q, now)
	renew := q.Etcd.Annotations[v1alpha1.AnnotationOperation] == v1alpha1.OperationRenewCA
	valid := recheck
	if q.Doubt || last.result.Problem != nil {
		valid = boundedpem.Pause(recheckBroken, recheckExpensive, last.took)
	}
	due := !last.next.IsZero() && !now.Before(last.next)
	if last.generation == q.Etcd.Generation && last.frozen == q.Frozen && !due && !renew && !state.OperationRequested(q.Etcd) && now.Sub(last.at) < valid {
		return last.result, nil
	}
	s := &session{Manager: m, Request: q, now: now, renew: renew, look: look{at: now, generation: q.Etcd.Generation, frozen: q.Frozen}}
	err := s.all(ctx)
	result := s.result
	result.RenewalBegun = renew && err == nil && !q.Frozen
	if err == nil {
		s.result.Events, s.result.Wrote = nil, false
		m.looks.Set(q.Etcd, s.look)
	}
	return result, err
}

// session reconciles the Secrets of an Etcd once.
type session struct {
	*Manager
	Request
	now      time.Time
	renew    bool
	problems []error
	look
}

func (s *session) all(ctx context.Context) error {
	for _, connection := range v1alpha1.TLSConnections() {
		if !s.Etcd.ManagesTLS(connection) {
			continue
		}
		if err := s.connection(ctx, connection); err != nil {
			return err
		}
	}
	s.result.Problem = errors.Join(s.problems...)
	return nil
}

// spend runs work whose cost depends on a tenant's certificates, and measures it.
func (s *session) spend(work func()) {
	began := s.Clock.Now()
	work()
	s.took += s.Clock.Since(began)
}

// connection carries out the decisions for a connection until nothing is left to do.
func (s *session) connection(ctx context.Context, connection v1alpha1.TLSConnection) error {
	spec, renew, wrote := specOf(s.Etcd, connection), s.renew, false
	issued, foreign, err := s.issued(ctx, connection, spec)
	if err != nil {
		return err
	}
	if len(foreign) > 0 {
		s.foreign(spec, foreign, renew)
		return nil
	}
	for range maxSteps {
		secrets, err := s.read(ctx, s.Etcd, spec)
		if err != nil {
			return err
		}
		if len(secrets.foreign) > 0 {
			s.foreign(spec, secrets.foreign, renew)
			return nil
		}
		var current pki.State
		s.spend(func() { current = secrets.state(spec) })
		current.Issued = issued
		in := pki.Input{
			Now: s.now, Frozen: s.Frozen, RenewCA: renew,
			InUse: inUse(s.Etcd, s.StatefulSet, connection), Stopped: stopped(s.Snapshot),
		}
		if in.Expired, err = s.expired(ctx, spec, current); err != nil {
			return err
		}
		if !wrote {
			// It is not known for what was just written.
			in.Trusted, in.Loaded = s.lasting(connection, current)
		}
		d, err := s.decide(ctx, spec, current, in)
		if err != nil {
			return err
		}
		if d.Step == nil {
			s.conclude(spec, d, renew)
			return nil
		}
		if proceed, err := s.carryOut(ctx, spec, in, current, secrets, *d.Step); err != nil || !proceed {
			return err
		}
		wrote = true
		if d.Step.Action == pki.MakeCA || d.Step.Action == pki.RenewCA {
			renew = false
		}
	}
	return fmt.Errorf("the Secrets of Etcd %s/%s change all the time", s.Etcd.Namespace, s.Etcd.Name)
}

// decide decides on a connection. A step that is not confirmed is not taken: the rest of the decision says what there is to say without it.
func (s *session) decide(ctx context.Context, spec pki.Spec, current pki.State, in pki.Input) (d pki.Decision, err error) {
	s.spend(func() { d = pki.Decide(spec, current, in) })
	if d.Step == nil {
		return d, nil
	}
	confirmed, err := s.confirm(ctx, in, *d.Step)
	if !confirmed {
		d.Step = nil
	}
	return d, err
}

// carryOut writes the Secret of a step, and reports whether to proceed.
func (s *session) carryOut(ctx context.Context, spec pki.Spec, in pki.Input, current pki.State, before secrets, step pki.Step) (proceed bool, err error) {
	var next pki.State
	s.spend(func() { next, err = pki.Perform(spec, current, step, s.now) })
	if err != nil {
		return false, err
	}
	err = s.write(ctx, s.Etcd, before.live[step.Secret], spec, step.Secret, next)
	if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		s.forbidden(step, err)
		s.notBegun(spec, in.RenewCA)
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("writing Secret %s/%s: %w", s.Etcd.Namespace, step.Secret, err)
	}
	s.performed(ctx, step)
	return true, nil
}

// confirm queries the API server and the members again before a step that ends the trust in a certificate, and reports whether to take it. An
// expired certificate is no longer trusted anyway.
func (s *session) confirm(ctx context.Context, in pki.Input, step pki.Step) (bool, error) {
	if step.Action != pki.Promote && step.Action != pki.Retire || step.Action == pki.Promote && in.Expired {
		return true, nil
	}
	reads := s.Live()
	etcd, err := reads.Etcd(ctx, s.Etcd)
	if err != nil {
		return false, err
	}
	snapshot, err := s.Observe(ctx, s.API, etcd)
	if err != nil {
		return false, err
	}
	if err := reads.Fresh(ctx); err != nil {
		return false, err
	}
	return s.withoutRollouts() || everyMemberTrusts(snapshot, s.Authorities), nil
}

// expired reports whether nothing that the CA has signed is valid any more. The operator's clock, which may be years ahead, only decides when to
// ask the API server.
func (s *session) expired(ctx context.Context, spec pki.Spec, current pki.State) (bool, error) {
	if !current.Expired(spec, s.now) {
		return false, nil
	}
	now, err := servertime.Now(ctx, s.Client)
	return err == nil && current.Expired(spec, now), err
}

// withoutRollouts reports whether members do not read CAs of the Etcd at their start, so that a new CA needs no rollout.
func (s *session) withoutRollouts() bool { return s.Etcd.ClientTLS() == nil && s.Etcd.PeerTLS() == nil }

func (s *session) foreign(spec pki.Spec, foreign []ownership.Foreign, renew bool) {
	s.result.Foreign = append(s.result.Foreign, foreign...)
	for _, f := range foreign {
		s.problems = append(s.problems, &certificates.Problem{Secret: f.Name, What: f.Whose + ": " + f.Remedy})
	}
	s.notBegun(spec, renew)
}

func (s *session) conclude(spec pki.Spec, d pki.Decision, renew bool) {
	for _, p := range d.Problems {
		s.problems = append(s.problems, &certificates.Problem{Secret: p.Secret, What: p.What})
	}
	for _, w := range d.Warnings {
		s.result.Remarks = append(s.result.Remarks, fmt.Sprintf("Secret %s %s.", w.Secret, w.What))
	}
	if d.NotRenewed != "" {
		s.ignoreRenewal(spec.KeySecret, d.NotRenewed)
	} else {
		s.notBegun(spec, renew && d.Waiting == "")
	}
	if d.Waiting != "" {
		s.result.Remarks = append(s.result.Remarks, fmt.Sprintf("The CA in Secret %s is being renewed: %s.", spec.KeySecret, d.Waiting))
	}
	if !d.At.IsZero() && (s.next.IsZero() || d.At.Before(s.next)) {
		s.next = d.At
	}
}

// notBegun reports that a requested renewal of a CA has not begun because of the last problem. The request does not stay: by it, the CAs of other
// connections would be renewed once more.
func (s *session) notBegun(spec pki.Spec, renew bool) {
	if n := len(s.problems); renew && n > 0 && !spec.External {
		s.ignoreRenewal(spec.KeySecret, fmt.Sprintf("its CA is not renewed by the request (%v). Unless it is being renewed already, request it again once that is fixed", s.problems[n-1]))
	}
}

// ignoreRenewal reports that a requested renewal of a CA does not begin.
func (s *session) ignoreRenewal(secret, why string) {
	if s.renew && !s.Frozen {
		s.event(v1alpha1.ReasonCARenewalIgnored, fmt.Sprintf("Secret %s: %s", secret, why))
	}
}

func (s *session) forbidden(step pki.Step, err error) {
	s.problems = append(s.problems, &certificates.Problem{Secret: step.Secret, What: fmt.Sprintf(
		"cannot be written (%v). Managed TLS needs the right to create and update Secrets: apply config/admission/managed_tls_role.yaml", err)})
}

// reasons of events, by action.
var reasons = map[pki.Action]string{
	pki.MakeCA: v1alpha1.ReasonCACreated, pki.RenewCA: v1alpha1.ReasonCARenewalStarted, pki.Promote: v1alpha1.ReasonCARenewed,
	pki.Retire: v1alpha1.ReasonCARetired, pki.Issue: v1alpha1.ReasonCertificateIssued,
}

func (s *session) performed(ctx context.Context, step pki.Step) {
	s.result.Wrote = true
	ctrl.LoggerFrom(ctx).Info("Wrote a Secret of managed TLS", "secret", step.Secret, "action", step.Action, "why", step.Why)
	if reason := reasons[step.Action]; reason != "" {
		s.event(reason, fmt.Sprintf("Secret %s: %s", step.Secret, step.Why))
	}
}

func (s *session) event(reason, note string) {
	// The API shows only the first note of events with the same reason.
	for i, e := range s.result.Events {
		if e.Reason == reason {
			s.result.Events[i].Note = e.Note + "; " + note
			return
		}
	}
	s.result.Events = append(s.result.Events, Event{reason, note})
}

// lasting reports whether every member has run with the CAs of a connection for long enough, and whether its certificates have been
// unchanged for as long.
func (s *session) lasting(connection v1alpha1.TLSConnection, current pki.State) (trusted, loaded bool) {
	t := maps.Clone(s.timers.Of(s.Etcd))
	cas := t.with("CAs "+string(connection), fingerprint(current.Bundle...), s.now)
	certificates := t.with("certificates "+string(connection), fingerprint(leaves(current)...), s.now)
	s.timers.Set(s.Etcd, t)
	trusted = cas && (s.withoutRollouts() || t.lasted(members))
	return trusted, trusted && certificates
}

// inUse reports whether members have served with the certificates of a connection.
func inUse(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, connection v1alpha1.TLSConnection) bool {
	if set == nil {
		return etcd.Status.ClusterID != "" && etcd.Status.Conditions.IsTrue(v1alpha1.ConditionTLSReady)
	}
	for _, volume := range set.Spec.Template.Spec.Volumes {
		if volume.Secret != nil && volume.Secret.SecretName == etcd.CASecret(connection) {
			return etcd.Status.ClusterID != ""
		}
	}
	return false
}

// stopped reports whether a cluster has no members.
func stopped(s *cluster.Snapshot) bool { return s == nil || s.Replicas() == 0 && len(s.Surplus) == 0 }
