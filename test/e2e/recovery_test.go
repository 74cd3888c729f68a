//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// loseVolumes deletes the claims and pods of members and waits until each has a new, empty volume.
func (c *cluster) loseVolumes(ordinals ...int) {
	c.t.Helper()
	before := map[int]types.UID{}
	for _, i := range ordinals {
		claim := c.claim(c, i)
		before[i] = claim.UID
		c.Expect(kube.Delete(c.t.Context(), claim)).To(Succeed())
	}
	for _, i := range ordinals {
		// What ends with its volume need not end well, and a frozen process does not hear of it before its grace period is over.
		c.Expect(kube.Delete(c.t.Context(), c.pod(c, i), client.GracePeriodSeconds(1))).To(Succeed())
	}
	c.Eventually(func(g Gomega) {
		for _, i := range ordinals {
			claim := c.claim(g, i)
			g.Expect(claim.UID).NotTo(Equal(before[i]))
			g.Expect(claim.Status.Phase).To(Equal(corev1.ClaimBound))
		}
	}).Should(Succeed())
}

// recover creates a QuorumLossRecovery.
func (c *cluster) recover(name string) {
	c.t.Helper()
	task := c.task(name, "")
	task.Spec.Type = v1alpha1.QuorumLossRecovery
	c.create(task)
}

// recovered waits for the end of the task named recover and asserts that the cluster has a new ID and all its members.
func (c *cluster) recovered(previousID string) *v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	task := c.untilTask("recover", func(s v1alpha1.EtcdOperatorTaskStatus) bool { return s.State.IsFinal() })
	c.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded), "%+v", task.Status)
	c.t.Logf("%s: %v", task.Status.LastOperation.Reason, task.Status.Result)
	c.ready()
	c.untilVoters(int(c.etcd(c).Spec.Replicas))
	c.Expect(c.etcd(c).Status.ClusterID).NotTo(Equal(previousID))
	c.Expect(task.Status.Result).To(HaveKeyWithValue("clusterID", c.etcd(c).Status.ClusterID))
	return task
}

// aside returns the directories with a member's data from before a recovery.
func (c *cluster) aside(i int) []string {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.volume(i), "new.etcd"+member.BeforeSuffix+"*"))
	c.Expect(err).NotTo(HaveOccurred())
	return found
}

// Two of three members lose their volumes: a single task restores three voters with every acknowledged write. A running
// rollout is preempted and continues afterwards. The survivor's old data stays until the task is removed.
func TestRecoveryFromTheOnlySurvivor(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	id := c.etcd(c).Status.ClusterID
	// From now on each write needs both other members, so either has all writes.
	c.freeze(0)
	c.untilUnready(0)
	c.loseVolumes(0, 1)
	c.untilCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonQuorumLost)
	c.change("while there is no quorum")
	c.until("a rollout runs", func(task v1alpha1.EtcdOperatorTask) bool { return task.Status.State == v1alpha1.TaskStateInProgress })

	c.recover("recover")
	task := c.recovered(id)
	c.Expect(task.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromData))
	c.Expect(task.Status.Recovery.Member).To(Equal(podName(2)))
	for _, rollout := range c.rollouts(c) {
		c.untilTask(rollout.Name, func(s v1alpha1.EtcdOperatorTaskStatus) bool { return s.State.IsFinal() })
	}
	c.writesSurvive()

	c.Expect(c.aside(2)).To(HaveLen(1))
	c.Expect(c.etcd(c).Status.Recovery.Task).To(Equal("recover"))
	c.Expect(kube.Delete(t.Context(), task)).To(Succeed())
	c.Eventually(func(g Gomega) {
		g.Expect(c.etcd(g).Status.Recovery).To(BeNil())
		g.Expect(c.aside(2)).To(BeEmpty())
	}).Should(Succeed())
}

// With client and peer TLS, and damaged data instead of lost volumes.
func TestRecoveryFromDamagedDataWithTLS(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t).begin(3, issue, useTLS)
	id := c.etcd(c).Status.ClusterID
	c.freeze(0)
	c.untilUnready(0)
	for _, i := range []int{0, 1} {
		c.damageLog(c.volume(i))
		c.Expect(kube.Delete(t.Context(), c.pod(c, i))).To(Succeed())
	}
	c.untilCondition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionFalse, v1alpha1.ReasonDataDamaged)
	c.recover("recover")
	task := c.recovered(id)
	c.Expect(task.Status.Recovery.Member).To(Equal(podName(2)))
	c.Expect(task.Status.Result[podName(0)]).To(ContainSubstring("Damaged"))
	for i := range 3 {
		c.Expect(c.aside(i)).To(HaveLen(1), "the old data of %s", podName(i))
	}
	c.writesSurvive()
}

