// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/compaction"
	"github.com/etcd-foreman/etcd-foreman/tasks/copybackups"
	"github.com/etcd-foreman/etcd-foreman/tasks/maintenance"
	"github.com/etcd-foreman/etcd-foreman/tasks/recovery"
	"github.com/etcd-foreman/etcd-foreman/tasks/recreate"
	quorumaware "github.com/etcd-foreman/etcd-foreman/tasks/rollout"
	"github.com/etcd-foreman/etcd-foreman/tasks/snapshot"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// dependencies of the task types, besides the API server.
type dependencies struct {
	observer    *observe.Observer
	dialer      etcdclient.Dialer
	credentials *certificates.Credentials
	clock       clock.PassiveClock
	images      configv1alpha1.Images
	agents      agents
	rules       policy.Rules
	rule        replacer.Rule
	podUpdates  v1alpha1.PodUpdatePolicy
}

// newRegistry returns the task types that the operator carries out.
func newRegistry(cached client.Client, live client.Reader, d dependencies) tasks.Registry {
	jobs := tasks.Jobs{Client: cached, Live: live, Clock: d.clock}
	registry := tasks.Registry{
		v1alpha1.QuorumAwareRollout: {Handler: &quorumaware.Handler{
			Client: cached, Live: live, Observer: d.observer, Dialer: d.dialer, Credentials: d.credentials, Clock: d.clock, Rule: d.rule,
			Agent: d.agents.client, PodUpdatePolicy: d.podUpdates,
		}},
		v1alpha1.RecreateRollout: {Supersedes: []v1alpha1.TaskType{v1alpha1.QuorumAwareRollout}, Handler: &recreate.Handler{
			Client: cached, Live: live, Observer: d.observer, Clock: d.clock,
		}},
		v1alpha1.OnDemandMaintenance: {Deadline: maintenance.Deadline, Handler: &maintenance.Handler{
			Live: live, Observer: d.observer, Dialer: d.dialer, Credentials: d.credentials,
		}},
		v1alpha1.OnDemandSnapshot: {Deadline: snapshot.Deadline, Handler: &snapshot.Handler{
			Live: live, Observer: d.observer, Clock: d.clock, Agent: d.agents.client,
		}},
		v1alpha1.OnDemandCompaction: {Deadline: compaction.Deadline, Handler: &compaction.Handler{Jobs: jobs, Image: d.images.EtcdAgent, SkipLease: d.rule == replacer.Executor}},
		v1alpha1.CopyBackups:        {Deadline: copybackups.Deadline, Handler: &copybackups.Handler{Jobs: jobs, Image: d.images.EtcdAgent, Rules: d.rules}},
		v1alpha1.QuorumLossRecovery: {Deadline: recovery.Deadline, Handler: &recovery.Handler{
			Client: cached, Live: live, Observer: d.observer, Clock: d.clock, Image: d.images.EtcdAgent,
		}},
	}
	for name, taskType := range registry {
		taskType.Handler = permitted{taskType.Handler, d.rules}
		registry[name] = taskType
	}
	return registry
}
