// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package operator finds the operator that works in a cluster.
package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// Name of the operator: that of its container, and the value of app.kubernetes.io/name.
	Name = "etcd-foreman"
	// Namespace that the manifests install it into.
	Namespace = "etcd-foreman-system"
)

// Pods returns the pods of the operator, in all namespaces; in the one of the manifests if the user may not list more.
func Pods(ctx context.Context, cluster client.Reader) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	labeled := client.MatchingLabels{v1alpha1.LabelName: Name}
	err := cluster.List(ctx, pods, labeled)
	if apierrors.IsForbidden(err) {
		err = cluster.List(ctx, pods, labeled, client.InNamespace(Namespace))
	}
	if err != nil {
		return nil, fmt.Errorf("listing the pods of the operator: %w", err)
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return Image(&p) == "" }), nil
}

// Image returns the image of the operator in a pod; empty if the pod has no container of that name.
func Image(pod *corev1.Pod) string {
	for _, c := range pod.Spec.Containers {
		if c.Name == Name {
			return c.Image
		}
	}
	return ""
}

// Version returns the version of the operator by the tag of its image; empty if it has none.
func Version(image string) string {
	image, _, _ = strings.Cut(image, "@")
	colon := strings.LastIndex(image, ":")
	if colon < strings.LastIndex(image, "/") || colon < 0 {
		return ""
	}
	return image[colon+1:]
}

// IsReady reports whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Versions are those of the programs that work together.
type Versions struct {
	Client Client `json:"client"`
	// Kubernetes is the version of the API server.
	Kubernetes string `json:"kubernetes,omitempty"`
	// Operator is its pods, by their images.
	Operator []Instance `json:"operator,omitempty"`
	// Problems are what could not be read, as sentences.
	Problems []string `json:"problems,omitempty"`
}

// Client is the version of the plugin.
type Client struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
}

// Instance is a pod of the operator.
type Instance struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Image     string `json:"image"`
	Version   string `json:"version,omitempty"`
	Ready     bool   `json:"ready"`
}

// ReadVersions adds the versions in a cluster to that of the plugin.
func ReadVersions(ctx context.Context, cluster *kube.Cluster, plugin Client) Versions {
	v := Versions{Client: plugin}
	var err error
	if v.Kubernetes, err = cluster.ServerVersion(ctx); err != nil {
		v.Problems = append(v.Problems, "the version of Kubernetes could not be read: "+kube.Sentence(err))
		return v
	}
	pods, err := Pods(ctx, cluster)
	switch {
	case err != nil:
		v.Problems = append(v.Problems, "the operator could not be found: "+kube.Sentence(err))
	case len(pods) == 0:
		v.Problems = append(v.Problems, "no pod has the label "+v1alpha1.LabelName+"="+Name+": the operator does not run here, or not as a pod")
	}
	for i := range pods {
		image := Image(&pods[i])
		v.Operator = append(v.Operator, Instance{pods[i].Namespace, pods[i].Name, image, Version(image), IsReady(&pods[i])})
	}
	return v
}
