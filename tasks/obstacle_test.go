// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tasks

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What keeps the Etcd controller from stopping and starting members is said with what to do, also of an etcd-druid that is back, which only the
// status of the Etcd tells.
func TestObstacle(t *testing.T) {
	g := NewWithT(t)
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	claim := apitest.Claim(etcd, 1)
	claim.Labels = nil
	api := apitest.API(etcd, apitest.StatefulSet(etcd, 3), claim)
	says := func(stops bool) string {
		why, err := Obstacle(t.Context(), api, api, etcd, stops)
		g.Expect(err).NotTo(HaveOccurred())
		return why
	}
	const so = ". While this is so, the operator stops and starts no member of the Etcd"
	g.Expect(says(false)).To(BeEmpty(), "the member runs")
	g.Expect(says(true)).To(And(HavePrefix("PersistentVolumeClaim ns/main-main-1 has neither the labels"), HaveSuffix("another volumeClaimTemplate"+so)))
	apitest.EachRequestFails(t, api, func(api client.WithWatch) error {
		_, err := Obstacle(t.Context(), api, api, etcd, true)
		if err != nil {
			g.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrObserve))
		}
		return err
	})

	owned := metav1.Condition{Type: v1alpha1.ConditionObjectsOwned, Status: metav1.ConditionFalse, Message: "Stop etcd-druid.", Reason: v1alpha1.ReasonDruidActive}
	etcd.Status.Conditions.Set(owned)
	g.Expect(says(false)).To(Equal("Stop etcd-druid" + so))
	owned.Reason = v1alpha1.ReasonNoController
	etcd.Status.Conditions.Set(owned)
	g.Expect(says(false)).To(BeEmpty(), "the status is late")
}
