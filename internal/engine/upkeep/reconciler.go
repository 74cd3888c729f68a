// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package upkeep creates the tasks that follow from the spec of an Etcd: compactions of its snapshots, and scheduled defragmentations. It
// changes nothing else.
package upkeep

import (
	"context"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pollInterval is how soon a task that could not be created yet is considered again if there is no event.
const pollInterval = 30 * time.Second

// foreignInterval is how often a foreign StatefulSet is checked: often enough that no turn lapses after an adoption.
const foreignInterval = latestStart / 2

// Reconciler creates the tasks that are due.
type Reconciler struct {
	// Client reads from the cache and writes to the API server; Live reads from there.
	Client   client.Client
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Backlog publishes how many events a compaction would compact; nil for an Etcd that is gone, or whose snapshots are not compacted. The
	// field may be nil.
	Backlog func(etcd types.NamespacedName, events *int64)
	// Thresholds of compactions for Etcds that name none.
	Thresholds configv1alpha1.SnapshotCompaction

	// turns holds the newest turns for which this operator has created a task. Without them, a task that a user has deleted within
	// latestStart would be created again.
	turns memory.PerEtcd[time.Time]
}

// Reconcile creates the due tasks of one Etcd.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	etcd, err := lookup.Get[v1alpha1.Etcd](ctx, r.Client, "Etcd", req.NamespacedName)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case etcd == nil:
		r.turns.Forget(req.NamespacedName)
		r.publish(req.NamespacedName, nil)
		return ctrl.Result{}, nil
	case etcd.DeletionTimestamp != nil:
		return ctrl.Result{}, nil
	}
	if foreign, err := observe.IsForeign(ctx, r.Client, etcd); err != nil || foreign {
		r.publish(req.NamespacedName, nil)
		return ctrl.Result{RequeueAfter: foreignInterval}, err
	}
	tasks, err := etcdtasks.List(ctx, r.Client, etcd)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.compact(ctx, etcd, tasks); err != nil {
		return ctrl.Result{}, err
	}
	after, err := r.defragment(ctx, etcd, tasks)
	return ctrl.Result{RequeueAfter: after}, err
}

// compact creates the task that spec.backup.snapshotCompaction asks for now, if any. New snapshots and the ends of tasks trigger
// reconciles.
func (r *Reconciler) compact(ctx context.Context, etcd *v1alpha1.Etcd, tasks []v1alpha1.EtcdOperatorTask) error {
	if !compacts(etcd) {
		r.publish(client.ObjectKeyFromObject(etcd), nil)
		return nil
	}
	leases, err := observe.ReadSnapshotLeases(ctx, r.Client, etcd)
	if err != nil {
		return err
	}
	_, events := backlog(leases)
	r.publish(client.ObjectKeyFromObject(etcd), &events)
	if found := compactionDue(etcd, r.Thresholds, leases, tasks); found != nil {
		return r.create(ctx, etcd, *found)
	}
	return nil
}

func (r *Reconciler) publish(etcd types.NamespacedName, events *int64) {
	if r.Backlog != nil {
		r.Backlog(etcd, events)
	}
}

// defragment creates the task that spec.etcd.defragmentationSchedule asks for now, if any. It returns when to reconcile again; 0 if only an
// event can change anything.
func (r *Reconciler) defragment(ctx context.Context, etcd *v1alpha1.Etcd, tasks []v1alpha1.EtcdOperatorTask) (time.Duration, error) {
	schedule, err := component.DefragmentationSchedule(etcd)
	if schedule == nil || err != nil {
		// The status of the Etcd shows the error.
		return 0, nil
	}
	now := r.Clock.Now()
	last, next := turns(schedule, etcd, now)
	after := time.Duration(0)
	if !next.begin.IsZero() {
		after = next.begin.Sub(now)
	}
	found := defragmentationDue(etcd, last, r.turns.Of(etcd), tasks, now)
	if found == nil {
		if last.at.After(r.turns.Of(etcd)) {
			// A member may be away.
			after = pollInterval
		}
		return after, nil
	}
	if err := r.create(ctx, etcd, *found); err != nil {
		return 0, err
	}
	r.turns.Set(etcd, last.at)
	return after, nil
}

// due is a task that follows from the spec. Its name is derived from its cause, so that an operator that decides the same again, after a
// crash or beside another operator, does not create a second one.
type due struct {
	taskType v1alpha1.TaskType
	name     string
	config   string
	// kept is how long the task is kept after its end. Until then it is not created again.
	kept time.Duration
	// reason of its event, and a message that says why it is due.
	reason, message string
}

// is reports whether a task is this one.
func (u due) is(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Spec.Type == u.taskType && etcdtasks.IsNamed(t, u.name)
}

// task of an Etcd.
func (u due) task(etcd *v1alpha1.Etcd) *v1alpha1.EtcdOperatorTask {
	return etcdtasks.New(etcd, u.name, v1alpha1.EtcdOperatorTaskSpec{
		Type: u.taskType, Config: u.config, TTLSecondsAfterFinished: ptr.To(int32(u.kept.Seconds())),
	})
}

// create creates a due task. An existing one was created for the same cause.
func (r *Reconciler) create(ctx context.Context, etcd *v1alpha1.Etcd, u due) error {
	return etcdtasks.Creator{Client: r.Client, Live: r.Live, Recorder: r.Recorder}.CreateDue(ctx, etcd, u.task(etcd), u.reason, u.message)
}
