// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package describe is the verb describe: a task, what happened to it, and what to do next.
package describe

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type command struct {
	*kube.Kube
	print   *genericclioptions.PrintFlags
	printer printers.ResourcePrinter
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k, print: kube.PrintFlags("")}
	cmd := &cobra.Command{
		Use: "describe TASK|ETCD", Short: "Show what happened to a task, and what to do next",
		Long: "Shows a task, what happened to it, in order, from its status and its events, and what to do next if it has failed or is blocked. " +
			"For an Etcd, shows its running, next or latest task.",
		Example: "  # Find out why the rollout of etcd-main is stuck\n  kubectl etcdtask describe etcd-main",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: k.CompleteTasksAndEtcds(),
		PreRunE: func(*cobra.Command, []string) (err error) { c.printer, err = kube.Printer(c.print); return err },
		RunE:    k.Run(c.run),
	}
	c.print.AddFlags(cmd)
	cmd.Flags().Lookup("output").Usage = "Print the task itself in one of kubectl's formats (json, yaml, name, jsonpath=, ...) instead."
	kube.CompleteValues(cmd, "output", "json", "yaml", "name")
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
	if *c.print.OutputFormat != "" {
		return c.printer.PrintObj(task, c.Out)
	}
	d := description{task: task, now: c.Clock.Now(), location: c.Location}
	events := &corev1.EventList{}
	// The user may be allowed to read tasks but not events.
	if err := cluster.List(ctx, events, client.InNamespace(cluster.Namespace), client.MatchingFields{"involvedObject.uid": string(task.UID)}); err != nil {
		d.noEvents = kube.Sentence(err)
	}
	d.events = events.Items
	if r := task.Status.Rollout; r != nil && r.HeldBy != nil && r.HeldBy.Pod != "" {
		pod := &corev1.Pod{}
		// The user may be allowed to read tasks but not pods.
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: task.Namespace, Name: r.HeldBy.Pod}, pod); err == nil {
			d.pod = pod
		}
	}
	if d.place, err = place(ctx, cluster, task); err != nil {
		return err
	}
	c.Print(d.lines(c.Width())...)
	return nil
}

// place returns the position of a task in the queue; empty if it has ended.
func place(ctx context.Context, cluster *kube.Cluster, task *v1alpha1.EtcdOperatorTask) (string, error) {
	if task.Status.State.IsFinal() {
		return "", nil
	}
	all, err := cluster.Tasks(ctx, task.Spec.OwnerEtcdReference.Name)
	if err != nil {
		return "", err
	}
	q := queue.New(all)
	i := slices.IndexFunc(q, func(t *v1alpha1.EtcdOperatorTask) bool { return t.UID == task.UID })
	if i < 0 {
		return "", nil
	}
	if task.Spec.Suspend {
		return fmt.Sprintf("suspended, among %d", len(q)), nil
	}
	return fmt.Sprintf("%d of %d", q.Behind(q[i])+1, len(q)), nil
}

// description is a task with what else is known about it.
type description struct {
	task     *v1alpha1.EtcdOperatorTask
	events   []corev1.Event
	noEvents string
	// pod is the pod that a guard names; nil if there is none, or if it could not be read.
	pod      *corev1.Pod
	place    string
	now      time.Time
	location *time.Location
}

func (d description) time(t time.Time) string { return text.TimeOfDay(t.In(d.location)) }

func (d description) date(t time.Time) string { return t.In(d.location).Format("2006-01-02 MST") }
