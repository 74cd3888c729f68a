// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package submit

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// many is the flags of a verb that creates a task for each of many Etcds.
type many struct {
	// selector is empty if the verb is for one Etcd.
	selector string
	yes      bool
}

func (m *many) addTo(cmd *cobra.Command, k *kube.Kube) {
	cmd.Use = strings.Replace(cmd.Use, " ETCD", " (ETCD | -l SELECTOR)", 1)
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.Flags().StringVarP(&m.selector, "selector", "l", "", "Select Etcds by their labels, such as a=b,c!=d, and create a task for each.")
	cmd.Flags().BoolVarP(&k.AllNamespaces, "all-namespaces", "A", false, "Select Etcds in all namespaces.")
	cmd.Flags().BoolVarP(&m.yes, "yes", "y", false, "Do not ask for confirmation.")
}

func (m *many) validate(c *command, arg string) error {
	_, err := labels.Parse(m.selector)
	switch {
	case m.selector == "" && arg == "":
		return kube.Usage("name an Etcd, or select several with --selector: use \"kubectl etcdtask %s ETCD\"", c.verb.name)
	case m.selector == "" && c.AllNamespaces:
		return kube.Usage("--all-namespaces goes with --selector")
	case m.selector == "":
		return nil
	case arg != "":
		return kube.Usage("a name and --selector exclude each other")
	case err != nil:
		return kube.Usage("--selector: %v", err)
	case c.name != "":
		return kube.Usage("--name and --selector exclude each other: each task has a name of its own")
	}
	return nil
}

// runMany creates a task for each selected Etcd; none if the API server would refuse one of them.
func (c *command) runMany(ctx context.Context) error {
	cluster, err := c.Connect()
	if err != nil {
		return err
	}
	etcds, err := c.selected(ctx, cluster)
	if err != nil {
		return err
	}
	var tasks []*v1alpha1.EtcdOperatorTask
	for _, e := range etcds {
		task, err := c.task(e.Namespace, e.Name)
		if err != nil {
			return err
		}
		tasks = append(tasks, task)
	}
	if c.dryRun != dryRunClient {
		if err := check(ctx, cluster, tasks); err != nil {
			return err
		}
	}
	if c.dryRun != dryRunNone {
		return c.showAll(tasks)
	}
	if err := c.confirm(ctx, etcds); err != nil {
		return err
	}
	for i, task := range tasks {
		if err := cluster.Create(ctx, task); err != nil {
			return kube.Failure("%d of %d tasks were created; task %s of Etcd %s/%s was not: %s",
				i, len(tasks), task.Name, task.Namespace, etcds[i].Name, kube.Sentence(err))
		}
		if c.printsAtOnce() {
			if err := c.show(task); err != nil {
				return err
			}
		}
	}
	if !c.wait.Wait {
		return nil
	}
	return c.waitForAll(ctx, cluster, tasks)
}

// selected returns the selected Etcds. It returns an error if there are none, or if one of them has no members to restart.
func (c *command) selected(ctx context.Context, cluster *kube.Cluster) ([]v1alpha1.Etcd, error) {
	// It is valid: validate has parsed it.
	selector, _ := labels.Parse(c.many.selector)
	list := &v1alpha1.EtcdList{}
	if err := cluster.List(ctx, list, client.InNamespace(cluster.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return nil, fmt.Errorf("listing Etcds: %w", err)
	}
	if len(list.Items) == 0 {
		where := " in namespace " + cluster.Namespace
		if cluster.Namespace == "" {
			where = ""
		}
		return nil, kube.Failure("no Etcd%s has the labels %q", where, c.many.selector)
	}
	slices.SortFunc(list.Items, func(a, b v1alpha1.Etcd) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var wrong []string
	for _, e := range list.Items {
		switch {
		case e.DeletionTimestamp != nil:
			wrong = append(wrong, fmt.Sprintf("Etcd %s/%s is being deleted", e.Namespace, e.Name))
		case e.Spec.Replicas == 0:
			wrong = append(wrong, fmt.Sprintf("Etcd %s/%s is hibernated", e.Namespace, e.Name))
		}
	}
	return list.Items, nothingCreated(wrong)
}

// check has the API server validate all tasks.
func check(ctx context.Context, cluster *kube.Cluster, tasks []*v1alpha1.EtcdOperatorTask) error {
	var wrong []string
	for _, task := range tasks {
		if err := cluster.Create(ctx, task.DeepCopy(), client.DryRunAll); err != nil {
			wrong = append(wrong, fmt.Sprintf("the task of Etcd %s/%s is refused: %s", task.Namespace, task.Spec.OwnerEtcdReference.Name, kube.Sentence(err)))
		}
	}
	return nothingCreated(wrong)
}

func nothingCreated(wrong []string) error {
	if len(wrong) == 0 {
		return nil
	}
	return kube.Failure("no task was created: %s", strings.Join(wrong, "; "))
}

// confirm asks the user to confirm the Etcds.
func (c *command) confirm(ctx context.Context, etcds []v1alpha1.Etcd) error {
	if c.many.yes {
		return nil
	}
	for _, e := range etcds {
		text.Print(c.ErrOut, fmt.Sprintf("%s/%s: %d members", e.Namespace, e.Name, e.Spec.Replicas))
	}
	if !c.Interactive() {
		return kube.Usage("no task was created: confirm with --yes, since the input is not a terminal")
	}
	fmt.Fprintf(c.ErrOut, "Create a %s for each of these %d Etcds? [y/N] ", c.verb.name, len(etcds)) //nolint:errcheck // there is nowhere to report it
	answer := make(chan string, 1)
	go func() {
		// The end of the input means no.
		line, _ := bufio.NewReader(c.In).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return kube.Failure("no task was created: interrupted")
	case a := <-answer:
		if a != "y" && a != "yes" {
			return kube.Failure("no task was created")
		}
	}
	return nil
}

func (c *command) showAll(tasks []*v1alpha1.EtcdOperatorTask) error {
	for _, task := range tasks {
		if err := c.show(task); err != nil {
			return err
		}
	}
	return nil
}

// waitForAll waits for all tasks, which run at the same time, and returns an error that names those that did not succeed.
func (c *command) waitForAll(ctx context.Context, cluster *kube.Cluster, tasks []*v1alpha1.EtcdOperatorTask) error {
	ends, stopped := c.wait.UntilAllEnd(ctx, c.Kube, cluster, tasks)
	var failed []string
	for i, end := range ends {
		if end.Err != nil || end.Last.Status.State != v1alpha1.TaskStateSucceeded {
			failed = append(failed, tasks[i].Namespace+"/"+tasks[i].Name)
		}
		switch {
		case end.Err != nil && (stopped == nil || end.Last == nil && !errors.Is(end.Err, stopped)):
			text.Print(c.ErrOut, kube.Sentence(end.Err))
		case end.Err == nil && !c.printsAtOnce():
			if err := c.show(end.Last); err != nil {
				return err
			}
		}
	}
	switch {
	case stopped != nil:
		return stopped
	case len(failed) > 0:
		return kube.Failure("%d of %d tasks have not succeeded: %s", len(failed), len(tasks), strings.Join(failed, ", "))
	}
	return nil
}
