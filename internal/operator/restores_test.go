// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"testing"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// What stops the members asks the Restores that this operator carries out.
func TestMembersAreStoppedForAKnownRestore(t *testing.T) {
	config := &configv1alpha1.OperatorConfiguration{Mode: configv1alpha1.ModeOperator}
	c, err := newComposition(config, Dependencies{Live: fake.NewClientBuilder().Build(), Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if c.etcds().Saved == nil {
		t.Error("it stops the members by the phase alone")
	}
}
