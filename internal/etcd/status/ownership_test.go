// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	account = ownership.Foreign{Kind: "ServiceAccount", Name: "ns/e", Reason: v1alpha1.ReasonNoController, Whose: "has no controller", Remedy: "delete it"}
	volume1 = ownership.Foreign{Kind: "PersistentVolumeClaim", Name: "ns/e-1", Reason: v1alpha1.ReasonClaimNotOwned, Whose: "has no labels", Remedy: "adopt it"}
)

func TestObjectsOwned(t *testing.T) {
	type all = []ownership.Foreign
	for name, c := range map[string]struct {
		inTheWay, inUse all
		reason          string
		says            string
	}{
		"all":                      {nil, nil, v1alpha1.ReasonObjectsOwned, "Each object of the Etcd is its own."},
		"one is foreign":           {all{account}, nil, v1alpha1.ReasonNoController, "The operator writes no object of this Etcd until each of them is its own. ServiceAccount ns/e has no controller: delete it."},
		"a member uses a claim":    {nil, all{volume1}, v1alpha1.ReasonClaimNotOwned, "neither grows, records nor deletes them. PersistentVolumeClaim ns/e-1 has no labels: adopt it."},
		"both":                     {all{account}, all{volume1}, v1alpha1.ReasonNoController, "delete it. PersistentVolumeClaim ns/e-1 has no labels: adopt it."},
		"a claim is in both: once": {all{volume1}, all{volume1}, v1alpha1.ReasonClaimNotOwned, "until each of them is its own. PersistentVolumeClaim ns/e-1 has no labels: adopt it."},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := objectsOwned(c.inTheWay, c.inUse)
			g.Expect(got.Reason).To(Equal(c.reason))
			g.Expect(got.Status == metav1.ConditionTrue).To(Equal(c.reason == v1alpha1.ReasonObjectsOwned))
			g.Expect(got.Message).To(HaveSuffix(c.says))
		})
	}
}

// While etcd-druid manages the StatefulSet, its conditions stay as they are, and none of this operator's is left that it would not
// correct.
func TestManagedElsewhere(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	o := observed(etcd, clustertest.Healthy(3), noon)
	o.OwnersChecked = true
	etcd.Status = Next(o)
	ready := *etcd.Status.Conditions.Find(v1alpha1.ConditionReady)
	g.Expect(etcd.Status.Conditions.Find(v1alpha1.ConditionReconciled)).NotTo(BeNil())

	o.StatefulSet, o.Snapshot = nil, nil
	o.Foreign = []ownership.Foreign{{Kind: "StatefulSet", Name: "ns/e", Reason: v1alpha1.ReasonManagedByAnother, Whose: "is managed by etcd-druid", Remedy: "adopt it"}, account}
	next := Next(o)
	g.Expect(next.Conditions.Find(v1alpha1.ConditionObjectsOwned).Message).To(HaveSuffix("StatefulSet ns/e is managed by etcd-druid: adopt it."), "not one sentence for each object")
	g.Expect(next.Conditions.Find(v1alpha1.ConditionReady)).To(HaveValue(Equal(ready)))
	g.Expect(next.Members).To(Equal(etcd.Status.Members))
	g.Expect(next.Ready).To(Equal(etcd.Status.Ready))
	g.Expect(next.Conditions.IsFalse(v1alpha1.ConditionObjectsOwned)).To(BeTrue())
	g.Expect(next.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrForeignObject)))
	for _, c := range append(ownConditions, v1alpha1.ConditionAdopted) {
		g.Expect(next.Conditions.Find(c)).To(BeNil(), c)
	}

	o.Adoption.Condition = &metav1.Condition{Type: v1alpha1.ConditionAdopted, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonAdoptionRefused}
	g.Expect(Next(o).Conditions).To(ContainElement(HaveField("Reason", v1alpha1.ReasonAdoptionRefused)))
}

// Without a check, the condition stays unchanged.
func TestOwnershipIsKnownOnceChecked(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	o := observed(etcd, clustertest.Healthy(3), noon)
	owned := func() *metav1.Condition {
		status := Next(o)
		return status.Conditions.Find(v1alpha1.ConditionObjectsOwned)
	}
	g.Expect(owned()).To(BeNil())
	o.OwnersChecked = true
	g.Expect(owned()).To(HaveField("Status", metav1.ConditionTrue))
	o.Foreign = []ownership.Foreign{account}
	g.Expect(owned()).To(HaveField("Status", metav1.ConditionFalse))
	status := Next(o)
	g.Expect(status.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrForeignObject)))
}
