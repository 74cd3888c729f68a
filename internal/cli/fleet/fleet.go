// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package fleet is the verb fleet: the policies of the fleet, their changes, and who holds slots; and fleet resume.
package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/watch"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type command struct {
	*kube.Kube
	format string
	policy string
	watch  bool
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k}
	cmd := &cobra.Command{
		Use: "fleet [POLICY]", Short: "Show how changes go through all Etcds, by EtcdFleetPolicies",
		Long: "Shows each EtcdFleetPolicy with its slots, a line for each change with the clusters in which it waits, runs, is watched, is done or " +
			"failed, and the clusters that hold slots. It takes the right to list EtcdFleetPolicies.",
		Example: "  # Follow how a change goes through the fleet\n  kubectl etcdtask fleet --watch\n\n  # Let a change continue that has failed\n  kubectl etcdtask fleet resume v1-0123456789abcdef",
		Args:    cobra.MaximumNArgs(1),
		PreRunE: func(*cobra.Command, []string) error { return kube.CheckDocumentFormat(c.format) },
		RunE:    k.Run(c.run),
	}
	kube.AddDocumentFormat(cmd, &c.format)
	cmd.Flags().BoolVarP(&c.watch, "watch", "w", false, "Renew the page every two seconds until interrupted; if the output is not a terminal, print it when it changes.")
	cmd.MarkFlagsMutuallyExclusive("watch", "output")
	cmd.AddCommand(c.resume())
	return cmd
}

func (c *command) resume() *cobra.Command {
	cmd := &cobra.Command{
		Use: "resume CHANGE", Short: "Let a change continue that is paused because it failed",
		Long: "Resumes a change as you see it: if it fails again, or someone else has resumed it since, it stays paused. It begins with a canary " +
			"unless it has passed one. It takes the right to patch the EtcdFleetPolicy.",
		Example: "  # Let a change continue that has failed\n  kubectl etcdtask fleet resume v1-0123456789abcdef",
		Args:    cobra.ExactArgs(1),
		RunE:    c.Run(c.runResume),
	}
	cmd.Flags().StringVar(&c.policy, "policy", "", "The EtcdFleetPolicy, if several have paused the change.")
	return cmd
}

// policies lists the policies by name; one alone if it is named.
func (c *command) policies(ctx context.Context, cluster *kube.Cluster, name string) ([]v1alpha1.EtcdFleetPolicy, error) {
	all, err := cluster.FleetPolicies(ctx)
	if err != nil {
		return nil, err
	}
	if name == "" {
		return all, nil
	}
	i := slices.IndexFunc(all, func(p v1alpha1.EtcdFleetPolicy) bool { return p.Name == name })
	if i < 0 {
		return nil, kube.Failure("there is no EtcdFleetPolicy %q; \"kubectl etcdtask fleet\" shows all", name)
	}
	return all[i : i+1], nil
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, name string) error {
	read := func(ctx context.Context) (watch.Page, error) {
		all, err := c.policies(ctx, cluster, name)
		return func(now time.Time, width int) []string { return page(all, now, width) }, err
	}
	if c.watch {
		return watch.Poll(ctx, c.Kube, read)
	}
	all, err := c.policies(ctx, cluster, name)
	switch {
	case err != nil:
		return err
	case c.format != "":
		return c.PrintDocument(all, c.format)
	case len(all) == 0:
		text.Print(c.ErrOut, none)
		return nil
	}
	c.Print(page(all, c.Clock.Now(), c.Width())...)
	return nil
}

const none = "There is no EtcdFleetPolicy: with the feature gate FleetPolicies, automatic rollouts run in 10% of the Etcds at a time, at least in 5."

// page shows policies.
func page(all []v1alpha1.EtcdFleetPolicy, now time.Time, width int) (shown []string) {
	if len(all) == 0 {
		return []string{none}
	}
	for i := range all {
		if i > 0 {
			shown = append(shown, "")
		}
		shown = append(shown, lines(&all[i], now, width)...)
	}
	return shown
}

// lines show a policy.
func lines(p *v1alpha1.EtcdFleetPolicy, now time.Time, width int) []string {
	s := &p.Status
	if s.ObservedGeneration < p.Generation {
		return notInForce(p)
	}
	all := []string{fmt.Sprintf("%s: %d of %d slots are in use, %d tasks wait, %d Etcds", p.Name, s.Used, s.Limit, s.Waiting, s.Clusters)}
	if s.NextWindow != nil {
		all = append(all, "No window is open; the next one opens "+s.NextWindow.UTC().Format(time.RFC3339)+".")
	}
	if c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionPaused); c != nil {
		all = append(all, pausedBy(c))
	}
	if len(s.Changes) > 0 {
		t := &text.Table{Columns: []text.Column{{Name: "CHANGE"}, {Name: "STATE"}, {Name: "WAITING"}, {Name: "RUNNING"}, {Name: "WATCHED"}, {Name: "DONE"}, {Name: "FAILED"}, {Name: "PROGRESS", Rank: 2}, {Name: "LEFT", Rank: 1}, {Name: "AGE", Rank: 3}}}
		for i := range s.Changes {
			change := &s.Changes[i]
			number := func(n int32) string { return strconv.Itoa(int(n)) }
			t.Add(change.Change, stateOf(s, change), number(change.Waiting), number(change.Running), number(change.Watched), number(change.Done), number(change.Failed), progress(change, width > 0), left(change, now), text.Since(change.Since.Time, now))
		}
		all = append(append(all, ""), t.Lines(width)...)
	}
	if len(s.Holders) > 0 {
		t := &text.Table{Columns: []text.Column{{Name: "NAMESPACE"}, {Name: "ETCD"}, {Name: "TASK", Rank: 2}, {Name: "CHANGE", Rank: 1}, {Name: "STATE"}, {Name: "SINCE"}}}
		for _, h := range s.Holders {
			state, since := "running", h.Since
			if h.WatchedSince != nil {
				state, since = "watched", *h.WatchedSince
			}
			if h.Canary {
				state = "canary, " + state
			}
			t.Add(h.Namespace, h.Etcd, h.Task, text.OrDash(h.Change), state, text.Since(since.Time, now))
		}
		all = append(append(all, ""), t.Lines(width)...)
	}
	return all
}

