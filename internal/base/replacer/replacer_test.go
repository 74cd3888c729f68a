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

// set is a StatefulSet of the Etcd with a manager and annotations.
func set(manager string, annotations map[string]string) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shoot", Name: "main", Labels: map[string]string{v1alpha1.LabelManagedBy: manager, v1alpha1.LabelPartOf: "main"}, Annotations: annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
	}}
	s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
	return s
}

// etcd-druid puts its finalizer on an Etcd before it writes the StatefulSet: that alone ends what was adopted, and nothing else.
func TestDruidIsBack(t *testing.T) {
	back := etcd.DeepCopy()
	back.Finalizers = []string{"other", v1alpha1.FinalizerDruid}
	adopted := map[string]string{v1alpha1.AnnotationAdoptedBy: "etcd"}
	for name, tc := range map[string]struct {
		etcd *v1alpha1.Etcd
		set  *appsv1.StatefulSet
		says string
	}{
		"adopted":                 {etcd, set(v1alpha1.ManagedByDruid, adopted), ""},
		"adopted, and it is back": {back, set(v1alpha1.ManagedByDruid, adopted), "Etcd shoot/main was adopted from etcd-druid, which has put its finalizer"},
		"never adopted":           {back, set(v1alpha1.ManagedBy, nil), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			says, foreign := Operator{}.Objection(tc.etcd, tc.set), Operator{}.Foreign(tc.etcd, "StatefulSet", tc.set)
			if tc.says == "" {
				g.Expect(says).To(BeEmpty())
				g.Expect(foreign).To(BeNil())
				return
			}
			g.Expect(says).To(HavePrefix(tc.says))
			g.Expect(foreign.Reason).To(Equal(v1alpha1.ReasonDruidActive))
			g.Expect(Operator{}.Foreign(tc.etcd, "Lease", tc.set)).To(BeNil(), "what members report still counts")
		})
	}
}

// A member that restarts refuses the data of a cluster that is not the recorded one, so no pod is replaced.
func TestNoPodIsReplacedWhileAnotherClusterServes(t *testing.T) {
	g := NewWithT(t)
	own := set(v1alpha1.ManagedBy, nil)
	e := etcd.DeepCopy()
	e.Status.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrApply}, {Code: v1alpha1.ErrClusterID}}
	g.Expect(Operator{}.Objection(e, own)).To(ContainSubstring("another cluster than the recorded one (ERR_CLUSTER_ID in status.lastErrors)"))
	e.Status.LastErrors = e.Status.LastErrors[:1]
	g.Expect(Operator{}.Objection(e, own)).To(BeEmpty())
}
