// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/controller"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Intervals after which an Etcd is reconciled if no event triggers it.
const (
	// retryConflict lets the cache catch up.
	retryConflict = time.Second
	// pollTroubled is for a cluster that is not healthy: etcd sends no events.
	pollTroubled = 2 * time.Second
	// pollHealthy is for a healthy cluster.
	pollHealthy = 30 * time.Second
)

// pollAfter returns when to reconcile again if no event triggers it.
func pollAfter(status *v1alpha1.EtcdStatus) time.Duration {
	if c := status.Conditions.Find(v1alpha1.ConditionHibernated); c != nil && (c.Reason == v1alpha1.ReasonHibernating || c.Reason == v1alpha1.ReasonWakingUp) {
		return pollTroubled
	}
	for _, condition := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionAllMembersReady, v1alpha1.ConditionScaled} {
		c := status.Conditions.Find(condition)
		if c == nil || c.Status == metav1.ConditionTrue || c.Reason == v1alpha1.ReasonHibernated {
			continue
		}
		return pollTroubled
	}
	if c := status.Conditions.Find(v1alpha1.ConditionVolumesMoved); c != nil && c.Reason == v1alpha1.ReasonVolumesMoving {
		return pollTroubled
	}
	if c := status.Conditions.Find(v1alpha1.ConditionTLSReady); c != nil && c.Status != metav1.ConditionTrue {
		return pollTroubled
	}
	return pollHealthy
}

// The priorities of reconciles, the highest first: an operator finishes what it has begun (docs/adr/0115-what-is-begun-is-finished-first.md).
const (
	// whenChanged is for an Etcd of which something has changed.
	whenChanged = 0
	// whenDue is for an Etcd that is not begun yet, and for one that is not healthy and of which nothing is known to have changed. They take
	// turns: however many there are of the one, the others are reconciled.
	whenDue = controller.Unhurried
	// whenHealthy is for a healthy Etcd, and whenHanging for one whose members hang.
	whenHealthy = handler.LowPriority
	whenHanging = handler.LowPriority - 1
)

// priorityOf returns the priority of a reconcile after a while, if no event triggers it.
func priorityOf(after time.Duration, hangs bool) *int {
	switch {
	case hangs:
		return ptr.To(whenHanging)
	case after >= pollHealthy:
		return ptr.To(whenHealthy)
	case after <= retryConflict:
		// The cache shows by then what has changed.
		return ptr.To(whenChanged)
	}
	return ptr.To(whenDue)
}

// priorityOfEvent returns the priority of an Etcd that was created or has changed, or that a starting operator finds.
func priorityOfEvent(e *v1alpha1.Etcd, found bool) *int {
	switch {
	case len(e.Status.Conditions) == 0:
		// It is not begun.
		return ptr.To(whenDue)
	case found && !isUrgent(e):
		return ptr.To(whenHealthy)
	}
	return ptr.To(whenChanged)
}

// isUrgent reports whether a starting operator reconciles an Etcd before others: its spec has changed, or it has a quorum while its pods
// are replaced or its certificates renewed.
func isUrgent(e *v1alpha1.Etcd) bool {
	movesTLS := e.Status.Conditions.Find(v1alpha1.ConditionTLSReady) != nil && !e.Status.Conditions.IsTrue(v1alpha1.ConditionTLSReady)
	return state.Due(e) || e.Status.Conditions.IsTrue(v1alpha1.ConditionReady) && (e.Status.Rollout != nil || movesTLS)
}

// hangsAfter is the least time that an observation takes if a member hangs. A member that answers does so in milliseconds; one that is not
// running refuses the connection.
const hangsAfter = time.Second

// hangs reports whether members hang, given a Snapshot and how long it took.
func hangs(s *cluster.Snapshot, took time.Duration) bool {
	return s != nil && took >= hangsAfter && slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool { return o.Pod != nil && !o.Answers })
}

// hanging counts how often in a row members of an Etcd hung, and until when the current wait lasts. Observing them occupies a worker for
// seconds, so the waits grow until they are as long as those of a healthy Etcd. A change triggers a reconcile before the wait is over, and
// the waits start over.
type hanging struct {
	times int
	until time.Time
}

// next returns the state after another observation.
func (h hanging) next(hangs bool, now time.Time) hanging {
	switch {
	case !hangs:
		return hanging{}
	case now.Before(h.until):
		h.times = 0
	}
	h.times++
	h.until = now.Add(h.wait())
	return h
}

// wait returns the least time to wait; 0 while nothing hangs.
func (h hanging) wait() time.Duration {
	wait := pollTroubled
	for range h.times - 1 {
		wait = min(2*wait, pollHealthy)
	}
	if h.times == 0 {
		return 0
	}
	return wait
}
