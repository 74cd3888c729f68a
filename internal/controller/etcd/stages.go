// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pass is one reconcile of one Etcd: what its stages have found so far.
type pass struct {
	etcd *v1alpha1.Etcd
	// set is nil when there is no StatefulSet.
	set *appsv1.StatefulSet
	// held: a task holds the StatefulSet at zero replicas, or would if there were one.
	held bool
	tls  tlsLook
	// asleep is why a cluster that is to wake up is not started yet; empty when it may be. begins: one that slept without
	// volumes begins anew.
	asleep string
	begins bool
	size   sizing
	// scale is asked before the StatefulSet is written.
	scale *scaling
	// proof is what the API server said of all objects; nil as long as no stage was about to write.
	proof *apply.Proof
	// settled: each object is as it was applied for the present spec. compared: they were compared with those in the cache.
	settled, compared bool
	claims            []claim
	// foreignClaims of members are not the Etcd's own.
	foreignClaims []ownership.Foreign
	// snapshot is nil when there is no StatefulSet.
	snapshot *cluster.Snapshot
	// tasks of the Etcd, of every type and state. They are known once the status is written.
	tasks []v1alpha1.EtcdOperatorTask
	// hibernation is the record of a sleep without volumes, where there is to be one.
	hibernation *v1alpha1.Hibernation
	// further conditions.
	further []metav1.Condition
	// specErr is why the spec could not be carried out: the status tells it.
	specErr error
	// strategyErr is told by the log alone: the strategy is no part of the spec.
	strategyErr error
	// rollWaits: the update strategy is to change once every member participates.
	rollWaits bool
	// after is after how long to look again; 0 when an event will tell.
	after time.Duration
}

// current: the spec was applied, and the StatefulSet controller has seen it.
func (p *pass) current() bool {
	return p.settled && p.snapshot != nil && p.snapshot.StatefulSet.Observed && p.tls.arrived(p.etcd)
}

// makes tells whether a StatefulSet that is missing is made.
func (p *pass) makes() bool {
	return p.specErr == nil && p.tls.problem == nil && !specSuspended(p.etcd)
}

// errAgain ends a pass: something was changed just now, or the cache is behind the API server, and what follows has to see it.
var errAgain = errors.New("the cache is behind: something has changed and has to be seen first")

// reconcile goes through the stages, and returns after how long to look again. An error of a stage ends the pass,
// except where the stage itself leaves it in the pass.
func (r *Reconciler) reconcile(ctx context.Context, etcd *v1alpha1.Etcd) (time.Duration, error) {
	p := &pass{etcd: etcd}
	stages := []func(context.Context, *pass) error{
		r.findStatefulSet,
		r.recallObstruction,
		r.keepStrategy,
		r.keepHold,
		r.checkTLS,
		r.wake,
		r.applySpec,
		r.growVolumes,
		r.observeMembers,
		r.hibernate,
		r.observeBackups,
		r.listPeerURLs,
		r.writeDown,
		r.instructMembers,
		r.removeOperation,
	}
	refused := r.refuse(p)
	if refused {
		// Nothing of it is changed but its status.
		stages = []func(context.Context, *pass) error{r.findStatefulSet, r.observeMembers, r.observeBackups, r.writeDown}
	}
	for _, stage := range stages {
		switch err := stage(ctx, p); {
		case errors.Is(err, errAgain):
			return retryConflict, p.strategyErr
		case err != nil:
			return 0, errors.Join(p.strategyErr, p.specErr, err)
		}
	}
	if refused {
		// The status tells why, and no retry helps.
		return p.after, nil
	}
	return p.after, errors.Join(p.strategyErr, p.specErr)
}

func (r *Reconciler) findStatefulSet(ctx context.Context, p *pass) (err error) {
	p.set, err = statefulSet(ctx, r.Client, p.etcd)
	if err == nil && p.set == nil {
		// The cache may be late, and has none without the operator's labels.
		p.set, err = statefulSet(ctx, r.APIReader, p.etcd)
	}
	if err == nil && beingReplaced(p.set) {
		// Its end is an event, and what is said of the members before is still true.
		return errAgain
	}
	return err
}

