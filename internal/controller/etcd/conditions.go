// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/plain"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// confirmLoss is for how long a quorum has to be gone before the condition says so. While leadership passes
// from one member to another, no quorum of them knows the same leader for a moment.
const confirmLoss = pollTroubled

// conditions are those that follow from an observation.
func conditions(etcd *v1alpha1.Etcd, status *v1alpha1.EtcdStatus, o observation) []metav1.Condition {
	all := memberConditions(status, o)
	if asked(etcd) {
		all = append(all, tlsReady(etcd, o.tls, o.snapshot))
	}
	return all
}

func memberConditions(status *v1alpha1.EtcdStatus, o observation) []metav1.Condition {
	s := o.snapshot
	switch {
	case s == nil:
		const message = "There is no StatefulSet yet."
		return []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonNoMembersInStatus, message),
			condition(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, message),
			condition(v1alpha1.ConditionAllMembersUpdated, metav1.ConditionFalse, v1alpha1.ReasonRolloutPending, message),
		}
	case s.StatefulSet.HeldAtZeroBy != "":
		const message = "A task has stopped all members, and will start them again."
		return []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHeldAtZero, message),
			condition(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse, v1alpha1.ReasonHeldAtZero, message),
			condition(v1alpha1.ConditionAllMembersUpdated, metav1.ConditionFalse, v1alpha1.ReasonHeldAtZero, message),
		}
	case s.Replicas() == 0 && o.wanted > 0:
		const message = "The cluster wakes up, and no member has been started yet."
		return []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonWakingUp, message),
			condition(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse, v1alpha1.ReasonWakingUp, message),
			condition(v1alpha1.ConditionAllMembersUpdated, metav1.ConditionFalse, v1alpha1.ReasonWakingUp, message),
		}
	case s.Replicas() == 0:
		const message = "The Etcd has no replicas."
		return []metav1.Condition{
			condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonHibernated, message),
			condition(v1alpha1.ConditionAllMembersReady, metav1.ConditionTrue, v1alpha1.ReasonHibernated, message),
			condition(v1alpha1.ConditionAllMembersUpdated, metav1.ConditionTrue, v1alpha1.ReasonHibernated, message),
			condition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionTrue, v1alpha1.ReasonHibernated, message),
			condition(v1alpha1.ConditionScaled, metav1.ConditionTrue, v1alpha1.ReasonHibernated, message),
		}
	}
	return []metav1.Condition{ready(status, o), allMembersReady(s), allMembersUpdated(status, s), dataVolumesReady(s, o.claims), scaled(status, o)}
}

// quorate tells whether the cluster has a quorum, as etcd itself says.
func quorate(s *cluster.Snapshot) bool { return s.HasQuorum() && s.Cluster.LeaderKnown }

func ready(status *v1alpha1.EtcdStatus, o observation) metav1.Condition {
	s := o.snapshot
	before := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	voters := fmt.Sprintf("%d of %d voters serve", s.ServingVoters(), len(s.Cluster.Voters))
	switch {
	case quorate(s):
		return condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonQuorate, voters+".")
	case before != nil && before.Status == metav1.ConditionTrue && o.lostFor < confirmLoss:
		return *before
	case status.ClusterID == "":
		return condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonNoMembersInStatus, "The cluster has not served yet.")
	case !s.Cluster.Reachable && status.ReadyReplicas > 0:
		return condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonNoMemberAnswers,
			fmt.Sprintf("%d pods are ready, and no member answers the operator: let it reach the client port of the pods.", status.ReadyReplicas))
	case !s.Cluster.Reachable:
		return condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonQuorumLost, "No member answers.")
	}
	return condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonQuorumLost,
		fmt.Sprintf("%s, and a quorum takes %d.", voters, s.Quorum()))
}

// allMembersReady tells whether every member participates, and which do not.
func allMembersReady(s *cluster.Snapshot) metav1.Condition {
	var away []string
	for _, o := range s.Ordinals {
		if o.Class == v1alpha1.ClassParticipating {
			continue
		}
		away = append(away, fmt.Sprintf("%s is %s", o.Name, describe(o)))
	}
	if len(away) == 0 {
		return condition(v1alpha1.ConditionAllMembersReady, metav1.ConditionTrue, v1alpha1.ReasonAllMembersReady, "Every member participates.")
	}
	return condition(v1alpha1.ConditionAllMembersReady, metav1.ConditionFalse, v1alpha1.ReasonNotAllMembersReady, strings.Join(away, "; ")+".")
}

// describe is the class of an ordinal, with the kubelet's words where it has some.
func describe(o cluster.Ordinal) string {
	if o.Pod == nil || o.Pod.Trouble == "" {
		return string(o.Class)
	}
	return fmt.Sprintf("%s (%s)", o.Class, o.Pod.Trouble)
}

// allMembersUpdated tells whether every pod is at the StatefulSet's update revision. What is not known yet
// leaves it as it was: a revision that the StatefulSet controller has not computed, and the revision of a
// pod that is on its way. So a rollout has not ended before its last pod is back, and a pod that somebody
// evicts does not begin one.
func allMembersUpdated(status *v1alpha1.EtcdStatus, s *cluster.Snapshot) metav1.Condition {
	outdated, missing := outdatedPods(s)
	before := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAllMembersUpdated)
	switch {
	case before != nil && !s.StatefulSet.Observed:
		return *before
	case outdated == 0 && (missing == 0 || before != nil && before.Status == metav1.ConditionTrue):
		return condition(v1alpha1.ConditionAllMembersUpdated, metav1.ConditionTrue, v1alpha1.ReasonAllMembersUpdated, "Every pod is at the newest template.")
	}
	return condition(v1alpha1.ConditionAllMembersUpdated, metav1.ConditionFalse, v1alpha1.ReasonRolloutPending,
		fmt.Sprintf("%d of %d pods are at the newest template.", s.Replicas()-outdated-missing, s.Replicas()))
}

func outdatedPods(s *cluster.Snapshot) (outdated, missing int) {
	for _, o := range s.Ordinals {
		switch {
		case o.Pod == nil:
			missing++
		case o.Pod.Revision != s.StatefulSet.UpdateRevision:
			outdated++
		}
	}
	return outdated, missing
}

func condition(conditionType string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: conditionType, Status: status, Reason: reason, Message: plain.Text(message, maxMessage)}
}

// maxMessage bounds a message of a status, in bytes: the API server refuses a condition with more than 32 KiB, and with it
// the whole status. What others wrote into a lease, or said at their end, has any length.
const maxMessage = 4 << 10
