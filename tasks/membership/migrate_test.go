// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// joining is a trial of an Etcd of three whose pods wait for their members to be listed by a source of three.
func joining(t *testing.T) *trial {
	r := newTrial(t, 1, 3)
	r.live.Ordinals, r.live.Cluster.Voters, r.list = nil, nil, nil
	r.Expect(r.api.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-0"}})).To(Succeed())
	joins := &v1alpha1.BootstrapWithExistingCluster{}
	for i := range 3 {
		name := fmt.Sprintf("s%d", i)
		joins.Members = append(joins.Members, v1alpha1.BootstrapExistingMember{Name: name})
		r.list = append(r.list, etcdclient.Member{ID: uint64(1 + i), Name: name})
		r.live.Cluster.Voters = append(r.live.Cluster.Voters, cluster.Voter{ID: uint64(1 + i), Name: name, Ordinal: -1, Serving: true, Endpoint: "http://" + name})
		r.waiting()
	}
	r.task.Etcd.Spec.Etcd.BootstrapWithExistingCluster = joins
	r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
	return r
}

// join lets a learner start, and its vote count.
func (r *trial) join(ordinal int, learner bool) {
	o, id := &r.live.Ordinals[ordinal], uint64(10+ordinal)
	o.Role, o.Class, o.MemberID, o.Answers, o.Serving = v1alpha1.RoleLearner, v1alpha1.ClassUnready, id, true, true
	o.Pod.Refusal, o.Pod.Ready, o.Pod.Endpoint, o.Pod.EtcdStarted = nil, true, "http://"+o.Name+":2379", noon
	if !learner {
		o.Role, o.Class = v1alpha1.RoleFollower, v1alpha1.ClassParticipating
		r.list[len(r.list)-1].Learner = false
		r.live.Cluster.Voters = append(r.live.Cluster.Voters, cluster.Voter{ID: id, Name: o.Name, Ordinal: ordinal, Serving: true})
		return
	}
	r.list = append(r.list, etcdclient.Member{ID: id, Name: o.Name, Learner: true})
}

// Members join at the leader of the source, also under their further URLs, while the source keeps the quorum; the last waits for the
// cut-over, without being stalled. Then it votes, leadership goes to a member, and the source leaves.
func TestMigrates(t *testing.T) {
	r := joining(t)
	r.task.Etcd.Spec.Etcd.AdditionalAdvertisePeerURLs = []v1alpha1.MemberPeerURLs{{MemberName: "main-0", URLs: []string{"http://far:80"}}}
	r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
	for i := range 2 {
		r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
		r.join(i, true)
		r.Expect(r.settle().Step.Operation).To(Equal("PromoteLearner"))
		r.join(i, false)
	}
	r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
	r.join(2, true)
	for range 3 {
		var v tasks.Verdict
		r.clock.SetTime(r.clock.Now().Add(progressDeadline))
		for range 10 {
			v = r.next(time.Second)
		}
		r.Expect(v.Message).To(HavePrefix("SourcesKeepQuorum: the source cluster has 3 of 5 voters"))
		r.Expect(v.Reason).To(Equal(v1alpha1.ReasonHeld))
	}
	r.Expect(r.asked).To(Equal([]string{
		"add [http://main-0.main-peer.ns.svc:2380 http://far:80] at http://s0", "promote a at http://s0",
		"add [http://main-1.main-peer.ns.svc:2380] at http://s0", "promote b at http://s0", "add [http://main-2.main-peer.ns.svc:2380] at http://s0",
	}))

	r.asked = nil
	r.Expect(r.api.Get(t.Context(), client.ObjectKeyFromObject(r.task.Etcd), r.task.Etcd)).To(Succeed())
	r.task.Etcd.Status.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingClusterStatus{Source: r.task.Etcd.Source()}
	r.task.Etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
	r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
	r.Expect(r.next(time.Second).Step.Operation).To(Equal("PromoteLearner"))
	r.join(2, false)
	r.Expect(r.settle().Step.Operation).To(Equal("MoveLeader"))
	r.live.Cluster.Leader, r.live.Ordinals[0].Role = 10, v1alpha1.RoleLeader
	for i := range 3 {
		r.Expect(r.settle().Step.Operation).To(Equal("RemoveMember"))
		r.list = append(r.list[:2-i:2-i], r.list[3-i:]...)
		r.live.Cluster.Voters = append(r.live.Cluster.Voters[:2-i:2-i], r.live.Cluster.Voters[3-i:]...)
	}
	r.Expect(r.settle().Outcome).To(Equal(tasks.Done))
	r.Expect(r.asked).To(Equal([]string{"promote c at http://s0", "lead a at http://s0", "remove 3 at http://main-0:2379", "remove 2 at http://main-0:2379", "remove 1 at http://main-0:2379"}))
}

// Before the first member is added to the source, the Etcd gets the finalizer by which its members leave again. If that fails, or the Etcd is
// being deleted, none is added, and nothing is waited for.
func TestIsHeldBeforeAMemberIsAdded(t *testing.T) {
	r := joining(t)
	key := client.ObjectKeyFromObject(r.task.Etcd)
	finalizers := func() []string {
		etcd := &v1alpha1.Etcd{}
		r.Expect(r.api.Get(t.Context(), key, etcd)).To(Succeed())
		return etcd.Finalizers
	}
	step := r.decided()
	r.Expect(step.Operation).To(Equal("AddLearner"))
	r.Expect(finalizers()).To(BeEmpty())
	r.eachRequestFails(step)
	r.Expect(r.asked).To(HaveLen(1), "when no request fails")
	r.Expect(r.handler.Perform(t.Context(), r.task.Task, step)).To(Succeed())
	r.Expect(finalizers()).To(Equal([]string{v1alpha1.FinalizerLeaveSource}))

	r = joining(t)
	step = r.decided()
	etcd := r.task.Etcd.DeepCopy()
	etcd.Finalizers = []string{"other"}
	r.Expect(r.api.Update(t.Context(), etcd)).To(Succeed())
	r.Expect(r.api.Delete(t.Context(), etcd)).To(Succeed())
	r.Expect(r.handler.Perform(t.Context(), r.task.Task, step)).To(MatchError(ContainSubstring("the Etcd is being deleted")))
	r.Expect(r.asked).To(BeEmpty())
	_, pending := r.handler.tracker.observe("task", members.Known{}, r.task.Object.Status.Membership.Request, r.clock.Now())
	r.Expect(pending).To(BeEmpty())
}
