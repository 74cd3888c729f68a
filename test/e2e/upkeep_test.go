//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// Tasks that the operator creates by itself.

// reconciledAgain is longer than the reconcile interval of a healthy cluster.
const reconciledAgain = 40 * time.Second

// beginIdle creates a cluster without writes in the existing namespace.
func (c *cluster) beginIdle(n int, changes ...func(*cluster, *v1alpha1.Etcd)) {
	c.t.Helper()
	etcd := c.newEtcd(n)
	for _, change := range changes {
		change(c, etcd)
	}
	c.create(etcd)
	c.ready()
}

// revisions creates n revisions.
func (c *cluster) revisions(n int) {
	c.t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("http://%s:2379", c.pod(c, c.leader()).Status.PodIP)}, Logger: zap.NewNop()})
	c.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = etcd.Close() }()
	for i := range n {
		_, err := etcd.Put(c.t.Context(), "/revision", strconv.Itoa(i))
		c.Expect(err).NotTo(HaveOccurred())
	}
}

// fullSnapshot returns the revision of the newest full snapshot according to the lease; 0 if there is none.
func (c *cluster) fullSnapshot(g Gomega) int64 {
	lease := &coordinationv1.Lease{}
	g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: etcdName + "-full-snap"}, lease)).To(Succeed())
	revision, _ := strconv.ParseInt(ptr.Deref(lease.Spec.HolderIdentity, ""), 10, 64)
	return revision
}

// Once the deltas have enough events, the operator has them compacted, once. Compacted events no longer count.
func TestSnapshotCompaction(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.beginIdle(1, withStore(time.Second), func(_ *cluster, e *v1alpha1.Etcd) {
		e.Spec.Backup.SnapshotCompaction = &v1alpha1.SnapshotCompactionSpec{EventsThreshold: ptr.To[int64](200)}
	})
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	first := c.fullSnapshot(c)
	c.revisions(300)
	c.untilBackedUp(first + 300)

	done := c.untilSucceeded()
	c.Expect(done.Name).To(Equal(fmt.Sprintf("%s-compaction-%d", etcdName, first)))
	c.Expect(done.Spec.Type).To(Equal(v1alpha1.OnDemandCompaction))
	compacted, err := strconv.ParseInt(done.Status.Result["revision"], 10, 64)
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(compacted).To(BeNumerically(">=", first+200))
	c.Expect(c.fullSnapshot(c)).To(Equal(compacted))
	c.Consistently(func(g Gomega) { g.Expect(c.rollouts(g)).To(HaveLen(1)) }, reconciledAgain, time.Second).Should(Succeed())
}

// The schedule is due every minute, and each time has one task, even if the operator is killed.
func TestDefragmentationSchedule(t *testing.T) {
	c := newEmptyCluster(t)
	from := time.Now()
	c.beginIdle(3, func(_ *cluster, e *v1alpha1.Etcd) { e.Spec.Etcd.DefragmentationSchedule = ptr.To("* * * * *") })
	c.Eventually(func(g Gomega) { g.Expect(c.rollouts(g)).NotTo(BeEmpty()) }, 2*time.Minute).Should(Succeed())
	first := c.untilSucceeded()
	c.Expect(first.Name).To(HavePrefix(etcdName + "-defragmentation-"))
	c.Expect(first.Spec.Type).To(Equal(v1alpha1.OnDemandMaintenance))
	c.killOperator()
	c.until("the next task succeeded", func(t v1alpha1.EtcdOperatorTask) bool {
		return t.Name != first.Name && t.Status.State == v1alpha1.TaskStateSucceeded
	})
	c.Expect(len(c.rollouts(c))).To(BeNumerically("<=", time.Since(from)/time.Minute+1))
	c.ready()
}
