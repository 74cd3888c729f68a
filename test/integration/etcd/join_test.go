// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/leave"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// joinsSource creates an Etcd whose members join a source that is simulated, and answers while serves is set. Its members that are not declared
// come after those that are.
func joinsSource(t *testing.T, undeclared ...string) (w *world, serves *atomic.Bool) {
	serves = &atomic.Bool{}
	w = &world{Cluster: testEnv.NewCluster(t, name)}
	w.Simulate(0)
	source := &v1alpha1.BootstrapWithExistingCluster{}
	for i := range 3 {
		w.Members.Names = append(w.Members.Names, fmt.Sprintf("old-%d", i))
		w.Members.Endpoints = append(w.Members.Endpoints, fmt.Sprintf("http://192.0.2.10%d:2379", i))
		source.Members = append(source.Members, v1alpha1.BootstrapExistingMember{Name: w.Members.Names[i], PeerURLs: []string{fmt.Sprintf("http://old-%d:2380", i)}})
	}
	source.ClientEndpoints = w.Members.Endpoints
	w.Members.Names = append(w.Members.Names, undeclared...)
	for i := range undeclared {
		w.Members.Endpoints = append(w.Members.Endpoints, fmt.Sprintf("http://192.0.2.11%d:2379", i))
	}
	w.Members.Up = func(int) bool { return serves.Load() }
	w.CreateEtcd(3, func(e *v1alpha1.Etcd) { e.Spec.Etcd.BootstrapWithExistingCluster = source })
	w.start()
	return w, serves
}

// An Etcd is gone at once, whatever has become of the source, if no member of it was ever added there, although they were started: as when
// its namespace is deleted.
func TestEtcdWithoutMembersInTheSourceIsDeletedAtOnce(t *testing.T) {
	t.Parallel()
	w, serves := joinsSource(t)
	serves.Store(true)
	etcd := &v1alpha1.Etcd{}
	w.Eventually(func(g Gomega) {
		set := &appsv1.StatefulSet{}
		w.Get(g, name, set)
		g.Expect(set.Spec.Replicas).To(HaveValue(Equal(int32(3))))
		w.Get(g, name, etcd)
		g.Expect(etcd.Status.ClusterID).NotTo(BeEmpty())
	}).Should(Succeed())
	serves.Store(false)
	w.Expect(testEnv.Client.Delete(t.Context(), etcd)).To(Succeed())
	w.Expect(apierrors.IsNotFound(testEnv.Client.Get(t.Context(), w.Key(name), etcd))).To(BeTrue(), "it has finalizers: %v", etcd.Finalizers)
}

// A source that has a member which is not declared is not joined, however long it answers: the cluster ID is what lets members join.
func TestMembersDoNotJoinASourceThatIsNotAsDeclared(t *testing.T) {
	t.Parallel()
	w, serves := joinsSource(t, "stray")
	serves.Store(true)
	set := &appsv1.StatefulSet{}
	w.Eventually(func(g Gomega) {
		c := w.Status(g).Conditions.Find(v1alpha1.ConditionDataVolumesReady)
		g.Expect(c).To(HaveValue(HaveField("Message", ContainSubstring("does not name: stray"))))
		w.Get(g, name, set)
	}).Should(Succeed())
	w.Consistently(func(g Gomega) {
		w.Get(g, name, set)
		g.Expect(set.Spec.Replicas).To(HaveValue(BeZero()))
		g.Expect(w.Status(g).ClusterID).To(BeEmpty())
	}).WithTimeout(3 * time.Second).Should(Succeed())
}

// Members that join a source are not started before its ID is recorded; they know where it is, and may not begin a cluster. To give up
// does not stop them: they have to leave first.
func TestMembersJoinASource(t *testing.T) {
	t.Parallel()
	w, serves := joinsSource(t)
	condition := func(g Gomega, of string) string {
		c := w.Status(g).Conditions.Find(of)
		g.Expect(c).NotTo(BeNil())
		return fmt.Sprintf("%s/%s: %s", c.Status, c.Reason, c.Message)
	}
	w.Eventually(func(g Gomega) {
		g.Expect(condition(g, v1alpha1.ConditionDataVolumesReady)).To(HavePrefix("False/FirstStartBlocked: No member has been started yet: no client endpoint of spec.etcd.bootstrapWithExistingCluster answers"))
		g.Expect(condition(g, v1alpha1.ConditionBootstrappedWithExistingCluster)).To(Equal("False/BootstrapInProgress: 0 of 3 members have joined the source cluster."))
	}).Should(Succeed())
	set, etcd := &appsv1.StatefulSet{}, &v1alpha1.Etcd{}
	err := testEnv.Client.Get(t.Context(), w.Key(name), set)
	w.Expect(apierrors.IsNotFound(err) || *set.Spec.Replicas == 0).To(BeTrue())

	serves.Store(true)
	w.Eventually(func(g Gomega) {
		w.Get(g, name, set)
		g.Expect(set.Spec.Replicas).To(HaveValue(Equal(int32(3))))
		w.Get(g, name, etcd)
		g.Expect(w.Status(g).ClusterID).NotTo(BeEmpty())
		g.Expect(condition(g, v1alpha1.ConditionReady)).To(Equal("True/Quorate: 3 of 3 voters serve."))
		g.Expect(condition(g, v1alpha1.ConditionScaled)).To(Equal("False/ScalingOut: 0 of 3 members have joined."))
	}).Should(Succeed())
	w.Expect(w.config(w)).To(And(HaveKeyWithValue(member.KeyClusterID, w.Status(w).ClusterID), HaveKeyWithValue(member.KeySource, ContainSubstring("leads: true")), Not(HaveKey(member.KeyFirstStart))))

	w.Change(func(e *v1alpha1.Etcd) { e.Spec.Replicas = 0 })
	w.Eventually(func(g Gomega) {
		g.Expect(condition(g, v1alpha1.ConditionScaled)).To(Equal("False/ScalingIn: The members leave the cluster that they have joined, one at a time."))
	}).Should(Succeed())
	w.Get(w, name, set)
	w.Expect(set.Spec.Replicas).To(HaveValue(Equal(int32(3))))

	// Once a task may have added a member, it is deleted only when the source can say that none of its is listed.
	w.Eventually(func(g Gomega) {
		w.Get(g, name, etcd)
		g.Expect(etcd.Finalizers).To(BeEmpty(), "no member was added")
		g.Expect(leave.Hold(t.Context(), testEnv.Client, etcd)).To(Succeed())
	}).Should(Succeed())
	serves.Store(false)
	w.Expect(testEnv.Client.Delete(t.Context(), etcd)).To(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(condition(g, v1alpha1.ConditionBootstrappedWithExistingCluster)).To(And(HavePrefix("False/LeavingSource: The Etcd is deleted, and kept until its members have left the source cluster: ListKnown: "), ContainSubstring("kubectl annotate etcd "+name+" -n "+w.Namespace+" "+v1alpha1.AnnotationAbandonSource+"="+string(etcd.UID))))
	}).Should(Succeed())
	serves.Store(true)
	w.Eventually(func(g Gomega) {
		g.Expect(apierrors.IsNotFound(testEnv.Client.Get(t.Context(), w.Key(name), &v1alpha1.Etcd{}))).To(BeTrue())
	}).Should(Succeed())
}
