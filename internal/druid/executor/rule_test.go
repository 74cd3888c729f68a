// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "shoot", Name: "main", UID: "etcd"}}

// set is a StatefulSet of the Etcd with a manager, a strategy and annotations.
func set(manager string, strategy appsv1.StatefulSetUpdateStrategyType, annotations map[string]string) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shoot", Name: "main", Labels: map[string]string{v1alpha1.LabelManagedBy: manager, v1alpha1.LabelPartOf: "main"}, Annotations: annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
	}}
	s.Spec.UpdateStrategy.Type = strategy
	return s
}

// At most one operator replaces the pods of a StatefulSet.
func TestOneOperatorReplacesPods(t *testing.T) {
	const (
		onDelete = appsv1.OnDeleteStatefulSetStrategyType
		rolling  = appsv1.RollingUpdateStatefulSetStrategyType
		druid    = v1alpha1.ManagedByDruid
		foreman  = v1alpha1.ManagedBy
	)
	marked := map[string]string{v1alpha1.AnnotationRolloutBy: foreman}
	adopted := map[string]string{v1alpha1.AnnotationAdoptedBy: "etcd"}
	orphan := set(druid, onDelete, marked)
	orphan.OwnerReferences = nil
	earlier := set(druid, onDelete, marked)
	earlier.OwnerReferences[0].UID = "earlier"
	for name, c := range map[string]struct {
		set *appsv1.StatefulSet
		// The beginning of the objection of each; empty where there is none.
		operator, executor, either string
	}{
		"its own":                        {set(foreman, onDelete, nil), "", "is not controlled by this Etcd and managed by etcd-druid", ""},
		"its own, marked":                {set(foreman, onDelete, marked), "", "is not controlled by this Etcd and managed by etcd-druid", ""},
		"its own, RollingUpdate":         {set(foreman, rolling, nil), "switch the feature gate", "is not controlled by this Etcd and managed by etcd-druid", "switch the feature gate"},
		"adopted":                        {set(druid, onDelete, adopted), "", "another operator has chosen this strategy", ""},
		"adopted by another Etcd":        {set(druid, onDelete, map[string]string{v1alpha1.AnnotationAdoptedBy: "other"}), "managed by etcd-druid", "another operator has chosen this strategy", "another operator has chosen"},
		"etcd-druid's, marked":           {set(druid, onDelete, marked), "managed by etcd-druid", "", ""},
		"etcd-druid's own OnDelete":      {set(druid, onDelete, nil), "managed by etcd-druid", "another operator has chosen this strategy", "another operator has chosen"},
		"etcd-druid's, marked for other": {set(druid, onDelete, map[string]string{v1alpha1.AnnotationRolloutBy: "other"}), "managed by etcd-druid", "another operator has chosen this strategy", "another operator has chosen"},
		"etcd-druid's, marker left over": {set(druid, rolling, marked), "managed by etcd-druid", "admission did not change it", "admission did not change it"},
		"etcd-druid's, RollingUpdate":    {set(druid, rolling, nil), "managed by etcd-druid", "admission did not change it", "admission did not change it"},
		"of no Etcd":                     {orphan, "has no controller", "is not controlled by this Etcd", "is not controlled by this Etcd"},
		"of an earlier Etcd":             {earlier, "is controlled by an earlier Etcd", "is not controlled by this Etcd", "is not controlled by this Etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			for rule, want := range map[replacer.Rule]string{replacer.Operator{}: c.operator, Rule{}: c.executor, Either{}: c.either} {
				said := rule.Objection(etcd, c.set)
				if want == "" {
					g.Expect(said).To(BeEmpty(), "%T", rule)
				} else {
					g.Expect(said).To(ContainSubstring(want), "%T", rule)
				}
			}
		})
	}
}
