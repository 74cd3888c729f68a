//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cordon cordons or uncordons the node. All clusters share it, so no other test runs in parallel.
func (c *cluster) cordon(cordoned bool) {
	node := &corev1.Node{}
	c.Expect(kube.Get(context.Background(), types.NamespacedName{Name: c.pod(c, 0).Spec.NodeName}, node)).To(Succeed())
	before := client.MergeFrom(node.DeepCopy())
	node.Spec.Unschedulable = cordoned
	c.Expect(kube.Patch(context.Background(), node, before)).To(Succeed())
}

// The volumes are bound to a cordoned node: a deleted pod could not be scheduled again.
func TestCordonedNode(t *testing.T) {
	c := newCluster(t, 3)
	t.Cleanup(func() { c.cordon(false) })
	c.cordon(true)
	c.change("1")
	held := c.until("held", func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Status.Rollout != nil && t.Status.Rollout.HeldBy != nil && t.Status.Rollout.HeldBy.Guard == v1alpha1.GuardVolumeReachable
	})
	c.Expect(held.Status.Rollout.Pods).To(BeEmpty())
	c.Expect(held.Status.Rollout.HeldBy.Message).To(ContainSubstring("is cordoned"))
	c.cordon(false)
	c.Expect(replaced(c.untilSucceeded())).To(HaveLen(3))
	c.ready()
	c.writesSurvive()
}
