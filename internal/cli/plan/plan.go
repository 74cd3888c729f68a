// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package plan is the verb plan: it predicts a rollout, step by step, with the operator's own decision, and changes nothing.
// It needs no operator.
package plan

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lookup"
	"github.com/etcd-foreman/etcd-foreman/internal/base/ownership"
	"github.com/etcd-foreman/etcd-foreman/internal/base/taskconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/portforward"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/submit"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace/read"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/plan"
	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

type command struct {
	*kube.Kube
	restart bool
	options func(*rollout.Config)
	output  string
}

// Command is the verb.
func Command(k *kube.Kube) *cobra.Command {
	c := &command{Kube: k}
	cmd := &cobra.Command{
		Use: "plan ETCD", Short: "Predict a rollout: its order, reasons and guards. Changes nothing",
		Long: "Applies the operator's decision step by step to the state that each step leaves, and prints the order with class, role and reason for each pod, " +
			"the guards that block it now, and when quorum would be lost. Members are asked through a port-forward; if that is not possible, roles come from their leases.\n" +
			"A rollout that has not ended is continued from its current state, with its own config. With --restart or an option of a rollout, a new one is planned instead.",
		Example: "  # Show what a rollout of etcd-main would do now\n  kubectl etcdtask plan etcd-main\n\n" +
			"  # Show what a restart of every member would do\n  kubectl etcdtask plan etcd-main --restart",
		Args: cobra.ExactArgs(1), ValidArgsFunction: k.CompleteEtcds(),
		PreRunE: func(*cobra.Command, []string) error { return kube.CheckDocumentFormat(c.output) },
		RunE:    k.Run(c.run),
	}
	c.options = submit.RolloutFlags(cmd)
	cmd.Flags().BoolVar(&c.restart, "restart", false, "Plan the replacement of every pod, outdated or not.")
	kube.AddDocumentFormat(cmd, &c.output)
	return cmd
}

func (c *command) run(ctx context.Context, cluster *kube.Cluster, arg string) error {
	etcd, err := cluster.NamedEtcd(ctx, arg)
	if err != nil {
		return err
	}
	p, err := c.plan(ctx, cluster, etcd)
	if err != nil {
		return err
	}
	if c.output != "" {
		return c.PrintDocument(p.document(), c.output)
	}
	c.Print(p.lines(c.Width())...)
	return nil
}

// result is a plan, and what it is based on.
type result struct {
	etcd *v1alpha1.Etcd
	// task that the plan continues; nil for a new rollout.
	task    *v1alpha1.EtcdOperatorTask
	restart bool
	// members is the task that changes the members; nil if none does.
	members *v1alpha1.EtcdOperatorTask
	// snapshot of the cluster, and its pods as they were read.
	snapshot *cluster.Snapshot
	pods     *read.Reader
	// unreachable is why no member answered; empty if one did.
	unreachable string
	// surroundings is why nodes and volumes could not be read; empty if they were.
	surroundings string
	// revisions is why ControllerRevisions could not be read; empty if they were, or if no pod is updated in place.
	revisions string
	// byDruid: etcd-druid manages the StatefulSet, so an operator in executor mode replaces the pods.
	byDruid bool
	// otherStrategy: the operator does not replace the pods of the StatefulSet.
	otherStrategy bool
	// policies of the fleet that select the namespace, as far as the user may read them, and waiting is what the rollout waits for beside its guards.
	policies []v1alpha1.EtcdFleetPolicy
	waiting  []string
	holding  []rollout.Hold
	plan.Plan
}

// operatorsDefault is the default policy of the operator. Its configuration may change it, which users may not read.
const operatorsDefault = v1alpha1.InPlaceIfPossible

func (c *command) plan(ctx context.Context, cluster *kube.Cluster, etcd *v1alpha1.Etcd) (*result, error) {
	p := &result{etcd: etcd, restart: c.restart}
	if err := p.observe(ctx, cluster, c.Clock); err != nil {
		return nil, err
	}
	all, err := cluster.Tasks(ctx, etcd.Name)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(queue.New(all), func(t *v1alpha1.EtcdOperatorTask) bool { return t.Spec.Type == v1alpha1.MembershipChange }); i >= 0 {
		p.members = queue.New(all)[i]
	}
	if p.policies, err = policiesOf(ctx, cluster); err != nil {
		return nil, err
	}
	in, err := p.input(all, c.config(), c.Clock.Now())
	if err != nil {
		return nil, err
	}
	if in.Updates, err = p.updates(ctx, in.Config); err != nil {
		return nil, err
	}
	p.foresee(in, c.Clock.Now())
	return p, nil
}

