// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package task tests the task engine, the rollout controller and the rollout handler against a real API server
// and the real StatefulSet controller. The kubelet and etcd are simulated.
package task

import (
	"cmp"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithControllerManager(), env.WithRoles()))
}

// cluster is an Etcd with a StatefulSet that the test has made.
type cluster struct {
	*env.Cluster
	set *appsv1.StatefulSet
}

const name = "main"

// newCluster makes a cluster of n members, all of which are ready.
func newCluster(t *testing.T, n int, changes ...func(*cluster)) *cluster {
	t.Helper()
	c := &cluster{Cluster: testEnv.NewCluster(t, name)}
	c.Simulate(n)
	c.CreateEtcd(n)
	c.set = c.NewStatefulSet(n)
	for _, change := range changes {
		change(c)
	}
	c.Create(c.set)
	c.UntilReady(n)
	return c
}

// change changes the pod template and returns the revision that it had before.
func (c *cluster) change(value string) (before string) {
	c.T.Helper()
	c.Expect(testEnv.Client.Get(c.T.Context(), client.ObjectKeyFromObject(c.set), c.set)).To(Succeed())
	before = c.set.Status.UpdateRevision
	patch := client.MergeFrom(c.set.DeepCopy())
	c.set.Spec.Template.Annotations = map[string]string{"change": value}
	c.Expect(testEnv.Client.Patch(c.T.Context(), c.set, patch)).To(Succeed())
	return before
}

// rollouts are the rollout tasks, oldest first.
func (c *cluster) rollouts(g Gomega) []v1alpha1.EtcdOperatorTask {
	all := c.Tasks(g)
	slices.SortStableFunc(all, func(a, b v1alpha1.EtcdOperatorTask) int {
		arrival := func(t v1alpha1.EtcdOperatorTask) string { return t.Status.ArrivalResourceVersion }
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(len(arrival(a)), len(arrival(b))), cmp.Compare(arrival(a), arrival(b)))
	})
	return all
}

// finalRollout waits until there are n rollout tasks and the last of them has succeeded.
func (c *cluster) finalRollout(n int) *v1alpha1.EtcdOperatorTask {
	c.T.Helper()
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

// start starts an operator for the cluster's namespace. Handlers are added to, or replaced in, the registry.
func (c *cluster) start(more tasks.Registry) {
	c.T.Helper()
	c.startWith(testEnv.ForOperator(), more)
}

func (c *cluster) startWith(as *rest.Config, more tasks.Registry) (stop func()) {
	c.T.Helper()
	return c.StartWith(as, []composed.Controller{composed.Rollouts, composed.Tasks}, func(o *composed.Operator) { maps.Copy(o.Tasks.Registry, more) })
}
