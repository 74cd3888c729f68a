// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestObjectsAppear(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.start()
	w.eventuallyWell()
	for key, object := range w.objects(w) {
		if _, self := object.(*v1alpha1.Etcd); !self {
			w.Expect(metav1.IsControlledBy(object, w.Etcd)).To(BeTrue(), key)
		}
	}
	status := w.Status(w)
	w.Expect(status.ClusterID).To(Equal("1"))
	w.Expect(status.Members).To(HaveLen(3))
	w.Expect(status.Members[0].Role).To(Equal(v1alpha1.MemberRoleLeader))
	w.Expect(status.Rollout).To(BeNil())
	set := w.StatefulSet(w)
	w.Expect(set.Spec.UpdateStrategy.Type).To(Equal(appsv1.OnDeleteStatefulSetStrategyType))
	w.Expect(set.Spec.PodManagementPolicy).To(Equal(appsv1.ParallelPodManagement))
}

// For a healthy Etcd, neither a running operator nor a new one writes anything, and they read only their cache.
func TestNothingIsWrittenWhenNothingDiffers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	first := w.start()
	w.eventuallyWell()
	w.bind(3) // the events of a claim that waits for its volume are read
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionDataVolumesReady).Status).To(Equal(metav1.ConditionTrue))
	}).Should(Succeed())
	w.writesNothing(first)
	first.requests.takeReads()
	before := w.objects(w)
	for range 5 {
		w.nudge(first)
	}
	w.Expect(first.requests.take()).To(BeEmpty())
	w.Expect(first.requests.takeReads()).To(BeEmpty())
	first.stop()

	second := w.start()
	w.Eventually(second.begun.count).Should(BeNumerically(">", 0))
	w.nudge(second)
	w.Expect(second.requests.take()).To(BeEmpty())
	for key, object := range w.objects(w) {
		if _, self := object.(*v1alpha1.Etcd); !self {
			w.Expect(object.GetResourceVersion()).To(Equal(before[key].GetResourceVersion()), key)
		}
	}
}

func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	o := w.start()
	w.eventuallyWell()

	drift := func() {
		service := &corev1.Service{}
		w.Get(w, name+"-peer", service)
		before := service.DeepCopy()
		service.Spec.PublishNotReadyAddresses = false
		w.Expect(testEnv.Client.Patch(t.Context(), service, client.MergeFrom(before))).To(Succeed())

		budget := &policyv1.PodDisruptionBudget{}
		w.Get(w, name, budget)
		patch := client.MergeFrom(budget.DeepCopy())
		budget.Spec.MinAvailable = ptr.To(intstr.FromInt(0))
		w.Expect(testEnv.Client.Patch(t.Context(), budget, patch)).To(Succeed())

		w.Expect(testEnv.Client.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name + "-config"}})).To(Succeed())
	}
	drift()
	w.Eventually(func(g Gomega) {
		service := &corev1.Service{}
		w.Get(g, name+"-peer", service)
		g.Expect(service.Spec.PublishNotReadyAddresses).To(BeTrue())
		budget := &policyv1.PodDisruptionBudget{}
		w.Get(g, name, budget)
		g.Expect(budget.Spec.MinAvailable.IntValue()).To(Equal(2))
	}).Should(Succeed())
	w.eventuallyWell() // the ConfigMap exists again and has the cluster's ID

	w.Change(annotate(v1alpha1.AnnotationSuspendSpecReconcile, ""))
	w.writesNothing(o)
	drift()
	w.nudge(o)
	w.Expect(o.requests.take()).To(BeEmpty(), "suspended")
}

