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
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestMemberRestartsWithItsData(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	before := c.memberID(1)
	c.deleteAndWait(1, func(*corev1.Pod) bool { return true })
	c.ready()
	c.Expect(c.memberID(1)).To(Equal(before))
	c.untilLeasesShowMembers()
	c.writesSurvive()
}

func TestMemberThatLostItsDataIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	leader := c.leader()
	c.isReplaced(leader, func(volume string) { c.Expect(os.RemoveAll(filepath.Join(volume, "new.etcd"))).To(Succeed()) })
	c.isReplaced((leader+1)%3, func(volume string) { c.Expect(os.RemoveAll(filepath.Join(volume, "new.etcd"))).To(Succeed()) })
	c.untilLeasesShowMembers()
	c.writesSurvive()
}

func TestMemberWhoseDataIsDamagedIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.isReplaced(1, c.damageLog)
	c.Eventually(func() ([]string, error) {
		return filepath.Glob(filepath.Join(c.volume(1), "new.etcd"+member.ReplacedSuffix+"*"))
	}).Should(BeEmpty(), "data put aside is removed once the member votes")
	c.writesSurvive()
}

// A member that lost its data waits while quorum is lost, and rejoins by itself once quorum is restored.
func TestMemberThatLostItsDataWaitsForTheQuorum(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	thaw := c.freeze(1)
	c.untilUnready(1)
	c.Expect(os.RemoveAll(filepath.Join(c.volume(2), "new.etcd"))).To(Succeed())
	c.deleteAndWait(2, func(*corev1.Pod) bool { return true })
	c.untilCondition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionFalse, v1alpha1.ReasonDataLost)
	c.Expect(filepath.Join(c.volume(2), "new.etcd")).NotTo(BeAnExistingFile(), "no new cluster was started")
	thaw()
	c.ready()
	c.untilCondition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionTrue, v1alpha1.ReasonDataVolumesReady)
	c.writesSurvive()
}

// Without a backup, the only member does not start a new cluster; it starts once its data is back. It does not start with
// the data of another cluster.
func TestOnlyMemberWithoutItsData(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	volume := c.volume(0)
	data, kept := filepath.Join(volume, "new.etcd"), filepath.Join(volume, "kept")

	c.whileHibernated(func() { c.Expect(os.Rename(data, kept)).To(Succeed()) })
	c.untilCondition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionFalse, v1alpha1.ReasonDataLost)
	c.Expect(data).NotTo(BeAnExistingFile(), "no new cluster was started")

	other := newCluster(t, 1, "other")
	other.whileHibernated(func() { c.Expect(os.Rename(filepath.Join(other.volume(0), "new.etcd"), data)).To(Succeed()) })
	c.deleteAndWait(0, func(*corev1.Pod) bool { return true })
	c.untilCondition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionFalse, v1alpha1.ReasonDataOfAnotherCluster)
	c.Expect(filepath.Join(data, "member", "wal")).To(BeADirectory(), "the data is unchanged")

	c.whileHibernated(func() {
		c.Expect(os.RemoveAll(data)).To(Succeed())
		c.Expect(os.Rename(kept, data)).To(Succeed())
	})
	c.ready()
	c.writesSurvive()
}

// From one to three to five members, the first step together with a template change.
func TestScaleOut(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	id := c.etcd(c).Status.ClusterID
	c.patch(func(e *v1alpha1.Etcd) {
		e.Spec.Annotations = map[string]string{"e2e/change": "1"}
		e.Spec.Replicas = 3
	})
	c.ready()
	c.untilVoters(3)
	c.Expect(c.rollouts(c)).To(HaveLen(1), "growth replaces no pod")
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 5 })
	c.ready()
	c.untilVoters(5)
	c.Expect(c.rollouts(c)).To(HaveLen(1), "growth replaces no pod")
	c.change("2")
	c.untilNumberSucceeded(2)
	c.neverTookTheQuorum()
	c.Expect(c.etcd(c).Status.ClusterID).To(Equal(id))
	c.untilLeasesShowMembers()
	c.writesSurvive()
}

// From five members to three to one, and back: members leave one by one, the leader hands over, and a claim that stays is joined from
// again.
func TestScaleIn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	id := c.etcd(c).Status.ClusterID
	for _, n := range []int32{5, 3} {
		c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = n })
		c.untilVoters(int(n))
		c.ready()
	}
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 1 })
	c.Eventually(func(g Gomega) {
		condition := c.etcd(g).Status.Conditions.Find(v1alpha1.ConditionScaled)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Reason).To(Equal(v1alpha1.ReasonSingleMemberNotAllowed))
	}).Should(Succeed())
	c.untilVoters(3)
	c.patch(func(e *v1alpha1.Etcd) {
		metav1.SetMetaDataAnnotation(&e.ObjectMeta, v1alpha1.AnnotationAllowSingleMember, "true")
	})
	c.untilVoters(1)
	c.ready()
	c.Expect(*c.statefulSet(c).Spec.Replicas).To(Equal(int32(1)))
	c.Expect(c.etcd(c).Status.ClusterSize).To(Equal(int32(1)))
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	c.untilVoters(3)
	c.ready()
	c.Expect(c.etcd(c).Status.ClusterID).To(Equal(id))
	c.writesSurvive()
}

