// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package scale decides how many replicas the StatefulSet of an Etcd has: those of its spec, one more while the cluster grows,
// none while it hibernates or while a task keeps all members stopped.
package scale

import (
	"context"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/firststart"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Size is how many replicas the StatefulSet is to have now. A cluster grows one member at a time, so that need not be what the
// spec says.
type Size struct {
	Replicas int32
	// Reason, of those of the condition Scaled, and Why it is not what the spec says; empty when it is.
	Reason, Why string
}

// input is what a Size follows from.
type input struct {
	// wanted by the spec.
	wanted int32
	// have is what the StatefulSet has; nil when there is none.
	have *int32
	// size that the cluster has been seen to have.
	size int32
	// clusterID is the recorded ID of the cluster, in hex; empty before it has served.
	clusterID string
	// snapshot is taken only when the cluster may grow.
	snapshot *cluster.Snapshot
}

// decide decides how many replicas the StatefulSet is to have. A cluster that has served is not started with another number of
// members: it wakes up with those that it has, and grows by one when that is safe. It is pure.
func decide(f input) Size {
	switch {
	case f.wanted == 0:
		return Size{}
	case f.have == nil || *f.have == 0:
		if f.size == 0 || f.size == f.wanted {
			return Size{Replicas: f.wanted}
		}
		if f.size > f.wanted {
			return scaleInRefused(f.size, f.wanted)
		}
		return Size{f.size, v1alpha1.ReasonScalingOut, fmt.Sprintf("the cluster wakes up with its %d members, and then grows to %d", f.size, f.wanted)}
	case *f.have > f.wanted:
		return scaleInRefused(*f.have, f.wanted)
	case *f.have == f.wanted:
		return Size{Replicas: f.wanted}
	}
	if reason, why := growthBlocked(f); why != "" {
		return Size{*f.have, reason, fmt.Sprintf("%d of %d members: %s", *f.have, f.wanted, why)}
	}
	next := *f.have + 1
	if next == f.wanted {
		return Size{Replicas: next}
	}
	return Size{next, v1alpha1.ReasonScalingOut, fmt.Sprintf("%d of %d members: the next one is added", *f.have, f.wanted)}
}

func scaleInRefused(have, wanted int32) Size {
	return Size{have, v1alpha1.ReasonScaleInRefused, fmt.Sprintf("the cluster has %d members, and the spec asks for %d: scale-in is not supported; set spec.replicas to %d", have, wanted, have)}
}

// growthBlocked returns why no further member is added now; empty when it may be.
func growthBlocked(f input) (reason, why string) {
	s := f.snapshot
	held := func(format string, args ...any) (string, string) {
		return v1alpha1.ReasonScaleOutHeld, fmt.Sprintf(format, args...)
	}
	switch {
	case f.clusterID == "":
		return held("the cluster has not served yet")
	case s == nil || !s.StatefulSet.Observed:
		return held("the StatefulSet controller has not seen the newest spec yet")
	case !s.HasQuorum() || !s.Cluster.LeaderKnown:
		return held("%d of %d voters serve, which is not a quorum", s.ServingVoters(), len(s.Cluster.Voters))
	case fmt.Sprintf("%x", s.Cluster.ID) != f.clusterID:
		// A further member would refuse to join it, and an only one that was restored would not be alone any more.
		return held("the members serve as cluster %x, and cluster %s is recorded", s.Cluster.ID, f.clusterID)
	}
	for _, o := range s.Ordinals {
		switch {
		case o.Role == v1alpha1.RoleLearner:
			return v1alpha1.ReasonScalingOut, fmt.Sprintf("%s is a learner that is catching up", o.Name)
		case o.Class != v1alpha1.ClassParticipating:
			return v1alpha1.ReasonScalingOut, fmt.Sprintf("%s is %s", o.Name, o.Describe())
		}
	}
	if len(s.Surplus) > 0 {
		return held("pod %s is not among the replicas and has to be removed first", s.Surplus[0])
	}
	for _, v := range s.Cluster.Voters {
		if !v.Serving {
			return held("voter %s does not serve: restore it, or remove it from the cluster", v.Name)
		}
	}
	// Where the number of members is even, each is one that the quorum cannot spare: to grow comes first.
	if outdated, _ := s.PodsBehind(); outdated > 0 && len(s.Ordinals)%2 == 1 {
		return held("%d pods have to be at the newest template first", outdated)
	}
	return "", ""
}

// Seen returns the size of a cluster, given that which it has been seen to have before.
func Seen(before int32, s *cluster.Snapshot) int32 {
	for _, v := range s.Cluster.Voters {
		before = max(before, int32(v.Ordinal)+1)
	}
	return before
}

// sizeOf returns how many members a cluster has to be started with: as many as it has been seen to have, or more if it is recovered from
// the data of one that joined while no operator watched; 0 if it has not been seen.
func sizeOf(etcd *v1alpha1.Etcd) int32 {
	if etcd.Status.ClusterSize == 0 {
		return 0
	}
	return component.Reaching(etcd, etcd.Status.ClusterSize)
}

// released returns how many replicas the StatefulSet has when it is not held at zero. A cluster that hibernated without its
// volumes has none before the status records that it is restored.
func released(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) int32 {
	if hibernation.Blocked(etcd, set) != "" {
		return ptr.Deref(set.Spec.Replicas, 1)
	}
	if h := etcd.Status.Hibernation; h != nil && !hibernation.RecordsRestore(etcd.Status.Recovery, h) {
		return 0
	}
	return decide(input{wanted: etcd.Spec.Replicas, size: sizeOf(etcd)}).Replicas
}

// mayGrow reports whether a StatefulSet with replicas has fewer than the spec asks for.
func mayGrow(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) bool {
	have := int32(0)
	if set != nil {
		have = ptr.Deref(set.Spec.Replicas, 1)
	}
	return 0 < have && have < etcd.Spec.Replicas
}

// size decides how many replicas the StatefulSet is to have. The members are observed again, with live reads, only when the
// cluster may grow.
func (s Scaler) size(ctx context.Context, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, first firststart.View, wake hibernation.WakeUp) (Size, error) {
	if first.Why != "" {
		return Size{Reason: first.Reason, Why: first.Why}, nil
	}
	if wake.Why != "" {
		return Size{Reason: v1alpha1.ReasonWakingUp, Why: wake.Why}, nil
	}
	if why := hibernation.Blocked(etcd, set); why != "" {
		size := Size{Replicas: released(etcd, set)}
		if hibernation.BlockedForNow(etcd, set) {
			size.Reason, size.Why = v1alpha1.ReasonNoFinalSnapshot, strings.TrimSuffix(why, ".")
		}
		return size, nil
	}
	f := input{wanted: etcd.Spec.Replicas, size: sizeOf(etcd), clusterID: etcd.Status.ClusterID}
	if set != nil {
		f.have = set.Spec.Replicas
	}
	if mayGrow(etcd, set) {
		var err error
		if f.snapshot, err = s.Observe(ctx, s.API, etcd); err != nil {
			return Size{}, err
		}
		if f.snapshot != nil && len(f.snapshot.Ordinals) != int(*f.have) {
			// The cache is late.
			f.snapshot = nil
		}
	}
	return decide(f), nil
}

// Condition returns the condition Scaled: whether the cluster has as many members as its spec asks for.
func (s Size) Condition(etcd *v1alpha1.Etcd, size int32, snapshot *cluster.Snapshot) metav1.Condition {
	joined := int32(0)
	for _, v := range snapshot.Cluster.Voters {
		if v.Ordinal >= 0 {
			joined++
		}
	}
	switch {
	case s.Why != "":
		return conditions.False(v1alpha1.ConditionScaled, s.Reason, "%s.", strings.ToUpper(s.Why[:1])+s.Why[1:])
	case size == 0:
		return conditions.Unknown(v1alpha1.ConditionScaled, v1alpha1.ReasonNoMembersInStatus, "The cluster has not served yet.")
	case joined > 0 && joined < etcd.Spec.Replicas:
		return conditions.False(v1alpha1.ConditionScaled, v1alpha1.ReasonScalingOut, "%d of %d members have joined.", joined, etcd.Spec.Replicas)
	}
	return conditions.True(v1alpha1.ConditionScaled, v1alpha1.ReasonScaled, "The cluster has as many members as its spec asks for.")
}