// updates returns which pods the operator updates in place. Beside etcd-druid it replaces all.
func (p *result) updates(ctx context.Context, config rollout.Config) (inplace.Updates, error) {
	if p.byDruid || !config.InPlace(p.etcd.Spec.PodUpdatePolicy, operatorsDefault) {
		return inplace.Updates{}, nil
	}
	set := p.snapshot.StatefulSet
	assessed, err := p.pods.Assess(ctx, p.etcd.Namespace, set, set.UpdateRevision, func(types.UID) string { return "" })
	if apierrors.IsForbidden(err) {
		p.revisions = kube.Sentence(err)
		return inplace.Updates{}, nil
	} else if err != nil {
		return inplace.Updates{}, fmt.Errorf("assessing pods: %w", err)
	}
	return inplace.Updates{}.Next(p.snapshot, assessed, rollout.MaxGap), nil
}

// observe fills in what is known of the cluster. It asks the members through port-forwards.
func (p *result) observe(ctx context.Context, cluster *kube.Cluster, clock clock.Clock) error {
	members, err := portforward.Open(ctx, cluster, clock, p.etcd)
	if err != nil {
		return err
	}
	defer members.Close()
	p.pods = &read.Reader{Reader: cluster}
	if p.snapshot, p.surroundings, err = members.Observe(ctx, p.pods); err != nil {
		return err
	}
	p.unreachable = members.Unreachable(ctx, p.snapshot)
	return p.observeManager(ctx, p.pods)
}

// observeManager fills in whether etcd-druid manages the StatefulSet.
func (p *result) observeManager(ctx context.Context, reader client.Reader) error {
	set, err := lookup.Get[appsv1.StatefulSet](ctx, reader, "StatefulSet", client.ObjectKeyFromObject(p.etcd))
	if err == nil && set != nil {
		p.byDruid = ownership.LeftToDruid(p.etcd, set)
	}
	return err
}

// foresee fills in the plan. If the operator does not replace the pods, the plan assumes that it does.
func (p *result) foresee(in rollout.Input, now time.Time) {
	set := in.Snapshot.StatefulSet
	if p.otherStrategy = !set.OnDelete || set.Objection != ""; p.otherStrategy {
		snapshot := *in.Snapshot
		snapshot.StatefulSet.OnDelete, snapshot.StatefulSet.Objection = true, ""
		in.Snapshot = &snapshot
	}
	p.holding = rollout.Holding(in, now)
	p.Plan = plan.Foresee(in, now)
	p.waiting = p.waits(now)
}

// config returns the config that the flags ask for; the zero value without flags.
func (c *command) config() rollout.Config {
	config := rollout.Config{Restart: c.restart}
	c.options(&config)
	return config
}

// input returns the input of the decision: that of the rollout that has not ended, or of a new one if the flags choose a config.
func (p *result) input(all []*v1alpha1.EtcdOperatorTask, wanted rollout.Config, now time.Time) (rollout.Input, error) {
	in := rollout.Input{
		Snapshot: p.snapshot, Created: now,
		Surges: rollout.Surges(p.etcd, p.snapshot), HasSource: p.etcd.Source() != nil,
	}
	raw, err := yaml.Marshal(wanted)
	if err != nil {
		return in, fmt.Errorf("encoding the config: %w", err)
	}
	config := string(raw)
	i := slices.IndexFunc(queue.New(all), func(t *v1alpha1.EtcdOperatorTask) bool { return t.Spec.Type == v1alpha1.QuorumAwareRollout })
	if i >= 0 && wanted == (rollout.Config{}) {
		p.task = queue.New(all)[i]
		config = p.task.Spec.Config
		in.Created, in.Overridden = p.task.CreationTimestamp.Time, p.task.Spec.OverrideGuards
		if r := p.task.Status.Rollout; r != nil {
			in.Recorded = *r
		}
	}
	if in.Config, err = taskconfig.Decode[rollout.Config](config); err != nil && p.task == nil {
		return in, kube.Usage("%v", err)
	} else if err != nil {
		return in, kube.Failure("task %s cannot be planned: %v", p.task.Name, err)
	}
	in.Backup.Configured = p.etcd.HasBackupStore() && in.Config.MayTakeSnapshot(p.byDruid)
	in.Timers = rollout.Timers{}.Next(p.snapshot)
	if p.unreachable != "" {
		// The plan is for an operator that has not reached etcd for the grace period either.
		in.Timers.NoAnswerSince = now.Add(-in.Config.Grace())
	}
	return in, nil
}
