// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/lock"
	"github.com/etcd-foreman/etcd-foreman/internal/base/replacer"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/certificates"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/memberships"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/rollouts"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/upkeep"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/policy"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet/control"
	"github.com/etcd-foreman/etcd-foreman/tasks/restore"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// composition is what the controllers of an operator share.
type composition struct {
	Dependencies
	config      *configv1alpha1.OperatorConfiguration
	gates       featuregate.FeatureGate
	beside      beside
	rules       policy.Rules
	credentials *certificates.Credentials
	observer    *observe.Observer
	locker      *lock.Locks
	stays       *restore.Stays
	agents      agents
	// fleet is nil without the feature gate FleetPolicies.
	fleet *control.Controller
}

// beside is what etcd-druid changes.
type beside struct {
	// manages: etcd-druid manages the Etcds, and this operator only runs tasks (executor mode).
	manages bool
	// rule decides whose pods the operator replaces.
	rule replacer.Rule
	// live makes a reader of Etcds from one of the API server.
	live func(client.Reader) client.Reader
	// unavailable are the task types that write what etcd-druid owns, each with what to do instead.
	unavailable map[v1alpha1.TaskType]string
	// tasks and backlog publish metrics. The backlog may be nil.
	tasks   []engine.TaskMetrics
	backlog func(etcd types.NamespacedName, events *int64)
	// adopter returns what adopts the objects of Etcds.
	adopter func(*etcd.Reconciler) state.Adopter
	// parts are further controllers.
	parts func(*composition) []part
}

func newComposition(config *configv1alpha1.OperatorConfiguration, d Dependencies) (*composition, error) {
	gates, err := configv1alpha1.NewFeatureGate(config.FeatureGates)
	if err != nil {
		return nil, err
	}
	c := &composition{Dependencies: d, config: config, gates: gates, rules: policy.New(config), locker: &lock.Locks{}, stays: &restore.Stays{}}
	if c.beside, err = besideDruid(config.Mode, d.Registerer); err != nil {
		return nil, err
	}
	c.Live = c.beside.live(d.Live)
	c.agents = agents{live: c.Live, key: d.SigningKey, clock: d.Clock, api: config.AgentAPI, tls: config.TLS}
	if c.Agent == nil {
		c.Agent = c.agents.client
	}
	c.credentials = &certificates.Credentials{Reader: c.Live, Clock: d.Clock, Limits: config.TLS.Apply, Elsewhere: c.rules.Elsewhere}
	if c.gates.Enabled(configv1alpha1.FleetPolicies) {
		c.fleet = control.New(c.Client, c.Live, d.Namespace, d.Clock, d.Recorder, control.NewMetrics(d.Registerer))
		c.fleet.Namespaces = config.Namespaces
	}
	c.observer = observe.New(d.Dialer, d.Clock, observe.WithCredentials(c.credentials), observe.WithSurroundings(d.Surroundings), observe.WithRule(c.beside.rule))
	return c, nil
}

func (c *composition) etcds() *etcd.Reconciler {
	r := &etcd.Reconciler{
		Access: state.Access{Client: c.Client, API: c.Live, Observer: c.observer, Locker: c.locker, Clock: c.Clock, PodsManagedBy: c.config.ManagedByLabel},
		Dialer: c.Dialer, Credentials: c.credentials, Source: c.observer.Source, ThroughSource: c.observer.ThroughSource, Recorder: c.Recorder, Images: c.config.Images, TLS: c.config.TLS, Allowed: c.allowed,
		QuorumAwareUpdates: c.gates.Enabled(configv1alpha1.QuorumAwareUpdatesWithOnDelete), AdoptFromDruid: c.gates.Enabled(configv1alpha1.AdoptFromDruid),
		Adopter: c.beside.adopter, Saved: c.stays.Saved,
	}
	if c.SigningKey != nil {
		r.AgentTrust = c.agents.trust
	}
	return r
}

// allowed returns why the configuration, or an older Etcd with the same backups, refuses an Etcd; nil if nothing does.
func (c *composition) allowed(etcd *v1alpha1.Etcd) error {
	if err := c.rules.Etcd(etcd); err != nil || etcd.BackupStore() == nil {
		return err
	}
	neighbors := &v1alpha1.EtcdList{}
	if err := c.Client.List(context.Background(), neighbors, client.InNamespace(etcd.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("it is not known which Etcds have the same backups: %w", err)
	}
	return c.rules.Beside(etcd, neighbors.Items)
}

func (c *composition) upkeep() *upkeep.Reconciler {
	return &upkeep.Reconciler{Client: c.Client, Live: c.Live, Recorder: c.Recorder, Clock: c.Clock, Backlog: c.beside.backlog, Thresholds: c.config.Backup.SnapshotCompaction}
}

func (c *composition) memberReader() members.Reader {
	return members.Reader{Observer: c.observer, Dialer: c.Dialer, Credentials: c.credentials, Clock: c.Clock, Client: c.Client}
}

func (c *composition) memberships() *memberships.Reconciler {
	return &memberships.Reconciler{Client: c.Client, Live: c.Live, Reader: c.memberReader(), Clock: c.Clock, Recorder: c.Recorder}
}

func (c *composition) rollouts() *rollouts.Reconciler {
	return &rollouts.Reconciler{Client: c.Client, Live: c.Live, Clock: c.Clock, Recorder: c.Recorder, Rule: c.beside.rule, Metrics: rollouts.NewMetrics(c.Registerer)}
}

func (c *composition) tasks() *engine.Reconciler {
	r := &engine.Reconciler{
		Client: c.Client, Live: c.Live, Registry: c.registry(), Locker: c.locker, Recorder: c.Recorder, Clock: c.Clock,
		Metrics: engine.NewMetrics(c.Registerer, c.beside.tasks...),
	}
	if c.fleet != nil {
		r.Gate = c.fleet
	}
	return r
}
