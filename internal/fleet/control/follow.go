// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxGap is how long may pass between two looks for what lasts to last: several intervals.
	maxGap = time.Minute
	// settle is how long a cluster may take to be well after its task has succeeded, and how long one has to be well whose task was
	// deleted: its status follows.
	settle = time.Minute
)

// follow finds out what has become of the holders. One of which that cannot be read keeps its slot.
func (c *Controller) follow(ctx context.Context, v *view, l *fleet.Ledger) (all []finding, err error) {
	shown := map[types.UID]state{}
	well, unwell, whole := map[types.UID]bool{}, map[types.UID]bool{}, map[types.UID]bool{}
	for i := range l.Holders {
		h := &l.Holders[i]
		if h.Ended.IsZero() {
			f, unread := c.taskOf(ctx, v, h)
			if err = errors.Join(err, unread); f != nil {
				all = append(all, *f)
				whole[h.Task] = f.kind == aborted && f.reason == ""
			}
			continue
		}
		s := c.shown(ctx, v, h)
		shown[h.Task], well[h.Task], unwell[h.Task] = s, s.isWell(), s.broken != "" && !l.Maintained(h)
	}
	now := c.Clock.Now()
	c.well, c.unwell, c.whole = c.well.Next(well, now, maxGap), c.unwell.Next(unwell, now, maxGap), c.whole.Next(whole, now, maxGap)
	for task, timer := range c.whole {
		if timer.Lasted(settle) {
			all = append(all, finding{task: task, kind: released})
		}
	}
	for i := range l.Holders {
		if h := &l.Holders[i]; !h.Ended.IsZero() && !c.unfollowed() {
			f, unread := c.watched(ctx, v, l, h, shown[h.Task])
			if err = errors.Join(err, unread); f != nil {
				all = append(all, *f)
			}
		}
	}
	return all, err
}

// unfollowed reports whether this operator has not followed the holders for a while, as without a policy.
func (c *Controller) unfollowed() bool {
	return !c.followed.IsZero() && !lasting.Unbroken(c.followed, c.Clock.Now(), maxGap)
}

// watched says what has become of a cluster that is watched; nil if there is nothing new. The cache may show what was: what it says is only
// so if live reads say it, too.
func (c *Controller) watched(ctx context.Context, v *view, l *fleet.Ledger, h *fleet.Holder, shown state) (*finding, error) {
	if len(v.covering[h.Namespace]) == 0 {
		return &finding{task: h.Task, kind: released}, nil
	}
	if c.verdict(v, l, h, shown) == nil {
		return nil, nil
	}
	live, err := c.live(ctx, v, h)
	if err != nil {
		return nil, err
	}
	if !live.isWell() {
		// The time does not count.
		delete(c.well, h.Task)
	}
	return c.verdict(v, l, h, live), nil
}

// verdict says what has become of a cluster that is watched, by how it is. How long it is watched is not known while the cache does not show
// a policy.
func (c *Controller) verdict(v *view, l *fleet.Ledger, h *fleet.Holder, s state) *finding {
	switch {
	case s.gone:
		return &finding{task: h.Task, kind: released, reason: s.left}
	case l.Maintained(h):
		// What is not well may be the task's doing. While it is well, the time counts.
		return nil
	case s.broken != "" && (h.Baseline != "" || c.unwell[h.Task].Lasted(settle)):
		return &finding{task: h.Task, kind: broke, reason: "while it was watched: " + s.broken}
	case !s.isWell():
		return nil
	case h.Baseline == "":
		return &finding{task: h.Task, kind: baseline, reason: s.baseline}
	case unseen(l, v) == "" && c.well[h.Task].Lasted(c.soak(v, h)) && c.confirms(v, h):
		return &finding{task: h.Task, kind: soaked}
	}
	return nil
}

// confirms reports whether members were asked since a task has ended, and a moment ago: a status is not written while nothing changes, nor
// while a reconcile fails.
func (c *Controller) confirms(v *view, h *fleet.Holder) bool {
	if c.Looked == nil {
		return true
	}
	etcd := v.etcds[h.Etcd]
	return etcd != nil && c.Looked(etcd).After(h.Ended) && lasting.Unbroken(c.Looked(etcd), c.Clock.Now(), maxGap)
}

// soak is how long a cluster is watched: as long as the most patient of its policies wants.
func (c *Controller) soak(v *view, h *fleet.Holder) (longest time.Duration) {
	for _, name := range h.Policies {
		if p := v.policies[name]; p != nil {
			longest = max(longest, p.Soak)
			if h.Canary {
				longest = max(longest, p.Canary.Soak)
			}
		}
	}
	return longest
}

