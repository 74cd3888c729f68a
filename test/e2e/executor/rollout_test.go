//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/druid"
	"github.com/etcd-foreman/etcd-foreman/test/measure"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// bound is how long a rollout without the executor is measured. It may never end, which is a result: see docs/executor.md.
const bound = 2 * time.Minute

// mostWithoutWrites is how many seconds the executor's rollouts may be without writes at the median, besides what they would be without
// a rollout on a laden machine. On a calm one they are 1 to 3.
const mostWithoutWrites = 5

// rollout is a measured rollout. Seconds count from the change of the template. One that has not ended is measured until the bound.
type rollout struct {
	executor, ended                    bool
	withoutWrites, gap, rolled, settle float64
	// idle is for how many seconds of a minute there were no writes before the template changed.
	idle       float64
	elections  int
	gaps, load string
}

func (r rollout) String() string {
	way := "without the executor"
	if r.executor {
		way = "with the executor"
	}
	end := fmt.Sprintf("every pod ready and updated after %.1f s, AllMembersUpdated after %.1f s", r.rolled, r.settle)
	if !r.ended {
		end = fmt.Sprintf("not ended after %.1f s", r.rolled)
	}
	return fmt.Sprintf("%-20s %6.2f s without writes (before, %.2f s of a minute), longest gap %6.2f s, %d elections, %s; load %s; gaps %s",
		way, r.withoutWrites, r.idle, r.gap, r.elections, end, r.load, r.gaps)
}

// One member hangs while etcd-druid changes the template. With the executor the quorum is kept all the time, and etcd-druid sees
// all members updated. The same cluster is rolled without the executor in the same run, in alternating order.
func TestRolloutWithAHangingMember(t *testing.T) {
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) {
			c := newCluster(t)
			c.needs(variant)
			c.reconcile()
			c.install(variant)
			c.untilUpdated()
			var all []rollout
			for pair := range *pairs {
				order := []bool{true, false}
				if pair%2 == 1 {
					slices.Reverse(order)
				}
				for _, executor := range order {
					r := c.roll(pair, executor)
					t.Logf("%s %d/%d %s", variant, pair+1, *pairs, r)
					all = append(all, r)
				}
			}
			with, without := medians(all, true), medians(all, false)
			t.Logf("%s medians %s", variant, with)
			t.Logf("%s medians %s", variant, without)
			c.Expect(with.ended).To(BeTrue())
			c.Expect(with.withoutWrites).To(BeNumerically("<=", mostWithoutWrites+with.idle*with.rolled/60), "seconds without writes at the median")
		})
	}
}

// needs skips the test where the API server lacks what a variant needs.
func (c *cluster) needs(variant string) {
	if variant != "policy" {
		return
	}
	if out, err := kubectl("", "api-resources", "--api-group=admissionregistration.k8s.io", "-o", "name"); err != nil || !strings.Contains(out, "mutatingadmissionpolicies") {
		c.t.Skip("this API server has no MutatingAdmissionPolicy")
	}
}

// roll changes the template while member 0 hangs, and measures.
func (c *cluster) roll(pair int, executor bool) rollout {
	c.t.Helper()
	c.optIn(executor)
	c.untilUpdated()
	c.lead(1 + pair%2)
	writer, err := measure.Start(c.t.Context(), measure.Options{Config: restConfig, Namespace: c.namespace, StatefulSet: druid.Name, TLS: c.memberTLS})
	c.Expect(err).NotTo(HaveOccurred())
	defer writer.Stop()
	c.freeze(0)
	before := len(c.tasks(c))
	c.changes++
	load, _ := os.ReadFile("/proc/loadavg")
	from := time.Now()
	c.reconcile()
	updated, ended := c.untilEnd(executor)
	tasks := before
	if executor {
		tasks++
	}
	c.Expect(c.tasks(c)).To(HaveLen(tasks), "one task for a rollout of the executor, and none for another")
	if !ended {
		// Writes can be read back through every member only once all of them serve. They go on meanwhile: a member of etcd 3.6
		// that a snapshot of the leader brought up to date serves only once another entry is committed.
		c.optIn(true)
		c.untilUpdated()
	}
	report := writer.Stop()
	settled := updated
	if ended {
		var ok bool
		settled, ok = report.Settled(c.set(c).Status.UpdateRevision)
		c.Expect(ok).To(BeTrue(), "every pod is ready at the new revision")
	}
	figures, earlier := report.Between(from, settled), report.Between(report.Started, from)
	c.succeeded()
	c.verify(writer)
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	c.Expect(writer.Clean(ctx)).To(Succeed())
	r := rollout{
		executor: executor, ended: ended, withoutWrites: figures.WithoutWrites.Seconds(), gap: figures.LongestGap.Seconds(), elections: figures.LeaderChanges,
		rolled: settled.Sub(from).Seconds(), settle: updated.Sub(from).Seconds(), idle: earlier.WithoutWrites.Seconds() / from.Sub(report.Started).Minutes(), load: strings.Join(strings.Fields(string(load))[:1], ""),
	}
	for _, g := range figures.Gaps {
		r.gaps += fmt.Sprintf("%.2f s at %.1f s, ", g.Duration().Seconds(), g.From.Sub(from).Seconds())
	}
	return r
}

// untilEnd waits until the rollout has ended, without the executor no longer than the bound.
func (c *cluster) untilEnd(executor bool) (at time.Time, ended bool) {
	c.t.Helper()
	if executor {
		return c.untilUpdated(), true
	}
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); {
		if set := c.set(c); druid.Ready(set) == "" && druid.AllMembersUpdated(set) {
			return time.Now(), true
		}
		select {
		case <-c.t.Context().Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return time.Now(), false
}

// succeeded waits until every task has.
func (c *cluster) succeeded() {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		for _, task := range c.tasks(g) {
			g.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded), "%+v", task.Status)
		}
	}).Should(Succeed())
}

