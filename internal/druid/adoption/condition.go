// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/conditions"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// contender returns that etcd-druid is back, and what to do.
func contender(etcd *v1alpha1.Etcd) ownership.Foreign {
	return ownership.Foreign{
		Kind: v1alpha1.KindEtcd, Name: etcd.Namespace + "/" + etcd.Name, Reason: v1alpha1.ReasonDruidActive,
		Whose: fmt.Sprintf("was adopted from etcd-druid, which has put its finalizer %s back", v1alpha1.FinalizerDruid),
		Remedy: fmt.Sprintf("scale etcd-druid to 0, and run kubectl -n %s annotate etcd %s %s=%s",
			etcd.Namespace, etcd.Name, v1alpha1.AnnotationOperation, v1alpha1.OperationAdopt),
	}
}

// condition returns the condition Adopted.
func (v progress) condition(etcd *v1alpha1.Etcd) metav1.Condition {
	t := v1alpha1.ConditionAdopted
	switch {
	case v.phase == contested:
		return conditions.False(t, v1alpha1.ReasonDruidActive, "%s.", contender(etcd))
	case v.reason == v1alpha1.ReasonConversionRefused:
		return conditions.True(t, v.reason, "The pods are etcd-druid's, and stay for now: %s.", v.why)
	case v.reason == v1alpha1.ReasonReturnRefused:
		return conditions.False(t, v.reason, "Nothing was handed back: %s.", v.why)
	case v.reason == v1alpha1.ReasonAdoptionRefused:
		return conditions.False(t, v.reason, "Nothing was adopted: %s.", v.why)
	case v.phase == converting:
		return conditions.True(t, v1alpha1.ReasonConverting, "The pods of etcd-druid are being replaced.")
	case v.phase == converted:
		return conditions.True(t, v1alpha1.ReasonConverted, "No pod of etcd-druid is left.")
	}
	return conditions.True(t, v1alpha1.ReasonConversionPending, "The pods are etcd-druid's. Nothing is applied until asked for: kubectl -n %s annotate etcd %s %s=%s.",
		etcd.Namespace, etcd.Name, v1alpha1.AnnotationOperation, v1alpha1.OperationReconcile)
}
