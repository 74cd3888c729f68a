// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// objectsOwned returns the condition ObjectsOwned: foreign objects in the way keep the others from being written, and foreign
// claims in use are left alone.
func objectsOwned(inTheWay, inUse []ownership.Foreign) metav1.Condition {
	inUse = slices.DeleteFunc(slices.Clone(inUse), func(f ownership.Foreign) bool { return slices.Contains(inTheWay, f) })
	all := append(slices.Clone(inTheWay), inUse...)
	switch {
	case len(all) == 0:
		return conditions.True(v1alpha1.ConditionObjectsOwned, v1alpha1.ReasonObjectsOwned, "Each object of the Etcd is its own.")
	case len(inTheWay) == 0:
		return conditions.False(v1alpha1.ConditionObjectsOwned, all[0].Reason,
			"Claims under the names of its members are not this Etcd's own; the operator neither grows, records nor deletes them. %s", sentences(inUse))
	}
	return conditions.False(v1alpha1.ConditionObjectsOwned, all[0].Reason,
		"The operator writes no object of this Etcd until each of them is its own. %s", sentences(all))
}

func sentences(all []ownership.Foreign) string {
	said := make([]string, 0, len(all))
	for _, f := range all {
		said = append(said, f.String()+".")
	}
	return strings.Join(said, " ")
}

// ownConditions are written by no other operator, so none would correct them.
var ownConditions = []string{
	v1alpha1.ConditionReconciled, v1alpha1.ConditionUpToDate, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionTLSReady,
	v1alpha1.ConditionScaled, v1alpha1.ConditionVolumesGrown, v1alpha1.ConditionHibernated,
}

// managedElsewhere returns the StatefulSet of the Etcd if another operator, such as etcd-druid, manages it; empty otherwise.
func managedElsewhere(o Input) []ownership.Foreign {
	at := slices.IndexFunc(o.Foreign, func(f ownership.Foreign) bool {
		return f.Kind == "StatefulSet" && f.Reason == v1alpha1.ReasonManagedByAnother
	})
	if o.StatefulSet != nil || at < 0 {
		return nil
	}
	return o.Foreign[at : at+1]
}

// elsewhere returns the status of an Etcd whose StatefulSet another operator manages. What that one says of the members stays; of
// this operator's conditions, there is only what is in its way: the StatefulSet, with which all other objects are adopted.
func elsewhere(o Input, foreign []ownership.Foreign) v1alpha1.EtcdStatus {
	o.Foreign = foreign
	next := *o.Etcd.Status.DeepCopy()
	report(o.Etcd, &next, findings(o), o.Now)
	set(&next, objectsOwned(o.Foreign, nil), o.Now)
	if c := o.Adoption.Condition; c != nil {
		set(&next, *c, o.Now)
	} else {
		next.Conditions.Remove(v1alpha1.ConditionAdopted)
	}
	for _, c := range ownConditions {
		next.Conditions.Remove(c)
	}
	next.Conditions.Complete()
	return next
}
