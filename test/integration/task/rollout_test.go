// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deleted are the pods that a task replaced, in order.
func deleted(t *v1alpha1.EtcdOperatorTask) []string {
	var names []string
	for _, p := range t.Status.Rollout.Pods {
		names = append(names, p.Name)
	}
	return names
}

func TestTemplateChangeIsRolledLeaderLast(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.Expect(c.Members.Leader()).To(Equal(0))
	c.start(nil)
	before := c.change("1")

	done := c.finalRollout(1)
	c.Expect(deleted(done)).To(Equal([]string{"main-2", "main-1", "main-0"}))
	c.Expect(c.Members.Moves()).To(HaveLen(1))
	c.Expect(done.Status.Progress).To(Equal("3/3"))
	c.Expect(done.Status.Rollout.HeldBy).To(BeNil())
	c.Expect(done.OwnerReferences).To(HaveLen(1))
	for _, p := range done.Status.Rollout.Pods {
		c.Expect(p.LastOperation.State).To(Equal(v1alpha1.OperationStateCompleted))
		c.Expect(p.Revision).To(Equal(before))
		c.Expect(p.Class).To(Equal(v1alpha1.ClassParticipating))
		c.Expect(p.Evidence.Serving).To(HaveLen(3))
		c.Expect(p.Evidence.Quorum).To(Equal(int32(2)))
	}
	for _, condition := range []string{v1alpha1.ConditionAdmitted, v1alpha1.ConditionFinished, v1alpha1.ConditionSucceeded} {
		c.Expect(meta.IsStatusConditionTrue(done.Status.Conditions, condition)).To(BeTrue(), condition)
	}
}

// A pod is outdated as long as an update in place has begun and not ended. Its StatefulSet does not tell.
func TestPodThatIsMarkedIsRolled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start(nil)
	c.Expect(c.change("1")).NotTo(BeEmpty())
	c.finalRollout(1)

	pod := &corev1.Pod{}
	c.Expect(testEnv.Client.Get(t.Context(), types.NamespacedName{Namespace: c.Namespace, Name: "main-1"}, pod)).To(Succeed())
	before := client.MergeFrom(pod.DeepCopy())
	pod.Annotations = map[string]string{v1alpha1.AnnotationInPlaceUpdate: fmt.Sprintf(`{"uid":%q}`, pod.UID)}
	c.Expect(testEnv.Client.Patch(t.Context(), pod, before)).To(Succeed())
	c.Eventually(func(g Gomega) { g.Expect(c.rollouts(g)).To(HaveLen(2)) }).Should(Succeed())
}

func TestSickMemberGoesFirst(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.Kubelet.Set("main-0", env.Crashing)
	c.Eventually(func() bool { return c.Up(0) }).Should(BeFalse())
	c.start(nil)
	c.change("1")

	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).To(HaveLen(1))
		g.Expect(all[0].Status.Rollout).NotTo(BeNil())
		g.Expect(all[0].Status.Rollout.HeldBy).NotTo(BeNil())
		g.Expect(all[0].Status.Rollout.HeldBy.Guard).To(Equal(v1alpha1.GuardOthersParticipating))
		g.Expect(all[0].Status.Rollout.HeldBy.Pod).To(Equal("main-0"))
		g.Expect(deleted(&all[0])).To(Equal([]string{"main-0"}))
	}).Should(Succeed())

	c.Kubelet.Set("main-0", env.Ready)
	done := c.finalRollout(1)
	c.Expect(deleted(done)).To(HaveLen(3))
	c.Expect(done.Status.Rollout.Pods[0].Class).To(Equal(v1alpha1.ClassDead))
}

// A template that no pod can run with must not need a person once the fix is there.
func TestFixOfABadTemplateGoesThrough(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start(nil)
	c.Kubelet.Set("main-2", env.Crashing)
	c.Eventually(func() bool { return c.Up(2) }).Should(BeFalse())
	c.change("bad")
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).To(HaveLen(1))
		g.Expect(all[0].Status.Rollout).NotTo(BeNil())
		g.Expect(all[0].Status.Rollout.UpdatedReplicas).To(Equal(int32(1)))
	}).Should(Succeed())

	c.change("good")
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(len(all)).To(BeNumerically(">=", 2))
		old := all[0]
		g.Expect(old.Status.State).To(Equal(v1alpha1.TaskStateRejected))
		g.Expect(old.Status.LastErrors[len(old.Status.LastErrors)-1].Code).To(Equal(v1alpha1.ErrSuperseded))
	}).Should(Succeed())
	c.Kubelet.Set("main-2", env.Ready)
	done := c.finalRollout(2)
	c.Expect(done.Status.Rollout.Pods[0].Name).To(Equal("main-2"))
}

