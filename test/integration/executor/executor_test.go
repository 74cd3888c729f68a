// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mayRequest is everything that an executor may ask of the API server. Its own objects are besides: see isOwn.
var mayRequest = []string{
	"get etcds", "list etcds", "watch etcds", "get statefulsets", "list statefulsets", "watch statefulsets", "patch statefulsets/status",
	"get pods", "list pods", "watch pods", "delete pods", "patch pods", "create pods/eviction",
	"get secrets", "get persistentvolumeclaims", "list persistentvolumeclaims", "watch persistentvolumeclaims",
	"list persistentvolumes", "watch persistentvolumes", "list nodes", "watch nodes", "get leases", "list leases", "watch leases",
	"get etcdoperatortasks", "list etcdoperatortasks", "watch etcdoperatortasks", "create etcdoperatortasks", "patch etcdoperatortasks", "delete etcdoperatortasks", "update etcdoperatortasks/status",
	"create events", "patch events", "get mutatingwebhookconfigurations", "update mutatingwebhookconfigurations",
}

// isOwn are the objects in the operator's namespace by which it elects a leader and keeps its webhook.
func isOwn(r request) bool {
	o := r.ObjectRef
	return o.Namespace == own && (o.Resource == "leases" && (o.Name == "etcd-foreman" || o.Name == "") || o.Resource == "events" ||
		o.Resource == "secrets" && o.Name == "etcd-foreman-webhook-ca" || o.Resource == "configmaps" && o.Name == v1alpha1.RolloutsConfigMap && r.Verb == "get")
}

// A template change of etcd-druid is rolled by a task, leader last, and etcd-druid takes it for finished, whatever the configuration says of
// stores and TLS, which are etcd-druid's. The executor asks for nothing that it does not need.
func TestRolloutBesideDruid(t *testing.T) {
	c := newCluster(t)
	store := []byte(`{"spec":{"backup":{"store":{"provider":"local","container":"bucket","prefix":"a/b","secretRef":{"name":"etcd-backup"}}}}}`)
	c.Expect(c.druid.Client.Patch(t.Context(), c.druid.Etcd, client.RawPatch(types.MergePatchType, store))).To(Succeed(), "as in Gardener's local setup")
	c.reconcile("1")
	c.Eventually(func(g Gomega) { allUpdated(g, c.StatefulSet(g)) }).Should(Succeed())
	c.Expect(c.StatefulSet(c).Spec.UpdateStrategy.Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType), "the webhook is not there")
	stop := c.start("requireTLS: true")
	c.Eventually(func(g Gomega) {
		c.reconcile("1")
		marked(g, c.StatefulSet(g))
	}).Should(Succeed())
	generation := c.StatefulSet(c).Generation
	c.reconcile("1")
	c.Expect(c.StatefulSet(c).Generation).To(Equal(generation), "a reconciliation without a change changes nothing")

	c.reconcile("2")
	c.Eventually(func(g Gomega) {
		tasks := c.Tasks(g)
		g.Expect(tasks).To(HaveLen(1))
		g.Expect(tasks[0].Status.State).To(Equal(v1alpha1.TaskStateSucceeded), "status: %+v", tasks[0].Status)
		g.Expect(tasks[0].Status.Rollout.Pods).To(HaveLen(members))
		for _, pod := range tasks[0].Status.Rollout.Pods {
			g.Expect(pod.Evidence.Serving).To(HaveLen(members), "members answer over TLS")
		}
	}).Should(Succeed())
	c.Eventually(func(g Gomega) { allUpdated(g, c.StatefulSet(g)) }).Should(Succeed())
	marked(c, c.StatefulSet(c))

	c.CreateTask("recovery", v1alpha1.QuorumLossRecovery, "")
	c.Expect(c.UntilTask("recovery", v1alpha1.TaskStateRejected).Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrNotInExecutorMode))

	stop()
	all := requests(c, c.Namespace)
	c.Expect(all).To(And(HaveKey("get secrets"), HaveKey("delete pods"), HaveKey("create etcdoperatortasks")), "the audit sees the executor")
	_, settled := all["patch statefulsets/status"]
	c.Expect(settled).To(Equal(!testEnv.PromotesUnderOnDelete(t)), "from Kubernetes 1.37 on its controller promotes the current revision itself")
	for what, r := range all {
		c.Expect(slices.Contains(mayRequest, what) || isOwn(r)).To(BeTrue(), "%s: %+v", what, r)
		c.Expect(r.ResponseStatus.Code).NotTo(Equal(403), "%s: %+v", what, r)
	}

	// Without the executor, etcd-druid works as ever.
	c.reconcile("3")
	c.Expect(c.StatefulSet(c).Spec.UpdateStrategy.Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType))
	c.Expect(c.StatefulSet(c).Annotations).To(BeEmpty())
	c.Eventually(func(g Gomega) { allUpdated(g, c.StatefulSet(g)) }).Should(Succeed())
}

