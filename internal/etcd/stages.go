// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/firststart"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/scale"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/status"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/volumes"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (p *pass) read(ctx context.Context) (err error) {
	began := p.Clock.Now()
	p.found.State, err = p.Read(ctx, p.etcd)
	if err == nil {
		now := p.Clock.Now()
		p.hung = p.hanging.Of(p.etcd)
		p.hanging.Set(p.etcd, p.hung.next(hangs(p.found.Snapshot, now.Sub(began)), now))
	}
	return err
}

func (p *pass) adopt(ctx context.Context) (err error) {
	p.found.Adoption, err = p.adopter.Reconcile(ctx, p.found.State)
	return err
}

// checkOwners begins the session that writes the objects. Nothing is written while etcd-druid writes to an Etcd that was adopted from it.
func (p *pass) checkOwners(ctx context.Context) (err error) {
	p.session, err = p.objects.Begin(ctx, p.etcd, p.found.StatefulSet, p.found.Manager)
	if err == nil && p.found.Adoption.Contested != nil {
		p.session.Obstruct(*p.found.Adoption.Contested)
	}
	return err
}

func (p *pass) keepStrategy(ctx context.Context) (err error) {
	p.rollWaits, err = p.strategy.Reconcile(ctx, p.found.State, p.session)
	return err
}

func (p *pass) hold(ctx context.Context) (err error) {
	p.held, err = p.scaler.Hold(ctx, p.found.State, p.session)
	return err
}

// changeMembers scales the StatefulSet for the task that changes the members.
func (p *pass) changeMembers(ctx context.Context) error {
	if p.held {
		return nil
	}
	return p.scaler.Follow(ctx, p.found.State, p.session)
}

func (p *pass) removeLeases(ctx context.Context) error {
	return p.scaler.RemoveLeases(ctx, p.found.State)
}

// checkPolicy suspends the spec of an Etcd that the operator's configuration refuses, and of one whose members serve as another cluster
// than the recorded one, since they would refuse their data when they restart. The members are still observed, and members that a task has
// stopped are started again unchanged.
func (p *pass) checkPolicy(context.Context) error {
	if p.reconciler.Allowed != nil {
		p.found.Refused = p.reconciler.Allowed(p.etcd)
	}
	p.refused = p.found.Refused != nil || status.Unexplained(p.etcd, p.found.Snapshot) != nil
	p.specFailed = p.refused
	return nil
}

// planTLS reconciles and checks the TLS Secrets, except those of an Etcd that was refused before it had members.
func (p *pass) planTLS(ctx context.Context) error {
	if p.found.Refused != nil && p.found.StatefulSet == nil {
		return errSkipped
	}
	frozen := p.etcd.SpecSuspended() || p.found.Adoption.Frozen || p.refused || len(p.session.Foreign()) > 0
	plan, err := p.tls.Plan(ctx, p.found.State, frozen)
	p.status.reportManagedTLS(p.etcd, plan.Managed.Events)
	if err != nil {
		p.specFailed = true
		return err
	}
	p.found.TLS = &plan
	return nil
}

func (p *pass) wakeUp(ctx context.Context) error {
	if p.refused {
		return errSkipped
	}
	wake, err := p.hibernator.WakeUp(ctx, p.found.State, p.held, p.session)
	if err == nil && !p.held {
		p.found.WakeUp = &wake
	}
	return err
}

// lookFirst surveys the volumes before the first start of the members.
func (p *pass) lookFirst(ctx context.Context) (err error) {
	if p.specFailed || p.held || p.etcd.SpecSuspended() || p.found.Adoption.Frozen {
		return nil
	}
	began := p.Clock.Now()
	p.found.FirstStart, err = p.starter.Look(ctx, p.found.State, p.found.TLS.Stage, p.session)
	if now := p.Clock.Now(); p.etcd.SourceStays() && now.Sub(began) >= hangsAfter {
		// The source hangs: ask it less and less often.
		p.hanging.Set(p.etcd, p.hung.next(true, now))
	}
	return err
}