func TestTemplateRolledBackHasATaskOfItsOwn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	c.start(nil)
	first := c.change("1")
	c.finalRollout(1)
	c.changeBack()
	done := c.finalRollout(2)
	c.Expect(done.Status.Rollout.TargetRevision).To(Equal(first))
}

func TestManualRolloutWaitsForApproval(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	patch := client.MergeFrom(c.Etcd.DeepCopy())
	c.Etcd.Annotations = map[string]string{v1alpha1.AnnotationRollout: v1alpha1.RolloutManual}
	c.Expect(testEnv.Client.Patch(t.Context(), c.Etcd, patch)).To(Succeed())
	c.start(nil)
	c.change("1")
	var waiting *v1alpha1.EtcdOperatorTask
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).To(HaveLen(1))
		waiting = &all[0]
		progressing := meta.FindStatusCondition(waiting.Status.Conditions, v1alpha1.ConditionProgressing)
		g.Expect(progressing).NotTo(BeNil())
		g.Expect(progressing.Reason).To(Equal(v1alpha1.ReasonSuspended))
	}).Should(Succeed())
	c.Expect(waiting.Status.State).To(Equal(v1alpha1.TaskStatePending))

	approve := client.MergeFrom(waiting.DeepCopy())
	waiting.Spec.Suspend = false
	c.Expect(testEnv.Client.Patch(t.Context(), waiting, approve)).To(Succeed())
	c.finalRollout(1)
}

func TestRestartReplacesPodsThatAreNotOutdated(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start(nil)
	c.CreateTask("restart", v1alpha1.QuorumAwareRollout, "restart: true")
	done := c.UntilTask("restart", v1alpha1.TaskStateSucceeded)
	c.Expect(deleted(done)).To(HaveLen(3))
}

func TestRolloutWithNothingToDoSucceeds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.start(nil)
	c.CreateTask("idle", v1alpha1.QuorumAwareRollout, "")
	done := c.UntilTask("idle", v1alpha1.TaskStateSucceeded)
	c.Expect(done.Status.Rollout.Pods).To(BeEmpty())
}

func TestSuspendHoldsBetweenTwoSteps(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.Kubelet.Set("main-2", env.NotReady)
	c.Eventually(func() bool { return c.Up(2) }).Should(BeFalse())
	c.start(nil)
	c.change("1")
	var running *v1alpha1.EtcdOperatorTask
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).To(HaveLen(1))
		running = &all[0]
		g.Expect(running.Status.Rollout).NotTo(BeNil())
		g.Expect(running.Status.Rollout.Pods).To(HaveLen(1))
	}).Should(Succeed())
	c.Eventually(func() error {
		running = c.Task(c, running.Name)
		running.Spec.Suspend = true
		return testEnv.Client.Update(t.Context(), running)
	}).Should(Succeed())
	c.Eventually(func(g Gomega) {
		progressing := meta.FindStatusCondition(c.Task(g, running.Name).Status.Conditions, v1alpha1.ConditionProgressing)
		g.Expect(progressing.Reason).To(Equal(v1alpha1.ReasonSuspended))
	}).Should(Succeed())
	c.Kubelet.Set("main-2", env.Ready)
	c.Eventually(func() bool { return c.Up(2) }).Should(BeTrue())
	c.Consistently(func(g Gomega) {
		t := c.Task(g, running.Name)
		g.Expect(t.Status.State).To(Equal(v1alpha1.TaskStateInProgress))
		g.Expect(t.Status.Rollout.Pods).To(HaveLen(1))
	}, "2s").Should(Succeed())
	c.Eventually(func() error {
		running = c.Task(c, running.Name)
		running.Spec.Suspend = false
		return testEnv.Client.Update(t.Context(), running)
	}).Should(Succeed())
	c.finalRollout(1)
}

func TestEvictionIsRefusedByBudgetAndHolds(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.Create(budget(c.Namespace, 3))
	c.start(nil)
	c.CreateTask("idle", v1alpha1.QuorumAwareRollout, "restart: true\npodRemoval: Evict")
	c.Eventually(func(g Gomega) {
		r := c.Task(g, "idle").Status.Rollout
		g.Expect(r).NotTo(BeNil())
		g.Expect(r.HeldBy).NotTo(BeNil())
		g.Expect(r.HeldBy.Guard).To(Equal(v1alpha1.GuardRemovalGranted))
	}).Should(Succeed())
	c.Eventually(func() error {
		task := c.Task(c, "idle")
		task.Spec.OverrideGuards = []v1alpha1.OverridableGuard{v1alpha1.OverridableGuard(v1alpha1.GuardRemovalGranted)}
		return testEnv.Client.Update(t.Context(), task)
	}).Should(Succeed())
	c.UntilTask("idle", v1alpha1.TaskStateSucceeded)
}

