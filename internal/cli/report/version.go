// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/pods"
	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// OperatorName is the name of the operator's container, and the value of its label app.kubernetes.io/name.
const OperatorName = "etcd-foreman"

// operatorPods returns the pods of the operator in all namespaces, or in its usual one if the user may not list all.
func operatorPods(ctx context.Context, cluster client.Reader) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	labeled := client.MatchingLabels{v1alpha1.LabelName: OperatorName}
	err := cluster.List(ctx, list, labeled)
	if apierrors.IsForbidden(err) {
		err = cluster.List(ctx, list, labeled, client.InNamespace(kube.OperatorNamespace))
	}
	if err != nil {
		return nil, fmt.Errorf("listing the pods of the operator: %w", err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return pods.Image(p.Spec, OperatorName) == "" }), nil
}

// Versions are the versions of the plugin, Kubernetes and the operator.
type Versions struct {
	Client Plugin `json:"client"`
	// Kubernetes is the version of the API server.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Operator has the pods of the operator.
	Operator []OperatorPod `json:"operator,omitempty"`
	// Problems are sentences about what could not be read.
	Problems []string `json:"problems,omitempty"`
}

// Plugin is the version of the plugin.
type Plugin struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// OperatorPod is a pod of the operator.
type OperatorPod struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Image     string `json:"image"`
	Version   string `json:"version,omitempty"`
	Ready     bool   `json:"ready"`
}

// pluginVersions returns the version of the plugin alone.
func pluginVersions() Versions {
	build := version.Get()
	return Versions{Client: Plugin{Version: build.Version, Commit: build.Commit, Go: build.Go}}
}

// readVersions returns the versions of the plugin and of what runs in a cluster.
func readVersions(ctx context.Context, cluster *kube.Cluster) Versions {
	v := pluginVersions()
	var err error
	if v.Kubernetes, err = cluster.ServerVersion(ctx); err != nil {
		v.Problems = append(v.Problems, "the version of Kubernetes could not be read: "+kube.Sentence(err))
		return v
	}
	found, err := operatorPods(ctx, cluster)
	switch {
	case err != nil:
		v.Problems = append(v.Problems, "the operator could not be found: "+kube.Sentence(err))
	case len(found) == 0:
		v.Problems = append(v.Problems, "no pod has the label "+v1alpha1.LabelName+"="+OperatorName+": the operator does not run here, or not as a pod")
	}
	for _, p := range found {
		image := pods.Image(p.Spec, OperatorName)
		v.Operator = append(v.Operator, OperatorPod{p.Namespace, p.Name, image, pods.Tag(image), pods.IsReady(&p)})
	}
	return v
}
