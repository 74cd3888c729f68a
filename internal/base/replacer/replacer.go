// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package replacer says whether this operator is the one that replaces the pods of a StatefulSet. Two that do would remove two
// members at a time. It is pure, and imports the API and ownership alone.
package replacer

import (
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rule says which objects the operator works on, and whose pods it replaces.
type Rule int

const (
	// Operator is the Rule of an operator that manages Etcds: it replaces the pods of a StatefulSet that it manages, or that the
	// Etcd has adopted.
	Operator Rule = iota
	// Executor is the Rule beside etcd-druid: it replaces the pods of a StatefulSet that etcd-druid manages and that admission has
	// marked. An etcd-druid that sets OnDelete by itself replaces pods by itself, and its StatefulSets have no marker.
	Executor
	// Either is for a client that does not know in which mode the operator runs.
	Either
)

// Foreign says what makes an object foreign to an operator with this Rule; nil if it may rely on the object.
func (r Rule) Foreign(etcd *v1alpha1.Etcd, kind string, object metav1.Object) *ownership.Foreign {
	switch {
	case r.of(etcd, object) == Operator:
		return ownership.Of(etcd, kind, object)
	case metav1.IsControlledBy(object, etcd) && managedByDruid(object):
		return nil
	}
	return &ownership.Foreign{
		Kind: kind, Name: object.GetNamespace() + "/" + object.GetName(), Reason: v1alpha1.ReasonManagedByAnother,
		Whose:  fmt.Sprintf("is not controlled by this Etcd and managed by %s", v1alpha1.ManagedByDruid),
		Remedy: fmt.Sprintf("in executor mode the operator works only with objects that %s manages: let it reconcile the Etcd", v1alpha1.ManagedByDruid),
	}
}

// Objection says why the operator must not replace the pods of a StatefulSet; empty if it may.
func (r Rule) Objection(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) string {
	if foreign := r.Foreign(etcd, "StatefulSet", set); foreign != nil {
		return foreign.String()
	}
	onDelete := set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	operator := r.of(etcd, set) == Operator
	switch {
	case operator && !onDelete:
		return NotOnDelete(set.Name)
	case operator && servesAsAnother(etcd):
		return fmt.Sprintf("the members of Etcd %s serve as another cluster than the recorded one (%s in status.lastErrors): one that is replaced would refuse its data", etcd.Name, v1alpha1.ErrClusterID)
	case !onDelete:
		return fmt.Sprintf("the update strategy of StatefulSet %s is not OnDelete, so its own controller replaces pods: %s wrote it, and admission did not change it. "+
			"Check that namespace %s has the label %s=%s, that the ConfigMap %s exists, and that the webhook is reachable or Kubernetes 1.36 or later has the policy; then let %s reconcile the Etcd",
			set.Name, v1alpha1.ManagedByDruid, set.Namespace, v1alpha1.LabelRolloutBy, v1alpha1.ManagedBy, v1alpha1.RolloutsConfigMap, v1alpha1.ManagedByDruid)
	case !operator && set.Annotations[v1alpha1.AnnotationRolloutBy] != v1alpha1.ManagedBy:
		return fmt.Sprintf("StatefulSet %s is OnDelete and lacks the annotation %s=%s: another operator has chosen this strategy, and replaces its pods",
			set.Name, v1alpha1.AnnotationRolloutBy, v1alpha1.ManagedBy)
	}
	return ""
}

// servesAsAnother reports whether the status says that the members serve as another cluster than the recorded one.
func servesAsAnother(etcd *v1alpha1.Etcd) bool {
	return slices.ContainsFunc(etcd.Status.LastErrors, func(e v1alpha1.LastError) bool { return e.Code == v1alpha1.ErrClusterID })
}

// of is the Rule for an object: for Either, that of the operator that would work on it.
func (r Rule) of(etcd *v1alpha1.Etcd, object metav1.Object) Rule {
	switch {
	case r != Either:
		return r
	case managedByDruid(object) && ownership.Of(etcd, "", object) != nil:
		return Executor
	}
	return Operator
}

func managedByDruid(object metav1.Object) bool {
	return object.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByDruid
}

// NotOnDelete says that the controller of a StatefulSet replaces pods itself.
func NotOnDelete(set string) string {
	return fmt.Sprintf("the update strategy of StatefulSet %s is not OnDelete, so its own controller replaces pods: switch the feature gate QuorumAwareUpdatesWithOnDelete on", set)
}
