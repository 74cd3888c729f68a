// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// attempt tries to give a task a slot, repeatedly if necessary: each try knows what live reads have shown before.
type attempt struct {
	*Controller
	view      *view
	task      tasks.Task
	candidate fleet.Candidate
	// void is a resourceVersion of the task on which its start can no longer be written.
	void string
	// confirmed: the API server has the policies that the decision rests on.
	confirmed bool
	// met are the tasks without a slot that were read, and strangers are those that must be read first.
	met       met
	strangers []*v1alpha1.EtcdOperatorTask
	// ends is the canary whose watch the task would end, and which must be looked at first; left is what was wrong with each that was.
	ends *fleet.Holder
	left map[types.UID]string

	// The result of the last try: the slot was granted, or the decision says why not. may: it is granted once the policies are confirmed.
	// stands is the resourceVersion of the task for which an earlier grant stands.
	granted  bool
	decision fleet.Decision
	may      bool
	stands   string
	// stays: the task must not start any more, but has a slot for its present resourceVersion, under which its start may still be written.
	stays bool
}

// take records in the ledger that a task has a slot, if it may take one. A grant for another resourceVersion of the task stands until a live
// read shows a task that has changed and not started: an operator that was paused may still write that start.
func (c *Controller) take(ctx context.Context, v *view, task tasks.Task, candidate fleet.Candidate) (granted bool, decision fleet.Decision, err error) {
	a := &attempt{Controller: c, view: v, task: task, candidate: candidate, confirmed: bypasses(task.Object), left: map[types.UID]string{}}
	for {
		if err := c.Store.Change(ctx, a.try); err != nil {
			return false, fleet.Decision{}, err
		}
		switch {
		case len(a.strangers) > 0:
			if err := c.meet(ctx, a.strangers, &a.met); err != nil {
				log.FromContext(ctx).Error(err, "Tasks that could not be read count as running")
			}
		case a.stays:
			if done, err := c.letGo(ctx, a); err != nil || !done {
				return false, a.decision, err
			}
		case a.may:
			behind, err := c.confirm(ctx, v, task.Object)
			if err != nil || behind != "" {
				return false, c.behind("", behind), err
			}
			a.confirmed = true
		case a.ends != nil:
			if a.left[a.ends.Task], err = c.leftBehind(ctx, v, a.ends, candidate.TaskName); err != nil {
				return false, fleet.Decision{}, err
			}
		case a.stands != "":
			live := &v1alpha1.EtcdOperatorTask{}
			if err := c.Live.Get(ctx, client.ObjectKeyFromObject(task.Object), live); err != nil {
				return false, fleet.Decision{}, fmt.Errorf("reading task %s, which was granted a slot: %w", candidate.TaskName, err)
			}
			if live.ResourceVersion == a.stands || live.UID != candidate.Task || runs(live) && live.ResourceVersion != task.Object.ResourceVersion || live.Status.State.IsFinal() {
				// Its start may still be written, or was. A recreation that asks again is shown as it runs.
				return false, c.behind("", "the cache does not show the task as it was when it got its slot"), nil
			}
			a.void = a.stands
		default:
			return a.granted, a.decision, nil
		}
	}
}

// letGo has a task that was granted a slot, and may not start any more, give it back: its start can no longer be written on another
// resourceVersion. Otherwise two such tasks could wait for each other. It reports false if the task has changed since it was read.
func (c *Controller) letGo(ctx context.Context, a *attempt) (bool, error) {
	t := a.task.Object.DeepCopy()
	patch := client.MergeFromWithOptions(t.DeepCopy(), client.MergeFromWithOptimisticLock{})
	metav1.SetMetaDataAnnotation(&t.ObjectMeta, annotationFence, c.Clock.Now().UTC().Format(time.RFC3339Nano))
	if err := c.Client.Patch(ctx, t, patch); apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("fencing task %s/%s, which has a slot: %w", t.Namespace, t.Name, err)
	}
	a.task.Object.ResourceVersion = t.ResourceVersion
	return true, nil
}

