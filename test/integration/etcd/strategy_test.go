// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rolling reports whether a strategy is that of the disabled gate, with an explicit partition.
func rolling(strategy appsv1.StatefulSetUpdateStrategy) bool {
	return strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
		strategy.RollingUpdate != nil && ptr.Deref(strategy.RollingUpdate.Partition, -1) == 0
}

// onDelete reports whether a strategy is that of the enabled gate, with nothing left of the other.
func onDelete(strategy appsv1.StatefulSetUpdateStrategy) bool {
	return strategy.Type == appsv1.OnDeleteStatefulSetStrategyType && strategy.RollingUpdate == nil
}

func (w *world) strategy() appsv1.StatefulSetUpdateStrategy {
	return w.StatefulSet(w).Spec.UpdateStrategy
}

func TestStrategyFollowsTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	off := w.start(composition.GateOff)
	w.eventuallyWell()
	w.Expect(w.strategy()).To(Satisfy(rolling))
	off.stop()

	w.Change(annotate(v1alpha1.AnnotationSuspendSpecReconcile, ""))
	on := w.start()
	w.Eventually(w.strategy).Should(Satisfy(onDelete), "even while the spec is suspended")
	w.writesNothing(on)
	on.stop()

	off = w.start(composition.GateOff)
	w.Eventually(w.strategy).Should(Satisfy(rolling))
	w.writesNothing(off)
	off.stop()

	w.Change(func(e *v1alpha1.Etcd) { delete(e.Annotations, v1alpha1.AnnotationSuspendSpecReconcile) })
	w.start()
	w.Eventually(w.strategy).Should(Satisfy(onDelete))
	w.eventuallyWell()
}

func TestPartitionIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.start(composition.GateOff)
	w.eventuallyWell()
	w.Eventually(func(g Gomega) {
		// The StatefulSet controller may write the status concurrently.
		set := w.StatefulSet(g)
		set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](1)
		g.Expect(testEnv.Client.Update(t.Context(), set)).To(Succeed())
	}).Should(Succeed())
	w.Eventually(w.strategy).Should(Satisfy(rolling))
}

// While a pod is missing, a switch to RollingUpdate would delete the next pod at once.
func TestHandOverWaitsForEveryMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	on := w.start()
	w.eventuallyWell()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.SnapshotCount = ptr.To[int64](5000) })
	w.Eventually(func(g Gomega) { g.Expect(w.Status(g).Rollout).NotTo(BeNil()) }).Should(Succeed())
	w.Kubelet.Set(pod(1), env.NotReady)
	w.Expect(testEnv.Client.Delete(t.Context(), w.pod(1))).To(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(w.Status(g).Ready).To(HaveValue(BeFalse()))
	}).Should(Succeed())
	on.stop()

	off := w.start(composition.GateOff)
	w.Eventually(off.begun.count).Should(BeNumerically(">", 0))
	w.nudge(off)
	w.Expect(w.strategy()).To(Satisfy(onDelete))

	w.Kubelet.Set(pod(1), env.Ready)
	w.Eventually(w.strategy).Should(Satisfy(rolling))
	w.eventuallyWell() // the StatefulSet controller has replaced the other pods
	w.Expect(w.Status(w).UpdatedReplicas).To(Equal(int32(3)))
}

// byHand returns the controller of Etcds with the gate disabled. The test drives its reconciles and its clock. It reads from the API
// server.
func (w *world) byHand(now clock.PassiveClock) *etcd.Reconciler {
	w.T.Helper()
	d := composition.With(w.Members, now)
	d.Client, d.Live, d.Surroundings = testEnv.Client, testEnv.Client, testEnv.Client
	return composition.New(w.T, d, composition.GateOff).Etcds
}

// pass has the controller reconcile every ten seconds of a period, which is as seldom as it may to see an absence without gaps.
func (w *world) pass(r *etcd.Reconciler, now *clocktesting.FakePassiveClock, while time.Duration) {
	w.T.Helper()
	const interval = 10 * time.Second
	for range int(while / interval) {
		now.SetTime(now.Now().Add(interval))
		result, err := r.Reconcile(w.T.Context(), ctrl.Request{NamespacedName: w.Key(name)})
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(result.RequeueAfter).To(BeNumerically("<=", 2*time.Second), "the controller has to poll")
	}
}

