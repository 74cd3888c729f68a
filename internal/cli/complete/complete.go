// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package complete tells the shell the Etcds and the tasks of the cluster, its namespaces, and the contexts of the
// kubeconfig. Whatever cannot be asked for quickly is not completed.
package complete

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/story"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long a person at a prompt waits.
const patience = 3 * time.Second

type names func(ctx context.Context, c client.Reader, namespace string) []string

// Etcds completes the name of one Etcd.
func Etcds(k *kube.Kube) cobra.CompletionFunc { return first(k, etcds) }

// Tasks completes the name of one task that fits.
func Tasks(k *kube.Kube, fits func(*v1alpha1.EtcdOperatorTask) bool) cobra.CompletionFunc {
	return first(k, tasks(k, fits))
}

// TasksAndEtcds completes the name of a task or of an Etcd.
func TasksAndEtcds(k *kube.Kube) cobra.CompletionFunc {
	all := tasks(k, func(*v1alpha1.EtcdOperatorTask) bool { return true })
	return first(k, func(ctx context.Context, c client.Reader, namespace string) []string {
		return append(etcds(ctx, c, namespace), all(ctx, c, namespace)...)
	})
}

// Flags completes the flags that every verb has.
func Flags(k *kube.Kube, root *cobra.Command) {
	// They only fail for flags that do not exist.
	_ = root.RegisterFlagCompletionFunc("namespace", ask(k, namespaces))
	_ = root.RegisterFlagCompletionFunc("context", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		config, err := k.Flags.ToRawKubeConfigLoader().RawConfig()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var all []string
		for name := range config.Contexts {
			all = append(all, name)
		}
		slices.Sort(all)
		return all, cobra.ShellCompDirectiveNoFileComp
	})
}

// first completes the first argument alone.
func first(k *kube.Kube, of names) cobra.CompletionFunc {
	complete := ask(k, of)
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, prefix)
	}
}

func ask(k *kube.Kube, of names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := k.Client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		namespace, err := k.Namespace()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return of(ctx, c, namespace), cobra.ShellCompDirectiveNoFileComp
	}
}

func etcds(ctx context.Context, c client.Reader, namespace string) []string {
	list := &v1alpha1.EtcdList{}
	// What cannot be listed is not completed.
	_ = c.List(ctx, list, client.InNamespace(namespace))
	var all []string
	for _, e := range list.Items {
		all = append(all, fmt.Sprintf("%s\tEtcd of %d members", e.Name, e.Spec.Replicas))
	}
	return all
}

func tasks(k *kube.Kube, fits func(*v1alpha1.EtcdOperatorTask) bool) names {
	return func(ctx context.Context, c client.Reader, namespace string) []string {
		list, err := k.Tasks(ctx, c, namespace, "")
		if err != nil {
			return nil
		}
		var all []string
		for _, t := range list {
			if fits(t) {
				all = append(all, fmt.Sprintf("%s\t%s of %s, %s", t.Name, t.Spec.Type, t.Spec.OwnerEtcdReference.Name, story.State(t)))
			}
		}
		return all
	}
}

func namespaces(ctx context.Context, c client.Reader, _ string) []string {
	list := &corev1.NamespaceList{}
	_ = c.List(ctx, list)
	var all []string
	for _, n := range list.Items {
		all = append(all, n.Name)
	}
	return all
}
