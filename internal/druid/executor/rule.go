// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package executor decides which StatefulSets an operator in executor mode works on: those that etcd-druid manages. It is pure;
// the plugin imports it, too.
package executor

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rule is the replacer.Rule beside etcd-druid: the operator replaces the pods of a StatefulSet that etcd-druid manages and that
// admission has marked. An etcd-druid that sets OnDelete itself replaces pods itself, and its StatefulSets have no marker.
type Rule struct{}

// Foreign implements replacer.Rule.
func (Rule) Foreign(etcd *v1alpha1.Etcd, kind string, object metav1.Object) *ownership.Foreign {
	if ownership.Adoptable(etcd, object) {
		return nil
	}
	return &ownership.Foreign{
		Kind: kind, Name: object.GetNamespace() + "/" + object.GetName(), Reason: v1alpha1.ReasonManagedByAnother,
		Whose:  fmt.Sprintf("is not controlled by this Etcd and managed by %s", v1alpha1.ManagedByDruid),
		Remedy: fmt.Sprintf("in executor mode the operator works only with objects that %s manages: let it reconcile the Etcd", v1alpha1.ManagedByDruid),
	}
}

// Objection implements replacer.Rule.
func (r Rule) Objection(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) string {
	if foreign := r.Foreign(etcd, "StatefulSet", set); foreign != nil {
		return foreign.String()
	}
	switch {
	case set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType:
		return fmt.Sprintf("the update strategy of StatefulSet %s is not OnDelete, so its own controller replaces pods: %s wrote it, and admission did not change it. "+
			"Check that namespace %s has the label %s=%s, that the ConfigMap %s exists, and that the webhook is reachable or Kubernetes 1.36 or later has the policy; then let %s reconcile the Etcd",
			set.Name, v1alpha1.ManagedByDruid, set.Namespace, v1alpha1.LabelRolloutBy, v1alpha1.ManagedBy, v1alpha1.RolloutsConfigMap, v1alpha1.ManagedByDruid)
	case set.Annotations[v1alpha1.AnnotationRolloutBy] != v1alpha1.ManagedBy:
		return fmt.Sprintf("StatefulSet %s is OnDelete and lacks the annotation %s=%s: another operator has chosen this strategy, and replaces its pods",
			set.Name, v1alpha1.AnnotationRolloutBy, v1alpha1.ManagedBy)
	}
	return ""
}

// Either is the replacer.Rule of a client that does not know in which mode the operator runs: for each object, that of the
// operator that would work on it.
type Either struct{}

// Foreign implements replacer.Rule.
func (e Either) Foreign(etcd *v1alpha1.Etcd, kind string, object metav1.Object) *ownership.Foreign {
	return e.of(etcd, object).Foreign(etcd, kind, object)
}

// Objection implements replacer.Rule.
func (e Either) Objection(etcd *v1alpha1.Etcd, set *appsv1.StatefulSet) string {
	return e.of(etcd, set).Objection(etcd, set)
}

func (Either) of(etcd *v1alpha1.Etcd, object metav1.Object) replacer.Rule {
	if ownership.LeftToDruid(etcd, object) {
		return Rule{}
	}
	return replacer.Operator{}
}

// Unavailable returns the task types that write what etcd-druid owns, each with what to do instead.
func Unavailable() map[v1alpha1.TaskType]string {
	return map[v1alpha1.TaskType]string{
		v1alpha1.RecreateRollout: "a RecreateRollout scales the StatefulSet, which etcd-druid owns; delete the pods by hand, or set replicas of the Etcd to 0 and back " +
			"if an outage is acceptable",
		v1alpha1.MembershipChange: "a MembershipChange scales the StatefulSet, which etcd-druid owns; change spec.replicas, and etcd-druid adds or removes members",
		v1alpha1.QuorumLossRecovery: "a QuorumLossRecovery changes the StatefulSet, the ConfigMap and the volumes of the members, which etcd-druid owns; " +
			"follow its procedure for a permanent quorum loss",
		v1alpha1.Restore: "a Restore changes the StatefulSet, the ConfigMap and the volumes of the members, which etcd-druid owns; " +
			"follow its procedure for restoring a backup by hand",
	}
}
