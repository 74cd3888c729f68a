// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package list is the verb list: the tasks with their positions in the queue.
package list

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

type command struct {
	*kube.Kube
	print *genericclioptions.PrintFlags
	// printer of objects; nil if a table is printed. It is shared by all objects, since it separates documents.
	printer  printers.ResourcePrinter
	selector string
	held     bool
	watch    bool
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k, print: kube.PrintFlags("")}
	cmd := &cobra.Command{
		Use: "list [ETCD]", Aliases: []string{"ls"}, Short: "List the tasks with their positions in the queue",
		Long: "Lists the tasks of a namespace, or of one Etcd. QUEUE is the position in the queue: 1 is running or next. " +
			"Columns that do not fit in the terminal are left out; -o wide shows all.",
		Example: "  # List the tasks of etcd-main\n  kubectl etcdtask list etcd-main\n\n  # List all tasks of the cluster\n  kubectl etcdtask list -A -o wide\n\n" +
			"  # Watch what guards block in the cluster\n  kubectl etcdtask list -A --held --watch",
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: k.CompleteEtcds(),
		PreRunE: func(*cobra.Command, []string) error { return c.validate() },
		RunE:    k.Run(c.run),
	}
	cmd.Flags().BoolVarP(&k.AllNamespaces, "all-namespaces", "A", false, "List the tasks of all namespaces.")
	cmd.Flags().StringVarP(&c.selector, "selector", "l", "", "List only tasks with these labels, such as a=b,c!=d.")
	cmd.Flags().BoolVar(&c.held, "held", false, "List only tasks that a guard blocks.")
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "Renew the list until interrupted; if the output is not a terminal, print each task that changes.")
	c.print.AddFlags(cmd)
	cmd.Flags().Lookup("output").Usage = "Output format: wide, or one of kubectl's (json, yaml, name, jsonpath=, go-template=, ...)."
	kube.CompleteValues(cmd, "output", "wide", "json", "yaml", "name")
	return cmd
}

// wide reports whether the table has all columns, isTable whether a table is printed rather than objects.
func (c *command) wide() bool    { return *c.print.OutputFormat == "wide" }
func (c *command) isTable() bool { return *c.print.OutputFormat == "" || c.wide() }

func (c *command) validate() (err error) {
	if _, err := labels.Parse(c.selector); err != nil {
		return kube.Usage("--selector: %v", err)
	}
	if !c.isTable() {
		c.printer, err = kube.Printer(c.print)
	}
	return err
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	etcd := ""
	if arg != "" {
		var err error
		if etcd, err = kube.EtcdName(arg); err != nil {
			return err
		}
	}
	if etcd != "" && !c.AllNamespaces {
		if _, err := cluster.Etcd(ctx, etcd); err != nil {
			return err
		}
	}
	if c.watch {
		return c.follow(ctx, cluster, etcd)
	}
	all, err := cluster.Tasks(ctx, etcd)
	switch {
	case err != nil:
		return err
	case !c.isTable():
		return c.printObjects(all)
	case !slices.ContainsFunc(all, c.selects):
		text.Print(c.ErrOut, none(cluster.Namespace, etcd))
		return nil
	}
	c.Print(c.lines(all, c.Clock.Now(), c.Width())...)
	return nil
}

// lines returns the table of the tasks that are listed.
func (c *command) lines(all []*v1alpha1.EtcdOperatorTask, now time.Time, width int) []string {
	if c.wide() {
		width = 0
	}
	return table(all, c.selects, c.AllNamespaces, c.wide(), now).Lines(width)
}

// selects reports whether a task is listed. Tasks that are not listed still count for positions in the queue.
func (c *command) selects(t *v1alpha1.EtcdOperatorTask) bool {
	// It is valid: validate has parsed it.
	selector, _ := labels.Parse(c.selector)
	held, _ := t.Status.Held()
	return selector.Matches(labels.Set(t.Labels)) && (held != nil || !c.held)
}

func none(namespace, etcd string) string {
	say := "No tasks"
	if etcd != "" {
		say += " of Etcd " + etcd
	}
	if namespace != "" {
		say += " in namespace " + namespace
	}
	return say + "."
}

