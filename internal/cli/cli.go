// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package cli is the kubectl plugin etcdtask: its root command, which turns an error into one sentence and an exit code. Each verb,
// or group of verbs, is a package below this one.
package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/base/version"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/describe"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/diagnose"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/fleet"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/list"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/plan"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/report"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/restorable"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/status"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/submit"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/timeline"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/watch"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// name is how the plugin is called.
const name = "kubectl etcdtask"

// The groups in which help shows the verbs.
const (
	groupRun = "run"
	groupSee = "see"
)

// Run runs a command line, without the program's name, and returns the exit code.
func Run(ctx context.Context, k *kube.Kube, args []string) int {
	// Libraries log; a command prints one sentence.
	klog.SetLogger(logr.Discard())
	root := newRoot(k)
	root.SetArgs(args)
	root.SetIn(k.In)
	root.SetOut(k.Out)
	root.SetErr(k.ErrOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return kube.ExitSucceeded
	}
	code := kube.Code(err)
	fmt.Fprintf(k.ErrOut, "error: %s\n", text.Plain(kube.Sentence(err))) //nolint:errcheck // there is nowhere to report it
	return code
}

func newRoot(k *kube.Kube) *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-etcdtask", Short: "Operations on etcd clusters, as tasks of etcd-foreman",
		Long: "Runs operations on etcd clusters, and shows their progress. Each operation is an EtcdOperatorTask; the tasks of an Etcd run one at a time.\n\n" +
			"Exit codes: 0 succeeded; 1 failed or rejected, or the cluster could not be reached; 2 wrong usage; 3 timed out while the task continues.",
		Example:       "  kubectl etcdtask plan etcd-main\n  kubectl etcdtask restart etcd-main --wait\n  kubectl etcdtask watch etcd-main",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		SilenceErrors: true, SilenceUsage: true,
		Version: version.Get().Text(name),
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}")
	root.AddGroup(&cobra.Group{ID: groupRun, Title: "Run a task:"}, &cobra.Group{ID: groupSee, Title: "Show and change tasks:"})
	add := func(group string, all ...*cobra.Command) {
		for _, cmd := range all {
			cmd.GroupID = group
			cmd.Args = usage(cmd.Args)
			for _, sub := range cmd.Commands() {
				sub.Args = usage(sub.Args)
			}
			root.AddCommand(cmd)
		}
	}
	add(groupRun, submit.Commands(k)...)
	add(groupSee, status.Command(k), diagnose.Command(k), plan.Command(k), list.Command(k), describe.Command(k), restorable.Command(k), watch.Command(k), timeline.Command(k), fleet.Command(k))
	add(groupSee, submit.ChangeCommands(k)...)
	add(groupSee, report.Commands(k, name)...)
	root.Args = usage(root.Args)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return kube.Usage("%v: see \"%s --help\"", err, cmd.CommandPath())
	})
	k.Flags.AddFlags(root.PersistentFlags())
	root.PersistentFlags().VisitAll(onlyOnce)
	k.CompleteFlags(root)
	return root
}

// usage turns the error of an argument into a usage error that shows how the verb is called.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if _, says := errors.AsType[*kube.Error](err); says || err == nil {
			return err
		}
		if !cmd.HasParent() {
			return kube.Usage("there is no verb %q%s: see \"%s --help\"", args[0], suggestions(cmd, args[0]), name)
		}
		return kube.Usage("%v: use \"%s\"", err, strings.TrimSuffix(cmd.UseLine(), " [flags]"))
	}
}

func suggestions(cmd *cobra.Command, wrong string) string {
	cmd.SuggestionsMinimumDistance = 2
	if like := cmd.SuggestionsFor(wrong); len(like) > 0 {
		return fmt.Sprintf("; did you mean %q?", like[0])
	}
	return ""
}

// onlyOnce refuses a flag that is set twice, such as two contexts: the last one would win unnoticed.
func onlyOnce(flag *pflag.Flag) {
	if flag.Value.Type() == "string" {
		flag.Value = &once{Value: flag.Value}
	}
}

type once struct {
	pflag.Value
	given bool
}

// Set implements pflag.Value.
func (o *once) Set(value string) error {
	if o.given && value != o.String() {
		return errors.New("it is already set to " + o.String())
	}
	o.given = true
	return o.Value.Set(value)
}
