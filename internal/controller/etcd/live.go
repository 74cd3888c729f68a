// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/etcdtasks"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What stops all members, or starts them, is decided on what the API server says, never on the cache alone
// (docs/adr/0016-live-reads-and-clocks.md).

// maxReadAge is how old a live read may be when all members are stopped, or started, on it. It is well below the duration of
// the leader-election lease: after a longer pause another operator may have taken over.
const maxReadAge = 4 * time.Second

// behind ends a pass whose cache shows something that the API server does not.
func behind(ctx context.Context, format string, args ...any) error {
	ctrl.LoggerFrom(ctx).Info("Nothing is done, because the cache is behind the API server", "reason", fmt.Sprintf(format, args...))
	return errAgain
}

// liveReads are reads from the API server on which members are stopped, started, or told something. They are good for a short
// time.
type liveReads struct {
	client.Reader
	clock clock.PassiveClock
	since time.Time
}

// readLive begins to read.
func readLive(r *Reconciler) liveReads { return liveReads{r.APIReader, r.Clock, r.Clock.Now()} }

// fresh returns errAgain when what was read is too old to act on: the operator was paused, or its requests took too long.
func (l liveReads) fresh(ctx context.Context) error {
	if age := l.clock.Since(l.since); age > maxReadAge {
		ctrl.LoggerFrom(ctx).Info("Nothing is done, because what it rests on was read too long ago", "age", age)
		return errAgain
	}
	return nil
}

// etcd returns the Etcd as the API server has it, or errAgain when it is gone, is being deleted, or is another one.
func (l liveReads) etcd(ctx context.Context, cached *v1alpha1.Etcd) (*v1alpha1.Etcd, error) {
	live, key := &v1alpha1.Etcd{}, client.ObjectKeyFromObject(cached)
	if err := l.Get(ctx, key, live); apierrors.IsNotFound(err) {
		return nil, behind(ctx, "Etcd %s is gone", key)
	} else if err != nil {
		return nil, fmt.Errorf("reading Etcd %s: %w", key, err)
	}
	switch {
	case live.UID != cached.UID:
		return nil, behind(ctx, "Etcd %s is another one now, with UID %s", key, live.UID)
	case live.DeletionTimestamp != nil:
		return nil, behind(ctx, "Etcd %s is being deleted", key)
	}
	return live, nil
}

// tasksOf are the tasks of an Etcd as a reader sees them, without those that are for an earlier Etcd of the same name.
func tasksOf(ctx context.Context, reader client.Reader, etcd *v1alpha1.Etcd) ([]v1alpha1.EtcdOperatorTask, error) {
	key, all := client.ObjectKeyFromObject(etcd), &v1alpha1.EtcdOperatorTaskList{}
	if err := reader.List(ctx, all, etcdtasks.Of(key)); err != nil {
		return nil, fmt.Errorf("listing the tasks of Etcd %s: %w", key, err)
	}
	return slices.DeleteFunc(all.Items, func(t v1alpha1.EtcdOperatorTask) bool { return etcdtasks.Foreign(&t, etcd) != "" }), nil
}

// startsOrStopsAll reports whether a StatefulSet that is to have so many replicas starts, or stops, all members. One that is
// made does: it adopts the pods of a StatefulSet that was orphaned, and removes those beyond its replicas.
func startsOrStopsAll(set *appsv1.StatefulSet, replicas int32) bool {
	return set == nil || (ptr.Deref(set.Spec.Replicas, 1) == 0) != (replicas == 0)
}

// outdated says what is different about the live Etcd, of all that decides whether its members run; empty when the cache is up
// to date. It is pure.
func outdated(cached, live *v1alpha1.Etcd, set *appsv1.StatefulSet) string {
	was, is := &cached.Status, &live.Status
	switch {
	case !equality.Semantic.DeepEqual(cached.Spec, live.Spec):
		return "its spec has changed"
	case specSuspended(cached) != specSuspended(live):
		return "the reconciliation of its spec was suspended, or resumed"
	case was.ClusterID != is.ClusterID || was.ClusterSize != is.ClusterSize:
		return "its cluster is another one, or has another size"
	case !equality.Semantic.DeepEqual(was.Hibernation, is.Hibernation) || !equality.Semantic.DeepEqual(was.Recovery, is.Recovery):
		return "it has hibernated, woken up, or been recovered"
	case (keptAwake(cached, set) == "") != (keptAwake(live, set) == ""):
		return "its backups work no more, or work again"
	}
	return ""
}

// scaling is a decision on the replicas of a StatefulSet that is about to be carried out.
type scaling struct {
	etcd *v1alpha1.Etcd
	// set that the decision rests on; nil when there was none.
	set      *appsv1.StatefulSet
	replicas int32
	// reads that confirmed it; nil where that is not needed.
	reads *liveReads
}

// confirm returns errAgain unless the API server shows the same Etcd as the cache, and no task that holds the members of one
// that starts. The caller holds the lock of the Etcd.
func (s *scaling) confirm(ctx context.Context, reads liveReads) error {
	s.reads = &reads
	live, err := reads.etcd(ctx, s.etcd)
	if err != nil {
		return err
	}
	if why := outdated(s.etcd, live, s.set); why != "" {
		return behind(ctx, "Etcd %s: %s", client.ObjectKeyFromObject(live), why)
	}
	if s.replicas == 0 {
		return nil
	}
	tasks, err := tasksOf(ctx, reads, live)
	if err != nil {
		return err
	}
	if by := holder(tasks, live.Status.Recovery); by != nil {
		return behind(ctx, "task %s keeps all members stopped", by.Name)
	}
	return nil
}

// permit is asked right before a StatefulSet is written, with the one that the write is based on; nil when it is made. It
// returns errAgain when that is not the one on which the decision rests, or when the confirmation is too old.
func (s *scaling) permit(ctx context.Context, base *appsv1.StatefulSet) error {
	switch {
	case s == nil:
		return nil
	case (base == nil) != (s.set == nil), base != nil && ptr.Deref(base.Spec.Replicas, 1) != ptr.Deref(s.set.Spec.Replicas, 1):
		return behind(ctx, "StatefulSet %s was scaled, made or deleted", client.ObjectKeyFromObject(s.etcd))
	case s.reads == nil:
		return nil
	}
	return s.reads.fresh(ctx)
}
