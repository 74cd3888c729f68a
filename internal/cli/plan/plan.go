// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package plan is the verb plan: it asks the operator's own decision how a rollout would go, step after step, and
// changes nothing. It needs no operator.
package plan

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/complete"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/text"
	"github.com/etcd-foreman/etcd-foreman/internal/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/queue"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// forwardTimeout is how long the port-forwards to all members may take together.
const forwardTimeout = 10 * time.Second

type command struct {
	*kube.Kube
	restart bool
	output  string
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k}
	cmd := &cobra.Command{
		Use: "plan ETCD", Short: "Show how a rollout would go: the order, the reasons, the guards. Changes nothing",
		Long: "Asks the same decision as the operator, step after step, on the state as it would be, and prints the order with class, role and reason for each pod, " +
			"the guards that hold now, and when there would be no quorum. Members are asked through a port-forward; where that is not possible, roles come from their leases.\n" +
			"A rollout that has not ended is planned on from where it is, with its own config.",
		Example: "  # What would a rollout of etcd-main do now?\n  kubectl etcdtask plan etcd-main\n\n" +
			"  # And what a restart of every member?\n  kubectl etcdtask plan etcd-main --restart",
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete.Etcds(k),
		RunE: func(cmd *cobra.Command, args []string) error { return c.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVar(&c.restart, "restart", false, "Plan the replacement of every pod, outdated or not.")
	cmd.Flags().StringVarP(&c.output, "output", "o", "", "json or yaml; else for people.")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (c *command) run(ctx context.Context, name string) error {
	if c.output != "" && c.output != "json" && c.output != "yaml" {
		return kube.Usage("--output is %q: it has to be json or yaml", c.output)
	}
	config, err := c.Config()
	if err != nil {
		return err
	}
	api, err := c.Client()
	if err != nil {
		return err
	}
	namespace, err := c.Namespace()
	if err != nil {
		return err
	}
	etcd, err := c.Etcd(ctx, api, namespace, name)
	if err != nil {
		return err
	}
	p, err := c.plan(ctx, config, api, etcd)
	if err != nil {
		return err
	}
	if c.output != "" {
		return p.encode(c.Out, c.output)
	}
	text.Print(c.Out, p.lines(c.Width())...)
	return nil
}

// result is a plan with what it was made of.
type result struct {
	etcd *v1alpha1.Etcd
	// task that the plan goes on with; nil for a rollout that there is not.
	task    *v1alpha1.EtcdOperatorTask
	restart bool
	sight
	// strategy: the update strategy of the StatefulSet is not OnDelete.
	strategy bool
	holding  []rollout.Hold
	rollout.Plan
}

func (c *command) plan(ctx context.Context, config *rest.Config, api client.Client, etcd *v1alpha1.Etcd) (*result, error) {
	seen, err := c.look(ctx, config, api, etcd)
	if err != nil {
		return nil, err
	}
	p := &result{etcd: etcd, restart: c.restart, sight: *seen}
	all, err := c.Tasks(ctx, api, etcd.Namespace, etcd.Name)
	if err != nil {
		return nil, err
	}
	in, err := p.input(all, c.Clock.Now())
	if err != nil {
		return nil, err
	}
	p.foresee(in, c.Clock.Now())
	return p, nil
}

// foresee fills in the plan. A plan for the other strategy is made as if the operator replaced the pods.
func (p *result) foresee(in rollout.Input, now time.Time) {
	if p.strategy = !in.Snapshot.StatefulSet.OnDelete; p.strategy {
		snapshot := *in.Snapshot
		snapshot.StatefulSet.OnDelete = true
		in.Snapshot = &snapshot
	}
	p.holding = rollout.Holding(in, now)
	p.Plan = rollout.Foresee(in, now)
}

// sight is what can be seen of a cluster from here.
type sight struct {
	snapshot *observe.Snapshot
	// unreachable is why no member was asked; empty when one answered.
	unreachable string
	// surroundings is why nodes and volumes could not be read; empty when they were.
	surroundings string
}

// look observes the cluster, through port-forwards.
func (c *command) look(ctx context.Context, config *rest.Config, api client.Client, etcd *v1alpha1.Etcd) (*sight, error) {
	pods := &corev1.PodList{}
	if err := api.List(ctx, pods, client.InNamespace(etcd.Namespace), client.MatchingLabels{v1alpha1.LabelPartOf: etcd.Name}); err != nil {
		return nil, fmt.Errorf("listing the pods of Etcd %s: %w", etcd.Name, err)
	}
	byIP := map[string]client.ObjectKey{}
	var addresses []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.PodIP != "" && pod.Status.Phase == corev1.PodRunning {
			byIP[pod.Status.PodIP] = client.ObjectKeyFromObject(pod)
			addresses = append(addresses, observe.ClientAddress(pod))
		}
	}
	through := newTunnels(config, byIP)
	defer through.close()
	opening, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	through.warm(opening, addresses)
	credentials := &certificates.Credentials{Reader: api, Clock: c.Clock}
	from := func(options ...observe.Option) *observe.Observer {
		dialer := etcdclient.NewDialerThrough(through.connect)
		return observe.New(dialer, c.Clock, append(options, observe.FromAfar(), observe.WithCredentials(credentials))...)
	}
	s := &sight{}
	var err error
	s.snapshot, err = from(observe.WithSurroundings(api)).Observe(ctx, api, etcd)
	if apierrors.IsForbidden(err) {
		// Nodes and volumes belong to no namespace, and not everybody may read them.
		s.surroundings = kube.Sentence(err)
		s.snapshot, err = from().Observe(ctx, api, etcd)
	}
	if err != nil {
		return nil, err
	}
	if !s.snapshot.Cluster.Reachable {
		s.unreachable = "no member answers"
		_, untrusted := credentials.TLS(ctx, etcd, "", s.endpoint())
		if err := cmp.Or(through.err(), untrusted); err != nil {
			s.unreachable = kube.Sentence(err)
		}
	}
	return s, nil
}

// endpoint of one member; empty when there is none.
func (s *sight) endpoint() string {
	for _, o := range s.snapshot.Ordinals {
		if o.Pod != nil && o.Pod.Endpoint != "" {
			return o.Pod.Endpoint
		}
	}
	return ""
}

// input is what the decision is asked about: the rollout that has not ended, or else one with the default config.
func (p *result) input(all []*v1alpha1.EtcdOperatorTask, now time.Time) (rollout.Input, error) {
	in := rollout.Input{Snapshot: p.snapshot, Created: now}
	config := ""
	if p.restart {
		config = "restart: true"
	}
	i := slices.IndexFunc(queue.New(all), func(t *v1alpha1.EtcdOperatorTask) bool { return t.Spec.Type == v1alpha1.QuorumAwareRollout })
	if i >= 0 && !p.restart {
		p.task = queue.New(all)[i]
		config = p.task.Spec.Config
		in.Created, in.Overridden = p.task.CreationTimestamp.Time, p.task.Spec.OverrideGuards
		if r := p.task.Status.Rollout; r != nil {
			in.Recorded = *r
		}
	}
	var err error
	if in.Config, err = rollout.DecodeConfig(config); err != nil {
		return in, kube.Failure("task %s cannot be planned: %v", p.task.Name, err)
	}
	in.Timers = rollout.Timers{}.Next(p.snapshot)
	if p.unreachable != "" {
		// What the operator does once it has not reached etcd for long enough.
		in.Timers.NoAnswerSince = now.Add(-in.Config.Grace())
	}
	return in, nil
}