func pausedBy(c *metav1.Condition) string { return "Paused: " + c.Message }

// notInForce shows a policy whose newest spec grants nothing yet: what the operator has said of it, and a guess where it has said nothing.
func notInForce(p *v1alpha1.EtcdFleetPolicy) []string {
	all := []string{p.Name + ": its newest spec is not in force"}
	paused := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionPaused)
	if paused != nil {
		all = append(all, pausedBy(paused))
	}
	if paused == nil || paused.ObservedGeneration < p.Generation {
		all = append(all, "No operator has seen its newest spec yet. If that lasts, the feature gate FleetPolicies of the operator is off, or a newer operator has written the ledger: then an event of the policy says so.")
	}
	return all
}

// progress is in how many of its clusters a change is done: a bar on a terminal.
func progress(c *v1alpha1.FleetChange, bar bool) string {
	all := c.Waiting + c.Running + c.Watched + c.Done + c.Failed
	if all == 0 {
		return "-"
	}
	shown := fmt.Sprintf("%d%%", 100*c.Done/all)
	if bar {
		n := int(10 * c.Done / all)
		shown = strings.Repeat("█", n) + strings.Repeat("░", 10-n) + " " + shown
	}
	return shown
}

// left is how long a change takes until it has come to all clusters that wait, if it goes on as it went so far.
func left(c *v1alpha1.FleetChange, now time.Time) string {
	remain := c.Waiting + c.Running + c.Watched
	if c.Paused != "" || c.Done == 0 || remain == 0 || now.IsZero() {
		return "-"
	}
	end := now.Add(now.Sub(c.Since.Time) / time.Duration(c.Done) * time.Duration(remain))
	return text.Since(now, end)
}

// stateOf says how a change goes.
func stateOf(s *v1alpha1.EtcdFleetPolicyStatus, c *v1alpha1.FleetChange) string {
	switch {
	case c.Paused != "":
		return "paused"
	case slices.ContainsFunc(s.Holders, func(h v1alpha1.FleetHolder) bool { return h.Canary && h.Change == c.Change }):
		return "canary"
	case c.Waiting+c.Running+c.Watched > 0:
		return "going on"
	case c.Done > 0:
		return "done"
	case c.Failed > 0:
		return "failed"
	}
	// Wherever its tasks ended, they were superseded or deleted, or it was resumed since.
	return "-"
}

func (c *command) runResume(ctx context.Context, cluster *kube.Cluster, change string) error {
	var name string
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		all, err := c.policies(ctx, cluster, c.policy)
		if err != nil {
			return err
		}
		policy, token, err := resumable(all, change)
		if err != nil {
			return err
		}
		name = policy.Name
		before := client.MergeFromWithOptions(policy.DeepCopy(), client.MergeFromWithOptimisticLock{})
		metav1.SetMetaDataAnnotation(&policy.ObjectMeta, v1alpha1.AnnotationResumeChange, withToken(policy.Annotations[v1alpha1.AnnotationResumeChange], token))
		if err := cluster.Patch(ctx, policy, before); err != nil {
			return kube.Failure("%w", err)
		}
		return nil
	}); err != nil {
		return err
	}
	text.Print(c.Out, fmt.Sprintf("change %s of etcdfleetpolicy/%s resumed", change, name))
	return nil
}

// maxTokens bounds the tokens that are kept: the operator reads them within seconds, and one that it has read does nothing.
const maxTokens = 10

// withToken adds a token to a list of them, as the newest.
func withToken(all, token string) string {
	kept := slices.DeleteFunc(strings.Split(all, ","), func(other string) bool { return other == "" || other == token })
	kept = append(kept, token)
	return strings.Join(kept[max(0, len(kept)-maxTokens):], ",")
}

// resumable returns the policy that has paused a change, and the token that resumes it.
func resumable(all []v1alpha1.EtcdFleetPolicy, change string) (policy *v1alpha1.EtcdFleetPolicy, token string, err error) {
	why := fmt.Sprintf("no EtcdFleetPolicy has paused change %q; \"kubectl etcdtask fleet\" shows which changes are paused", change)
	for i := range all {
		for _, found := range all[i].Status.Changes {
			if found.Change != change || found.Paused == "" {
				continue
			}
			if found.ResumeToken == "" {
				// Another change to the same template failed.
				why = fmt.Sprintf("EtcdFleetPolicy %s: %s", all[i].Name, found.Paused)
				continue
			}
			if policy != nil {
				return nil, "", kube.Usage("EtcdFleetPolicies %s and %s have paused change %s: name one with --policy", policy.Name, all[i].Name, change)
			}
			policy, token = &all[i], found.ResumeToken
		}
	}
	if policy == nil {
		return nil, "", kube.Failure("%s", why)
	}
	return policy, token, nil
}
