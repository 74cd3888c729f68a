// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package status is the verb status: how Etcds are, on one page, as the API server knows them. Members are not asked: the
// operator does that, and the status of the Etcd has their answers.
package status

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/story"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/queue"
	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

type command struct{ *kube.Kube }

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{k}
	cmd := &cobra.Command{
		Use: "status [ETCD]", Short: "Show how Etcds are: conditions, members, rollout, queue",
		Long: "Shows what is wrong with an Etcd, its members with class, role, version and node, and its tasks that have not ended. " +
			"Without a name, shows one line for each Etcd of the namespace. Members are not asked: roles come from the status of the Etcd.",
		Example: "  # See what is wrong with etcd-main\n  kubectl etcdtask status etcd-main\n\n  # List every Etcd of the cluster\n  kubectl etcdtask status -A",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: complete.Etcds(k),
		RunE: k.Run(c.run),
	}
	cmd.Flags().BoolVarP(&k.AllNamespaces, "all-namespaces", "A", false, "Show the Etcds of all namespaces.")
	return cmd
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	switch {
	case arg == "":
		return c.all(ctx, cluster)
	case c.AllNamespaces:
		return kube.Usage("a name and --all-namespaces exclude each other")
	}
	name, err := kube.EtcdName(arg)
	if err != nil {
		return err
	}
	etcd, err := cluster.Etcd(ctx, name)
	if err != nil {
		return err
	}
	v := view{etcd: etcd, now: c.Clock.Now()}
	tasks, err := cluster.Tasks(ctx, name)
	if err != nil {
		return err
	}
	v.queue = queue.New(tasks)
	if v.snapshot, err = observe.New(noDialer{}, c.Clock, observe.FromAfar()).Observe(ctx, cluster, etcd); err != nil {
		v.trouble = kube.Sentence(err)
	} else {
		v.snapshot = v.snapshot.ByReadiness()
	}
	text.Print(c.Out, v.lines(c.Width())...)
	return nil
}

// noDialer reaches no member.
type noDialer struct{}

func (noDialer) Dial(string, *tls.Config) (etcdclient.Client, error) {
	return nil, errors.New("members are not asked")
}

func (c *command) all(ctx context.Context, cluster *kube.Cluster) error {
	list := &v1alpha1.EtcdList{}
	if err := cluster.List(ctx, list, client.InNamespace(cluster.Namespace)); err != nil {
		return fmt.Errorf("listing Etcds: %w", err)
	}
	if len(list.Items) == 0 {
		text.Print(c.ErrOut, "No Etcds found.")
		return nil
	}
	text.Print(c.Out, table(list.Items, c.AllNamespaces, c.Clock.Now()).Lines(c.Width())...)
	return nil
}

// table returns a line for each Etcd, those with trouble first.
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

// trouble returns the conditions that say that something is wrong or to be done, the worst first.
func trouble(e *v1alpha1.Etcd) []metav1.Condition {
	var wrong []metav1.Condition
	hibernated := func(c metav1.Condition) bool { return c.Reason == v1alpha1.ReasonHibernated }
	for _, condition := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionStalled, v1alpha1.ConditionReconciled, v1alpha1.ConditionObjectsOwned, v1alpha1.ConditionDataVolumesReady, v1alpha1.ConditionAllMembersReady,
		v1alpha1.ConditionBackupReady, v1alpha1.ConditionTLSReady, v1alpha1.ConditionScaled, v1alpha1.ConditionVolumesGrown, v1alpha1.ConditionAllMembersUpdated,
	} {
		c := e.Status.Conditions.Find(condition)
		if c == nil || hibernated(*c) || (c.Status == metav1.ConditionTrue) != (condition == v1alpha1.ConditionStalled) {
			continue
		}
		wrong = append(wrong, *c)
	}
	return wrong
}

// view is what is shown of one Etcd. It is a value.
type view struct {
	etcd     *v1alpha1.Etcd
	snapshot *cluster.Snapshot
	// trouble is why the members could not be read.
	trouble string
	queue   queue.Queue
	now     time.Time
}

func (v view) lines(width int) []string {
	e := v.etcd
	lines := text.Wrap(fmt.Sprintf("Etcd %s/%s: %d replicas, age %s", e.Namespace, e.Name, e.Spec.Replicas, text.Since(e.CreationTimestamp.Time, v.now)), 2, width)
	if e.Status.ObservedGeneration < e.Generation {
		lines = append(lines, "The newest spec is not applied yet.")
	}
	if c := e.Status.Conditions.Find(v1alpha1.ConditionBackupReady); c != nil && c.Status == metav1.ConditionTrue {
		lines = append(lines, text.Wrap("Backup: "+c.Message, 2, width)...)
	}
	wrong := trouble(e)
	if len(wrong) == 0 {
		lines = append(lines, "No condition reports trouble.")
	}
	for _, c := range wrong {
		lines = append(lines, text.Wrap(fmt.Sprintf("%s is %s (%s) for %s: %s", c.Type, c.Status, c.Reason, text.Since(c.LastTransitionTime.Time, v.now), c.Message), 2, width)...)
	}
	lines = append(lines, "", "MEMBERS")
	if v.snapshot == nil {
		lines = append(lines, text.Wrap("They could not be read: "+v.trouble, 2, width)...)
	} else {
		lines = append(lines, v.members().Lines(width)...)
	}
	lines = append(lines, "", "TASKS")
	if len(v.queue) == 0 {
		lines = append(lines, "None is running or waiting.")
	}
	for _, t := range v.queue {
		say := fmt.Sprintf("%s (%s): %s", t.Name, t.Spec.Type, story.State(t))
		if t.Spec.Suspend {
			say += ", suspended"
		}
		if now := cmp.Or(story.Held(t, v.now), story.Now(t)); now != "" {
			say += ", " + now
		}
		lines = append(lines, text.Wrap(say, 2, width)...)
	}
	return lines
}

func (v view) members() *text.Table {
	t := &text.Table{Columns: []text.Column{{Name: "POD"}, {Name: "CLASS"}, {Name: "ROLE"}, {Name: "VERSION", Rank: 1}, {Name: "UPDATED"}, {Name: "NODE", Rank: 2}}}
	for _, o := range v.snapshot.Ordinals {
		role, version, updated, node := "", "", "", ""
		for _, m := range v.etcd.Status.Members {
			if m.Name == v.etcd.MemberName(o.Name) {
				role = string(m.Role)
			}
		}
		if o.Pod != nil {
			version, node = o.Pod.EtcdVersion, o.Pod.Node.Name
			updated = map[bool]string{true: "yes", false: "no"}[o.Pod.At(v.snapshot.StatefulSet.UpdateRevision)]
			if o.Pod.Node.Trouble != "" {
				node += " (" + strings.TrimSpace(o.Pod.Node.Trouble) + ")"
			}
		}
		t.Add(o.Name, string(o.Class), text.OrDash(role), text.OrDash(version), text.OrDash(updated), text.OrDash(node))
	}
	return t
}
