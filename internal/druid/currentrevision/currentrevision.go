// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package currentrevision completes what Kubernetes before 1.37 leaves open when pods of a StatefulSet with OnDelete have been replaced:
// status.currentRevision stays at the old revision, and etcd-druid never considers the rollout complete. Once every pod is ready at
// the update revision, the controller writes it. Kubernetes 1.37 does so itself, before the patience of this package ends.
package currentrevision

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/base/pods"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// patience is how long the revision must have been stale.
	patience = 5 * time.Second
	// poll is the recheck interval, and maxGap the longest time between two checks without a gap.
	poll   = time.Second
	maxGap = 3 * time.Second
)

// Reconciler settles StatefulSets.
type Reconciler struct {
	// Client reads from the cache and writes to the API server, and Live reads from it.
	Client client.Client
	Live   client.Reader
	Locker *lock.Locks
	Clock  clock.PassiveClock
	// Rule decides whose pods the operator replaces.
	Rule replacer.Rule

	stale memory.PerEtcd[lasting.Timer[revision]]
}

// revision is an update revision of a StatefulSet.
type revision struct {
	set    types.UID
	update string
}

// Setup registers the controller with a manager.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	return ctrl.NewControllerManagedBy(mgr).Named("settle").WithOptions(controller.Options(concurrency)).For(&appsv1.StatefulSet{}).Complete(r)
}

// Reconcile settles a StatefulSet that has been stale for a while.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	key := request.NamespacedName
	set, etcd, err := r.read(ctx, r.Client, key)
	if err != nil {
		return ctrl.Result{}, err
	}
	if set == nil || !isStale(set) {
		r.stale.Forget(key)
		return ctrl.Result{}, nil
	}
	stale := r.stale.Of(etcd).Next(revision{set.UID, set.Status.UpdateRevision}, r.Clock.Now(), maxGap)
	r.stale.Set(etcd, stale)
	if stale.For() < patience {
		return ctrl.Result{RequeueAfter: poll}, nil
	}
	defer r.Locker.Lock(key)()
	return ctrl.Result{RequeueAfter: poll}, r.settle(ctx, key)
}

// read reads a StatefulSet and its Etcd; nil if there is none whose pods the operator replaces.
func (r *Reconciler) read(ctx context.Context, reader client.Reader, key types.NamespacedName) (*appsv1.StatefulSet, *v1alpha1.Etcd, error) {
	set, err := lookup.Get[appsv1.StatefulSet](ctx, reader, "StatefulSet", key)
	if err != nil || set == nil || set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		return nil, nil, err
	}
	etcd, err := lookup.Get[v1alpha1.Etcd](ctx, reader, "Etcd", key)
	if err != nil || etcd == nil || r.Rule.Objection(etcd, set) != "" {
		return nil, nil, err
	}
	return set, etcd, nil
}

// isStale reports whether the status of a StatefulSet says that all pods are ready at its update revision, and that this is not
// the current one.
func isStale(set *appsv1.StatefulSet) bool {
	s, replicas := set.Status, ptr.Deref(set.Spec.Replicas, 1)
	return set.DeletionTimestamp == nil && s.ObservedGeneration >= set.Generation && s.UpdateRevision != "" && s.CurrentRevision != s.UpdateRevision &&
		replicas > 0 && s.Replicas == replicas && s.ReadyReplicas == replicas && s.UpdatedReplicas == replicas
}

// settle decides again on live reads, and writes the revision under the resourceVersion that it has read.
func (r *Reconciler) settle(ctx context.Context, key types.NamespacedName) error {
	set, _, err := r.read(ctx, r.Live, key)
	if err != nil || set == nil || !isStale(set) {
		return err
	}
	if all, err := r.allUpdated(ctx, set); err != nil || !all {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": set.ResourceVersion},
		"status":   map[string]string{"currentRevision": set.Status.UpdateRevision},
	})
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	before := set.Status.CurrentRevision
	if err := r.Client.Status().Patch(ctx, set, client.RawPatch(types.MergePatchType, patch)); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("writing the current revision of StatefulSet %s: %w", key, err)
	}
	log.FromContext(ctx).Info("Promoted the current revision", "statefulSet", klog.KObj(set), "from", before, "to", set.Status.UpdateRevision)
	return nil
}

// allUpdated reports whether every pod of a StatefulSet is ready at the update revision, and there is no other.
func (r *Reconciler) allUpdated(ctx context.Context, set *appsv1.StatefulSet) (bool, error) {
	list := &corev1.PodList{}
	if err := r.Live.List(ctx, list, client.InNamespace(set.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: set.Name}); err != nil {
		return false, fmt.Errorf("listing the pods of StatefulSet %s: %w", klog.KObj(set), err)
	}
	updated := int32(0)
	for i := range list.Items {
		pod := &list.Items[i]
		if !metav1.IsControlledBy(pod, set) {
			continue
		}
		if pod.DeletionTimestamp != nil || pod.Labels[appsv1.StatefulSetRevisionLabel] != set.Status.UpdateRevision || !pods.IsReady(pod) {
			return false, nil
		}
		updated++
	}
	return updated == ptr.Deref(set.Spec.Replicas, 1), nil
}
