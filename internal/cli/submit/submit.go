// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package submit has the verbs that write: those that create a task, such as rollout, restart and snapshot, and those that change
// one. The former differ in the type of the task, which is in verbs.go, and in its config, which is in config.go.
package submit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/watch"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// command is a verb that creates a task.
type command struct {
	*kube.Kube
	verb   verb
	config func() (any, error)
	print  *genericclioptions.PrintFlags
	wait   watch.WaitFlags
	dryRun dryRunMode

	name      string
	suspend   bool
	ttl       seconds
	overrides []string
	many      many
	// printer is shared by all tasks, since it separates documents.
	printer printers.ResourcePrinter
}

// Commands returns the verbs that create a task.
func Commands(k *kube.Kube) []*cobra.Command {
	var all []*cobra.Command
	for _, v := range verbs {
		all = append(all, newCommand(k, v))
	}
	return all
}

func newCommand(k *kube.Kube, v verb) *cobra.Command {
	c := &command{Kube: k, verb: v, print: kube.PrintFlags("created")}
	cmd := &cobra.Command{
		Use: v.name + " ETCD", Short: v.short, Long: v.long, Example: v.example,
		Args: cobra.ExactArgs(1), ValidArgsFunction: k.CompleteEtcds(),
		PreRunE: func(*cobra.Command, []string) error { return c.validate() },
		RunE:    func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), append(args, "")[0]) },
	}
	flags := flagSet{cmd.Flags(), cmd}
	c.config = v.config(flags)
	c.wait.AddTo(cmd.Flags())
	c.print.AddFlags(cmd)
	flags.StringVar(&c.name, "name", "", "Name of the task (default: those of the Etcd and the verb, with a suffix).")
	flags.BoolVar(&c.suspend, "suspend", false, "Create the task suspended; start it with \"kubectl etcdtask resume TASK\".")
	c.ttl = seconds(v1alpha1.DefaultTTLSecondsAfterFinished)
	flags.Var(&c.ttl, "ttl", "How long the task is kept after it ends: a duration such as 24h, or a number of seconds.")
	c.dryRun.addTo(cmd, "only print the task", "have the API server check it, but not keep it")
	if v.many {
		c.many.addTo(cmd, k)
	}
	if overridable(v.taskType) != nil {
		flags.StringSliceVar(&c.overrides, "override-guards", nil, "Guards that the task overrides, separated by commas.")
		kube.CompleteValues(cmd, "override-guards", overridable(v.taskType)...)
	}
	return cmd
}

func (c *command) validate() error {
	if err := c.dryRun.validate(c.wait.Wait); err != nil {
		return err
	}
	switch {
	case c.wait.Wait && c.suspend:
		return kube.Usage("--wait and --suspend exclude each other: a suspended task does not start")
	case c.name != "" && len(validation.IsDNS1123Subdomain(c.name)) > 0:
		return kube.Usage("--name is %q: %s", c.name, validation.IsDNS1123Subdomain(c.name)[0])
	}
	if err := checkGuards(c.verb.taskType, c.overrides); err != nil {
		return err
	}
	if _, err := kube.Printer(c.print); err != nil {
		return err
	}
	return c.wait.Validate()
}

func (c *command) run(ctx context.Context, arg string) error {
	if err := c.many.validate(c, arg); err != nil {
		return err
	}
	if c.many.selector != "" {
		return c.runMany(ctx)
	}
	namespace, err := c.Namespace()
	if err != nil {
		return err
	}
	name, err := kube.EtcdName(arg)
	if err != nil {
		return err
	}
	task, err := c.task(namespace, name)
	if err != nil {
		return err
	}
	if c.dryRun == dryRunClient {
		return c.show(task)
	}
	cluster, err := c.Connect()
	if err != nil {
		return err
	}
	if err := c.create(ctx, cluster, task); err != nil {
		return err
	}
	if !c.wait.Wait {
		return c.show(task)
	}
	return c.waitFor(ctx, cluster, task)
}

// task returns the task that the command line asks for.
func (c *command) task(namespace, etcd string) (*v1alpha1.EtcdOperatorTask, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	text, err := encode(config)
	if err != nil {
		return nil, err
	}
	if c.verb.taskType == v1alpha1.QuorumAwareRollout {
		if _, err := taskconfig.Decode[rollout.Config](text); err != nil {
			return nil, kube.Usage("%v", err)
		}
	}
	name := c.name
	if name == "" {
		name = fmt.Sprintf("%s-%s-%s", etcd, c.verb.name, c.Suffix())
	}
	task := &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelPartOf: etcd}},
		Spec: v1alpha1.EtcdOperatorTaskSpec{
			Type: c.verb.taskType, Config: text, TTLSecondsAfterFinished: ptr.To(int32(c.ttl)), Suspend: c.suspend,
			OwnerEtcdReference: v1alpha1.EtcdReference{Name: etcd},
		},
	}
	for _, guard := range c.overrides {
		task.Spec.OverrideGuards = append(task.Spec.OverrideGuards, v1alpha1.OverridableGuard(guard))
	}
	return task, nil
}

// encode returns a config as YAML; empty if nothing is set.
func encode(config any) (string, error) {
	raw, err := json.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("encoding the config: %w", err)
	}
	if s := string(raw); s == "null" || s == "{}" {
		return "", nil
	}
	text, err := yaml.JSONToYAML(raw)
	if err != nil {
		return "", fmt.Errorf("encoding the config: %w", err)
	}
	return string(text), nil
}

// create creates the task. If the user may read Etcds, it first checks that the Etcd exists; otherwise the task would be rejected.
func (c *command) create(ctx context.Context, cluster *kube.Cluster, task *v1alpha1.EtcdOperatorTask) error {
	_, err := cluster.Etcd(ctx, task.Spec.OwnerEtcdReference.Name)
	if err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	var options []client.CreateOption
	if c.dryRun == dryRunServer {
		options = append(options, client.DryRunAll)
	}
	if err := cluster.Create(ctx, task, options...); err != nil {
		return fmt.Errorf("creating task %s: %w", task.Name, err)
	}
	return nil
}

// waitFor waits for the task. It prints a name at once, and a document when the task has ended.
func (c *command) waitFor(ctx context.Context, cluster *kube.Cluster, task *v1alpha1.EtcdOperatorTask) error {
	if c.printsAtOnce() {
		if err := c.show(task); err != nil {
			return err
		}
	}
	last, err := c.wait.UntilEnd(ctx, c.Kube, cluster, task)
	if err != nil {
		return err
	}
	if !c.printsAtOnce() {
		if err := c.show(last); err != nil {
			return err
		}
	}
	return watch.Outcome(last)
}

// printsAtOnce reports whether a task is printed when it is created rather than when it has ended.
func (c *command) printsAtOnce() bool {
	return !c.wait.Wait || *c.print.OutputFormat == "" || *c.print.OutputFormat == "name"
}

func (c *command) show(task *v1alpha1.EtcdOperatorTask) error {
	if c.printer == nil {
		if err := c.print.Complete("%s" + c.dryRun.suffix()); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
		var err error
		if c.printer, err = kube.Printer(c.print); err != nil {
			return err
		}
	}
	return c.printer.PrintObj(task, c.Out)
}
