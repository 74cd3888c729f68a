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
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withoutVolumes deletes the volumes on hibernation.
func withoutVolumes(_ *cluster, e *v1alpha1.Etcd) {
	retain(v1alpha1.VolumesRetained, v1alpha1.VolumesDeleted)(e)
}

func (c *cluster) replicas(n int32) {
	c.t.Helper()
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = n })
}

// untilHibernated waits until the condition Hibernated has a status and a reason, and returns it.
func (c *cluster) untilHibernated(status metav1.ConditionStatus, reason string) metav1.Condition {
	c.t.Helper()
	var found metav1.Condition
	c.Eventually(func(g Gomega) {
		condition := c.etcd(g).Status.Conditions.Find(v1alpha1.ConditionHibernated)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Reason).To(Equal(reason), condition.Message)
		g.Expect(condition.Status).To(Equal(status), condition.Message)
		found = *condition
	}).Should(Succeed())
	c.t.Log(found.Message)
	return found
}

// hibernatedWithoutVolumes waits until the cluster hibernates and only its final snapshot is left.
func (c *cluster) hibernatedWithoutVolumes(n int) *v1alpha1.Hibernation {
	c.t.Helper()
	c.untilHibernated(metav1.ConditionTrue, v1alpha1.ReasonHibernated)
	c.claimsGone(n)
	h := c.etcd(c).Status.Hibernation
	c.Expect(h).NotTo(BeNil())
	c.Expect(h.Claims).To(HaveLen(n))
	c.Expect(filepath.Join(c.volumeOf("backups"), h.Snapshot)).To(BeARegularFile())
	c.noJobs()
	pods := &corev1.PodList{}
	c.Expect(kube.List(c.t.Context(), pods, client.InNamespace(c.namespace))).To(Succeed())
	c.Expect(pods.Items).To(BeEmpty())
	return h
}

func (c *cluster) noJobs() {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		jobs := &batchv1.JobList{}
		g.Expect(kube.List(context.Background(), jobs, client.InNamespace(c.namespace))).To(Succeed())
		g.Expect(jobs.Items).To(BeEmpty())
	}).Should(Succeed())
}

// wokenUp waits until a cluster that hibernated without volumes is complete again.
func (c *cluster) wokenUp(n int, hibernation *v1alpha1.Hibernation) {
	c.t.Helper()
	c.ready()
	c.untilVoters(n)
	c.Eventually(func(g Gomega) {
		status := c.etcd(g).Status
		g.Expect(status.Hibernation).To(BeNil())
		g.Expect(status.Recovery).To(BeNil())
		g.Expect(status.ClusterID).NotTo(Equal(hibernation.ClusterID))
		g.Expect(status.Conditions.Find(v1alpha1.ConditionHibernated)).To(BeNil())
	}).Should(Succeed())
	for i, uid := range c.claims(c, n) {
		c.Expect(hibernation.Claims).NotTo(ContainElement(v1alpha1.HibernatedClaim{Name: claimName(i), UID: uid}))
	}
}

// KEP-1847, "deleted when scaled", for an Etcd: a cluster hibernates during writes and loses its volumes; it wakes up with
// every acknowledged write; twice. One cluster has a pre-provisioned claim, the other TLS everywhere.
func TestHibernationWithoutVolumes(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			c := newEmptyCluster(t)
			c.store("backups")
			if n == 1 {
				c.create(&corev1.PersistentVolumeClaim{
					ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: claimName(0), Labels: claimLabels()},
					Spec: corev1.PersistentVolumeClaimSpec{
						AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
					},
				})
			}
			// Writes after the last delta are only in the final snapshot.
			changes := []func(*cluster, *v1alpha1.Etcd){withStore(5 * time.Minute), withoutVolumes}
			if n == 3 {
				changes = append(changes, issue, useTLS, withBackupTLS)
			}
			c.begin(n, changes...)
			c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
			for range 2 {
				before := c.etcd(c).Status.ClusterID
				c.replicas(0)
				hibernation := c.hibernatedWithoutVolumes(n)
				c.Expect(hibernation.ClusterID).To(Equal(before))
				c.Expect(hibernation.Snapshot).To(HaveSuffix(".final"))
				acknowledged, _ := c.writer.Acknowledged()
				t.Logf("%d writes were acknowledged, and snapshot %s is at revision %d", acknowledged, hibernation.Snapshot, hibernation.Revision)
				began := time.Now()
				c.replicas(int32(n))
				c.wokenUp(n, hibernation)
				t.Logf("woke up after %s", time.Since(began).Round(100*time.Millisecond))
				c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
			}
			c.writesSurvive()

			// A hibernated Etcd is deleted like any other.
			c.replicas(0)
			c.hibernatedWithoutVolumes(n)
			c.deleteEtcd(metav1.DeletePropagationBackground)
			c.claimsGone(n)
		})
	}
}

