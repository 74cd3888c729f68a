// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcd keeps up the objects and the status of Etcds. It alone owns the update strategy of their
// StatefulSets. It does not touch pods: what becomes of those that are outdated is decided by the
// StatefulSet controller under RollingUpdate, and by a rollout task under OnDelete.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agentauth"
	"github.com/etcd-foreman/etcd-foreman/internal/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner owns what this controller writes, by whatever kind of request.
const fieldOwner = apply.Manager

// How long to wait where no event tells.
const (
	// retryConflict is for the cache to catch up.
	retryConflict = time.Second
	// pollTroubled is for a cluster that is not well: etcd has no events.
	pollTroubled = 2 * time.Second
	// pollWell is for one that is.
	pollWell = 30 * time.Second
)

// Observer takes Snapshots of an Etcd; it returns observe.ErrNoStatefulSet when there is none.
type Observer interface {
	Observe(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error)
}

// Reconciler keeps up the objects and the status of Etcds.
type Reconciler struct {
	// Client reads from a cache.
	Client client.Client
	// APIReader reads from the API server.
	APIReader client.Reader
	Observer  Observer
	// Locker is shared with the task engine: no task takes a step while an update strategy changes, or while members are
	// stopped or started.
	Locker *lock.Locks
	// Dialer and Credentials connect to members.
	Dialer      etcdclient.Dialer
	Credentials *certificates.Credentials
	// Recorder of events.
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Images for an Etcd that does not name its own.
	Images configv1alpha1.Images
	// AgentTrust says whom the agents of an Etcd let in; nil to tell them nothing.
	AgentTrust func(*v1alpha1.Etcd) agentauth.Trust
	// Allowed returns why the operator's configuration refuses an Etcd; nil if it does not. It may be nil.
	Allowed func(*v1alpha1.Etcd) error
	// QuorumAwareUpdates is the feature gate QuorumAwareUpdatesWithOnDelete.
	QuorumAwareUpdates bool

	memory memory
}

// Reconcile brings one Etcd's objects and status to where they should be.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	etcd := &v1alpha1.Etcd{}
	if err := r.Client.Get(ctx, req.NamespacedName, etcd); apierrors.IsNotFound(err) {
		r.memory.forget(req.NamespacedName)
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading Etcd %s: %w", req, err)
	}
	if etcd.DeletionTimestamp != nil {
		// The garbage collector removes its objects.
		return ctrl.Result{}, nil
	}
	after, err := r.reconcile(ctx, etcd)
	switch {
	case apierrors.IsConflict(err):
		ctrl.LoggerFrom(ctx).V(1).Info("Something has changed meanwhile, trying again", "reason", err.Error())
		return ctrl.Result{RequeueAfter: retryConflict}, nil
	case namespaceGoes(err):
		return ctrl.Result{}, nil
	case err != nil:
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: after, Priority: priorityOf(after)}, nil
}

// namespaceGoes tells whether something was refused because the namespace is being deleted. Its objects go
// one by one, and the Etcd need not be the first.
func namespaceGoes(err error) bool {
	return apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
}

// observe takes a Snapshot; nil when there is no StatefulSet.
func (r *Reconciler) observe(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	snapshot, err := r.Observer.Observe(ctx, reader, etcd)
	if errors.Is(err, observe.ErrNoStatefulSet) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("observing Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	return snapshot, nil
}

// statefulSet is the StatefulSet of an Etcd as a reader sees it; nil when there is none, or one that is not the Etcd's own.
func statefulSet(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	if err := reader.Get(ctx, client.ObjectKeyFromObject(etcd), set); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading StatefulSet %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	if ownership.Of(etcd, "StatefulSet", set) != nil {
		return nil, nil
	}
	return set, nil
}
