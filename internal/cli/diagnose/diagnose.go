// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package diagnose is the verb diagnose: it measures the members of an Etcd for some seconds, and says why they are slow. It changes
// nothing.
package diagnose

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/auth"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"github.com/spf13/cobra"
)

const (
	minWindow = 5 * time.Second
	maxWindow = 10 * time.Minute
)

type command struct {
	*kube.Kube
	window    time.Duration
	logs      bool
	prefixes  bool
	keys      bool
	large     bool
	tokenFile string
	output    string
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k}
	cmd := &cobra.Command{
		Use: "diagnose ETCD", Short: "Say why an etcd is slow: one cause, with its evidence. Changes nothing",
		Long: "Measures the members for some seconds and names the cause that explains most, how certain it is (sure, likely, hint), the figures and thresholds that it rests on, " +
			"what they rule out, and what to do. That etcd is fast is an answer, too.\n" +
			"Members are asked through port-forwards: two scrapes of their metrics, and timed reads of a key that need not exist. What you may not read is not blamed, and is named. " +
			"It takes less than 1 % of a core of each member, and writes nothing; only --large-prefixes creates something, a Job that it deletes.",
		Example: "  # Say why etcd-main is slow\n  kubectl etcdtask diagnose etcd-main\n\n" +
			"  # Measure for a minute, and count what the logs of etcd say\n  kubectl etcdtask diagnose etcd-main --for 1m --logs",
		Args: cobra.ExactArgs(1), ValidArgsFunction: k.CompleteEtcds(),
		PreRunE: func(*cobra.Command, []string) error { return c.validate() },
		RunE:    k.Run(c.run),
	}
	cmd.Flags().DurationVar(&c.window, "for", 30*time.Second, "How long to measure, from 5s to 10m. Round trips between members show after a minute.")
	cmd.Flags().BoolVar(&c.logs, "logs", false, "Count what the logs of etcd of the last 15 minutes say: slow requests, slow fsyncs, elections. Nothing of them is printed.")
	cmd.Flags().BoolVar(&c.prefixes, "hot-prefixes", false, "Ask the agents which prefixes of keys are written most, as the operator: this reads its signing key, in Secret "+auth.KeySecret+" of namespace "+kube.OperatorNamespace+". Without a backup store, a member is watched instead, for 30s and 50 MiB at most.")
	cmd.Flags().BoolVar(&c.keys, "show-keys", false, "With --hot-prefixes, also the whole keys that are written most: they are tenants' data. It takes the verb "+showKeys+" on etcds.")
	cmd.Flags().BoolVar(&c.large, "large-prefixes", false, "Create a Job that reads the newest full snapshot in the backup store, say which prefixes of keys have most of it, and delete the Job.")
	cmd.Flags().StringVar(&c.tokenFile, "agent-token-file", "", "File with the token that reads the metrics of the agents.")
	kube.AddDocumentFormat(cmd, &c.output)
	return cmd
}

func (c *command) validate() error {
	if c.window < minWindow || c.window > maxWindow {
		return kube.Usage("--for is %s: it must be from %s to %s", c.window, minWindow, maxWindow)
	}
	if c.keys && !c.prefixes {
		return kube.Usage("--show-keys needs --hot-prefixes")
	}
	return kube.CheckDocumentFormat(c.output)
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	name, err := kube.EtcdName(arg)
	if err != nil {
		return err
	}
	token, err := c.token()
	if err != nil {
		return err
	}
	etcd, err := cluster.Etcd(ctx, name)
	if err != nil {
		return err
	}
	in, err := Gather(ctx, cluster, c.Clock, etcd, Options{
		Window: c.window, AgentToken: token, Logs: c.logs, HotPrefixes: c.prefixes, ShowKeys: c.keys, LargePrefixes: c.large, Suffix: c.Suffix(),
		Progress: c.progress, Note: func(note string) { text.Print(c.ErrOut, note) },
	})
	if err != nil {
		return err
	}
	verdict := diagnose.Judge(in)
	if c.output != "" {
		return c.PrintDocument(newDocument(in, verdict), c.output)
	}
	c.Print(lines(in, verdict, c.Width())...)
	return nil
}

// token returns what the file with the token of the agents' metrics has; empty without a file.
func (c *command) token() (string, error) {
	if c.tokenFile == "" {
		return "", nil
	}
	raw, err := os.ReadFile(c.tokenFile)
	if err != nil {
		return "", kube.Usage("--agent-token-file cannot be read: %v", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// progressPeriod is the time between two lines about the progress.
const progressPeriod = 10 * time.Second

// progress says on the error stream what is being done, until it is stopped.
func (c *command) progress(members int) (stop func()) {
	if members == 0 {
		return func() {}
	}
	text.Print(c.ErrOut, fmt.Sprintf("Measuring %s for %s. Nothing is changed.", plural(members, "member"), c.window))
	began, done := c.Clock.Now(), make(chan struct{})
	ended := make(chan struct{})
	ticker := c.Clock.NewTicker(progressPeriod)
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-ticker.C():
				if left := c.window - c.Clock.Since(began); left > time.Second {
					text.Print(c.ErrOut, fmt.Sprintf("%s left.", left.Round(time.Second)))
				}
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
	}
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
