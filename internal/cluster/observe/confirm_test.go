// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// dials counts the connections: one for each request to a member.
type dials struct {
	etcdfake.Cluster
	n int
}

func (d *dials) Dial(endpoint string, config *tls.Config) (etcdclient.Client, error) {
	d.n++
	return d.Cluster.Dial(endpoint, config)
}

func owned(etcd, by client.Object, kind string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: "ns", Labels: map[string]string{v1alpha1.LabelPartOf: etcd.GetName()},
		OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: by.GetName(), UID: by.GetUID(), Controller: ptr.To(true)}},
	}
}

// Before a step, live reads confirm the cache. The members answered a moment ago, and are asked again only if the live
// state differs.
func TestConfirm(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "e"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	for name, c := range map[string]struct {
		// since is the change that the cache does not show yet.
		since func(set *appsv1.StatefulSet, pods []*corev1.Pod) []*corev1.Pod
		down  bool // no member answers
		asked int  // number of members asked again
	}{
		"nothing":            {asked: 0},
		"no member answered": {down: true, asked: 3},
		"irrelevant status of the StatefulSet": {since: func(set *appsv1.StatefulSet, pods []*corev1.Pod) []*corev1.Pod {
			set.Status.ReadyReplicas = 2
			return pods
		}},
		"another revision": {asked: 3, since: func(set *appsv1.StatefulSet, pods []*corev1.Pod) []*corev1.Pod {
			set.Status.UpdateRevision = "another"
			return pods
		}},
		"a pod was written": {asked: 3, since: func(_ *appsv1.StatefulSet, pods []*corev1.Pod) []*corev1.Pod {
			pods[1].ResourceVersion = "2"
			return pods
		}},
		"a pod of the same name": {asked: 3, since: func(_ *appsv1.StatefulSet, pods []*corev1.Pod) []*corev1.Pod {
			pods[1].UID = "another"
			return pods
		}},
		"a pod is gone": {asked: 2, since: func(_ *appsv1.StatefulSet, pods []*corev1.Pod) []*corev1.Pod { return pods[:2] }},
		"a surplus pod": {asked: 3, since: func(_ *appsv1.StatefulSet, pods []*corev1.Pod) []*corev1.Pod {
			surplus := pods[2].DeepCopy()
			surplus.Name = "m-3"
			return append(pods, surplus)
		}},
		"fewer replicas, so that one member is foreign": {asked: 3, since: func(set *appsv1.StatefulSet, pods []*corev1.Pod) []*corev1.Pod {
			set.Spec.Replicas = ptr.To[int32](2)
			return pods
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			set := &appsv1.StatefulSet{ObjectMeta: owned(etcd, etcd, "Etcd"), Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](3)}}
			set.Name, set.UID = "m", "s"
			members := &dials{Cluster: etcdfake.Cluster{Up: func(int) bool { return !c.down }}}
			var pods []*corev1.Pod
			for i := range 3 {
				pod := &corev1.Pod{ObjectMeta: owned(etcd, set, "StatefulSet"), Status: corev1.PodStatus{PodIP: fmt.Sprintf("10.0.0.%d", i)}}
				pod.Name, pod.UID, pod.ResourceVersion = fmt.Sprintf("m-%d", i), "p", "1"
				pods = append(pods, pod)
				members.Names = append(members.Names, pod.Name)
				members.Endpoints = append(members.Endpoints, fmt.Sprintf("http://10.0.0.%d:2379", i))
			}
			reader := func() client.Reader {
				b := fake.NewClientBuilder().WithObjects(set.DeepCopy())
				for _, p := range pods {
					b.WithObjects(p.DeepCopy())
				}
				return b.Build()
			}
			clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
			o := New(members, clock)
			cache := reader()
			seen, err := o.Observe(t.Context(), cache, etcd)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(members.n).To(Equal(3))

			if c.since != nil {
				pods = c.since(set, pods)
			}
			clock.SetTime(time.Unix(1, 0))
			live := reader()
			now, err := o.Confirm(t.Context(), live, etcd, seen)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(members.n-3).To(Equal(c.asked), "members asked again")
			if c.asked == 0 {
				g.Expect(now).To(BeIdenticalTo(seen), "as old as the members' answers")
				return
			}
			want, err := o.Observe(t.Context(), live, etcd)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now).To(Equal(want))
		})
	}
}
