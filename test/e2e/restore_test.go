//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restore creates a Restore, waits for its end, and returns it.
func (c *cluster) restore(name, config string) *v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	task := c.task(name, config)
	task.Spec.Type = v1alpha1.Restore
	c.create(task)
	return c.untilTask(name, func(s v1alpha1.EtcdOperatorTaskStatus) bool { return s.State.IsFinal() })
}

// restored waits for the end of a Restore, and asserts that the cluster has a new ID, all of its members, and clients again.
func (c *cluster) restored(name, config, previousID string) *v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	task := c.restore(name, config)
	c.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded), "%+v", task.Status)
	c.t.Logf("%s: %s", name, task.Status.LastOperation.Reason)
	c.ready()
	c.untilVoters(3)
	c.Expect(c.etcd(c).Status.ClusterID).NotTo(Equal(previousID))
	c.Eventually(func(g Gomega) { g.Expect(c.endpoints(g)).To(Equal(3)) }).Should(Succeed())
	return task
}

// endpoints returns how many members the client Service selects.
func (c *cluster) endpoints(g Gomega) (n int) {
	service := &corev1.Service{}
	g.Expect(kube.Get(c.t.Context(), types.NamespacedName{Namespace: c.namespace, Name: etcdName + "-client"}, service)).To(Succeed())
	slices := &discoveryv1.EndpointSliceList{}
	g.Expect(kube.List(c.t.Context(), slices, client.InNamespace(c.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})).To(Succeed())
	for _, s := range slices.Items {
		n += len(s.Endpoints)
	}
	return n
}

// putRange puts some keys with a value, one revision each, and returns the last revision.
func (c *cluster) putRange(from, to int, value string) (revision int64) {
	c.t.Helper()
	etcd := c.etcdClient()
	for i := from; i < to; i++ {
		r, err := etcd.Put(c.t.Context(), fmt.Sprintf("/app/%04d", i), value)
		c.Expect(err).NotTo(HaveOccurred())
		revision = r.Header.Revision
	}
	return revision
}

// holds asserts that exactly the first n keys exist, with a value.
func (c *cluster) holds(n int, value string) {
	c.t.Helper()
	all, err := c.etcdClient().Get(c.t.Context(), "/app/", clientv3.WithPrefix())
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(all.Kvs).To(HaveLen(n))
	for i, kv := range all.Kvs {
		c.Expect(string(kv.Key)).To(Equal(fmt.Sprintf("/app/%04d", i)))
		c.Expect(string(kv.Value)).To(Equal(value))
	}
}

