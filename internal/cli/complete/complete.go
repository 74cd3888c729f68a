// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package complete completes the names of Etcds, tasks, namespaces and contexts, and the values of flags. What cannot be
// read quickly is not completed.
package complete

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/story"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// timeout is how long the user waits for a completion.
const timeout = 3 * time.Second

type names func(ctx context.Context, cluster *kube.Cluster) []string

// Etcds completes the name of one Etcd.
func Etcds(k *kube.Kube) cobra.CompletionFunc { return first(k, etcds) }

// Tasks completes the name of one task that fits.
func Tasks(k *kube.Kube, fits func(*v1alpha1.EtcdOperatorTask) bool) cobra.CompletionFunc {
	return first(k, tasks(fits))
}

// TasksAndEtcds completes the name of a task or of an Etcd.
func TasksAndEtcds(k *kube.Kube) cobra.CompletionFunc {
	all := tasks(func(*v1alpha1.EtcdOperatorTask) bool { return true })
	return first(k, func(ctx context.Context, cluster *kube.Cluster) []string {
		return append(etcds(ctx, cluster), all(ctx, cluster)...)
	})
}

// Values completes a flag with the values that it takes.
func Values(cmd *cobra.Command, flag string, values ...string) {
	// It only fails for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// Flags completes the flags that every verb has.
func Flags(k *kube.Kube, root *cobra.Command) {
	// They only fail for flags that do not exist.
	_ = root.RegisterFlagCompletionFunc("namespace", read(k, namespaces))
	_ = root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := k.Flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
	})
}

// first completes the first argument alone.
func first(k *kube.Kube, of names) cobra.CompletionFunc {
	complete := read(k, of)
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, prefix)
	}
}

// read completes with names that are read from the cluster.
func read(k *kube.Kube, of names) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		cluster, err := k.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return of(ctx, cluster), cobra.ShellCompDirectiveNoFileComp
	}
}

func etcds(ctx context.Context, cluster *kube.Cluster) []string {
	list := &v1alpha1.EtcdList{}
	// What cannot be listed is not completed.
	_ = cluster.List(ctx, list, client.InNamespace(cluster.Namespace))
	var all []string
	for _, e := range list.Items {
		all = append(all, fmt.Sprintf("%s\tEtcd of %d members", e.Name, e.Spec.Replicas))
	}
	return all
}

func tasks(fits func(*v1alpha1.EtcdOperatorTask) bool) names {
	return func(ctx context.Context, cluster *kube.Cluster) []string {
		list, _ := cluster.Tasks(ctx, "")
		var all []string
		for _, t := range list {
			if fits(t) {
				all = append(all, fmt.Sprintf("%s\t%s of %s, %s", t.Name, t.Spec.Type, t.Spec.OwnerEtcdReference.Name, story.State(t)))
			}
		}
		return all
	}
}

func namespaces(ctx context.Context, cluster *kube.Cluster) []string {
	list := &corev1.NamespaceList{}
	_ = cluster.List(ctx, list)
	var all []string
	for _, n := range list.Items {
		all = append(all, n.Name)
	}
	return all
}