func medians(all []rollout, executor bool) rollout {
	median := func(figure func(rollout) float64) float64 {
		var numbers []float64
		for _, r := range all {
			if r.executor == executor {
				numbers = append(numbers, figure(r))
			}
		}
		slices.Sort(numbers)
		return (numbers[(len(numbers)-1)/2] + numbers[len(numbers)/2]) / 2
	}
	return rollout{
		executor: executor, ended: !slices.ContainsFunc(all, func(r rollout) bool { return r.executor == executor && !r.ended }),
		withoutWrites: median(func(r rollout) float64 { return r.withoutWrites }), gap: median(func(r rollout) float64 { return r.gap }),
		elections: int(median(func(r rollout) float64 { return float64(r.elections) })),
		rolled:    median(func(r rollout) float64 { return r.rolled }), idle: median(func(r rollout) float64 { return r.idle }), settle: median(func(r rollout) float64 { return r.settle }),
	}
}

// The documented uninstallation, in the middle of a rollout, leaves everything in the namespace of an Etcd as etcd-druid alone has
// it: the StatefulSet is RollingUpdate without the annotation, its controller ends the rollout, and nothing else has changed.
func TestUninstallMidRollout(t *testing.T) {
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) {
			c := newCluster(t)
			c.needs(variant)
			c.reconcile()
			c.untilUpdated()
			before := c.inventory()
			c.install(variant)
			c.optIn(true)
			writer, err := measure.Start(t.Context(), measure.Options{Config: restConfig, Namespace: c.namespace, StatefulSet: druid.Name, TLS: c.memberTLS})
			c.Expect(err).NotTo(HaveOccurred())
			c.changes++
			c.reconcile()
			c.Eventually(func(g Gomega) {
				set := c.set(g)
				g.Expect(set.Status.ObservedGeneration).To(Equal(set.Generation), "before, the status counts the pods at the revision before")
				g.Expect(set.Status.UpdatedReplicas).To(BeNumerically(">=", 1))
			}).Should(Succeed())

			_, err = kubectl("", "delete", "-n", own, "configmap", v1alpha1.RolloutsConfigMap)
			c.Expect(err).NotTo(HaveOccurred())
			c.Eventually(func(g Gomega) {
				c.reconcile()
				set := c.set(g)
				g.Expect(set.Spec.UpdateStrategy.Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType))
				g.Expect(set.Annotations).NotTo(HaveKey(v1alpha1.AnnotationRolloutBy))
			}).Should(Succeed())
			c.Expect(c.set(c).Status.CurrentRevision).NotTo(Equal(c.set(c).Status.UpdateRevision), "in the middle of the rollout")
			c.Eventually(func(g Gomega) {
				g.Expect(c.tasks(g)).To(HaveLen(1))
				status := c.tasks(g)[0].Status
				g.Expect(status.State).To(Equal(v1alpha1.TaskStateFailed))
				g.Expect(status.LastErrors[len(status.LastErrors)-1].Code).To(Equal(v1alpha1.ErrStrategy))
			}).Should(Succeed())
			c.uninstall(variant)
			c.Eventually(func(g Gomega) {
				g.Expect(apierrors.IsNotFound(kube.Get(context.Background(), types.NamespacedName{Name: own}, &corev1.Namespace{}))).To(BeTrue())
			}).Should(Succeed())
			c.optedOut()

			c.untilUpdated()
			c.Expect(c.inventory()).To(Equal(before))
			writer.Stop()
			c.verify(writer)
		})
	}
}

// optedOut removes the label of the namespace, the last trace of the executor.
func (c *cluster) optedOut() {
	c.t.Helper()
	_, err := kubectl("", "label", "namespace", c.namespace, v1alpha1.LabelRolloutBy+"-")
	c.Expect(err).NotTo(HaveOccurred())
}

// inventory has what the executor must leave as it is: the objects of the namespace without pods, and what does not change by
// itself of them.
func (c *cluster) inventory() map[string]string {
	c.t.Helper()
	all := map[string]string{}
	for _, kind := range []string{"Service", "ConfigMap", "Secret", "ServiceAccount", "PersistentVolumeClaim"} {
		list := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind + "List"}}
		c.Expect(kube.List(c.t.Context(), list, client.InNamespace(c.namespace))).To(Succeed())
		for _, o := range list.Items {
			all[kind+" "+o.Name] = fmt.Sprint(o.UID, o.Labels, o.Annotations, o.Finalizers, len(o.OwnerReferences))
		}
	}
	set, etcd, namespace := c.set(c), c.etcd(c), &corev1.Namespace{}
	c.Expect(kube.Get(c.t.Context(), types.NamespacedName{Name: c.namespace}, namespace)).To(Succeed())
	owners, err := json.Marshal(set.OwnerReferences)
	c.Expect(err).NotTo(HaveOccurred())
	all["StatefulSet"] = fmt.Sprint(set.UID, set.Labels, set.Annotations, set.Finalizers, string(owners), set.Spec.UpdateStrategy, *set.Spec.Replicas)
	unstructured.RemoveNestedField(etcd.Object, "spec", "annotations") // by which a test changes the template
	all["Etcd"] = fmt.Sprint(etcd.GetUID(), etcd.GetLabels(), etcd.GetFinalizers(), etcd.Object["spec"])
	all["Namespace"] = fmt.Sprint(namespace.Labels, namespace.Annotations)
	return all
}
