// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package watch

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
)

// printer prints each thing that happens to a task once.
type printer struct {
	*kube.Kube
	printed map[string]bool
	waiting string
}

func newPrinter(k *kube.Kube) *printer { return &printer{Kube: k, printed: map[string]bool{}} }

// print prints what is new in the status of a task.
func (p *printer) print(task *v1alpha1.EtcdOperatorTask) error {
	for _, l := range text.Story(task, nil) {
		// The detail of a line may grow; its time and text do not change.
		key := fmt.Sprint(l.At.Unix(), l.Text)
		if p.printed[key] {
			continue
		}
		p.printed[key] = true
		line := text.TimeOfDay(l.At.In(p.Location)) + " " + l.Text
		if l.Detail != "" {
			line += ": " + l.Detail
		}
		p.Print(line)
	}
	if waiting := waitsFor(task); waiting != p.waiting {
		if p.waiting = waiting; waiting != "" {
			p.Print(text.TimeOfDay(p.Clock.Now().In(p.Location)) + " " + waiting)
		}
	}
	return nil
}

// waitsFor returns what a task is waiting for, which is not part of its story.
func waitsFor(task *v1alpha1.EtcdOperatorTask) string {
	switch c := text.Progressing(task); c.Reason {
	case v1alpha1.ReasonQueued, v1alpha1.ReasonSuspended, v1alpha1.ReasonStalled, v1alpha1.ReasonRetrying,
		v1alpha1.ReasonCleanupFailed:
		return fmt.Sprintf("%s: %s", c.Reason, c.Message)
	}
	return ""
}
