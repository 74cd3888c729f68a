// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package steer has the verbs that change an existing task: suspend, resume, abort, override.
package steer

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/dryrun"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/follow"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// verb changes one task; done is its past participle.
type verb struct {
	name, short, long, example, done string
	// fits reports whether the change makes sense for a task that has not ended, for the completion.
	fits func(*v1alpha1.EtcdOperatorTask) bool
	act  func(ctx context.Context, c client.Client, t *v1alpha1.EtcdOperatorTask, options ...option) error
}

// option of a write, for a dry run.
type option interface {
	client.PatchOption
	client.DeleteOption
}

var verbs = []verb{
	{
		name: "suspend", done: "suspended", act: suspend(true), fits: func(t *v1alpha1.EtcdOperatorTask) bool { return !t.Spec.Suspend },
		short: "Pause a task between two steps, or keep it from starting",
		long: "Sets spec.suspend. A running task keeps its place in the queue and pauses between two steps; no step is interrupted. " +
			"Later tasks run before a task that has not started.",
		example: "  # Pause a rollout\n  kubectl etcdtask suspend etcd-main-rollout-7d9f9c7bd5-5c8fb-1",
	},
	{
		name: "resume", done: "resumed", act: suspend(false), fits: func(t *v1alpha1.EtcdOperatorTask) bool { return t.Spec.Suspend },
		short:   "Continue or start a suspended task",
		long:    "Clears spec.suspend. With the annotation druid.gardener.cloud/rollout: manual on an Etcd, this approves a rollout.",
		example: "  # Approve a rollout, and wait for it\n  kubectl etcdtask resume etcd-main-rollout-7d9f9c7bd5-5c8fb-1 --wait",
	},
	{
		name: "abort", done: "aborted", act: remove, fits: func(*v1alpha1.EtcdOperatorTask) bool { return true },
		short: "Delete a task that has not ended; a running one ends between two steps",
		long: "Deletes the task. Completed steps are not undone. While pods are outdated, an aborted rollout is followed by a new one: " +
			"to stop rollouts, suspend the task instead.",
		example: "  # Remove a snapshot from the queue\n  kubectl etcdtask abort etcd-main-snapshot-x7k2p",
	},
}

type command struct {
	*kube.Kube
	verb   verb
	dryRun dryrun.Mode
	wait   follow.Flags
}

// Commands returns the verbs.
func Commands(k *kube.Kube) []*cobra.Command {
	var all []*cobra.Command
	for _, v := range verbs {
		all = append(all, newCommand(k, v))
	}
	return append(all, newOverride(k))
}

func newCommand(k *kube.Kube, v verb) *cobra.Command {
	c := &command{Kube: k, verb: v}
	cmd := &cobra.Command{
		Use: v.name + " TASK", Short: v.short, Long: v.long, Example: v.example, Args: cobra.ExactArgs(1),
		ValidArgsFunction: complete.Tasks(k, func(t *v1alpha1.EtcdOperatorTask) bool { return !t.Status.State.IsFinal() && v.fits(t) }),
		PreRunE:           func(*cobra.Command, []string) error { return c.validate() },
		RunE:              k.Run(c.run),
	}
	c.dryRun.AddTo(cmd, "only print what would be done", "have the API server check it, but not do it")
	if v.name == "resume" {
		c.wait.AddTo(cmd.Flags())
	}
	return cmd
}

func (c *command) validate() error {
	if err := c.dryRun.Validate(c.wait.Wait); err != nil {
		return err
	}
	return c.wait.Validate()
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	name, err := kube.TaskName(arg)
	if err != nil {
		return err
	}
	task, err := cluster.Task(ctx, name)
	if err != nil {
		return err
	}
	if task.Status.State.IsFinal() {
		return kube.Failure("%s", follow.Ended(task))
	}
	switch c.dryRun {
	case dryrun.Client:
	case dryrun.Server:
		err = c.verb.act(ctx, cluster, task, client.DryRunAll)
	default:
		err = c.verb.act(ctx, cluster, task)
	}
	if err != nil {
		return fmt.Errorf("changing task %s: %w", name, err)
	}
	text.Print(c.Out, "etcdoperatortask.druid.gardener.cloud/"+name+" "+c.verb.done+c.dryRun.Suffix())
	if !c.wait.Wait {
		return nil
	}
	last, err := c.wait.UntilEnd(ctx, c.Kube, cluster, task)
	if err != nil {
		return err
	}
	return follow.Outcome(last)
}

func suspend(to bool) func(context.Context, client.Client, *v1alpha1.EtcdOperatorTask, ...option) error {
	return func(ctx context.Context, c client.Client, t *v1alpha1.EtcdOperatorTask, options ...option) error {
		before := client.MergeFrom(t.DeepCopy())
		t.Spec.Suspend = to
		var patch []client.PatchOption
		for _, o := range options {
			patch = append(patch, o)
		}
		return c.Patch(ctx, t, before, patch...)
	}
}

// remove deletes the task that was read, not a later one of the same name.
func remove(ctx context.Context, c client.Client, t *v1alpha1.EtcdOperatorTask, options ...option) error {
	precise := []client.DeleteOption{client.Preconditions{UID: &t.UID}}
	for _, o := range options {
		precise = append(precise, o)
	}
	return c.Delete(ctx, t, precise...)
}