// A cluster of three goes back to a revision in the middle of its deltas, after keys were deleted and overwritten, and then to what it
// was before that. Revisions never go back, and a client that watches from before lists again.
func TestRestoreToARevisionAndUndo(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(2*time.Second))
	c.writer.Stop()
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	target := c.putRange(0, 200, "good")
	c.untilBackedUp(target)
	c.putRange(0, 100, "bad")
	_, err := c.etcdClient().Delete(t.Context(), "/app/015", clientv3.WithPrefix())
	c.Expect(err).NotTo(HaveOccurred())
	last := c.putRange(200, 300, "later")
	c.untilBackedUp(last)
	id := c.etcd(c).Status.ClusterID

	preview := c.restore("preview", fmt.Sprintf("to: {revision: %d}", target))
	c.Expect(preview.Status.State).To(Equal(v1alpha1.TaskStateSucceeded), "%+v", preview.Status)
	t.Logf("preview: %v", preview.Status.Result)
	c.Expect(preview.Status.Recovery).To(BeNil())
	c.Expect(c.etcd(c).Status.ClusterID).To(Equal(id), "nothing is changed")
	wrong := c.restore("wrong", fmt.Sprintf("{to: {revision: %d}, confirm: %s}", target-1, preview.Status.Result["confirm"]))
	c.Expect(wrong.Status.State).To(Equal(v1alpha1.TaskStateFailed))
	c.Expect(wrong.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrNotConfirmed))
	c.Expect(c.etcd(c).Status.ClusterID).To(Equal(id))

	began := time.Now()
	task := c.restored("back", fmt.Sprintf("{to: {revision: %d}, confirm: %s}", target, preview.Status.Result["confirm"]), id)
	t.Logf("going back took %s", time.Since(began).Round(time.Second))
	c.Expect(task.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromTarget))
	c.holds(200, "good")
	bumped := c.revision()
	c.Expect(bumped).To(BeNumerically(">", last))
	watch := c.etcdClient().Watch(clientv3.WithRequireLeader(t.Context()), "/app/", clientv3.WithPrefix(), clientv3.WithRev(last))
	c.Eventually(watch).Should(Receive(WithTransform(func(r clientv3.WatchResponse) error { return r.Err() }, Satisfy(func(err error) bool {
		return errors.Is(err, rpctypes.ErrCompacted)
	}))))
	for i := range 3 {
		c.Expect(c.aside(i)).To(HaveLen(1), "the old data of %s", podName(i))
	}

	restoredID := c.etcd(c).Status.ClusterID
	undo := c.restored("undo", "undo: back", restoredID)
	c.Expect(undo.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromKeptData))
	c.Expect(c.revision()).To(BeNumerically(">", bumped))
	etcd := c.etcdClient()
	for key, value := range map[string]string{"/app/0000": "bad", "/app/0149": "good", "/app/0299": "later"} {
		r, err := etcd.Get(t.Context(), key)
		c.Expect(err).NotTo(HaveOccurred())
		c.Expect(r.Kvs).To(HaveLen(1), key)
		c.Expect(string(r.Kvs[0].Value)).To(Equal(value), key)
	}
	gone, err := etcd.Get(t.Context(), "/app/015", clientv3.WithPrefix(), clientv3.WithCountOnly())
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(gone.Count).To(BeZero())

	// What was kept goes with the last of both tasks.
	c.Expect(kube.Delete(t.Context(), undo)).To(Succeed())
	c.Expect(c.etcd(c).Status.Recovery).NotTo(BeNil())
	c.Expect(kube.Delete(t.Context(), task)).To(Succeed())
	c.Eventually(func(g Gomega) {
		g.Expect(c.etcd(g).Status.Recovery).To(BeNil())
		for i := range 3 {
			g.Expect(c.aside(i)).To(BeEmpty())
		}
	}).Should(Succeed())
}

// A Restore that is deleted while its members are stopped has changed nothing.
func TestRestoreThatIsAborted(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(2*time.Second))
	c.writer.Stop()
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	target := c.putRange(0, 50, "good")
	c.untilBackedUp(target)
	last := c.putRange(0, 50, "better")
	id := c.etcd(c).Status.ClusterID
	preview := c.restore("preview", fmt.Sprintf("to: {revision: %d}", target))
	task := c.task("back", fmt.Sprintf("{to: {revision: %d}, confirm: %s}", target, preview.Status.Result["confirm"]))
	task.Spec.Type = v1alpha1.Restore
	c.create(task)
	c.untilTask("back", func(s v1alpha1.EtcdOperatorTaskStatus) bool {
		return s.Recovery != nil && s.Recovery.Phase == v1alpha1.RecoveryStopping
	})
	c.Expect(c.endpoints(c)).To(BeZero(), "clients are kept away")
	c.Expect(kube.Delete(t.Context(), task)).To(Succeed())
	c.ready()
	c.servesAgain()
	c.Eventually(func(g Gomega) { g.Expect(c.endpoints(g)).To(Equal(3)) }).Should(Succeed())
	c.Expect(c.etcd(c).Status.ClusterID).To(Equal(id))
	c.Expect(c.revision()).To(BeNumerically(">=", last))
	c.holds(50, "better")
}
