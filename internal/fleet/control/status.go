// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// What the status of a policy shows at most.
	maxHolders, maxChanges, maxFailures = 100, 20, 10
	// maxMessage bounds a message, in bytes.
	maxMessage = 4096
)

// publish writes the status of each policy that has changed.
func (c *Controller) publish(ctx context.Context, v *view, in fleet.Input) (err error) {
	for i := range v.objects {
		o := &v.objects[i]
		next := o.DeepCopy()
		status := c.status(v, in, o)
		c.Metrics.show(o.Name, &status)
		if equality.Semantic.DeepEqual(o.Status, status) {
			continue
		}
		next.Status = status
		if refused := c.Client.Status().Patch(ctx, next, client.MergeFrom(o)); client.IgnoreNotFound(refused) != nil {
			err = errors.Join(err, fmt.Errorf("writing the status of EtcdFleetPolicy %s: %w", o.Name, refused))
		}
	}
	return err
}

// status returns the status of a policy.
func (c *Controller) status(v *view, in fleet.Input, o *v1alpha1.EtcdFleetPolicy) v1alpha1.EtcdFleetPolicyStatus {
	p := v.policies[o.Name]
	s := v1alpha1.EtcdFleetPolicyStatus{
		ObservedGeneration: o.Generation, Clusters: int32(p.Clusters), Limit: int32(p.Limit()), Used: int32(fleet.Used(in, o.Name)),
		Conditions: slices.Clone(o.Status.Conditions),
	}
	if in.Ledger.Recorded(o.Name) == nil {
		// Nothing is granted by it yet.
		s.ObservedGeneration = o.Status.ObservedGeneration
	}
	waiting := map[string]int32{}
	for _, w := range in.Waiting {
		if slices.Contains(in.Covering[w.Namespace], o.Name) {
			waiting[w.Change]++
			s.Waiting++
		}
	}
	if p.Invalid == "" {
		if _, _, next := p.Opens(in.Now); !next.IsZero() {
			s.NextWindow = &metav1.Time{Time: next}
		}
	}
	for i := range in.Ledger.Holders {
		if h := &in.Ledger.Holders[i]; slices.Contains(h.Policies, o.Name) && len(s.Holders) < maxHolders {
			s.Holders = append(s.Holders, holderOf(h))
		}
	}
	wanted := v.wanted(in, p)
	all := changesOf(in, p, waiting, wanted)
	c.setPaused(&s, p, all, wanted, in)
	s.Changes = all[:min(len(all), maxChanges)]
	return s
}

func holderOf(h *fleet.Holder) v1alpha1.FleetHolder {
	shown := v1alpha1.FleetHolder{Namespace: h.Namespace, Etcd: h.EtcdName, Task: h.TaskName, Change: h.Change, Canary: h.Canary, Since: seconds(h.Granted)}
	if !h.Ended.IsZero() {
		ended := seconds(h.Ended)
		shown.WatchedSince = &ended
	}
	return shown
}

// changesOf returns all changes of a policy in the order of urgency. wanted is how many namespaces want each.
func changesOf(in fleet.Input, p *fleet.Policy, waiting map[string]int32, wanted map[string]int) (all []v1alpha1.FleetChange) {
	at := map[string]int{}
	for i := len(in.Ledger.Changes) - 1; i >= 0; i-- {
		if c := &in.Ledger.Changes[i]; c.Policy == p.Name {
			at[c.Name] = len(all)
			all = append(all, changeIn(in.Ledger, c, p, waiting[c.Name]))
		}
	}
	slices.SortFunc(in.Waiting, func(a, b fleet.Candidate) int { return a.Since.Compare(b.Since) })
	for i := range in.Waiting {
		w := &in.Waiting[i]
		if w.Change == "" || !slices.Contains(in.Covering[w.Namespace], p.Name) {
			continue
		}
		if _, known := at[w.Change]; !known {
			// It has no slot yet.
			at[w.Change] = len(all)
			all = append(all, v1alpha1.FleetChange{Change: w.Change, Since: seconds(w.Since), Waiting: waiting[w.Change]})
		}
		if failed := in.Ledger.Pausing(p, w); failed != nil {
			all[at[w.Change]].Paused = sanitize.Text(failed.PausedMessage(w.Change), maxMessage)
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.FleetChange) int {
		return cmp.Or(byUrgency(&a, &b, wanted), b.Since.Compare(a.Since.Time), strings.Compare(a.Change, b.Change))
	})
	return all
}

