// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// keepUntilLeft keeps a deleted Etcd until its members have left the source cluster.
func (p *pass) keepUntilLeft(ctx context.Context) error {
	return p.leaver.Keep(ctx, p.etcd, p.found.Snapshot, p.found.Adoption.Frozen)
}

// leave removes the members of a deleted Etcd from the source cluster, and records in the status what this waits for.
func (p *parts) leave(ctx context.Context, etcd *v1alpha1.Etcd) (ctrl.Result, error) {
	why, after, err := p.leaver.Leave(ctx, etcd)
	switch {
	case errors.Is(err, state.ErrBehind) || apierrors.IsConflict(err):
		return ctrl.Result{RequeueAfter: retryConflict}, nil
	case err != nil || why == "":
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	next := *etcd.Status.DeepCopy()
	c := conditions.False(v1alpha1.ConditionBootstrappedWithExistingCluster, v1alpha1.ReasonLeavingSource,
		"The Etcd is deleted, and kept until its members have left the source cluster: %s.", why)
	c.LastTransitionTime = metav1.NewTime(p.Clock.Now())
	next.Conditions.Set(c)
	if _, err = p.status.write(ctx, etcd, next); err != nil && !apierrors.IsConflict(err) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after}, nil
}