func (c *command) printObjects(all []*v1alpha1.EtcdOperatorTask) error {
	list := &v1alpha1.EtcdOperatorTaskList{Items: []v1alpha1.EtcdOperatorTask{}}
	for _, t := range sorted(all, places(all)) {
		if !c.selects(t) {
			continue
		}
		list.Items = append(list.Items, *typed(t))
	}
	if *c.print.OutputFormat != "name" {
		return c.printer.PrintObj(list, c.Out)
	}
	// kubectl's printer of names does not print a list of a custom type.
	for i := range list.Items {
		if err := c.printer.PrintObj(&list.Items[i], c.Out); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
	return nil
}

// typed returns a task with its kind, which the API server omits in lists.
func typed(t *v1alpha1.EtcdOperatorTask) *v1alpha1.EtcdOperatorTask {
	item := *t
	item.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.KindEtcdOperatorTask))
	return &item
}

// table returns the tasks of each Etcd: first those that have not ended, in the order of the queue, then the others, newest first.
func table(all []*v1alpha1.EtcdOperatorTask, selects func(*v1alpha1.EtcdOperatorTask) bool, namespaces, wide bool, now time.Time) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "NAMESPACE"}, {Name: "NAME"}, {Name: "TYPE", Rank: 2}, {Name: "ETCD", Rank: 3}, {Name: "STATE"}, {Name: "PROGRESS", Rank: 4},
		{Name: "HELD BY", Rank: 1}, {Name: "QUEUE"}, {Name: "AGE"}, {Name: "MESSAGE"},
	}}
	first, last := 1, len(t.Columns)-1
	if namespaces {
		first = 0
	}
	if wide {
		last = len(t.Columns)
	}
	t.Columns = t.Columns[first:last]
	places := places(all)
	for _, task := range sorted(all, places) {
		if !selects(task) {
			continue
		}
		heldBy := ""
		if held, _ := task.Status.Held(); held != nil {
			heldBy = string(held.Guard)
		} else if a := meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionAdmitted); a != nil && a.Status == metav1.ConditionFalse && !task.Status.State.IsFinal() {
			heldBy = a.Reason
		}
		t.Add([]string{
			task.Namespace, task.Name, string(task.Spec.Type), task.Spec.OwnerEtcdReference.Name,
			string(cmp.Or(task.Status.State, v1alpha1.TaskStatePending)), text.OrDash(task.Status.Progress), text.OrDash(heldBy),
			text.OrDash(places[task.UID]), text.Since(task.CreationTimestamp.Time, now), text.OrDash(text.Doing(task)),
		}[first:last]...)
	}
	return t
}

// places returns the positions in the queue, by the UID of the task.
func places(all []*v1alpha1.EtcdOperatorTask) map[types.UID]string {
	byEtcd := map[types.NamespacedName][]*v1alpha1.EtcdOperatorTask{}
	for _, t := range all {
		if t.Status.State == deleted {
			continue
		}
		byEtcd[t.EtcdKey()] = append(byEtcd[t.EtcdKey()], t)
	}
	places := map[types.UID]string{}
	for _, tasks := range byEtcd {
		q := queue.New(tasks)
		for _, t := range q {
			places[t.UID] = fmt.Sprint(q.Behind(t) + 1)
			if t.Spec.Suspend {
				places[t.UID] = "suspended"
			}
		}
	}
	return places
}

func sorted(all []*v1alpha1.EtcdOperatorTask, places map[types.UID]string) []*v1alpha1.EtcdOperatorTask {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b *v1alpha1.EtcdOperatorTask) int {
		ended := cmp.Compare(rank(a), rank(b))
		newest := b.CreationTimestamp.Compare(a.CreationTimestamp.Time)
		if ended == 0 && !a.Status.State.IsFinal() {
			newest = cmp.Or(cmp.Compare(len(places[a.UID]), len(places[b.UID])), cmp.Compare(places[a.UID], places[b.UID]))
		}
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Spec.OwnerEtcdReference.Name, b.Spec.OwnerEtcdReference.Name),
			ended, newest, cmp.Compare(a.Name, b.Name))
	})
	return all
}

// rank orders tasks that have ended after those that have not.
func rank(t *v1alpha1.EtcdOperatorTask) int {
	if t.Status.State.IsFinal() || t.Status.State == deleted {
		return 1
	}
	return 0
}
