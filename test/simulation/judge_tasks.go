// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// life is what a run had seen when a task was created.
type life struct {
	at time.Duration
	// faults and acts of users, and quiet: no fault was going on.
	faults, acts int
	quiet        bool
	// voters of the Etcd.
	voters []members.Peer
}

// task follows a task from its creation to its end.
func (j *judge) task(c apiserver.Change, t *v1alpha1.EtcdOperatorTask) {
	w := j.world
	if c.Before == nil {
		l := w.life()
		l.voters = j.voters()
		w.lives[t.UID] = l
	}
	w.seen.status(t)
	j.hasty(c, t)
	if t.Status.State.IsFinal() && w.ended[t.UID] == 0 {
		w.ended[t.UID] = w.Now()
		w.seen.add("task", fmt.Sprintf("%s %s", t.Status.State, t.Spec.Type))
		w.judgeEnd(t)
	}
}

// confirmed is for how long there has been no quorum at least when a recovery begins to stop members: half a minute, but for what an operator sees late.
const confirmed = 30*time.Second - sight

// hasty judges that a recovery waits before it stops members, since those that merely restart are back sooner. A quorum counts that an operator must have
// seen: it served for a while, and in its sight.
func (j *judge) hasty(c apiserver.Change, t *v1alpha1.EtcdOperatorTask) {
	before, ok := c.Before.(*v1alpha1.EtcdOperatorTask)
	if !ok || t.Spec.Type != v1alpha1.QuorumLossRecovery || phase(t) != v1alpha1.RecoveryStopping || j.isOutOfSight() {
		return
	}
	if was := phase(before); was != "" && was != v1alpha1.RecoveryConfirming {
		return
	}
	if lost := j.world.Now() - j.quorate.at; !j.quorate.is && lost < confirmed && j.served > sight {
		j.world.broke("%s stops all members %s after a quorum has served", t.Name, lost)
	}
}

// phase is that of a recovery.
func phase(t *v1alpha1.EtcdOperatorTask) v1alpha1.RecoveryPhase {
	if t.Status.Recovery == nil {
		return ""
	}
	return t.Status.Recovery.Phase
}

// isOutOfSight reports whether members may serve that the operator does not see.
func (j *judge) isOutOfSight() bool {
	return j.world.faults.sight != nil || slices.ContainsFunc(j.world.nodes, func(n *node) bool { return n.silent() })
}

// mayStart is how long the pod of a Job may take to start.
const mayStart = 3 * time.Minute

// judgeEnd judges what a task says that has just ended: a Job that has not started in time had that time, whatever the operator's clock says; one that
// has succeeded has done what it was for; and one to which nothing has happened has succeeded.
func (w *World) judgeEnd(t *v1alpha1.EtcdOperatorTask) {
	lasted := time.Since(t.CreationTimestamp.Time)
	if lasted < mayStart && slices.ContainsFunc(t.Status.LastErrors, func(e v1alpha1.LastError) bool { return e.Code == v1alpha1.ErrJobNotStarted }) {
		w.broke("task %s has failed since its Job did not start within %s, and is there for %s", t.Name, mayStart, lasted.Round(time.Second))
	}
	j := w.named(t.Spec.OwnerEtcdReference.Name)
	switch {
	case j == nil:
	case t.Status.State == v1alpha1.TaskStateSucceeded:
		if lacks := j.undone(t); lacks != "" {
			w.broke("task %s (%s) has succeeded, and %s", t.Name, t.Spec.Type, lacks)
		}
	case w.undisturbed(t) && !j.mayFail(t):
		w.broke("task %s (%s) is %s, although neither a fault nor a user has come between: %s", t.Name, t.Spec.Type, t.Status.State, said(t))
	}
}

// named returns the judge of an Etcd; nil if there is none.
func (w *World) named(etcd string) *judge {
	if i := slices.IndexFunc(w.judges, func(j *judge) bool { return j.name == etcd }); i >= 0 {
		return w.judges[i]
	}
	return nil
}

// undone returns what a task has not done that it was for; empty if nothing is missing.
func (j *judge) undone(t *v1alpha1.EtcdOperatorTask) string {
	began := j.world.lives[t.UID]
	created := began.at
	switch set := j.set(); t.Spec.Type {
	case v1alpha1.QuorumAwareRollout, v1alpha1.RecreateRollout:
		if set == nil {
			return "" // the Etcd is gone
		}
		for _, p := range j.world.podsOf(set) {
			if all := t.Spec.Type == v1alpha1.RecreateRollout || strings.Contains(t.Spec.Config, "restart: true"); all && p.CreationTimestamp.Before(&t.CreationTimestamp) {
				return fmt.Sprintf("pod %s is older", p.Name)
			}
		}
	case v1alpha1.OnDemandMaintenance:
		if j.world.compacted[j.name] < created {
			return "nothing was compacted"
		}
		for _, p := range j.voters() { // a learner is passed over, which may have its vote now
			name := podOfURL(p.PeerURL)
			if at, was := j.world.defragmented[name]; lists(began.voters, p.ID) && (!was || at < created-fragments) {
				return name + " was not defragmented"
			}
		}
	case v1alpha1.Restore:
		replaces := strings.Contains(t.Spec.Config, "confirm: ") || strings.Contains(t.Spec.Config, "undo: ")
		if replaces && !slices.ContainsFunc(j.past, func(l lineage) bool { return l.task == t.UID }) {
			return "no cluster has begun that it has made"
		}
	case v1alpha1.QuorumLossRecovery:
		if !j.quorate.is && j.quorate.at < created {
			return "no member has led since"
		}
	case v1alpha1.MembershipChange:
		if size := int(t.Status.Membership.Size); j.quorate.is && len(j.list) != size && j.world.acted < j.world.Now()-sight {
			return fmt.Sprintf("%d members are listed, and not %d", len(j.list), size)
		}
	}
	return ""
}

