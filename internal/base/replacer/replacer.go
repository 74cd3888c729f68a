// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package replacer decides whether this operator replaces the pods of a StatefulSet. Two operators that do would remove two members at a
// time. It is pure, and imports only the API and ownership.
package replacer

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rule decides which objects the operator works on, and whose pods it replaces. It is a value that can be compared.
type Rule interface {
	// Foreign returns what makes an object foreign to the operator; nil if it may rely on the object.
	Foreign(etcd *v1alpha1.Etcd, kind string, object metav1.Object) *ownership.Foreign
	// Objection returns why the operator must not replace the pods of a StatefulSet; empty if it may.
	Objection(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) string
}

// Operator is the Rule of an operator that manages Etcds: it replaces the pods of a StatefulSet that it manages, or that the
// Etcd has adopted.
type Operator struct{}

// Foreign implements Rule. The StatefulSet of an adopted Etcd is foreign once etcd-druid is back, which may be about to write it.
func (Operator) Foreign(etcd *v1alpha1.Etcd, kind string, object metav1.Object) *ownership.Foreign {
	if foreign := ownership.Of(etcd, kind, object); foreign != nil {
		return foreign
	}
	if kind == "StatefulSet" && ownership.Manager(etcd, object) != "" && ownership.DruidIsBack(etcd) {
		return ownership.Contested(etcd)
	}
	return nil
}

// Objection implements Rule.
func (o Operator) Objection(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) string {
	if foreign := o.Foreign(etcd, "StatefulSet", set); foreign != nil {
		return foreign.String()
	}
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		return NotOnDelete(set.Name)
	}
	if etcd.Status.Reports(v1alpha1.ErrClusterID) {
		return fmt.Sprintf("the members of Etcd %s serve as another cluster than the recorded one (%s in status.lastErrors): one that is replaced would refuse its data", etcd.Name, v1alpha1.ErrClusterID)
	}
	return ""
}

// NotOnDelete returns the message that the controller of a StatefulSet replaces its pods itself.
func NotOnDelete(set string) string {
	return fmt.Sprintf("the update strategy of StatefulSet %s is not OnDelete, so its own controller replaces pods: switch the feature gate QuorumAwareUpdatesWithOnDelete on", set)
}
