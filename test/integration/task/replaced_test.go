// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// replace deletes the Etcd and leaves its tasks, and creates another one of the same name.
func (c *cluster) replace() {
	c.T.Helper()
	c.Expect(testEnv.Client.Delete(c.T.Context(), c.Etcd, client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	old := c.Etcd.UID
	c.Eventually(func() bool {
		return apierrors.IsNotFound(testEnv.Client.Get(c.T.Context(), client.ObjectKeyFromObject(c.Etcd), &v1alpha1.Etcd{}))
	}).Should(BeTrue())
	// Creation timestamps have steps of a second.
	latest := time.Time{}
	for _, t := range c.rollouts(c) {
		latest = t.CreationTimestamp.Time
	}
	c.Eventually(func() bool { return time.Now().Truncate(time.Second).After(latest) }).Should(BeTrue())
	c.Etcd = &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}, Spec: v1alpha1.EtcdSpec{Replicas: 1}}
	c.Create(c.Etcd)
	c.Expect(c.Etcd.UID).NotTo(Equal(old))
}

// Neither a task that ran for an Etcd that was deleted, nor one that waited, runs for the next Etcd of that name.
func TestTasksOfADeletedEtcd(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g, registry := gated()
	registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: g}
	stop := c.startWith(testEnv.ForOperator(), registry)
	c.CreateTask("running", v1alpha1.OnDemandSnapshot, "note: running")
	c.UntilTask("running", v1alpha1.TaskStateInProgress)
	c.CreateTask("queued", v1alpha1.OnDemandSnapshot, "note: queued")
	c.UntilTask("queued", v1alpha1.TaskStatePending)
	stop()
	// Nobody has adopted this one.
	c.CreateTask("late", v1alpha1.QuorumLossRecovery, "")
	c.replace()
	started := len(g.order())

	c.start(registry)
	for _, name := range []string{"running", "queued", "late"} {
		rejected := c.UntilTask(name, v1alpha1.TaskStateRejected)
		c.Expect(rejected.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrEtcdReplaced), name)
		c.Expect(rejected.OwnerReferences).To(BeEmpty(), name)
	}
	c.CreateTask("next", v1alpha1.OnDemandSnapshot, "note: queued")
	next := c.UntilTask("next", v1alpha1.TaskStateInProgress)
	c.Expect(next.OwnerReferences[0].UID).To(Equal(c.Etcd.UID))
	c.Expect(g.order()[started:]).To(Equal([]string{"next"}))
	g.letGo("next")
	c.UntilTask("next", v1alpha1.TaskStateSucceeded)
}
