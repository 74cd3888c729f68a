// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package recreate_test

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stopped returns a cluster whose operator was stopped: from now on the test drives the reconciles.
func stopped(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t, true)
	c.Eventually(func(g Gomega) { g.Expect(c.Status(g).Ready).To(HaveValue(BeTrue())) }).Should(Succeed())
	c.stop()
	return c
}

// successor returns the Etcd controller of a newly started operator, with a cache of its own.
func (c *cluster) successor(cache client.Client, changes ...composition.Change) *etcd.Reconciler {
	c.T.Helper()
	d := composition.With(c.Members, clock.RealClock{})
	d.Client, d.Live, d.Surroundings = cache, testEnv.Client, testEnv.Client
	return composition.New(c.T, d, changes...).Etcds
}

// reconcile has a controller reconcile the Etcd several times. Only the effects matter, not the results.
func (c *cluster) reconcile(r *etcd.Reconciler) {
	c.T.Helper()
	for range 3 {
		if _, err := r.Reconcile(c.T.Context(), ctrl.Request{NamespacedName: c.Key(name)}); err != nil {
			c.T.Log(err)
		}
	}
}

// scales has a controller reconcile until the StatefulSet has the replicas: a write may conflict with another one.
func (c *cluster) scales(r *etcd.Reconciler, replicas int32, why ...any) {
	c.T.Helper()
	c.Eventually(func() int32 { c.reconcile(r); return c.replicas() }).Should(Equal(replicas), why...)
}

// runs creates a task that is already in progress.
func (c *cluster) runs(taskType v1alpha1.TaskType, status v1alpha1.EtcdOperatorTaskStatus) *v1alpha1.EtcdOperatorTask {
	c.T.Helper()
	t := c.CreateTask("task", taskType, "")
	c.become(t, status)
	return t
}

func (c *cluster) become(t *v1alpha1.EtcdOperatorTask, status v1alpha1.EtcdOperatorTaskStatus) {
	c.T.Helper()
	t.Status = status
	c.Expect(testEnv.Client.Status().Update(c.T.Context(), t)).To(Succeed())
}

func recreating(state v1alpha1.TaskState, phase v1alpha1.RecreatePhase) v1alpha1.EtcdOperatorTaskStatus {
	return v1alpha1.EtcdOperatorTaskStatus{State: state, Rollout: &v1alpha1.RolloutStatus{Phase: phase}}
}

func surveying() v1alpha1.EtcdOperatorTaskStatus {
	return v1alpha1.EtcdOperatorTaskStatus{
		State: v1alpha1.TaskStateInProgress, Recovery: &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoverySurveying, PhaseSince: metav1.Now()},
	}
}

func (c *cluster) replicas() int32 { return *c.StatefulSet(c).Spec.Replicas }

// scale scales the StatefulSet and records which task, if any, holds it at zero.
func (c *cluster) scale(replicas int32, heldBy types.UID) {
	c.T.Helper()
	set := c.StatefulSet(c)
	before := client.MergeFrom(set.DeepCopy())
	set.Spec.Replicas = ptr.To(replicas)
	if heldBy != "" {
		metav1.SetMetaDataAnnotation(&set.ObjectMeta, v1alpha1.AnnotationHeldAtZeroBy, string(heldBy))
	}
	c.Expect(testEnv.Client.Patch(c.T.Context(), set, before)).To(Succeed())
}

// hibernate sets the replicas of the Etcd.
func (c *cluster) hibernate(replicas int32) {
	c.T.Helper()
	e := &v1alpha1.Etcd{}
	c.Expect(testEnv.Client.Get(c.T.Context(), c.Key(name), e)).To(Succeed())
	before := client.MergeFrom(e.DeepCopy())
	e.Spec.Replicas = replicas
	c.Expect(testEnv.Client.Patch(c.T.Context(), e, before)).To(Succeed())
}

// instructions returns the recovery instructions of the members.
func (c *cluster) instructions() string {
	c.T.Helper()
	config := &corev1.ConfigMap{}
	c.Expect(testEnv.Client.Get(c.T.Context(), c.Key(name+"-config"), config)).To(Succeed())
	return config.Data[member.KeyRecovery]
}

