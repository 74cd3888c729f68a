// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// onClass gives an Etcd volumes of 4Gi of a StorageClass.
func onClass(class string) func(*v1alpha1.Etcd) {
	return func(e *v1alpha1.Etcd) {
		e.Spec.StorageClass, e.Spec.StorageCapacity = ptr.To(class), ptr.To(resource.MustParse("4Gi"))
	}
}

func storageClass(t *testing.T, expandable bool) string {
	t.Helper()
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "class-"}, Provisioner: "example.com/none", AllowVolumeExpansion: &expandable,
	}
	if err := testEnv.Client.Create(t.Context(), class); err != nil {
		t.Fatalf("creating a StorageClass: %v", err)
	}
	return class.Name
}

func (w *world) claim(g Gomega, i int) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{}
	w.Get(g, fmt.Sprintf("%s-%s", name, pod(i)), claim)
	return claim
}

// bind binds the claims of n members, or grows their volumes to the requested size, as a provisioner does.
func (w *world) bind(n int) {
	w.T.Helper()
	for i := range n {
		w.Eventually(func(g Gomega) {
			claim := w.claim(g, i)
			if claim.Spec.VolumeName == "" {
				claim.Spec.VolumeName = fmt.Sprintf("pv-%d", i)
				g.Expect(testEnv.Client.Update(w.T.Context(), claim)).To(Succeed())
			}
			claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
			g.Expect(testEnv.Client.Status().Update(w.T.Context(), claim)).To(Succeed())
		}).Should(Succeed())
	}
}

func storage(c *corev1.PersistentVolumeClaim) string {
	return c.Spec.Resources.Requests.Storage().String()
}

// The claims grow, then a StatefulSet with a new claim template replaces the old one. The pods stay.
func TestVolumesGrow(t *testing.T) {
	t.Parallel()
	for what, policy := range map[string]*v1alpha1.PersistentVolumeClaimRetentionPolicy{
		"retained": nil, "deleted with the Etcd": {WhenDeleted: v1alpha1.VolumesDeleted},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 3, onClass(storageClass(t, true)), func(e *v1alpha1.Etcd) { e.Spec.PersistentVolumeClaimRetentionPolicy = policy })
			o := w.start()
			w.eventuallyWell()
			w.bind(3)
			w.Eventually(func(g Gomega) {
				g.Expect(w.condition(g, v1alpha1.ConditionVolumesGrown).Status).To(Equal(metav1.ConditionTrue))
				g.Expect(len(w.claim(g, 0).OwnerReferences)).To(Equal(map[bool]int{true: 0, false: 1}[policy == nil]))
			}).Should(Succeed())
			pods, before := w.PodUIDs(w, 3), w.StatefulSet(w)

			w.Change(func(e *v1alpha1.Etcd) { e.Spec.StorageCapacity = ptr.To(resource.MustParse("8Gi")) })
			w.Eventually(func(g Gomega) {
				for i := range 3 {
					g.Expect(storage(w.claim(g, i))).To(Equal("8Gi"))
				}
				set := w.StatefulSet(g)
				g.Expect(set.UID).NotTo(Equal(before.UID))
				g.Expect(set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()).To(Equal("8Gi"))
				g.Expect(set.Status.ReadyReplicas).To(Equal(int32(3)))
				g.Expect(set.Status.UpdateRevision).To(Equal(before.Status.UpdateRevision))
				c := w.condition(g, v1alpha1.ConditionVolumesGrown)
				g.Expect(c.Reason).To(Equal(v1alpha1.ReasonVolumesGrowing))
				g.Expect(c.Message).To(ContainSubstring("has 4Gi of 8Gi"), "the provisioner has not done its part")
			}).Should(Succeed())
			w.bind(3)
			w.Eventually(func(g Gomega) {
				g.Expect(w.condition(g, v1alpha1.ConditionVolumesGrown).Status).To(Equal(metav1.ConditionTrue))
				for i := range 3 {
					g.Expect(len(w.claim(g, i).OwnerReferences)).To(Equal(map[bool]int{true: 0, false: 1}[policy == nil]))
				}
			}).Should(Succeed())
			w.eventuallyWell()
			w.Expect(w.PodUIDs(w, 3)).To(Equal(pods))
			w.Expect(w.Status(w).Rollout).To(BeNil())
			w.writesNothing(o)
		})
	}
}

