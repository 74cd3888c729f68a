// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StoryLine is one thing that happened to a task.
type StoryLine struct {
	At   time.Time
	Text string
	// Detail says more.
	Detail string
}

// Story returns what happened to a task, oldest first. Events add what its status does not keep.
func Story(task *v1alpha1.EtcdOperatorTask, events []corev1.Event) []StoryLine {
	lines := []StoryLine{{At: task.CreationTimestamp.Time, Text: "created"}}
	lines = append(lines, beginning(task)...)
	if r := task.Status.Rollout; r != nil {
		lines = append(lines, ofRollout(r, hasEvent(events, "MoveLeader"))...)
	} else if m := task.Status.Membership; m != nil {
		lines = append(lines, ofMembership(m)...)
	} else if op := task.Status.LastOperation; op != nil {
		lines = append(lines, StoryLine{At: op.LastTransitionTime.Time, Text: fmt.Sprintf("%s %s", op.Name, op.State), Detail: op.Reason})
	}
	for _, e := range task.Status.LastErrors {
		if !task.Status.State.IsFinal() || !strings.Contains(task.Status.Progressing().Message, e.Description) {
			lines = append(lines, StoryLine{At: e.ObservedAt.Time, Text: fmt.Sprintf("error %s", e.Code), Detail: e.Description})
		}
	}
	if t := task.Status.CompletedAt; t != nil {
		lines = append(lines, StoryLine{At: t.Time, Text: strings.ToLower(string(task.Status.State)), Detail: task.Status.Progressing().Message})
	}
	lines = append(lines, fromEvents(task, events, lines)...)
	slices.SortStableFunc(lines, func(a, b StoryLine) int {
		// Times in the status are in seconds: within a second, lines stay in the order in which they were added.
		return a.At.Truncate(time.Second).Compare(b.At.Truncate(time.Second))
	})
	return lines
}

func beginning(task *v1alpha1.EtcdOperatorTask) []StoryLine {
	admitted := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionAdmitted)
	if task.Status.InitiatedAt == nil || admitted == nil || admitted.Status != metav1.ConditionTrue {
		return nil
	}
	return []StoryLine{{At: task.Status.InitiatedAt.Time, Text: "started", Detail: admitted.Message}}
}

// ofMembership returns lines for the steps that changed members, and the guard that blocks.
func ofMembership(m *v1alpha1.MembershipStatus) []StoryLine {
	var lines []StoryLine
	for _, s := range m.Steps {
		text := s.Action
		if s.Pod != "" {
			text += " " + s.Pod
		}
		lines = append(lines, StoryLine{At: s.Evidence.ObservedAt.Time, Text: text, Detail: s.Reason})
	}
	if h := m.HeldBy; h != nil {
		lines = append(lines, StoryLine{At: h.Since.Time, Text: fmt.Sprintf("blocked by %s", h.Guard), Detail: h.Message + alsoBlocking(h, m.BlockedBy)})
	}
	return lines
}

// ofRollout returns lines for the pods that were removed, the handover unless it has an event, and the guard that blocks.
func ofRollout(r *v1alpha1.RolloutStatus, handoverKnown bool) []StoryLine {
	var lines []StoryLine
	for _, p := range r.Pods {
		why, end := rollout.SplitReason(p.LastOperation)
		lines = append(lines, StoryLine{At: p.Evidence.ObservedAt.Time, Text: p.LastOperation.Name + " " + p.Name, Detail: fmt.Sprintf("%s (%s; %s)", why, classAndRole(p), evidence(p.Evidence))})
		switch p.LastOperation.State {
		case v1alpha1.OperationStateCompleted:
			lines = append(lines, StoryLine{At: p.LastOperation.LastTransitionTime.Time, Text: p.Name + completed(p), Detail: end})
		case v1alpha1.OperationStateFailed:
			lines = append(lines, StoryLine{At: p.LastOperation.LastTransitionTime.Time, Text: p.LastOperation.Name + " " + p.Name + " failed", Detail: end})
		}
	}
	if h := r.LeaderHandover; h != nil && !handoverKnown {
		lines = append(lines, StoryLine{At: h.LastAttemptTime.Time, Text: "MoveLeader " + h.From, Detail: fmt.Sprintf("leadership goes to %s, attempt %d", h.To, h.Attempts)})
	}
	if h := r.HeldBy; h != nil {
		lines = append(lines, StoryLine{At: h.Since.Time, Text: "blocked by " + string(h.Guard), Detail: h.Message + alsoBlocking(r.HeldBy, r.BlockedBy)})
	}
	slices.SortStableFunc(lines, func(a, b StoryLine) int { return a.At.Compare(b.At) })
	return lines
}

