// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A starting operator finds many Etcds. It first reconciles those that have changed while no operator was running, and those that are
// quorate while their pods are replaced or their certificates renewed; then those that are not begun yet.
func TestChangedEtcdsComeFirst(t *testing.T) {
	g := NewWithT(t)
	queue := priorityqueue.New[reconcile.Request]("test")
	defer queue.ShutDown()
	for _, name := range []string{"new", "a", "changed", "b", "rolled", "hangs", "renewed"} {
		etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Status: v1alpha1.EtcdStatus{ObservedGeneration: 1}}
		ready := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}
		if name == "hangs" {
			ready.Status = metav1.ConditionFalse
		}
		etcd.Status.Conditions.Set(ready)
		switch name {
		case "new":
			etcd.Status = v1alpha1.EtcdStatus{}
		case "changed":
			etcd.Generation = 2
		case "rolled", "hangs":
			etcd.Status.Rollout = &v1alpha1.CurrentRollout{}
		case "renewed":
			etcd.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionTLSReady, Status: metav1.ConditionFalse})
		}
		enqueueEtcd().Create(t.Context(), event.CreateEvent{Object: etcd, IsInInitialList: true}, queue)
	}
	var order []string
	for range 7 {
		request, _, _ := queue.GetWithPriority()
		order = append(order, request.Name)
		queue.Done(request)
	}
	g.Expect(order).To(Equal([]string{"changed", "rolled", "renewed", "new", "a", "b", "hangs"}))
}

// What is looked at first: what has changed, then what is due, then what is healthy, and last what hangs.
func TestPriorities(t *testing.T) {
	g := NewWithT(t)
	g.Expect([]int{whenChanged, whenDue, whenHealthy, whenHanging}).To(Equal([]int{0, -1, handler.LowPriority, handler.LowPriority - 1}))
	g.Expect(priorityOf(retryConflict, false)).To(HaveValue(Equal(whenChanged)))
	g.Expect(priorityOf(pollTroubled, false)).To(HaveValue(Equal(whenDue)))
	g.Expect(priorityOf(pollHealthy, false)).To(HaveValue(Equal(whenHealthy)))
	g.Expect(priorityOf(pollTroubled, true)).To(HaveValue(Equal(whenHanging)))
	added := func(send func(q *addedQueue)) int {
		q := &addedQueue{}
		send(q)
		g.Expect(q.requests).To(ConsistOf(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ns", Name: "main"}}))
		return q.priority
	}
	unbegun := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}}
	begun := unbegun.DeepCopy()
	begun.Status.Conditions.Set(metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse})
	h := enqueueEtcd()
	g.Expect(added(func(q *addedQueue) { h.Create(t.Context(), event.CreateEvent{Object: unbegun}, q) })).To(Equal(whenDue))
	g.Expect(added(func(q *addedQueue) { h.Create(t.Context(), event.CreateEvent{Object: begun}, q) })).To(Equal(whenChanged))
	g.Expect(added(func(q *addedQueue) {
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: unbegun, ObjectNew: unbegun}, q)
	})).To(Equal(whenDue))
	g.Expect(added(func(q *addedQueue) { h.Update(t.Context(), event.UpdateEvent{ObjectOld: unbegun, ObjectNew: begun}, q) })).To(Equal(whenChanged))
	g.Expect(added(func(q *addedQueue) { h.Delete(t.Context(), event.DeleteEvent{Object: unbegun}, q) })).To(Equal(whenChanged))
}

// addedQueue records what is added to it, and with which priority.
type addedQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	requests []reconcile.Request
	priority int
}

func (q *addedQueue) AddWithOpts(o priorityqueue.AddOpts, requests ...reconcile.Request) {
	q.requests, q.priority = append(q.requests, requests...), *o.Priority
}

// enqueued returns the names of the Etcds that an event has reconciled a little later.
func enqueued(g *WithT, h handler.EventHandler, send func(handler.EventHandler, workqueue.TypedRateLimitingInterface[reconcile.Request])) (names []string) {
	q := &laterQueue{}
	send(h, q)
	for _, d := range q.after {
		g.Expect(d).To(Equal(settle))
	}
	return q.names
}

