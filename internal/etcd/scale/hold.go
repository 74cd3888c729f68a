// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/asread"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Scaler scales StatefulSets.
type Scaler struct {
	state.Access
	// Members returns the member list of a cluster by a linearizable read; nil if no member answers one.
	Members func(context.Context, *v1alpha1.Etcd, *cluster.Snapshot) []etcdclient.Member
	// Instructor instructs members before they are started.
	Instructor memberconfig.Writer
	// Saved reports whether this operator knows that the final snapshot of a Restore has every write; nil if the operator runs no Restores.
	Saved func(*v1alpha1.EtcdOperatorTask, time.Time) bool
}

// stopsMembers reports whether a task needs all members to be stopped. It does until it has chosen what the cluster starts from and the
// status of the Etcd, from which members are instructed, records the choice.
func stopsMembers(t *v1alpha1.EtcdOperatorTask, recorded *v1alpha1.ClusterRecovery) bool {
	r := ptr.Deref(t.Status.Recovery, v1alpha1.RecoveryStatus{})
	switch r.Phase {
	case v1alpha1.RecoveryStopping, v1alpha1.RecoverySurveying:
		return true
	case v1alpha1.RecoveryStarting:
		return r.Source != "" && (recorded == nil || recorded.TaskUID != t.UID)
	}
	return false
}

// Holds reports whether a RecreateRollout holds the StatefulSet of its Etcd at zero replicas. A task that is being deleted and only waits
// for a foreign finalizer does not.
func Holds(t *v1alpha1.EtcdOperatorTask) bool {
	if t.Spec.Type != v1alpha1.RecreateRollout || t.Status.State != v1alpha1.TaskStateInProgress ||
		t.DeletionTimestamp != nil || t.Status.Rollout == nil {
		return false
	}
	phase := t.Status.Rollout.Phase
	return phase == v1alpha1.RecreateNeedsDeletion || phase == v1alpha1.RecreateWaitingTermination
}

// holder returns the task that holds a StatefulSet, which may be nil, at zero replicas; nil when none does. While a recovery is in progress it
// alone decides: the other tasks wait for it. What a newer operator holds for a task of a type of its own stays held (ADR 110).
func holder(tasks []v1alpha1.EtcdOperatorTask, recorded *v1alpha1.ClusterRecovery, set *appsv1.StatefulSet) *v1alpha1.EtcdOperatorTask {
	if t := etcdtasks.Recovering(tasks); t != nil {
		if stopsMembers(t, recorded) {
			return t
		}
		return nil
	}
	for i := range tasks {
		if Holds(&tasks[i]) {
			return &tasks[i]
		}
	}
	if set == nil {
		return nil
	}
	return etcdtasks.OfNewerOperator(tasks, set.Annotations[v1alpha1.AnnotationHeldAtZeroBy])
}

