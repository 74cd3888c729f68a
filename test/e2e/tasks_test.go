//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The tests in this file kill the operator: none of them runs in parallel to others.

func (c *cluster) taskOf(g Gomega, name string) *v1alpha1.EtcdOperatorTask {
	t := &v1alpha1.EtcdOperatorTask{}
	g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: name}, t)).To(Succeed())
	return t
}

// untilTask waits until the status of a task satisfies a condition.
func (c *cluster) untilTask(name string, holds func(v1alpha1.EtcdOperatorTaskStatus) bool) *v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	var t *v1alpha1.EtcdOperatorTask
	c.Eventually(func(g Gomega) {
		t = c.taskOf(g, name)
		g.Expect(holds(t.Status)).To(BeTrue(), "%+v", t.Status)
	}).Should(Succeed())
	return t
}

func inState(state v1alpha1.TaskState) func(v1alpha1.EtcdOperatorTaskStatus) bool {
	return func(s v1alpha1.EtcdOperatorTaskStatus) bool { return s.State == state }
}

// fill grows the databases so that half is free after a compaction.
func (c *cluster) fill(mebibytes int) {
	c.t.Helper()
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("http://%s:2379", c.pod(c, c.leader()).Status.PodIP)}, Logger: zap.NewNop()})
	c.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = etcd.Close() }()
	value := make([]byte, 1<<20)
	_, _ = rand.Read(value)
	for range 2 {
		for i := range mebibytes {
			c.Eventually(func() error {
				_, err := etcd.Put(c.t.Context(), fmt.Sprintf("/fill/%04d", i), string(value))
				return err
			}).Should(Succeed())
		}
	}
}

// defragmentations returns a member's own count of defragmentations since its process started.
func (c *cluster) defragmentations(i int) string {
	c.t.Helper()
	response, err := http.Get(fmt.Sprintf("http://%s:9095/metrics", c.pod(c, i).Status.PodIP))
	c.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	metrics, err := io.ReadAll(response.Body)
	c.Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(metrics)) {
		if count, ok := strings.CutPrefix(line, "etcd_disk_backend_defrag_duration_seconds_count "); ok {
			return strings.TrimSpace(count)
		}
	}
	return "no such metric"
}

// The operator is killed after its request to the first member, and again later: no member is defragmented twice.
func TestMaintenanceUnderWrites(t *testing.T) {
	c := newCluster(t, 3)
	c.fill(128)
	task := c.task("maintenance", "{etcdCompaction: true, etcdDefragmentation: true}")
	task.Spec.Type = v1alpha1.OnDemandMaintenance
	from := time.Now()
	c.create(task)
	intended := func(n int) func(v1alpha1.EtcdOperatorTaskStatus) bool {
		return func(s v1alpha1.EtcdOperatorTaskStatus) bool {
			members := 0
			for key := range s.Result {
				if strings.HasSuffix(key, ".bytesBefore") {
					members++
				}
			}
			return members >= n
		}
	}
	for n := range 2 {
		c.untilTask("maintenance", intended(n+1))
		c.killOperator()
	}
	done := c.untilTask("maintenance", inState(v1alpha1.TaskStateSucceeded))
	t.Logf("%v", done.Status.Result)
	for i := range 3 {
		c.Expect(c.defragmentations(i)).To(Equal("1"), podName(i))
		c.Expect(done.Status.Result).To(HaveKey(podName(i) + ".bytesAfter"))
	}
	c.ready()
	report := c.writesSurvive()
	t.Logf("longest gap %s", report.Between(from, time.Now()).LongestGap)
}

// A rollout is stuck on a template that cannot start. The template is fixed, and all members are stopped and started; the
// operator is killed while they stop and while they start.
func TestRecreateOfAStuckCluster(t *testing.T) {
	c := newCluster(t, 3)
	claims := c.claimUIDs()
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = ptr.To("localhost/no-such-image:v1") })
	// The first pod does not become ready, so the rollout stops there.
	c.untilDeleted(1)
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Etcd.Image = nil })
	task := c.task("recreate", "")
	task.Spec.Type = v1alpha1.RecreateRollout
	c.create(task)
	inPhase := func(phases ...v1alpha1.RecreatePhase) func(v1alpha1.EtcdOperatorTaskStatus) bool {
		return func(s v1alpha1.EtcdOperatorTaskStatus) bool {
			for _, p := range phases {
				if s.Rollout != nil && s.Rollout.Phase == p {
					return true
				}
			}
			return s.State.IsFinal()
		}
	}
	c.untilTask("recreate", inPhase(v1alpha1.RecreateWaitingTermination, v1alpha1.RecreateReadyForCreation))
	c.killOperator()
	c.untilTask("recreate", inPhase(v1alpha1.RecreateReadyForCreation))
	c.killOperator()
	done := c.untilTask("recreate", inState(v1alpha1.TaskStateSucceeded))
	c.Expect(done.Status.Rollout.Phase).To(Equal(v1alpha1.RecreateComplete))
	c.ready()
	c.Expect(c.claimUIDs()).To(Equal(claims))
	c.writesSurvive()
}

func (c *cluster) claimUIDs() map[string]types.UID {
	claims := &corev1.PersistentVolumeClaimList{}
	c.Expect(kube.List(c.t.Context(), claims, client.InNamespace(c.namespace))).To(Succeed())
	uids := map[string]types.UID{}
	for _, claim := range claims.Items {
		uids[claim.Name] = claim.UID
	}
	return uids
}
