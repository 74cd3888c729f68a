//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// nextImage is that of the next minor version of etcd.
const nextImage = "localhost/etcd:v3.7.3"

// inPlace has pods updated in place.
func inPlace(_ *cluster, e *v1alpha1.Etcd) { e.Spec.PodUpdatePolicy = v1alpha1.InPlaceIfPossible }

// runs are the pods and the runs of a container of each.
func (c *cluster) runs(container string) []string {
	c.t.Helper()
	var all []string
	for i := range 3 {
		p := c.pod(c, i)
		at := slices.IndexFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
		c.Expect(at).To(BeNumerically(">=", 0))
		all = append(all, fmt.Sprintf("%s %s %d", p.UID, p.Status.ContainerStatuses[at].ContainerID, p.Status.ContainerStatuses[at].RestartCount))
	}
	return all
}

// pods are the UIDs of the pods.
func (c *cluster) pods() []types.UID {
	c.t.Helper()
	var all []types.UID
	for i := range 3 {
		all = append(all, c.pod(c, i).UID)
	}
	return all
}

func amount(cpu, memory string) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) {
		e.Spec.Etcd.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}}
	}
}

// Resources and labels change while etcd keeps running: no restart, and no election. Only lowering moves leadership, once.
func TestNoRestartWhereNoneIsNeeded(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(3, inPlace)
	before := c.runs(v1alpha1.ContainerEtcd)
	changes := []struct {
		name      string
		change    func(*v1alpha1.Etcd)
		elections int
		from, to  time.Time
	}{
		{name: "raise", change: amount("30m", "96Mi")},
		{name: "lower", change: amount("25m", "80Mi"), elections: 1},
		{name: "label", change: func(e *v1alpha1.Etcd) { e.Spec.Labels = map[string]string{"team": "a"} }},
	}
	for i := range changes {
		changes[i].from = time.Now()
		c.patch(changes[i].change)
		c.untilNumberSucceeded(i + 1)
		c.ready()
		changes[i].to = time.Now()
	}
	c.Expect(c.runs(v1alpha1.ContainerEtcd)).To(Equal(before))
	report := c.writesSurvive()
	for _, change := range changes {
		between := report.Between(change.from, change.to)
		t.Logf("%s: %s, %d leader changes, longest gap %s", change.name, change.to.Sub(change.from), between.LeaderChanges, between.LongestGap)
		c.Expect(between.LeaderChanges).To(BeNumerically("<=", change.elections), change.name)
	}
}

// The image of etcd restarts it in its pod, the leader last.
func TestEtcdImageInPlace(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(3, inPlace)
	before, leader := c.pods(), c.leader()
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = ptr.To(nextImage) })
	done := c.untilSucceeded()
	c.ready()
	c.Expect(c.pods()).To(Equal(before))
	c.Expect(done.Status.Rollout.Pods).To(HaveLen(3))
	c.Expect(done.Status.Rollout.Pods[2].Name).To(Equal(podName(leader)), "the leader goes last")
	for i := range 3 {
		c.Expect(c.pod(c, i).Spec.Containers[0].Image).To(Equal(nextImage))
	}
	c.neverTookTheQuorum()
	c.writesSurvive()
}

// An agent's image that does not exist blocks the rollout, and the fix goes through; etcd runs all the time.
func TestAgentImageInPlace(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(3, inPlace)
	before := c.runs(v1alpha1.ContainerEtcd)
	c.patch(func(e *v1alpha1.Etcd) {
		e.Spec.Backup = &v1alpha1.BackupSpec{Image: ptr.To("localhost/etcd-agent:missing")}
	})
	held := c.until("held", func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Status.Rollout != nil && t.Status.Rollout.HeldBy != nil && t.Status.Rollout.HeldBy.Guard == v1alpha1.GuardUpdateObserved
	})
	t.Log(held.Status.Rollout.HeldBy.Message)
	agents := c.runs(v1alpha1.ContainerBackupRestore)
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Backup = nil })
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).To(HaveLen(2))
		g.Expect(all[1].Status.State).To(Equal(v1alpha1.TaskStateSucceeded), "%+v", all[1].Status)
	}).Should(Succeed())
	c.ready()
	c.Expect(c.runs(v1alpha1.ContainerEtcd)).To(Equal(before))
	c.Expect(c.runs(v1alpha1.ContainerBackupRestore)).NotTo(Equal(agents))
	c.writesSurvive()
}

// Twenty changes under load, as fast as they go: no restart.
func TestTwentyChangesOfResources(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(3, inPlace)
	before, from := c.runs(v1alpha1.ContainerEtcd), time.Now()
	for i := range 20 {
		c.patch(amount(fmt.Sprintf("%dm", 21+i), fmt.Sprintf("%dMi", 65+i)))
		c.untilNumberSucceeded(i + 1)
		c.ready()
	}
	t.Logf("20 changes took %s", time.Since(from))
	c.Expect(c.runs(v1alpha1.ContainerEtcd)).To(Equal(before))
	report := c.writesSurvive()
	between := report.Between(from, time.Now())
	t.Logf("%d leader changes, longest gap %s", between.LeaderChanges, between.LongestGap)
	c.Expect(between.LeaderChanges).To(BeZero())
}