// All volumes are lost: the newest backup has every write up to the last delta.
func TestRecoveryFromTheBackup(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(time.Second))
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	c.writer.Stop()
	c.untilBackedUp(c.revision())
	id := c.etcd(c).Status.ClusterID
	c.loseVolumes(0, 1, 2)
	c.recover("recover")
	task := c.recovered(id)
	c.Expect(task.Status.Recovery.Source).To(Equal(v1alpha1.RecoverFromBackup))
	c.writesSurvive()
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
}

// All volumes are lost and there is no backup: the task reports that and changes nothing.
func TestRecoveryOfNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.writer.Stop()
	c.loseVolumes(0, 1, 2)
	c.Eventually(func(g Gomega) {
		for i := range 3 {
			prepare := c.pod(g, i).Status.InitContainerStatuses
			g.Expect(prepare).NotTo(BeEmpty())
			last := prepare[0].LastTerminationState.Terminated
			g.Expect(last).NotTo(BeNil())
			g.Expect(last.Message).To(ContainSubstring(v1alpha1.ReasonDataLost))
		}
	}).Should(Succeed())
	c.recover("recover")
	task := c.untilTask("recover", inState(v1alpha1.TaskStateRejected))
	c.Expect(task.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrNothingToRecover))
	c.Expect(*c.statefulSet(c).Spec.Replicas).To(Equal(int32(3)))
}

// Quorum is restored by itself while the task confirms its loss; in another case, the data is back while the members are
// stopped.
func TestRecoveryThatIsNotNeeded(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	id := c.etcd(c).Status.ClusterID
	thaw := []func(){c.freeze(0), c.freeze(1)}
	c.untilCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonQuorumLost)
	c.recover("first")
	c.untilTask("first", func(s v1alpha1.EtcdOperatorTaskStatus) bool { return s.Recovery != nil })
	thaw[0]()
	thaw[1]()
	c.untilTask("first", inState(v1alpha1.TaskStateSucceeded))
	c.ready()

	// Neither serves while the other stops: the rest would be a quorum, which replaces a member without data.
	c.freeze(0)
	c.freeze(1)
	kept := map[string]string{}
	for _, i := range []int{0, 1} {
		data := filepath.Join(c.volume(i), "new.etcd")
		kept[data] = data + "-kept"
		c.Expect(os.Rename(data, kept[data])).To(Succeed())
		c.Expect(kube.Delete(t.Context(), c.pod(c, i))).To(Succeed())
	}
	c.untilCondition(v1alpha1.ConditionDataVolumesReady, metav1.ConditionFalse, v1alpha1.ReasonDataLost)
	c.recover("second")
	c.untilTask("second", func(s v1alpha1.EtcdOperatorTaskStatus) bool {
		return s.Recovery != nil && s.Recovery.Phase == v1alpha1.RecoveryStopping || s.State.IsFinal()
	})
	for data, aside := range kept {
		c.Expect(os.Rename(aside, data)).To(Succeed())
	}
	task := c.untilTask("second", func(s v1alpha1.EtcdOperatorTaskStatus) bool { return s.State.IsFinal() })
	c.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded), "%+v", task.Status)
	c.Expect(task.Status.Recovery.Source).To(BeEmpty())
	c.ready()
	c.Expect(c.etcd(c).Status.ClusterID).To(Equal(id))
	c.writesSurvive()
}

// An Etcd that was never quorate has nothing to recover.
func TestRecoveryBeforeTheFirstQuorum(t *testing.T) {
	t.Parallel()
	c := newEmptyCluster(t)
	etcd := c.newEtcd(3)
	etcd.Spec.Etcd.Image = ptr.To("localhost/no-such-image:v1")
	c.create(etcd)
	c.Eventually(func() error {
		return kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: podName(0)}, &corev1.Pod{})
	}).Should(Succeed())
	c.recover("recover")
	task := c.untilTask("recover", inState(v1alpha1.TaskStateRejected))
	c.Expect(task.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrNeverServed))
}

// The operator is killed in each phase. This test does not run in parallel to others.
func TestRecoveryWithTheOperatorKilled(t *testing.T) {
	c := newCluster(t, 3)
	id := c.etcd(c).Status.ClusterID
	c.freeze(0)
	c.untilUnready(0)
	c.loseVolumes(0, 1)
	c.recover("recover")
	phases := []v1alpha1.RecoveryPhase{
		v1alpha1.RecoveryConfirming, v1alpha1.RecoveryStopping, v1alpha1.RecoverySurveying, v1alpha1.RecoveryStarting, v1alpha1.RecoveryGrowing,
	}
	for n, phase := range phases {
		c.untilTask("recover", func(s v1alpha1.EtcdOperatorTaskStatus) bool {
			return s.State.IsFinal() || s.Recovery != nil && slices.Index(phases, s.Recovery.Phase) >= n
		})
		t.Logf("killing the operator in phase %s or later", phase)
		c.killOperator()
	}
	c.recovered(id)
	c.writesSurvive()
}
