// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/component"
	"github.com/etcd-foreman/etcd-foreman/internal/controller/upkeep"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/plain"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// observation is what the status of an Etcd is made from.
type observation struct {
	// snapshot is nil when there is no StatefulSet.
	snapshot *cluster.Snapshot
	// tasks of the Etcd, of every type and state.
	tasks []v1alpha1.EtcdOperatorTask
	// claims of the members that exist.
	claims []claim
	// current: the spec was applied, and the StatefulSet controller has seen it.
	current bool
	tls     tlsLook
	// inTheWay are objects of somebody else that keep those of the Etcd from being written.
	inTheWay []ownership.Foreign
	// specErr is why the spec could not be applied, if it could not.
	specErr error
	// scheduleErr is what is wrong with spec.etcd.defragmentationSchedule.
	scheduleErr error
	// wanted is the number of members that the spec asks for, and size that of the StatefulSet now.
	wanted int32
	size   sizing
	// hibernation is the record of a sleep without volumes, where there is to be one; begins: the cluster wakes up from it.
	hibernation *v1alpha1.Hibernation
	begins      bool
	// further conditions.
	further []metav1.Condition
	// lostFor is for how long the quorum has been gone.
	lostFor time.Duration
	now     metav1.Time
}

// operationReconcile is the name of the only operation on an Etcd that is not a task.
const operationReconcile = "Reconcile"

// reconcileStatus writes the status when it has changed, and returns after how long to look again.
func (r *Reconciler) reconcileStatus(ctx context.Context, p *pass) (time.Duration, error) {
	etcd := p.etcd
	key, now := client.ObjectKeyFromObject(etcd), r.Clock.Now()
	var err error
	if p.tasks, err = tasksOf(ctx, r.Client, etcd); err != nil {
		return 0, err
	}
	_, scheduleErr := upkeep.DefragmentationSchedule(etcd)
	o := observation{
		snapshot:    p.snapshot,
		tasks:       p.tasks,
		claims:      p.claims,
		tls:         p.tls,
		current:     p.current(),
		inTheWay:    p.obstructedBy(),
		specErr:     p.specErr,
		scheduleErr: scheduleErr,
		wanted:      etcd.Spec.Replicas,
		size:        p.size,
		lostFor:     r.memory.lostFor(key, p.snapshot == nil || quorate(p.snapshot), now),
		hibernation: p.hibernation,
		begins:      p.begins,
		further:     p.further,
		now:         metav1.NewTime(now),
	}
	next := nextStatus(etcd, o)
	if etcd.Status.Recovery != nil && next.Recovery == nil {
		// Members then remove what they had before. The cache may not show the task yet that keeps it.
		if o.tasks, err = tasksOf(ctx, r.APIReader, etcd); err != nil {
			return 0, err
		}
		next = nextStatus(etcd, o)
	}
	before := etcd.Status
	poll := pollAfter(&next)
	pending, err := r.writeStatus(ctx, etcd, next)
	if err == nil {
		r.tellOfTLS(etcd, &before, &etcd.Status)
		r.tellOfHibernation(etcd, &before, &etcd.Status)
		r.tellOfOwnership(etcd, &before, &etcd.Status)
	}
	if pending > 0 {
		poll = min(poll, pending)
	}
	return poll, err
}

// nextStatus is the status that follows from an observation and the present status. It is pure.
func nextStatus(etcd *v1alpha1.Etcd, o observation) v1alpha1.EtcdStatus {
	next := *etcd.Status.DeepCopy()
	if o.current {
		next.ObservedGeneration = etcd.Generation
	}
	next.LastErrors = lastErrors(etcd.Status.LastErrors, o)
	if s := o.snapshot; s != nil {
		next.Members = members(next.Members, s, o.now)
		countReplicas(&next, s)
		// The ID changes only when the cluster begins anew.
		begins := next.ClusterID == "" || next.Recovery != nil && next.ClusterID == next.Recovery.PreviousClusterID
		if begins && quorate(s) && s.Cluster.ID != 0 {
			next.ClusterID = fmt.Sprintf("%x", s.Cluster.ID)
		}
		if quorate(s) {
			next.ClusterSize = clusterSize(next.ClusterSize, s)
		}
	}
	next.Hibernation = hibernation(next.Hibernation, next.ClusterID, o)
	next.Recovery = clusterRecovery(etcd, next.Recovery, next.ClusterID, o)
	if etcd.Spec.Replicas > 0 && next.Hibernation == nil {
		meta.RemoveStatusCondition(&next.Conditions, v1alpha1.ConditionHibernated)
		o.further = slices.DeleteFunc(slices.Clone(o.further), func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionHibernated })
	}
	if !asked(etcd) {
		meta.RemoveStatusCondition(&next.Conditions, v1alpha1.ConditionTLSReady)
	}
	if component.BackupStore(etcd) == nil {
		meta.RemoveStatusCondition(&next.Conditions, v1alpha1.ConditionBackupReady)
	}
	for _, c := range append(conditions(etcd, &next, o), o.further...) {
		c.ObservedGeneration = next.ObservedGeneration
		c.LastTransitionTime = o.now
		meta.SetStatusCondition(&next.Conditions, c)
	}
	ready := meta.IsStatusConditionTrue(next.Conditions, v1alpha1.ConditionAllMembersReady) &&
		!meta.IsStatusConditionFalse(next.Conditions, v1alpha1.ConditionScaled) &&
		meta.IsStatusConditionTrue(next.Conditions, v1alpha1.ConditionAllMembersUpdated)
	next.Ready = &ready
	next.Rollout = currentRollout(&next, o)
	next.LastOperation = lastOperation(etcd, &next, o.now)
	return next
}

