// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A Snapshot of a pod, its node and its volume is the same from the trimmed cache as from the API server: otherwise
// decisions on the cache would always differ from those on live reads.
func TestTheCacheKeepsWhatSnapshotsNeed(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "e"}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	labels := map[string]string{v1alpha1.LabelPartOf: "m", appsv1.StatefulSetRevisionLabel: "new"}
	owner := func(kind string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: kind, Name: "m", UID: uid, Controller: ptr.To(true)}}
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "s", OwnerReferences: owner("Etcd", "e")}}
	set.Spec.Replicas = ptr.To[int32](1)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "m-0", UID: "p", Labels: labels, OwnerReferences: owner("StatefulSet", "s"),
			Annotations: map[string]string{v1alpha1.AnnotationPeerTLS: "x", v1alpha1.AnnotationClientTLS: v1alpha1.TLSOn},
			Finalizers:  []string{"example.com/keep"},
		},
		Spec: corev1.PodSpec{
			NodeName: "n",
			Containers: []corev1.Container{
				{Name: v1alpha1.ContainerEtcd, Image: "etcd:v3.6.8", ReadinessProbe: &corev1.Probe{PeriodSeconds: 1}, Ports: []corev1.ContainerPort{{Name: "client", ContainerPort: 2479}}},
				{Name: v1alpha1.ContainerBackupRestore, Image: "agent:v1"},
			},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-m-0"}}}},
		},
		Status: corev1.PodStatus{
			PodIP: "10.0.0.1", Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: v1alpha1.ContainerEtcd, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Unix(100, 0))}}},
				{Name: v1alpha1.ContainerBackupRestore, Ready: true},
			},
		},
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data-m-0", UID: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"}, Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}}
	for name, claimRef := range map[string]*corev1.ObjectReference{"its own volume": {UID: "c"}, "the volume of another claim": {UID: "another"}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: claimRef}}
			whole := []client.Object{set.DeepCopy(), pod.DeepCopy(), node.DeepCopy(), claim.DeepCopy(), volume.DeepCopy()}
			kept := []client.Object{set.DeepCopy(), trimmedPod(pod.DeepCopy()), trimmedNode(node.DeepCopy()), trimmedClaim(claim.DeepCopy()), trimmedVolume(volume.DeepCopy())}
			snapshot := func(objects []client.Object) *cluster.Snapshot {
				reader := fake.NewClientBuilder().WithObjects(objects...).Build()
				members := &etcdfake.Cluster{Names: []string{"m-0"}, Endpoints: []string{"https://10.0.0.1:2479"}, Up: func(int) bool { return true }}
				s, err := observe.New(members, clocktesting.NewFakePassiveClock(time.Unix(0, 0)), observe.WithSurroundings(reader)).Observe(t.Context(), reader, etcd)
				g.Expect(err).NotTo(HaveOccurred())
				return s
			}
			g.Expect(snapshot(kept)).To(Equal(snapshot(whole)))
		})
	}
}
