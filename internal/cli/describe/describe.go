// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package describe is the verb describe: what a task is, what happened to it, and what to do next.
package describe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/queue"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type command struct{ *kube.Kube }

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{k}
	return &cobra.Command{
		Use: "describe TASK|ETCD", Short: "Tell the story of a task, and what to do next",
		Long: "Tells what a task is for, what happened to it, in order, from its status and its events, and what to do next where it has failed or is held. " +
			"Of an Etcd, the task is told of that runs, or is the next to run, or is the newest.",
		Example: "  # Why does the rollout of etcd-main not go on?\n  kubectl etcdtask describe etcd-main",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete.TasksAndEtcds(k),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
}

func (c *command) run(ctx context.Context, name string) error {
	api, err := c.Client()
	if err != nil {
		return err
	}
	namespace, err := c.Namespace()
	if err != nil {
		return err
	}
	task, err := c.TaskOf(ctx, api, namespace, name)
	if err != nil {
		return err
	}
	d := description{task: task, now: c.Clock.Now(), location: c.Location}
	events := &corev1.EventList{}
	// A person may be allowed to read tasks and not events.
	if err := api.List(ctx, events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.uid": string(task.UID)}); err != nil {
		d.noEvents = kube.Sentence(err)
	}
	d.events = events.Items
	if d.place, err = c.place(ctx, api, task); err != nil {
		return err
	}
	text.Print(c.Out, d.lines(c.Width())...)
	return nil
}

// place in line; empty when the task has ended.
func (c *command) place(ctx context.Context, api client.Reader, task *v1alpha1.EtcdOperatorTask) (string, error) {
	if task.Status.State.IsFinal() {
		return "", nil
	}
	all, err := c.Tasks(ctx, api, task.Namespace, task.Spec.OwnerEtcdReference.Name)
	if err != nil {
		return "", err
	}
	q := queue.New(all)
	i := slices.IndexFunc(q, func(t *v1alpha1.EtcdOperatorTask) bool { return t.UID == task.UID })
	if i < 0 {
		return "", nil
	}
	if task.Spec.Suspend {
		return fmt.Sprintf("suspended, among %d", len(q)), nil
	}
	return fmt.Sprintf("%d of %d", q.Behind(q[i])+1, len(q)), nil
}

// description is a task with what else is known of it.
type description struct {
	task     *v1alpha1.EtcdOperatorTask
	events   []corev1.Event
	noEvents string
	place    string
	now      time.Time
	location *time.Location
}

func (d description) time(t time.Time) string { return t.In(d.location).Format("15:04:05") }

func (d description) date(t time.Time) string { return t.In(d.location).Format("2006-01-02 MST") }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
