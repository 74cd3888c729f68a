// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package scale

import (
	"cmp"
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/asread"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;delete

// recorded returns the replicas that the task that changes the members has recorded for the StatefulSet of a running cluster; nil if they
// are not to change, such as before the pods of etcd-druid are converted. It is pure.
func recorded(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, tasks []v1alpha1.EtcdOperatorTask) *int32 {
	t := etcdtasks.ChangingMembers(tasks)
	if t == nil || t.Status.Membership == nil || t.Status.Membership.Replicas == nil || etcdtasks.Recovering(tasks) != nil || ownership.Unconverted(etcd, set) {
		return nil
	}
	have, wanted, least := ptr.Deref(set.Spec.Replicas, 1), *t.Status.Membership.Replicas, int32(1)
	if etcd.LeavesSource() {
		least = 0
	}
	if have == 0 || wanted < least || wanted != have-1 && wanted != have+1 {
		return nil
	}
	return &wanted
}

// scaledDown returns the replicas to which the StatefulSet of a running cluster is scaled back after a user has scaled it down; nil
// otherwise. No task does this without a quorum, and restoring the pod of a listed member cannot cost quorum. It is pure.
func scaledDown(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, s *cluster.Snapshot, tasks []v1alpha1.EtcdOperatorTask) *int32 {
	adopted := etcd.Status.Conditions.Find(v1alpha1.ConditionAdopted)
	have, all := ptr.Deref(set.Spec.Replicas, 1), listed(etcd, s, tasks)
	if have == 0 || have >= all || etcd.Spec.Replicas == 0 || etcd.SpecSuspended() || adopted != nil && adopted.Status != metav1.ConditionTrue {
		return nil
	}
	return &all
}

// listed returns how many replicas the StatefulSet needs so that every listed member has a pod: the list shows before the status does which
// members have left. While no quorum confirms the list, it is the size that the cluster has been seen to have. It never exceeds what the
// task that changes the members has recorded: the members that this task has scaled away have left.
func listed(etcd *v1alpha1.Etcd, s *cluster.Snapshot, tasks []v1alpha1.EtcdOperatorTask) (n int32) {
	if s == nil || !s.Quorate() {
		n = sizeOf(etcd)
	} else {
		for _, v := range s.Cluster.Voters {
			n = max(n, int32(ordinalOf(etcd, v))+1)
		}
	}
	if t := etcdtasks.ChangingMembers(tasks); t != nil && t.Status.Membership != nil && t.Status.Membership.Replicas != nil {
		n = min(n, *t.Status.Membership.Replicas)
	}
	return n
}

// ordinalOf returns the ordinal of a voter, whether or not the StatefulSet has it; -1 for one that is not the Etcd's own.
func ordinalOf(etcd *v1alpha1.Etcd, v cluster.Voter) int {
	return members.OwnOrdinal(etcd, etcdclient.Member{ID: v.ID, Name: v.Name, PeerURLs: v.PeerURLs})
}

// ShowsChange reports whether an update of a task that changes members concerns the Etcd: another size of the StatefulSet, or another guard
// that blocks.
func ShowsChange(before, after *v1alpha1.EtcdOperatorTask) bool {
	of := func(t *v1alpha1.EtcdOperatorTask) (int32, v1alpha1.GuardName) {
		m := ptr.Deref(t.Status.Membership, v1alpha1.MembershipStatus{})
		return ptr.Deref(m.Replicas, 0), ptr.Deref(m.HeldBy, v1alpha1.Hold{}).Guard
	}
	replicas, guard := of(before)
	nextReplicas, nextGuard := of(after)
	return replicas != nextReplicas || guard != nextGuard
}

// next returns the replicas that the StatefulSet is to be scaled to; nil if they are not to change. It is pure.
func next(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, s *cluster.Snapshot, tasks []v1alpha1.EtcdOperatorTask) *int32 {
	return cmp.Or(recorded(etcd, set, tasks), scaledDown(etcd, set, s, tasks))
}

// Follow scales the StatefulSet by one replica to what the task that changes the members records, or back if someone has scaled it down;
// both also while the spec is suspended, and whether or not changes of the spec are due. It returns state.ErrBehind after it has scaled.
func (s Scaler) Follow(ctx context.Context, st *state.State, objects *apply.Session) error {
	if st.StatefulSet == nil || next(st.Etcd, st.StatefulSet, st.Snapshot, st.Tasks) == nil {
		return nil
	}
	if owned, err := objects.Owned(ctx); err != nil || !owned {
		return err
	}
	if scaled, err := s.follow(ctx, st.Etcd, st.Snapshot); err != nil || !scaled {
		return err
	}
	return state.ErrBehind
}

// follow decides on live reads, while no task takes a step. A replica is only removed if its member is not in the member list, which may
// have changed since the task read it. A replica that is restored belongs to a member in the snapshot.
func (s Scaler) follow(ctx context.Context, cached *v1alpha1.Etcd, snapshot *cluster.Snapshot) (scaled bool, err error) {
	defer s.Locker.Lock(client.ObjectKeyFromObject(cached))()
	ctx, cancel := context.WithTimeout(ctx, state.MaxReadAge)
	defer cancel()
	reads := s.Live()
	etcd, set, tasks, err := readLive(ctx, reads, cached)
	if err != nil {
		return false, err
	}
	if set == nil || set.DeletionTimestamp != nil || holder(tasks, etcd.Status.Recovery, set) != nil || next(etcd, set, snapshot, tasks) == nil {
		return false, state.Behind(ctx, "nothing scales StatefulSet %s", client.ObjectKeyFromObject(etcd))
	}
	have, wanted := ptr.Deref(set.Spec.Replicas, 1), *next(etcd, set, snapshot, tasks)
	if wanted < have {
		if left, err := s.hasLeft(ctx, etcd, wanted); err != nil || !left {
			return false, err
		}
	}
	if err := reads.Fresh(ctx); err != nil {
		return false, err
	}
	// The claim of a removed replica is kept, or the task deletes it.
	patch := asread.Merge(map[string]any{"spec": map[string]any{
		"replicas": wanted, "persistentVolumeClaimRetentionPolicy": map[string]any{"whenScaled": appsv1.RetainPersistentVolumeClaimRetentionPolicyType},
	}})
	if err := s.Client.Patch(ctx, set, patch, apply.Manager); err != nil {
		return false, fmt.Errorf("scaling StatefulSet %s: %w", client.ObjectKeyFromObject(set), err)
	}
	ctrl.LoggerFrom(ctx).Info("Scaled the StatefulSet, since its members change, or someone had scaled it down", "from", have, "to", wanted)
	return true, nil
}

// hasLeft reports whether the member list, by a linearizable read, has no member with this or a higher ordinal. Without a quorum there is no list, which may
// last: everything else goes on.
func (s Scaler) hasLeft(ctx context.Context, etcd *v1alpha1.Etcd, ordinal int32) (left bool, err error) {
	stays := func(why string) (bool, error) {
		ctrl.LoggerFrom(ctx).Info("No replica is removed", "reason", why)
		return false, nil
	}
	snapshot, err := s.Observe(ctx, s.API, etcd)
	if err != nil {
		return false, err
	}
	list := s.Members(ctx, etcd, snapshot)
	if len(list) == 0 {
		return stays("no member gives a member list")
	}
	for _, m := range list {
		// The name alone keeps the replica: a member at other peer URLs may still be the Etcd's.
		if i := members.Ordinal(etcd, m); i >= int(ordinal) {
			return stays(etcd.PodName(int32(i)) + " is in the member list")
		}
	}
	return true, nil
}

// RemoveLeases removes the Leases of members that have left for good: those with ordinals that are beyond the StatefulSet, the spec and the
// size of the cluster.
func (s Scaler) RemoveLeases(ctx context.Context, st *state.State) error {
	if st.StatefulSet == nil || st.Etcd.Status.ClusterSize == 0 {
		return nil
	}
	leases := &coordinationv1.LeaseList{}
	if err := s.Client.List(ctx, leases, client.InNamespace(st.Etcd.Namespace), client.MatchingLabels{
		v1alpha1.LabelPartOf: st.Etcd.Name, v1alpha1.LabelComponent: v1alpha1.ComponentMemberLease,
	}); err != nil {
		return fmt.Errorf("listing the member leases of Etcd %s: %w", client.ObjectKeyFromObject(st.Etcd), err)
	}
	for i := range leases.Items {
		lease := &leases.Items[i]
		if !hasGone(st, lease.Name) || lease.DeletionTimestamp != nil || ownership.Of(st.Etcd, "Lease", lease) != nil {
			continue
		}
		err := s.Client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("deleting lease %s: %w", client.ObjectKeyFromObject(lease), err)
		}
	}
	return nil
}

// hasGone reports whether a Lease name belongs to a member that has left for good.
func hasGone(st *state.State, name string) bool {
	ordinal := members.OrdinalOfName(st.Etcd, name)
	return ordinal >= int(max(state.Members(st.Etcd, st.StatefulSet), st.Etcd.Spec.Replicas))
}