// Members read a ConfigMap that was deleted as it was: no version of the next one lacks the ID of their cluster, however it is written.
func TestAConfigMapThatWasDeletedComesBackWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	o := w.start()
	w.eventuallyWell()
	config := &corev1.ConfigMap{}
	w.Get(w, name+"-config", config)
	watched, err := testEnv.Client.Watch(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(w.Namespace), client.MatchingFields{"metadata.name": config.Name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: config.ResourceVersion}})
	w.Expect(err).NotTo(HaveOccurred())
	defer watched.Stop()
	w.Expect(testEnv.Client.Delete(t.Context(), config)).To(Succeed())
	w.eventuallyWell()

	// It is applied to for the first time, without a field that it was created with.
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.SnapshotCount = ptr.To[int64](7) })
	w.Eventually(func(g Gomega) {
		w.Get(g, name+"-config", config)
		g.Expect(config.Data).To(HaveKeyWithValue(member.KeyConfig, ContainSubstring("snapshot-count: 7")))
		g.Expect(managers(config)).To(ContainElement("Apply etcd-foreman"))
	}).Should(Succeed())
	w.nudge(o)
	w.Get(w, name+"-config", config)

	versions, trust := 0, config.Data[member.KeyAgentAPI]
	for version := ""; version != config.ResourceVersion; {
		event := <-watched.ResultChan()
		if event.Type == watch.Deleted {
			continue
		}
		seen, ok := event.Object.(*corev1.ConfigMap)
		w.Expect(ok).To(BeTrue(), "%v", event)
		w.Expect(seen.Data).To(And(HaveKeyWithValue(member.KeyClusterID, "1"), HaveKey(member.KeyConfig), HaveKey(member.KeyBootstrap)), "version %d: %s", versions, event.Type)
		w.Expect(seen.Data[member.KeyAgentAPI]).To(Equal(trust))
		versions, version = versions+1, seen.ResourceVersion
	}
	w.Expect(versions).To(BeNumerically(">=", 2))
}

// Fields added by the API server or other clients are not drift.
func TestAdditionsAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	o := w.start()
	w.eventuallyWell()
	set := w.StatefulSet(w)
	before := set.DeepCopy()
	metav1.SetMetaDataLabel(&set.ObjectMeta, "team", "storage")
	set.Spec.RevisionHistoryLimit = ptr.To[int32](3)
	w.Expect(testEnv.Client.Patch(t.Context(), set, client.MergeFrom(before))).To(Succeed())
	w.writesNothing(o)
	set = w.StatefulSet(w)
	w.Expect(set.Labels).To(HaveKeyWithValue("team", "storage"))
	w.Expect(set.Spec.RevisionHistoryLimit).To(HaveValue(Equal(int32(3))))
}

// The agents receive the operator's key, and a new key at once, even while the spec is suspended. No pod is replaced for it.
func TestAgentsReceiveTheOperatorsKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	signing := func(key ed25519.PrivateKey) composition.Change {
		return composition.Depending(func(d *composed.Dependencies) { d.SigningKey = key })
	}
	key := func(g Gomega) ed25519.PublicKey {
		config := &corev1.ConfigMap{}
		w.Get(g, name+"-config", config)
		trust, err := auth.ParseTrust([]byte(config.Data[member.KeyAgentAPI]))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(trust.Audience).To(BeEquivalentTo(w.Etcd.UID))
		return trust.PublicKey
	}
	first, second := ed25519.NewKeyFromSeed(bytes.Repeat([]byte("1"), ed25519.SeedSize)), ed25519.NewKeyFromSeed(bytes.Repeat([]byte("2"), ed25519.SeedSize))
	o := w.start(signing(first))
	w.eventuallyWell()
	w.Eventually(key).Should(Equal(first.Public()))
	w.writesNothing(o, "the key is written once")
	template := w.StatefulSet(w).Generation
	o.stop()

	w.Change(annotate(v1alpha1.AnnotationSuspendSpecReconcile, ""))
	w.start(signing(second))
	w.Eventually(key).Should(Equal(second.Public()))
	w.Expect(w.StatefulSet(w).Generation).To(Equal(template))
}

