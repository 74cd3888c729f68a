// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package steer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/dryrun"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/follow"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// override is the verb that lets a rollout override guards.
type override struct {
	*kube.Kube
	dryRun dryrun.Mode
	guards []string
}

func newOverride(k *kube.Kube) *cobra.Command {
	c := &override{Kube: k}
	isRollout := func(t *v1alpha1.EtcdOperatorTask) bool {
		return !t.Status.State.IsFinal() && t.Spec.Type == v1alpha1.QuorumAwareRollout
	}
	cmd := &cobra.Command{
		Use: "override TASK GUARD...", Short: "Let a rollout override a guard that blocks it",
		Long: "Adds guards to spec.overrideGuards of a rollout that has not ended. Guards that protect the quorum cannot be overridden. " +
			"Those that can: " + strings.Join(rollout.Overridable(), ", ") + ".",
		Example: "  # Go on although another node is not ready\n  kubectl etcdtask override etcd-main-rollout-7d9f9c7bd5-5c8fb-1 NodesStable",
		Args:    cobra.MinimumNArgs(2),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return complete.Tasks(k, isRollout)(cmd, args, prefix)
			}
			return rollout.Overridable(), cobra.ShellCompDirectiveNoFileComp
		},
		PreRunE: func(_ *cobra.Command, args []string) error { return c.validate(args[1:]) },
		RunE:    k.Run(c.run),
	}
	c.dryRun.AddTo(cmd, "only print what would be done", "have the API server check it, but not do it")
	return cmd
}

func (c *override) validate(guards []string) error {
	for _, guard := range guards {
		if !slices.Contains(rollout.Overridable(), guard) {
			return kube.Usage("guard %q cannot be overridden: only %s can", guard, strings.Join(rollout.Overridable(), ", "))
		}
	}
	c.guards = guards
	return c.dryRun.Validate(false)
}

func (c *override) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	name, err := kube.TaskName(arg)
	if err != nil {
		return err
	}
	task, err := cluster.Task(ctx, name)
	switch {
	case err != nil:
		return err
	case task.Status.State.IsFinal():
		return kube.Failure("%s", follow.Ended(task))
	case task.Spec.Type != v1alpha1.QuorumAwareRollout:
		return kube.Failure("task %s is a %s: only a %s has guards", name, task.Spec.Type, v1alpha1.QuorumAwareRollout)
	}
	// A list is replaced as a whole: what somebody else has added in the meantime must not get lost.
	before := client.MergeFromWithOptions(task.DeepCopy(), client.MergeFromWithOptimisticLock{})
	for _, guard := range c.guards {
		if g := v1alpha1.OverridableGuard(guard); !slices.Contains(task.Spec.OverrideGuards, g) {
			task.Spec.OverrideGuards = append(task.Spec.OverrideGuards, g)
		}
	}
	switch c.dryRun {
	case dryrun.Client:
	case dryrun.Server:
		err = cluster.Patch(ctx, task, before, client.DryRunAll)
	default:
		err = cluster.Patch(ctx, task, before)
	}
	if err != nil {
		return fmt.Errorf("changing task %s: %w", name, err)
	}
	text.Print(c.Out, "etcdoperatortask.druid.gardener.cloud/"+name+" overrides "+strings.Join(c.guards, ", ")+c.dryRun.Suffix())
	return nil
}
