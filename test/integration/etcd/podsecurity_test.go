// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The API server admits member pods with all optional features into a namespace that enforces the Pod Security Standard
// "restricted".
func TestPodsAreRestricted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, clientTLS, peerTLS)
	w.Members.Endpoints[0] = "https://" + env.PodIP(0) + ":2379"
	w.Members.ListWith("https")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}
	w.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
	metav1.SetMetaDataLabel(&namespace.ObjectMeta, "pod-security.kubernetes.io/enforce", "restricted")
	w.Expect(testEnv.Client.Update(t.Context(), namespace)).To(Succeed())
	w.issue()
	w.start()
	w.eventuallyWell()

	pod := w.pod(0)
	w.Get(w, pod.Name, pod)
	loose := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "loose"}, Spec: *pod.Spec.DeepCopy()}
	loose.Spec.NodeName = ""
	w.Expect(testEnv.Client.Create(t.Context(), loose.DeepCopy(), client.DryRunAll)).To(Succeed())
	loose.Spec.SecurityContext.RunAsNonRoot = nil
	w.Expect(testEnv.Client.Create(t.Context(), loose, client.DryRunAll)).
		To(MatchError(ContainSubstring("PodSecurity")), "the standard is enforced here")
}
