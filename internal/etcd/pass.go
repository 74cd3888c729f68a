// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// pass is one reconcile of one Etcd: what it has found, and its outcome.
type pass struct {
	*parts
	reconciler *Reconciler
	etcd       *v1alpha1.Etcd
	// found becomes the status.
	found   status.Input
	session *apply.Session
	// held: a task holds the StatefulSet at zero replicas, or would if the StatefulSet existed.
	held bool
	// refused: the operator's configuration refuses the Etcd, or its members serve as another cluster than the recorded one.
	refused bool
	// specFailed: the spec could not be carried out completely.
	specFailed bool
	// recoveryReads are the live reads that end the recovery in the status or begin a restore; nil if there were none.
	recoveryReads *state.Live
	// hung is how often in a row the members have hung before this pass.
	hung hanging
	// rollWaits: the update strategy changes once every member participates.
	rollWaits bool
	// errs are the errors of the stages; open are the codes of stages that were skipped or have failed.
	errs []error
	open []v1alpha1.ErrorCode
}

// stage is a part of a reconcile.
type stage struct {
	name string
	// code of its errors that have none of their own.
	code v1alpha1.ErrorCode
	run  func(*pass, context.Context) error
	// passable: later stages do not depend on it, so an error does not end the reconcile.
	passable bool
	// independent: later stages do not use its result, so a conflict does not end the reconcile either.
	independent bool
}

// The stages of a reconcile, in order. Each decides on what was read at the beginning; those that stop or start members, or delete
// something, read again from the API server.
var stages = []stage{
	{name: "read", code: v1alpha1.ErrObserve, run: (*pass).read},
	{name: "adoption", code: v1alpha1.ErrApply, run: (*pass).adopt},
	{name: "ownership", code: v1alpha1.ErrObserve, run: (*pass).checkOwners},
	{name: "update strategy", code: v1alpha1.ErrApply, run: (*pass).keepStrategy, passable: true, independent: true},
	{name: "hold", code: v1alpha1.ErrApply, run: (*pass).hold},
	{name: "members", code: v1alpha1.ErrApply, run: (*pass).changeMembers},
	{name: "policy", run: (*pass).checkPolicy},
	{name: "TLS", code: v1alpha1.ErrApply, run: (*pass).planTLS, passable: true},
	{name: "wake-up", code: v1alpha1.ErrApply, run: (*pass).wakeUp},
	{name: "source cluster", code: v1alpha1.ErrApply, run: (*pass).keepUntilLeft},
	{name: "first start", code: v1alpha1.ErrApply, run: (*pass).lookFirst},
	{name: "spec", code: v1alpha1.ErrApply, run: (*pass).applySpec, passable: true},
	{name: "fence", code: v1alpha1.ErrApply, run: (*pass).fence, passable: true, independent: true},
	{name: "volumes", code: v1alpha1.ErrApply, run: (*pass).growVolumes, passable: true, independent: true},
	{name: "hibernation", code: v1alpha1.ErrApply, run: (*pass).hibernate, passable: true, independent: true},
	{name: "peer URLs", code: v1alpha1.ErrPeerURLs, run: (*pass).listPeerURLs, passable: true, independent: true},
	{name: "leases", code: v1alpha1.ErrApply, run: (*pass).removeLeases, passable: true, independent: true},
	{name: "recovery", code: v1alpha1.ErrObserve, run: (*pass).confirmRecovery, passable: true, independent: true},
}

// followUps are the stages that run after the status is written and depend on it.
var followUps = []stage{
	{name: "instructions", code: v1alpha1.ErrApply, run: (*pass).instructMembers},
	{name: "advertised URLs", code: v1alpha1.ErrPeerURLs, run: (*pass).listAdvertised, passable: true},
	{name: "operation", code: v1alpha1.ErrApply, run: (*pass).removeOperation},
}

// errSkipped ends a stage that lacked its input: it has neither failed nor succeeded.
var errSkipped = errors.New("skipped")

// run runs the stages, and writes the status whether or not they succeed.
func (p *pass) run(ctx context.Context) (ctrl.Result, error) {
	complete, interrupted := p.through(ctx, stages)
	if !complete {
		p.failures.endWaits(p.etcd, followUps)
	}
	open, first := p.open, !p.followed.Of(p.etcd)
	if first {
		p.leaveOpen(followUps)
	}
	after, err := p.writeStatus(ctx, complete)
	if complete && err == nil {
		p.open = open
		before := p.reported()
		var again error
		if complete, again = p.through(ctx, followUps); again != nil {
			interrupted = again
		}
		if !complete {
			p.leaveOpen(followUps)
		}
		p.followed.Set(p.etcd, complete || !first)
		if first || p.reported() != before {
			after, err = p.writeStatus(ctx, true)
		}
	}
	return p.result(ctx, after, interrupted, errors.Join(append(p.errs, err)...))
}

