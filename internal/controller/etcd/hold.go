// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
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
	metadata := func(heldBy any) map[string]any {
		return map[string]any{
			"uid": set.UID, "resourceVersion": set.ResourceVersion, "annotations": map[string]any{v1alpha1.AnnotationHeldAtZeroBy: heldBy},
		}
	}
	switch {
	case holder != nil && by == string(holder.UID) && ptr.Deref(set.Spec.Replicas, 1) == 0:
		return nil
	case holder != nil:
		return map[string]any{
			"metadata": metadata(string(holder.UID)),
			"spec": map[string]any{"replicas": 0, "persistentVolumeClaimRetentionPolicy": map[string]any{
				"whenScaled": appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			}},
		}
	case held:
		return map[string]any{
			"metadata": metadata(nil),
			"spec":     map[string]any{"replicas": wanted},
		}
	}
	return nil
}

// lookAtHold returns the task that holds a StatefulSet at zero, if any, and what has to change of it, as a reader sees them.
func lookAtHold(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) (by *v1alpha1.EtcdOperatorTask, patch map[string]any, err error) {
	tasks, err := tasksOf(ctx, reader, etcd)
	if err != nil {
		return nil, nil, err
	}
	by = holder(tasks, etcd.Status.Recovery)
	if set == nil {
		return by, nil, nil
	}
	return by, holdPatch(set, by, replicas(etcd, set)), nil
}

// reconcileHold scales the StatefulSet to zero for the task that holds it there, and back once that task lets go or
// is gone, whatever else is suspended. The cache has asked for it, and the API server decides: the task that the cache shows may
// have ended, and one that it does not show yet may be looking at the volumes. Meanwhile no task takes a step.
func (r *Reconciler) reconcileHold(ctx context.Context, p *pass) error {
	defer r.Locker.Lock(client.ObjectKeyFromObject(p.etcd))()
	ctx, cancel := context.WithTimeout(ctx, maxReadAge)
	defer cancel()
	reads := readLive(r)
	etcd, err := reads.etcd(ctx, p.etcd)
	if err != nil {
		return err
	}
	set, err := statefulSet(ctx, reads, etcd)
	if err != nil {
		return err
	}
	by, patch, err := lookAtHold(ctx, reads, etcd, set)
	if err != nil {
		return err
	}
	if patch == nil {
		return behind(ctx, "nobody takes or lets go of StatefulSet %s", client.ObjectKeyFromObject(etcd))
	}
	if by == nil {
		// Members that start have to know how.
		if err := r.tellMembers(ctx, p, reads, etcd); err != nil {
			return err
		}
	}
	if err := reads.fresh(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encoding a patch: %w", err)
	}
	before := ptr.Deref(set.Spec.Replicas, 1)
	if err := r.Client.Patch(ctx, set, client.RawPatch(types.MergePatchType, data), fieldOwner); err != nil {
		return fmt.Errorf("scaling StatefulSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	ctrl.LoggerFrom(ctx).Info("Scaled the StatefulSet for a task", "from", before, "to", ptr.Deref(set.Spec.Replicas, 1), "heldAtZero", by != nil)
	return nil
}