func (r *Reconciler) keepStrategy(ctx context.Context, p *pass) error {
	changed, waits, err := r.reconcileStrategy(ctx, p)
	if changed {
		return errAgain
	}
	p.rollWaits, p.strategyErr = waits, err
	return nil
}

func (r *Reconciler) keepHold(ctx context.Context, p *pass) error {
	by, patch, err := lookAtHold(ctx, r.Client, p.etcd, p.set)
	if err != nil {
		return err
	}
	if patch == nil {
		p.held = by != nil
		if p.held && p.set == nil {
			// There is nothing to hold, or the StatefulSet of that name is somebody else's: the status tells of that one.
			_, err = r.owns(ctx, p)
		}
		return err
	}
	// What could not be started again is not stopped either.
	if owned, err := r.owns(ctx, p); err != nil || !owned {
		p.held = by != nil
		return err
	}
	if err := r.reconcileHold(ctx, p); err != nil {
		return err
	}
	return errAgain
}

func (r *Reconciler) checkTLS(ctx context.Context, p *pass) error {
	p.tls, p.specErr = r.lookAtTLS(ctx, p.etcd, p.set)
	return nil
}

// applySpec applies the objects. What is asked of members that are all stopped waits until they are started again.
func (r *Reconciler) applySpec(ctx context.Context, p *pass) error {
	if p.specErr == nil && !p.held {
		p.size, p.settled, p.specErr = r.reconcileSpec(ctx, p)
	}
	if errors.Is(p.specErr, errAgain) || apierrors.IsConflict(p.specErr) || namespaceGoes(p.specErr) {
		err := p.specErr
		p.specErr = nil
		return err
	}
	if !p.held && p.makes() && len(p.obstructedBy()) == 0 && replacement(p.etcd, p.set) {
		// It was made just now, or has not adopted its pods yet.
		return errAgain
	}
	return nil
}

func (r *Reconciler) growVolumes(ctx context.Context, p *pass) error {
	replaced, err := r.reconcileVolumes(ctx, p)
	if replaced {
		return errAgain
	}
	p.specErr = errors.Join(p.specErr, err)
	return nil
}

// observeMembers comes after the objects were compared, so that the snapshot is not older than they.
func (r *Reconciler) observeMembers(ctx context.Context, p *pass) (err error) {
	if p.set == nil && len(p.obstructedBy()) > 0 {
		// One that there is belongs to somebody else.
		return nil
	}
	p.snapshot, err = r.observe(ctx, r.Client, p.etcd)
	return err
}

func (r *Reconciler) observeBackups(ctx context.Context, p *pass) error {
	if component.BackupStore(p.etcd) == nil {
		return nil
	}
	leases, err := observe.ReadSnapshotLeases(ctx, r.Client, p.etcd)
	if err != nil {
		return err
	}
	before := meta.FindStatusCondition(p.etcd.Status.Conditions, v1alpha1.ConditionBackupReady)
	p.further = append(p.further, backupReady(before, leases, r.Clock.Now()))
	return nil
}

func (r *Reconciler) listPeerURLs(ctx context.Context, p *pass) error {
	if p.specErr == nil && p.tls.problem == nil && p.snapshot != nil {
		p.specErr = r.changePeerURLs(ctx, p.etcd, p.snapshot, peerURLChanges(p.tls.station, p.snapshot))
	}
	return nil
}

// writeDown writes the status.
func (r *Reconciler) writeDown(ctx context.Context, p *pass) (err error) {
	c, known := p.ownership()
	if known {
		p.further = append(p.further, c)
	}
	p.after, err = r.reconcileStatus(ctx, p)
	if p.rollWaits {
		// For how long a member has been away is known only to who looks.
		p.after = min(p.after, pollTroubled)
	}
	if known && c.Status == metav1.ConditionFalse {
		p.after = min(p.after, recheckObstruction)
	}
	return err
}

// instructMembers tells the members what the status now says of their cluster.
func (r *Reconciler) instructMembers(ctx context.Context, p *pass) error {
	known := p.proof != nil
	err := r.tellMembers(ctx, p, r.Client, p.etcd)
	if !known && len(p.obstructedBy()) > 0 {
		// The status has been written, and does not tell of it yet.
		p.after = retryConflict
	}
	return err
}
