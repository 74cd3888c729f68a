// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/memberconfig"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	decision "github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/compaction"
	"github.com/etcd-foreman/etcd-foreman/tasks/copybackups"
	"github.com/etcd-foreman/etcd-foreman/tasks/maintenance"
	"github.com/etcd-foreman/etcd-foreman/tasks/membership"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	"github.com/etcd-foreman/etcd-foreman/tasks/recovery"
	"github.com/etcd-foreman/etcd-foreman/tasks/recreate"
	"github.com/etcd-foreman/etcd-foreman/tasks/restore"
	"github.com/etcd-foreman/etcd-foreman/tasks/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks/snapshot"
)

// registry returns the task types that the operator carries out. If etcd-druid manages the Etcds, pods are always replaced, since
// it does not know of updates in place; images do not tell their version of etcd; and its agents own the leases of snapshots.
func (c *composition) registry() tasks.Registry {
	agentImage, foreign := c.config.Images.EtcdAgent, c.beside.manages
	jobs := tasks.Jobs{Client: c.Client, Live: c.Live, Clock: c.Clock, Image: agentImage}
	rollouts := &rollout.Handler{
		Rollouts: tasks.Rollouts[decision.Config]{Client: c.Client, Live: c.Live, Rule: c.beside.rule},
		Observer: c.observer, Dialer: c.Dialer, Credentials: c.credentials, Clock: c.Clock,
		Agent: c.Agent, PodUpdatePolicy: c.config.PodUpdatePolicy, ReplacesAlways: foreign, UnknownVersions: foreign,
	}
	registry := tasks.Registry{
		v1alpha1.QuorumAwareRollout: {Handler: tasks.For(rollouts), RevokeIntents: rollouts.RevokeIntents},
		v1alpha1.RecreateRollout: {Supersedes: []v1alpha1.TaskType{v1alpha1.QuorumAwareRollout}, Handler: tasks.For(&recreate.Handler{
			Rollouts: tasks.Rollouts[decision.RecreateConfig]{Client: c.Client, Live: c.Live, Rule: replacer.Operator{}}, Observer: c.observer, Clock: c.Clock,
		})},
		v1alpha1.OnDemandMaintenance: {Deadline: maintenance.Deadline, Handler: tasks.For(&maintenance.Handler{
			Live: c.Live, Observer: c.observer, Dialer: c.Dialer, Credentials: c.credentials,
		})},
		v1alpha1.OnDemandSnapshot: {Deadline: snapshot.Deadline, Handler: tasks.For(&snapshot.Handler{
			Live: c.Live, Observer: c.observer, Clock: c.Clock, Agent: c.Agent,
		})},
		v1alpha1.OnDemandCompaction: {Deadline: compaction.Deadline, Handler: tasks.For(&compaction.Handler{Jobs: jobs, SkipLease: foreign})},
		v1alpha1.CopyBackups:        {Deadline: copybackups.Deadline, Handler: tasks.For(&copybackups.Handler{Jobs: jobs, Rules: c.rules})},
		v1alpha1.Restore:            {Deadline: newcluster.Deadline, Handler: tasks.For(&restore.Handler{Jobs: jobs, Observer: c.observer, Agent: c.Agent, Rules: c.rules, Stays: c.stays})},
		v1alpha1.QuorumLossRecovery: {Deadline: newcluster.Deadline, Supersedes: []v1alpha1.TaskType{v1alpha1.Restore}, Handler: tasks.For(&recovery.Handler{
			Client: c.Client, Live: c.Live, Observer: c.observer, Clock: c.Clock, Image: agentImage,
		})},
	}
	registry[v1alpha1.MembershipChange] = tasks.Type{Handler: tasks.For(&membership.Handler{
		Client: c.Client, Live: c.Live, Reader: c.memberReader(), Clock: c.Clock, Rule: c.beside.rule,
		Writer: memberconfig.Writer{Access: state.Access{Client: c.Client, API: c.Live, Observer: c.observer, Locker: c.locker, Clock: c.Clock}},
	})}
	for name, taskType := range registry {
		if rules, apply := c.rulesOf(name); apply {
			taskType.Handler = permitted{taskType.Handler, rules}
			registry[name] = taskType
		}
	}
	for name, message := range c.beside.unavailable {
		registry[name] = tasks.Type{Unavailable: &tasks.Verdict{
			Outcome: tasks.Reject, Code: v1alpha1.ErrNotInExecutorMode, Message: "this operator is in executor mode: " + message,
		}}
	}
	return registry
}

// rulesOf returns the rules of a task type, if any apply. Beside etcd-druid, store and TLS of an Etcd are etcd-druid's: the rules apply only
// to Jobs of the operator that use the store.
func (c *composition) rulesOf(name v1alpha1.TaskType) (rules policy.Rules, apply bool) {
	rules = c.rules
	if !c.beside.manages {
		return rules, true
	}
	rules.TLS = false
	return rules, name == v1alpha1.OnDemandCompaction || name == v1alpha1.CopyBackups
}

// permitted rejects tasks of an Etcd that the operator's configuration refuses. A task that was admitted before
// continues, so that no cluster stays half stopped, but runs no image that is not allowed.
type permitted struct {
	tasks.Handler
	rules policy.Rules
}

// Admit implements tasks.Handler.
func (h permitted) Admit(ctx context.Context, task tasks.Task) (tasks.Verdict, error) {
	if err := h.rules.Etcd(task.Etcd); err != nil {
		return tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrNotAllowed, Message: "the Etcd is refused: " + err.Error()}, nil
	}
	return h.Handler.Admit(ctx, task)
}

// Execute implements tasks.Handler.
func (h permitted) Execute(ctx context.Context, task tasks.Task) (tasks.Verdict, error) {
	task.Etcd = h.rules.WithAllowedImages(task.Etcd)
	return h.Handler.Execute(ctx, task)
}

// Perform implements tasks.Handler.
func (h permitted) Perform(ctx context.Context, task tasks.Task, step tasks.Step) error {
	task.Etcd = h.rules.WithAllowedImages(task.Etcd)
	return h.Handler.Perform(ctx, task, step)
}
