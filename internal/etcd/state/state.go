// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package state reads what the Etcd controller works on: once from the cache at the beginning, and again from the API server before members
// are stopped, started or instructed (docs/adr/0016-live-reads-and-clocks.md).
package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Access has the clients with which the controller's packages read and write.
type Access struct {
	// Client reads from a cache.
	Client client.Client
	// API reads from the API server.
	API      client.Reader
	Observer observe.Interface
	Locker   *lock.Locks
	Clock    clock.PassiveClock
	// PodsManagedBy is the value of the label managed-by on the pods of new Etcds; empty for the operator's own.
	PodsManagedBy string
}

// State is what a reconcile knows of an Etcd at its beginning.
type State struct {
	Etcd *v1alpha1.Etcd
	// StatefulSet is nil if there is none, or if it is not the Etcd's own.
	StatefulSet *appsv1.StatefulSet
	// Manager is the value of the label managed-by of the objects of an Etcd that was adopted from another operator.
	Manager string
	// PodsManagedBy is the value of that label on its pods and claims.
	PodsManagedBy string
	// Tasks of the Etcd, of every type and state.
	Tasks []v1alpha1.EtcdOperatorTask
	// Claims under the names of its members, by ordinal; they need not be the Etcd's own. None without a StatefulSet.
	Claims []corev1.PersistentVolumeClaim
	// Leases of the snapshots; nil where there is no backup store.
	Leases *observe.SnapshotLeases
	// Snapshot of the cluster by the cache, not older than StatefulSet; nil without a StatefulSet in the cache, or if that has
	// TooManyReplicas to be observed.
	Snapshot        *cluster.Snapshot
	TooManyReplicas bool
}

// Read reads the state of an Etcd from the cache. It returns ErrBehind while the StatefulSet is being replaced.
func (a Access) Read(ctx context.Context, etcd *v1alpha1.Etcd) (*State, error) {
	s := &State{Etcd: etcd}
	var err error
	if s.StatefulSet, err = a.findStatefulSet(ctx, etcd); err != nil {
		return nil, err
	}
	if beingOrphaned(s.StatefulSet) {
		// The end of its deletion triggers a reconcile, and what the status says of the members is still true.
		return nil, Awaits("StatefulSet %s is being deleted without its pods, and the garbage collector has yet to release them: if this persists, check the kube-controller-manager, and webhooks that deny updates of pods", client.ObjectKeyFromObject(etcd))
	}
	if s.Manager, err = a.findManager(ctx, etcd, s.StatefulSet); err != nil {
		return nil, err
	}
	s.PodsManagedBy = a.podsManagedBy(s)
	if s.Tasks, err = etcdtasks.List(ctx, a.Client, etcd); err != nil {
		return nil, err
	}
	if etcd.HasBackupStore() {
		leases, err := observe.ReadSnapshotLeases(ctx, a.Client, etcd)
		if err != nil {
			return nil, err
		}
		s.Leases = &leases
	}
	if s.StatefulSet == nil {
		return s, nil
	}
	if s.Claims, err = Claims(ctx, a.Client, etcd, Members(etcd, s.StatefulSet)); err != nil {
		return nil, err
	}
	if s.Snapshot, err = a.Observe(ctx, a.Client, etcd); errors.Is(err, observe.ErrTooManyReplicas) {
		s.TooManyReplicas = true
	} else if err != nil {
		return nil, err
	}
	return s, nil
}

// findStatefulSet returns the StatefulSet from the cache, or from the API server if the cache has none: it may be behind, and lacks objects
// without the operator's labels.
func (a Access) findStatefulSet(ctx context.Context, etcd *v1alpha1.Etcd) (*appsv1.StatefulSet, error) {
	set, err := StatefulSet(ctx, a.Client, etcd)
	if err != nil || set != nil {
		return set, err
	}
	return StatefulSet(ctx, a.API, etcd)
}