// An Etcd that is deleted before another StatefulSet has adopted its pods takes them along, as the garbage collector of Kubernetes sees it.
func TestPodsThatNoStatefulSetHasAdoptedGoWithTheEtcd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, onClass(storageClass(t, true)))
	o := w.start()
	w.eventuallyWell()
	w.bind(3)
	before := w.StatefulSet(w)
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.StorageCapacity = ptr.To(resource.MustParse("8Gi")) })
	pods := func(g Gomega) []corev1.Pod {
		list := &corev1.PodList{}
		g.Expect(testEnv.Client.List(context.Background(), list, client.InNamespace(w.Namespace))).To(Succeed())
		return list.Items
	}
	var set *appsv1.StatefulSet
	w.Eventually(func(g Gomega) {
		set = w.StatefulSet(g)
		g.Expect(set.UID).NotTo(Equal(before.UID))
		for _, p := range pods(g) {
			g.Expect(metav1.IsControlledBy(&p, set)).To(BeTrue(), "it adopts pods that the Etcd owns")
		}
	}).Should(Succeed())
	w.eventuallyWell()
	o.stop()
	w.Expect(testEnv.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(pods(g)).To(HaveLen(3))
		for _, p := range pods(g) {
			g.Expect(p.OwnerReferences).To(ConsistOf(HaveField("UID", w.Etcd.UID)))
			g.Expect(p.DeletionTimestamp).To(BeNil())
		}
	}).Should(Succeed())
	w.Expect(testEnv.Client.Delete(t.Context(), w.Etcd)).To(Succeed())
	w.Eventually(func(g Gomega) { g.Expect(pods(g)).To(BeEmpty()) }).Should(Succeed())
	w.Expect(w.claim(w, 0).DeletionTimestamp).To(BeNil())
}

// A class that does not allow volumes to grow: they are to move to larger ones, and the claim template follows, beside the pods and claims
// that there are.
func TestVolumesOfAClassWithoutExpansion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, onClass(storageClass(t, false)))
	w.start()
	w.eventuallyWell()
	w.bind(3)
	pods := w.PodUIDs(w, 3)
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.StorageCapacity = ptr.To(resource.MustParse("8Gi")) })
	w.Eventually(func(g Gomega) {
		set := w.StatefulSet(g)
		g.Expect(set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String()).To(Equal("8Gi"))
		g.Expect(set.Status.ReadyReplicas).To(Equal(int32(3)))
		status, role := w.Status(g), &rbacv1.Role{}
		g.Expect(status.Conditions.Find(v1alpha1.ConditionVolumesMoved)).To(HaveField("Reason", v1alpha1.ReasonVolumesMoving))
		g.Expect(status.ObservedGeneration).NotTo(Equal(w.Etcd.Generation), "it is carried out once they have moved")
		w.Get(g, w.Etcd.RoleName(), role)
		g.Expect(role.Rules[0].ResourceNames).To(ContainElement(pod(3)))
	}).Should(Succeed())
	w.Expect(storage(w.claim(w, 0))).To(Equal("4Gi"))
	w.Expect(w.PodUIDs(w, 3)).To(Equal(pods))
}

// Another class: the claim template follows, beside the pods and claims that there are, with the rights of a further member. Once the class
// is set back, all is as before.
func TestVolumesOfAnotherClass(t *testing.T) {
	t.Parallel()
	slow, fast := storageClass(t, true), storageClass(t, true)
	w := newWorld(t, 3, onClass(slow))
	w.start()
	w.eventuallyWell()
	w.bind(3)
	pods, before := w.PodUIDs(w, 3), w.StatefulSet(w)
	for _, class := range []string{fast, slow} {
		w.Change(func(e *v1alpha1.Etcd) { e.Spec.StorageClass = &class })
		w.Eventually(func(g Gomega) {
			set, role := w.StatefulSet(g), &rbacv1.Role{}
			g.Expect(set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName).To(HaveValue(Equal(class)))
			g.Expect(set.Status.ReadyReplicas).To(Equal(int32(3)))
			g.Expect(set.Status.UpdateRevision).To(Equal(before.Status.UpdateRevision))
			status := w.Status(g)
			g.Expect(status.Conditions.Find(v1alpha1.ConditionVolumesMoved) == nil).To(Equal(class == slow))
			g.Expect(status.ObservedGeneration == w.Etcd.Generation).To(Equal(class == slow))
			w.Get(g, w.Etcd.RoleName(), role)
			if class == fast {
				g.Expect(role.Rules[0].ResourceNames).To(ContainElement(pod(3)))
				g.Expect(status.Conditions.Find(v1alpha1.ConditionUpToDate).Message).To(ContainSubstring("To move to StorageClass"))
			}
		}).Should(Succeed())
	}
	w.Expect(w.PodUIDs(w, 3)).To(Equal(pods))
	w.Expect(w.claim(w, 0).Spec.StorageClassName).To(HaveValue(Equal(slow)))
}