// The documented order, in the middle of a rollout, leaves a StatefulSet as etcd-druid alone writes it, and its controller rolls
// the rest.
func TestUninstallMidRollout(t *testing.T) {
	c := newCluster(t)
	stop := c.start()
	c.Eventually(func(g Gomega) {
		c.reconcile("1")
		marked(g, c.StatefulSet(g))
	}).Should(Succeed())
	c.Eventually(func(g Gomega) { allUpdated(g, c.StatefulSet(g)) }).Should(Succeed())
	c.Kubelet.Set(name+"-0", env.NotReady)
	c.Eventually(func() bool { return c.Kubelet.Ready(name + "-0") }).Should(BeFalse())
	c.reconcile("2")
	c.Eventually(func(g Gomega) {
		tasks := c.Tasks(g)
		g.Expect(tasks).To(HaveLen(1))
		g.Expect(tasks[0].Status.Rollout).NotTo(BeNil())
		g.Expect(tasks[0].Status.Rollout.UpdatedReplicas).To(Equal(int32(1)), "status: %+v", tasks[0].Status.Rollout)
		g.Expect(tasks[0].Status.Rollout.HeldBy).NotTo(BeNil())
	}).Should(Succeed())

	c.Expect(testEnv.Client.Delete(t.Context(), c.theSwitch())).To(Succeed())
	c.reconcile("2")
	alone := &appsv1.StatefulSet{}
	c.druid.Build(alone, "2")
	set := c.StatefulSet(c)
	c.Expect(set.Spec.UpdateStrategy.Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType))
	c.Expect(set.Annotations).To(Equal(alone.Annotations))
	c.Expect(set.Labels).To(Equal(alone.Labels))
	c.Expect(set.OwnerReferences).To(Equal(alone.OwnerReferences))
	c.Eventually(func(g Gomega) {
		task := c.Tasks(g)[0]
		g.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateFailed))
		last := task.Status.LastErrors[len(task.Status.LastErrors)-1]
		g.Expect(last.Code).To(Equal(v1alpha1.ErrStrategy))
		g.Expect(last.Description).To(And(ContainSubstring("etcd-druid wrote it"), ContainSubstring("its own controller replaces pods")))
	}).Should(Succeed())
	stop()
	c.Kubelet.Set(name+"-0", env.Ready)
	c.Eventually(func(g Gomega) { allUpdated(g, c.StatefulSet(g)) }).Should(Succeed())
	c.Consistently(func(g Gomega) { g.Expect(c.Tasks(g)).To(HaveLen(1)) }).WithTimeout(time.Second).Should(Succeed())
}

// An outdated pod of a marked StatefulSet that no task replaces shows in the metrics that the alert EtcdPodsOutdatedWithoutTask
// reads, and a StatefulSet that was handed back does not show.
func TestOutdatedWithoutTaskShows(t *testing.T) {
	c := newCluster(t)
	c.start()
	c.Eventually(func(g Gomega) {
		c.reconcile("1")
		marked(g, c.StatefulSet(g))
	}).Should(Succeed())
	c.Eventually(func(g Gomega) { allUpdated(g, c.StatefulSet(g)) }).Should(Succeed())
	c.Eventually(c.outdatedWithoutTask).Should(Equal("0"))
	allow := c.refuseTasks()
	c.reconcile("2")
	c.Eventually(c.outdatedWithoutTask).Should(Equal("1"))
	c.Expect(c.Tasks(c)).To(BeEmpty())
	allow()
	c.Eventually(func(g Gomega) {
		g.Expect(c.Tasks(g)).To(HaveLen(1))
		g.Expect(c.Tasks(g)[0].Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	}).Should(Succeed())
	c.Eventually(c.outdatedWithoutTask).Should(Equal("0"))
	// What EtcdForemanDown and the alerts on tasks read.
	c.Eventually(func() (string, error) { return c.metric("etcd_foreman_active") }).Should(Equal("1"))
	c.Eventually(func() (string, error) {
		return c.metric(fmt.Sprintf("etcd_foreman_tasks{etcd=%q,etcd_namespace=%q,state=\"Succeeded\",type=\"QuorumAwareRollout\"}", name, c.Namespace))
	}).Should(Equal("1"))

	c.Expect(testEnv.Client.Delete(t.Context(), c.theSwitch())).To(Succeed())
	c.reconcile("2")
	c.Eventually(c.outdatedWithoutTask).Should(BeEmpty())
}
