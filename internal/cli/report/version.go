// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/spf13/cobra"
)

type versionCommand struct {
	*kube.Kube
	program string
	client  bool
	output  string
}

// newVersionCommand returns the verb version. The program is how the plugin is called.
func newVersionCommand(k *kube.Kube, program string) *cobra.Command {
	c := &versionCommand{Kube: k, program: program}
	cmd := &cobra.Command{
		Use: "version", Short: "Show the versions of the plugin, the operator and Kubernetes",
		Long: "Shows the version of the plugin with what it supports, of Kubernetes, and of the operator, by the images of its pods. " +
			"What may not be read is left out, with the reason.",
		Example: "  # Show what runs here\n  kubectl etcdtask version\n\n  # Without a cluster\n  kubectl etcdtask version --client",
		Args:    cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(*cobra.Command, []string) error { return kube.CheckDocumentFormat(c.output) },
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&c.client, "client", false, "Show the version of the plugin only. Needs no cluster.")
	kube.AddDocumentFormat(cmd, &c.output)
	return cmd
}

func (c *versionCommand) run(ctx context.Context) error {
	v := pluginVersions()
	var unconnected error
	if !c.client {
		var cluster *kube.Cluster
		if cluster, unconnected = c.Connect(); unconnected == nil {
			v = readVersions(ctx, cluster)
		}
	}
	if err := c.show(v); err != nil {
		return err
	}
	switch {
	case unconnected != nil:
		return unconnected
	case v.Kubernetes == "" && len(v.Problems) > 0:
		return &kube.Error{Code: kube.ExitFailed, Err: errors.New(v.Problems[0])}
	}
	return nil
}

func (c *versionCommand) show(v Versions) error {
	if c.output != "" {
		return c.PrintDocument(v, c.output)
	}
	fmt.Fprint(c.Out, version.Get().Text(c.program)) //nolint:errcheck // there is nowhere to report it
	if v.Kubernetes == "" {
		return nil
	}
	lines := []string{"", "In the cluster", "Kubernetes: " + v.Kubernetes}
	for _, i := range v.Operator {
		ready := map[bool]string{true: "ready", false: "not ready"}[i.Ready]
		lines = append(lines, fmt.Sprintf("operator:   %s in pod %s/%s, %s (%s)", cmp.Or(i.Version, "unknown version"), i.Namespace, i.Pod, ready, i.Image))
	}
	for _, p := range v.Problems {
		lines = append(lines, "operator:   "+p)
	}
	c.Print(lines...)
	return nil
}