// applySpec applies the objects, unless the spec is suspended or a task keeps all members stopped: then the spec waits until they
// are started again.
//
// Changes are applied if the spec has changed or an annotation requests it, so that an upgrade of the operator does not replace the pods of
// every cluster. Objects that others have removed or changed are corrected at any time. While a Secret is unusable, nothing is changed and
// no StatefulSet is created.
func (p *pass) applySpec(ctx context.Context) error {
	if p.specFailed || p.held {
		return errSkipped
	}
	if err := p.apply(ctx); err != nil {
		p.specFailed = !interrupts(err)
		return err
	}
	if p.creates() && len(p.session.Foreign()) == 0 && unadopted(p.etcd, p.found.StatefulSet) {
		return state.Awaits("StatefulSet %s was created beside pods that it has yet to adopt, and its controller has not seen it: if this persists, check the kube-controller-manager", client.ObjectKeyFromObject(p.etcd))
	}
	return nil
}

func (p *pass) apply(ctx context.Context) error {
	if p.etcd.SpecSuspended() || p.found.Adoption.Frozen {
		p.found.Size = ptr.To(scale.Waiting(p.etcd, p.found.Snapshot))
		return nil
	}
	set, plan := p.found.StatefulSet, p.found.TLS
	ctx, change, err := p.scaler.Begin(ctx, p.found.State, p.found.FirstStart, *p.found.WakeUp)
	defer change.End()
	if err != nil {
		return err
	}
	p.found.Size = &change.Size
	in := component.Input{
		Etcd: p.etcd, Images: p.reconciler.Images, TLS: p.reconciler.TLS, Replicas: change.Replicas, Members: p.etcd.MostMembers(), Strategy: p.strategy.Wanted(),
		Capacity: p.etcd.Spec.Capacity(), Class: p.etcd.Spec.Class(), Retention: retention(p.etcd, set),
		PodsManagedBy: p.found.PodsManagedBy, PeerTLS: plan.Stage, Authorities: plan.Facts.Authorities, Converting: p.found.Adoption.Converting,
	}
	if set != nil {
		// Only their own stages change these.
		in.Strategy, in.Capacity, in.Class = set.Spec.UpdateStrategy.Type, volumes.TemplateCapacity(set), volumes.TemplateClass(set)
	}
	settled, err := p.session.Apply(ctx, apply.Request{
		Input: in, Due: plan.Problem == nil && (plan.Due || state.Due(p.etcd)),
		// Pods cannot start without usable Secrets.
		NoStatefulSet: plan.Problem != nil,
		Instructions:  func(ctx context.Context) (map[string]string, error) { return p.instructor.Instructions(ctx, p.etcd) },
		Permit: func(ctx context.Context, base *appsv1.StatefulSet) error {
			if err := change.Permit(ctx, base); err != nil || !firststart.Starts(base, change.Replicas) {
				return err
			}
			return p.starter.Start(ctx, p.etcd, p.found.FirstStart, p.session)
		},
	})
	// The spec is not settled while the cluster grows to its size or its volumes move, so that each further member is due.
	p.found.Settled = err == nil && settled && change.Why == "" && !in.Converting && len(p.session.Foreign()) == 0 && len(volumes.Misplaced(p.found.State)) == 0
	return err
}

// fence keeps clients away from the members, or readmits them. It runs after the spec is applied, which may have readmitted them.
func (p *pass) fence(ctx context.Context) error {
	return p.fencer.Reconcile(ctx, p.found.State)
}

// creates reports whether a missing StatefulSet is created.
func (p *pass) creates() bool {
	return !p.specFailed && p.found.TLS.Problem == nil && !p.etcd.SpecSuspended() && !p.found.Adoption.Frozen
}

// unadopted reports whether the StatefulSet of a cluster that has served is missing, or so new that its controller has not seen it:
// its pods may have no owner yet.
func unadopted(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) bool {
	return etcd.Status.ClusterID != "" && (set == nil || set.Status.ObservedGeneration == 0)
}

// retention returns the retention policy of the claims for when the StatefulSet is deleted or scaled in.
//
// For scaling in it is always Retain: the operator also scales to zero for reasons other than hibernation, a user who does so must not lose
// data, and a hibernation deletes claims by a record of its own. It is Retain for both while the StatefulSet has to be replaced because of
// its claim template.
func retention(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) v1alpha1.PersistentVolumeClaimRetentionPolicy {
	p := v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenDeleted: etcd.Spec.Retention().WhenDeleted, WhenScaled: v1alpha1.VolumesRetained}
	if volumes.TemplateOutdated(etcd, set) {
		p.WhenDeleted = v1alpha1.VolumesRetained
	}
	return p
}

