// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// sizing is how many replicas the StatefulSet is to have now. A cluster grows one member at a time, so that need
// not be what the spec says.
type sizing struct {
	replicas int32
	// reason, of those of the condition Scaled, and why it is not what the spec says; empty when it is.
	reason, why string
}

// facts of a sizing.
type sizingFacts struct {
	// wanted by the spec.
	wanted int32
	// have is what the StatefulSet has; nil when there is none.
	have *int32
	// size that the cluster has been seen to have.
	size int32
	// served: the ID of the cluster is recorded.
	served bool
	// snapshot is taken only when the cluster may grow.
	snapshot *cluster.Snapshot
}

// decideSize decides how many replicas the StatefulSet is to have. A cluster that has served does not begin anew
// with another number of members: it wakes up with those that it has, and grows by one when that is safe.
func decideSize(f sizingFacts) sizing {
	switch {
	case f.wanted == 0:
		return sizing{}
	case f.have == nil || *f.have == 0:
		if f.size == 0 || f.size == f.wanted {
			return sizing{replicas: f.wanted}
		}
		if f.size > f.wanted {
			return scaleInRefused(f.size, f.wanted)
		}
		return sizing{f.size, v1alpha1.ReasonScalingOut, fmt.Sprintf("the cluster wakes up with the %d members that it has, and grows to %d then", f.size, f.wanted)}
	case *f.have > f.wanted:
		return scaleInRefused(*f.have, f.wanted)
	case *f.have == f.wanted:
		return sizing{replicas: f.wanted}
	}
	if reason, why := holdsGrowth(f); why != "" {
		return sizing{*f.have, reason, fmt.Sprintf("%d of %d members: %s", *f.have, f.wanted, why)}
	}
	next := *f.have + 1
	if next == f.wanted {
		return sizing{replicas: next}
	}
	return sizing{next, v1alpha1.ReasonScalingOut, fmt.Sprintf("%d of %d members: the next one is added", *f.have, f.wanted)}
}

func scaleInRefused(have, wanted int32) sizing {
	return sizing{have, v1alpha1.ReasonScaleInRefused, fmt.Sprintf("the cluster has %d members, and would have %d: members are not taken away; set spec.replicas to %d", have, wanted, have)}
}

// holdsGrowth says why no further member is added now; empty when it may be.
func holdsGrowth(f sizingFacts) (reason, why string) {
	s := f.snapshot
	held := func(format string, args ...any) (string, string) {
		return v1alpha1.ReasonScaleOutHeld, fmt.Sprintf(format, args...)
	}
	switch {
	case !f.served:
		return held("the cluster has not served yet")
	case s == nil || !s.StatefulSet.Observed:
		return held("the StatefulSet controller has not seen the newest spec yet")
	case !s.HasQuorum() || !s.Cluster.LeaderKnown:
		return held("%d of %d voters serve, and it takes a quorum to add one", s.ServingVoters(), len(s.Cluster.Voters))
	}
	for _, o := range s.Ordinals {
		switch {
		case o.Role == v1alpha1.RoleLearner:
			return v1alpha1.ReasonScalingOut, fmt.Sprintf("%s is a learner that catches up", o.Name)
		case o.Class != v1alpha1.ClassParticipating:
			return v1alpha1.ReasonScalingOut, fmt.Sprintf("%s is %s", o.Name, describe(o))
		}
	}
	if len(s.Surplus) > 0 {
		return held("%s is not among the replicas and has to go first", s.Surplus[0])
	}
	for _, v := range s.Cluster.Voters {
		if !v.Serving {
			return held("voter %s does not serve: bring it back, or remove it from the cluster", v.Name)
		}
	}
	// Where the number of members is even, each is one that the quorum cannot spare: to grow comes first.
	if outdated, _ := outdatedPods(s); outdated > 0 && len(s.Ordinals)%2 == 1 {
		return held("%d pods are rolled to the newest template first", outdated)
	}
	return "", ""
}

// clusterSize is the size of a cluster, given that which it has been seen to have.
func clusterSize(before int32, s *cluster.Snapshot) int32 {
	for _, v := range s.Cluster.Voters {
		before = max(before, int32(v.Ordinal)+1)
	}
	return before
}

// replicas is how many replicas the StatefulSet has when it wakes up, or does not fall asleep. One that slept without
// its volumes has none before it is recorded that it begins anew.
func replicas(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) int32 {
	if keptAwake(etcd, set) != "" {
		return ptr.Deref(set.Spec.Replicas, 1)
	}
	if h := etcd.Status.Hibernation; h != nil && !wakesFrom(etcd.Status.Recovery, h) {
		return 0
	}
	return decideSize(sizingFacts{wanted: etcd.Spec.Replicas, size: etcd.Status.ClusterSize}).replicas
}

// mayGrow tells whether a StatefulSet that is awake has fewer replicas than the spec says.
func mayGrow(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) bool {
	have := int32(0)
	if set != nil {
		have = ptr.Deref(set.Spec.Replicas, 1)
	}
	return 0 < have && have < etcd.Spec.Replicas
}

// size decides how many replicas the StatefulSet is to have, by what is the case now. The cluster is asked only
// when it may grow. Asleep is why it is not woken up yet, if it is not.
func (r *Reconciler) size(ctx context.Context, etcd *v1alpha1.Etcd, set *appsv1.StatefulSet, asleep string) (sizing, error) {
	if asleep != "" {
		return sizing{reason: v1alpha1.ReasonWakingUp, why: asleep}, nil
	}
	if why := keptAwake(etcd, set); why != "" {
		s := sizing{replicas: replicas(etcd, set)}
		if storeMissing(etcd) == "" {
			// This may pass without a change of the spec.
			s.reason, s.why = v1alpha1.ReasonNoFinalSnapshot, strings.TrimSuffix(why, ".")
		}
		return s, nil
	}
	f := sizingFacts{wanted: etcd.Spec.Replicas, size: etcd.Status.ClusterSize, served: etcd.Status.ClusterID != ""}
	if set != nil {
		f.have = set.Spec.Replicas
	}
	if mayGrow(etcd, set) {
		var err error
		if f.snapshot, err = r.observe(ctx, r.APIReader, etcd); err != nil {
			return sizing{}, err
		}
		if f.snapshot != nil && len(f.snapshot.Ordinals) != int(*f.have) {
			// The cache is late.
			f.snapshot = nil
		}
	}
	return decideSize(f), nil
}

// scaled says whether the cluster has as many members as its spec says.
func scaled(status *v1alpha1.EtcdStatus, o observation) metav1.Condition {
	joined := int32(0)
	for _, v := range o.snapshot.Cluster.Voters {
		if v.Ordinal >= 0 {
			joined++
		}
	}
	switch {
	case o.size.why != "":
		return condition(v1alpha1.ConditionScaled, metav1.ConditionFalse, o.size.reason, strings.ToUpper(o.size.why[:1])+o.size.why[1:]+".")
	case status.ClusterSize == 0:
		return condition(v1alpha1.ConditionScaled, metav1.ConditionUnknown, v1alpha1.ReasonNoMembersInStatus, "The cluster has not served yet.")
	case joined > 0 && joined < o.wanted:
		return condition(v1alpha1.ConditionScaled, metav1.ConditionFalse, v1alpha1.ReasonScalingOut, fmt.Sprintf("%d of %d members have joined.", joined, o.wanted))
	}
	return condition(v1alpha1.ConditionScaled, metav1.ConditionTrue, v1alpha1.ReasonScaled, "The cluster has as many members as it should.")
}
