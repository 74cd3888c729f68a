// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package scale decides how many replicas the StatefulSet of an Etcd has: the number of members of its cluster, or what a task that changes
// them records, and none while the cluster hibernates or a task keeps all members stopped.
package scale

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/firststart"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/hibernation"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Size is how many replicas the StatefulSet is to have now. Members are added one at a time, so this may differ from the spec.
type Size struct {
	Replicas int32
	// Reason of the condition Scaled, and Why the size differs from the spec; both are empty if it does not. Before members start, there is no reason:
	// the conditions of a cluster without members have one of their own.
	Reason, Why string
	// Operation is the reason of the condition ScaleOperationComplete while the spec asks for another number of members; otherwise empty.
	Operation string
}

// input of decide.
type input struct {
	// wanted by the spec.
	wanted int32
	// have is the number of replicas of the StatefulSet; nil if there is none.
	have *int32
	// size is the recorded size of the cluster (sizeOf).
	size int32
	// listed is how many replicas the listed members need, although the StatefulSet may have fewer.
	listed int32
	// heldBy is what blocks the task that changes the members, or its creation; nil if nothing does.
	heldBy *v1alpha1.Hold
	// surges: a further member stands in for the only one that the spec asks for, or while volumes move.
	surges bool
}

// decide decides how many replicas the StatefulSet is to have if no task holds it. A cluster that has served always wakes up with the
// members that it had. While it runs, only a MembershipChange changes its members, and the StatefulSet keeps its replicas unless someone
// has scaled it down. It is pure.
func decide(f input) Size {
	has := f.size
	if f.have != nil && *f.have > 0 {
		has = max(*f.have, f.listed)
	}
	switch {
	case f.wanted == 0:
		return Size{}
	case f.have != nil && *f.have > 0 && *f.have < has:
		return Size{has, v1alpha1.ReasonScalingOut, fmt.Sprintf("the StatefulSet was scaled to %d, and the cluster has %d members: the operator scales it back", *f.have, has), v1alpha1.ReasonScalingOut}
	case has == 0 || has == f.wanted:
		return Size{Replicas: f.wanted}
	case f.surges && has == f.wanted+1:
		why := "a further member stands in while another is replaced"
		if f.heldBy != nil {
			why += fmt.Sprintf("; %s: %s", f.heldBy.Guard, f.heldBy.Message)
		}
		return Size{has, v1alpha1.ReasonSurging, why, ""}
	}
	operation := v1alpha1.ReasonScalingOut
	if has > f.wanted {
		operation = v1alpha1.ReasonScalingIn
	}
	if f.heldBy != nil && f.heldBy.Guard == v1alpha1.GuardName(membership.GuardSingleAgreed) {
		return Size{has, v1alpha1.ReasonSingleMemberNotAllowed, fmt.Sprintf("the cluster has %d members, and the spec asks for 1, which tolerates no failure: to agree to that, annotate the Etcd with %s=true, or set spec.replicas to %d", has, v1alpha1.AnnotationAllowSingleMember, has), operation}
	}
	if f.heldBy != nil {
		return Size{has, v1alpha1.ReasonScalingHeld, fmt.Sprintf("the cluster has %d members, and the spec asks for %d; %s: %s", has, f.wanted, f.heldBy.Guard, f.heldBy.Message), operation}
	}
	return Size{has, operation, fmt.Sprintf("the cluster has %d members, and the spec asks for %d: they change one at a time", has, f.wanted), operation}
}

// Waiting returns the Size of a cluster while nothing is applied: with why the number of members stays, if its pods wait for a conversion.
func Waiting(etcd *v1alpha1.Etcd, s *cluster.Snapshot) Size {
	why := members.Unconverted(etcd, s)
	if why == "" || s.Replicas() == int(etcd.Spec.Replicas) {
		return Size{}
	}
	operation := v1alpha1.ReasonScalingOut
	if int(etcd.Spec.Replicas) < s.Replicas() {
		operation = v1alpha1.ReasonScalingIn
	}
	return Size{Reason: v1alpha1.ReasonScalingHeld, Why: why, Operation: operation}
}

