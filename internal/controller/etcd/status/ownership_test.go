// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/ownership"
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