// taskOf says what has become of the task of a holder; nil if it runs. Only a live read ends what holds a slot, or has a change fail.
func (c *Controller) taskOf(ctx context.Context, v *view, h *fleet.Holder) (*finding, error) {
	if t := v.tasks[h.Task]; t != nil && t.Status.State == v1alpha1.TaskStateInProgress && (!h.MayFail() || c.running(h, t, v.etcds[h.Etcd]) == nil) {
		return nil, nil
	}
	t := &v1alpha1.EtcdOperatorTask{}
	err := c.Live.Get(ctx, types.NamespacedName{Namespace: h.Namespace, Name: h.TaskName}, t)
	switch {
	case apierrors.IsNotFound(err) || err == nil && (t.UID != h.Task || isAborted(t)):
		return c.deleted(ctx, h)
	case err != nil:
		return nil, fmt.Errorf("reading task %s/%s, which holds a slot: %w", h.Namespace, h.TaskName, err)
	}
	switch t.Status.State {
	case v1alpha1.TaskStateSucceeded:
		return &finding{task: h.Task, kind: succeeded}, nil
	case v1alpha1.TaskStateFailed:
		return &finding{task: h.Task, kind: failed, reason: "task " + h.TaskName + " failed: " + t.Status.Progressing().Message}, nil
	case v1alpha1.TaskStateRejected:
		return c.superseded(ctx, h, t)
	case v1alpha1.TaskStateInProgress:
		etcd, err := c.readEtcd(ctx, h)
		return c.running(h, t, etcd), err
	}
	// It has not started. Its start can only be written on the resourceVersion that the grant was for.
	if t.ResourceVersion != h.ResourceVersion {
		return &finding{task: h.Task, kind: unstarted, version: h.ResourceVersion}, nil
	}
	return nil, nil
}

// isAborted reports whether a task was deleted while it ran. If a finalizer keeps it, no operator takes it a step further.
func isAborted(t *v1alpha1.EtcdOperatorTask) bool {
	return t.DeletionTimestamp != nil && t.Status.State == v1alpha1.TaskStateInProgress
}

// running says whether a change has failed in a cluster whose task runs; nil if it has not. A recreation that stops nothing yet has changed nothing.
// The Etcd is nil if it is not known.
func (c *Controller) running(h *fleet.Holder, t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) *finding {
	if t.StopsNothingYet() {
		return nil
	}
	if p := t.Status.Progressing(); p.Reason == v1alpha1.ReasonStalled && c.idle(t) >= c.Patience {
		return &finding{task: h.Task, kind: failing, reason: "task " + t.Name + " is stalled: " + p.Message}
	}
	if etcd == nil {
		return nil
	}
	if ready := etcd.Status.Conditions.Find(v1alpha1.ConditionReady); ready != nil && ready.Reason == v1alpha1.ReasonQuorumLost && ready.Status == metav1.ConditionFalse && etcd.Spec.Replicas > 1 && !expected(t, ready) {
		return &finding{task: h.Task, kind: failing, reason: "the quorum was lost: " + ready.Message}
	}
	return nil
}

// expected reports whether a task does not answer for the loss of the quorum: the cluster was not Ready when it began, or it is a RecreateRollout
// that has stopped all members. If the quorum does not come back, such a task stalls.
func expected(t *v1alpha1.EtcdOperatorTask, lost *metav1.Condition) bool {
	return t.Status.Rollout != nil && t.Status.Rollout.Phase != "" || !lost.LastTransitionTime.IsZero() && lost.LastTransitionTime.Before(t.Status.InitiatedAt)
}

// idle is for how long a rollout or recreation has made no progress; as long as can be for other tasks. It is not idle while it is suspended or
// pauses: it has been for as long as it is stalled, and for the deadline after which it was.
func (c *Controller) idle(t *v1alpha1.EtcdOperatorTask) time.Duration {
	now, deadline, idle := c.Clock.Now(), c.Patience, time.Duration(math.MaxInt64)
	if r := t.Status.Rollout; r != nil && !r.LastProgressTime.IsZero() {
		idle = now.Sub(r.LastProgressTime.Time)
	}
	if t.Spec.Type == v1alpha1.QuorumAwareRollout {
		if config, err := taskconfig.Decode[rollout.Config](t.Spec.Config); err == nil {
			deadline = config.ProgressDeadline.Duration
		}
	}
	return min(idle, now.Sub(t.Status.Progressing().LastTransitionTime.Add(-deadline)))
}

