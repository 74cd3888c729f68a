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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withoutVolumes has the volumes deleted in sleep.
func withoutVolumes(_ *cluster, e *v1alpha1.Etcd) {
	retain(v1alpha1.VolumesRetained, v1alpha1.VolumesDeleted)(e)
}

func (c *cluster) replicas(n int32) {
	c.t.Helper()
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = n })
}

// untilAsleep waits until the condition Hibernated is so, and returns it.
func (c *cluster) untilAsleep(status metav1.ConditionStatus, reason string) metav1.Condition {
	c.t.Helper()
	var found metav1.Condition
	c.Eventually(func(g Gomega) {
		condition := meta.FindStatusCondition(c.etcd(g).Status.Conditions, v1alpha1.ConditionHibernated)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Reason).To(Equal(reason), condition.Message)
		g.Expect(condition.Status).To(Equal(status), condition.Message)
		found = *condition
	}).Should(Succeed())
	c.t.Log(found.Message)
	return found
}

// sleepWithoutVolumes waits until the cluster sleeps, and nothing but the final snapshot is left of it.
func (c *cluster) sleepWithoutVolumes(n int) *v1alpha1.Hibernation {
	c.t.Helper()
	c.untilAsleep(metav1.ConditionTrue, v1alpha1.ReasonHibernated)
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

// awake waits until a cluster that slept without volumes is whole again.
func (c *cluster) awake(n int, slept *v1alpha1.Hibernation) {
	c.t.Helper()
	c.ready()
	c.untilVoters(n)
	c.Eventually(func(g Gomega) {
		status := c.etcd(g).Status
		g.Expect(status.Hibernation).To(BeNil())
		g.Expect(status.Recovery).To(BeNil())
		g.Expect(status.ClusterID).NotTo(Equal(slept.ClusterID))
		g.Expect(meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHibernated)).To(BeNil())
	}).Should(Succeed())
	for i, uid := range c.claims(c, n) {
		c.Expect(slept.Claims).NotTo(ContainElement(v1alpha1.HibernatedClaim{Name: claimName(i), UID: uid}))
	}
}

// KEP-1847, "deleted when scaled", for an Etcd: while it is written to a cluster is put to sleep, and loses its volumes;
// it wakes up with every write that was acknowledged; twice. One has a claim that was there before, and the other TLS
// everywhere.
func TestSleepWithoutVolumes(t *testing.T) {
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
			// What is written between two deltas is in the final snapshot alone.
			changes := []func(*cluster, *v1alpha1.Etcd){withStore(5 * time.Minute), withoutVolumes}
			if n == 3 {
				changes = append(changes, issue, useTLS, withBackupTLS)
			}
			c.begin(n, changes...)
			c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
			for range 2 {
				before := c.etcd(c).Status.ClusterID
				c.replicas(0)
				slept := c.sleepWithoutVolumes(n)
				c.Expect(slept.ClusterID).To(Equal(before))
				c.Expect(slept.Snapshot).To(HaveSuffix(".final"))
				acknowledged, _ := c.writer.Acknowledged()
				t.Logf("%d writes were acknowledged, and snapshot %s is at revision %d", acknowledged, slept.Snapshot, slept.Revision)
				began := time.Now()
				c.replicas(int32(n))
				c.awake(n, slept)
				t.Logf("awake after %s", time.Since(began).Round(100*time.Millisecond))
				c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
			}
			c.writesSurvive()

			// And asleep it is deleted like any other.
			c.replicas(0)
			c.sleepWithoutVolumes(n)
			c.deleteEtcd(metav1.DeletePropagationBackground)
			c.claimsGone(n)
		})
	}
}

// The store fails when the cluster is put to sleep: its volumes are kept, also when it is woken up, and when its policy
// changes. Once the store is mended the volumes go.
func TestSleepWithABrokenStore(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(5*time.Minute), withoutVolumes)
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	claims := c.claims(c, 3)
	folder := filepath.Join(c.volumeOf("backups"), c.namespace, etcdName, "v2")
	lock := func() { c.Expect(os.Chmod(folder, 0o500)).To(Succeed()) }
	mend := func() { c.Expect(os.Chmod(folder, 0o700)).To(Succeed()) }
	held := func() {
		c.Expect(c.untilAsleep(metav1.ConditionFalse, v1alpha1.ReasonNoFinalSnapshot).Message).To(And(
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
	mend()
	c.startWriter()
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)

	lock()
	c.replicas(0)
	held()
	c.patch(retain(v1alpha1.VolumesRetained, v1alpha1.VolumesRetained))
	c.untilAsleep(metav1.ConditionTrue, v1alpha1.ReasonHibernated)
	c.noJobs()
	c.Expect(c.claims(c, 3)).To(Equal(claims))
	c.patch(retain(v1alpha1.VolumesRetained, v1alpha1.VolumesDeleted))
	held()
	mend()
	slept := c.sleepWithoutVolumes(3)

	// The final snapshot is away: nobody begins with less. It comes back, and so does the cluster.
	final := filepath.Join(c.volumeOf("backups"), slept.Snapshot)
	c.Expect(os.Rename(final, final+".away")).To(Succeed())
	c.replicas(3)
	c.untilCondition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionFalse, v1alpha1.ReasonRestoreFailed)
	c.Expect(os.Rename(final+".away", final)).To(Succeed())
	c.awake(3, slept)
	c.writesSurvive()
}

// The final snapshot is lost for good while the cluster sleeps: nothing less is restored by itself, and a recovery
// restores the newest backup that there is.
func TestFinalSnapshotIsLostForGood(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(5*time.Minute), withoutVolumes)
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	c.writer.Stop()
	c.do("delta", v1alpha1.OnDemandSnapshot, "type: delta")
	// This is in the final snapshot alone.
	c.fill(1)
	c.replicas(0)
	slept := c.sleepWithoutVolumes(3)
	c.Expect(os.Remove(filepath.Join(c.volumeOf("backups"), slept.Snapshot))).To(Succeed())
	c.replicas(3)
	c.untilCondition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionFalse, v1alpha1.ReasonRestoreFailed)
	c.recover("recover")
	task := c.recovered(slept.ClusterID)
	c.Expect(task.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromBackup))
	c.Expect(c.etcd(c).Status.Hibernation).To(BeNil())
	c.writesSurvive()
}

// The operator is killed at each step. It does not run beside another test.
func TestSleepWithTheOperatorKilled(t *testing.T) {
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
	asleep := func(g Gomega) bool { return c.etcd(g).Status.Hibernation != nil }
	c.replicas(0)
	killWhen("the StatefulSet is scaled to zero", func(g Gomega) bool { return *c.statefulSet(g).Spec.Replicas == 0 })
	killWhen("the volumes are surveyed", func(g Gomega) bool { return jobs(g, v1alpha1.ComponentSurveyJob) > 0 || asleep(g) })
	killWhen("the final snapshot is taken", func(g Gomega) bool { return jobs(g, v1alpha1.ComponentFinalSnapshotJob) > 0 || asleep(g) })
	killWhen("the volumes are given up", asleep)
	slept := c.sleepWithoutVolumes(3)
	c.replicas(3)
	killWhen("the cluster is to wake up", func(g Gomega) bool { return c.etcd(g).Status.Recovery != nil })
	killWhen("the members are started", func(Gomega) bool { return !gone() })
	c.awake(3, slept)
	c.writesSurvive()
}
