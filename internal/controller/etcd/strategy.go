// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"errors"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The patches of an update strategy. The API server has defaulted rollingUpdate and refuses it beside
// OnDelete; and it leaves it unset where a strategy was OnDelete, so that a pod on its way would come back
// at the old revision.
const (
	patchOnDelete      = `{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`
	patchRollingUpdate = `{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":0}}}}`
)

// strategyChange is what is to become of an update strategy.
type strategyChange int

const (
	// keepStrategy: it is as it should be.
	keepStrategy strategyChange = iota
	// toOnDelete at once: it stops the StatefulSet controller, which is safe at any time.
	toOnDelete
	// toRollingUpdate once every member participates: under the pod management policy Parallel, the
	// StatefulSet controller takes the next pod at once, whether or not another is away.
	toRollingUpdate
	// repairPartition: it is RollingUpdate already, but spares some pods.
	repairPartition
)

// decideStrategy decides what is to become of an update strategy.
func decideStrategy(quorumAware bool, live appsv1.StatefulSetUpdateStrategy) strategyChange {
	onDelete := live.Type == appsv1.OnDeleteStatefulSetStrategyType
	switch {
	case quorumAware && !onDelete:
		return toOnDelete
	case !quorumAware && onDelete:
		return toRollingUpdate
	case !quorumAware && (live.RollingUpdate == nil || ptr.Deref(live.RollingUpdate.Partition, -1) != 0):
		return repairPartition
	}
	return keepStrategy
}

func (r *Reconciler) wantedStrategy() appsv1.StatefulSetUpdateStrategyType {
	if r.QuorumAwareUpdates {
		return appsv1.OnDeleteStatefulSetStrategyType
	}
	return appsv1.RollingUpdateStatefulSetStrategyType
}

// reconcileStrategy brings the update strategy of a StatefulSet to what the feature gate says, whatever else
// is suspended. It returns whether it changed it, and whether that waits for members.
func (r *Reconciler) reconcileStrategy(ctx context.Context, p *pass) (changed, waits bool, err error) {
	if p.set == nil {
		return false, false, nil
	}
	switch decideStrategy(r.QuorumAwareUpdates, p.set.Spec.UpdateStrategy) {
	case toOnDelete:
		defer r.Locker.Lock(client.ObjectKeyFromObject(p.etcd))()
		changed, err = r.changeStrategy(ctx, p, patchOnDelete)
	case repairPartition:
		changed, err = r.changeStrategy(ctx, p, patchRollingUpdate)
	case toRollingUpdate:
		changed, err = r.handOver(ctx, p)
		waits = !changed
	}
	return changed, waits, err
}

// changeStrategy changes the update strategy as soon as the StatefulSet is shown to be the Etcd's own.
func (r *Reconciler) changeStrategy(ctx context.Context, p *pass, patch string) (changed bool, err error) {
	if owned, err := r.owns(ctx, p); err != nil || !owned {
		return false, err
	}
	if set := p.proof.StatefulSet(p.etcd); set != nil {
		return r.patchStrategy(ctx, set, patch)
	}
	return false, nil
}

// handOver lets the StatefulSet controller take over when it may, by what the API server says.
func (r *Reconciler) handOver(ctx context.Context, p *pass) (changed bool, err error) {
	etcd := p.etcd
	if may, err := r.mayHandOver(ctx, etcd); err != nil || !may {
		return false, err
	}
	if owned, err := r.owns(ctx, p); err != nil || !owned {
		return false, err
	}
	// The task engine holds the lock around a deletion: now none is under way, and one that was shows.
	defer r.Locker.Lock(client.ObjectKeyFromObject(etcd))()
	reads := readLive(r)
	set, err := statefulSet(ctx, reads, etcd)
	if err != nil || set == nil {
		return false, err
	}
	if may, err := r.mayHandOver(ctx, etcd); err != nil || !may {
		return false, err
	}
	if reads.fresh(ctx) != nil {
		return false, nil
	}
	return r.patchStrategy(ctx, set, patchRollingUpdate)
}

// mayHandOver looks at the members, and remembers since when each has been away.
func (r *Reconciler) mayHandOver(ctx context.Context, etcd *v1alpha1.Etcd) (bool, error) {
	snapshot, err := r.Observer.Observe(ctx, r.APIReader, etcd)
	if errors.Is(err, observe.ErrNoStatefulSet) {
		return false, nil
	}
	key := client.ObjectKeyFromObject(etcd)
	if err != nil {
		return false, fmt.Errorf("observing Etcd %s before its update strategy changes: %w", key, err)
	}
	seen := r.memory.of(key).absences.next(snapshot)
	r.memory.change(key, func(m *remembered) { m.absences = seen })
	may := seen.mayRoll()
	if !may {
		ctrl.LoggerFrom(ctx).V(1).Info("The update strategy stays OnDelete until every member participates", "participating", snapshot.Participating(), "replicas", snapshot.Replicas())
	}
	return may, nil
}

func (r *Reconciler) patchStrategy(ctx context.Context, set *appsv1.StatefulSet, patch string) (changed bool, err error) {
	before := set.Spec.UpdateStrategy.Type
	data := fmt.Appendf(nil, patch, set.UID, set.ResourceVersion)
	if err := r.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, data), fieldOwner); err != nil {
		return false, fmt.Errorf("changing the update strategy of StatefulSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	ctrl.LoggerFrom(ctx).Info("Changed the update strategy", "from", before, "to", set.Spec.UpdateStrategy.Type)
	return true, nil
}
