// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package membership is the task type MembershipChange: it adds, replaces and removes members of an etcd cluster, one at a time, until
// the member list is what spec.replicas asks for. The decision is internal/membership's. This package observes, hands over, and
// carries out, and adds no judgment of its own.
package membership

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/base/etcdtasks"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Handler carries out MembershipChanges.
type Handler struct {
	// Client reads from the cache and writes to the API server, and Live reads from it.
	Client client.Client
	Live   client.Reader
	Reader members.Reader
	// Writer tells members that they leave.
	Writer memberconfig.Writer
	Clock  clock.PassiveClock
	// Rule decides which objects are the operator's.
	Rule replacer.Rule

	tracker tracker
}

// WorkKey implements tasks.Methods.
func (h *Handler) WorkKey(_ context.Context, task tasks.Typed[Config]) (string, error) {
	return fmt.Sprintf("size-%d", task.Config.Size), nil
}

// Superseded implements tasks.Methods. A cache that lags must not end a task. A task does not end while what it has requested may still
// take effect: the next task, or a rollout, would not know of that.
func (h *Handler) Superseded(ctx context.Context, task tasks.Typed[Config]) (string, error) {
	r := task.Object.Status.Membership
	if supersededBy(task.Config, task.Etcd) == "" || r != nil && h.tracker.isOpen(task.Object.UID, r.Request, h.Clock.Now()) {
		return "", nil
	}
	etcd, err := tasks.LiveEtcd(ctx, h.Live, task.Task)
	if err != nil {
		return "", err
	}
	return supersededBy(task.Config, etcd), nil
}

func supersededBy(config Config, etcd *v1alpha1.Etcd) string {
	switch wanted := etcd.Spec.Replicas; {
	case etcd.DeletionTimestamp != nil:
		return fmt.Sprintf("Etcd %s is being deleted", etcd.Name)
	case wanted == 0 && !etcd.SourceStays():
		return fmt.Sprintf("Etcd %s is to hibernate, with spec.replicas 0", etcd.Name)
	case config.Size != 0 && config.Size != wanted:
		return fmt.Sprintf("the task is for %d members, and spec.replicas of Etcd %s is %d", config.Size, etcd.Name, wanted)
	}
	return ""
}

// Admit implements tasks.Methods: the cluster has served, and there is a StatefulSet of the Etcd.
func (h *Handler) Admit(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	etcd, err := tasks.LiveEtcd(ctx, h.Live, task.Task)
	if err != nil {
		return tasks.Verdict{}, err
	}
	set, err := lookup.Get[appsv1.StatefulSet](ctx, h.Live, "StatefulSet", task.Object.EtcdKey())
	switch {
	case err != nil:
		return tasks.Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
	case set == nil:
		return tasks.Rejected(v1alpha1.ErrStatefulSetNotFound, "Etcd %s has no StatefulSet yet: create the task again once it exists", etcd.Name), nil
	}
	if foreign := h.Rule.Foreign(etcd, "StatefulSet", set); foreign != nil {
		return tasks.Rejected(v1alpha1.ErrForeignObject, "%s", foreign), nil
	}
	switch why := supersededBy(task.Config, etcd); {
	case why != "":
		return tasks.Rejected(v1alpha1.ErrSuperseded, "%s", why), nil
	case etcd.Status.ClusterID == "":
		return tasks.Rejected(v1alpha1.ErrNeverServed, "Etcd %s has never had a quorum, so its members cannot change: check why they do not start", etcd.Name), nil
	}
	return tasks.Verdict{Outcome: tasks.Continue, Message: fmt.Sprintf("the members of Etcd %s are brought to %d, one at a time", etcd.Name, etcd.Spec.Replicas)}, nil
}

