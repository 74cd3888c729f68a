// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package steer has the verbs that act on a task that there is: suspend, resume, abort.
package steer

import (
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/follow"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// verb changes one task, and says in a word what it did.
type verb struct {
	name, short, long, example, done string
	// refuse says why a task cannot be changed so.
	refuse func(*v1alpha1.EtcdOperatorTask) error
	act    func(ctx context.Context, c client.Client, t *v1alpha1.EtcdOperatorTask, options ...option) error
}

// option of a write; --dry-run=server sets it.
type option interface {
	client.PatchOption
	client.DeleteOption
}

var verbs = []verb{
	{
		name: "suspend", done: "suspended", act: suspend(true), refuse: ended,
		short:   "Hold a task between two steps, or keep it from starting",
		long:    "Sets spec.suspend. A task that runs keeps its place in line and is held between two steps; nothing is interrupted half way. One that has not started lets the others pass.",
		example: "  # Hold a rollout\n  kubectl etcdtask suspend etcd-main-rollout-7d9f9c7bd5-5c8fb-1",
	},
	{
		name: "resume", done: "resumed", act: suspend(false), refuse: ended,
		short:   "Let a suspended task go on, or start",
		long:    "Clears spec.suspend. With the annotation druid.gardener.cloud/rollout: manual on an Etcd, this approves a rollout.",
		example: "  # Approve a rollout, and see how it goes\n  kubectl etcdtask resume etcd-main-rollout-7d9f9c7bd5-5c8fb-1 --wait",
	},
	{
		name: "abort", done: "aborted", act: remove, refuse: ended,
		short: "Delete a task that has not ended; one that runs ends between two steps",
		long: "Deletes the task. What it has done stays done. While pods are outdated, an aborted rollout is followed by a new one: " +
			"to stop rollouts, suspend the task instead.",
		example: "  # Take a snapshot out of the line\n  kubectl etcdtask abort etcd-main-snapshot-x7k2p",
	},
}

type command struct {
	*kube.Kube
	verb   verb
	dryRun string
	wait   follow.Flags
}

// Commands are the verbs.
func Commands(k *kube.Kube) []*cobra.Command {
	var all []*cobra.Command
	for _, v := range verbs {
		all = append(all, newCommand(k, v))
	}
	return all
}

func newCommand(k *kube.Kube, v verb) *cobra.Command {
	c := &command{Kube: k, verb: v}
	cmd := &cobra.Command{
		Use: v.name + " TASK", Short: v.short, Long: v.long, Example: v.example,
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete.Tasks(k, func(t *v1alpha1.EtcdOperatorTask) bool {
			return v.refuse(t) == nil && (v.name == "abort" || t.Spec.Suspend == (v.name == "resume"))
		}),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().StringVar(&c.dryRun, "dry-run", "none", "none, client (only say what would be done) or server (have the API server check it, and not do it).")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "unchanged"
	if v.name == "resume" {
		c.wait.AddTo(cmd.Flags())
	}
	return cmd
}

func (c *command) run(ctx context.Context, name string) error {
	switch {
	case c.dryRun != "none" && c.dryRun != "client" && c.dryRun != "server":
		return kube.Usage("--dry-run needs a value: client or server")
	case c.dryRun != "none" && c.wait.Wait:
		return kube.Usage("--wait and --dry-run exclude each other: a dry run changes nothing to wait for")
	case c.wait.Timeout != 0 && !c.wait.Wait:
		return kube.Usage("--timeout goes with --wait")
	}
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
	task, err := c.Task(ctx, api, namespace, name)
	if err != nil {
		return err
	}
	if err := c.verb.refuse(task); err != nil {
		return err
	}
	said := "etcdoperatortask.druid.gardener.cloud/" + name + " " + c.verb.done
	switch c.dryRun {
	case "client":
		text.Print(c.Out, said+" (dry run)")
		return nil
	case "server":
		said += " (server dry run)"
		err = c.verb.act(ctx, api, task, client.DryRunAll)
	default:
		err = c.verb.act(ctx, api, task)
	}
	if err != nil {
		return fmt.Errorf("changing task %s: %w", name, err)
	}
	text.Print(c.Out, said)
	if !c.wait.Wait {
		return nil
	}
	last, err := c.wait.UntilEnd(ctx, c.Kube, api, task)
	if err != nil {
		return err
	}
	return follow.Outcome(last)
}

func ended(t *v1alpha1.EtcdOperatorTask) error {
	if t.Status.State.IsFinal() {
		return kube.Failure("%s", follow.Ended(t))
	}
	return nil
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

// remove deletes the very task that was looked at.
func remove(ctx context.Context, c client.Client, t *v1alpha1.EtcdOperatorTask, options ...option) error {
	precise := []client.DeleteOption{client.Preconditions{UID: &t.UID}}
	for _, o := range options {
		precise = append(precise, o)
	}
	return c.Delete(ctx, t, precise...)
}