// holdPatch returns the patch of a StatefulSet, given the task that holds it at zero; nil if nothing has to change. The claims outlast the
// hold regardless of their retention policy. It is pure.
func holdPatch(set *appsv1.StatefulSet, holder *v1alpha1.EtcdOperatorTask, wanted int32) map[string]any {
	by, held := set.Annotations[v1alpha1.AnnotationHeldAtZeroBy]
	metadata := func(heldBy any) map[string]any {
		return map[string]any{"annotations": map[string]any{v1alpha1.AnnotationHeldAtZeroBy: heldBy}}
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

// mayHold reports whether a task may hold the StatefulSet at zero. A Restore may only do so once its final snapshot is known to have every
// write; otherwise its next execution takes another one. Neither it nor a recreation may while that loses the data of a member: it decides once more.
func (s Scaler) mayHold(by *v1alpha1.EtcdOperatorTask, set *appsv1.StatefulSet, snapshot *cluster.Snapshot) bool {
	if by == nil || set.Annotations[v1alpha1.AnnotationHeldAtZeroBy] == string(by.UID) {
		return true
	}
	if slices.ContainsFunc(atStake(by, set, snapshot), func(o cluster.Ordinal) bool { return o.Pod.VolumeGoes }) {
		return false
	}
	return by.Spec.Type != v1alpha1.Restore || by.Status.Recovery.Phase != v1alpha1.RecoveryStopping || s.Saved == nil || s.Saved(by, s.Clock.Now())
}

// atStake returns the members whose data a task that is about to stop all of them promises to keep: a claim that someone has deleted goes once no pod
// uses it. A Restore needs those that serve. A recovery judges by itself which volumes it needs.
func atStake(by *v1alpha1.EtcdOperatorTask, set *appsv1.StatefulSet, snapshot *cluster.Snapshot) (members []cluster.Ordinal) {
	recreates := by.Spec.Type == v1alpha1.RecreateRollout && by.Status.Rollout.Phase == v1alpha1.RecreateNeedsDeletion &&
		!slices.Contains(by.Spec.OverrideGuards, v1alpha1.OverridableGuard(v1alpha1.GuardVolumeReachable))
	restores := by.Spec.Type == v1alpha1.Restore && by.Status.Recovery.Phase == v1alpha1.RecoveryStopping
	if set.Annotations[v1alpha1.AnnotationHeldAtZeroBy] == string(by.UID) || snapshot == nil || !recreates && !restores {
		return nil
	}
	for _, o := range snapshot.Ordinals {
		// Kubernetes does not keep a claim for a pod without a node.
		if o.Pod != nil && o.Pod.Node.Name != "" && (recreates || o.Serves()) {
			members = append(members, o)
		}
	}
	return members
}

// losesNothing returns state.ErrBehind if a claim of a member is being deleted that the cache does not show yet as such.
func losesNothing(ctx context.Context, reads state.Live, etcd *v1alpha1.Etcd, members []cluster.Ordinal) error {
	for _, o := range members {
		for _, name := range o.Pod.Claims {
			claim, err := lookup.Get[corev1.PersistentVolumeClaim](ctx, reads, "claim", client.ObjectKey{Namespace: etcd.Namespace, Name: name})
			if err != nil {
				return err
			}
			if claim != nil && claim.DeletionTimestamp != nil {
				return state.Behind(ctx, "claim %s of %s is being deleted", name, o.Name)
			}
		}
	}
	return nil
}

// Hold scales the StatefulSet to zero for the task that holds it, and back once that task no longer does or is gone, even while the spec is
// suspended. It reports whether a task holds it, and returns state.ErrBehind after it has scaled it.
func (s Scaler) Hold(ctx context.Context, st *state.State, objects *apply.Session) (held bool, err error) {
	by := holder(st.Tasks, st.Etcd.Status.Recovery, st.StatefulSet)
	held = by != nil
	changes := st.StatefulSet != nil && holdPatch(st.StatefulSet, by, released(st.Etcd, st.StatefulSet)) != nil
	if !changes && (!held || st.StatefulSet != nil) {
		return held, nil
	}
	if changes && !s.mayHold(by, st.StatefulSet, st.Snapshot) {
		return held, nil
	}
	// Members that could not be started again are not stopped. If the Etcd has no StatefulSet, a foreign one may have its name, which the
	// status reports.
	if owned, err := objects.Owned(ctx); err != nil || !owned || !changes {
		return held, err
	}
	if err := s.hold(ctx, st, objects); err != nil {
		return held, err
	}
	return held, state.ErrBehind
}

// readLive reads an Etcd, its StatefulSet (nil if there is none) and its tasks from the API server.
func readLive(ctx context.Context, reads state.Live, cached *v1alpha1.Etcd) (*v1alpha1.Etcd, *appsv1.StatefulSet, []v1alpha1.EtcdOperatorTask, error) {
	etcd, err := reads.Etcd(ctx, cached)
	if err != nil {
		return nil, nil, nil, err
	}
	set, err := state.StatefulSet(ctx, reads, etcd)
	if err != nil {
		return nil, nil, nil, err
	}
	tasks, err := etcdtasks.List(ctx, reads, etcd)
	return etcd, set, tasks, err
}

// hold decides on live reads, while no task takes a step: the task in the cache may have ended, and a task that is not in the cache yet may
// be reading the volumes.
func (s Scaler) hold(ctx context.Context, cached *state.State, objects *apply.Session) error {
	defer s.Locker.Lock(client.ObjectKeyFromObject(cached.Etcd))()
	ctx, cancel := context.WithTimeout(ctx, state.MaxReadAge)
	defer cancel()
	reads := s.Live()
	etcd, set, tasks, err := readLive(ctx, reads, cached.Etcd)
	if err != nil {
		return err
	}
	by := holder(tasks, etcd.Status.Recovery, set)
	var patch map[string]any
	if set != nil {
		patch = holdPatch(set, by, released(etcd, set))
	}
	if patch == nil || !s.mayHold(by, set, cached.Snapshot) {
		return state.Behind(ctx, "no task takes or releases StatefulSet %s", client.ObjectKeyFromObject(etcd))
	}
	if by == nil {
		// Members must be instructed before they start.
		err = s.Instructor.Write(ctx, reads, etcd, objects)
	} else {
		err = losesNothing(ctx, reads, etcd, atStake(by, set, cached.Snapshot))
	}
	if err == nil {
		err = reads.Fresh(ctx)
	}
	if err != nil {
		return err
	}
	before := ptr.Deref(set.Spec.Replicas, 1)
	if err := s.Client.Patch(ctx, set, asread.Merge(patch), apply.Manager); err != nil {
		return fmt.Errorf("scaling StatefulSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	ctrl.LoggerFrom(ctx).Info("Scaled the StatefulSet for a task", "from", before, "to", ptr.Deref(set.Spec.Replicas, 1), "heldAtZero", by != nil)
	return nil
}