// completed returns what an operation has led to: a pod is updated in place, or its replacement is back.
func completed(p v1alpha1.RolloutPod) string {
	if inplace.IsWrite(p.LastOperation.Name) {
		return " is updated"
	}
	return " is back"
}

// classAndRole returns what a pod was when its removal was decided.
func classAndRole(p v1alpha1.RolloutPod) string {
	if p.Role == v1alpha1.RoleUnknown || p.Role == "" {
		return string(p.Class)
	}
	return fmt.Sprintf("%s, %s", p.Class, p.Role)
}

func evidence(e v1alpha1.Evidence) string {
	say := fmt.Sprintf("%d of %d voters served, quorum %d", e.ServingVoters, e.Voters, e.Quorum)
	if e.Leader != "" {
		say += ", " + e.Leader + " led"
	}
	return say
}

func hasEvent(events []corev1.Event, reason string) bool {
	return slices.ContainsFunc(events, func(e corev1.Event) bool { return e.Reason == reason })
}

// fromEvents returns lines for the events that are not in the given lines.
func fromEvents(task *v1alpha1.EtcdOperatorTask, events []corev1.Event, lines []StoryLine) []StoryLine {
	var added []StoryLine
	for _, e := range events {
		known := e.Reason == "Started" && task.Status.InitiatedAt != nil || slices.ContainsFunc(lines, func(l StoryLine) bool {
			return strings.Contains(l.Detail, e.Message)
		})
		if !known {
			added = append(added, StoryLine{At: firstSeen(e), Text: e.Reason, Detail: e.Message})
		}
	}
	return added
}

// firstSeen returns when an event was first seen.
func firstSeen(e corev1.Event) time.Time {
	for _, t := range []time.Time{e.EventTime.Time, e.FirstTimestamp.Time, e.CreationTimestamp.Time} {
		if !t.IsZero() {
			return t
		}
	}
	return time.Time{}
}

// State returns the state of a task with its progress: "InProgress 1/3".
func State(task *v1alpha1.EtcdOperatorTask) string {
	state := string(cmp.Or(task.Status.State, v1alpha1.TaskStatePending))
	if task.Status.Progress != "" {
		state += " " + task.Status.Progress
	}
	return state
}

// Doing returns a sentence about what a task does or waits for.
func Doing(task *v1alpha1.EtcdOperatorTask) string {
	if message := task.Status.Progressing().Message; message != "" {
		return message
	}
	if task.Status.State == "" {
		return "the operator has not seen the task yet"
	}
	return ""
}

// Took returns how long a task ran; ended is false if it has not started or not ended.
func Took(task *v1alpha1.EtcdOperatorTask) (took time.Duration, ended bool) {
	s := task.Status
	if s.InitiatedAt == nil || s.CompletedAt == nil {
		return 0, false
	}
	return s.CompletedAt.Sub(s.InitiatedAt.Time).Round(time.Second), true
}

// alsoBlocking returns the guards that block a task besides the first, as the end of a text; empty if there are none.
func alsoBlocking(first *v1alpha1.Hold, all []v1alpha1.BlockedBy) string {
	say := ""
	for _, b := range all {
		if b.Guard != first.Guard {
			say += fmt.Sprintf(". Also blocked by %s: %s", b.Guard, b.Message)
		}
	}
	return say
}

// BlockedBy returns the guards that block a task, since when and why; empty if none does.
func BlockedBy(task *v1alpha1.EtcdOperatorTask, now time.Time) string {
	first, all := task.Status.Held()
	if first == nil {
		return ""
	}
	return fmt.Sprintf("%s for %s: %s", first.Guard, Since(first.Since.Time, now), first.Message+alsoBlocking(first, all))
}