// try gives a task a slot, if it may take one, and reports whether that changes the ledger. It also decides again about a task that was
// granted a slot and has not started, since a policy may have been paused.
func (a *attempt) try(l *fleet.Ledger) (changed bool) {
	a.granted, a.may, a.stands, a.stays, a.ends = false, false, "", false, nil
	version := a.task.Object.ResourceVersion
	// The cache may show the task itself as running, so this comes first.
	if a.strangers = strangers(l, a.view, &a.met); len(a.strangers) > 0 {
		return false
	}
	changed = a.adopt(l, a.view, &a.met)
	changed = l.Join(a.view.policies, a.view.covering, nil, a.view.at) || changed
	held := l.Withdraw(a.candidate.Task)
	begun := held != nil && runs(a.task.Object)
	same := begun && held.Change == a.candidate.Change && held.Target == a.candidate.Target
	if a.waitsForEarlier(l, held, begun && !same) {
		return false
	}
	if same {
		// The write shows that no other operator has granted it another change.
		a.granted, changed = true, changed || held.ResourceVersion != version
		l.Keep(held, version)
		return changed
	}
	had := begun && held.Change != ""
	if begun {
		// It keeps its slot, and brings nothing until it may bring what it would now.
		held.Empty()
		l.Keep(held, version)
	}
	in := a.input(a.view, l)
	var lapsed bool
	a.decision, lapsed = a.decide(in, held != nil)
	switch {
	case a.decision.Hold == nil && !a.confirmed:
		a.may = true
		return false
	case a.decision.Hold == nil:
		return a.grant(l, in, held)
	case begun:
		return changed || lapsed || had
	case held != nil && held.ResourceVersion == version:
		// The start on this one may still be written. Nothing else is before it is void.
		a.stays = true
		return false
	}
	return changed || lapsed || held != nil
}

// waitsForEarlier reports whether an earlier grant stands in the way, or the end of the task. brings: it runs, and would stop its pods with another
// change than it has a slot for.
func (a *attempt) waitsForEarlier(l *fleet.Ledger, held *fleet.Holder, brings bool) bool {
	version := a.task.Object.ResourceVersion
	switch {
	case l.IsOver(a.candidate.Task) || held != nil && held.Over():
		a.decision = a.behind("", "the cache does not show yet that the task has ended")
	case held != nil && held.ResourceVersion != version && held.ResourceVersion != a.void:
		a.stands = held.ResourceVersion
	case brings && held.ResourceVersion == version:
		// It may still be written.
		a.stays, a.decision = true, a.behind("", "the task has changed since it was read")
	default:
		return false
	}
	return true
}

// decide decides whether a task may take a slot, or keep one that it was granted before, and reports whether changes have lapsed.
func (a *attempt) decide(in fleet.Input, again bool) (decision fleet.Decision, lapsed bool) {
	if bypasses(a.task.Object) && in.InLine(a.candidate.Task) {
		return fleet.Bypass(in, a.candidate.Task), false
	}
	if name := unseen(in.Ledger, a.view); name != "" {
		return a.behind(name, hasChanged(name)), false
	}
	lapsed = fleet.Lapse(in)
	decide := fleet.Decide
	if again {
		decide = fleet.Again
	}
	decision = decide(in, a.candidate.Task)
	for _, name := range a.view.covering[a.candidate.Namespace] {
		if in.Ledger.Recorded(name) == nil {
			decision.Hold = &fleet.Hold{Reason: fleet.WaitingForSlot, Policy: name, Message: notInForce(a.view.policies[name], a.uncounted(name))}
		}
	}
	return decision, lapsed
}

// endsWatch records how a task finds the canary whose watch it ends: what is unwell then counts as one that is superseded does, since another
// cluster would try the same. It reports whether the change failed by that, and whether it is known.
func (a *attempt) endsWatch(l *fleet.Ledger) (failed, known bool) {
	h := l.Watched(a.candidate.Etcd)
	if h == nil || changesNoTemplate(a.task.Object) {
		return false, true
	}
	left, known := a.left[h.Task]
	if a.ends = h; known {
		a.ends = nil
		if left != "" {
			// The next task may be held by that, and a canary that has failed is not to pass once it is well again.
			finding{task: h.Task, kind: broke, reason: left}.apply(l, a.Clock.Now())
		}
	}
	return left != "", known
}