// An operator is paused in the middle of a step: its delete is under way and arrives much later. Meanwhile another one carries
// on. Whatever the first one sends, no pod may go that is not meant to go.
//
// The pod stays as it was: it is sick all the time, and the template that it is outdated by is taken back. So nothing but the
// revocation moves its resourceVersion, which is the precondition of the delete. A task that is suspended makes no step that revokes it.
func TestDeleteOfAPausedOperatorComesToNothing(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(*cluster){
		"the template is taken back": func(c *cluster) {
			c.changeBack()
			c.start(nil)
			c.Eventually(func(g Gomega) {
				old := c.rollouts(g)[0]
				g.Expect(old.Status.State).To(Equal(v1alpha1.TaskStateRejected), "the template that it was for is gone")
			}).Should(Succeed())
		},
		"the task is suspended": func(c *cluster) {
			c.Eventually(func() error {
				task := c.rollouts(c)[0]
				task.Spec.Suspend = true
				return testEnv.Client.Update(c.T.Context(), &task)
			}).Should(Succeed())
			c.start(nil)
			c.Eventually(func(g Gomega) {
				g.Expect(c.rollouts(g)[0].Status.Progressing().Reason).To(Equal(v1alpha1.ReasonSuspended))
			}).Should(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deleteOfAPausedOperator(t, then)
		})
	}
}

// deleteOfAPausedOperator pauses an operator in the middle of a deletion, until another one has done what then waits for.
func deleteOfAPausedOperator(t *testing.T, then func(*cluster)) {
	t.Helper()
	c := newCluster(t, 3)
	c.Kubelet.Set("main-1", env.NotReady)
	c.Eventually(func() bool { return c.Up(1) }).Should(BeFalse())
	sick := func() *corev1.Pod {
		p := &corev1.Pod{}
		c.Expect(testEnv.Client.Get(t.Context(), types.NamespacedName{Namespace: c.Namespace, Name: "main-1"}, p)).To(Succeed())
		return p
	}
	paused, resume, results := make(chan struct{}), make(chan struct{}), make(chan int, 16)
	var once sync.Once
	stopFirst := c.startWith(testEnv.Through(func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodDelete || !strings.Contains(r.URL.Path, "/pods/") {
			return next.RoundTrip(r)
		}
		once.Do(func() { close(paused) })
		<-resume
		// A request that has left does not know of its sender's deadline.
		response, err := next.RoundTrip(r.WithContext(t.Context()))
		if err == nil {
			results <- response.StatusCode
		}
		return response, err
	}), nil)
	c.change("1")
	<-paused
	before := sick()
	then(c)
	revoked := sick()
	c.Expect(revoked.Annotations).To(HaveKey(v1alpha1.AnnotationDeletionRevoked))
	revoked.Annotations, revoked.ResourceVersion, revoked.ManagedFields = before.Annotations, before.ResourceVersion, before.ManagedFields
	c.Expect(revoked).To(Equal(before), "nothing else has changed")
	close(resume)
	c.Expect(<-results).To(Equal(http.StatusConflict))
	c.Expect(sick().UID).To(Equal(before.UID))
	c.Expect(sick().DeletionTimestamp).To(BeNil())
	stopFirst()
}

// changeBack takes the changes of the pod template back.
func (c *cluster) changeBack() {
	c.T.Helper()
	c.Expect(testEnv.Client.Get(c.T.Context(), client.ObjectKeyFromObject(c.set), c.set)).To(Succeed())
	patch := client.MergeFrom(c.set.DeepCopy())
	c.set.Spec.Template.Annotations = nil
	c.Expect(testEnv.Client.Patch(c.T.Context(), c.set, patch)).To(Succeed())
}

// Another operator beside this one looks after its StatefulSets itself.
func TestNoTaskForAStatefulSetOfAnotherOperator(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	patch := client.MergeFrom(c.set.DeepCopy())
	c.set.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedByDruid
	c.Expect(testEnv.Client.Patch(t.Context(), c.set, patch)).To(Succeed())
	c.start(nil)
	before := c.change("new")
	c.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(c.set), c.set)).To(Succeed())
		g.Expect(c.set.Status.UpdateRevision).NotTo(Equal(before))
	}).Should(Succeed())
	c.Consistently(func(g Gomega) { g.Expect(c.rollouts(g)).To(BeEmpty()) }).WithTimeout(2 * time.Second).Should(Succeed())
}
