// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"context"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// newOverride returns the verb that lets a rollout override guards.
func newOverride(k *kube.Kube) *cobra.Command {
	c := &changeCommand{Kube: k, change: change{guards: true}}
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
				return k.CompleteTasks(isRollout)(cmd, args, prefix)
			}
			return rollout.Overridable(), cobra.ShellCompDirectiveNoFileComp
		},
		PreRunE: func(_ *cobra.Command, args []string) error {
			guards := args[1:]
			c.act, c.done = override(guards), "overrides "+strings.Join(guards, ", ")
			if err := checkGuards(guards); err != nil {
				return err
			}
			return c.validate()
		},
		RunE: k.Run(c.run),
	}
	c.addDryRunTo(cmd)
	return cmd
}

// checkGuards returns an error if one of the guards cannot be overridden.
func checkGuards(guards []string) error {
	for _, guard := range guards {
		if !slices.Contains(rollout.Overridable(), guard) {
			return kube.Usage("guard %q cannot be overridden: only %s can", guard, strings.Join(rollout.Overridable(), ", "))
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