// replacePod deletes a pod and waits for its replacement, which does not become ready.
func (w *world) replacePod(ordinal int) {
	w.T.Helper()
	before := w.PodUIDs(w, 3)[ordinal]
	w.Kubelet.Set(pod(ordinal), env.NotReady)
	w.Expect(testEnv.Client.Delete(w.T.Context(), w.pod(ordinal))).To(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(w.PodUIDs(g, 3)[ordinal]).NotTo(Equal(before))
		g.Expect(w.Up(ordinal)).To(BeFalse())
	}).Should(Succeed())
}

// A rollout takes longer than the limit of the handover to the StatefulSet controller, but no single member is missing for
// that long: a handover would delete the next pod just after the previous one.
func TestHandOverWaitsForAProgressingRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	on := w.start()
	w.eventuallyWell()
	on.stop()
	now := clocktesting.NewFakePassiveClock(time.Now())
	off := w.byHand(now)
	for i := range 12 {
		w.replacePod(2 - i%3)
		w.pass(off, now, time.Minute)
		w.Expect(w.strategy()).To(Satisfy(onDelete), "after %d minutes", i+1)
		// The pod is ready, and the next one is deleted, before the next reconcile.
		w.Kubelet.Set(pod(2-i%3), env.Ready)
		w.Eventually(func() bool { return w.Up(2 - i%3) }).Should(BeTrue())
	}
}

func TestHandOverDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	on := w.start()
	w.eventuallyWell()
	on.stop()
	now := clocktesting.NewFakePassiveClock(time.Now())
	off := w.byHand(now)
	w.replacePod(1)
	w.pass(off, now, 9*time.Minute)
	w.Expect(w.strategy()).To(Satisfy(onDelete))
	// After a gap between reconciles the wait starts over: the state in between is unknown.
	now.SetTime(now.Now().Add(20 * time.Second))
	w.pass(off, now, 9*time.Minute)
	w.Expect(w.strategy()).To(Satisfy(onDelete))
	w.pass(off, now, 2*time.Minute)
	w.Expect(w.strategy()).To(Satisfy(rolling))
}

// A terminating surplus pod counts as a missing member, although every member participates.
func TestHandOverWaitsForATerminatingPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	on := w.start()
	w.eventuallyWell()
	on.stop()
	scale := func(replicas int32) {
		set := w.StatefulSet(w)
		before := client.MergeFrom(set.DeepCopy())
		set.Spec.Replicas = ptr.To(replicas)
		w.Expect(testEnv.Client.Patch(t.Context(), set, before)).To(Succeed())
	}
	scale(2)
	w.Eventually(func() bool { return w.Up(1) }).Should(BeTrue())
	w.Kubelet.Set(pod(1), env.Lost)
	scale(1)
	w.Eventually(func(g Gomega) {
		left := &corev1.Pod{}
		w.Get(g, pod(1), left)
		g.Expect(left.DeletionTimestamp).NotTo(BeNil())
	}).Should(Succeed())
	now := clocktesting.NewFakePassiveClock(time.Now())
	off := w.byHand(now)
	w.pass(off, now, 10*time.Minute)
	w.Expect(w.strategy()).To(Satisfy(onDelete))
	w.pass(off, now, 10*time.Second)
	w.Expect(w.strategy()).To(Satisfy(rolling))
}

// The task engine holds the lock around the deletion of a pod.
func TestHandOverExcludesDeletions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	on := w.start()
	w.eventuallyWell()
	on.stop()

	deleting := make(chan func(), 1)
	off := w.startWith([]composed.Controller{composed.Etcds}, func(o *composed.Operator) {
		deleting <- o.Etcds.Locker.Lock(w.Key(name))
	}, composition.GateOff)
	done := <-deleting
	w.Eventually(off.begun.count).Should(BeNumerically(">", 0))
	w.Consistently(w.strategy).WithTimeout(time.Second).Should(Satisfy(onDelete))
	// The deletion happens while the handover waits for the lock: the handover must see it.
	w.Kubelet.Set(pod(0), env.NotReady)
	w.Expect(testEnv.Client.Delete(t.Context(), w.pod(0))).To(Succeed())
	w.Eventually(func() bool { return w.Up(0) }).Should(BeFalse())
	done()
	w.nudge(off)
	w.Expect(w.strategy()).To(Satisfy(onDelete))
	w.Kubelet.Set(pod(0), env.Ready)
	w.Eventually(w.strategy).Should(Satisfy(rolling))
}

func (w *world) pod(ordinal int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: pod(ordinal)}}
}