// Execute implements tasks.Methods. It waits on what the cache shows. Everything else is decided on what the API server and a
// linearizable read of the member list say now.
func (h *Handler) Execute(ctx context.Context, task tasks.Typed[Config]) (tasks.Verdict, error) {
	if why, err := h.Superseded(ctx, task); err != nil || why != "" {
		return tasks.Rejected(v1alpha1.ErrSuperseded, "%s", why), err
	}
	snapshot, err := h.Reader.Observer.Observe(ctx, h.Client, task.Etcd)
	if err != nil {
		return tasks.AwaitStatefulSet(err)
	}
	in, d, err := h.decide(ctx, h.Client, task, task.Etcd, snapshot)
	if err != nil {
		return tasks.Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
	}
	if d.Conclusion == membership.Wait {
		return verdict(in, d, h.Clock.Now()), nil
	}
	etcd, err := tasks.LiveEtcd(ctx, h.Live, task.Task)
	if err != nil {
		return tasks.Verdict{}, err
	}
	if why := supersededBy(task.Config, etcd); why != "" {
		return tasks.Rejected(v1alpha1.ErrSuperseded, "%s", why), nil
	}
	if snapshot, err = h.Reader.Observer.Confirm(ctx, h.Live, etcd, snapshot); err != nil {
		return tasks.AwaitStatefulSet(err)
	}
	if in, d, err = h.decide(ctx, h.Live, task, etcd, snapshot); err != nil {
		return tasks.Verdict{}, coded.Error(v1alpha1.ErrObserve, err)
	}
	if in.awaitsController(d) {
		if in.obstacle, err = h.obstacle(ctx, task.Object.UID, etcd); err != nil {
			return tasks.Verdict{}, err
		}
	}
	return verdict(in, d, h.Clock.Now()), nil
}

// obstacle returns tasks.Obstacle, which reads every object of the Etcd. A task that waits for the controller looks each second, so after
// nothing was found it is not asked again for a while.
func (h *Handler) obstacle(ctx context.Context, task types.UID, etcd *v1alpha1.Etcd) (string, error) {
	now := h.Clock.Now()
	if now.Sub(h.tracker.Of(task).clearAt) < tasks.RecheckObstacle {
		return "", nil
	}
	why, err := tasks.Obstacle(ctx, h.Client, h.Live, etcd, false)
	if err == nil && why == "" {
		h.tracker.noObstacle(task, now)
	}
	return why, err
}

// decide reads what is known of the members beside a Snapshot, and decides.
func (h *Handler) decide(ctx context.Context, reader client.Reader, task tasks.Typed[Config], etcd *v1alpha1.Etcd, snapshot *cluster.Snapshot) (input, membership.Decision, error) {
	known, err := h.Reader.Read(ctx, reader, etcd, snapshot)
	if err != nil {
		return input{}, membership.Decision{}, err
	}
	all, err := etcdtasks.List(ctx, reader, etcd)
	if err != nil {
		return input{}, membership.Decision{}, err
	}
	in := input{Known: known, config: task.Config}
	if r := task.Object.Status.Membership; r != nil {
		in.recorded = *r
	}
	timers, pending := h.tracker.observe(task.Object.UID, known, in.recorded.Request, h.Clock.Now())
	in.Input = known.Input(members.Request{
		Goal: members.Goal(etcd, task.Config.Size, task.Config.SingleMember), Tasks: all, Timers: timers, Overridden: task.Object.Spec.OverrideGuards, Relieve: members.Relieve(etcd, all),
		Pending: pending, Acting: members.Acting(etcd, snapshot, all), NewClaim: in.recorded.NewClaim,
	})
	return in, membership.Decide(in.Input), nil
}

// Cleanup implements tasks.Methods. While what was requested may still take effect, it fails, so that no other task begins (Superseded).
func (h *Handler) Cleanup(ctx context.Context, task tasks.Task) error {
	// What refuses the mark costs a volume that is left behind. Failing would keep a recovery from starting.
	if err := h.markNewClaim(ctx, task.Object); coded.Refused(err) {
		log.FromContext(ctx).Error(err, "A claim that was made for a further member may stay")
	} else if err != nil {
		return coded.Error(v1alpha1.ErrMembership, err)
	}
	if r := task.Object.Status.Membership; r != nil && h.tracker.isOpen(task.Object.UID, r.Request, h.Clock.Now()) {
		return coded.Error(v1alpha1.ErrMembership, fmt.Errorf("%s, which may still take effect", describe(*r.Request)))
	}
	h.tracker.Forget(task.Object.UID)
	return nil
}

// pollInterval is how often a task that is blocked looks again: etcd sends no events.
const pollInterval = time.Second
