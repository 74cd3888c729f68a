// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// A controller that cannot be set up, such as one that already is, fails the start of the operator and is named.
func TestSetupNamesTheControllerThatFails(t *testing.T) {
	g := NewWithT(t)
	scheme, err := newScheme()
	g.Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(&rest.Config{Host: "localhost:1"}, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	g.Expect(err).NotTo(HaveOccurred())
	config := &configv1alpha1.OperatorConfiguration{FeatureGates: map[string]bool{string(configv1alpha1.FleetPolicies): true}}
	o, err := New(config, Dependencies{Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
	g.Expect(err).NotTo(HaveOccurred())
	for _, name := range []Controller{Etcds, Upkeep, Memberships, Metrics, Rollouts, Tasks, Fleet} {
		g.Expect(o.Setup(t.Context(), mgr, name)).To(Succeed())
		g.Expect(o.Setup(t.Context(), mgr, name)).To(MatchError(HavePrefix("setting up controller " + string(name) + ": ")))
	}
}
