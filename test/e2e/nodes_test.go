//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// kubectl drain of the node of the only member waits for the budget until another member has taken over, and ends then, while a client
// writes. There is one node, so pods that come while it is cordoned are given a toleration of that, as if another node took them, and
// the volumes can be used on any node. In between, the member moves again and again, until the node takes pods.
func TestDrainOfASingleMember(t *testing.T) {
	dir, err := os.MkdirTemp("", "drain")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := newEmptyCluster(t)
	class := c.volumesAnywhere(dir, 8)
	c.begin(1, func(_ *cluster, e *v1alpha1.Etcd) {
		e.Spec.SurgePolicy, e.Spec.StorageClass = v1alpha1.SurgeSingleMemberAndDrains, &class
		e.Spec.Labels = map[string]string{drained: "true"}
	})
	id, before := c.etcd(c).Status.ClusterID, c.pod(c, 0)
	node := before.Spec.NodeName
	t.Cleanup(func() { c.local("kubectl", "uncordon", node) })
	ctx, cancel := context.WithCancel(t.Context())
	tolerating := make(chan struct{})
	go func() { defer close(tolerating); c.tolerateCordons(ctx) }()
	from := time.Now()
	said := c.local("kubectl", "drain", node, "--pod-selector="+drained+"=true", "--delete-emptydir-data", "--timeout=4m")
	took := time.Since(from)
	cancel()
	<-tolerating
	c.Expect(said).To(ContainSubstring("Cannot evict pod as it would violate the pod's disruption budget"), "it has waited")
	c.local("kubectl", "uncordon", node)
	c.Eventually(func(g Gomega) {
		g.Expect(*c.statefulSet(g).Spec.Replicas).To(Equal(int32(1)))
		g.Expect(apierrors.IsNotFound(kube.Get(t.Context(), types.NamespacedName{Namespace: c.namespace, Name: claimName(1)}, &corev1.PersistentVolumeClaim{}))).To(BeTrue())
	}).Should(Succeed())
	c.untilVoters(1)
	c.ready()
	c.Expect(c.pod(c, 0).UID).NotTo(Equal(before.UID))
	c.Expect(c.etcd(c).Status.ClusterID).To(Equal(id))
	report := c.writesSurvive()
	gap := report.Between(from, time.Now()).LongestGap
	t.Logf("the drain took %s; longest gap of writes %s", took.Round(time.Second), gap)
	c.Expect(gap).To(BeNumerically("<", 10*time.Second))
}

// drained is a label of the pods that a test drains from the node.
const drained = "e2e/drained"

// volumesAnywhere makes volumes that no node affinity restricts, and returns their StorageClass.
func (c *cluster) volumesAnywhere(dir string, n int) (class string) {
	class = c.namespace
	for i := range n {
		path := filepath.Join(dir, strconv.Itoa(i))
		c.Expect(os.Mkdir(path, 0o777)).To(Succeed())
		c.Expect(os.Chmod(path, 0o777)).To(Succeed())
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", class, i)}, Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: class, PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}},
		}}
		c.create(volume)
		c.t.Cleanup(func() { _ = kube.Delete(context.Background(), volume) })
	}
	return class
}

// tolerateCordons gives the pods that no node takes a toleration of a cordon, until the context ends.
func (c *cluster) tolerateCordons(ctx context.Context) {
	for ticker := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			ticker.Stop()
			return
		case <-ticker.C:
		}
		pods := &corev1.PodList{}
		if kube.List(ctx, pods, client.InNamespace(c.namespace), client.MatchingLabels{drained: "true"}) != nil {
			continue
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Spec.NodeName != "" || slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == corev1.TaintNodeUnschedulable }) {
				continue
			}
			before := client.MergeFrom(pod.DeepCopy())
			pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
			_ = kube.Patch(ctx, pod, before) // if it fails, it is tried again
		}
	}
}
