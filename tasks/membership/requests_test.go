// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// decided executes the task until there is a step, which is not carried out.
func (r *trial) decided() tasks.Step {
	r.t.Helper()
	for range 8 {
		r.clock.SetTime(r.clock.Now().Add(time.Second))
		v, err := r.handler.Execute(r.t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		if r.task.Object.Status.Membership = v.Membership; v.Step != nil {
			return *v.Step
		}
	}
	r.t.Fatalf("held by %+v", r.task.Object.Status.Membership.HeldBy)
	return tasks.Step{}
}

// eachRequestFails carries a step out once for each of its requests, which fails.
func (r *trial) eachRequestFails(step tasks.Step) {
	r.t.Helper()
	apitest.EachRequestFails(r.t, r.api, func(api client.WithWatch) error {
		return r.with(api).Perform(r.t.Context(), r.task.Task, step)
	})
}

// What the API server does not answer is an error, after which neither etcd is asked nor anything deleted.
func TestRequestsThatFail(t *testing.T) {
	r := newTrial(t, 5, 3)
	apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error {
		_, err := r.with(api).Execute(t.Context(), r.task)
		return err
	})
	apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error {
		_, err := r.with(api).Admit(t.Context(), r.task)
		return err
	})
	r.task.Config.Size = 5
	apitest.EachRequestFails(t, r.api, func(api client.WithWatch) error {
		_, err := r.with(api).Superseded(t.Context(), r.task)
		return err
	})
	r.task.Config.Size = 3
	announce := r.decided()
	r.Expect(announce.Operation).To(Equal("Announce"))
	r.eachRequestFails(announce)

	r = newTrial(t, 1, 3)
	r.joining()
	add := r.decided()
	r.Expect(add.Operation).To(Equal("AddLearner"))
	r.eachRequestFails(add)
	r.Expect(r.asked).To(HaveLen(1), "when no request fails")
}

// What cannot be observed is not decided on.
func TestWhatCannotBeObserved(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		outcome tasks.Outcome
		code    v1alpha1.ErrorCode
	}{
		"no answer":               {errors.New("no answer"), "", v1alpha1.ErrObserve},
		"there is no StatefulSet": {observe.ErrNoStatefulSet, tasks.Continue, v1alpha1.ErrStatefulSetNotFound},
	} {
		for _, live := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				r := newTrial(t, 5, 3)
				if live {
					r.confirming = c.err
				} else {
					r.observing = c.err
				}
				v, err := r.handler.Execute(t.Context(), r.task)
				r.Expect(v.Outcome).To(Equal(c.outcome))
				r.Expect(v.Step).To(BeNil())
				if c.outcome == "" {
					r.Expect(coded.Of(err, "")).To(Equal(c.code))
					return
				}
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(v.Code).To(Equal(c.code))
			})
		}
	}
}

// removed is a cluster of three from which main-2 was removed while its pod runs.
func removed(t *testing.T) *trial {
	r := newTrial(t, 3, 3)
	r.list = r.list[:2]
	o := &r.live.Ordinals[2]
	o.Class, o.Role, o.Answers, o.Serving = v1alpha1.ClassDead, v1alpha1.RoleUnknown, false, false
	r.read[2] = cluster.Read{Etcd: "etcd", Removed: "3"}
	return r
}

// The pod of a removed member is deleted if it is as it was observed.
func TestDeletesThePodOfARemovedMember(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-2"}}
	read := func(r *trial) error { return r.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) }

	r := removed(t)
	step := r.decided()
	r.Expect(step.Operation).To(Equal("DeletePod"))
	r.eachRequestFails(step)
	r.Expect(read(r)).To(Succeed())
	r.Expect(r.handler.Perform(t.Context(), r.task.Task, step)).To(Succeed())
	r.Expect(apierrors.IsNotFound(read(r))).To(BeTrue())
	r.Expect(r.handler.Perform(t.Context(), r.task.Task, step)).To(Succeed(), "it is gone already")

	r = removed(t)
	r.live.Ordinals[2].Pod.ResourceVersion = "another"
	err := r.handler.Perform(t.Context(), r.task.Task, r.decided())
	r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrDeletePod))
	r.Expect(read(r)).To(Succeed())
}

// A claim that has changed since it was observed stays, and one that is gone is.
func TestDeletesAClaimAsItWasObserved(t *testing.T) {
	r := newTrial(t, 3, 3)
	r.task.Etcd.Spec.PersistentVolumeClaimRetentionPolicy = &v1alpha1.PersistentVolumeClaimRetentionPolicy{WhenScaled: v1alpha1.VolumesDeleted}
	r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
	claim := apitest.Claim(r.task.Etcd, 3)
	r.Expect(r.api.Create(t.Context(), claim)).To(Succeed())
	r.scaledAway("main-3")
	step := r.decided()
	r.Expect(step.Operation).To(Equal("DeleteClaim"))
	r.eachRequestFails(step)
	claim.Annotations = map[string]string{"changed": "since"}
	r.Expect(r.api.Update(t.Context(), claim)).To(Succeed())
	r.Expect(coded.Of(r.handler.Perform(t.Context(), r.task.Task, step), "")).To(Equal(v1alpha1.ErrMembership))
	r.Expect(r.api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)).To(Succeed())
	r.Expect(r.api.Delete(t.Context(), claim)).To(Succeed())
	r.Expect(r.handler.Perform(t.Context(), r.task.Task, step)).To(Succeed())
}

