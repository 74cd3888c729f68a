//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// drillKeys is the number of keys written before the disaster, in addition to the writer's.
const drillKeys = 100_000

// The volume of the only member is deleted during writes: the cluster restores itself, with every write acknowledged
// before the last delta.
func TestRestoreDrill(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(1, withStore(2*time.Second))
	c.putKeys(drillKeys)
	c.do("full", v1alpha1.OnDemandSnapshot, "type: full")
	c.untilBackedUp(c.revision())

	claim := c.claim(c, 0)
	c.Expect(kube.Delete(t.Context(), claim)).To(Succeed())
	pod := c.pod(c, 0)
	disaster := time.Now()
	c.Expect(kube.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})).To(Succeed())
	saved := c.saved(c)
	c.Eventually(func(g Gomega) {
		g.Expect(c.claim(g, 0).UID).NotTo(Equal(claim.UID))
		g.Expect(c.status(g, 0).Leader).NotTo(BeZero())
	}).Should(Succeed())
	back := time.Since(disaster)
	c.ready()
	c.Eventually(func() time.Time { _, last := c.writer.Acknowledged(); return last }).Should(BeTemporally(">", disaster.Add(back)))

	written := len(c.writer.Stop().Writes)
	lost, err := c.writer.Lost(t.Context())
	c.Expect(err).NotTo(HaveOccurred())
	window := time.Duration(0)
	for _, write := range lost {
		c.Expect(write.Revision).To(BeNumerically(">", saved), "write %d, acknowledged %s before the disaster", write.Number, disaster.Sub(write.Acknowledged))
		window = max(window, disaster.Sub(write.Acknowledged))
	}
	t.Logf("the cluster was back after %s; of %d writes beside the %d keys %d are lost, none acknowledged earlier than %s before the disaster",
		back.Round(time.Millisecond), written, drillKeys, len(lost), window.Round(time.Millisecond))
	c.keysExist(drillKeys)
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	c.untilBackedUp(c.revision())
}

// etcdClient returns a client of the first member.
func (c *cluster) etcdClient() *clientv3.Client {
	c.t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("http://%s:2379", c.pod(c, 0).Status.PodIP)}, Logger: zap.NewNop()})
	c.Expect(err).NotTo(HaveOccurred())
	c.t.Cleanup(func() { _ = etcd.Close() })
	return etcd
}

func drillKey(i int) string { return fmt.Sprintf("/drill/%06d", i) }

// putKeys writes n keys, a hundred at once.
func (c *cluster) putKeys(n int) {
	c.t.Helper()
	c.putKeysBy(c.etcdClient(), n)
}

func (c *cluster) putKeysBy(etcd *clientv3.Client, n int) {
	c.t.Helper()
	for i := 0; i < n; i += 100 {
		var puts []clientv3.Op
		for j := range 100 {
			puts = append(puts, clientv3.OpPut(drillKey(i+j), fmt.Sprintf("value %d", i+j)))
		}
		_, err := etcd.Txn(c.t.Context()).Then(puts...).Commit()
		c.Expect(err).NotTo(HaveOccurred())
	}
}

// keysExist asserts that all n keys exist with their values.
func (c *cluster) keysExist(n int) {
	c.t.Helper()
	etcd := c.etcdClient()
	for i := 0; i < n; i += 1000 {
		page, err := etcd.Get(c.t.Context(), drillKey(i), clientv3.WithRange(clientv3.GetPrefixRangeEnd("/drill/")), clientv3.WithLimit(1000))
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(page.Kvs).To(HaveLen(1000))
		for j, kv := range page.Kvs {
			if string(kv.Key) != drillKey(i+j) || string(kv.Value) != fmt.Sprintf("value %d", i+j) {
				c.t.Fatalf("%s is %q", kv.Key, kv.Value)
			}
		}
	}
}