// While a member is missing, only its StatefulSet can restore it, so the StatefulSet stays.
func TestStatefulSetIsReplacedOnlyWhileHealthy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, onClass(storageClass(t, true)))
	o := w.start()
	w.eventuallyWell()
	w.bind(3)
	before := w.StatefulSet(w)
	w.Kubelet.Set(pod(1), env.NotReady)
	w.Eventually(func(g Gomega) { g.Expect(w.Status(g).Ready).To(HaveValue(BeFalse())) }).Should(Succeed())
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.StorageCapacity = ptr.To(resource.MustParse("8Gi")) })
	w.Eventually(func(g Gomega) { g.Expect(storage(w.claim(g, 2))).To(Equal("8Gi")) }).Should(Succeed())
	w.bind(3)
	w.nudge(o)
	w.Expect(w.StatefulSet(w).UID).To(Equal(before.UID))
	w.Kubelet.Set(pod(1), env.Ready)
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionVolumesGrown).Status).To(Equal(metav1.ConditionTrue))
	}).Should(Succeed())
}

// A StatefulSet whose pods could not start is not created, so the old one is not deleted.
func TestStatefulSetIsReplacedOnlyIfItCanBeCreated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, onClass(storageClass(t, true)))
	o := w.start()
	w.eventuallyWell()
	w.bind(1)
	before := w.StatefulSet(w)
	w.Change(func(e *v1alpha1.Etcd) {
		e.Spec.StorageCapacity = ptr.To(resource.MustParse("8Gi"))
		clientTLS(e) // its Secrets do not exist
	})
	w.Eventually(func(g Gomega) { g.Expect(storage(w.claim(g, 0))).To(Equal("8Gi")) }).Should(Succeed())
	w.bind(1)
	w.nudge(o)
	w.Expect(w.StatefulSet(w).UID).To(Equal(before.UID))
	w.issue()
	w.Eventually(func(g Gomega) { g.Expect(w.StatefulSet(g).UID).NotTo(Equal(before.UID)) }).Should(Succeed())
}

func TestHibernationNeedsABackupOrItsVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, func(e *v1alpha1.Etcd) {
		e.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
	})
	o := w.start()
	w.eventuallyWell()
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	w.Eventually(func(g Gomega) {
		c := w.condition(g, v1alpha1.ConditionHibernated)
		g.Expect(c.Reason).To(Equal(v1alpha1.ReasonNoFinalSnapshot))
		g.Expect(c.Message).To(ContainSubstring("there is no backup to wake up from"))
	}).Should(Succeed())
	w.nudge(o)
	w.Expect(w.StatefulSet(w).Spec.Replicas).To(HaveValue(Equal(int32(3))), "the cluster is kept running")

	w.Change(func(e *v1alpha1.Etcd) {
		e.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = v1alpha1.VolumesRetained
	})
	w.Eventually(func(g Gomega) {
		g.Expect(w.condition(g, v1alpha1.ConditionHibernated).Status).To(Equal(metav1.ConditionTrue))
		g.Expect(w.StatefulSet(g).Status.Replicas).To(BeZero())
	}).Should(Succeed())

	// A change of the policy during hibernation deletes no volumes.
	w.Change(func(e *v1alpha1.Etcd) {
		e.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = v1alpha1.VolumesDeleted
	})
	w.nudge(o)
	for i := range 3 {
		w.Expect(w.claim(w, i).DeletionTimestamp).To(BeNil())
	}
	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 3 })
	w.eventuallyWell()
	w.Expect(w.Etcd.Status.Conditions.Find(v1alpha1.ConditionHibernated)).To(BeNil())
}

// Neither scaling the StatefulSet nor changing its policy deletes volumes, whatever the Etcd says.
func TestPolicyOfTheStatefulSetIsTheOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, func(e *v1alpha1.Etcd) {
		e.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenDeleted: v1alpha1.VolumesDeleted, WhenScaled: v1alpha1.VolumesDeleted}
	})
	w.start()
	w.eventuallyWell()
	want := appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	}
	set := w.StatefulSet(w)
	w.Expect(set.Spec.PersistentVolumeClaimRetentionPolicy).To(HaveValue(Equal(want)))
	before := client.MergeFrom(set.DeepCopy())
	set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	w.Expect(testEnv.Client.Patch(t.Context(), set, before)).To(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(w.StatefulSet(g).Spec.PersistentVolumeClaimRetentionPolicy).To(HaveValue(Equal(want)))
	}).Should(Succeed())
}
