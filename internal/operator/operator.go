// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package operator composes the operator: its controllers, task types, cache and metrics. cmd/etcd-foreman starts it, and so does
// every test that needs an engine or a controller: what ships is what is tested.
package operator

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/engine"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/memberships"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/rollouts"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/upkeep"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd"
	"github.com/etcd-foreman/etcd-foreman/internal/fleet/control"
	"github.com/etcd-foreman/etcd-foreman/internal/operator/metrics"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Dependencies are what an operator needs of the world.
type Dependencies struct {
	// Client reads from the cache and writes to the API server.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Surroundings reads nodes and volumes, from the cache.
	Surroundings client.Reader
	// Dialer connects to members.
	Dialer     etcdclient.Dialer
	Clock      clock.PassiveClock
	Recorder   events.EventRecorder
	Registerer prometheus.Registerer
	// Namespace of the operator, for the ledger of the fleet.
	Namespace string
	// SigningKey signs requests to agents. Without one, agents are told of no key.
	SigningKey ed25519.PrivateKey
	// Agent makes a client of the agents of an Etcd; nil: one that reaches them through the client Service.
	Agent func(context.Context, *v1alpha1.Etcd) (api.Client, error)
}

// Of returns the Dependencies with what a manager provides.
func (d Dependencies) Of(mgr ctrl.Manager) Dependencies {
	d.Client, d.Live, d.Surroundings, d.Recorder = mgr.GetClient(), mgr.GetAPIReader(), mgr.GetCache(), mgr.GetEventRecorder("etcd-foreman")
	return d
}

// Controller is the name of one of the operator's controllers.
type Controller string

// The controllers. What there is because of etcd-druid is named in druid.go.
const (
	Etcds       Controller = "etcd"
	Upkeep      Controller = "upkeep"
	Rollouts    Controller = "rollout"
	Memberships Controller = "membership"
	Tasks       Controller = "task"
	Fleet       Controller = "fleet"
	// Metrics are those of the cache, which are no controller.
	Metrics Controller = "metrics"
)

// Operator is an operator that is not started. The Reconcilers of controllers that its mode does not have are nil.
type Operator struct {
	Etcds       *etcd.Reconciler
	Upkeep      *upkeep.Reconciler
	Memberships *memberships.Reconciler
	Rollouts    *rollouts.Reconciler
	Tasks       *engine.Reconciler
	// Fleet is nil without the feature gate FleetPolicies.
	Fleet *control.Controller

	parts []part
}

// part is what Setup adds to a manager.
type part struct {
	name  Controller
	setup func(context.Context, ctrl.Manager) error
}

// New composes the operator of a configuration whose defaults are set.
func New(config *configv1alpha1.OperatorConfiguration, d Dependencies) (*Operator, error) {
	c, err := newComposition(config, d)
	if err != nil {
		return nil, err
	}
	o := &Operator{}
	add := func(name Controller, setup func(ctrl.Manager, int) error, concurrency int) {
		o.parts = append(o.parts, part{name, func(_ context.Context, mgr ctrl.Manager) error { return setup(mgr, concurrency) }})
	}
	n := config.Controllers
	if !c.beside.manages {
		o.Etcds, o.Upkeep, o.Memberships = c.etcds(), c.upkeep(), c.memberships()
		if c.fleet != nil {
			c.fleet.Looked = o.Etcds.Looked
		}
		add(Etcds, o.Etcds.Setup, n.Etcd.ConcurrentSyncs)
		add(Upkeep, o.Upkeep.Setup, n.Etcd.ConcurrentSyncs)
		add(Memberships, o.Memberships.Setup, n.Etcd.ConcurrentSyncs)
	}
	o.parts = append(o.parts, part{Metrics, func(_ context.Context, mgr ctrl.Manager) error {
		return c.Registerer.Register(&metrics.Collector{Cache: mgr.GetCache(), Active: mgr.Elected(), TasksOnly: c.beside.manages})
	}})
	o.Rollouts, o.Tasks = c.rollouts(), c.tasks()
	add(Rollouts, o.Rollouts.Setup, n.Rollout.ConcurrentSyncs)
	add(Tasks, o.Tasks.Setup, n.Task.ConcurrentSyncs)
	if o.Fleet = c.fleet; o.Fleet != nil {
		add(Fleet, o.Fleet.Setup, 1)
	}
	o.parts = append(o.parts, c.beside.parts(c)...)
	return o, nil
}

// Setup adds controllers to a manager: those named, or all.
func (o *Operator) Setup(ctx context.Context, mgr ctrl.Manager, names ...Controller) error {
	var errs []error
	for _, name := range names {
		if !slices.ContainsFunc(o.parts, func(p part) bool { return p.name == name }) {
			errs = append(errs, fmt.Errorf("the operator has no controller %s in its mode", name))
		}
	}
	for _, p := range o.parts {
		if len(names) == 0 || slices.Contains(names, p.name) {
			if err := p.setup(ctx, mgr); err != nil {
				errs = append(errs, fmt.Errorf("setting up controller %s: %w", p.name, err))
			}
		}
	}
	return errors.Join(errs...)
}
