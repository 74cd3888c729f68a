// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package memberships creates a MembershipChange if the members of a cluster differ from the spec of its Etcd: the cluster is to grow or
// shrink, a member has lost its data or is to get another volume, or a learner waits for its vote.
package memberships

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Reconciler creates tasks that change members.
type Reconciler struct {
	Client client.Client
	// Live reads from the API server. Tasks are only created on live reads.
	Live     client.Reader
	Reader   members.Reader
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
}

// pollInterval is how soon an Etcd whose members may have to change is reconciled again: etcd and agents send no events.
const pollInterval = 10 * time.Second

// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcdoperatortasks,verbs=get;list;watch;create;"create:MembershipChange"
// +kubebuilder:rbac:groups=druid.gardener.cloud,resources=etcds,verbs=get;list;watch

// Setup registers the controller with a manager whose cache has etcdtasks.Index.
func (r *Reconciler) Setup(mgr ctrl.Manager, concurrency int) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("membership").
		WithOptions(controller.Options(concurrency)).
		For(&v1alpha1.Etcd{}).
		Watches(&v1alpha1.EtcdOperatorTask{}, controller.EnqueueEtcdOfTask()).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.onDrain), builder.WithPredicates(cordons())).
		Complete(r)
}

// Reconcile ensures that a task covers the changes that the members of an Etcd need. The cache may decide that none is due, since each
// reconcile would otherwise cost a dozen requests while pods are replaced. A stale cache delays a task by a pollInterval.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var (
		etcd *v1alpha1.Etcd
		task *v1alpha1.EtcdOperatorTask
		why  string
	)
	for _, reader := range []client.Reader{r.Client, r.Live} {
		var err error
		if etcd, err = lookup.Get[v1alpha1.Etcd](ctx, reader, "Etcd", request.NamespacedName); err != nil || etcd == nil {
			return ctrl.Result{}, err
		}
		tasks, err := etcdtasks.List(ctx, reader, etcd)
		if err != nil || covered(tasks) {
			return ctrl.Result{}, err
		}
		cordoned, err := r.cordoned(ctx, etcd)
		if err != nil {
			return ctrl.Result{}, err
		}
		left, err := members.LeftBehind(ctx, reader, etcd, tasks)
		if err != nil || !mayBeDue(etcd, tasks, cordoned, left) {
			return ctrl.Result{}, err
		}
		// An adoption, and the way back, change the Etcd.
		if foreign, err := observe.IsForeign(ctx, reader, etcd); err != nil || foreign {
			return ctrl.Result{}, err
		}
		var wait time.Duration
		if task, wait = next(etcd, tasks, r.Clock.Now()); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
		if why, err = r.due(ctx, reader, etcd, tasks); err != nil || why == "" {
			return ctrl.Result{RequeueAfter: pollInterval}, err
		}
	}
	creator := etcdtasks.Creator{Client: r.Client, Live: r.Live, Recorder: r.Recorder}
	return ctrl.Result{}, creator.CreateDue(ctx, etcd, task, v1alpha1.ReasonMembersChange, why)
}

// due returns why a task is due, according to the decision that the task will make; empty if none is.
func (r *Reconciler) due(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd, tasks []v1alpha1.EtcdOperatorTask) (string, error) {
	snapshot, err := r.Reader.Observer.Observe(ctx, reader, etcd)
	if errors.Is(err, observe.ErrNoStatefulSet) || errors.Is(err, observe.ErrTooManyReplicas) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("observing Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	known, err := r.Reader.Read(ctx, reader, etcd, snapshot)
	if err != nil {
		return "", fmt.Errorf("reading the members of Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	in := known.Input(members.Request{Goal: members.Goal(etcd, 0, false), Tasks: tasks, Relieve: members.Relieve(etcd, tasks), Acting: members.Acting(etcd, snapshot, tasks)})
	d := membership.Decide(in)
	if outdated, _ := snapshot.PodsBehind(); !isDue(in, d, outdated, tasks) {
		return "", nil
	}
	return d.Step.Reason, nil
}
