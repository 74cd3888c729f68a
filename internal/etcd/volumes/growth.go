// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// claim is what a decision needs to know of the claim of an ordinal.
type claim struct {
	name string
	// keeper is the name of the Restore that keeps data on its volume; empty if none does.
	keeper string
	// foreign says why it is not the Etcd's own; nil if it is.
	foreign *ownership.Foreign
	// bound: it has a volume. lost: it had one, which no longer exists.
	bound, lost bool
	// warning is the provisioner's message about a claim that waits for its volume; empty if there is none.
	warning string
	// asks for, and has.
	asks, has resource.Quantity
	// class is the name of its StorageClass. expandable: the class allows volumes to grow. fixed: it exists and does not.
	class             string
	expandable, fixed bool
	// waitsForRestart: its file system grows only when its pod is restarted.
	waitsForRestart bool
	// moves: its member gets another volume, so this one does not grow.
	moves bool
}

// volumes is the input of a decision on the growth of volumes.
type volumes struct {
	wanted   resource.Quantity
	template resource.Quantity
	// retyped: the claim template names another StorageClass than the spec.
	retyped bool
	claims  []claim
}

// growth is what to do about volumes that are too small.
type growth struct {
	// grow are the names of the claims whose requests have to be raised.
	grow []string
	// replaceSet: every claim that stays requests enough. The claim template has to follow, and since it is immutable, the StatefulSet is
	// replaced.
	replaceSet bool
	condition  metav1.Condition
}

// cure returns the advice on a volume that cannot grow: if its StorageClass is known, a reconcile moves it.
func (c *claim) cure() string {
	if c.fixed {
		return "Request a reconcile to move the volumes whose StorageClass exists (annotate the Etcd with druid.gardener.cloud/operation=reconcile)"
	}
	return "Set storageClass to another one that exists to move the volumes whose claim names none, or one that does not exist"
}

// decide decides what to do about volumes that are too small. Claims come first: members use them, and the API server refuses to grow those
// that cannot.
func decide(v volumes) growth {
	var g growth
	var foreign, refused, cures, growing []string
	for _, c := range v.claims {
		switch {
		case c.moves:
		case c.asks.Cmp(v.wanted) < 0 && c.foreign != nil:
			foreign = append(foreign, c.foreign.String())
		case c.asks.Cmp(v.wanted) < 0 && !c.bound:
			growing = append(growing, fmt.Sprintf("claim %s is not bound yet", c.name))
		case c.asks.Cmp(v.wanted) < 0 && !c.expandable:
			refused = append(refused, fmt.Sprintf("claim %s (StorageClass %q)", c.name, c.class))
			if cure := c.cure(); !slices.Contains(cures, cure) {
				cures = append(cures, cure)
			}
		case c.asks.Cmp(v.wanted) < 0:
			g.grow = append(g.grow, c.name)
			growing = append(growing, fmt.Sprintf("claim %s requests more", c.name))
		case c.bound && c.has.Cmp(v.wanted) < 0 && c.waitsForRestart:
			growing = append(growing, fmt.Sprintf("the file system of claim %s grows when its pod restarts: restart the members (kubectl etcdtask restart ETCD)", c.name))
		case c.bound && c.has.Cmp(v.wanted) < 0:
			growing = append(growing, fmt.Sprintf("claim %s has %s of %s", c.name, c.has.String(), v.wanted.String()))
		}
	}
	// All or none: volumes of different sizes do not help the cluster.
	if len(foreign) > 0 {
		g.grow = nil
		g.condition = conditions.False(v1alpha1.ConditionVolumesGrown, v1alpha1.ReasonClaimNotOwned,
			"No volume grows to %s, because not every claim is this Etcd's own. %s.", v.wanted.String(), strings.Join(foreign, "; "))
		return g
	}
	if len(refused) > 0 {
		g.grow = nil
		g.condition = conditions.False(v1alpha1.ConditionVolumesGrown, v1alpha1.ReasonVolumesNotExpandable,
			"No volume grows to %s, because the StorageClass does not allow it (allowVolumeExpansion): %s. %s.", v.wanted.String(), strings.Join(refused, ", "), strings.Join(cures, ". "))
		return g
	}
	small := v.template.Cmp(v.wanted) < 0
	g.replaceSet = (small || v.retyped) && !slices.ContainsFunc(v.claims, func(c claim) bool { return !c.moves && c.asks.Cmp(v.wanted) < 0 })
	if small {
		growing = append(growing, "the claim template of the StatefulSet follows while every member participates and no rollout runs")
	}
	g.condition = conditions.True(v1alpha1.ConditionVolumesGrown, v1alpha1.ReasonVolumesGrown, "Every volume has %s.", v.wanted.String())
	if len(growing) > 0 {
		g.condition = conditions.False(v1alpha1.ConditionVolumesGrown, v1alpha1.ReasonVolumesGrowing, "%s.", strings.Join(growing, "; "))
	}
	return g
}