// The cache shows a task that stops all members, but the task has ended.
func TestHealthyMembersAreNotStoppedForATaskThatHasEnded(t *testing.T) {
	c := stopped(t)
	recreation := c.runs(v1alpha1.RecreateRollout, recreating(v1alpha1.TaskStateInProgress, v1alpha1.RecreateWaitingTermination))
	behind := testEnv.Lag(t, c.Namespace, &v1alpha1.EtcdOperatorTaskList{})
	c.become(recreation, recreating(v1alpha1.TaskStateSucceeded, v1alpha1.RecreateComplete))
	c.reconcile(c.successor(behind))
	c.Expect(c.replicas()).To(Equal(int32(3)))

	c.become(recreation, recreating(v1alpha1.TaskStateInProgress, v1alpha1.RecreateWaitingTermination))
	c.scales(c.successor(behind), 0, "the task holds the StatefulSet")
}

// The cache does not show the recovery yet for which all members are stopped.
func TestMembersAreNotStartedWhileTheirVolumesAreSurveyed(t *testing.T) {
	c := stopped(t)
	behind := testEnv.Lag(t, c.Namespace, &v1alpha1.EtcdOperatorTaskList{})
	recovery := c.runs(v1alpha1.QuorumLossRecovery, surveying())
	c.scale(0, recovery.UID)
	c.reconcile(c.successor(behind))
	c.Expect(c.replicas()).To(Equal(int32(0)))

	c.Expect(testEnv.Client.Delete(t.Context(), c.StatefulSet(c))).To(Succeed())
	gone := func() bool {
		return apierrors.IsNotFound(testEnv.Client.Get(t.Context(), c.Key(name), &appsv1.StatefulSet{}))
	}
	c.Eventually(gone).Should(BeTrue())
	c.reconcile(c.successor(behind))
	c.Expect(gone()).To(BeTrue(), "a new StatefulSet would also start the members")
	c.reconcile(c.successor(testEnv.Client))
	c.Expect(gone()).To(BeTrue())
	e := &v1alpha1.Etcd{}
	c.Expect(testEnv.Client.Get(t.Context(), c.Key(name), e)).To(Succeed())
	c.Expect(e.Status.Conditions.Find(v1alpha1.ConditionAllMembersReady).Message).To(ContainSubstring("no StatefulSet"), "the status reports it")
}

// The cache shows an Etcd that hibernates or wakes up, but the live Etcd no longer does.
func TestMembersFollowTheLiveEtcd(t *testing.T) {
	c := stopped(t)
	c.hibernate(0)
	behind := testEnv.Lag(t, c.Namespace, &v1alpha1.EtcdList{})
	c.hibernate(3)
	c.reconcile(c.successor(behind))
	c.Expect(c.replicas()).To(Equal(int32(3)))

	behind = testEnv.Lag(t, c.Namespace, &v1alpha1.EtcdList{})
	c.hibernate(0)
	c.scale(0, "")
	c.reconcile(c.successor(behind))
	c.Expect(c.replicas()).To(Equal(int32(0)))

	c.reconcile(c.successor(testEnv.Client))
	c.Expect(c.replicas()).To(Equal(int32(0)))
	c.hibernate(3)
	c.scales(c.successor(testEnv.Client), 3, "an operator with an up-to-date cache starts them")
}

