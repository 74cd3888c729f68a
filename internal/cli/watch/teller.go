// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/story"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
)

// teller prints each thing that happens to a task once.
type teller struct {
	*kube.Kube
	told map[string]bool
	now  string
}

func newTeller(k *kube.Kube) *teller { return &teller{Kube: k, told: map[string]bool{}} }

// tell prints what is new in the status of a task.
func (t *teller) tell(task *v1alpha1.EtcdOperatorTask) {
	for _, l := range story.Of(task, nil) {
		// A detail may grow; what happened, and when, stays.
		key := fmt.Sprint(l.At.Unix(), l.Text)
		if t.told[key] {
			continue
		}
		t.told[key] = true
		line := l.At.In(t.Location).Format("15:04:05") + " " + l.Text
		if l.Detail != "" {
			line += ": " + l.Detail
		}
		text.Print(t.Out, line)
	}
	if now := waits(task); now != t.now {
		if t.now = now; now != "" {
			text.Print(t.Out, t.Clock.Now().In(t.Location).Format("15:04:05")+" "+now)
		}
	}
}

// waits says what a task waits for that is no part of its story.
func waits(task *v1alpha1.EtcdOperatorTask) string {
	switch c := story.Progressing(task); c.Reason {
	case v1alpha1.ReasonQueued, v1alpha1.ReasonSuspended, v1alpha1.ReasonStalled, v1alpha1.ReasonRetrying:
		return fmt.Sprintf("%s: %s", c.Reason, c.Message)
	}
	return ""
}
