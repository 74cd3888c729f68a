// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
)

// labelWidth is the column of values, storyIndent that of the text of the story, which is beside the time.
const (
	labelWidth  = 12
	storyIndent = 10
)

// lines returns the description in a width; 0 is any width.
func (d description) lines(width int) []string {
	lines := d.head(width)
	lines = append(lines, "", "STORY")
	lines = append(lines, d.story(width)...)
	if d.noEvents != "" {
		lines = append(lines, text.Wrap("Events could not be read: "+d.noEvents, 0, width)...)
	}
	if result := d.task.Status.Result; len(result) > 0 {
		lines = append(lines, "", "RESULT")
		for _, key := range slices.Sorted(maps.Keys(result)) {
			lines = append(lines, fmt.Sprintf("%s: %s", key, result[key]))
		}
	}
	if advice := d.advice(); len(advice) > 0 {
		lines = append(lines, "", "WHAT TO DO NEXT")
		for _, s := range advice {
			lines = append(lines, text.Wrap("- "+s, 2, width)...)
		}
	}
	return lines
}

func (d description) head(width int) []string {
	t := d.task
	var lines []string
	add := func(label, value string) {
		if value != "" {
			lines = append(lines, text.Labeled(label+":", labelWidth, value, width))
		}
	}
	add("Task", t.Namespace+"/"+t.Name)
	add("Type", string(t.Spec.Type))
	add("Etcd", t.Spec.OwnerEtcdReference.Name)
	add("Config", text.OneLine(strings.ReplaceAll(strings.TrimSpace(t.Spec.Config), "\n", ", ")))
	var overrides []string
	for _, g := range t.Spec.OverrideGuards {
		overrides = append(overrides, string(g))
	}
	add("Overrides", strings.Join(overrides, ", "))
	add("State", d.state())
	add("Queue", d.place)
	if r := t.Status.Rollout; r != nil {
		add("Revision", r.TargetRevision)
		add("Pods", fmt.Sprintf("%d of %d updated, %d participating", r.UpdatedReplicas, r.Replicas, r.ParticipatingReplicas))
	}
	if m := t.Status.Membership; m != nil {
		add("Members", fmt.Sprintf("%d voters of %d, %d serving", m.Voters, m.Size, m.ServingVoters))
	}
	add("Blocked by", text.BlockedBy(t, d.now))
	return lines
}

// state returns the state, with how long the task has run or took.
func (d description) state() string {
	s, say := d.task.Status, text.State(d.task)
	took, ended := text.Took(d.task)
	switch {
	case s.State == v1alpha1.TaskStateRejected:
	case ended:
		say += fmt.Sprintf(", after %s", took)
	case s.InitiatedAt != nil:
		say += fmt.Sprintf(", for %s", text.Since(s.InitiatedAt.Time, d.now))
	default:
		if now := text.Doing(d.task); now != "" {
			say += ": " + now
		}
	}
	return say
}

func (d description) story(width int) []string {
	var lines []string
	date := ""
	for _, l := range text.Story(d.task, d.events) {
		if on := d.date(l.At); on != date {
			lines, date = append(lines, on), on
		}
		what := l.Text
		if l.Detail != "" {
			what += ": " + text.OneLine(l.Detail)
		}
		lines = append(lines, text.Labeled(d.time(l.At), storyIndent, what, width))
	}
	return lines
}