// A cluster with a missing member does not grow until the member is back.
func TestScaleOutWaits(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	thaw := c.freeze(2)
	c.untilUnready(2)
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 5 })
	c.Eventually(func(g Gomega) {
		condition := c.etcd(g).Status.Conditions.Find(v1alpha1.ConditionScaled)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Message).To(ContainSubstring("OthersServing: " + podName(2) + " does not serve"))
	}).Should(Succeed())
	c.untilVoters(3)
	thaw()
	c.ready()
	c.untilVoters(5)
	c.writesSurvive()
}

// volume returns the folder of a member's volume on this machine.
func (c *cluster) volume(i int) string {
	c.t.Helper()
	return c.volumeOf(claimName(i))
}

// volumeOf returns the folder of a claim's volume on this machine.
func (c *cluster) volumeOf(name string) string {
	c.t.Helper()
	claim := &corev1.PersistentVolumeClaim{}
	c.Expect(kube.Get(c.t.Context(), types.NamespacedName{Namespace: c.namespace, Name: name}, claim)).To(Succeed())
	volume := &corev1.PersistentVolume{}
	c.Expect(kube.Get(c.t.Context(), types.NamespacedName{Name: claim.Spec.VolumeName}, volume)).To(Succeed())
	c.Expect(volume.Spec.HostPath).NotTo(BeNil())
	return volume.Spec.HostPath.Path
}

// memberID returns the ID of a member once it answers.
func (c *cluster) memberID(i int) uint64 {
	c.t.Helper()
	var id uint64
	c.Eventually(func(g Gomega) { id = c.status(g, i).MemberID }).Should(Succeed())
	return id
}

// damageLog overwrites a part of a member's log.
func (c *cluster) damageLog(volume string) {
	logs, err := filepath.Glob(filepath.Join(volume, "new.etcd", "member", "wal", "*.wal"))
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(logs).NotTo(BeEmpty())
	file, err := os.OpenFile(logs[len(logs)-1], os.O_WRONLY, 0)
	c.Expect(err).NotTo(HaveOccurred())
	_, err = file.WriteAt([]byte("this was not written by etcd at all"), 200)
	c.Expect(err).NotTo(HaveOccurred())
	c.Expect(file.Close()).To(Succeed())
}

// isReplaced damages the data of a member, deletes its pod, and waits until it votes under a new ID.
func (c *cluster) isReplaced(i int, harm func(volume string)) {
	c.t.Helper()
	before := c.memberID(i)
	harm(c.volume(i))
	c.deleteAndWait(i, func(*corev1.Pod) bool { return true })
	c.Eventually(func(g Gomega) {
		status := c.status(g, i)
		g.Expect(status.MemberID).NotTo(Equal(before))
		g.Expect(status.Learner).To(BeFalse())
	}).Should(Succeed())
	c.ready()
	c.untilVoters(3)
}

// untilVoters waits until the member list has exactly n voters.
func (c *cluster) untilVoters(n int) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		m := c.member(g, 0)
		defer func() { _ = m.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		list, err := m.Members(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(list).To(HaveLen(n))
		for _, m := range list {
			g.Expect(m.Learner).To(BeFalse())
		}
	}).Should(Succeed())
}

// untilLeasesShowMembers waits until every lease shows the present state of its member.
func (c *cluster) untilLeasesShowMembers() {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		etcd := c.etcd(g)
		for i := range int(etcd.Spec.Replicas) {
			lease := &coordinationv1.Lease{}
			g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: podName(i)}, lease)).To(Succeed())
			status, role := c.status(g, i), "Member"
			if status.Leader == status.MemberID {
				role = "Leader"
			}
			g.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(fmt.Sprintf("%x:%s:%s", status.MemberID, etcd.Status.ClusterID, role))))
			g.Expect(lease.Spec.RenewTime.Time).To(BeTemporally("~", time.Now(), 30*time.Second))
		}
	}).Should(Succeed())
}

func (c *cluster) untilCondition(conditionType string, status metav1.ConditionStatus, reason string) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		condition := c.etcd(g).Status.Conditions.Find(conditionType)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Status).To(Equal(status), condition.Message)
		g.Expect(condition.Reason).To(Equal(reason), condition.Message)
	}).Should(Succeed())
}

// whileHibernated does something while the cluster has no pods, and wakes it up.
func (c *cluster) whileHibernated(do func()) {
	c.t.Helper()
	replicas := c.etcd(c).Spec.Replicas
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	c.Eventually(func(g Gomega) {
		pods := &corev1.PodList{}
		g.Expect(kube.List(context.Background(), pods, client.InNamespace(c.namespace))).To(Succeed())
		g.Expect(pods.Items).To(BeEmpty())
	}).Should(Succeed())
	do()
	c.patch(func(e *v1alpha1.Etcd) { e.Spec.Replicas = replicas })
}

// revision returns the revision of the first member.
func (c *cluster) revision() int64 {
	c.t.Helper()
	var revision int64
	c.Eventually(func(g Gomega) {
		etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{fmt.Sprintf("http://%s:2379", c.pod(g, 0).Status.PodIP)}, Logger: zap.NewNop()})
		g.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = etcd.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		r, err := etcd.Get(ctx, "anything")
		g.Expect(err).NotTo(HaveOccurred())
		revision = r.Header.Revision
	}).Should(Succeed())
	return revision
}
