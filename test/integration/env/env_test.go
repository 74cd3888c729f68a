// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env_test

import (
	"context"
	"os"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testEnv *env.Env

func TestMain(m *testing.M) { os.Exit(env.Main(m, &testEnv, env.WithControllerManager())) }

// The simulation must support what the project's tests rely on: a StatefulSet whose pods start, become unready, are
// replaced when deleted, and stay terminating while their node is lost.
func TestKubeletWithStatefulSetController(t *testing.T) {
	g := machine.Gomega(t)
	ctx := context.Background()
	namespace := testEnv.Namespace(t)
	kubelet := testEnv.StartKubelet(t, namespace)
	kubelet.Set("web-1", env.NotReady)

	set := statefulSet(namespace)
	g.Expect(testEnv.Client.Create(ctx, set)).To(Succeed())
	readyReplicas := func(g Gomega) int32 {
		g.Expect(testEnv.Client.Get(ctx, client.ObjectKeyFromObject(set), set)).To(Succeed())
		return set.Status.ReadyReplicas
	}
	g.Eventually(readyReplicas).Should(Equal(int32(2)))
	kubelet.Set("web-1", env.Ready)
	g.Eventually(readyReplicas).Should(Equal(int32(3)))

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-0"}}
	g.Expect(testEnv.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	old := pod.UID
	g.Expect(testEnv.Client.Delete(ctx, pod)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
		g.Expect(pod.UID).NotTo(Equal(old))
		g.Expect(pod.Status.ContainerStatuses).To(HaveLen(1))
		g.Expect(pod.Status.ContainerStatuses[0].Ready).To(BeTrue())
	}).Should(Succeed())

	kubelet.Set("web-0", env.Crashing)
	g.Eventually(readyReplicas).Should(Equal(int32(2)))
	kubelet.Set("web-0", env.Lost)
	g.Expect(testEnv.Client.Delete(ctx, pod)).To(Succeed())
	g.Expect(testEnv.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
	g.Expect(pod.DeletionTimestamp).NotTo(BeNil())
}

func statefulSet(namespace string) *appsv1.StatefulSet {
	labels := map[string]string{"app": "web"}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            ptr.To[int32](3),
			PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "localhost/web:v1"}}},
			},
		},
	}
}