// A member that stays after all is told so, also where a pod that is told is another one by then, or is gone.
func TestStaysAfterAll(t *testing.T) {
	r := newTrial(t, 5, 3)
	r.Expect(r.next(0).Step.Operation).To(Equal("Announce"))
	r.task.Etcd.Spec.Replicas = 5
	r.Expect(r.api.Update(t.Context(), r.task.Etcd)).To(Succeed())
	r.live.Ordinals[1].Pod.UID = "another"
	r.Expect(r.api.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main-2"}})).To(Succeed())
	gone := &r.live.Ordinals[3]
	gone.Pod, gone.Class, gone.Answers, gone.Serving = nil, v1alpha1.ClassMissing, false, false
	r.Expect(r.settle().Step.Operation).To(Equal("Retract"))
	r.Expect(r.told()).To(HaveValue(And(HaveField("Leaving", BeEmpty()), HaveField("Generation", int64(2)))))
}

// What etcd refuses has the code of what was asked for.
func TestCodesOfRefusals(t *testing.T) {
	r := newTrial(t, 5, 3)
	for _, c := range []struct {
		action membership.Action
		code   v1alpha1.ErrorCode
	}{
		{membership.MoveLeader, v1alpha1.ErrMoveLeader}, {membership.PromoteLearner, v1alpha1.ErrMembership},
		{membership.RemoveMember, v1alpha1.ErrMembership}, {membership.AddLearner, v1alpha1.ErrMembership},
	} {
		r.fails = errors.New("no")
		in := input{}
		in.Etcd, in.Snapshot, in.Announced = r.task.Etcd, r.live, true
		r.live.At = r.clock.Now()
		step := tasks.Step{Detail: detail{in, membership.Step{Action: c.action, Member: 2, Successor: 1}, noon}}
		r.Expect(coded.Of(r.handler.Perform(t.Context(), r.task.Task, step), "")).To(Equal(c.code))
		r.dialing = errors.New("illegible certificate")
		r.Expect(r.handler.Perform(t.Context(), r.task.Task, step)).To(MatchError("connecting to main-0: illegible certificate"))
		r.dialing = nil
		for i := range r.live.Ordinals {
			r.live.Ordinals[i].Serving = false
		}
		r.Expect(r.handler.Perform(t.Context(), r.task.Task, step)).To(MatchError(ContainSubstring("no voter serves")))
		for i := range r.live.Ordinals {
			r.live.Ordinals[i].Serving = true
		}
	}
	r.Expect(r.asked).To(Equal([]string{"lead 1 at http://main-0:2379", "promote 2 at http://main-0:2379", "remove 2 at http://main-0:2379", "add [http://main-0.main-peer.ns.svc:2380] at http://main-0:2379"}))
	r.live.Ordinals[0].Pod.PeerTLS = v1alpha1.TLSOn
	in := input{}
	in.Etcd, in.Snapshot = r.task.Etcd, r.live
	r.Expect(peerURLs(in, 0)).To(Equal([]string{"https://main-0.main-peer.ns.svc:2380"}))
	r.Expect(peerURLs(in, 1)).To(Equal([]string{"http://main-1.main-peer.ns.svc:2380"}))
}

// A StatefulSet that another owns is not touched, and a cache that lags ends no task.
func TestAdmitsOnLiveReads(t *testing.T) {
	r := newTrial(t, 3, 3)
	set := &appsv1.StatefulSet{}
	r.Expect(r.api.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "main"}, set)).To(Succeed())
	v, err := r.handler.Admit(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(v).To(And(HaveField("Outcome", tasks.Continue), HaveField("Message", "the members of Etcd main are brought to 3, one at a time")))
	set.OwnerReferences[0].UID = "another"
	r.Expect(r.api.Update(t.Context(), set)).To(Succeed())
	v, err = r.handler.Admit(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(v.Code).To(Equal(v1alpha1.ErrForeignObject))

	r.task.Config.Size = 3
	r.Expect(r.handler.WorkKey(t.Context(), r.task)).To(Equal("size-3"))
	r.task.Etcd = r.task.Etcd.DeepCopy()
	r.task.Etcd.Spec.Replicas = 5
	r.Expect(r.handler.Superseded(t.Context(), r.task)).To(BeEmpty(), "the API server knows of no change")
}

// A task that has ended, or was deleted, leaves nothing behind: what it has requested, and may still take effect, is waited for before any
// other task, as if the task were superseded.
func TestCleanup(t *testing.T) {
	begun := func(answer error) *trial {
		r := newTrial(t, 1, 3)
		r.joining()
		r.fails = answer
		r.Expect(r.settle().Step.Operation).To(Equal("AddLearner"))
		r.Expect(r.handler.tracker.Of("task")).NotTo(BeZero())
		return r
	}
	for name, answer := range map[string]error{"lost": errors.New("the answer was lost"), "acknowledged": nil} {
		t.Run(name, func(t *testing.T) {
			r := begun(answer)
			for range 2 {
				err := r.handler.Cleanup(t.Context(), r.task.Task)
				r.Expect(err).To(MatchError("AddLearner was requested for main-1, which may still take effect"))
				r.Expect(coded.Of(err, "")).To(Equal(v1alpha1.ErrMembership))
			}
			r.clock.SetTime(r.clock.Now().Add(requestDeadline))
			r.Expect(r.handler.Cleanup(t.Context(), r.task.Task)).To(Succeed())
			r.Expect(r.handler.tracker.Of("task")).To(BeZero())
		})
	}
	r := begun(rpctypes.ErrUnhealthy)
	r.Expect(r.handler.Cleanup(t.Context(), r.task.Task)).To(Succeed(), "etcd has refused it")
	r.Expect(r.handler.tracker.Of("task")).To(BeZero())
	r.task.Object.Status.Membership = nil
	r.Expect(r.handler.Cleanup(t.Context(), r.task.Task)).To(Succeed(), "nothing was requested")
}
