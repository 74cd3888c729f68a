//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/druid"
	"github.com/etcd-foreman/etcd-foreman/test/measure"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An Etcd of etcd-druid is adopted, converted, and handed back, by the commands of docs/gardener.md, while clients write. Adoption
// and the way back restart no container, the conversion is one rollout, and no acknowledged write is lost.
func TestAdoption(t *testing.T) {
	c := newCluster(t)
	c.image = c.druidsImage()
	c.reconcile()
	c.untilUpdated()
	t.Cleanup(c.withoutOperator)
	writer, err := measure.Start(t.Context(), measure.Options{Config: restConfig, Namespace: c.namespace, StatefulSet: druid.Name, TLS: c.memberTLS})
	c.Expect(err).NotTo(HaveOccurred())
	defer writer.Stop()
	begun, before, uid := time.Now(), c.containers(c), c.set(c).UID

	c.follow("Adopt", 0)
	c.follow("Adopt", 1)
	c.untilDeployed()
	c.follow("Adopt", 2)
	c.untilAdopted(v1alpha1.ReasonConversionPending)
	c.Expect(c.containers(c)).To(Equal(before), "adoption restarts nothing")
	c.Expect(c.etcd(c).GetFinalizers()).NotTo(ContainElement(v1alpha1.FinalizerDruid))

	c.follow("Convert", 0)
	c.untilAdopted(v1alpha1.ReasonConverted)
	c.succeeded()
	c.Expect(c.tasks(c)).To(HaveLen(1), "one rollout")
	c.Expect(c.tasks(c)[0].Status.Rollout.Pods).To(HaveLen(druid.Members))
	c.Expect(c.set(c).UID).To(Equal(uid))
	c.untilHealthy()
	t.Logf("adoption and conversion: %+v", writer.Stop().Between(begun, time.Now()))
	c.verify(writer)

	writer, err = measure.Start(t.Context(), measure.Options{Config: restConfig, Namespace: c.namespace, StatefulSet: druid.Name, TLS: c.memberTLS})
	c.Expect(err).NotTo(HaveOccurred())
	begun, before = time.Now(), c.containers(c)
	c.follow("Back to etcd-druid", 0)
	c.Eventually(func(g Gomega) {
		g.Expect(c.set(g).Annotations).NotTo(HaveKey(v1alpha1.AnnotationAdoptedBy))
		g.Expect(c.etcd(g).GetAnnotations()).NotTo(HaveKey(v1alpha1.AnnotationOperation))
	}).Should(Succeed())
	c.Expect(c.set(c).Spec.UpdateStrategy.Type).To(Equal(appsv1.RollingUpdateStatefulSetStrategyType))
	c.Expect(c.follow("Back to etcd-druid", 1)).NotTo(ContainSubstring(c.namespace), "nothing is left")
	c.Expect(c.containers(c)).To(Equal(before), "handing back restarts nothing")
	c.follow("Back to etcd-druid", 2)
	c.changes++
	c.reconcile()
	c.untilUpdated()
	c.Expect(c.set(c).UID).To(Equal(uid))
	for i := range druid.Members {
		c.Expect(c.pod(c, i).Spec.Containers[0].Image).NotTo(Equal(sameEtcd), "the pods are those of etcd-druid again")
	}
	t.Logf("back to etcd-druid: %+v", writer.Stop().Between(begun, time.Now()))
	c.verify(writer)
}

// sameEtcd is the operator's image of etcd, of the version that etcd-druid runs.
const sameEtcd = "localhost/etcd:v3.5.35"

// druidsImage returns an image of etcd that has the name of another one, as that of etcd-druid has.
func (c *cluster) druidsImage() string {
	c.t.Helper()
	const as = "localhost/etcd-wrapper:v0.8.0"
	out, err := exec.CommandContext(c.t.Context(), "ctr", "--address="+containerd, "--namespace=k8s.io", "images", "tag", "--force", sameEtcd, as).CombinedOutput()
	c.Expect(err).NotTo(HaveOccurred(), "%s", out)
	return as
}

// verify asserts that no acknowledged write was lost.
func (c *cluster) verify(writer *measure.Writer) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	c.Expect(writer.Verify(ctx)).To(Succeed())
}

// containers are the pods, and the runs of their containers.
func (c *cluster) containers(g Gomega) (all []string) {
	for i := range druid.Members {
		pod := c.pod(g, i)
		for _, s := range pod.Status.ContainerStatuses {
			all = append(all, fmt.Sprintf("%s %s %s %s: %d restarts", pod.Name, pod.UID, s.Name, s.ContainerID, s.RestartCount))
		}
	}
	return all
}

// untilDeployed waits until the operator is ready.
func (c *cluster) untilDeployed() {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		d := &appsv1.Deployment{}
		g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: own, Name: operator}, d)).To(Succeed())
		g.Expect(d.Status.ObservedGeneration).To(Equal(d.Generation))
		g.Expect(d.Status.ReadyReplicas).To(BeNumerically(">=", 1))
	}).Should(Succeed())
}

// typed is the Etcd as the operator sees it.
func (c *cluster) typed(g Gomega) *v1alpha1.Etcd {
	etcd := &v1alpha1.Etcd{}
	g.Expect(kube.Get(context.Background(), types.NamespacedName{Namespace: c.namespace, Name: druid.Name}, etcd)).To(Succeed())
	return etcd
}

// untilAdopted waits for the condition Adopted.
func (c *cluster) untilAdopted(reason string) {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		condition := c.typed(g).Status.Conditions.Find(v1alpha1.ConditionAdopted)
		g.Expect(condition).NotTo(BeNil())
		g.Expect(condition.Reason).To(Equal(reason), "%s", condition.Message)
	}).Should(Succeed())
}

// untilHealthy waits until the operator shows all members as ready.
func (c *cluster) untilHealthy() {
	c.t.Helper()
	c.Eventually(func(g Gomega) {
		etcd := c.typed(g)
		for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionAllMembersUpdated} {
			g.Expect(etcd.Status.Conditions.IsTrue(condition)).To(BeTrue(), "%s: %+v", condition, etcd.Status.Conditions)
		}
	}).Should(Succeed())
}

// withoutOperator removes the Etcd and the operator, and puts back what other tests need of etcd-druid.
func (c *cluster) withoutOperator() {
	c.t.Helper()
	if *stock {
		_, err := kubectl("", "delete", "--ignore-not-found", "-n", own, "deployment/"+operator)
		c.Expect(err).NotTo(HaveOccurred())
		return
	}
	c.Expect(client.IgnoreNotFound(kube.Delete(context.Background(), c.imitation.Etcd))).To(Succeed())
	c.Expect(c.imitation.Finish(context.Background())).To(Succeed())
	c.Expect(prepare()).To(Succeed())
}
