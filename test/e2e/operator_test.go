//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/local/node"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The tests in this file break the operator, which all clusters share: none of them runs in parallel to others.

const (
	operatorNamespace = "etcd-foreman-system"
	operatorName      = "etcd-foreman"
	gateName          = "QuorumAwareUpdatesWithOnDelete"
)

var operatorKey = types.NamespacedName{Namespace: operatorNamespace, Name: operatorName}

// untilOperatorReady waits until exactly this many operators run and one of them leads.
func (c *cluster) untilOperatorReady(replicas int32) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		d := &appsv1.Deployment{}
		g.Expect(kube.Get(context.Background(), operatorKey, d)).To(Succeed())
		g.Expect(d.Status.ObservedGeneration).To(Equal(d.Generation))
		g.Expect(d.Status.Replicas).To(Equal(replicas))
		g.Expect(d.Status.UpdatedReplicas).To(Equal(replicas))
		g.Expect(d.Status.ReadyReplicas).To(Equal(replicas))
		g.Expect(c.leadingOperator(g)).NotTo(BeNil())
	}).Should(Succeed())
}

// scaleOperator sets the number of operators; it is two again after the test.
func (c *cluster) scaleOperator(replicas int32) {
	c.t.Helper()
	scale := func(n int32) {
		d := &appsv1.Deployment{}
		c.Expect(kube.Get(context.Background(), operatorKey, d)).To(Succeed())
		before := client.MergeFrom(d.DeepCopy())
		d.Spec.Replicas = ptr.To(n)
		c.Expect(kube.Patch(context.Background(), d, before)).To(Succeed())
		c.untilOperatorReady(n)
	}
	c.t.Cleanup(func() { scale(2) })
	scale(replicas)
}

// leadingOperator returns the pod of the leading operator; nil if none leads.
func (c *cluster) leadingOperator(g Gomega) *corev1.Pod {
	lease := &coordinationv1.Lease{}
	g.Expect(kube.Get(context.Background(), operatorKey, lease)).To(Succeed())
	pods := &corev1.PodList{}
	g.Expect(kube.List(context.Background(), pods, client.InNamespace(operatorNamespace))).To(Succeed())
	for i := range pods.Items {
		if strings.HasPrefix(ptr.Deref(lease.Spec.HolderIdentity, ""), pods.Items[i].Name+"_") {
			return &pods.Items[i]
		}
	}
	return nil
}

// leadingProcess returns the process of the leading operator.
func (c *cluster) leadingProcess() node.Process {
	c.t.Helper()
	var process node.Process
	c.Eventually(func(g Gomega) {
		pod := c.leadingOperator(g)
		g.Expect(pod).NotTo(BeNil())
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		var err error
		process, err = node.Find(ctx, string(pod.UID), operatorName)
		g.Expect(err).NotTo(HaveOccurred())
	}).Should(Succeed())
	return process
}

// killOperator kills the leading operator.
func (c *cluster) killOperator() {
	c.t.Helper()
	c.kill(c.leadingProcess())
}

// kill kills an operator. The operators get new pods after the test: the kubelet's restart backoff grows up to five
// minutes, and the next test would have to wait for it.
func (c *cluster) kill(operator node.Process) {
	c.t.Helper()
	c.killed.Do(func() { c.t.Cleanup(c.newOperators) })
	c.Expect(operator.Kill(context.Background())).To(Succeed())
}

func (c *cluster) newOperators() {
	c.t.Helper()
	old, d := &corev1.PodList{}, &appsv1.Deployment{}
	c.Expect(kube.List(context.Background(), old, client.InNamespace(operatorNamespace))).To(Succeed())
	c.Expect(kube.DeleteAllOf(context.Background(), &corev1.Pod{}, client.InNamespace(operatorNamespace))).To(Succeed())
	c.Eventually(func(g Gomega) {
		for _, pod := range old.Items {
			err := kube.Get(context.Background(), client.ObjectKeyFromObject(&pod), &corev1.Pod{})
			g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s is gone: %v", pod.Name, err)
		}
	}).Should(Succeed())
	c.Expect(kube.Get(context.Background(), operatorKey, d)).To(Succeed())
	c.untilOperatorReady(*d.Spec.Replicas)
}

// setGate switches the feature gate.
func (c *cluster) setGate(on bool) {
	c.t.Helper()
	value := map[bool]string{true: ": true", false: ": false"}
	c.configure(func(file string) string { return strings.ReplaceAll(file, gateName+value[!on], gateName+value[on]) })
}

// configure changes the configuration as an administrator does: in the ConfigMap, followed by a restart.
func (c *cluster) configure(change func(file string) string) {
	c.t.Helper()
	config := &corev1.ConfigMap{}
	c.Expect(kube.Get(context.Background(), operatorKey, config)).To(Succeed())
	before := client.MergeFrom(config.DeepCopy())
	config.Data["config.yaml"] = change(config.Data["config.yaml"])
	c.Expect(kube.Patch(context.Background(), config, before)).To(Succeed())
	d := &appsv1.Deployment{}
	c.Expect(kube.Get(context.Background(), operatorKey, d)).To(Succeed())
	restart := client.MergeFrom(d.DeepCopy())
	d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] = time.Now().Format(time.RFC3339Nano)
	c.Expect(kube.Patch(context.Background(), d, restart)).To(Succeed())
	c.untilOperatorReady(*d.Spec.Replicas)
}