// TemplateCapacity returns the capacity in the claim template of a StatefulSet.
func TemplateCapacity(set *appsv1.StatefulSet) resource.Quantity {
	for _, t := range set.Spec.VolumeClaimTemplates {
		return t.Spec.Resources.Requests[corev1.ResourceStorage]
	}
	return resource.Quantity{}
}

// TemplateOutdated reports whether a StatefulSet would give new members volumes that are too small, or of another StorageClass than the
// spec's.
func TemplateOutdated(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) bool {
	if set == nil {
		return false
	}
	template, wanted := TemplateCapacity(set), etcd.Spec.Capacity()
	return template.Cmp(wanted) < 0 || retyped(etcd, set)
}

// mayReplace returns why a StatefulSet must not be orphaned and replaced now; empty if it may. Until its successor has adopted the pods,
// nothing recreates one.
func mayReplace(s *cluster.Snapshot, set *appsv1.StatefulSet, etcd *v1alpha1.Etcd, claims []corev1.PersistentVolumeClaim, tasks []v1alpha1.EtcdOperatorTask) string {
	p := set.Spec.PersistentVolumeClaimRetentionPolicy
	switch {
	case s == nil || !s.StatefulSet.Observed:
		return "the StatefulSet controller has not seen its newest spec"
	case s.StatefulSet.HeldAtZeroBy != "":
		return "a task keeps all members stopped"
	case p == nil || p.WhenDeleted != appsv1.RetainPersistentVolumeClaimRetentionPolicyType || p.WhenScaled != appsv1.RetainPersistentVolumeClaimRetentionPolicyType:
		return "its claims are not retained"
	case away(s) || len(s.Surplus) > 0:
		return "not every member participates"
	}
	for i := range claims {
		switch {
		case ownership.OfClaim(etcd, &claims[i]) != nil:
			return "no StatefulSet would be created with claim " + claims[i].Name + ", which is not the Etcd's own"
		case ownedBy(&claims[i], set.UID):
			return "claim " + claims[i].Name + " would be deleted with it"
		}
	}
	if t := etcdtasks.Recovering(tasks); t != nil {
		// The first member serves before the others have a vote, and the task cannot observe a cluster without a StatefulSet.
		return "task " + t.Name + " starts the cluster as a new one"
	}
	for i := range tasks {
		if tasks[i].Spec.Type.IsRollout() && tasks[i].Status.State == v1alpha1.TaskStateInProgress && !tasks[i].StopsNothingYet() {
			return "rollout " + tasks[i].Name + " is in progress"
		}
	}
	return ""
}

// away reports whether a member does not participate. While every voter serves, a pod without a vote does not count: it may wait
// indefinitely for a volume of the class in the template.
func away(s *cluster.Snapshot) bool {
	voters := s.Cluster.Voters
	serves := len(voters) > 0 && s.ServingVoters() == len(voters)
	for i, o := range s.Ordinals {
		votes := slices.ContainsFunc(voters, func(v cluster.Voter) bool { return v.Ordinal == i })
		if o.Class != v1alpha1.ClassParticipating && (votes || !serves) {
			return true
		}
	}
	return false
}

func ownedBy(o metav1.Object, uid types.UID) bool {
	return slices.ContainsFunc(o.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == uid })
}
