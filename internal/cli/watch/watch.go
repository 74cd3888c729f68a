// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package watch has the live view of the plugin, which renews a page in place on a terminal and prints lines elsewhere, and what
// shows it: the verb watch and the flag --wait. The verbs list and status use it for their flag --watch.
package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/spf13/cobra"
)

// pendingPeriod is how often an Etcd is read while it has no task to follow.
const pendingPeriod = time.Second

type command struct {
	*kube.Kube
	wait WaitFlags
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
		Args:    cobra.ExactArgs(1), ValidArgsFunction: k.CompleteTasksAndEtcds(),
		PreRunE: func(*cobra.Command, []string) error { return c.wait.Validate() },
		RunE:    k.Run(c.run),
	}
	c.wait.addTimeoutTo(cmd.Flags())
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

// follow shows a task until it ends, and returns its last state, and an error if it did not succeed.
func (c *command) follow(ctx context.Context, cluster *kube.Cluster, task *v1alpha1.EtcdOperatorTask) (*v1alpha1.EtcdOperatorTask, error) {
	var last *v1alpha1.EtcdOperatorTask
	table, lines := newTable(c.Kube, cluster), newPrinter(c.Kube)
	err := Show(ctx, c.Kube, Task(c.Kube, cluster, task, &last), Format[*v1alpha1.EtcdOperatorTask]{
		Page:  func(t *v1alpha1.EtcdOperatorTask) Page { return table.read(ctx, t).page },
		Print: lines.print,
	})
	if err != nil {
		return nil, err
	}
	if c.Width() > 0 {
		c.Print(Ended(last))
	}
	return last, Outcome(last)
}

// took returns how long a task has been running, or ran.
func took(t *v1alpha1.EtcdOperatorTask, now time.Time) string {
	if t.Status.InitiatedAt == nil {
		return "not started"
	}
	if took, ended := text.Took(t); ended {
		return took.String()
	}
	return now.Sub(t.Status.InitiatedAt.Time).Truncate(time.Second).String()
}

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
	switch c := task.Status.Progressing(); c.Reason {
	case v1alpha1.ReasonQueued, v1alpha1.ReasonSuspended, v1alpha1.ReasonStalled, v1alpha1.ReasonRetrying,
		v1alpha1.ReasonCleanupFailed:
		return fmt.Sprintf("%s: %s", c.Reason, c.Message)
	}
	return ""
}
