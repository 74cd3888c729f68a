// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/watch"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is a verb that changes one task. done is what the verb reports.
type change struct {
	name, short, long, example, done string
	// fits reports whether the name of a task that has not ended is completed.
	fits func(*v1alpha1.EtcdOperatorTask) bool
	// guards that the verb has a task override.
	guards []string
	act    func(ctx context.Context, c client.Client, t *v1alpha1.EtcdOperatorTask) error
}

var changes = []change{
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
			"to stop rollouts, suspend the task instead. A Restore or a QuorumLossRecovery that has chosen what the cluster starts from goes on to its end, and is not deleted.",
		example: "  # Remove a snapshot from the queue\n  kubectl etcdtask abort etcd-main-snapshot-x7k2p",
	},
}

type changeCommand struct {
	*kube.Kube
	change
	dryRun dryRunMode
	wait   watch.WaitFlags
}

// ChangeCommands returns the verbs that change an existing task: suspend, resume, abort and override.
func ChangeCommands(k *kube.Kube) []*cobra.Command {
	var all []*cobra.Command
	for _, c := range changes {
		all = append(all, newChange(k, c))
	}
	return append(all, newOverride(k))
}

func newChange(k *kube.Kube, to change) *cobra.Command {
	c := &changeCommand{Kube: k, change: to}
	cmd := &cobra.Command{
		Use: to.name + " TASK", Short: to.short, Long: to.long, Example: to.example, Args: cobra.ExactArgs(1),
		ValidArgsFunction: k.CompleteTasks(func(t *v1alpha1.EtcdOperatorTask) bool { return !t.Status.State.IsFinal() && to.fits(t) }),
		PreRunE:           func(*cobra.Command, []string) error { return c.validate() },
		RunE:              k.Run(c.run),
	}
	c.addDryRunTo(cmd)
	if to.name == "resume" {
		c.wait.AddTo(cmd.Flags())
	}
	return cmd
}

func (c *changeCommand) addDryRunTo(cmd *cobra.Command) {
	c.dryRun.addTo(cmd, "only print what would be done", "have the API server check it, but not do it")
}

func (c *changeCommand) validate() error {
	if err := c.dryRun.validate(c.wait.Wait); err != nil {
		return err
	}
	return c.wait.Validate()
}

func (c *changeCommand) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	name, err := kube.TaskName(arg)
	if err != nil {
		return err
	}
	task, err := cluster.Task(ctx, name)
	switch {
	case err != nil:
		return err
	case task.Status.State.IsFinal():
		return kube.Failure("%s", watch.Ended(task))
	}
	if err := checkGuards(task.Spec.Type, c.guards); err != nil {
		return err
	}
	switch c.dryRun {
	case dryRunClient:
	case dryRunServer:
		err = c.act(ctx, client.NewDryRunClient(cluster), task)
	default:
		err = c.act(ctx, cluster, task)
	}
	if err != nil {
		return fmt.Errorf("changing task %s: %w", name, err)
	}
	text.Print(c.Out, "etcdoperatortask.druid.gardener.cloud/"+name+" "+c.done+c.dryRun.suffix())
	if !c.wait.Wait {
		return nil
	}
	last, err := c.wait.UntilEnd(ctx, c.Kube, cluster, task)
	if err != nil {
		return err
	}
	return watch.Outcome(last)
}

func suspend(to bool) func(context.Context, client.Client, *v1alpha1.EtcdOperatorTask) error {
	return func(ctx context.Context, c client.Client, t *v1alpha1.EtcdOperatorTask) error {
		before := client.MergeFrom(t.DeepCopy())
		t.Spec.Suspend = to
		return c.Patch(ctx, t, before)
	}
}

// maxRemovals is how often a task is read again that has changed before it could be deleted.
const maxRemovals = 10

// remove deletes the task as it was read, and no later one of the same name. If it has changed, it is checked again: the operator may just
// have recorded what the cluster starts from.
func remove(ctx context.Context, c client.Client, t *v1alpha1.EtcdOperatorTask) error {
	uid := t.UID
	for range maxRemovals {
		if err := removable(t, uid); err != nil {
			return err
		}
		err := c.Delete(ctx, t, client.Preconditions{UID: &t.UID, ResourceVersion: &t.ResourceVersion})
		if !apierrors.IsConflict(err) {
			return err
		}
		now := &v1alpha1.EtcdOperatorTask{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(t), now); err != nil {
			return fmt.Errorf("reading it again: %w", err)
		}
		t = now
	}
	return kube.Failure("it changes all the time: try again")
}

