// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// completionTimeout is how long the user waits for a completion. What cannot be read in that time is not completed.
const completionTimeout = 3 * time.Second

// lister lists what may be completed.
type lister func(ctx context.Context, cluster *Cluster) []string

// CompleteEtcds completes the name of one Etcd.
func (k *Kube) CompleteEtcds() cobra.CompletionFunc { return k.completeFirst(listEtcds) }

// CompleteTasks completes the name of one task that fits.
func (k *Kube) CompleteTasks(fits func(*v1alpha1.EtcdOperatorTask) bool) cobra.CompletionFunc {
	return k.completeFirst(listTasks(fits))
}

// CompleteTasksAndEtcds completes the name of a task or of an Etcd.
func (k *Kube) CompleteTasksAndEtcds() cobra.CompletionFunc {
	all := listTasks(func(*v1alpha1.EtcdOperatorTask) bool { return true })
	return k.completeFirst(func(ctx context.Context, cluster *Cluster) []string {
		return append(listEtcds(ctx, cluster), all(ctx, cluster)...)
	})
}

// CompleteFlags completes the flags that every verb has.
func (k *Kube) CompleteFlags(root *cobra.Command) {
	// Registering fails only for flags that do not exist.
	_ = root.RegisterFlagCompletionFunc("namespace", k.complete(listNamespaces))
	_ = root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := k.Flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteValues completes a flag with the values that it takes.
func CompleteValues(cmd *cobra.Command, flag string, values ...string) {
	// Registering fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeFirst completes the first argument alone.
func (k *Kube) completeFirst(list lister) cobra.CompletionFunc {
	complete := k.complete(list)
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, prefix)
	}
}

// complete completes with names that are read from the cluster.
func (k *Kube) complete(list lister) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		cluster, err := k.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), completionTimeout)
		defer cancel()
		return list(ctx, cluster), cobra.ShellCompDirectiveNoFileComp
	}
}

func listEtcds(ctx context.Context, cluster *Cluster) []string {
	list := &v1alpha1.EtcdList{}
	// What cannot be listed is not completed.
	_ = cluster.List(ctx, list, client.InNamespace(cluster.Namespace))
	var all []string
	for _, e := range list.Items {
		all = append(all, fmt.Sprintf("%s\tEtcd of %d members", e.Name, e.Spec.Replicas))
	}
	return all
}

func listTasks(fits func(*v1alpha1.EtcdOperatorTask) bool) lister {
	return func(ctx context.Context, cluster *Cluster) []string {
		list, _ := cluster.Tasks(ctx, "")
		var all []string
		for _, t := range list {
			if fits(t) {
				all = append(all, fmt.Sprintf("%s\t%s of %s, %s", t.Name, t.Spec.Type, t.Spec.OwnerEtcdReference.Name, text.State(t)))
			}
		}
		return all
	}
}

func listNamespaces(ctx context.Context, cluster *Cluster) []string {
	list := &corev1.NamespaceList{}
	_ = cluster.List(ctx, list)
	var all []string
	for _, n := range list.Items {
		all = append(all, n.Name)
	}
	return all
}