// laterQueue records what is added to it for later.
type laterQueue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	names []string
	after []time.Duration
}

func (q *laterQueue) AddAfter(r reconcile.Request, d time.Duration) {
	q.names, q.after = append(q.names, r.String()), append(q.after, d)
}

// A pod, a StatefulSet and a task have their Etcd reconciled, a little later and whatever happens to them; what is no Etcd's, none.
func TestWhoseObjectsTheyAre(t *testing.T) {
	in := func(o client.Object) client.Object { o.SetNamespace("ns"); return o }
	pod := func(component, etcd string) client.Object {
		return in(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelComponent: component, v1alpha1.LabelPartOf: etcd}}})
	}
	set := func(kind string) client.Object {
		return in(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: "main", Controller: ptr.To(true)}}}})
	}
	task := in(&v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{OwnerEtcdReference: v1alpha1.EtcdReference{Name: "main"}}})
	main := []string{"ns/main"}
	for name, c := range map[string]struct {
		of     func(client.Object) types.NamespacedName
		object client.Object
		want   []string
	}{
		"a member's pod":          {etcdOfPod, pod(v1alpha1.ComponentStatefulSet, "main"), main},
		"the pod of a Job":        {etcdOfPod, pod("job", "main"), nil},
		"a StatefulSet":           {etcdOfStatefulSet, set(v1alpha1.KindEtcd), main},
		"another StatefulSet":     {etcdOfStatefulSet, set("Database"), nil},
		"an orphaned StatefulSet": {etcdOfStatefulSet, in(&appsv1.StatefulSet{}), nil},
		"a task":                  {etcdOfTask, task, main},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
			h := afterwards(c.of)
			g.Expect(enqueued(g, h, func(h handler.EventHandler, q queue) { h.Create(t.Context(), event.CreateEvent{Object: c.object}, q) })).To(Equal(c.want))
			g.Expect(enqueued(g, h, func(h handler.EventHandler, q queue) {
				h.Update(t.Context(), event.UpdateEvent{ObjectOld: &corev1.Pod{}, ObjectNew: c.object}, q)
			})).To(Equal(c.want))
			g.Expect(enqueued(g, h, func(h handler.EventHandler, q queue) { h.Delete(t.Context(), event.DeleteEvent{Object: c.object}, q) })).To(Equal(c.want))
		})
	}
}

// Of a StatefulSet and a PodDisruptionBudget, everything but the status counts.
func TestNotItsStatus(t *testing.T) {
	before := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 1, OwnerReferences: []metav1.OwnerReference{{UID: "a", Controller: ptr.To(true)}}}}
	for name, c := range map[string]struct {
		change func(*appsv1.StatefulSet)
		want   bool
	}{
		"nothing":         {func(*appsv1.StatefulSet) {}, false},
		"its status":      {func(s *appsv1.StatefulSet) { s.Status.ReadyReplicas = 1 }, false},
		"its spec":        {func(s *appsv1.StatefulSet) { s.Generation = 2 }, true},
		"a label":         {func(s *appsv1.StatefulSet) { s.Labels = map[string]string{"a": "b"} }, true},
		"an annotation":   {func(s *appsv1.StatefulSet) { s.Annotations = map[string]string{"a": "b"} }, true},
		"no owner":        {func(s *appsv1.StatefulSet) { s.OwnerReferences = nil }, true},
		"another owner":   {func(s *appsv1.StatefulSet) { s.OwnerReferences[0].UID = "b" }, true},
		"no controller":   {func(s *appsv1.StatefulSet) { s.OwnerReferences[0].Controller = nil }, true},
		"the owner's own": {func(s *appsv1.StatefulSet) { s.OwnerReferences[0].Name = "renamed" }, false},
	} {
		after := before.DeepCopy()
		c.change(after)
		NewWithT(t).Expect(notItsStatus().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after})).To(Equal(c.want), name)
		NewWithT(t).Expect(notItsStatus().Update(event.UpdateEvent{ObjectOld: after, ObjectNew: before})).To(Equal(c.want), "back from: "+name)
	}
}

