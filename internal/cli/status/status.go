// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package status is the verb status: a page about one Etcd, or a line for each of many.
package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/watch"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type command struct {
	*kube.Kube
	watch bool
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k}
	cmd := &cobra.Command{
		Use: "status [ETCD]", Short: "Show how Etcds are: conditions, backup, members, rollout, queue",
		Long: "Shows what is wrong with an Etcd, its backup, its members with class, role, version, sizes and node, and its tasks that have not ended. " +
			"Members are asked through a port-forward; if that is not possible, roles come from their leases.\n" +
			"Without a name, shows one line for each Etcd of the namespace, those with trouble first. Members are not asked for that.",
		Example: "  # See what is wrong with etcd-main\n  kubectl etcdtask status etcd-main\n\n  # Keep an eye on every Etcd of the cluster\n  kubectl etcdtask status -A --watch",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: k.CompleteEtcds(),
		RunE: k.Run(c.run),
	}
	cmd.Flags().BoolVarP(&k.AllNamespaces, "all-namespaces", "A", false, "Show the Etcds of all namespaces.")
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "Renew the page every two seconds until interrupted; if the output is not a terminal, print it when it changes.")
	return cmd
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	read := func(ctx context.Context) (watch.Page, error) { return c.all(ctx, cluster) }
	if arg != "" {
		if c.AllNamespaces {
			return kube.Usage("a name and --all-namespaces exclude each other")
		}
		name, err := kube.EtcdName(arg)
		if err != nil {
			return err
		}
		read = func(ctx context.Context) (watch.Page, error) { return readEtcd(ctx, cluster, c.Clock, name) }
	}
	if c.watch {
		return watch.Poll(ctx, c.Kube, read)
	}
	page, err := read(ctx)
	if err != nil {
		return err
	}
	c.Print(page(c.Clock.Now(), c.Width())...)
	return nil
}

// all reads the Etcds of the namespace, or of all namespaces.
func (c *command) all(ctx context.Context, cluster *kube.Cluster) (watch.Page, error) {
	list := &v1alpha1.EtcdList{}
	if err := cluster.List(ctx, list, client.InNamespace(cluster.Namespace)); err != nil {
		return nil, fmt.Errorf("listing Etcds: %w", err)
	}
	if len(list.Items) == 0 && !c.watch {
		text.Print(c.ErrOut, none(cluster.Namespace))
		return func(time.Time, int) []string { return nil }, nil
	}
	return func(now time.Time, width int) []string {
		if len(list.Items) == 0 {
			return []string{none(cluster.Namespace)}
		}
		return table(list.Items, c.AllNamespaces, now).Lines(width)
	}, nil
}

func none(namespace string) string {
	if namespace == "" {
		return "No Etcds."
	}
	return "No Etcds in namespace " + namespace + "."
}

// table returns a row for each Etcd, those with trouble first.
func table(etcds []v1alpha1.Etcd, namespaces bool, now time.Time) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "NAMESPACE"}, {Name: "NAME"}, {Name: "QUORUM"}, {Name: "READY"}, {Name: "UPDATED", Rank: 1}, {Name: "ROLLOUT", Rank: 3},
		{Name: "BACKUP", Rank: 2}, {Name: "AGE"}, {Name: "TROUBLE", Rank: 4},
	}}
	first := 1
	if namespaces {
		first = 0
	}
	t.Columns = t.Columns[first:]
	slices.SortStableFunc(etcds, func(a, b v1alpha1.Etcd) int {
		return cmp.Or(cmp.Compare(min(len(trouble(&b)), 1), min(len(trouble(&a)), 1)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for i := range etcds {
		e := &etcds[i]
		s, rollout, why := e.Status, "", ""
		if s.Rollout != nil {
			rollout = cmp.Or(s.Rollout.Task, "pending")
		}
		if wrong := trouble(e); len(wrong) > 0 {
			why = wrong[0].Type
		}
		t.Add([]string{
			e.Namespace, e.Name, state(e, v1alpha1.ConditionReady), fmt.Sprintf("%d/%d", s.ReadyReplicas, e.Spec.Replicas),
			fmt.Sprintf("%d/%d", s.UpdatedReplicas, e.Spec.Replicas), text.OrDash(rollout), state(e, v1alpha1.ConditionBackupReady),
			text.Since(e.CreationTimestamp.Time, now), text.OrDash(why),
		}[first:]...)
	}
	return t
}

// state returns the status of a condition; a dash if there is none.
func state(e *v1alpha1.Etcd, condition string) string {
	c := e.Status.Conditions.Find(condition)
	if c == nil {
		return "-"
	}
	return string(c.Status)
}

// trouble returns the conditions that report something wrong or pending, the worst first.
func trouble(e *v1alpha1.Etcd) []metav1.Condition {
	var wrong []metav1.Condition
	hibernated := func(c metav1.Condition) bool { return c.Reason == v1alpha1.ReasonHibernated }
	for _, condition := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionAlarmRaised, v1alpha1.ConditionStalled, v1alpha1.ConditionReconciled, v1alpha1.ConditionObjectsOwned, v1alpha1.ConditionDataVolumesReady, v1alpha1.ConditionAllMembersReady,
		v1alpha1.ConditionBackupReady, v1alpha1.ConditionTLSReady, v1alpha1.ConditionScaled, v1alpha1.ConditionVolumesGrown, v1alpha1.ConditionVolumesMoved, v1alpha1.ConditionAllMembersUpdated,
	} {
		c := e.Status.Conditions.Find(condition)
		bad := condition == v1alpha1.ConditionStalled || condition == v1alpha1.ConditionAlarmRaised
		if c == nil || hibernated(*c) || (c.Status == metav1.ConditionTrue) != bad {
			continue
		}
		wrong = append(wrong, *c)
	}
	return wrong
}
