//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// local runs a program of .local/bin on the local cluster.
func (c *cluster) local(program string, args ...string) string {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	home := c.t.TempDir()
	cmd := exec.CommandContext(ctx, "../../.local/bin/"+program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	out, err := cmd.CombinedOutput()
	c.Expect(err).NotTo(HaveOccurred(), "%s %v: %s", program, args, out)
	return string(out)
}

// helm runs a command of Helm for the chart, with values for the local cluster.
func (c *cluster) helm(command string, args ...string) {
	c.t.Helper()
	c.local("helm", append([]string{command, operatorName, "../../charts/etcd-foreman", "--namespace=" + operatorNamespace,
		"--set=images.registry=localhost,images.etcd=localhost/etcd:v3.6.16"}, args...)...)
}

// The chart takes over the operator that is there, is upgraded, and is uninstalled. No pod of a member is replaced or restarted
// by any of it, even if the new version has another agent, and the clusters outlive the operator.
func TestChartUpgradeAndUninstall(t *testing.T) {
	c := newCluster(t, 3)
	before := c.members()
	t.Cleanup(func() {
		c.local("kubectl", "apply", "--server-side", "--force-conflicts", "-k", "../local/deploy")
		c.untilOperatorReady(2)
	})
	c.helm("install", "--take-ownership", "--force-conflicts")
	c.untilOperatorReady(2)
	c.change("with the chart")
	c.untilSucceeded()
	c.ready()
	after := c.members()
	for uid := range after {
		c.Expect(before).NotTo(HaveKey(uid), "every pod was replaced by a rollout")
	}

	c.helm("upgrade", "--set=images.agent.tag=newer,config.logging.level=debug")
	c.untilOperatorReady(2)
	c.Consistently(c.members, 20*time.Second, time.Second).Should(Equal(after), "an upgrade replaces no pod of a member")

	c.local("helm", "uninstall", operatorName, "--namespace="+operatorNamespace)
	c.Eventually(func(g Gomega) {
		g.Expect(apierrors.IsNotFound(kube.Get(context.Background(), operatorKey, &appsv1.Deployment{}))).To(BeTrue())
		pods := &corev1.PodList{}
		g.Expect(kube.List(context.Background(), pods, client.InNamespace(operatorNamespace))).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())
	}).Should(Succeed())
	c.Consistently(c.members, 20*time.Second, time.Second).Should(Equal(after), "the clusters outlive the operator")
	c.Expect(c.etcd(c).DeletionTimestamp).To(BeNil())

	c.helm("install")
	c.untilOperatorReady(2)
	c.change("after a new installation")
	c.until("a second rollout succeeded", func(task v1alpha1.EtcdOperatorTask) bool {
		return len(c.rollouts(c)) == 2 && task.Status.State == v1alpha1.TaskStateSucceeded
	})
	c.local("helm", "uninstall", operatorName, "--namespace="+operatorNamespace)
	c.neverTookTheQuorum()
	c.writesSurvive()
}

// members returns the restarts of all containers of the members, by the UIDs of their pods.
func (c *cluster) members() map[types.UID]int32 {
	all := map[types.UID]int32{}
	for i := range 3 {
		pod := c.pod(c, i)
		all[pod.UID] = 0
		for _, s := range append(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses...) {
			all[pod.UID] += s.RestartCount
		}
	}
	return all
}
