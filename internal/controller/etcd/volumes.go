// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claim is what matters of the claim of an ordinal.
type claim struct {
	name string
	// foreign says why it is not the Etcd's own; nil when it is.
	foreign *ownership.Foreign
	// bound: it has a volume; lost: it had one, which does not exist any more.
	bound, lost bool
	// warning is what the volume's provisioner says of a claim that waits for its volume; empty when it says nothing.
	warning string
	// asks for, and has.
	asks, has resource.Quantity
	// class is the name of its StorageClass, and expandable tells whether that allows volumes to grow.
	class      string
	expandable bool
	// waitsForRestart: its file system grows only when its pod starts anew.
	waitsForRestart bool
}

// volumes is what a decision on the growth of an Etcd's volumes rests on.
type volumes struct {
	wanted   resource.Quantity
	template resource.Quantity
	claims   []claim
}

// growth is what is to be done about volumes that are too small.
type growth struct {
	// grow are the names of the claims that are to ask for more.
	grow []string
	// replaceSet: every claim asks for enough; now the StatefulSet's template has to follow, which cannot be changed.
	replaceSet bool
	condition  metav1.Condition
}

// decideGrowth decides what is to be done about volumes that are too small. The claims come first: they are what the
// members use, and the API server refuses one that cannot grow.
func decideGrowth(v volumes) growth {
	var g growth
	var foreign, refused, growing []string
	for _, c := range v.claims {
		switch {
		case c.asks.Cmp(v.wanted) < 0 && c.foreign != nil:
			foreign = append(foreign, c.foreign.String())
		case c.asks.Cmp(v.wanted) < 0 && !c.bound:
			growing = append(growing, fmt.Sprintf("claim %s is not bound yet", c.name))
		case c.asks.Cmp(v.wanted) < 0 && !c.expandable:
			refused = append(refused, fmt.Sprintf("claim %s (StorageClass %q)", c.name, c.class))
		case c.asks.Cmp(v.wanted) < 0:
			g.grow = append(g.grow, c.name)
			growing = append(growing, fmt.Sprintf("claim %s is asked for more", c.name))
		case c.bound && c.has.Cmp(v.wanted) < 0 && c.waitsForRestart:
			growing = append(growing, fmt.Sprintf("the file system of claim %s grows when its pod starts anew: create a rollout with restart: true", c.name))
		case c.bound && c.has.Cmp(v.wanted) < 0:
			growing = append(growing, fmt.Sprintf("claim %s has %s of %s", c.name, c.has.String(), v.wanted.String()))
		}
	}
	// All or none: members with volumes of different sizes would help nobody.
	if len(foreign) > 0 {
		g.grow = nil
		g.condition = condition(v1alpha1.ConditionVolumesGrown, metav1.ConditionFalse, v1alpha1.ReasonClaimNotOwned, fmt.Sprintf(
			"No volume grows to %s, because not every claim is this Etcd's own. %s.", v.wanted.String(), strings.Join(foreign, "; ")))
		return g
	}
	if len(refused) > 0 {
		g.grow = nil
		g.condition = condition(v1alpha1.ConditionVolumesGrown, metav1.ConditionFalse, v1alpha1.ReasonVolumesNotExpandable, fmt.Sprintf(
			"No volume grows to %s, because the StorageClass does not allow it (allowVolumeExpansion): %s. Move the data to an Etcd with another StorageClass, or set storageCapacity back.", v.wanted.String(), strings.Join(refused, ", ")))
		return g
	}
	if v.template.Cmp(v.wanted) < 0 {
		g.replaceSet = len(g.grow) == 0 && allAsk(v)
		growing = append(growing, "the claim template of the StatefulSet follows while every member participates and no rollout runs")
	}
	g.condition = condition(v1alpha1.ConditionVolumesGrown, metav1.ConditionTrue, v1alpha1.ReasonVolumesGrown, fmt.Sprintf("Every volume has %s.", v.wanted.String()))
	if len(growing) > 0 {
		g.condition = condition(v1alpha1.ConditionVolumesGrown, metav1.ConditionFalse, v1alpha1.ReasonVolumesGrowing, strings.Join(growing, "; ")+".")
	}
	return g
}

func allAsk(v volumes) bool {
	for _, c := range v.claims {
		if c.asks.Cmp(v.wanted) < 0 {
			return false
		}
	}
	return true
}

// templateCapacity is the capacity in the claim template of a StatefulSet.
func templateCapacity(set *appsv1.StatefulSet) resource.Quantity {
	for _, t := range set.Spec.VolumeClaimTemplates {
		return t.Spec.Resources.Requests[corev1.ResourceStorage]
	}
	return resource.Quantity{}
}

// templateTooSmall tells whether a StatefulSet would give new members volumes that are too small.
func templateTooSmall(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) bool {
	if set == nil {
		return false
	}
	template, wanted := templateCapacity(set), etcd.Spec.Capacity()
	return template.Cmp(wanted) < 0
}

// mayReplaceSet is why a StatefulSet must not be taken away from its pods now; empty when it may. While it is away
// nobody would bring a pod back.
func mayReplaceSet(s *cluster.Snapshot, set *appsv1.StatefulSet, claims []corev1.PersistentVolumeClaim, tasks []v1alpha1.EtcdOperatorTask) string {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	switch {
	case !s.StatefulSet.Observed:
		return "the StatefulSet controller has not seen its newest spec"
	case p == nil || p.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType || p.WhenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType:
		return "its claims are not retained"
	case s.Participating() < s.Replicas() || len(s.Surplus) > 0:
		return "not every member participates"
	}
	for i := range claims {
		if ownedBy(&claims[i], set.UID) {
			return "claim " + claims[i].Name + " would go with it"
		}
	}
	for i := range tasks {
		if tasks[i].Spec.Type.IsRollout() && tasks[i].Status.State == v1alpha1.TaskStateInProgress {
			return "rollout " + tasks[i].Name + " is in progress"
		}
	}
	return ""
}

func ownedBy(o metav1.Object, uid types.UID) bool {
	for _, r := range o.GetOwnerReferences() {
		if r.UID == uid {
			return true
		}
	}
	return false
}

// beingReplaced tells whether a StatefulSet is being taken away from its pods and claims without them.
func beingReplaced(set *appsv1.StatefulSet) bool {
	if set == nil || set.DeletionTimestamp == nil {
		return false
	}
	for _, f := range set.Finalizers {
		if f == metav1.FinalizerOrphanDependents {
			return true
		}
	}
	return false
}

// replacement tells whether the StatefulSet of a cluster that has served is missing, or so new that its controller has
// not seen it: its pods may be there, and be nobody's.
func replacement(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) bool {
	return etcd.Status.ClusterID != "" && (set == nil || set.Status.ObservedGeneration == 0)
}