// Of tasks that replace, restore or change members, what the status of an Etcd shows of them counts.
func TestWhichChangesOfTasksCount(t *testing.T) {
	of := func(taskType v1alpha1.TaskType, change func(*v1alpha1.EtcdOperatorTaskStatus)) *v1alpha1.EtcdOperatorTask {
		task := &v1alpha1.EtcdOperatorTask{Spec: v1alpha1.EtcdOperatorTaskSpec{Type: taskType}}
		task.Status.State = v1alpha1.TaskStateInProgress
		if change != nil {
			change(&task.Status)
		}
		return task
	}
	for taskType, want := range map[v1alpha1.TaskType]bool{
		v1alpha1.QuorumAwareRollout: true, v1alpha1.RecreateRollout: true, v1alpha1.QuorumLossRecovery: true, v1alpha1.Restore: true, v1alpha1.MembershipChange: true,
		v1alpha1.OnDemandSnapshot: false, v1alpha1.OnDemandMaintenance: false,
	} {
		NewWithT(t).Expect(TaskChanged().Create(event.CreateEvent{Object: of(taskType, nil)})).To(Equal(want), string(taskType))
	}
	for name, c := range map[string]struct {
		taskType v1alpha1.TaskType
		change   func(*v1alpha1.EtcdOperatorTaskStatus)
		want     bool
	}{
		"nothing":  {v1alpha1.QuorumAwareRollout, nil, false},
		"state":    {v1alpha1.QuorumAwareRollout, func(s *v1alpha1.EtcdOperatorTaskStatus) { s.State = v1alpha1.TaskStateSucceeded }, true},
		"a detail": {v1alpha1.QuorumAwareRollout, func(s *v1alpha1.EtcdOperatorTaskStatus) { s.Rollout = &v1alpha1.RolloutStatus{} }, false},
		"revision": {v1alpha1.QuorumAwareRollout, func(s *v1alpha1.EtcdOperatorTaskStatus) { s.Rollout = &v1alpha1.RolloutStatus{TargetRevision: "r"} }, true},
		"stalled": {v1alpha1.QuorumAwareRollout, func(s *v1alpha1.EtcdOperatorTaskStatus) {
			s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue}}
		}, true},
		"held": {v1alpha1.RecreateRollout, func(s *v1alpha1.EtcdOperatorTaskStatus) {
			s.Rollout = &v1alpha1.RolloutStatus{Phase: v1alpha1.RecreateNeedsDeletion}
		}, true},
		"size": {v1alpha1.MembershipChange, func(s *v1alpha1.EtcdOperatorTaskStatus) {
			s.Membership = &v1alpha1.MembershipStatus{Replicas: ptr.To[int32](4)}
		}, true},
		"phase": {v1alpha1.QuorumLossRecovery, func(s *v1alpha1.EtcdOperatorTaskStatus) {
			s.Recovery = &v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoverySurveying}
		}, true},
	} {
		NewWithT(t).Expect(TaskChanged().Update(event.UpdateEvent{ObjectOld: of(c.taskType, nil), ObjectNew: of(c.taskType, c.change)})).To(Equal(c.want), name)
	}
	g := NewWithT(t)
	g.Expect(ReplacesPods.Create(event.CreateEvent{Object: of(v1alpha1.QuorumAwareRollout, nil)})).To(BeTrue())
	g.Expect(ReplacesPods.Create(event.CreateEvent{Object: of(v1alpha1.RecreateRollout, nil)})).To(BeFalse())
	g.Expect(ReplacesPods.Create(event.CreateEvent{Object: of(v1alpha1.QuorumAwareRollout, func(s *v1alpha1.EtcdOperatorTaskStatus) { s.State = v1alpha1.TaskStateSucceeded })})).To(BeFalse(), "it has ended")
}