// eachReplacedOnce asserts that a rollout replaced every pod exactly once.
func (c *cluster) eachReplacedOnce(t v1alpha1.EtcdOperatorTask) {
	c.t.Helper()
	names := replaced(t)
	slices.Sort(names)
	c.Expect(names).To(Equal([]string{podName(0), podName(1), podName(2)}))
}

func TestOperatorKilled(t *testing.T) {
	for name, replicas := range map[string]int32{"alone": 1, "one of two": 2} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3)
			c.scaleOperator(replicas)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 0))
			c.change("1")
			for range 3 {
				process := c.leadingProcess()
				timer := time.NewTimer(time.Duration(random.IntN(2500)) * time.Millisecond)
				<-timer.C
				c.kill(process)
			}
			c.eachReplacedOnce(c.untilSucceeded())
			c.neverTookTheQuorum()
			c.ready()
			c.writesSurvive()
		})
	}
}

// Two operators at once: the leading one is paused right after it has recorded the intent of a deletion, and resumes when
// the other one has taken over and continued.
func TestOperatorPausedInTheMiddleOfAStep(t *testing.T) {
	c := newCluster(t, 3)
	c.untilOperatorReady(2)
	process := c.leadingProcess()
	t.Cleanup(func() { _ = process.Thaw(context.Background()) })
	tasks, err := kube.Watch(t.Context(), &v1alpha1.EtcdOperatorTaskList{}, client.InNamespace(c.namespace))
	c.Expect(err).NotTo(HaveOccurred())
	defer tasks.Stop()
	c.change("1")
	for event := range tasks.ResultChan() {
		task, ok := event.Object.(*v1alpha1.EtcdOperatorTask)
		if ok && task.Status.LastOperation != nil && task.Status.LastOperation.State == v1alpha1.OperationStateInProgress {
			break
		}
	}
	c.Expect(process.Freeze(t.Context())).To(Succeed())
	c.untilDeleted(2)
	c.Expect(process.Thaw(t.Context())).To(Succeed())
	c.eachReplacedOnce(c.untilSucceeded())
	c.neverTookTheQuorum()
	c.ready()
	c.writesSurvive()
	c.untilOperatorReady(2)
}

// DEP-07, "Transitioning Between Strategies", in both directions in the middle of a rollout: every pod is replaced exactly
// once.
func TestGateSwitchedInMidRollout(t *testing.T) {
	c := newCluster(t, 3)
	t.Cleanup(func() { c.setGate(true) })

	c.change("to RollingUpdate")
	first := c.untilDeleted(1)
	c.setGate(false)
	c.Eventually(func(g Gomega) {
		g.Expect(c.statefulSet(g).Spec.UpdateStrategy.Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType))
	}).Should(Succeed())
	uids := c.uidsAt(c.statefulSet(c).Status.UpdateRevision)
	c.Expect(uids).NotTo(BeEmpty())
	c.ready()
	c.stillThere(uids)
	c.Eventually(func(g Gomega) {
		for _, t := range c.rollouts(g) {
			g.Expect(t.Status.State.IsFinal()).To(BeTrue(), "%s has handed over: %+v", t.Name, t.Status)
		}
	}).Should(Succeed())
	c.Expect(c.rollouts(c)[0].Name).To(Equal(first.Name))

	before := c.statefulSet(c).Status.UpdateRevision
	c.change("to OnDelete")
	c.Eventually(func(g Gomega) {
		set := c.statefulSet(g)
		g.Expect(set.Status.UpdateRevision).NotTo(Equal(before))
		g.Expect(c.uidsAt(set.Status.UpdateRevision)).NotTo(BeEmpty())
	}).Should(Succeed())
	c.setGate(true)
	c.Eventually(func(g Gomega) {
		g.Expect(c.statefulSet(g).Spec.UpdateStrategy.Type).To(Equal(appsv1.OnDeleteStatefulSetStrategyType))
	}).Should(Succeed())
	uids = c.uidsAt(c.statefulSet(c).Status.UpdateRevision)
	c.ready()
	c.stillThere(uids)
	c.writesSurvive()
}

// uidsAt returns the UIDs of the pods at a revision, by name.
func (c *cluster) uidsAt(revision string) map[string]types.UID {
	pods := &corev1.PodList{}
	c.Expect(kube.List(context.Background(), pods, client.InNamespace(c.namespace))).To(Succeed())
	uids := map[string]types.UID{}
	for _, p := range pods.Items {
		if p.DeletionTimestamp == nil && p.Labels[appsv1.StatefulSetRevisionLabel] == revision {
			uids[p.Name] = p.UID
		}
	}
	return uids
}

func (c *cluster) stillThere(uids map[string]types.UID) {
	c.t.Helper()
	now := c.uidsAt(c.statefulSet(c).Status.UpdateRevision)
	for name, uid := range uids {
		c.Expect(now[name]).To(Equal(uid), "%s was replaced twice", name)
	}
}
