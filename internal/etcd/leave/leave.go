// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package leave removes the members of a deleted Etcd from the source cluster that they have joined, before the Etcd is gone. Otherwise
// they would stay in its member list, where each counts as a voter that is down.
package leave

import (
	"context"
	"fmt"
	"slices"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/memory"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/apply"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

const (
	// lookInterval is the interval of observations: timers need them without a gap.
	lookInterval = time.Second
	// unreachableInterval is the interval while no member of the source answers.
	unreachableInterval = 10 * time.Second
)

// Leaver removes members from a source cluster.
type Leaver struct {
	state.Access
	Reader members.Reader
	// Observe takes a Snapshot of the cluster that the members have joined, without the Etcd's pods, which may be gone (observe.Observer).
	Observe func(context.Context, *v1alpha1.Etcd) (*cluster.Snapshot, error)

	timers memory.PerEtcd[timers]
}

// Forget forgets the Etcd of a name.
func (l *Leaver) Forget(etcd types.NamespacedName) { l.timers.Forget(etcd) }

// owes reports whether members of an Etcd may be in the list of a source cluster. They are not after a recovery, which is only possible
// after the cut-over and makes another cluster.
func owes(etcd *v1alpha1.Etcd) bool {
	return etcd.Source() != nil && etcd.Status.ClusterID != "" && etcd.Status.Recovery == nil
}

// Hold adds a finalizer to a live Etcd, so that it is not gone before its members have left the source cluster. It must be called before a
// member is added there. It refuses an Etcd that is already being deleted.
func Hold(ctx context.Context, writer client.Client, etcd *v1alpha1.Etcd) error {
	switch {
	case !owes(etcd) || controllerutil.ContainsFinalizer(etcd, v1alpha1.FinalizerLeaveSource):
		return nil
	case etcd.DeletionTimestamp != nil:
		return fmt.Errorf("adding a member of Etcd %s to the source cluster: the Etcd is being deleted", client.ObjectKeyFromObject(etcd))
	}
	return patch(ctx, writer, etcd, controllerutil.AddFinalizer)
}

// Keep adds the finalizer to an Etcd whose members are listed by a source cluster, and removes it once they can no longer be. A task calls
// Hold before it adds the first member, so an Etcd without the finalizer has nothing to leave, unless its members show that they are
// listed. For an Etcd that etcd-druid manages, released is true.
func (l *Leaver) Keep(ctx context.Context, etcd *v1alpha1.Etcd, s *cluster.Snapshot, released bool) error {
	switch has := controllerutil.ContainsFinalizer(etcd, v1alpha1.FinalizerLeaveSource); {
	case owes(etcd) && !released && (has || haveJoined(etcd, s)):
		return Hold(ctx, l.Client, etcd)
	case !has:
		return nil
	}
	return patch(ctx, l.Client, etcd, controllerutil.RemoveFinalizer)
}

// haveJoined reports whether members of an Etcd are, or were, seen in the list of the source. The Snapshot may be nil.
func haveJoined(etcd *v1alpha1.Etcd, s *cluster.Snapshot) bool {
	return etcd.Status.BootstrapWithExistingCluster != nil || s != nil &&
		(slices.ContainsFunc(s.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal >= 0 }) ||
			slices.ContainsFunc(s.Ordinals, func(o cluster.Ordinal) bool { return o.Answers }))
}

// patch changes the finalizers of an Etcd, provided that it is as it was read.
func patch(ctx context.Context, writer client.Client, etcd *v1alpha1.Etcd, change func(client.Object, string) bool) error {
	before := etcd.DeepCopy()
	change(etcd, v1alpha1.FinalizerLeaveSource)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := writer.Patch(ctx, etcd, patch, apply.Manager); err != nil {
		return fmt.Errorf("writing the finalizers of Etcd %s: %w", client.ObjectKeyFromObject(etcd), err)
	}
	return nil
}

