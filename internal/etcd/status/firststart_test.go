// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/firststart"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Before the first start the status says why no member runs, and whether a person has to act. What the volumes hold becomes the
// cluster of an Etcd that records none, and never replaces a recorded one.
func TestFirstStart(t *testing.T) {
	g := NewWithT(t)
	etcd := served()
	etcd.Status = v1alpha1.EtcdStatus{}
	o := observed(etcd, clustertest.Healthy(0), later)
	o.FirstStart = firststart.View{Reason: v1alpha1.ReasonSurveyingVolumes, Why: "surveying claim c-0"}
	next := Next(o)
	g.Expect(next.Conditions.Find(v1alpha1.ConditionDataVolumesReady)).To(HaveValue(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", v1alpha1.ReasonSurveyingVolumes), HaveField("Message", "No member has been started yet: surveying claim c-0."))))
	g.Expect(next.Conditions.Find(v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionUnknown))
	g.Expect(next.Conditions.IsTrue(v1alpha1.ConditionStalled)).To(BeFalse())
	g.Expect(next.ClusterID).To(BeEmpty())

	o.FirstStart.Reason = v1alpha1.ReasonFirstStartBlocked
	next = Next(o)
	g.Expect(next.Conditions.IsTrue(v1alpha1.ConditionStalled)).To(BeTrue())

	etcd.Status.ClusterSize = 5
	o.FirstStart.Found = &firststart.Cluster{ID: "cafe", Size: 3}
	next = Next(o)
	g.Expect(next.ClusterID).To(Equal("cafe"))
	g.Expect(next.ClusterSize).To(Equal(int32(5)), "it does not shrink")
	etcd.Status.ClusterID, etcd.Status.ClusterSize = "beef", 0
	next = Next(o)
	g.Expect(next.ClusterID).To(Equal("beef"))
	g.Expect(next.ClusterSize).To(BeZero())
}
