// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/scale"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/tls"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// confirmLoss is how long quorum has to be lost before the condition says so: when leadership moves, there is a moment without a leader
// that a quorum agrees on.
const confirmLoss = 2 * time.Second

// conditionsOf returns the conditions that follow from an observation. All other conditions stay unchanged.
func conditionsOf(next *v1alpha1.EtcdStatus, o Input) []metav1.Condition {
	all := memberConditions(next, o)
	if c := o.Adoption.Condition; c != nil {
		all = append(all, *c)
	}
	if c := bootstrapped(o.Etcd, next.BootstrapWithExistingCluster, o.Snapshot); c != nil {
		if waits := o.FirstStart.Waits; waits != "" && next.ClusterID == "" && c.Status == metav1.ConditionFalse {
			c.Message += " They may not join it yet: " + waits + "."
		}
		all = append(all, *c)
	}
	if o.TLS != nil && tls.Wanted(o.Etcd) {
		all = append(all, o.TLS.Condition(o.Etcd, o.Snapshot))
	}
	if o.Volumes != nil {
		all = append(all, o.Volumes.Grown())
		if c := o.Volumes.Moved(); c != nil {
			all = append(all, *c)
		}
	}
	if o.WakeUp != nil {
		if c := o.WakeUp.Condition(o.Etcd); c != nil {
			all = append(all, *c)
		}
	}
	if o.Hibernation != nil {
		all = append(all, o.Hibernation.Condition)
	}
	if o.Etcd.LacksProvider() {
		all = append(all, conditions.False(v1alpha1.ConditionBackupReady, v1alpha1.ReasonNoProvider,
			"No backups are taken: spec.backup.store names container %s and no provider. Set spec.backup.store.provider, or remove the store.", o.Etcd.Spec.Backup.Store.Container))
	}
	if o.Leases != nil {
		all = append(all, backupReady(next.Conditions.Find(v1alpha1.ConditionBackupReady), unreachable(o.Snapshot), *o.Leases, o.Etcd.ForPeopleOnly(), stalePeriod(o), o.Now.Time))
	}
	if o.OwnersChecked && (o.Volumes != nil || o.StatefulSet == nil || len(o.Foreign) > 0) {
		all = append(all, objectsOwned(o.Foreign, o.Volumes.Foreign()))
	}
	return all
}

func memberConditions(status *v1alpha1.EtcdStatus, o Input) []metav1.Condition {
	if without := withoutMembers(status, o); without != nil {
		return without
	}
	s := o.Snapshot
	all := []metav1.Condition{ready(status, o), allMembersReady(s), allMembersUpdated(status, s)}
	if o.Volumes != nil {
		all = append(all, o.Volumes.Ready(s))
	}
	if o.Size != nil {
		all = append(all, o.Size.Conditions(o.Etcd, status.ClusterSize, s)...)
	}
	return all
}

// withoutMembers returns the conditions of an Etcd without observed members; nil if members are observed.
func withoutMembers(status *v1alpha1.EtcdStatus, o Input) []metav1.Condition {
	s := o.Snapshot
	switch {
	case o.TooManyReplicas:
		message := fmt.Sprintf("StatefulSet %s/%s was scaled to %d replicas, and members are observed up to %d only: scale it back to the number of members, %d.",
			o.Etcd.Namespace, o.Etcd.Name, *o.StatefulSet.Spec.Replicas, observe.MaxReplicas, cmp.Or(status.ClusterSize, o.Etcd.Spec.Replicas))
		return append(alike(conditions.Unknown, v1alpha1.ReasonTooManyReplicas, message, v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionAllMembersUpdated),
			conditions.False(v1alpha1.ConditionScaled, v1alpha1.ReasonTooManyReplicas, "%s", message))
	case o.FirstStart.Why != "":
		message := "No member has been started yet: " + o.FirstStart.Why + "."
		return []metav1.Condition{
			conditions.Unknown(v1alpha1.ConditionReady, v1alpha1.ReasonNoMembersInStatus, "%s", message),
			conditions.False(v1alpha1.ConditionAllMembersReady, v1alpha1.ReasonNotAllMembersReady, "%s", message),
			conditions.False(v1alpha1.ConditionAllMembersUpdated, v1alpha1.ReasonRolloutPending, "%s", message),
			conditions.False(v1alpha1.ConditionDataVolumesReady, o.FirstStart.Reason, "%s", message),
		}
	case s == nil:
		const message = "There is no StatefulSet yet."
		return []metav1.Condition{
			conditions.Unknown(v1alpha1.ConditionReady, v1alpha1.ReasonNoMembersInStatus, message),
			conditions.False(v1alpha1.ConditionAllMembersReady, v1alpha1.ReasonNotAllMembersReady, message),
			conditions.False(v1alpha1.ConditionAllMembersUpdated, v1alpha1.ReasonRolloutPending, message),
		}
	case s.StatefulSet.HeldAtZeroBy != "":
		return stopped(v1alpha1.ReasonHeldAtZero, "A task has stopped all members, and will start them again.")
	case s.Replicas() == 0 && o.Etcd.Spec.Replicas > 0:
		message := "The cluster wakes up, and no member has been started yet"
		if o.Size != nil && o.Size.Why != "" {
			message += ": " + o.Size.Why
		}
		return stopped(v1alpha1.ReasonWakingUp, message+".")
	case s.Replicas() == 0:
		const message = "The Etcd has no replicas."
		return append([]metav1.Condition{conditions.False(v1alpha1.ConditionReady, v1alpha1.ReasonHibernated, message), scale.NoOperation()},
			alike(conditions.True, v1alpha1.ReasonHibernated, message,
				v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionAllMembersUpdated, v1alpha1.ConditionDataVolumesReady, v1alpha1.ConditionScaled)...)
	}
	return nil
}