func (p *pass) growVolumes(ctx context.Context) (err error) {
	may := volumes.Permission{Grow: !p.refused && !p.etcd.SpecSuspended() && !p.found.Adoption.Frozen, Replace: p.found.TLS != nil && p.creates()}
	p.found.Volumes, err = p.volumes.Reconcile(ctx, p.found.State, p.session, may)
	// Volumes that have to move are only found while the spec is due, so it stays due until they have moved.
	p.found.Settled = p.found.Settled && err == nil && p.found.Volumes.Moved() == nil
	p.specFailed = p.specFailed || err != nil
	return err
}

func (p *pass) hibernate(ctx context.Context) (err error) {
	if p.found.Adoption.Frozen {
		return errSkipped
	}
	p.found.Hibernation, err = p.hibernator.Hibernate(ctx, p.found.State, p.held, p.found.Settled, p.session)
	return err
}

func (p *pass) listPeerURLs(ctx context.Context) error {
	if p.specFailed || p.found.Adoption.Frozen {
		return errSkipped
	}
	return p.tls.ListPeerURLs(ctx, p.found.State, *p.found.TLS)
}

// listAdvertised lists the members with the further peer URLs that the status records.
func (p *pass) listAdvertised(ctx context.Context) error {
	if p.specFailed || p.found.Adoption.Frozen {
		return errSkipped
	}
	return p.tls.ListAdvertised(ctx, p.found.State, *p.found.TLS)
}

// confirmRecovery reads the tasks and the members from the API server before a recovery is dropped from the status: members then remove
// their previous data, or continue as the previous cluster, and the cache may not show the task that keeps it yet. It does the same before
// the status records another recovery: the cache may not show yet that the task of a restore was deleted, which aborts the restore, or that
// a newer task has replaced its recovery.
func (p *pass) confirmRecovery(ctx context.Context) error {
	if !p.decidesOnRecovery(status.Next(p.found).Recovery) {
		return nil
	}
	reads := p.Live()
	tasks, err := etcdtasks.List(ctx, reads, p.etcd)
	if err != nil {
		return fmt.Errorf("reading whether a task keeps the recovery: %w", err)
	}
	snapshot, err := p.Observe(ctx, reads, p.etcd)
	if err != nil {
		return fmt.Errorf("observing whether the recovery is over: %w", err)
	}
	p.found.Tasks, p.found.Snapshot, p.recoveryReads = tasks, snapshot, &reads
	return nil
}

// decidesOnRecovery reports whether the next status drops the recovery, or begins another one.
func (p *pass) decidesOnRecovery(next *v1alpha1.ClusterRecovery) bool {
	recorded := p.etcd.Status.Recovery
	if next == nil || recorded == nil {
		return next != recorded
	}
	return next.TaskUID != recorded.TaskUID
}

// instructMembers writes what the status says of the cluster to the members' ConfigMap.
func (p *pass) instructMembers(ctx context.Context) error {
	if err := p.instructor.Write(ctx, p.Client, p.etcd, p.session); err != nil || p.held || p.found.Adoption.Frozen {
		return err
	}
	return p.instructor.List(ctx, p.etcd, p.found.StatefulSet, p.session)
}

// removeOperation removes the annotations that requested an operation, once it is done.
func (p *pass) removeOperation(ctx context.Context) error {
	renewed := p.found.TLS != nil && p.found.TLS.Managed.RenewalBegun
	if !renewed && (!p.found.Current() || !state.OperationRequested(p.etcd)) {
		return nil
	}
	// The optimistic lock preserves a request that was made since.
	patch := client.MergeFromWithOptions(p.etcd.DeepCopy(), client.MergeFromWithOptimisticLock{})
	for _, key := range []string{v1alpha1.AnnotationOperation, v1alpha1.AnnotationGardenerOperation} {
		switch p.etcd.Annotations[key] {
		case v1alpha1.OperationReconcile:
			if p.found.Current() {
				delete(p.etcd.Annotations, key)
			}
		case v1alpha1.OperationRenewCA:
			if renewed {
				delete(p.etcd.Annotations, key)
			}
		}
	}
	if err := p.Client.Patch(ctx, p.etcd, patch, apply.Manager); err != nil {
		return fmt.Errorf("removing the operation annotation of Etcd %s: %w", client.ObjectKeyFromObject(p.etcd), err)
	}
	return nil
}
