// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package replacer

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
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

// A member that restarts refuses the data of a cluster that is not the recorded one, so no pod is replaced.
func TestNoPodIsReplacedWhileAnotherClusterServes(t *testing.T) {
	g := NewWithT(t)
	own := set(v1alpha1.ManagedBy, appsv1.OnDeleteStatefulSetStrategyType, nil)
	e := etcd.DeepCopy()
	e.Status.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrApply}, {Code: v1alpha1.ErrClusterID}}
	g.Expect(Operator{}.Objection(e, own)).To(ContainSubstring("another cluster than the recorded one (ERR_CLUSTER_ID in status.lastErrors)"))
	e.Status.LastErrors = e.Status.LastErrors[:1]
	g.Expect(Operator{}.Objection(e, own)).To(BeEmpty())
}
