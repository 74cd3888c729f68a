// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
)

// OfTask returns what the status of a task records of its rollout, until now if it has not ended: when each pod was removed or updated,
// when its member participated again, who led at each step, and what blocks. It reports false if the task is no rollout that has begun.
func OfTask(t *v1alpha1.EtcdOperatorTask, now time.Time) (Chart, bool) {
	r := t.Status.Rollout
	if r == nil || t.Status.InitiatedAt == nil {
		return Chart{}, false
	}
	run := Run{
		Name: "etcd-foreman " + string(t.Spec.Type), Good: t.Status.State != v1alpha1.TaskStateFailed, From: t.Status.InitiatedAt.Time, Until: now,
		Revision: r.TargetRevision, Pods: Life{}, Steps: stepsOf(r), WritesUnknown: true,
	}
	if t.Status.CompletedAt != nil {
		run.Until = t.Status.CompletedAt.Time
	}
	for i := range int(r.Replicas) {
		run.Members = append(run.Members, fmt.Sprintf("%s-%d", t.Spec.OwnerEtcdReference.Name, i))
	}
	for i := range r.Pods {
		if !slices.Contains(run.Members, r.Pods[i].Name) {
			run.Members = append(run.Members, r.Pods[i].Name)
		}
	}
	for _, name := range run.Members {
		run.Pods[name] = run.lifeOf(name, r, t.Status.State == v1alpha1.TaskStateSucceeded)
	}
	run.Reigns = run.reignsOf(r.Pods)
	run.Summary = fmt.Sprintf("%s · %d of %d pods are updated · %.0f s", t.Status.State, r.UpdatedReplicas, r.Replicas, run.Until.Sub(run.From).Seconds())
	return Chart{
		Title:    fmt.Sprintf("Task %s of Etcd %s/%s", t.Name, t.Namespace, t.Spec.OwnerEtcdReference.Name),
		Subtitle: "As the status of the task records it: the times of steps, and when members participated again.",
		Axis:     "seconds since the task started",
		Runs:     []Run{run},
	}, true
}

// lifeOf returns the spans of a pod. One that the rollout has not touched is of the target's revision only if it has succeeded.
func (r *Run) lifeOf(name string, s *v1alpha1.RolloutStatus, succeeded bool) []Span {
	var all []Span
	at := r.From.Add(-leadIn)
	add := func(state State, until time.Time) {
		if until.After(at) {
			all = append(all, Span{State: state, From: at, To: until})
			at = until
		}
	}
	current := State{Class: v1alpha1.ClassParticipating}
	if succeeded {
		current.Revision = r.Revision
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Name != name {
			continue
		}
		before := State{Class: p.Class, Revision: p.Revision, UID: p.UID}
		add(before, p.Evidence.ObservedAt.Time)
		if current = before; removes(p.LastOperation.Name) {
			current.Class = v1alpha1.ClassStarting
		}
		switch p.LastOperation.State {
		case v1alpha1.OperationStateCompleted:
			add(current, p.LastOperation.LastTransitionTime.Time)
			current = State{Class: v1alpha1.ClassParticipating, Revision: r.Revision}
		case v1alpha1.OperationStateFailed:
			current = before
		}
	}
	return append(all, Span{State: current, From: at})
}

// removes reports whether an operation replaces a pod; another updates it in place.
func removes(operation string) bool { return operation == "DeletePod" || operation == "EvictPod" }

// reignsOf returns the leaders that were seen at the steps: each led until another was seen in another term.
func (r *Run) reignsOf(pods []v1alpha1.RolloutPod) (all []Reign) {
	from := r.From.Add(-leadIn)
	for i := range pods {
		seen := &pods[i].Evidence
		if n := len(all); seen.Leader == "" || n > 0 && all[n-1].Term == uint64(seen.Term) {
			continue
		} else if n > 0 {
			from = seen.ObservedAt.Time
			all[n-1].To = from
		}
		all = append(all, Reign{Pod: seen.Leader, Term: uint64(seen.Term), From: from, To: r.Until})
	}
	return all
}

// stepsOf returns the steps of a rollout, and what blocks it.
func stepsOf(r *v1alpha1.RolloutStatus) (all []Step) {
	for i := range r.Pods {
		p := &r.Pods[i]
		all = append(all, Step{At: p.Evidence.ObservedAt.Time, Pod: p.Name, Text: p.LastOperation.Name + ": " + p.LastOperation.Reason})
	}
	if h := r.LeaderHandover; h != nil {
		all = append(all, Step{At: h.LastAttemptTime.Time, Pod: h.From, Text: fmt.Sprintf("MoveLeader: leadership is to move from %s to %s, attempt %d", h.From, h.To, h.Attempts)})
	}
	if h := r.HeldBy; h != nil {
		all = append(all, Step{At: h.Since.Time, Pod: h.Pod, Text: fmt.Sprintf("blocked by %s: %s", h.Guard, h.Message)})
	}
	slices.SortStableFunc(all, func(a, b Step) int { return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Pod, b.Pod)) })
	return all
}
