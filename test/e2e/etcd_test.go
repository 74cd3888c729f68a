//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Members with names other than their pods' are rolled like any others; the leader goes last.
func TestMemberNamePrefix(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	etcd := c.newEtcd(3)
	etcd.Spec.MemberNamePrefix = ptr.To("blue")
	etcd.Spec.Etcd.ClientService = &v1alpha1.ClientService{Labels: map[string]string{"team": "storage"}, TrafficDistribution: ptr.To(v1alpha1.TrafficDistribution("PreferClose"))}
	c.create(etcd)
	c.ready()
	c.startWriter()
	for i := range 3 {
		c.Expect(c.etcd(c).Status.Members[i].Name).To(Equal("blue-" + podName(i)))
		c.Eventually(func(g Gomega) {
			lease := &coordinationv1.Lease{}
			g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: "blue-" + podName(i)}, lease)).To(Succeed())
			g.Expect(lease.Spec.RenewTime).NotTo(BeNil())
			g.Expect(time.Since(lease.Spec.RenewTime.Time)).To(BeNumerically("<", time.Minute))
		}).Should(Succeed())
	}
	service := &corev1.Service{}
	c.Expect(kube.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: etcdName + "-client"}, service)).To(Succeed())
	c.Expect(service.Labels).To(HaveKeyWithValue("team", "storage"))
	c.Expect(service.Spec.TrafficDistribution).To(HaveValue(Equal("PreferClose")))

	leader := c.leader()
	c.change("1")
	rollout := c.untilSucceeded()
	c.ready()
	c.Expect(rollout.Status.Rollout.Pods[2].Name).To(Equal(podName(leader)))
	c.writesSurvive()
}
