// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package versions is the verb version: of the plugin, and of what works in the cluster.
package versions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/operator"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

type command struct {
	*kube.Kube
	program string
	client  bool
	output  string
}

// Command is the verb. The program is how the plugin is called.
func Command(k *kube.Kube, program string) *cobra.Command {
	c := &command{Kube: k, program: program}
	cmd := &cobra.Command{
		Use: "version", Short: "Show the versions of the plugin, the operator and Kubernetes",
		Long: "Shows the version of the plugin with what it supports, of Kubernetes, and of the operator, by the images of its pods. " +
			"What may not be read is left out, with the reason.",
		Example: "  # Show what runs here\n  kubectl etcdtask version\n\n  # Without a cluster\n  kubectl etcdtask version --client",
		Args:    cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(*cobra.Command, []string) error { return c.validate() },
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	cmd.Flags().BoolVar(&c.client, "client", false, "Show the version of the plugin only. Needs no cluster.")
	cmd.Flags().StringVarP(&c.output, "output", "o", "", "json or yaml (default: text).")
	complete.Values(cmd, "output", "json", "yaml")
	return cmd
}

func (c *command) validate() error {
	if c.output != "" && c.output != "json" && c.output != "yaml" {
		return kube.Usage("--output is %q: it must be json or yaml", c.output)
	}
	return nil
}

// Plugin returns the version of the plugin.
func Plugin() operator.Client {
	build := version.Get()
	return operator.Client{Version: build.Version, Commit: build.Commit, Go: build.Go}
}

func (c *command) run(ctx context.Context) error {
	v := operator.Versions{Client: Plugin()}
	var unconnected error
	if !c.client {
		var cluster *kube.Cluster
		if cluster, unconnected = c.Connect(); unconnected == nil {
			v = operator.ReadVersions(ctx, cluster, v.Client)
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

func (c *command) show(v operator.Versions) error {
	if c.output != "" {
		raw, err := json.MarshalIndent(v, "", "  ")
		if err == nil && c.output == "yaml" {
			raw, err = yaml.JSONToYAML(raw)
		} else {
			raw = append(raw, '\n')
		}
		if err == nil {
			_, err = c.Out.Write(raw)
		}
		if err != nil {
			return fmt.Errorf("printing the versions: %w", err)
		}
		return nil
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