// The StatefulSet created in place of a deleted one adopts its orphaned pods: with zero replicas it would stop all.
func TestStatefulSetIsCreatedFromTheLiveEtcd(t *testing.T) {
	c := stopped(t)
	c.hibernate(0)
	behind := testEnv.Lag(t, c.Namespace, &v1alpha1.EtcdList{})
	c.hibernate(3)
	c.Expect(testEnv.Client.Delete(t.Context(), c.StatefulSet(c), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	gone := func() bool {
		return apierrors.IsNotFound(testEnv.Client.Get(t.Context(), c.Key(name), &appsv1.StatefulSet{}))
	}
	c.Eventually(gone).Should(BeTrue())
	c.reconcile(c.successor(behind))
	c.Expect(gone()).To(BeTrue())
	c.Eventually(func() bool { c.reconcile(c.successor(testEnv.Client)); return gone() }).Should(BeFalse())
	c.Expect(c.replicas()).To(Equal(int32(3)))
}

// The members' recovery instructions are those that the live Etcd records.
func TestMembersAreInstructedFromTheLiveEtcd(t *testing.T) {
	c := stopped(t)
	behind := testEnv.Lag(t, c.Namespace, &v1alpha1.EtcdList{})
	e := &v1alpha1.Etcd{}
	c.Expect(testEnv.Client.Get(t.Context(), c.Key(name), e)).To(Succeed())
	// It is not withdrawn, although the recorded cluster serves: a newer one may have.
	e.Status.Recovery = &v1alpha1.ClusterRecovery{
		Task: "task", TaskUID: "uid", Member: pod(1), Source: v1alpha1.RecoverFromData, PreviousClusterID: "beef", EarlierClusterIDs: []string{e.Status.ClusterID},
	}
	c.Expect(testEnv.Client.Status().Update(t.Context(), e)).To(Succeed())
	c.Eventually(func() string { c.reconcile(c.successor(testEnv.Client)); return c.instructions() }).Should(ContainSubstring("task: uid"))
	c.reconcile(c.successor(behind))
	c.Expect(c.instructions()).To(ContainSubstring("task: uid"))
}

// Members keep the instructions of a recovery, and so their data from before it, while its task exists.
func TestRecoveryIsRememberedWhileItsTaskExists(t *testing.T) {
	c := stopped(t)
	behind := testEnv.Lag(t, c.Namespace, &v1alpha1.EtcdOperatorTaskList{})
	recovery := c.runs(v1alpha1.QuorumLossRecovery, v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateSucceeded})
	e := &v1alpha1.Etcd{}
	c.Expect(testEnv.Client.Get(t.Context(), c.Key(name), e)).To(Succeed())
	e.Status.Recovery = &v1alpha1.ClusterRecovery{Task: recovery.Name, TaskUID: recovery.UID, Member: pod(1), Source: v1alpha1.RecoverFromData, PreviousClusterID: "cafe"}
	c.Expect(testEnv.Client.Status().Update(t.Context(), e)).To(Succeed())
	recorded := func() *v1alpha1.ClusterRecovery {
		c.Expect(testEnv.Client.Get(t.Context(), c.Key(name), e)).To(Succeed())
		return e.Status.Recovery
	}
	c.Eventually(func() string { c.reconcile(c.successor(behind)); return c.instructions() }).Should(ContainSubstring(string(recovery.UID)))
	c.Expect(recorded()).NotTo(BeNil())

	c.Expect(testEnv.Client.Delete(t.Context(), recovery)).To(Succeed())
	c.Eventually(func() string { c.reconcile(c.successor(behind)); return c.instructions() }).Should(BeEmpty())
	c.Expect(recorded()).To(BeNil())
}

// The cluster that a recovery replaces serves, and its members vote: the recovery is withdrawn once its task is gone, by what the API
// server says of the tasks and the pods. While it is not, pods are not replaced: they would wait for the new cluster.
func TestRecoveryIsWithdrawnIfTheClusterBeforeServes(t *testing.T) {
	c := stopped(t)
	behind := testEnv.Lag(t, c.Namespace, &v1alpha1.EtcdOperatorTaskList{})
	recovery := c.runs(v1alpha1.QuorumLossRecovery, v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStateFailed})
	e := &v1alpha1.Etcd{}
	c.Expect(testEnv.Client.Get(t.Context(), c.Key(name), e)).To(Succeed())
	e.Status.Recovery = &v1alpha1.ClusterRecovery{Task: recovery.Name, TaskUID: recovery.UID, Member: pod(1), Source: v1alpha1.RecoverFromData, PreviousClusterID: e.Status.ClusterID}
	c.Expect(testEnv.Client.Status().Update(t.Context(), e)).To(Succeed())
	c.Eventually(func(g Gomega) {
		c.reconcile(c.successor(behind))
		g.Expect(c.instructions()).To(ContainSubstring(string(recovery.UID)))
		g.Expect(c.Status(g).LastErrors).To(ContainElement(And(HaveField("Code", v1alpha1.ErrClusterID), HaveField("Description", ContainSubstring("delete task "+recovery.Name)))))
	}).Should(Succeed())
	c.Expect(c.Status(c).Recovery).NotTo(BeNil(), "the task exists")

	c.Expect(testEnv.Client.Delete(t.Context(), recovery)).To(Succeed())
	c.Eventually(func(g Gomega) {
		c.reconcile(c.successor(behind))
		g.Expect(c.instructions()).To(BeEmpty())
		g.Expect(c.Status(g)).To(And(HaveField("Recovery", BeNil()), HaveField("LastErrors", BeEmpty())))
	}).Should(Succeed())
}