// A new version of the operator renders different objects. It waits for the reconcile annotation.
func TestNewOperatorWaitsForTheAnnotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	old := w.start()
	w.eventuallyWell()
	old.stop()
	for _, annotation := range []string{v1alpha1.AnnotationOperation, v1alpha1.AnnotationGardenerOperation} {
		t.Run(annotation, func(t *testing.T) {
			image := func() string { return w.StatefulSet(w).Spec.Template.Spec.Containers[0].Image }
			before := image()
			next := before + "1"
			o := w.start(composition.Configured(func(c *configv1alpha1.OperatorConfiguration) { c.Images.Etcd = next }))
			defer o.stop()
			w.Eventually(o.begun.count).Should(BeNumerically(">", 0))
			w.nudge(o)
			w.Expect(image()).To(Equal(before))

			w.Change(annotate(annotation, v1alpha1.OperationReconcile))
			w.Eventually(image).Should(Equal(next))
			w.Eventually(func(g Gomega) {
				status := w.Status(g)
				g.Expect(w.Etcd.Annotations).NotTo(HaveKey(annotation))
				g.Expect(status.Ready).To(HaveValue(BeFalse()), "once the annotation is gone, the status reflects the new template")
			}).Should(Succeed())
			w.Expect(testEnv.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: pod(0)}})).To(Succeed())
			w.eventuallyWell()
		})
	}
}

func TestSuspendedSpecIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, annotate(v1alpha1.AnnotationSuspendSpecReconcile, ""))
	o := w.start()
	w.Eventually(o.begun.count).Should(BeNumerically(">", 0))
	w.nudge(o)
	err := testEnv.Client.Get(context.Background(), w.Key(name), &appsv1.StatefulSet{})
	w.Expect(apierrors.IsNotFound(err)).To(BeTrue())

	w.Change(func(e *v1alpha1.Etcd) { delete(e.Annotations, v1alpha1.AnnotationSuspendSpecReconcile) })
	w.eventuallyWell()

	w.Change(annotate(v1alpha1.AnnotationSuspendSpecReconcile, ""))
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Etcd.SnapshotCount = ptr.To[int64](5000) })
	w.nudge(o)
	w.Expect(w.Status(w).ObservedGeneration).To(BeNumerically("<", w.Etcd.Generation))
}

func TestFailureIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, func(e *v1alpha1.Etcd) { e.Spec.Labels = map[string]string{"not a label": ""} })
	w.start()
	w.Eventually(func(g Gomega) {
		status := w.Status(g)
		g.Expect(status.LastErrors).To(HaveLen(1))
		g.Expect(status.LastErrors[0].Code).To(Equal(v1alpha1.ErrApply))
		g.Expect(status.LastErrors[0].Description).To(And(ContainSubstring("applying StatefulSet"), ContainSubstring("not a label")))
	}).Should(Succeed())
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Labels = nil })
	w.eventuallyWell()
	w.Expect(w.Status(w).LastErrors).To(BeEmpty())
}

func TestObjectsGoWithTheirEtcd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.start()
	w.eventuallyWell()
	w.Expect(testEnv.Client.Delete(t.Context(), w.Etcd)).To(Succeed())
	w.Eventually(func(g Gomega) {
		err := testEnv.Client.Get(context.Background(), w.Key(name), &appsv1.StatefulSet{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
		err = testEnv.Client.Get(context.Background(), w.Key(name+"-peer"), &corev1.Service{})
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
	}).Should(Succeed())
}

// In a terminating namespace the objects are deleted one by one, and the Etcd need not be the first.
func TestNamespaceTerminates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	o := w.start()
	w.eventuallyWell()
	w.nudge(o)
	o.requests.take()
	w.Expect(testEnv.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}})).To(Succeed())
	w.Expect(testEnv.Client.Delete(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}})).To(Succeed())
	refused := func() int { return o.requests.count("POST poddisruptionbudgets") }
	w.Eventually(refused).Should(BeNumerically(">", 0))
	// A late event may cause a second attempt; a retry loop would make eight in this time.
	w.Consistently(refused).WithTimeout(time.Second).Should(BeNumerically("<=", 2), "the operator does not retry")
	w.Expect(w.Status(w).LastErrors).To(BeEmpty())
}
