// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/controller/etcd"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

// rolling is the strategy with the gate off: the partition is spelled out.
func rolling(strategy appsv1.StatefulSetUpdateStrategy) bool {
	return strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType &&
		strategy.RollingUpdate != nil && ptr.Deref(strategy.RollingUpdate.Partition, -1) == 0
}

// onDelete is the strategy with the gate on: nothing is left of the other.
func onDelete(strategy appsv1.StatefulSetUpdateStrategy) bool {
	return strategy.Type == appsv1.OnDeleteStatefulSetStrategyType && strategy.RollingUpdate == nil
}

func (w *world) strategy() appsv1.StatefulSetUpdateStrategy {
	return w.statefulSet(w).Spec.UpdateStrategy
}

func TestStrategyFollowsTheGate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	off := w.start(gateOff)
	w.eventuallyWell()
	w.Expect(w.strategy()).To(Satisfy(rolling))
	off.stop()

	w.change(annotate(v1alpha1.AnnotationSuspendSpecReconcile, ""))
	on := w.start()
	w.Eventually(w.strategy).Should(Satisfy(onDelete), "whatever else is suspended")
	w.nudge(on)
	on.requests.take()
	w.nudge(on)
	w.Expect(on.requests.take()).To(BeEmpty())
	on.stop()

	off = w.start(gateOff)
	w.Eventually(w.strategy).Should(Satisfy(rolling))
	w.nudge(off)
	off.requests.take()
	w.nudge(off)
	w.Expect(off.requests.take()).To(BeEmpty())
	off.stop()

	w.change(func(e *v1alpha1.Etcd) { delete(e.Annotations, v1alpha1.AnnotationSuspendSpecReconcile) })
	w.start()
	w.Eventually(w.strategy).Should(Satisfy(onDelete))
	w.eventuallyWell()
}

func TestPartitionIsRepaired(t *testing.T) {
	w := newWorld(t, 1)
	w.start(gateOff)
	w.eventuallyWell()
	w.Eventually(func(g Gomega) {
		// Its controller may write the status meanwhile.
		set := w.statefulSet(g)
		set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](1)
		g.Expect(testEnv.Client.Update(t.Context(), set)).To(Succeed())
	}).Should(Succeed())
	w.Eventually(w.strategy).Should(Satisfy(rolling))
}

// While a pod is away, a set that turned to RollingUpdate would lose its next pod at once.
func TestHandOverWaitsForEveryMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	on := w.start()
	w.eventuallyWell()
	w.change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.SnapshotCount = ptr.To[int64](5000) })
	w.Eventually(func(g Gomega) { g.Expect(w.status(g).Rollout).NotTo(BeNil()) }).Should(Succeed())
	w.kubelet.Set(pod(1), env.NotReady)
	w.Expect(testEnv.Client.Delete(t.Context(), w.pod(1))).To(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(w.status(g).Ready).To(HaveValue(BeFalse()))
	}).Should(Succeed())
	on.stop()

	off := w.start(gateOff)
	w.Eventually(off.observer.count).Should(BeNumerically(">", 0))
	w.nudge(off)
	w.Expect(w.strategy()).To(Satisfy(onDelete))

	w.kubelet.Set(pod(1), env.Ready)
	w.Eventually(w.strategy).Should(Satisfy(rolling))
	w.eventuallyWell() // the StatefulSet controller has replaced the others
	w.Expect(w.status(w).UpdatedReplicas).To(Equal(int32(3)))
}

func TestHandOverDoesNotWaitForEver(t *testing.T) {
	w := newWorld(t, 3)
	on := w.start()
	w.eventuallyWell()
	w.kubelet.Set(pod(1), env.NotReady)
	w.Eventually(func(g Gomega) { g.Expect(w.status(g).Ready).To(HaveValue(BeFalse())) }).Should(Succeed())
	on.stop()
	w.start(gateOff, func(r *etcd.Reconciler) { r.Clock = ahead{11 * time.Minute} })
	w.Eventually(w.strategy).Should(Satisfy(rolling))
}

// The task engine holds the lock around the deletion of a pod.
func TestHandOverExcludesDeletions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	on := w.start()
	w.eventuallyWell()
	on.stop()

	deleting := make(chan func(), 1)
	off := w.start(gateOff, func(r *etcd.Reconciler) {
		deleting <- r.Locker.Lock(w.key(name))
	})
	done := <-deleting
	w.Eventually(off.observer.count).Should(BeNumerically(">", 0))
	w.Consistently(w.strategy).WithTimeout(time.Second).Should(Satisfy(onDelete))
	// The deletion happens while the other waits: it must see it.
	w.kubelet.Set(pod(0), env.NotReady)
	w.Expect(testEnv.Client.Delete(t.Context(), w.pod(0))).To(Succeed())
	w.Eventually(func() bool { return w.up(0) }).Should(BeFalse())
	done()
	w.nudge(off)
	w.Expect(w.strategy()).To(Satisfy(onDelete))
	w.kubelet.Set(pod(0), env.Ready)
	w.Eventually(w.strategy).Should(Satisfy(rolling))
}

func (w *world) pod(ordinal int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: pod(ordinal)}}
}

// ahead is a clock that is ahead of time.
type ahead struct{ by time.Duration }

func (a ahead) Now() time.Time                  { return clock.RealClock{}.Now().Add(a.by) }
func (a ahead) Since(t time.Time) time.Duration { return a.Now().Sub(t) }
