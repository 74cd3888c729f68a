// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"context"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/firststart"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Change is a decision on the replicas of a StatefulSet that is about to be carried out.
type Change struct {
	Size
	etcd *v1alpha1.Etcd
	// set is the StatefulSet that the decision rests on; nil if there was none.
	set *appsv1.StatefulSet
	// snapshot of the members.
	snapshot *cluster.Snapshot
	// reads that confirmed it; nil where that is not needed.
	reads *state.Live
	// end releases the lock, and the timeout of what starts or stops all members.
	end []func()
}

// End ends a Change, whether or not it was carried out. A nil Change has ended.
func (c *Change) End() {
	for c != nil && len(c.end) > 0 {
		last := len(c.end) - 1
		c.end[last]()
		c.end = c.end[:last]
	}
}

// Begin decides how many replicas the StatefulSet is to have. If all its members start or stop, live reads confirm the decision, the lock
// of the Etcd is held until the Change ends, and the returned context bounds the time for it. The caller must end the Change in any case.
func (s Scaler) Begin(ctx context.Context, st *state.State, first firststart.View, wake hibernation.WakeUp) (context.Context, *Change, error) {
	joins, err := members.Joining(ctx, s.Client, st.Etcd, st.StatefulSet, st.Snapshot)
	if err != nil {
		return ctx, nil, err
	}
	c := &Change{Size: size(st, first, wake, joins), etcd: st.Etcd, set: st.StatefulSet, snapshot: st.Snapshot}
	if !startsOrStopsAll(c.set, c.Replicas) {
		return ctx, c, nil
	}
	c.end = append(c.end, s.Locker.Lock(client.ObjectKeyFromObject(st.Etcd)))
	ctx, cancel := context.WithTimeout(ctx, state.MaxReadAge)
	c.end = append(c.end, cancel)
	return ctx, c, c.confirm(ctx, s.Live(), st.PodsManagedBy)
}

// startsOrStopsAll reports whether setting a StatefulSet to a number of replicas starts or stops all members. Creating one does: it adopts
// the pods that an earlier StatefulSet left as orphans, and removes those beyond its replicas.
func startsOrStopsAll(set *appsv1.StatefulSet, replicas int32) bool {
	return set == nil || (ptr.Deref(set.Spec.Replicas, 1) == 0) != (replicas == 0)
}

// outdated returns which of the fields that decide whether members run is different in the live Etcd; empty if the cache is up to date. It
// is pure.
func outdated(cached, live *v1alpha1.Etcd, set *appsv1.StatefulSet) string {
	was, is := &cached.Status, &live.Status
	switch {
	case !equality.Semantic.DeepEqual(cached.Spec, live.Spec):
		return "its spec has changed"
	case cached.SpecSuspended() != live.SpecSuspended():
		return "the reconciliation of its spec was suspended, or resumed"
	case was.ClusterID != is.ClusterID || was.ClusterSize != is.ClusterSize:
		return "its cluster is another one, or has another size"
	case !equality.Semantic.DeepEqual(was.Hibernation, is.Hibernation) || !equality.Semantic.DeepEqual(was.Recovery, is.Recovery):
		return "it has hibernated, woken up, or been recovered"
	case (hibernation.Blocked(cached, set) == "") != (hibernation.Blocked(live, set) == ""):
		return "its backups have failed, or work again"
	}
	return ""
}

// confirm returns state.ErrBehind unless the API server shows the same Etcd as the cache and, if members start, no task that holds them.
// The caller holds the lock of the Etcd.
func (c *Change) confirm(ctx context.Context, reads state.Live, podsManagedBy string) error {
	c.reads = &reads
	live, err := reads.Etcd(ctx, c.etcd)
	if err != nil {
		return err
	}
	if why := outdated(c.etcd, live, c.set); why != "" {
		return state.Behind(ctx, "Etcd %s: %s", client.ObjectKeyFromObject(live), why)
	}
	if c.set == nil && c.Replicas == 0 {
		if c.Replicas, err = orphaned(ctx, reads, live, podsManagedBy); err != nil {
			return err
		}
	}
	if c.Replicas == 0 {
		return c.losesNothing(ctx, reads, live)
	}
	tasks, err := etcdtasks.List(ctx, reads, live)
	if err != nil {
		return err
	}
	if by := holder(tasks, live.Status.Recovery, c.set); by != nil {
		return state.Behind(ctx, "task %s keeps all members stopped", by.Name)
	}
	return nil
}

// orphaned returns with how many replicas a missing StatefulSet is created beside pods that an earlier one has left, although the cluster is to have no
// members: with all of them. It adopts them, and they are stopped as those of any other cluster, or not. It returns 0 if no member runs.
func orphaned(ctx context.Context, reads state.Live, live *v1alpha1.Etcd, podsManagedBy string) (int32, error) {
	h := live.Status.Hibernation
	if live.Status.ClusterID == "" || h != nil && !hibernation.RecordsRestore(live.Status.Recovery, h) {
		return 0, nil
	}
	pods := &corev1.PodList{}
	if err := reads.List(ctx, pods, client.InNamespace(live.Namespace), client.MatchingLabels(component.MemberSelector(live.Name, podsManagedBy))); err != nil {
		return 0, fmt.Errorf("listing the pods of Etcd %s: %w", client.ObjectKeyFromObject(live), err)
	}
	size := sizeOf(live)
	if !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return runsOrphaned(live, p, size) }) {
		return 0, nil
	}
	return size, nil
}

// runsOrphaned reports whether a pod runs that a StatefulSet of some replicas adopts and keeps. The labels are not enough: every author of pods can set them.
func runsOrphaned(etcd *v1alpha1.Etcd, p corev1.Pod, replicas int32) bool {
	if p.DeletionTimestamp != nil || metav1.GetControllerOf(&p) != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	for i := range replicas {
		if p.Name == etcd.PodName(i) {
			return true
		}
	}
	return false
}

// losesNothing returns state.ErrBehind if claims are being deleted that the cache does not show yet as such, so that to stop all members would
// lose data.
func (c *Change) losesNothing(ctx context.Context, reads state.Live, live *v1alpha1.Etcd) error {
	if !state.Awake(c.set) {
		return nil
	}
	claims, err := state.Claims(ctx, reads, live, state.Members(live, c.set))
	if err != nil {
		return err
	}
	if why := hibernation.Loses(live, c.set, c.snapshot, claims); why != "" {
		return state.Behind(ctx, "Etcd %s: %s", client.ObjectKeyFromObject(live), why)
	}
	return nil
}

// Permit is asked right before a StatefulSet is written, with the one that the write is based on; nil when it is created. It
// returns state.ErrBehind when that is not the one on which the decision rests, or when the confirmation is too old.
func (c *Change) Permit(ctx context.Context, base *appsv1.StatefulSet) error {
	switch {
	case (base == nil) != (c.set == nil), base != nil && ptr.Deref(base.Spec.Replicas, 1) != ptr.Deref(c.set.Spec.Replicas, 1):
		return state.Behind(ctx, "StatefulSet %s was scaled, created or deleted", client.ObjectKeyFromObject(c.etcd))
	case c.reads == nil:
		return nil
	}
	return c.reads.Fresh(ctx)
}
