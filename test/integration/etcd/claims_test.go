// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The status reports a claim without a volume with the provisioner's message, and a claim that lost its volume.
func TestVolumeProblemsAreReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name + "-" + pod(0), Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: name}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Gi")}},
		},
	}
	w.Expect(testEnv.Client.Create(t.Context(), claim)).To(Succeed())
	w.Expect(testEnv.Client.Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: w.Namespace, Name: "full"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: w.Namespace, Name: claim.Name, UID: claim.UID},
		Type:           corev1.EventTypeWarning, Reason: "ProvisioningFailed", Message: "the pool is full", LastTimestamp: metav1.Now(),
	})).To(Succeed())
	w.start()
	expectReported := func(status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		w.Eventually(func(g Gomega) {
			c := w.Status(g).Conditions.Find(v1alpha1.ConditionDataVolumesReady)
			g.Expect(c).NotTo(BeNil())
			g.Expect(c.Status).To(Equal(status))
			g.Expect(c.Reason).To(Equal(reason))
			g.Expect(c.Message).To(ContainSubstring(message))
		}).Should(Succeed())
	}
	expectReported(metav1.ConditionFalse, v1alpha1.ReasonVolumeMissing, "claim "+claim.Name+" has no volume: ProvisioningFailed: the pool is full.")
	for _, phase := range []corev1.PersistentVolumeClaimPhase{corev1.ClaimBound, corev1.ClaimLost} {
		w.Get(w, claim.Name, claim)
		claim.Status.Phase = phase
		w.Expect(testEnv.Client.Status().Update(t.Context(), claim)).To(Succeed())
		if phase == corev1.ClaimBound {
			expectReported(metav1.ConditionTrue, v1alpha1.ReasonDataVolumesReady, "No member is kept")
		} else {
			expectReported(metav1.ConditionFalse, v1alpha1.ReasonVolumeLost, "no longer exists")
		}
	}
}
