// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package task tests the task engine, the rollout controller and the rollout handler against a real API server
// and the real StatefulSet controller. The kubelet and etcd are simulated.
package task

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithControllerManager(), env.WithRoles()))
}

// cluster is an Etcd with its StatefulSet, in a namespace of its own.
type cluster struct {
	*WithT
	t         *testing.T
	namespace string
	etcd      *v1alpha1.Etcd
	set       *appsv1.StatefulSet
	kubelet   *env.Kubelet
	fake      *etcdfake.Cluster
}

const name = "main"

// newCluster makes a cluster of n members, all of which are ready.
func newCluster(t *testing.T, n int, changes ...func(*cluster)) *cluster {
	t.Helper()
	c := &cluster{WithT: NewWithT(t), t: t, namespace: testEnv.Namespace(t)}
	c.SetDefaultEventuallyTimeout(2 * time.Minute)
	c.SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	c.kubelet = testEnv.StartKubelet(t, c.namespace)
	c.etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: int32(n)}}
	c.create(c.etcd)
	c.set = c.statefulSet(n)
	for _, change := range changes {
		change(c)
	}
	c.create(c.set)
	c.fake = &etcdfake.Cluster{Up: c.up}
	for i := range n {
		c.fake.Names = append(c.fake.Names, c.pod(i))
		c.fake.Endpoints = append(c.fake.Endpoints, fmt.Sprintf("http://%s:2379", env.PodIP(i)))
	}
	c.Eventually(func(g Gomega) {
		g.Expect(testEnv.Client.Get(t.Context(), client.ObjectKeyFromObject(c.set), c.set)).To(Succeed())
		g.Expect(c.set.Status.ReadyReplicas).To(Equal(int32(n)))
	}).Should(Succeed())
	return c
}

func (c *cluster) pod(i int) string { return fmt.Sprintf("%s-%d", name, i) }

// up: a member is up while its pod is ready.
func (c *cluster) up(i int) bool { return c.kubelet.Ready(c.pod(i)) }

func (c *cluster) create(o client.Object) {
	c.t.Helper()
	c.Expect(testEnv.Client.Create(c.t.Context(), o)).To(Succeed())
}

func (c *cluster) statefulSet(n int) *appsv1.StatefulSet {
	labels := map[string]string{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelPartOf: name, v1alpha1.LabelComponent: v1alpha1.ComponentStatefulSet,
	}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.namespace, Name: name, Labels: labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(c.etcd, v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcd))},
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

// change changes the pod template and returns the revision that it had before.
func (c *cluster) change(value string) (before string) {
	c.t.Helper()
	c.Expect(testEnv.Client.Get(c.t.Context(), client.ObjectKeyFromObject(c.set), c.set)).To(Succeed())
	before = c.set.Status.UpdateRevision
	patch := client.MergeFrom(c.set.DeepCopy())
	c.set.Spec.Template.Annotations = map[string]string{"change": value}
	c.Expect(testEnv.Client.Patch(c.t.Context(), c.set, patch)).To(Succeed())
	return before
}

func (c *cluster) task(name string, taskType v1alpha1.TaskType, config string) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: taskType, Config: config, OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}},
	}
}

// get reads a task.
func (c *cluster) get(g Gomega, name string) *v1alpha1.EtcdOperatorTask {
	t := &v1alpha1.EtcdOperatorTask{}
	g.Expect(testEnv.Client.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: name}, t)).To(Succeed())
	return t
}

// eventually waits for a task to be in a state, and returns it.
func (c *cluster) eventually(name string, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	var t *v1alpha1.EtcdOperatorTask
	c.Eventually(func(g Gomega) {
		t = c.get(g, name)
		g.Expect(t.Status.State).To(Equal(state), "status: %+v", t.Status)
	}).Should(Succeed())
	return t
}

// rollouts are the rollout tasks, oldest first.
func (c *cluster) rollouts(g Gomega) []v1alpha1.EtcdOperatorTask {
	all := &v1alpha1.EtcdOperatorTaskList{}
	g.Expect(testEnv.Client.List(context.Background(), all, client.InNamespace(c.namespace))).To(Succeed())
	slices.SortStableFunc(all.Items, func(a, b v1alpha1.EtcdOperatorTask) int {
		arrival := func(t v1alpha1.EtcdOperatorTask) string { return t.Status.ArrivalResourceVersion }
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(len(arrival(a)), len(arrival(b))), cmp.Compare(arrival(a), arrival(b)))
	})
	return all.Items
}

// finalRollout waits until there are n rollout tasks and the last of them has succeeded.
func (c *cluster) finalRollout(n int) *v1alpha1.EtcdOperatorTask {
	c.t.Helper()
	var last v1alpha1.EtcdOperatorTask
	c.Eventually(func(g Gomega) {
		all := c.rollouts(g)
		g.Expect(all).To(HaveLen(n))
		for _, t := range all {
			g.Expect(t.Status.ArrivalResourceVersion).NotTo(BeEmpty(), "%s has no place in the order yet", t.Name)
		}
		last = all[n-1]
		g.Expect(last.Status.State).To(Equal(v1alpha1.TaskStateSucceeded), "status: %+v", last.Status)
	}).Should(Succeed())
	return &last
}

// operator is a running operator.
type operator struct{ stop func() }

// start starts an operator for the cluster's namespace. Handlers are added to, or replaced in, the registry.
func (c *cluster) start(more tasks.Registry) {
	c.startWith(testEnv.AsOperator(), more)
}

func (c *cluster) startWith(restConfig *rest.Config, more tasks.Registry) *operator {
	c.t.Helper()
	return &operator{stop: testEnv.StartManager(c.t, restConfig, c.namespace, func(mgr ctrl.Manager) error {
		o := composition.New(c.t, composition.Config(), composition.With(c.fake, clock.RealClock{}).Of(mgr))
		maps.Copy(o.Tasks.Registry, more)
		return o.Setup(c.t.Context(), mgr, composed.Rollouts, composed.Tasks)
	})}
}

// roundTripper is an http.RoundTripper that is a function.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// through is a configuration whose requests go through a function.
func through(wrap func(next http.RoundTripper, r *http.Request) (*http.Response, error)) *rest.Config {
	c := testEnv.AsOperator()
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) { return wrap(next, r) })
	})
	return c
}