// The store fails when the cluster hibernates: its volumes are kept, even after a wake-up and a change of policy. Once the
// store is fixed, the volumes are deleted.
func TestHibernationWithABrokenStore(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(5*time.Minute), withoutVolumes)
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	claims := c.claims(c, 3)
	folder := filepath.Join(c.volumeOf("backups"), c.namespace, etcdName, "v2")
	lock := func() { c.Expect(os.Chmod(folder, 0o500)).To(Succeed()) }
	fix := func() { c.Expect(os.Chmod(folder, 0o700)).To(Succeed()) }
	held := func() {
		c.Expect(c.untilHibernated(metav1.ConditionFalse, v1alpha1.ReasonNoFinalSnapshot).Message).To(And(
			ContainSubstring("the volumes are kept: the final snapshot failed"), ContainSubstring("permission denied")))
		c.Expect(c.etcd(c).Status.Hibernation).To(BeNil())
		c.Expect(c.claims(c, 3)).To(Equal(claims))
	}

	lock()
	c.replicas(0)
	held()
	c.replicas(3)
	c.ready()
	c.noJobs()
	c.Expect(c.claims(c, 3)).To(Equal(claims))
	c.writesSurvive()
	fix()
	c.startWriter()
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)

	lock()
	c.replicas(0)
	held()
	c.patch(retain(v1alpha1.VolumesRetained, v1alpha1.VolumesRetained))
	c.untilHibernated(metav1.ConditionTrue, v1alpha1.ReasonHibernated)
	c.noJobs()
	c.Expect(c.claims(c, 3)).To(Equal(claims))
	c.patch(retain(v1alpha1.VolumesRetained, v1alpha1.VolumesDeleted))
	held()
	fix()
	hibernation := c.hibernatedWithoutVolumes(3)

	// The final snapshot is missing: nothing less is restored. Once it is back, the cluster wakes up.
	final := filepath.Join(c.volumeOf("backups"), hibernation.Snapshot)
	c.Expect(os.Rename(final, final+".away")).To(Succeed())
	c.replicas(3)
	c.untilCondition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionFalse, v1alpha1.ReasonRestoreFailed)
	c.Expect(os.Rename(final+".away", final)).To(Succeed())
	c.wokenUp(3, hibernation)
	c.writesSurvive()
}

// The final snapshot is lost for good during hibernation: nothing less is restored automatically, and a recovery restores
// the newest existing backup.
func TestFinalSnapshotIsLostForGood(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(5*time.Minute), withoutVolumes)
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	c.writer.Stop()
	c.do("delta", v1alpha1.OnDemandSnapshot, "type: delta")
	// This write is only in the final snapshot.
	c.fill(1)
	c.replicas(0)
	hibernation := c.hibernatedWithoutVolumes(3)
	c.Expect(os.Remove(filepath.Join(c.volumeOf("backups"), hibernation.Snapshot))).To(Succeed())
	c.replicas(3)
	c.untilCondition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionFalse, v1alpha1.ReasonRestoreFailed)
	c.recover("recover")
	task := c.recovered(hibernation.ClusterID)
	c.Expect(task.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromBackup))
	c.Expect(c.etcd(c).Status.Hibernation).To(BeNil())
	c.writesSurvive()
}

// The operator is killed at each step. This test does not run in parallel to others.
func TestHibernationWithTheOperatorKilled(t *testing.T) {
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(5*time.Minute), withoutVolumes)
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	jobs := func(g Gomega, suffix string) int {
		list := &batchv1.JobList{}
		g.Expect(kube.List(context.Background(), list, client.InNamespace(c.namespace), client.MatchingLabels{v1alpha1.LabelComponent: suffix})).To(Succeed())
		return len(list.Items)
	}
	gone := func() bool {
		err := kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: claimName(0)}, &corev1.PersistentVolumeClaim{})
		return client.IgnoreNotFound(err) == nil && err != nil
	}
	killWhen := func(what string, reached func(g Gomega) bool) {
		t.Helper()
		c.Eventually(func(g Gomega) { g.Expect(reached(g)).To(BeTrue(), what) }).WithPolling(20 * time.Millisecond).Should(Succeed())
		t.Logf("killing the operator: %s", what)
		c.killOperator()
	}
	hibernated := func(g Gomega) bool { return c.etcd(g).Status.Hibernation != nil }
	c.replicas(0)
	killWhen("the StatefulSet is scaled to zero", func(g Gomega) bool { return *c.statefulSet(g).Spec.Replicas == 0 })
	killWhen("the volumes are surveyed", func(g Gomega) bool { return jobs(g, v1alpha1.ComponentSurveyJob) > 0 || hibernated(g) })
	killWhen("the final snapshot is taken", func(g Gomega) bool { return jobs(g, v1alpha1.ComponentFinalSnapshotJob) > 0 || hibernated(g) })
	killWhen("the volumes are to be deleted", hibernated)
	hibernation := c.hibernatedWithoutVolumes(3)
	c.replicas(3)
	killWhen("the cluster is to wake up", func(g Gomega) bool { return c.etcd(g).Status.Recovery != nil })
	killWhen("the members are started", func(Gomega) bool { return !gone() })
	c.wokenUp(3, hibernation)
	c.writesSurvive()
}