// Leave takes the next step for a deleted Etcd. It returns what the Etcd still waits for and when to look again; both are zero once the
// garbage collector may remove it.
func (l *Leaver) Leave(ctx context.Context, cached *v1alpha1.Etcd) (why string, after time.Duration, err error) {
	if !controllerutil.ContainsFinalizer(cached, v1alpha1.FinalizerLeaveSource) {
		return "", 0, nil
	}
	key := client.ObjectKeyFromObject(cached)
	// The lock keeps tasks from taking a step at the same time.
	defer l.Locker.Lock(key)()
	etcd := &v1alpha1.Etcd{}
	if err := l.API.Get(ctx, key, etcd); err != nil {
		return "", 0, fmt.Errorf("reading Etcd %s: %w", key, err)
	}
	if etcd.UID != cached.UID || !controllerutil.ContainsFinalizer(etcd, v1alpha1.FinalizerLeaveSource) {
		return "", 0, state.Behind(ctx, "Etcd %s is another one now, or has lost its finalizer", key)
	}
	released, err := l.isReleased(ctx, etcd)
	if err != nil {
		return "", 0, err
	}
	if !released {
		if why, after, err = l.step(ctx, etcd); err != nil || why != "" {
			return why, after, err
		}
	}
	return "", 0, patch(ctx, l.Client, etcd, controllerutil.RemoveFinalizer)
}

// isReleased reports whether the Etcd need not be kept: there is nothing to leave, a person has agreed that this Etcd leaves its members
// behind, or the members are to run on without it because it was deleted with --cascade=orphan.
func (l *Leaver) isReleased(ctx context.Context, etcd *v1alpha1.Etcd) (bool, error) {
	if !owes(etcd) || etcd.Annotations[v1alpha1.AnnotationAbandonSource] == string(etcd.UID) || slices.Contains(etcd.Finalizers, metav1.FinalizerOrphanDependents) {
		return true, nil
	}
	set, err := lookup.Get[appsv1.StatefulSet](ctx, l.API, "StatefulSet", client.ObjectKeyFromObject(etcd))
	if err != nil || set == nil {
		return false, err
	}
	return metav1.GetControllerOf(set) == nil && set.Labels[v1alpha1.LabelPartOf] == etcd.Name, nil
}

// refused returns why the operator may not connect to any endpoint of the source; empty if it may connect to one.
func (l *Leaver) refused(etcd *v1alpha1.Etcd) (why string) {
	if l.Reader.Credentials == nil || l.Reader.Credentials.Elsewhere == nil {
		return ""
	}
	for _, endpoint := range etcd.Source().ClientEndpoints {
		err := l.Reader.Credentials.Elsewhere(etcd, endpoint)
		if err == nil {
			return ""
		}
		why += err.Error() + "; "
	}
	return why + "to have its members leave, have the administrator of the operator add one of these, and restart the operator. "
}

// step observes, decides and acts; why is empty once the members have left.
func (l *Leaver) step(ctx context.Context, etcd *v1alpha1.Etcd) (why string, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, configv1alpha1.StepTimeout)
	defer cancel()
	s, err := l.Observe(ctx, etcd)
	if err != nil {
		return "", 0, err
	}
	// Those that the source has now are asked too: once the own members do not serve, no other member may be left.
	etcd = declare(etcd, votersOf(s))
	known := members.Known{Etcd: etcd, Snapshot: s}
	if hex(s.Cluster.ID) == etcd.Status.ClusterID {
		known.List = l.Reader.List(ctx, etcd, s)
	}
	next := l.timers.Of(etcd).next(known)
	l.timers.Set(etcd, next)
	d := decide(known, next)
	switch {
	case d.left:
		return "", 0, nil
	case len(known.List) == 0:
		return l.refused(etcd) + d.why, unreachableInterval, nil
	case d.step != nil:
		ctrl.LoggerFrom(ctx).Info("A member of an Etcd that is deleted leaves the source cluster", "action", d.step.Action, "memberID", hex(d.step.Member), "reason", d.step.Reason)
		err = l.Reader.Ask(ctx, etcd, s, func(c etcdclient.Client) error {
			if d.step.Action == membership.MoveLeader {
				return c.MoveLeader(ctx, d.step.Successor)
			}
			return c.RemoveMember(ctx, d.step.Member)
		})
		if err != nil {
			d.why = fmt.Sprintf("%s of member %s failed: %v. %s", d.step.Action, hex(d.step.Member), err, wayOut(known))
		}
	}
	return d.why, lookInterval, nil
}
