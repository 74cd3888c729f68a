// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

// What guards and grace periods rest on is read from the pod itself.
func TestDescribePod(t *testing.T) {
	g := NewWithT(t)
	p := describePod(&newPod().Pod, "")
	g.Expect(p.GracePeriod).To(Equal(30*time.Second), "the default of Kubernetes")
	g.Expect([]bool{p.Updating, p.AllContainersReady, p.BackupSidecarReady, p.Probed}).To(Equal([]bool{false, false, true, false}))
	g.Expect(p.EtcdStarted).To(BeZero())

	pod := newPod().etcd(running(), true).sidecar(false)
	pod.UID = "pod"
	pod.Annotations = map[string]string{v1alpha1.AnnotationInPlaceUpdate: cluster.Mark{UID: "pod", Source: "a", Target: "b"}.String(), v1alpha1.AnnotationClientTLS: v1alpha1.TLSOn}
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](7)
	pod.Status.PodIP = "10.0.0.1"
	p = describePod(&pod.Pod, "")
	g.Expect([]bool{p.Updating, p.AllContainersReady, p.BackupSidecarReady}).To(Equal([]bool{true, false, false}))
	g.Expect(p.GracePeriod).To(Equal(7 * time.Second))
	g.Expect(p.EtcdStarted).To(Equal(time.Unix(100, 0)))
	g.Expect(p.Endpoint).To(Equal("https://10.0.0.1:2379"))
	g.Expect(describePod(&newPod().etcd(running(), true).sidecar(true).Pod, "").BackupSidecarReady).To(BeTrue())

	probe := &corev1.Probe{}
	for name, c := range map[string]struct {
		containers []corev1.Container
		want       bool
	}{
		"etcd's":        {[]corev1.Container{{Name: v1alpha1.ContainerEtcd, ReadinessProbe: probe}}, true},
		"none":          {[]corev1.Container{{Name: v1alpha1.ContainerEtcd}}, false},
		"the sidecar's": {[]corev1.Container{{Name: v1alpha1.ContainerEtcd}, {Name: "other", ReadinessProbe: probe}}, false},
	} {
		g.Expect(isProbed(&corev1.Pod{Spec: corev1.PodSpec{Containers: c.containers}})).To(Equal(c.want), name)
	}
}

// The address is that of the client port of etcd, and of no other container or port.
func TestClientAddress(t *testing.T) {
	g := NewWithT(t)
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "other", Ports: []corev1.ContainerPort{{Name: clientPortName, ContainerPort: 1}}},
		{Name: v1alpha1.ContainerEtcd, Ports: []corev1.ContainerPort{{Name: "peer", ContainerPort: 2}, {Name: clientPortName, ContainerPort: 3}}},
	}}}
	g.Expect(ClientAddress(pod)).To(BeEmpty())
	pod.Status.PodIP = "fd00::1"
	g.Expect(ClientAddress(pod)).To(Equal("[fd00::1]:3"))
	pod.Spec.Containers = pod.Spec.Containers[:1]
	g.Expect(ClientAddress(pod)).To(Equal("[fd00::1]:2379"))
}

func TestVolumesOfServerCertificates(t *testing.T) {
	for name, want := range map[string]bool{
		"etcd-server-tls": true, "client-url-etcd-server-tls": true, "etcd-peer-server-tls": true, "peer-url-etcd-server-tls": true, "etcd-client-tls": false,
	} {
		if IsServerTLSVolume(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// refusing is a rule that objects to every StatefulSet.
type refusing struct{}

func (refusing) Foreign(*v1alpha1.Etcd, string, metav1.Object) *ownership.Foreign { return nil }

func (refusing) Objection(*v1alpha1.Etcd, *appsv1.StatefulSet) string { return "another replaces pods" }

// A rule decides who replaces pods. A user who observes from afar believes the leases as written.
func TestOptions(t *testing.T) {
	g := NewWithT(t)
	etcd, objects := surrounded()
	s, err := New(&closing{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), WithRule(refusing{})).Observe(t.Context(), apitest.API(objects...), etcd)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.StatefulSet.Objection).To(Equal("another replaces pods"))
	o := New(&closing{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), FromAfar())
	g.Expect(o.afar).To(BeTrue())
	g.Expect(o.renewals.asWritten).To(BeTrue())
}
