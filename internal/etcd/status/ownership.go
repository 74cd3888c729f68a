// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// objectsOwned returns the condition ObjectsOwned. Foreign objects under names that the Etcd needs block all writes; foreign claims in use
// are left alone.
func objectsOwned(inTheWay, inUse []ownership.Foreign) metav1.Condition {
	inUse = slices.DeleteFunc(slices.Clone(inUse), func(f ownership.Foreign) bool { return slices.Contains(inTheWay, f) })
	all := append(slices.Clone(inTheWay), inUse...)
	switch {
	case len(all) == 0:
		return conditions.True(v1alpha1.ConditionObjectsOwned, v1alpha1.ReasonObjectsOwned, "Each object of the Etcd is its own.")
	case len(inTheWay) == 0:
		return conditions.False(v1alpha1.ConditionObjectsOwned, all[0].Reason,
			"Claims under the names of its members are not this Etcd's own; the operator neither grows, records nor deletes them. %s", ownership.Sentences(inUse))
	}
	return conditions.False(v1alpha1.ConditionObjectsOwned, all[0].Reason,
		"The operator writes no object of this Etcd until each of them is its own. %s", ownership.Sentences(all))
}
