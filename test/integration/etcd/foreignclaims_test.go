// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// claimNamed returns a claim of the namespace.
func (w *world) claimNamed(g Gomega, name string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	w.Get(g, name, claim)
	return claim
}

// bound binds a claim to a volume of the requested capacity.
func (w *world) bound(claim *corev1.PersistentVolumeClaim) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		w.Get(g, claim.Name, claim)
		claim.Spec.VolumeName = "pv-" + claim.Name
		g.Expect(testEnv.Client.Update(w.T.Context(), claim)).To(Succeed())
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
		g.Expect(testEnv.Client.Status().Update(w.T.Context(), claim)).To(Succeed())
	}).Should(Succeed())
}

// The claim of a StatefulSet my-etcd-main with the claim template "data" has the name that the claim of the second member
// of an Etcd etcd-main with the template "data-my" would have. This Etcd has one member.
const templateOfAnother = "data-my"

func namedLikeAnother(e *v1alpha1.Etcd) { e.Spec.VolumeClaimTemplate = ptr.To(templateOfAnother) }

// ofAnother are the labels of that claim. leftOver are those of a claim that an earlier Etcd of the same name, with more
// members, left behind.
var (
	ofAnother = map[string]string{"app": "my-etcd-main"}
	leftOver  = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: name}
)

// anothers creates that claim, bound and of an expandable class.
func (w *world) anothers(class string, labels map[string]string) *corev1.PersistentVolumeClaim {
	w.T.Helper()
	claim := env.ForeignClaim(fmt.Sprintf("%s-%s", templateOfAnother, pod(1)), labels)
	claim.Spec.StorageClassName = ptr.To(class)
	w.foreign(claim)
	w.bound(claim)
	return claim
}

// wellBeside waits until the cluster is healthy. One that an earlier Etcd of the name left behind is looked at first, and holds nothing.
func (w *world) wellBeside(claim *corev1.PersistentVolumeClaim) {
	w.T.Helper()
	if claim.Labels[v1alpha1.LabelPartOf] == name {
		w.looked(1, func(string) member.Survey { return nothing })
	}
	w.eventuallyWell()
}

// Only the claims of the members grow.
func TestClaimsOfAnotherDoNotGrow(t *testing.T) {
	t.Parallel()
	for what, labels := range map[string]map[string]string{"of another": ofAnother, "left over": leftOver} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			claimsOfAnotherDoNotGrow(t, labels)
		})
	}
}

func claimsOfAnotherDoNotGrow(t *testing.T, labels map[string]string) {
	class := storageClass(t, true)
	w := newWorld(t, 1, onClass(class), namedLikeAnother)
	others := w.anothers(class, labels)
	o := w.start()
	w.wellBeside(others)
	own := w.claimNamed(w, fmt.Sprintf("%s-%s", templateOfAnother, pod(0)))
	w.bound(own)
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.StorageCapacity = ptr.To(resource.MustParse("8Gi")) })
	w.Eventually(func(g Gomega) { g.Expect(storage(w.claimNamed(g, own.Name))).To(Equal("8Gi")) }).Should(Succeed())
	w.bound(own)
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionVolumesGrown).Status).To(Equal(metav1.ConditionTrue), "growth does not wait for the foreign claim")
		g.Expect(w.StatefulSet(g).Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()).To(Equal("8Gi"))
	}).Should(Succeed())
	w.nudge(o)
	w.untouched(w, others)
	w.Expect(w.condition(w, v1alpha1.ConditionObjectsOwned).Status).To(Equal(metav1.ConditionTrue), "the foreign claim blocks nothing")
}

// A cluster that hibernates without volumes reads, records and deletes only the claims of its members.
func TestClaimsOfAnotherOutlastHibernation(t *testing.T) {
	t.Parallel()
	for what, labels := range map[string]map[string]string{"of another": ofAnother, "left over": leftOver} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			claimsOfAnotherOutlastHibernation(t, labels)
		})
	}
}

func claimsOfAnotherOutlastHibernation(t *testing.T, labels map[string]string) {
	w := newWorld(t, 1, hibernatesWithoutVolumes, namedLikeAnother)
	others := w.anothers("", labels)
	w.start()
	w.wellBeside(others)
	own := w.claimNamed(w, fmt.Sprintf("%s-%s", templateOfAnother, pod(0)))
	w.bound(own)
	id := w.Etcd.Status.ClusterID
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	surveys := w.untilJobs(v1alpha1.ComponentSurveyJob, 1)
	w.Expect(surveys[0].Spec.Template.Spec.Volumes).To(ContainElement(HaveField("PersistentVolumeClaim", HaveField("ClaimName", own.Name))))
	seen := surveyed(id, 0)
	seen.Voters = []string{"0"}
	w.end(&surveys[0], true, seen)
	final := w.untilJobs(v1alpha1.ComponentFinalSnapshotJob, 1)
	w.end(&final[0], true, map[string]string{"snapshot": "a/v2/Full-00000000-00000042-1.gz.final", "revision": "42"})
	w.Eventually(func(g Gomega) {
		g.Expect(w.Status(g).Hibernation).NotTo(BeNil())
		g.Expect(w.Etcd.Status.Hibernation.Claims).To(Equal([]v1alpha1.HibernatedClaim{{Name: own.Name, UID: own.UID}}))
	}).Should(Succeed())
	w.Eventually(func(g Gomega) {
		w.letGo()
		w.remove(g, own.Name)
		w.hibernated(g, metav1.ConditionTrue, v1alpha1.ReasonHibernated)
	}).Should(Succeed())
	w.untouched(w, others)
}