// Seen returns the size of a cluster, given the size that was recorded before: the number of members to start when it wakes up. It shrinks
// once neither the StatefulSet nor the member list has the last ordinal any more, and not while a voter is listed that is not the Etcd's
// own.
func Seen(before int32, etcd *v1alpha1.Etcd, s *cluster.Snapshot) int32 {
	n := int32(s.Replicas())
	for _, v := range s.Cluster.Voters {
		ordinal := ordinalOf(etcd, v)
		if ordinal < 0 {
			return max(before, n)
		}
		n = max(n, int32(ordinal)+1)
	}
	return n
}

// sizeOf returns how many members a cluster has to be started with: its recorded size, or more if it is recovered from the data of a member
// that joined while no operator was running; 0 if no size is recorded.
func sizeOf(etcd *v1alpha1.Etcd) int32 {
	if etcd.Status.ClusterSize == 0 {
		return 0
	}
	return component.Reaching(etcd, etcd.Status.ClusterSize)
}

// released returns how many replicas the StatefulSet has if it is not held at zero. A cluster that hibernated without its volumes has none
// before the status records that it is restored.
func released(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) int32 {
	if hibernation.Blocked(etcd, set) != "" {
		return ptr.Deref(set.Spec.Replicas, 1)
	}
	if h := etcd.Status.Hibernation; h != nil && !hibernation.RecordsRestore(etcd.Status.Recovery, h) {
		return 0
	}
	return decide(input{wanted: etcd.Spec.Replicas, size: sizeOf(etcd)}).Replicas
}

// size decides how many replicas the StatefulSet is to have. joins is a sentence if members change the list themselves.
func size(st *state.State, first firststart.View, wake hibernation.WakeUp, joins string) Size {
	etcd, set := st.Etcd, st.StatefulSet
	if first.Why != "" {
		return Size{Why: first.Why}
	}
	if wake.Why != "" {
		return Size{Why: wake.Why}
	}
	if why := hibernation.Blocked(etcd, set); why != "" {
		size := Size{Replicas: released(etcd, set)}
		switch {
		case etcd.Source() != nil:
			size.Reason, size.Why = v1alpha1.ReasonScalingIn, strings.TrimSuffix(why, ".")
		case hibernation.BlockedForNow(etcd, set):
			size.Reason, size.Why = v1alpha1.ReasonNoFinalSnapshot, strings.TrimSuffix(why, ".")
		}
		return size
	}
	if why := hibernation.Loses(etcd, set, st.Snapshot, st.Claims); why != "" {
		return Size{Replicas: ptr.Deref(set.Spec.Replicas, 1), Reason: v1alpha1.ReasonNoFinalSnapshot, Why: strings.TrimSuffix(why, ".")}
	}
	f := input{wanted: etcd.Spec.Replicas, size: sizeOf(etcd), surges: etcd.Surges() && !state.Due(etcd) || etcd.Moves()}
	if set != nil {
		f.have, f.listed = set.Spec.Replicas, listed(etcd, st.Snapshot, st.Tasks)
	}
	f.heldBy = heldBy(st, joins)
	return decide(f)
}

// heldBy returns what blocks the task that changes the members, or keeps one from being created; nil if nothing does.
func heldBy(st *state.State, joins string) *v1alpha1.Hold {
	if t := etcdtasks.ChangingMembers(st.Tasks); t != nil && t.Status.Membership != nil {
		return t.Status.Membership.HeldBy
	}
	if st.Snapshot == nil || st.Snapshot.Replicas() == 0 {
		return nil
	}
	acting := cmp.Or(members.Acting(st.Etcd, st.Snapshot, st.Tasks), joins)
	if acting == "" {
		return nil
	}
	return &v1alpha1.Hold{Guard: v1alpha1.GuardName(membership.GuardNothingElseActs), Message: acting + ": members change after that"}
}