// findManager returns from which operator the objects of an Etcd were adopted, given its StatefulSet; empty if they were not. A StatefulSet
// that is no longer the Etcd's own was handed back.
func (a Access) findManager(ctx context.Context, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) (string, error) {
	if set != nil {
		return ownership.Manager(etcd, set), nil
	}
	if foreign, err := lookup.Get[appsv1.StatefulSet](ctx, a.Client, "StatefulSet", client.ObjectKeyFromObject(etcd)); err != nil || foreign != nil {
		return "", err
	}
	return apply.ManagerOfServices(ctx, a.Client, etcd)
}

// podsManagedBy returns the value of the label managed-by on the pods of an Etcd. It never changes, because a selector cannot change and a
// new StatefulSet adopts the pods that an earlier one left as orphans. So it is read from the StatefulSet, or from the record of it.
func (a Access) podsManagedBy(s *State) string {
	recorded := ""
	if selector := s.Etcd.Status.LabelSelector; selector != nil {
		recorded = selector.MatchLabels[v1alpha1.LabelManagedBy]
	}
	switch {
	case s.StatefulSet != nil && s.StatefulSet.Spec.Selector != nil:
		return s.StatefulSet.Spec.Selector.MatchLabels[v1alpha1.LabelManagedBy]
	case s.Manager != "":
		return s.Manager
	}
	return cmp.Or(recorded, a.PodsManagedBy, v1alpha1.ManagedBy)
}

// Observe takes a Snapshot; nil if there is no StatefulSet.
func (a Access) Observe(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*cluster.Snapshot, error) {
	snapshot, err := a.Observer.Observe(ctx, reader, etcd)
	if errors.Is(err, observe.ErrNoStatefulSet) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("observing Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	return snapshot, nil
}

// Surveyor returns a Surveyor with this access.
func (a Access) Surveyor() survey.Surveyor {
	return survey.Surveyor{Client: a.Client, Live: a.API, Clock: a.Clock}
}

// StatefulSet returns the StatefulSet of an Etcd; nil if there is none, or if it is not the Etcd's own.
func StatefulSet(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) (*appsv1.StatefulSet, error) {
	set, err := lookup.Get[appsv1.StatefulSet](ctx, reader, "StatefulSet", client.ObjectKeyFromObject(etcd))
	if err != nil || set == nil || ownership.Of(etcd, "StatefulSet", set) != nil {
		return nil, err
	}
	return set, nil
}

// Members returns how many members a cluster has, or has had: the claims of that many ordinals may be its own. A user who may scale the
// StatefulSet can choose any number.
func Members(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) int32 {
	return max(etcd.Status.ClusterSize, min(ptr.Deref(set.Spec.Replicas, 1), observe.MaxReplicas))
}

// Claims returns the claims under the names of a number of members, by ordinal. They need not be the Etcd's own.
func Claims(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, members int32) ([]corev1.PersistentVolumeClaim, error) {
	var claims []corev1.PersistentVolumeClaim
	for i := range members {
		c, err := lookup.Get[corev1.PersistentVolumeClaim](ctx, reader, "claim", client.ObjectKey{Namespace: etcd.Namespace, Name: etcd.ClaimName(i)})
		if err != nil {
			return nil, err
		} else if c != nil {
			claims = append(claims, *c)
		}
	}
	return claims, nil
}

// Awake reports whether a StatefulSet exists and has replicas.
func Awake(set *appsv1.StatefulSet) bool { return set != nil && ptr.Deref(set.Spec.Replicas, 1) > 0 }

// beingOrphaned reports whether a StatefulSet is being deleted without its pods and claims.
func beingOrphaned(set *appsv1.StatefulSet) bool {
	return set != nil && set.DeletionTimestamp != nil && slices.Contains(set.Finalizers, metav1.FinalizerOrphanDependents)
}

// OperationRequested reports whether an annotation requests a reconcile of the spec.
func OperationRequested(etcd *v1alpha1.Etcd) bool {
	return etcd.Annotations[v1alpha1.AnnotationOperation] == v1alpha1.OperationReconcile ||
		etcd.Annotations[v1alpha1.AnnotationGardenerOperation] == v1alpha1.OperationReconcile
}

// Due reports whether changes of the spec are to be applied.
func Due(etcd *v1alpha1.Etcd) bool {
	return etcd.Generation != etcd.Status.ObservedGeneration || OperationRequested(etcd)
}