// While an operator is paused between a read and a write, another operator may finish what the first was about to do.
func TestPausedOperatorStopsNoMember(t *testing.T) {
	c := stopped(t)
	c.runs(v1alpha1.RecreateRollout, recreating(v1alpha1.TaskStateInProgress, v1alpha1.RecreateNeedsDeletion))
	c.reconcile(c.successor(testEnv.Client, paused(5*time.Second)))
	c.Expect(c.replicas()).To(Equal(int32(3)))
	c.scales(c.successor(testEnv.Client, paused(time.Second)), 0)
}

func TestPausedOperatorHibernatesNoCluster(t *testing.T) {
	c := stopped(t)
	c.hibernate(0)
	c.reconcile(c.successor(testEnv.Client, paused(5*time.Second)))
	c.Expect(c.replicas()).To(Equal(int32(3)))
	c.scales(c.successor(testEnv.Client, paused(time.Second)), 0)
}

// While an operator is paused after it has seen that a recovery may be withdrawn, the cluster before may lose its quorum, and the new one
// may begin.
func TestPausedOperatorWithdrawsNoRecovery(t *testing.T) {
	c := stopped(t)
	e := &v1alpha1.Etcd{}
	c.Expect(testEnv.Client.Get(t.Context(), c.Key(name), e)).To(Succeed())
	e.Status.Recovery = &v1alpha1.ClusterRecovery{Task: "gone", TaskUID: "gone", Member: pod(1), Source: v1alpha1.RecoverFromData, PreviousClusterID: e.Status.ClusterID}
	c.Expect(testEnv.Client.Status().Update(t.Context(), e)).To(Succeed())
	withdrawn := func(pause time.Duration) bool {
		now := clocktesting.NewFakePassiveClock(time.Now())
		c.reconcile(c.successor(testEnv.Client, composition.Depending(func(d *composed.Dependencies) {
			d.Clock, d.Live = now, pausingLists{pausing{testEnv.Client, now, pause}}
		})))
		return c.Status(c).Recovery == nil
	}
	c.Expect(withdrawn(5 * time.Second)).To(BeFalse())
	c.Eventually(func() bool { return withdrawn(time.Second) }).Should(BeTrue())
}

// pausingLists pauses the operator after each list of tasks.
type pausingLists struct{ pausing }

func (p pausingLists) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	err := p.Reader.List(ctx, into, options...)
	if _, ok := into.(*v1alpha1.EtcdOperatorTaskList); ok {
		p.clock.SetTime(p.clock.Now().Add(p.pause))
	}
	return err
}

// paused is an operator that pauses after each answer of the API server.
func paused(pause time.Duration) composition.Change {
	now := clocktesting.NewFakePassiveClock(time.Now())
	return composition.Depending(func(d *composed.Dependencies) { d.Clock, d.Live = now, pausing{testEnv.Client, now, pause} })
}

// pausing is a client that pauses the operator after each answer of the API server.
type pausing struct {
	client.Reader
	clock *clocktesting.FakePassiveClock
	pause time.Duration
}

func (p pausing) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	err := p.Reader.Get(ctx, key, into, options...)
	if _, ok := into.(*v1alpha1.Etcd); ok {
		p.clock.SetTime(p.clock.Now().Add(p.pause))
	}
	return err
}