// Conditions returns the condition Scaled, whether the cluster has as many members as its spec asks for, and ScaleOperationComplete.
func (s Size) Conditions(etcd *v1alpha1.Etcd, size int32, snapshot *cluster.Snapshot) []metav1.Condition {
	scaled := s.scaled(etcd, size, snapshot)
	operation := s.Operation
	if scaled.Reason == v1alpha1.ReasonScalingOut || scaled.Reason == v1alpha1.ReasonScalingIn {
		operation = scaled.Reason
	}
	if operation == "" {
		return []metav1.Condition{scaled, NoOperation()}
	}
	return []metav1.Condition{scaled, conditions.False(v1alpha1.ConditionScaleOperationComplete, operation, "%s", scaled.Message)}
}

// NoOperation returns the condition ScaleOperationComplete of a cluster whose size does not change.
func NoOperation() metav1.Condition {
	return conditions.True(v1alpha1.ConditionScaleOperationComplete, v1alpha1.ReasonNoScaleOperation, "The number of members is not being changed.")
}

func (s Size) scaled(etcd *v1alpha1.Etcd, size int32, snapshot *cluster.Snapshot) metav1.Condition {
	joined := int32(0)
	for _, v := range snapshot.Cluster.Voters {
		if v.Ordinal >= 0 {
			joined++
		}
	}
	voters := len(snapshot.Cluster.Voters)
	switch {
	case s.Why != "":
		return conditions.False(v1alpha1.ConditionScaled, s.Reason, "%s.", strings.ToUpper(s.Why[:1])+s.Why[1:])
	case size == 0:
		return conditions.Unknown(v1alpha1.ConditionScaled, v1alpha1.ReasonNoMembersInStatus, "The cluster has not served yet.")
	case voters > 0 && joined < etcd.Spec.Replicas:
		return conditions.False(v1alpha1.ConditionScaled, v1alpha1.ReasonScalingOut, "%d of %d members have joined.", joined, etcd.Spec.Replicas)
	case joined > etcd.Spec.Replicas:
		return conditions.False(v1alpha1.ConditionScaled, v1alpha1.ReasonScalingIn, "%d members vote, and the spec asks for %d.", joined, etcd.Spec.Replicas)
	case surplusLearner(etcd, snapshot) != "":
		return conditions.False(v1alpha1.ConditionScaled, v1alpha1.ReasonScalingIn, "%s is listed as a learner, and the spec asks for %d.", surplusLearner(etcd, snapshot), etcd.Spec.Replicas)
	case cutsOver(etcd) && voters == 0:
		return conditions.False(v1alpha1.ConditionScaled, v1alpha1.ReasonScalingIn, "Members of the source cluster may have yet to leave: no member answers.")
	case cutsOver(etcd) && voters > int(joined):
		return conditions.False(v1alpha1.ConditionScaled, v1alpha1.ReasonScalingIn, "%d of %d voters belong to the source cluster, and have yet to leave.", voters-int(joined), voters)
	}
	return conditions.True(v1alpha1.ConditionScaled, v1alpha1.ReasonScaled, "The cluster has as many members as its spec asks for.")
}

// surplusLearner returns the name of a learner of the Etcd that is listed beyond the replicas of the spec; empty if there is none. It has no vote and may
// have no pod, such as one that added itself in a recovery while its pod was being removed: nothing but the list shows it.
func surplusLearner(etcd *v1alpha1.Etcd, s *cluster.Snapshot) string {
	for _, l := range s.Cluster.Learners {
		if i := members.OwnOrdinal(etcd, etcdclient.Member{ID: l.ID, Name: l.Name, PeerURLs: l.PeerURLs, Learner: true}); i >= int(etcd.Spec.Replicas) {
			return etcd.MemberName(etcd.PodName(int32(i)))
		}
	}
	return ""
}

// cutsOver reports whether the members of a source cluster are to leave, and are not known to have left. Stopping them before that can cost
// the quorum.
func cutsOver(etcd *v1alpha1.Etcd) bool { return etcd.Source() != nil && !etcd.SourceStays() }
