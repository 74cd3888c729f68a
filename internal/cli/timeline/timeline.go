// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package timeline is the verb timeline: a picture of a rollout, from the status of its task.
package timeline

import (
	"cmp"
	"context"

	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/timeline"
	"github.com/spf13/cobra"
)

type command struct {
	*kube.Kube
	format string
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k}
	cmd := &cobra.Command{
		Use: "timeline TASK|ETCD", Short: "Draw a rollout: members, leader, steps",
		Long: "Draws when a rollout replaced or updated each pod, when its member participated again, who led, and what blocks, from the status of the task. " +
			"For an Etcd, draws its running, next or latest task. Writes are not in the picture: nothing records them.",
		Example: "  # See how far the rollout of etcd-main is\n  kubectl etcdtask timeline etcd-main\n\n  # Keep a picture of it\n  kubectl etcdtask timeline etcd-main -o svg > rollout.svg",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: k.CompleteTasksAndEtcds(),
		PreRunE: func(*cobra.Command, []string) error {
			if c.format != "" && c.format != "svg" && c.format != "html" {
				return kube.Usage("--output: %q is neither svg nor html", c.format)
			}
			return nil
		},
		RunE: k.Run(c.run),
	}
	cmd.Flags().StringVarP(&c.format, "output", "o", "", "Draw a picture instead of characters: svg, or html for a page with it.")
	kube.CompleteValues(cmd, "output", "svg", "html")
	return cmd
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	ref, err := kube.ParseRef(arg)
	if err != nil {
		return err
	}
	task, err := cluster.CurrentTask(ctx, ref)
	if err != nil {
		return err
	}
	chart, ok := timeline.OfTask(task, c.Clock.Now())
	switch {
	case !ok:
		return kube.Failure("task %s is no rollout that has begun", task.Name)
	case c.format == "svg":
		return chart.Write(c.Out)
	case c.format == "html":
		return chart.WritePage(c.Out)
	}
	c.Print(chart.Text(cmp.Or(c.Width(), 100))...)
	return nil
}
