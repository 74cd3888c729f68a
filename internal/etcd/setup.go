// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/scale"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// An apply takes the verb patch. The owner references block the Etcd's deletion,
// which takes the right to its finalizers. The operator has to have each right that it gives to the agents: to get and to
// patch leases.
//
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=get;list;watch;patch
// The verb adopt is the right to give objects the operator's label: config/admission/reserved_label_policy.yaml.
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=adopt
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds/status,verbs=patch
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds/finalizers,verbs=update
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdoperatortasks,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=statefulsets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=configmaps;services;serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch

// Setup registers the controller with a manager whose cache has the index of tasks by their Etcd.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("etcd").
		WithOptions(controller.Options(concurrency)).
		// It names the kind. The handler beneath it chooses priorities, which that of For could only raise.
		For(&v1alpha1.Etcd{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(client.Object) bool { return false }))).
		// Not its status, which this controller writes itself.
		Watches(&v1alpha1.Etcd{}, enqueueEtcd(), builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		// Its status follows the pods.
		Owns(&appsv1.StatefulSet{}, builder.WithPredicates(notItsStatus())).
		Watches(&appsv1.StatefulSet{}, afterwards(etcdOfStatefulSet)).
		Owns(&corev1.ConfigMap{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		// Not its status, which follows the pods.
		Owns(&policyv1.PodDisruptionBudget{}, builder.WithPredicates(notItsStatus())).
		Watches(&corev1.Pod{}, afterwards(etcdOfPod)).
		// A claim that existed before its Etcd has no labels; it is read with the rest.
		Watches(&corev1.PersistentVolumeClaim{}, controller.Enqueue(controller.PartOf)).
		Watches(&v1alpha1.EtcdOperatorTask{}, controller.EnqueueEtcdOfTask(), builder.WithPredicates(TaskChanged(), predicate.Not(ReplacesPods))).
		Watches(&v1alpha1.EtcdOperatorTask{}, afterwards(etcdOfTask), builder.WithPredicates(TaskChanged(), ReplacesPods)).
		Complete(r)
}

// notItsStatus selects changes of an object outside its status: of its metadata, its spec or its owners.
func notItsStatus() predicate.Predicate {
	owners := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return !slices.EqualFunc(e.ObjectOld.GetOwnerReferences(), e.ObjectNew.GetOwnerReferences(), func(a, b metav1.OwnerReference) bool {
			return a.UID == b.UID && ptr.Deref(a.Controller, false) == ptr.Deref(b.Controller, false)
		})
	}}
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}, owners)
}

// enqueueEtcd enqueues an Etcd with the priority that priorityOfEvent gives it.
func enqueueEtcd() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(o client.Object, priority *int, q queue) {
		q.(priorityqueue.PriorityQueue[reconcile.Request]).AddWithOpts(priorityqueue.AddOpts{Priority: priority}, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			add(e.Object, priorityOfEvent(e.Object.(*v1alpha1.Etcd), e.IsInInitialList), q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			add(e.ObjectNew, priorityOfEvent(e.ObjectNew.(*v1alpha1.Etcd), false), q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, ptr.To(whenChanged), q) },
	}
}

func etcdOfPod(pod client.Object) types.NamespacedName {
	if pod.GetLabels()[v1alpha1.LabelComponent] != v1alpha1.ComponentStatefulSet {
		return types.NamespacedName{}
	}
	return controller.PartOf(pod)
}

func etcdOfStatefulSet(set client.Object) types.NamespacedName {
	owner := metav1.GetControllerOf(set)
	if owner == nil || owner.Kind != v1alpha1.KindEtcd {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: set.GetNamespace(), Name: owner.Name}
}

// settle is how long a change of a pod waits for further ones: a pod that starts or terminates changes several times within a moment, and
// so does the status of its StatefulSet. The controllers that act on pods then do not compete for CPU and the API server with a status that
// is about to change again.
const settle = time.Second

// afterwards reconciles an Etcd shortly after one of its objects has changed.
func afterwards(etcdOf func(client.Object) types.NamespacedName) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	later := func(o client.Object, q queue) {
		if key := etcdOf(o); key.Name != "" {
			q.AddAfter(reconcile.Request{NamespacedName: key}, settle)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { later(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { later(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { later(e.Object, q) },
	}
}

// ReplacesPods selects tasks that replace pods one by one and have not ended: the status that they change changes again with the pods.
var ReplacesPods = predicate.NewPredicateFuncs(func(o client.Object) bool {
	t := o.(*v1alpha1.EtcdOperatorTask)
	return t.Spec.Type == v1alpha1.QuorumAwareRollout && !t.Status.State.IsFinal()
})

func etcdOfTask(task client.Object) types.NamespacedName {
	return task.(*v1alpha1.EtcdOperatorTask).EtcdKey()
}

// TaskChanged selects changes of tasks that may affect status.rollout, status.recovery or the condition Stalled of an Etcd, or which task
// holds it at zero replicas.
func TaskChanged() predicate.Predicate {
	phase := func(t *v1alpha1.EtcdOperatorTask) v1alpha1.RecoveryPhase {
		return ptr.Deref(t.Status.Recovery, v1alpha1.RecoveryStatus{}).Phase
	}
	isStalled := func(t *v1alpha1.EtcdOperatorTask) bool {
		return meta.IsStatusConditionTrue(t.Status.Conditions, v1alpha1.ConditionStalled)
	}
	return predicate.And(
		predicate.NewPredicateFuncs(func(o client.Object) bool {
			t := o.(*v1alpha1.EtcdOperatorTask)
			return t.Spec.Type.IsRollout() || t.Spec.Type == v1alpha1.QuorumLossRecovery || t.Spec.Type == v1alpha1.Restore || t.Spec.Type == v1alpha1.MembershipChange
		}),
		predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1alpha1.EtcdOperatorTask), e.ObjectNew.(*v1alpha1.EtcdOperatorTask)
			return before.Status.State != after.Status.State || rollout.RecordedRevision(before) != rollout.RecordedRevision(after) || scale.Holds(before) != scale.Holds(after) || scale.ShowsChange(before, after) || phase(before) != phase(after) || isStalled(before) != isStalled(after)
		}},
	)
}
