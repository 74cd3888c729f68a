// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package composition is what tests give to internal/operator, which composes the operator that ships: a configuration, a clock, members
// and agents that are simulated.
package composition

import (
	"context"
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/api"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
)

// Images of the operator's configuration.
const (
	Etcd  = "localhost/etcd:v1"
	Agent = "localhost/agent:v1"
)

// Change changes the configuration or the dependencies of an operator, before it is composed of them.
type Change func(*configv1alpha1.OperatorConfiguration, *operator.Dependencies)

// Configured is a Change of the configuration.
func Configured(change func(*configv1alpha1.OperatorConfiguration)) Change {
	return func(c *configv1alpha1.OperatorConfiguration, _ *operator.Dependencies) { change(c) }
}

// Depending is a Change of the dependencies.
func Depending(change func(*operator.Dependencies)) Change {
	return func(_ *configv1alpha1.OperatorConfiguration, d *operator.Dependencies) { change(d) }
}

// GateOff disables the feature gate QuorumAwareUpdatesWithOnDelete.
func GateOff(c *configv1alpha1.OperatorConfiguration, _ *operator.Dependencies) {
	c.FeatureGates[string(configv1alpha1.QuorumAwareUpdatesWithOnDelete)] = false
}

// With returns Dependencies with members and a clock. A manager, or the test, provides the rest.
func With(dialer etcdclient.Dialer, now clock.PassiveClock) operator.Dependencies {
	return operator.Dependencies{Dialer: dialer, Clock: now, Registerer: prometheus.NewRegistry(), Recorder: Silent{}}
}

// AgentAt returns a maker of clients of an agent at a URL.
func AgentAt(url string) func(context.Context, *v1alpha1.Etcd) (api.Client, error) {
	return func(context.Context, *v1alpha1.Etcd) (api.Client, error) { return api.Client{BaseURL: url}, nil }
}

// New composes an operator, or fails the test. Its configuration is that of the defaults, with changes: QuorumAwareUpdatesWithOnDelete is
// enabled, and pods are replaced unless an Etcd asks for updates in place, which most simulated kubelets do not carry out.
func New(t testing.TB, d operator.Dependencies, changes ...Change) *operator.Operator {
	t.Helper()
	c := &configv1alpha1.OperatorConfiguration{Images: configv1alpha1.Images{Etcd: Etcd, EtcdAgent: Agent}, PodUpdatePolicy: v1alpha1.RecreatePods}
	c.Backup.LocalClaims = []string{"*"}
	c.FeatureGates = map[string]bool{string(configv1alpha1.QuorumAwareUpdatesWithOnDelete): true}
	for _, change := range changes {
		change(c, &d)
	}
	configv1alpha1.SetDefaults(c)
	o, err := operator.New(c, d)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Silent drops events.
type Silent struct{}

// Eventf implements events.EventRecorder.
func (Silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

var _ events.EventRecorder = Silent{}