// changeIn returns a change as the ledger has it.
func changeIn(l *fleet.Ledger, c *fleet.Change, p *fleet.Policy, waiting int32) v1alpha1.FleetChange {
	shown := v1alpha1.FleetChange{Change: c.Name, Since: seconds(c.Since), Waiting: waiting, Done: int32(c.Done), Failed: int32(len(c.Failures))}
	for i := range l.Holders {
		switch h := &l.Holders[i]; {
		case h.Change != c.Name || !slices.Contains(h.Policies, p.Name):
		case h.Ended.IsZero():
			shown.Running++
		default:
			shown.Watched++
		}
	}
	for _, f := range c.Failures[:min(len(c.Failures), maxFailures)] {
		shown.Failures = append(shown.Failures, v1alpha1.FleetFailure{Namespace: f.Namespace, Etcd: f.EtcdName, UID: f.Etcd, Target: f.Target, Reason: sanitize.Text(f.Reason, maxMessage), At: seconds(f.At)})
	}
	if c.Paused(p) {
		shown.Paused, shown.ResumeToken = sanitize.Text(c.PausedMessage(c.Name), maxMessage), c.ResumeToken()
	}
	return shown
}

// byUrgency compares changes: first those that are paused and wanted, by how many namespaces want them, so that one tenant's do not displace
// everyone's; then those under way; then those that are paused and not wanted.
func byUrgency(a, b *v1alpha1.FleetChange, wanted map[string]int) int {
	rank := func(c *v1alpha1.FleetChange) int {
		paused, wants := c.Paused != "", wanted[c.Change]
		switch {
		case paused && wants > 0:
			return -wants
		case wants+int(c.Running+c.Watched) > 0:
			return 0
		case paused:
			return 1
		}
		return 2
	}
	return cmp.Compare(rank(a), rank(b))
}

// wanted returns how many namespaces of a policy want each change: a task there asks for it or runs with it, or waits because it failed with the
// same template.
func (v *view) wanted(in fleet.Input, p *fleet.Policy) map[string]int {
	by := map[string]sets.Set[string]{}
	want := func(change, namespace string) {
		if by[change] == nil {
			by[change] = sets.New[string]()
		}
		by[change].Insert(namespace)
	}
	for _, t := range v.tasks {
		if slices.Contains(v.covering[t.Namespace], p.Name) {
			want(t.Status.Change, t.Namespace)
		}
	}
	for i := range in.Waiting {
		w := &in.Waiting[i]
		if !slices.Contains(in.Covering[w.Namespace], p.Name) {
			continue
		}
		want(w.Change, w.Namespace)
		if failed := in.Ledger.Pausing(p, w); failed != nil {
			want(failed.Name, w.Namespace)
		}
	}
	n := map[string]int{}
	for change, namespaces := range by {
		n[change] = len(namespaces)
	}
	return n
}

// setPaused sets the condition Paused, which is absent while nothing is paused. A paused change only counts while it is wanted.
func (c *Controller) setPaused(s *v1alpha1.EtcdFleetPolicyStatus, p *fleet.Policy, all []v1alpha1.FleetChange, wanted map[string]int, in fleet.Input) {
	change := slices.IndexFunc(all, func(c v1alpha1.FleetChange) bool { return c.Paused != "" && wanted[c.Change] > 0 })
	paused := metav1.Condition{Type: v1alpha1.ConditionPaused, Status: metav1.ConditionTrue, ObservedGeneration: p.Generation, LastTransitionTime: seconds(in.Now)}
	switch {
	case p.Invalid != "":
		paused.Reason, paused.Message = v1alpha1.ReasonInvalidPolicy, p.Invalid
	case in.Ledger.Recorded(p.Name) == nil:
		paused.Reason, paused.Message = v1alpha1.ReasonTasksNotCounted, notInForce(p, c.uncounted(p.Name))
	case p.Paused || p.MaxConcurrent == 0:
		paused.Reason, paused.Message = v1alpha1.ReasonPausedBySpec, "spec.paused is set, or spec.maxConcurrent is 0: no task starts. Those that run finish."
	case change >= 0:
		paused.Reason, paused.Message = v1alpha1.ReasonChangeFailed, all[change].Paused
	default:
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionPaused)
		return
	}
	meta.SetStatusCondition(&s.Conditions, paused)
}

// warn emits an event of a policy.
func (c *Controller) warn(v *view, policy, reason, message string) {
	for i := range v.objects {
		if v.objects[i].Name == policy {
			c.Recorder.Eventf(&v.objects[i], nil, corev1.EventTypeWarning, reason, reason, "%s", sanitize.Text(message, 1024))
		}
	}
}
