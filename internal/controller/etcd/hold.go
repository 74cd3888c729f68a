// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/controller/task"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// holds tells whether a task holds the StatefulSet of its Etcd at zero replicas. One that is being deleted, and
// only waits for somebody's finalizer, is as good as gone.
func holds(t *v1alpha1.EtcdOperatorTask) bool {
	if t.Spec.Type != v1alpha1.RecreateRollout || t.Status.State != v1alpha1.TaskStateInProgress ||
		t.DeletionTimestamp != nil || t.Status.Rollout == nil {
		return false
	}
	phase := t.Status.Rollout.Phase
	return phase == v1alpha1.RecreateNeedsDeletion || phase == v1alpha1.RecreateWaitingTermination
}

// holder is the task that holds the StatefulSet at zero replicas; nil when none does. While a recovery runs, the others
// wait for it: it alone decides.
func holder(tasks []v1alpha1.EtcdOperatorTask, recorded *v1alpha1.ClusterRecovery) *v1alpha1.EtcdOperatorTask {
	if t := recovering(tasks); t != nil {
		if stopsMembers(t, recorded) {
			return t
		}
		return nil
	}
	for i := range tasks {
		if holds(&tasks[i]) {
			return &tasks[i]
		}
	}
	return nil
}

// holdPatch is what has to change of a StatefulSet, given the task that holds it at zero; nil when nothing has. The
// claims outlast the hold, whatever their policy. It is pure.
func holdPatch(set *appsv1.StatefulSet, holder *v1alpha1.EtcdOperatorTask, wanted int32) map[string]any {
	by, held := set.Annotations[v1alpha1.AnnotationHeldAtZeroBy]
	switch {
	case holder != nil && by == string(holder.UID) && ptr.Deref(set.Spec.Replicas, 1) == 0:
		return nil
	case holder != nil:
		return map[string]any{
			"metadata": map[string]any{"uid": set.UID, "resourceVersion": set.ResourceVersion, "annotations": map[string]any{v1alpha1.AnnotationHeldAtZeroBy: string(holder.UID)}},
			"spec": map[string]any{"replicas": 0, "persistentVolumeClaimRetentionPolicy": map[string]any{
				"whenScaled": appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			}},
		}
	case held:
		return map[string]any{
			"metadata": map[string]any{"uid": set.UID, "resourceVersion": set.ResourceVersion, "annotations": map[string]any{v1alpha1.AnnotationHeldAtZeroBy: nil}},
			"spec":     map[string]any{"replicas": wanted},
		}
	}
	return nil
}

// reconcileHold scales the StatefulSet to zero for the task that holds it there, and back once that task lets go or
// is gone, whatever else is suspended. It returns whether it is held, and whether that was changed just now.
func (r *Reconciler) reconcileHold(ctx context.Context, p *pass) (held, changed bool, err error) {
	etcd, set := p.etcd, p.set
	if set == nil {
		return false, false, nil
	}
	key := client.ObjectKeyFromObject(etcd)
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	if err := r.Client.List(ctx, tasks, task.OfEtcd(key)...); err != nil {
		return false, false, fmt.Errorf("listing the tasks of Etcd %s: %w", key, err)
	}
	by := holder(tasks.Items, etcd.Status.Recovery)
	patch := holdPatch(set, by, replicas(etcd, set))
	if patch == nil {
		return by != nil, false, nil
	}
	// What cannot be started again is not stopped either.
	if owned, err := r.owns(ctx, p); err != nil || !owned {
		return by != nil, false, err
	}
	if by == nil {
		// Members that start have to know how.
		if err := r.tellMembers(ctx, p); err != nil {
			return false, false, err
		}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return false, false, fmt.Errorf("encoding a patch: %w", err)
	}
	before := ptr.Deref(set.Spec.Replicas, 1)
	if err := r.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, data), fieldOwner); err != nil {
		return false, false, fmt.Errorf("scaling StatefulSet %s: %w", key, err)
	}
	ctrl.LoggerFrom(ctx).Info("Scaled the StatefulSet for a task", "from", before, "to", ptr.Deref(set.Spec.Replicas, 1), "heldAtZero", by != nil)
	return by != nil, true, nil
}
