// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package watch is the verb watch: a table of a task and the members of its cluster, renewed in place on a terminal,
// and lines of what happens elsewhere.
package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/follow"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// renewal is how often the table is renewed while nothing is heard of the task.
const renewal = time.Second

type command struct {
	*kube.Kube
	wait follow.Flags
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k}
	cmd := &cobra.Command{
		Use: "watch TASK|ETCD", Short: "Watch a task until it ends",
		Long: "Shows a task and the members of its cluster in a table that is renewed in place; where the output is no terminal, a line for everything that happens. " +
			"Ends with the task: the exit code is 0 if it succeeded. Of an Etcd, the task is watched that runs, or is the next to run, or is the newest.",
		Example: "  # Watch the rollout of etcd-main\n  kubectl etcdtask watch etcd-main\n\n  # In a script, at most ten minutes\n  kubectl etcdtask watch etcd-main --timeout 10m | tee rollout.log",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete.TasksAndEtcds(k),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	c.wait.AddTimeoutTo(cmd.Flags())
	return cmd
}

func (c *command) run(ctx context.Context, name string) error {
	if err := c.wait.Validate(); err != nil {
		return err
	}
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
	ctx, cancel := c.wait.Context(ctx)
	defer cancel()
	var last *v1alpha1.EtcdOperatorTask
	if c.Width() > 0 {
		last, err = c.table(ctx, api, task)
	} else {
		last, err = follow.Task(ctx, c.Kube, api, task, newTeller(c.Kube).tell)
	}
	if err != nil {
		return err
	}
	if c.Width() > 0 {
		text.Print(c.Out, follow.Ended(last))
	}
	return follow.Outcome(last)
}

// table renews the table whenever something is heard of the task, and every second.
func (c *command) table(ctx context.Context, api client.WithWatch, task *v1alpha1.EtcdOperatorTask) (*v1alpha1.EtcdOperatorTask, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	news := make(chan *v1alpha1.EtcdOperatorTask)
	type end struct {
		last *v1alpha1.EtcdOperatorTask
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		last, err := follow.Task(ctx, c.Kube, api, task, func(t *v1alpha1.EtcdOperatorTask) {
			select {
			case news <- t:
			case <-ctx.Done():
			}
		})
		ended <- end{last, err}
	}()
	screen := newScreen(c.Out, c.Size)
	defer screen.close()
	look := newLook(c.Kube, api)
	ticker := c.Clock.NewTicker(renewal)
	defer ticker.Stop()
	for {
		screen.draw(look.lines(ctx, task))
		select {
		case task = <-news:
		case <-ticker.C():
		case e := <-ended:
			if e.err == nil {
				screen.draw(look.lines(ctx, e.last))
			}
			return e.last, e.err
		}
	}
}

// took is how long a task has run, or ran.
func took(t *v1alpha1.EtcdOperatorTask, now time.Time) string {
	switch s := t.Status; {
	case s.InitiatedAt == nil:
		return "not started"
	case s.CompletedAt != nil:
		return s.CompletedAt.Sub(s.InitiatedAt.Time).Round(time.Second).String()
	default:
		return fmt.Sprint(now.Sub(s.InitiatedAt.Time).Truncate(time.Second))
	}
}
