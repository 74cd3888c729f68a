// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An Etcd with fields that have no effect here, and with the annotation by which Gardener asks for a reconcile, is reconciled, and
// its status and Services are as Gardener reads them.
func TestAnEtcdOfGardener(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, func(e *v1alpha1.Etcd) {
		e.Annotations = map[string]string{v1alpha1.AnnotationGardenerOperation: v1alpha1.OperationReconcile}
		e.Spec.Labels = map[string]string{"role": "main"}
		e.Spec.Annotations = map[string]string{v1alpha1.AnnotationSafeToEvict: "true"}
		e.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "main"}}
		e.Spec.Backup = &v1alpha1.BackupSpec{LeaderElection: &v1alpha1.LeaderElectionSpec{}}
	})
	w.start()
	w.eventuallyWell()
	w.Eventually(func(g Gomega) {
		status := w.Status(g)
		g.Expect(w.Etcd.Annotations).NotTo(HaveKey(v1alpha1.AnnotationGardenerOperation))
		g.Expect(status.LastErrors).To(BeEmpty())
		g.Expect(status.LastOperation).To(HaveValue(And(HaveField("State", v1alpha1.OperationSucceeded), HaveField("RunID", Not(BeEmpty())))))
		g.Expect(status.Etcd).To(HaveValue(HaveField("Name", name)))
		for _, c := range status.Conditions {
			g.Expect(c.LastUpdateTime.IsZero()).To(BeFalse(), c.Type)
		}
		for _, m := range status.Members {
			g.Expect(m.Reason).NotTo(BeEmpty())
		}
	}).Should(Succeed())

	scale := &autoscalingv1.Scale{}
	w.Expect(testEnv.Client.SubResource("scale").Get(t.Context(), w.Etcd, scale)).To(Succeed())
	pods := &corev1.PodList{}
	selector, err := metav1.ParseToLabelSelector(scale.Status.Selector)
	w.Expect(err).NotTo(HaveOccurred())
	w.Expect(testEnv.Client.List(t.Context(), pods, client.InNamespace(w.Namespace), client.MatchingLabels(selector.MatchLabels))).To(Succeed())
	w.Expect(pods.Items).To(HaveLen(3))
	for _, p := range pods.Items {
		w.Expect(p.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationSafeToEvict, "true"), "it is left to the Etcd")
	}
	service := &corev1.Service{}
	w.Get(w, name+"-client", service)
	ports := map[string]string{}
	for _, p := range service.Spec.Ports {
		ports[p.Name] = p.TargetPort.String()
	}
	w.Expect(ports).To(Equal(map[string]string{"client": "2379", "server": "2380", "backuprestore": "8080"}))
	w.Expect(w.Kubelet.Ready(pod(0))).To(BeTrue())
}