// remove removes the finalizer of a claim, as the PVC protection controller does.
func (w *world) remove(g Gomega, name string) {
	claim := &corev1.PersistentVolumeClaim{}
	if err := testEnv.Client.Get(context.Background(), w.Key(name), claim); apierrors.IsNotFound(err) {
		return
	}
	g.Expect(claim.DeletionTimestamp).NotTo(BeNil())
	claim.Finalizers = nil
	g.Expect(testEnv.Client.Update(context.Background(), claim)).To(Succeed())
}

// Two Etcds whose claims would have the same names: the second does not start its member on a volume of the first.
func TestClaimsOfTwoEtcdsCollide(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, namedLikeAnother)
	w.start()
	w.eventuallyWell()
	claim := fmt.Sprintf("%s-%s", templateOfAnother, pod(0))
	own := w.claimNamed(w, claim)
	second := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "my-" + name}, Spec: v1alpha1.EtcdSpec{Replicas: 1, VolumeClaimTemplate: ptr.To("data")}}
	w.Expect(testEnv.Client.Create(t.Context(), second)).To(Succeed())
	w.Eventually(func(g Gomega) {
		w.Get(g, second.Name, second)
		c := second.Status.Conditions.Find(v1alpha1.ConditionObjectsOwned)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.Reason).To(Equal(v1alpha1.ReasonClaimNotOwned))
		g.Expect(c.Message).To(ContainSubstring("PersistentVolumeClaim %s/%s is part of %s", w.Namespace, claim, name))
	}).Should(Succeed())
	w.Expect(apierrors.IsNotFound(testEnv.Client.Get(t.Context(), w.Key(second.Name), &appsv1.StatefulSet{}))).To(BeTrue())
	w.untouched(w, own)
	w.Expect(w.condition(w, v1alpha1.ConditionObjectsOwned).Status).To(Equal(metav1.ConditionTrue), "nothing blocks the first Etcd")
}

// A claim that a user restored by hand has no labels. Its member uses it, but the operator treats it as a claim of the
// Etcd only after it was adopted.
func TestClaimRestoredByHand(t *testing.T) {
	t.Parallel()
	class := storageClass(t, true)
	w := newWorld(t, 1, onClass(class), func(e *v1alpha1.Etcd) {
		hibernatesWithoutVolumes(e)
		onClass(class)(e)
	})
	o := w.start()
	w.eventuallyWell()
	claim := w.claim(w, 0)
	w.bound(claim)
	id := w.Etcd.Status.ClusterID
	w.Expect(testEnv.Client.Patch(t.Context(), claim, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`)))).To(Succeed())

	w.Change(func(e *v1alpha1.Etcd) { e.Spec.StorageCapacity = ptr.To(resource.MustParse("8Gi")) })
	w.Eventually(func(g Gomega) {
		c := w.condition(g, v1alpha1.ConditionVolumesGrown)
		g.Expect(c.Reason).To(Equal(v1alpha1.ReasonClaimNotOwned))
		g.Expect(c.Message).To(ContainSubstring("annotate persistentvolumeclaim %s druid.gardener.cloud/adopted-by=%s", claim.Name, w.Etcd.UID))
		owned := w.condition(g, v1alpha1.ConditionObjectsOwned)
		g.Expect(owned.Reason).To(Equal(v1alpha1.ReasonClaimNotOwned))
		g.Expect(w.Etcd.Status.LastErrors).To(BeEmpty(), "the rest of the spec is carried out")
		g.Expect(w.Etcd.Status.ObservedGeneration).To(Equal(w.Etcd.Generation))
	}).Should(Succeed())
	w.nudge(o)
	w.Expect(storage(w.claim(w, 0))).To(Equal("4Gi"))

	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	w.Eventually(func(g Gomega) {
		w.hibernated(g, metav1.ConditionFalse, v1alpha1.ReasonNoFinalSnapshot)
		g.Expect(w.condition(g, v1alpha1.ConditionHibernated).Message).To(And(ContainSubstring("the volumes are kept"), ContainSubstring("adopted-by="+string(w.Etcd.UID))))
	}).Should(Succeed())
	w.Expect(w.Jobs(w, v1alpha1.ComponentSurveyJob)).To(BeEmpty())

	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationAdoptedBy, w.Etcd.UID)
	w.Expect(testEnv.Client.Patch(t.Context(), claim, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
	surveys := w.untilJobs(v1alpha1.ComponentSurveyJob, 1)
	w.Eventually(func(g Gomega) { g.Expect(storage(w.claim(g, 0))).To(Equal("8Gi")) }).Should(Succeed())
	seen := surveyed(id, 0)
	seen.Voters = []string{"0"}
	w.end(&surveys[0], true, seen)
	final := w.untilJobs(v1alpha1.ComponentFinalSnapshotJob, 1)
	w.end(&final[0], true, map[string]string{"snapshot": "a/v2/Full-00000000-00000042-1.gz.final", "revision": "42"})
	w.Eventually(func(g Gomega) {
		w.letGo()
		w.remove(g, claim.Name)
		w.hibernated(g, metav1.ConditionTrue, v1alpha1.ReasonHibernated)
	}).Should(Succeed())
}

// A recorded claim that has become foreign before its deletion stays.
func TestClaimBecomesForeignBeforeItsDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, hibernatesWithoutVolumes)
	first := w.start()
	w.eventuallyWell()
	claim := w.claim(w, 0)
	w.bound(claim)
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	w.untilJobs(v1alpha1.ComponentSurveyJob, 1)
	first.stop()
	w.Expect(testEnv.Client.Patch(t.Context(), claim, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app.kubernetes.io/part-of":"web"}}}`)))).To(Succeed())
	w.Get(w, name, w.Etcd)
	w.Etcd.Status.Hibernation = &v1alpha1.Hibernation{
		ID: "job", Since: metav1.Now(), Snapshot: "a", Revision: 42, ClusterID: w.Etcd.Status.ClusterID,
		Claims: []v1alpha1.HibernatedClaim{{Name: claim.Name, UID: claim.UID}},
	}
	w.Expect(testEnv.Client.Status().Update(t.Context(), w.Etcd)).To(Succeed())
	// The cache is stale and shows the claim as it was.
	w.start(reading(func(cache client.Client) client.Client { return reader{cache, seeing(claim, claim, -1)} }))
	w.Consistently(func(g Gomega) { g.Expect(w.claim(g, 0).DeletionTimestamp).To(BeNil()) }).WithTimeout(3 * time.Second).Should(Succeed())
}