// removable returns why a task cannot be aborted; nil if it can. One that has had members start from other data is not aborted by its
// deletion, and what they had goes with it.
func removable(t *v1alpha1.EtcdOperatorTask, uid types.UID) error {
	switch {
	case t.UID != uid:
		return kube.Failure("it was deleted, and another one has its name")
	case t.Status.State.IsFinal():
		return kube.Failure("%s", watch.Ended(t))
	case t.SetsAside():
		return kube.Failure("it has chosen what the cluster starts from: deleting the task does not stop that, and lets members remove the data that they have set aside. "+
			"%s. To delete it nevertheless, run: kubectl delete etcdtask %s -n %s", wayBack(t), t.Name, t.Namespace)
	}
	return nil
}

// wayBack returns how to go back to what members have set aside for a task.
func wayBack(t *v1alpha1.EtcdOperatorTask) string {
	if t.Spec.Type == v1alpha1.Restore {
		return fmt.Sprintf("Once it has ended, \"kubectl etcdtask restore ETCD --undo %s\" goes back to that data", t.Name)
	}
	return "docs/recovery.md says when that withdraws the recovery nevertheless, and how to go back to that data"
}

// newOverride returns the verb that lets a task override guards.
func newOverride(k *kube.Kube) *cobra.Command {
	c := &changeCommand{Kube: k}
	hasGuards := func(t *v1alpha1.EtcdOperatorTask) bool {
		return !t.Status.State.IsFinal() && overridable(t.Spec.Type) != nil
	}
	cmd := &cobra.Command{
		Use: "override TASK GUARD...", Short: "Let a task override a guard that blocks it",
		Long: "Adds guards to spec.overrideGuards of a task that has not ended. Guards that protect the quorum cannot be overridden. " +
			"Those of a rollout that can: " + strings.Join(rollout.Overridable(), ", ") + "; of a change of members: " + strings.Join(membership.Overridable(), ", ") +
			"; of a recreation: " + strings.Join(overridable(v1alpha1.RecreateRollout), ", ") + ".",
		Example: "  # Go on although another node is not ready\n  kubectl etcdtask override etcd-main-rollout-7d9f9c7bd5-5c8fb-1 NodesStable",
		Args:    cobra.MinimumNArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return k.CompleteTasks(hasGuards)(cmd, args, prefix)
			}
			return append(rollout.Overridable(), string(membership.GuardBackedUp)), cobra.ShellCompDirectiveNoFileComp
		},
		PreRunE: func(_ *cobra.Command, args []string) error {
			c.guards = args[1:]
			c.act, c.done = override(c.guards), "overrides "+strings.Join(c.guards, ", ")
			return c.validate()
		},
		RunE: k.Run(c.run),
	}
	c.addDryRunTo(cmd)
	return cmd
}

// overridable returns the guards that a task of a type may override, in the order in which they are asked.
func overridable(of v1alpha1.TaskType) []string {
	switch of {
	case v1alpha1.QuorumAwareRollout:
		return rollout.Overridable()
	case v1alpha1.MembershipChange:
		return membership.Overridable()
	case v1alpha1.RecreateRollout:
		return []string{string(v1alpha1.GuardVolumeReachable)}
	}
	return nil
}

// checkGuards returns an error if a task of a type cannot override one of the guards.
func checkGuards(of v1alpha1.TaskType, guards []string) error {
	can := overridable(of)
	for _, guard := range guards {
		switch {
		case can == nil:
			return kube.Usage("a task of type %s has no guards that can be overridden", of)
		case !slices.Contains(can, guard):
			return kube.Usage("guard %q cannot be overridden: of those of a %s, only %s can", guard, of, strings.Join(can, ", "))
		}
	}
	return nil
}

func override(guards []string) func(context.Context, client.Client, *v1alpha1.EtcdOperatorTask) error {
	return func(ctx context.Context, c client.Client, t *v1alpha1.EtcdOperatorTask) error {
		// The patch replaces the whole list: the lock keeps guards that another user has just added.
		before := client.MergeFromWithOptions(t.DeepCopy(), client.MergeFromWithOptimisticLock{})
		for _, guard := range guards {
			if g := v1alpha1.OverridableGuard(guard); !slices.Contains(t.Spec.OverrideGuards, g) {
				t.Spec.OverrideGuards = append(t.Spec.OverrideGuards, g)
			}
		}
		return c.Patch(ctx, t, before)
	}
}