// stopped returns the conditions of a cluster whose members are to run, and do not yet: no pod shows what is on the volumes.
func stopped(reason, message string) []metav1.Condition {
	return append(alike(conditions.False, reason, message, v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionAllMembersUpdated, v1alpha1.ConditionScaled),
		conditions.Unknown(v1alpha1.ConditionDataVolumesReady, reason, "%s", message))
}

// alike returns conditions of several types with the same status, reason and message.
func alike(of func(conditionType, reason, format string, args ...any) metav1.Condition, reason, message string, types ...string) (all []metav1.Condition) {
	for _, t := range types {
		all = append(all, of(t, reason, "%s", message))
	}
	return all
}

func ready(status *v1alpha1.EtcdStatus, o Input) metav1.Condition {
	s := o.Snapshot
	before := status.Conditions.Find(v1alpha1.ConditionReady)
	voters := fmt.Sprintf("%d of %d voters serve", s.ServingVoters(), len(s.Cluster.Voters))
	switch {
	case s.Quorate():
		return conditions.True(v1alpha1.ConditionReady, v1alpha1.ReasonQuorate, "%s.", voters)
	case before != nil && before.Status == metav1.ConditionTrue && o.LostFor < confirmLoss:
		return *before
	case status.ClusterID == "":
		return conditions.Unknown(v1alpha1.ConditionReady, v1alpha1.ReasonNoMembersInStatus, "The cluster has not served yet.")
	case !s.Cluster.Reachable:
		return unanswered(status, s)
	}
	return conditions.False(v1alpha1.ConditionReady, v1alpha1.ReasonQuorumLost, "%s; quorum is %d.", voters, s.Quorum())
}

// unanswered returns the condition Ready of a cluster that does not answer the operator. It may serve others.
func unanswered(status *v1alpha1.EtcdStatus, s *cluster.Snapshot) metav1.Condition {
	probed := s.CountOrdinals(func(o cluster.Ordinal) bool { return o.ReadyButNotServing() && o.Pod.Stale() == "" })
	_, quorate := s.Unreachable()
	seems := fmt.Sprintf("%d pods are ready", status.ReadyReplicas)
	switch {
	case status.ReadyReplicas > 0:
	case quorate && probed > 0:
		seems = fmt.Sprintf("The probes of %d members pass", probed)
	default:
		return conditions.False(v1alpha1.ConditionReady, v1alpha1.ReasonQuorumLost, "No member answers.")
	}
	refusal := ""
	if s.CountOrdinals(func(o cluster.Ordinal) bool { return o.Pod != nil && strings.HasPrefix(o.Pod.Endpoint, "https://") }) > 0 {
		refusal = " Or they refuse its certificate: TLSReady says whether they were started with the CAs in their Secrets."
	}
	return conditions.Unknown(v1alpha1.ConditionReady, v1alpha1.ReasonNoMemberAnswers,
		"%s, but no member answers the operator: allow operator traffic to the pods' client port.%s", seems, refusal)
}

// allMembersReady returns the condition AllMembersReady. Its message names the members that do not participate.
func allMembersReady(s *cluster.Snapshot) metav1.Condition {
	var away []string
	for _, o := range s.Ordinals {
		if o.Class != v1alpha1.ClassParticipating {
			away = append(away, fmt.Sprintf("%s is %s", o.Name, o.Describe()))
		}
	}
	if len(away) == 0 {
		return conditions.True(v1alpha1.ConditionAllMembersReady, v1alpha1.ReasonAllMembersReady, "Every member participates.")
	}
	return conditions.False(v1alpha1.ConditionAllMembersReady, v1alpha1.ReasonNotAllMembersReady, "%s.", strings.Join(away, "; "))
}

// allMembersUpdated returns the condition AllMembersUpdated: every pod is at the StatefulSet's update revision. It stays unchanged while
// that is unknown, because the StatefulSet controller has not computed the revision or a pod is being recreated. So it does not become True
// before the last pod of a rollout is back, nor False because of an eviction.
func allMembersUpdated(status *v1alpha1.EtcdStatus, s *cluster.Snapshot) metav1.Condition {
	outdated, missing := s.PodsBehind()
	before := status.Conditions.Find(v1alpha1.ConditionAllMembersUpdated)
	switch {
	case before != nil && !s.StatefulSet.Observed:
		return *before
	case outdated == 0 && (missing == 0 || before != nil && before.Status == metav1.ConditionTrue):
		return conditions.True(v1alpha1.ConditionAllMembersUpdated, v1alpha1.ReasonAllMembersUpdated, "Every pod is at the newest template.")
	}
	return conditions.False(v1alpha1.ConditionAllMembersUpdated, v1alpha1.ReasonRolloutPending,
		"%d of %d pods are at the newest template.", s.Replicas()-outdated-missing, s.Replicas())
}
