// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package timeline is the verb timeline: a picture of a rollout, or of a change that goes through the fleet, from the statuses of tasks.
package timeline

import (
	"cmp"
	"context"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/timeline"
	"github.com/spf13/cobra"
)

type command struct {
	*kube.Kube
	format string
	change string
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k}
	cmd := &cobra.Command{
		Use: "timeline TASK|ETCD", Short: "Draw a rollout: members, leader, steps; or a change across all Etcds",
		Long: "Draws when a rollout replaced or updated each pod, when its member participated again, who led, and what blocks, from the status of the task. " +
			"For an Etcd, draws its running, next or latest task. Writes are not in the picture: nothing records them.\n\n" +
			"With --change, draws how a change goes through the Etcds of all namespaces instead: where it waits, runs, is watched, failed, or its task succeeded. " +
			"Policies name only some of the clusters that are watched or failed; the picture says if there are more. It takes the rights to list tasks in all namespaces, and EtcdFleetPolicies. Tasks that are deleted by now are not in the picture.",
		Example: "  # See how far the rollout of etcd-main is\n  kubectl etcdtask timeline etcd-main\n\n  # Keep a picture of it\n  kubectl etcdtask timeline etcd-main -o svg > rollout.svg\n\n" +
			"  # See how a change went through the fleet\n  kubectl etcdtask timeline --change v1-0123456789abcdef",
		Args: func(cmd *cobra.Command, args []string) error {
			if c.change != "" && len(args) > 0 {
				return kube.Usage("--change is about all Etcds, and goes without a TASK or an ETCD")
			} else if c.change != "" {
				return nil
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		ValidArgsFunction: k.CompleteTasksAndEtcds(),
		PreRunE: func(*cobra.Command, []string) error {
			if c.format != "" && c.format != "svg" && c.format != "html" {
				return kube.Usage("--output: %q is neither svg nor html", c.format)
			}
			return nil
		},
		RunE: k.Run(c.run),
	}
	cmd.Flags().StringVar(&c.change, "change", "", "Draw how this change goes through all Etcds; \"kubectl etcdtask fleet\" lists changes.")
	cmd.Flags().StringVarP(&c.format, "output", "o", "", "Draw a picture instead of characters: svg, or html for a page with it.")
	kube.CompleteValues(cmd, "output", "svg", "html")
	return cmd
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	chart, err := c.chart(ctx, cluster, arg)
	switch {
	case err != nil:
		return err
	case c.format == "svg":
		return chart.Write(c.Out)
	case c.format == "html":
		return chart.WritePage(c.Out)
	}
	c.Print(chart.Text(cmp.Or(c.Width(), 100))...)
	return nil
}

func (c *command) chart(ctx context.Context, cluster *kube.Cluster, arg string) (timeline.Chart, error) {
	if c.change != "" {
		return c.chartOfChange(ctx, cluster)
	}
	ref, err := kube.ParseRef(arg)
	if err != nil {
		return timeline.Chart{}, err
	}
	task, err := cluster.CurrentTask(ctx, ref)
	if err != nil {
		return timeline.Chart{}, err
	}
	chart, ok := timeline.OfTask(task, c.Clock.Now())
	if !ok {
		return chart, kube.Failure("task %s is no rollout that has begun", task.Name)
	}
	return chart, nil
}

func (c *command) chartOfChange(ctx context.Context, cluster *kube.Cluster) (timeline.Chart, error) {
	policies, err := cluster.FleetPolicies(ctx)
	if err != nil {
		return timeline.Chart{}, err
	}
	tasks := &v1alpha1.EtcdOperatorTaskList{}
	if err := cluster.List(ctx, tasks); err != nil {
		return timeline.Chart{}, fmt.Errorf("listing the tasks of all namespaces: %w", err)
	}
	chart, ok := timeline.OfChange(c.change, tasks.Items, policies, c.Clock.Now())
	if !ok {
		return chart, kube.Failure("no task has change %s; \"kubectl etcdtask fleet\" lists changes", c.change)
	}
	return chart, nil
}