// changesNoTemplate reports whether a task leaves the pods of its cluster as they are, so that it is watched on.
func changesNoTemplate(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Spec.Type == v1alpha1.OnDemandMaintenance
}

// grant records that a task has a slot, and which generation of each policy granted it. If it had one before, its counted failure stays: the
// task runs, and this operator has yet to see that. It reports whether the ledger has changed.
func (a *attempt) grant(l *fleet.Ledger, in fleet.Input, held *fleet.Holder) bool {
	failed, known := a.endsWatch(l)
	if !known {
		return false
	}
	if failed && held == nil {
		// It may be the task's own change, or another one to its template.
		if a.decision, _ = a.decide(in, false); a.decision.Hold != nil {
			return true
		}
	}
	for _, name := range a.view.covering[a.candidate.Namespace] {
		if l.Recorded(name) != nil {
			l.Record(a.view.policies[name])
		}
	}
	holder := fleet.Grant(in, a.candidate.Task, a.decision)
	holder.ResourceVersion, holder.Unasked = a.task.Object.ResourceVersion, bypasses(a.task.Object)
	holder.Counted = held != nil && held.Counted
	l.Withdraw(holder.Task)
	if changesNoTemplate(a.task.Object) {
		l.GrantBeside(holder)
	} else {
		l.Grant(holder)
	}
	l.Prune(a.view.covering, func() []fleet.Candidate { return a.asking(a.view) })
	a.granted = true
	return true
}

// notInForce says that nothing is granted by a policy yet, and why, if that is known.
func notInForce(p *fleet.Policy, why string) string {
	message := p.Title() + " is not in force yet: tasks start once the operator has counted those that run"
	if why != "" {
		message += ", and cannot: " + why
	}
	return message
}

// hasChanged says that a policy is not what the cache shows.
func hasChanged(policy string) string {
	return fmt.Sprintf("EtcdFleetPolicy %s has changed, and the cache does not show how yet", policy)
}

// confirm returns why a view is too old to start a task; empty if it has every policy that selects the namespace according to the API server.
// Policies that are gone do no harm.
func (c *Controller) confirm(ctx context.Context, v *view, t *v1alpha1.EtcdOperatorTask) (behind string, err error) {
	live := &v1alpha1.EtcdFleetPolicyList{}
	if err := c.Live.List(ctx, live); err != nil {
		return "", fmt.Errorf("listing the policies of the fleet: %w", err)
	}
	if len(live.Items) == 0 {
		return "", nil
	}
	namespace := &corev1.Namespace{}
	if err := c.Live.Get(ctx, types.NamespacedName{Name: t.Namespace}, namespace); err != nil {
		return "", fmt.Errorf("reading namespace %s: %w", t.Namespace, err)
	}
	for i := range live.Items {
		p := &live.Items[i]
		if selector, err := metav1.LabelSelectorAsSelector(&p.Spec.NamespaceSelector); err == nil && !selector.Matches(labels.Set(namespace.Labels)) {
			continue
		}
		if !v.decidesBy(p, t.Namespace) {
			return hasChanged(p.Name), nil
		}
	}
	return "", nil
}

// bypasses reports whether a person lets a task start regardless of the policies. An admission policy checks their right to do so.
func bypasses(t *v1alpha1.EtcdOperatorTask) bool {
	return t.Annotations[v1alpha1.AnnotationBypassFleet] == "true"
}

// behind returns the decision to wait because the view is out of date.
func (c *Controller) behind(policy, message string) fleet.Decision {
	return fleet.Decision{Hold: &fleet.Hold{Reason: fleet.WaitingForSlot, Policy: policy, Next: c.Clock.Now().Add(stale), Message: message}}
}

// unseen returns the name of a policy of which the cache is older than the ledger; empty if there is none. Nothing is granted until the cache
// has caught up, or the policy is known to be deleted.
func unseen(l *fleet.Ledger, v *view) string {
	for _, r := range l.Policies {
		if p := v.policies[r.Name]; r.Name != fleet.Default && (p == nil || p.UID != r.UID || p.Generation < r.Generation) {
			return r.Name
		}
	}
	return ""
}