// superseded says what has become of a task that was rejected: the change has neither succeeded nor failed, unless it is a canary whose
// members are not well.
func (c *Controller) superseded(ctx context.Context, h *fleet.Holder, t *v1alpha1.EtcdOperatorTask) (*finding, error) {
	f := &finding{task: h.Task, kind: released}
	if !h.Canary || !hasBegun(t) || t.StopsNothingYet() {
		return f, nil
	}
	etcd, err := c.readEtcd(ctx, h)
	switch {
	case err != nil:
		return nil, err
	case etcd == nil:
		return f, nil
	}
	if f.reason, err = c.leaves(ctx, t, etcd); err != nil {
		return nil, err
	}
	return f, nil
}

// onePass is how long a task that was superseded in the pass in which it was admitted has run at most.
const onePass = 2 * time.Second

// hasBegun reports whether a task that was rejected may have changed its cluster: it was admitted, and then recorded a step or ran for longer
// than a pass. The longer it ran, the more may have followed from it elsewhere, such as a second member.
func hasBegun(t *v1alpha1.EtcdOperatorTask) bool {
	s := &t.Status
	if !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionAdmitted) {
		return false
	}
	return s.LastOperation != nil || s.InitiatedAt == nil || s.CompletedAt == nil || s.CompletedAt.Sub(s.InitiatedAt.Time) > onePass
}

// deleted says what has become of a task that is gone. Its slot is released once its cluster has lacked no member for a while, since a
// step may have been underway. A deletion aborts the task: the change has neither succeeded nor failed, as when one is superseded.
func (c *Controller) deleted(ctx context.Context, h *fleet.Holder) (*finding, error) {
	etcd, err := c.readEtcd(ctx, h)
	switch {
	case err != nil:
		return nil, err
	case etcd == nil:
		return &finding{task: h.Task, kind: released}, nil
	}
	reason, err := c.leaves(ctx, &v1alpha1.EtcdOperatorTask{ObjectMeta: metav1.ObjectMeta{Name: h.TaskName}}, etcd)
	if err != nil {
		return nil, err
	}
	return &finding{task: h.Task, kind: aborted, reason: reason}, nil
}

// leaves is left, by the pods as well, whose conditions may not show yet that one is not ready.
func (c *Controller) leaves(ctx context.Context, t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) (string, error) {
	if reason := left(t, etcd); reason != "" {
		return reason, nil
	}
	pod, err := unready(ctx, c.Live, etcd)
	if err != nil || pod == "" {
		return "", err
	}
	return fmt.Sprintf("task %s ended before it had succeeded, while pod %s was not ready", t.Name, pod), nil
}

// left says how a task that ended, and neither succeeded nor failed, has left its members, by what it recorded and by how they are now;
// empty if they are well.
func left(t *v1alpha1.EtcdOperatorTask, etcd *v1alpha1.Etcd) string {
	ended := fmt.Sprintf("task %s ended before it had succeeded, ", t.Name)
	if r := t.Status.Rollout; r != nil {
		if r.Phase != "" && r.Phase != v1alpha1.RecreateComplete {
			return ended + "while all pods were being replaced"
		}
		for _, p := range r.Pods {
			if p.LastOperation.State == v1alpha1.OperationStateInProgress {
				return ended + fmt.Sprintf("while pod %s was being replaced or updated", p.Name)
			}
		}
	}
	all := etcd.Status.Conditions.Find(v1alpha1.ConditionAllMembersReady)
	switch {
	case all == nil:
		return ended + "while nothing was known of its members"
	case all.Status != metav1.ConditionTrue:
		return ended + fmt.Sprintf("while AllMembersReady was %s: %s", all.Status, all.Message)
	}
	return ""
}

// readEtcd reads the Etcd of a holder; nil if it is gone or hibernated.
func (c *Controller) readEtcd(ctx context.Context, h *fleet.Holder) (*v1alpha1.Etcd, error) {
	etcd := &v1alpha1.Etcd{}
	err := c.Live.Get(ctx, types.NamespacedName{Namespace: h.Namespace, Name: h.EtcdName}, etcd)
	switch {
	case apierrors.IsNotFound(err) || err == nil && (etcd.UID != h.Etcd || etcd.Spec.Replicas == 0):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Etcd %s/%s, which holds a slot: %w", h.Namespace, h.EtcdName, err)
	}
	return etcd, nil
}
