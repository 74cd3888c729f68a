// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package volumes

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// TemplateClass returns the StorageClass in the claim template of a StatefulSet; empty if it names none.
func TemplateClass(set *appsv1.StatefulSet) string {
	for _, t := range set.Spec.VolumeClaimTemplates {
		return ptr.Deref(t.Spec.StorageClassName, "")
	}
	return ""
}

// retyped reports whether the claim template of a StatefulSet names another StorageClass than the spec.
func retyped(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) bool {
	class := etcd.Spec.Class()
	return class != "" && TemplateClass(set) != class
}

// Misplaced returns the names of the claims whose volumes have to move because the spec names another StorageClass. It finds them only
// while changes of the spec are due: an upgrade of the operator moves no volume by itself.
func Misplaced(s *state.State) (names []string) {
	class := s.Etcd.Spec.Class()
	if class == "" || !state.Due(s.Etcd) {
		return nil
	}
	for ordinal := range s.Etcd.Spec.Replicas {
		for i := range s.Claims {
			if c := &s.Claims[i]; c.Name == s.Etcd.ClaimName(ordinal) && ptr.Deref(c.Spec.StorageClassName, "") != class {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// outgrown reports whether a claim is too small and its StorageClass does not allow it to grow, so that the member gets another volume.
func outgrown(etcd *v1alpha1.Etcd, c claim, wanted resource.Quantity) bool {
	for ordinal := range etcd.Spec.Replicas {
		if c.name == etcd.ClaimName(ordinal) {
			return c.fixed && c.bound && c.asks.Cmp(wanted) < 0
		}
	}
	return false
}

// moved returns the condition VolumesMoved; nil if there is nothing to move. It is pure.
func moved(class string, v volumes) *metav1.Condition {
	var move, foreign, kept []string
	to, keep := fmt.Sprintf("volumes of %s", v.wanted.String()), "suspend the task; the capacity cannot be set back"
	for _, c := range v.claims {
		switch {
		case c.moves && class != "" && c.class != class:
			move = append(move, fmt.Sprintf("%s (StorageClass %q)", c.name, c.class))
			to, keep = fmt.Sprintf("StorageClass %q", class), "set storageClass back"
		case c.moves:
			move = append(move, fmt.Sprintf("%s (%s of StorageClass %q, which does not allow it to grow)", c.name, c.asks.String(), c.class))
		}
		if c.moves && c.keeper != "" {
			kept = append(kept, fmt.Sprintf("%s stays until task %s is deleted, since that keeps there what the member had before it", c.name, c.keeper))
		}
		if c.foreign != nil {
			foreign = append(foreign, c.foreign.String())
		}
	}
	switch {
	case len(move) == 0:
		return nil
	case len(foreign) > 0:
		return ptr.To(conditions.False(v1alpha1.ConditionVolumesMoved, v1alpha1.ReasonClaimNotOwned,
			"No volume moves to %s, because not every claim is this Etcd's own. %s.", to, strings.Join(foreign, "; ")))
	}
	message := fmt.Sprintf("To move to %s: %s. One member after the other gets another volume, by a task of type %s, which begins after a rollout that is due. To keep a volume, %s.",
		to, strings.Join(move, ", "), v1alpha1.MembershipChange, keep)
	if v.retyped || v.template.Cmp(v.wanted) < 0 {
		message += " Before that, the claim template of the StatefulSet follows, while every member participates and no rollout runs."
	}
	if len(kept) > 0 {
		message += fmt.Sprintf(" Some wait: %s. A restore whose task is deleted cannot be undone.", strings.Join(kept, "; "))
	}
	return ptr.To(conditions.False(v1alpha1.ConditionVolumesMoved, v1alpha1.ReasonVolumesMoving, "%s", message))
}
