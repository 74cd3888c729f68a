// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package submit has the verbs that make a task: rollout, restart, snapshot and the others. They differ in the type
// of the task and in its config, which are in verbs.go and config.go.
package submit

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/follow"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// The values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// command is one verb at work.
type command struct {
	*kube.Kube
	verb   verb
	config func() (any, error)
	print  *genericclioptions.PrintFlags
	wait   follow.Flags

	name      string
	dryRun    string
	suspend   bool
	ttl       int32
	overrides []string
}

// Commands are the verbs.
func Commands(k *kube.Kube) []*cobra.Command {
	var all []*cobra.Command
	for _, v := range verbs {
		all = append(all, newCommand(k, v))
	}
	return all
}

func newCommand(k *kube.Kube, v verb) *cobra.Command {
	c := &command{Kube: k, verb: v, print: genericclioptions.NewPrintFlags("created").WithTypeSetter(kube.Scheme())}
	cmd := &cobra.Command{
		Use: v.name + " ETCD", Short: v.short, Long: v.long, Example: v.example,
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete.Etcds(k),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	flags := flagSet{cmd.Flags(), cmd}
	c.config = v.config(flags)
	c.wait.AddTo(cmd.Flags())
	c.print.AddFlags(cmd)
	flags.StringVar(&c.name, "name", "", "Name of the task (default: made of the Etcd's and the verb's).")
	flags.BoolVar(&c.suspend, "suspend", false, "Make the task suspended; start it with \"kubectl etcdtask resume\".")
	flags.Int32Var(&c.ttl, "ttl", v1alpha1.DefaultTTLSecondsAfterFinished, "How many seconds the task is kept after its end.")
	flags.StringVar(&c.dryRun, "dry-run", dryRunNone, "none, client (only print the task) or server (have the API server check it, and not keep it).")
	flags.Lookup("dry-run").NoOptDefVal = "unchanged"
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{dryRunNone, dryRunClient, dryRunServer}, cobra.ShellCompDirectiveNoFileComp))
	if v.guards {
		flags.StringSliceVar(&c.overrides, "override-guards", nil, "Guards that the task overrides, separated by commas.")
		_ = cmd.RegisterFlagCompletionFunc("override-guards", cobra.FixedCompletions(rollout.Overridable(), cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

func (c *command) run(ctx context.Context, etcd string) error {
	if err := c.validate(); err != nil {
		return err
	}
	namespace, err := c.Namespace()
	if err != nil {
		return err
	}
	task, err := c.task(namespace, etcd)
	if err != nil {
		return err
	}
	if c.dryRun == dryRunClient {
		return c.show(task, true)
	}
	api, err := c.Client()
	if err != nil {
		return err
	}
	if err := c.create(ctx, api, task); err != nil {
		return err
	}
	if !c.wait.Wait {
		return c.show(task, c.dryRun == dryRunServer)
	}
	return c.waitFor(ctx, api, task)
}

func (c *command) validate() error {
	switch {
	case c.dryRun != dryRunNone && c.dryRun != dryRunClient && c.dryRun != dryRunServer:
		return kube.Usage("--dry-run needs a value: client or server")
	case c.dryRun != dryRunNone && c.wait.Wait:
		return kube.Usage("--wait and --dry-run exclude each other: a dry run makes no task to wait for")
	case c.wait.Timeout != 0 && !c.wait.Wait:
		return kube.Usage("--timeout goes with --wait")
	case c.wait.Wait && c.suspend:
		return kube.Usage("--wait and --suspend exclude each other: a suspended task does not start")
	case c.ttl < 0:
		return kube.Usage("--ttl may not be negative")
	}
	if _, err := c.print.ToPrinter(); err != nil {
		return kube.Usage("%v", err)
	}
	return c.wait.Validate()
}

// task is what the command line asks for.
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
		if _, err := rollout.DecodeConfig(text); err != nil {
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
			Type: c.verb.taskType, Config: text, TTLSecondsAfterFinished: ptr.To(c.ttl), Suspend: c.suspend,
			OwnerEtcdReference: v1alpha1.EtcdReference{Name: etcd},
		},
	}
	for _, guard := range c.overrides {
		task.Spec.OverrideGuards = append(task.Spec.OverrideGuards, v1alpha1.OverridableGuard(guard))
	}
	return task, nil
}

// encode is a config as YAML; empty where it says nothing.
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

// create makes the task. That there is no such Etcd is said here, rather than by a task that is rejected; who may
// make tasks and not read Etcds makes one.
func (c *command) create(ctx context.Context, api client.Client, task *v1alpha1.EtcdOperatorTask) error {
	_, err := c.Etcd(ctx, api, task.Namespace, task.Spec.OwnerEtcdReference.Name)
	if err != nil && !apierrors.IsForbidden(err) {
		return err
	}
	var options []client.CreateOption
	if c.dryRun == dryRunServer {
		options = append(options, client.DryRunAll)
	}
	if err := api.Create(ctx, task, options...); err != nil {
		return fmt.Errorf("creating task %s: %w", task.Name, err)
	}
	return nil
}

// waitFor prints the name of the task at once, and a document of it once it has ended.
func (c *command) waitFor(ctx context.Context, api client.WithWatch, task *v1alpha1.EtcdOperatorTask) error {
	format := *c.print.OutputFormat
	atOnce := format == "" || format == "name"
	if atOnce {
		if err := c.show(task, false); err != nil {
			return err
		}
	}
	last, err := c.wait.UntilEnd(ctx, c.Kube, api, task)
	if err != nil {
		return err
	}
	if !atOnce {
		if err := c.show(last, false); err != nil {
			return err
		}
	}
	return follow.Outcome(last)
}

func (c *command) show(task *v1alpha1.EtcdOperatorTask, dryRun bool) error {
	said := "%s"
	if dryRun {
		said = "%s (" + map[string]string{dryRunClient: "dry run", dryRunServer: "server dry run"}[c.dryRun] + ")"
	}
	if err := c.print.Complete(said); err != nil {
		return fmt.Errorf("printing: %w", err)
	}
	printer, err := c.print.ToPrinter()
	if err != nil {
		return kube.Usage("%v", err)
	}
	return printer.PrintObj(task, c.Out)
}
