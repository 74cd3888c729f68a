// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
)

// ownConditions are written by this operator alone, so no other operator would correct them.
var ownConditions = []string{
	v1alpha1.ConditionReconciled, v1alpha1.ConditionUpToDate, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled, v1alpha1.ConditionTLSReady,
	v1alpha1.ConditionScaled, v1alpha1.ConditionScaleOperationComplete, v1alpha1.ConditionVolumesGrown, v1alpha1.ConditionVolumesMoved, v1alpha1.ConditionHibernated,
	v1alpha1.ConditionAlarmRaised,
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

// elsewhere returns the status of an Etcd whose StatefulSet another operator manages: what that operator says of the members stays, and of
// this operator's conditions there is only the one that names the StatefulSet as foreign. All other objects are adopted with it.
func elsewhere(o Input, foreign []ownership.Foreign) v1alpha1.EtcdStatus {
	o.Foreign = foreign
	next := *o.Etcd.Status.DeepCopy()
	report(o.Etcd, &next, findings(o.Etcd.Status.Recovery, o), o.Now)
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