// undisturbed reports whether no fault has had an effect since a task was created, and no user has done anything.
func (w *World) undisturbed(t *v1alpha1.EtcdOperatorTask) bool {
	began, is := w.lives[t.UID]
	now := w.life()
	return is && began.quiet && now.quiet && began.faults == now.faults && began.acts == now.acts
}

// life is what has happened so far.
func (w *World) life() life {
	l := life{at: w.Now(), acts: w.acts, quiet: w.faults.going == 0 && w.acting() == 1}
	for _, times := range w.faults.injected {
		l.faults += times
	}
	for _, o := range w.operators {
		l.quiet = l.quiet && o.off.Abs() <= mostOff
	}
	return l
}

// refusals are what has to be so in the world when a task does not succeed for one of these reasons, although nothing has come between.
var refusals = map[v1alpha1.ErrorCode]func(j *judge, t *v1alpha1.EtcdOperatorTask) bool{
	v1alpha1.ErrQuorumNotLost: func(j *judge, _ *v1alpha1.EtcdOperatorTask) bool {
		return j.quorate.is || slices.ContainsFunc(j.tasks(), func(t *v1alpha1.EtcdOperatorTask) bool {
			return (t.Spec.Type == v1alpha1.RecreateRollout || t.Spec.Type == v1alpha1.Restore) && !t.Status.State.IsFinal()
		})
	},
	v1alpha1.ErrNoQuorum:            func(j *judge, _ *v1alpha1.EtcdOperatorTask) bool { return !j.quorate.is },
	v1alpha1.ErrSingleMember:        func(j *judge, _ *v1alpha1.EtcdOperatorTask) bool { return len(j.voters()) <= 1 },
	v1alpha1.ErrHibernated:          func(j *judge, _ *v1alpha1.EtcdOperatorTask) bool { return j.asked() == 0 },
	v1alpha1.ErrEtcdNotFound:        func(j *judge, _ *v1alpha1.EtcdOperatorTask) bool { return j.etcd() == nil },
	v1alpha1.ErrStatefulSetNotFound: func(j *judge, _ *v1alpha1.EtcdOperatorTask) bool { return j.set() == nil },
	v1alpha1.ErrNeverServed: func(j *judge, _ *v1alpha1.EtcdOperatorTask) bool {
		e := j.etcd()
		// Pods of one before it may serve for long, and its own for too short a time to be seen.
		return e == nil || j.servedFor != e.UID || !j.quorate.is && j.world.Now()-j.quorate.at >= time.Since(e.CreationTimestamp.Time)-sight
	},
	v1alpha1.ErrSuperseded: func(j *judge, t *v1alpha1.EtcdOperatorTask) bool {
		set := j.set()
		return set == nil || !strings.Contains(t.Spec.Config, j.world.revision(set)) // its target
	},
	// A rollout that is to replace its pods first may be suspended.
	v1alpha1.ErrRestoreRefused: func(j *judge, _ *v1alpha1.EtcdOperatorTask) bool {
		set := j.set()
		return set != nil && slices.ContainsFunc(j.world.podsOf(set), func(p *corev1.Pod) bool {
			return p.Labels[appsv1.StatefulSetRevisionLabel] != j.world.revision(set)
		})
	},
	v1alpha1.ErrForeignObject: func(j *judge, _ *v1alpha1.EtcdOperatorTask) bool {
		set := j.set()
		return set != nil && set.Annotations[strangers] != ""
	},
	// Another Restore has replaced the cluster since the preview, which a user has confirmed a few seconds later.
	v1alpha1.ErrNotConfirmed: func(j *judge, t *v1alpha1.EtcdOperatorTask) bool {
		return j.newest().at > j.world.lives[t.UID].at-time.Minute
	},
	v1alpha1.ErrDuplicateTask: func(j *judge, t *v1alpha1.EtcdOperatorTask) bool {
		return slices.ContainsFunc(apiserver.Of[*v1alpha1.EtcdOperatorTask](j.world.API.Live()), func(o *v1alpha1.EtcdOperatorTask) bool {
			return o.UID != t.UID && o.Spec.Type == t.Spec.Type && o.Spec.OwnerEtcdReference == t.Spec.OwnerEtcdReference
		})
	},
}

// mayFail reports whether a task ends as it does although nothing has come between.
func (j *judge) mayFail(t *v1alpha1.EtcdOperatorTask) bool {
	return slices.ContainsFunc(t.Status.LastErrors, func(e v1alpha1.LastError) bool {
		is, known := refusals[e.Code]
		return known && is(j, t)
	})
}