// through runs the stages until one that is not passable fails, or one interrupts the reconcile. An interruption is not a failure: the
// cache has to catch up first.
func (p *pass) through(ctx context.Context, stages []stage) (complete bool, interrupted error) {
	for i, s := range stages {
		err := s.run(p, ctx)
		if err != nil && ctx.Err() != nil {
			// The operator is stopping, or the reconcile has taken too long.
			return false, ctx.Err()
		}
		behind, rest := errors.Is(err, state.ErrBehind), stages[i+1:]
		if !behind {
			p.failures.endWaits(p.etcd, stages[i:i+1])
		}
		switch {
		case s.independent && apierrors.IsConflict(err):
			interrupted = err
			continue
		case interrupts(err):
			if behind {
				p.failures.await(p.etcd, s, err, p.Clock.Now())
			}
			p.failures.endWaits(p.etcd, rest)
			return false, err
		case errors.Is(err, errSkipped):
			p.leaveOpen([]stage{s})
			continue
		}
		p.failures.note(p.etcd, s, err, p.Clock.Now())
		if err == nil {
			continue
		}
		p.errs = append(p.errs, err)
		p.leaveOpen([]stage{s})
		if !s.passable {
			p.failures.endWaits(p.etcd, rest)
			return false, nil
		}
	}
	return true, interrupted
}

// leaveOpen records stages whose earlier errors are not known to be resolved.
func (p *pass) leaveOpen(stages []stage) {
	for _, s := range stages {
		p.open = append(p.open, s.code)
	}
}

// interrupts reports whether an error of a stage only means that the cache has to catch up first, or that the namespace is being deleted.
func interrupts(err error) bool {
	return errors.Is(err, state.ErrBehind) || errors.Is(err, context.Canceled) || apierrors.IsConflict(err) || namespaceTerminates(err)
}

// namespaceTerminates reports whether a request was rejected because the namespace is being deleted. Its objects are deleted one by
// one, and the Etcd need not be the first.
func namespaceTerminates(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// result returns the result of a reconcile.
func (p *pass) result(ctx context.Context, after time.Duration, interrupted, err error) (ctrl.Result, error) {
	switch {
	case namespaceTerminates(err) || namespaceTerminates(interrupted):
		return ctrl.Result{}, nil
	case apierrors.IsConflict(err):
		interrupted, err = err, nil
	}
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case interrupted != nil:
		ctrl.LoggerFrom(ctx).V(1).Info("Retrying, because something has changed", "reason", interrupted.Error())
		return ctrl.Result{RequeueAfter: retryConflict, Priority: priorityOf(retryConflict, false)}, nil
	}
	return ctrl.Result{RequeueAfter: after, Priority: priorityOf(after, p.hanging.Of(p.etcd).times > 0 && !p.rollWaits)}, nil
}

// reported returns what the status says of the reconcile itself, in a form that can be compared.
func (p *pass) reported() string {
	foreign := p.session != nil && len(p.session.Foreign()) > 0
	return p.failures.summary(p.etcd, p.Clock.Now(), foreign)
}

// writeStatus writes the status that follows from what was found, and returns when to reconcile again. An incomplete reconcile only adds
// its errors: members are instructed by the status, so nothing else in it changes on incomplete evidence.
func (p *pass) writeStatus(ctx context.Context, complete bool) (time.Duration, error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	now := p.Clock.Now()
	reported := p.failures.reported(p.etcd, now)
	if !complete {
		_, err := p.status.write(ctx, p.etcd, status.Interrupted(p.etcd, reported, metav1.NewTime(now)))
		return 0, err
	}
	p.found.Open = p.open
	p.found.Failures, p.found.Now = reported, metav1.NewTime(now)
	p.found.LostFor = p.status.lostFor(p.etcd, p.found.Snapshot == nil || p.found.Snapshot.Quorate(), now)
	_, p.found.ScheduleErr = component.DefragmentationSchedule(p.etcd)
	p.found.Foreign, p.found.OwnersChecked = p.session.Foreign(), p.session.Checked()
	if p.found.TLS != nil {
		p.found.Foreign = slices.Concat(p.found.Foreign, p.found.TLS.Managed.Foreign)
	}
	next := status.Next(p.found)
	if p.decidesOnRecovery(next.Recovery) && (p.recoveryReads == nil || p.recoveryReads.Fresh(ctx) != nil) {
		next.Recovery = p.etcd.Status.Recovery
	}
	after := max(pollAfter(&next), p.hanging.Of(p.etcd).wait())
	pending, err := p.status.write(ctx, p.etcd, next)
	if pending > 0 {
		after = min(after, pending)
	} else if err == nil && p.found.Snapshot != nil {
		p.looked.Set(p.etcd, p.found.Snapshot.At)
	}
	if p.rollWaits {
		// The time that a member has been away only counts while it is observed.
		after = min(after, pollTroubled)
	}
	if len(p.found.Foreign)+len(p.found.Volumes.Foreign()) > 0 || p.found.Adoption.Refused {
		after = min(after, apply.RecheckForeign)
	}
	return after, err
}
