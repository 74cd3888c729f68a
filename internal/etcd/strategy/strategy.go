// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package strategy sets the update strategy of StatefulSets: OnDelete if the operator replaces pods, RollingUpdate if the StatefulSet
// controller does.
package strategy

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/asread"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is a change of an update strategy.
type change int

const (
	// keep: nothing to change.
	keep change = iota
	// toOnDelete at once: it stops the StatefulSet controller, which is safe at any time.
	toOnDelete
	// toRollingUpdate once every member participates: under the pod management policy Parallel, the StatefulSet controller replaces the
	// next pod even while another is away.
	toRollingUpdate
	// repairPartition: it is RollingUpdate already, but a partition excludes some pods.
	repairPartition
)

// decide returns the change that an update strategy needs.
func decide(quorumAware bool, live appsv1.StatefulSetUpdateStrategy) change {
	onDelete := live.Type == appsv1.OnDeleteStatefulSetStrategyType
	switch {
	case quorumAware && !onDelete:
		return toOnDelete
	case !quorumAware && onDelete:
		return toRollingUpdate
	case !quorumAware && (live.RollingUpdate == nil || ptr.Deref(live.RollingUpdate.Partition, -1) != 0):
		return repairPartition
	}
	return keep
}

// Keeper keeps the update strategies of StatefulSets.
type Keeper struct {
	state.Access
	// QuorumAware is the feature gate QuorumAwareUpdatesWithOnDelete.
	QuorumAware bool

	absences memory.PerEtcd[absences]
}

// Forget forgets an Etcd that is gone.
func (k *Keeper) Forget(etcd types.NamespacedName) { k.absences.Forget(etcd) }

// Wanted returns the update strategy that the feature gate asks for.
func (k *Keeper) Wanted() appsv1.StatefulSetUpdateStrategyType {
	if k.QuorumAware {
		return appsv1.OnDeleteStatefulSetStrategyType
	}
	return appsv1.RollingUpdateStatefulSetStrategyType
}

// Reconcile changes the update strategy of a StatefulSet to what the feature gate asks for, even while the spec is suspended. It returns
// state.ErrBehind after it has changed it, and reports whether the change waits for members.
func (k *Keeper) Reconcile(ctx context.Context, s *state.State, objects *apply.Session) (waits bool, err error) {
	if s.StatefulSet == nil {
		return false, nil
	}
	changed := false
	switch decide(k.QuorumAware, s.StatefulSet.Spec.UpdateStrategy) {
	case toOnDelete:
		defer k.Locker.Lock(client.ObjectKeyFromObject(s.Etcd))()
		changed, err = k.change(ctx, objects, appsv1.OnDeleteStatefulSetStrategyType)
	case repairPartition:
		changed, err = k.change(ctx, objects, appsv1.RollingUpdateStatefulSetStrategyType)
	case toRollingUpdate:
		changed, err = k.handOver(ctx, s.Etcd, objects)
		waits = !changed
	}
	if changed {
		return false, state.ErrBehind
	}
	return waits, err
}

// change changes the update strategy, once the StatefulSet is known to be the Etcd's own.
func (k *Keeper) change(ctx context.Context, objects *apply.Session, to appsv1.StatefulSetUpdateStrategyType) (changed bool, err error) {
	if owned, err := objects.Owned(ctx); err != nil || !owned {
		return false, err
	}
	if set := objects.StatefulSet(); set != nil {
		return k.patch(ctx, set, to)
	}
	return false, nil
}

// handOver lets the StatefulSet controller take over, if the API server and the members allow it.
func (k *Keeper) handOver(ctx context.Context, etcd *v1alpha1.Etcd, objects *apply.Session) (changed bool, err error) {
	if may, err := k.mayHandOver(ctx, etcd); err != nil || !may {
		return false, err
	}
	if owned, err := objects.Owned(ctx); err != nil || !owned {
		return false, err
	}
	// The task engine holds the lock during a deletion, so none is in progress now, and an earlier one is visible.
	defer k.Locker.Lock(client.ObjectKeyFromObject(etcd))()
	reads := k.Live()
	set, err := state.StatefulSet(ctx, reads, etcd)
	if err != nil || set == nil {
		return false, err
	}
	if may, err := k.mayHandOver(ctx, etcd); err != nil || !may {
		return false, err
	}
	if reads.Fresh(ctx) != nil {
		return false, nil
	}
	return k.patch(ctx, set, appsv1.RollingUpdateStatefulSetStrategyType)
}

// mayHandOver observes the members, and records since when each has been away.
func (k *Keeper) mayHandOver(ctx context.Context, etcd *v1alpha1.Etcd) (bool, error) {
	snapshot, err := k.Observe(ctx, k.API, etcd)
	if err != nil || snapshot == nil {
		return false, err
	}
	seen := k.absences.Of(etcd).next(snapshot)
	k.absences.Set(etcd, seen)
	may := seen.mayRoll()
	if !may {
		ctrl.LoggerFrom(ctx).V(1).Info("The update strategy stays OnDelete until every member participates", "participating", snapshot.Participating(), "replicas", snapshot.Replicas())
	}
	return may, nil
}

func (k *Keeper) patch(ctx context.Context, set *appsv1.StatefulSet, to appsv1.StatefulSetUpdateStrategyType) (changed bool, err error) {
	before := set.Spec.UpdateStrategy.Type
	// The API server defaults rollingUpdate and rejects it beside OnDelete. After a change from OnDelete it leaves the field unset, and a
	// pod that is being replaced would come back at the old revision.
	strategy := map[string]any{"type": to, "rollingUpdate": nil}
	if to == appsv1.RollingUpdateStatefulSetStrategyType {
		strategy["rollingUpdate"] = map[string]any{"partition": 0}
	}
	if err := k.Client.Patch(ctx, set, asread.Merge(map[string]any{"spec": map[string]any{"updateStrategy": strategy}}), apply.Manager); err != nil {
		return false, fmt.Errorf("changing the update strategy of StatefulSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	ctrl.LoggerFrom(ctx).Info("Changed the update strategy", "from", before, "to", set.Spec.UpdateStrategy.Type)
	return true, nil
}
