// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	"github.com/etcd-foreman/etcd-foreman/test/explain"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cluster is an Etcd in a namespace of its own, and what tests ask of it. Each package of tests embeds it in a type with what only they need.
type Cluster struct {
	*machine.WithT
	T         *testing.T
	Env       *Env
	Namespace string
	// Name is the name of the Etcd.
	Name string
	Etcd *v1alpha1.Etcd
	// Kubelet is nil, and there are no Members, without Simulate.
	Kubelet *Kubelet
	Members *etcdfake.Cluster
}

// NewCluster creates a namespace for an Etcd, which does not exist yet.
func (e *Env) NewCluster(t *testing.T, name string) *Cluster {
	t.Helper()
	c := &Cluster{WithT: machine.Gomega(t), T: t, Env: e, Namespace: e.Namespace(t), Name: name, Members: &etcdfake.Cluster{}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("\n" + explain.Scene{Kube: e.Client, Namespace: c.Namespace}.String())
		}
	})
	return c
}

// Simulate starts a kubelet and n members, each of which is up while its pod is ready.
func (c *Cluster) Simulate(n int) {
	c.T.Helper()
	c.Kubelet = c.Env.StartKubelet(c.T, c.Namespace)
	c.Members.Up = c.Up
	for i := range n {
		c.Members.Names = append(c.Members.Names, c.Pod(i))
		c.Members.Endpoints = append(c.Members.Endpoints, fmt.Sprintf("http://%s:2379", PodIP(i)))
	}
}

// Up reports whether the pod of a member is ready.
func (c *Cluster) Up(i int) bool { return c.Kubelet.Ready(c.Pod(i)) }

// Pod returns the name of the pod of a member.
func (c *Cluster) Pod(i int) string { return PodName(c.Name, i) }

// PodName returns the name of the pod of an ordinal of a StatefulSet.
func PodName(set string, i int) string { return fmt.Sprintf("%s-%d", set, i) }

// Key returns the key of an object in the namespace.
func (c *Cluster) Key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: name}
}

// Create creates an object.
func (c *Cluster) Create(o client.Object) {
	c.T.Helper()
	c.Expect(c.Env.Client.Create(c.T.Context(), o)).To(gomega.Succeed())
}

// CreateEtcd creates the Etcd.
func (c *Cluster) CreateEtcd(replicas int, changes ...func(*v1alpha1.Etcd)) {
	c.T.Helper()
	c.Etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}, Spec: v1alpha1.EtcdSpec{Replicas: int32(replicas)}}
	for _, change := range changes {
		change(c.Etcd)
	}
	c.Create(c.Etcd)
}

// Get reads an object.
func (c *Cluster) Get(g gomega.Gomega, name string, into client.Object) {
	g.Expect(c.Env.Client.Get(context.Background(), c.Key(name), into)).To(gomega.Succeed())
}

// List lists the objects of the namespace.
func (c *Cluster) List(g gomega.Gomega, into client.ObjectList, options ...client.ListOption) {
	g.Expect(c.Env.Client.List(context.Background(), into, append(options, client.InNamespace(c.Namespace))...)).To(gomega.Succeed())
}

// StatefulSet reads the StatefulSet of the Etcd.
func (c *Cluster) StatefulSet(g gomega.Gomega) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{}
	c.Get(g, c.Name, set)
	return set
}

// Status reads the Etcd and returns its status.
func (c *Cluster) Status(g gomega.Gomega) v1alpha1.EtcdStatus {
	c.Get(g, c.Name, c.Etcd)
	return c.Etcd.Status
}

// Change changes the Etcd.
func (c *Cluster) Change(change func(*v1alpha1.Etcd)) {
	c.T.Helper()
	c.Get(c, c.Name, c.Etcd)
	before := client.MergeFrom(c.Etcd.DeepCopy())
	change(c.Etcd)
	c.Expect(c.Env.Client.Patch(c.T.Context(), c.Etcd, before)).To(gomega.Succeed())
}

// NewStatefulSet returns a StatefulSet such as the operator creates for the Etcd, with a container that does nothing.
func (c *Cluster) NewStatefulSet(n int) *appsv1.StatefulSet {
	labels := map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: c.Name, v1alpha1.LabelComponent: v1alpha1.ComponentStatefulSet,
	}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: c.Name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c.Etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To(int32(n)), PodManagementPolicy: appsv1.ParallelPodManagement,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: v1alpha1.ContainerEtcd, Image: "localhost/etcd:v1"}}},
			},
		},
	}
}

// UntilReady waits until n pods are ready, also for the members, which another watch tells.
func (c *Cluster) UntilReady(n int) {
	c.T.Helper()
	c.Eventually(func(g gomega.Gomega) {
		g.Expect(c.StatefulSet(g).Status.ReadyReplicas).To(gomega.Equal(int32(n)))
		for i := range min(n, len(c.Members.Names)) {
			g.Expect(c.Up(i)).To(gomega.BeTrue(), c.Pod(i))
		}
	}).Should(gomega.Succeed())
}

// WatchPods passes the events of pods to a function until the test ends.
func (c *Cluster) WatchPods(see func(watch.EventType, *corev1.Pod)) {
	c.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	events, err := c.Env.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(c.Namespace))
	c.Expect(err).NotTo(gomega.HaveOccurred())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				see(event.Type, pod)
			}
		}
	}()
	c.T.Cleanup(func() { cancel(); events.Stop(); <-done })
}

// PodUIDs returns the UIDs of the pods of the first n members.
func (c *Cluster) PodUIDs(g gomega.Gomega, n int) (uids []types.UID) {
	for i := range n {
		pod := &corev1.Pod{}
		c.Get(g, c.Pod(i), pod)
		uids = append(uids, pod.UID)
	}
	return uids
}

// Claims returns the UIDs of the claims that are not being deleted.
func (c *Cluster) Claims() map[string]types.UID {
	c.T.Helper()
	all := &corev1.PersistentVolumeClaimList{}
	c.List(c, all)
	uids := map[string]types.UID{}
	for _, claim := range all.Items {
		if claim.DeletionTimestamp == nil {
			uids[claim.Name] = claim.UID
		}
	}
	return uids
}
