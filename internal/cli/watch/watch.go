// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package watch is the verb watch: on a terminal, a table of a task and the members of its cluster, renewed in place;
// elsewhere, a line for each thing that happens to the task.
package watch

import (
	"context"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/follow"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/screen"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/story"
	"github.com/spf13/cobra"
)

// period is how often the table is renewed if the task does not change.
const period = time.Second

type command struct {
	*kube.Kube
	wait follow.Flags
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k}
	cmd := &cobra.Command{
		Use: "watch TASK|ETCD", Short: "Watch a task until it ends",
		Long: "Shows a task and the members of its cluster in a table that is renewed in place; if the output is not a terminal, prints a line for each thing that happens. " +
			"Ends with the task: the exit code is 0 if it succeeded. For an Etcd, shows its running and next task until its newest spec is applied and every member is at the newest template; " +
			"if that is so already, shows its latest task.",
		Example: "  # Watch the rollout of etcd-main\n  kubectl etcdtask watch etcd-main\n\n  # In a script, at most ten minutes\n  kubectl etcdtask watch etcd-main --timeout 10m | tee rollout.log",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: complete.TasksAndEtcds(k),
		PreRunE: func(*cobra.Command, []string) error { return c.wait.Validate() },
		RunE:    k.Run(c.run),
	}
	c.wait.AddTimeoutTo(cmd.Flags())
	return cmd
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	ref, err := kube.ParseRef(arg)
	if err != nil {
		return err
	}
	ctx, cancel := c.wait.Context(ctx)
	defer cancel()
	task, err := cluster.FindTask(ctx, ref)
	switch {
	case kube.IsOver(ctx):
		return stopped(ctx, arg+" has not been read.")
	case err != nil:
		return err
	}
	if task != nil {
		_, err := c.follow(ctx, cluster, task)
		return err
	}
	return c.followEtcd(ctx, cluster, ref)
}

// follow shows a task until it ends, and returns it as it ended, with the error of one that did not succeed.
func (c *command) follow(ctx context.Context, cluster *kube.Cluster, task *v1alpha1.EtcdOperatorTask) (*v1alpha1.EtcdOperatorTask, error) {
	var last *v1alpha1.EtcdOperatorTask
	var err error
	if c.Width() > 0 {
		last, err = c.showTable(ctx, cluster, task)
	} else {
		last, err = follow.Task(ctx, c.Kube, cluster, task, newPrinter(c.Kube).print)
	}
	if err != nil {
		return nil, err
	}
	if c.Width() > 0 {
		c.Print(follow.Ended(last))
	}
	return last, follow.Outcome(last)
}

// showTable renews the table when the task changes, and every second.
func (c *command) showTable(ctx context.Context, cluster *kube.Cluster, task *v1alpha1.EtcdOperatorTask) (*v1alpha1.EtcdOperatorTask, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed := make(chan *v1alpha1.EtcdOperatorTask)
	type end struct {
		last *v1alpha1.EtcdOperatorTask
		err  error
	}
	ended := make(chan end, 1)
	go func() {
		last, err := follow.Task(ctx, c.Kube, cluster, task, func(t *v1alpha1.EtcdOperatorTask) {
			select {
			case changed <- t:
			case <-ctx.Done():
			}
		})
		ended <- end{last, err}
	}()
	page := screen.New(c.Kube)
	defer page.Close()
	table := newTable(c.Kube, cluster)
	ticker := c.Clock.NewTicker(period)
	defer ticker.Stop()
	for {
		page.Draw(table.lines(ctx, task))
		select {
		case task = <-changed:
		case <-ticker.C():
		case e := <-ended:
			if e.err == nil {
				page.Draw(table.lines(ctx, e.last))
			}
			return e.last, e.err
		}
	}
}

// took returns how long a task has run, or ran.
func took(t *v1alpha1.EtcdOperatorTask, now time.Time) string {
	if t.Status.InitiatedAt == nil {
		return "not started"
	}
	if took, ended := story.Took(t); ended {
		return took.String()
	}
	return now.Sub(t.Status.InitiatedAt.Time).Truncate(time.Second).String()
}