// A foreign Job has the name of a Job of the hibernation. It is not removed, the volumes are kept, and a wake-up does
// not wait for its end.
func TestJobsOfAnother(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"final", "0"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, hibernatesWithoutVolumes)
			w.start()
			w.eventuallyWell()
			w.bind(1)
			id := w.Etcd.Status.ClusterID
			others := w.foreign(&batchv1.Job{
				ObjectMeta: metav1.ObjectMeta{Name: job.Name(w.Etcd) + "-" + which, Annotations: map[string]string{v1alpha1.AnnotationJobSubject: "x"}},
				Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "web", Image: "web"}},
				}}},
			})
			w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
			if which == "final" {
				surveys := w.untilJobs(v1alpha1.ComponentSurveyJob, 1)
				seen := surveyed(id, 0)
				seen.Voters = []string{"0"}
				w.end(&surveys[0], true, seen)
			}
			w.Eventually(func(g Gomega) {
				w.hibernated(g, metav1.ConditionFalse, v1alpha1.ReasonNoFinalSnapshot)
				g.Expect(w.condition(g, v1alpha1.ConditionHibernated).Message).To(ContainSubstring("Job %s/%s has no controller", w.Namespace, others.GetName()))
			}).Should(Succeed())
			w.untouched(w, others)
			w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 1 })
			w.Eventually(func(g Gomega) {
				w.letGo()
				g.Expect(w.StatefulSet(g).Spec.Replicas).To(HaveValue(Equal(int32(1))))
			}).Should(Succeed())
			w.eventuallyWell()
			w.untouched(w, others)
		})
	}
}

// A pod that only has the label of a Job does not provide its result.
func TestForeignPodsProvideNoJobResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, hibernatesWithoutVolumes)
	w.start()
	w.eventuallyWell()
	w.bind(1)
	survey := surveyed(w.Etcd.Status.ClusterID, 0)
	survey.Voters = []string{"0"}
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	surveys := w.untilJobs(v1alpha1.ComponentSurveyJob, 1)
	message, err := json.Marshal(survey)
	w.Expect(err).NotTo(HaveOccurred())
	w.Kubelet.Set("impostor", env.Lost)
	impostor := w.foreign(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "impostor", Labels: map[string]string{batchv1.JobNameLabel: surveys[0].Name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "x"}}, RestartPolicy: corev1.RestartPolicyNever},
	}).(*corev1.Pod)
	impostor.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: string(message)}}}}
	w.Expect(testEnv.Client.Status().Update(t.Context(), impostor)).To(Succeed())
	surveys[0].Status = env.Succeeded()
	w.Expect(testEnv.Client.Status().Update(t.Context(), &surveys[0])).To(Succeed())
	w.Eventually(func(g Gomega) {
		again := w.Jobs(g, v1alpha1.ComponentSurveyJob)
		g.Expect(again).To(HaveLen(1))
		g.Expect(again[0].UID).NotTo(Equal(surveys[0].UID), "the volume is surveyed again")
	}).Should(Succeed())
	w.Expect(w.Jobs(w, v1alpha1.ComponentFinalSnapshotJob)).To(BeEmpty())
}