// lastErrors is why the spec is not carried out. What lasts keeps the time at which it was first seen: a status that
// tells the same is not written again.
func lastErrors(before []v1alpha1.LastError, o observation) []v1alpha1.LastError {
	e := v1alpha1.LastError{ObservedAt: o.now}
	switch {
	case len(o.inTheWay) > 0:
		e.Code, e.Description = v1alpha1.ErrForeignObject, strings.TrimSuffix(sentences(o.inTheWay), ".")
	case o.specErr != nil:
		e.Code, e.Description = v1alpha1.ErrApply, o.specErr.Error()
		if coded, ok := errors.AsType[*tasks.CodedError](o.specErr); ok {
			e.Code = coded.Code
		}
	case o.tls.problem != nil:
		e.Code, e.Description = v1alpha1.ErrTLSSecret, o.tls.problem.Error()
	case o.scheduleErr != nil:
		e.Code, e.Description = v1alpha1.ErrSchedule, o.scheduleErr.Error()
	default:
		return nil
	}
	e.Description = plain.Text(e.Description, maxMessage)
	for _, b := range before {
		if sameError(b, e) {
			e.ObservedAt = b.ObservedAt
		}
	}
	return []v1alpha1.LastError{e}
}

// lastOperation tells how far the newest spec has been carried out.
func lastOperation(etcd *v1alpha1.Etcd, status *v1alpha1.EtcdStatus, now metav1.Time) *v1alpha1.LastOperation {
	next := v1alpha1.LastOperation{Name: operationReconcile, LastTransitionTime: now}
	switch {
	case len(status.LastErrors) > 0:
		next.State, next.Reason = v1alpha1.OperationStateFailed, status.LastErrors[0].Description
	case status.ObservedGeneration == etcd.Generation:
		next.State, next.Reason = v1alpha1.OperationStateCompleted, "The newest spec is applied."
	case specSuspended(etcd):
		next.State, next.Reason = v1alpha1.OperationStatePending, "The annotation "+v1alpha1.AnnotationSuspendSpecReconcile+" suspends the spec."
	default:
		next.State, next.Reason = v1alpha1.OperationStateInProgress, "The newest spec is being applied."
	}
	if b := status.LastOperation; b != nil && b.State == next.State {
		next.LastTransitionTime = b.LastTransitionTime
	}
	return &next
}

// hibernation is the record of a sleep without volumes. It does not change before the cluster has begun anew.
func hibernation(recorded *v1alpha1.Hibernation, clusterID string, o observation) *v1alpha1.Hibernation {
	switch {
	case recorded == nil:
		return o.hibernation
	case recorded.ClusterID != clusterID:
		return nil
	}
	return recorded
}

func countReplicas(status *v1alpha1.EtcdStatus, s *cluster.Snapshot) {
	status.Replicas = int32(s.Replicas())
	status.CurrentReplicas, status.ReadyReplicas, status.UpdatedReplicas = 0, 0, 0
	for _, o := range s.Ordinals {
		if o.Pod == nil {
			continue
		}
		status.CurrentReplicas++
		if o.Pod.AllContainersReady {
			status.ReadyReplicas++
		}
		if o.Pod.Revision == s.StatefulSet.UpdateRevision {
			status.UpdatedReplicas++
		}
	}
}

// pollAfter is after how long to look again where no event tells.
func pollAfter(status *v1alpha1.EtcdStatus) time.Duration {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHibernated); c != nil && (c.Reason == v1alpha1.ReasonHibernating || c.Reason == v1alpha1.ReasonWakingUp) {
		return pollTroubled
	}
	for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionScaled} {
		c := meta.FindStatusCondition(status.Conditions, condition)
		if c == nil || c.Status == metav1.ConditionTrue || c.Reason == v1alpha1.ReasonHibernated || c.Reason == v1alpha1.ReasonScaleInRefused {
			continue
		}
		return pollTroubled
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionTLSReady); c != nil && c.Status != metav1.ConditionTrue {
		return pollTroubled
	}
	return pollWell
}
