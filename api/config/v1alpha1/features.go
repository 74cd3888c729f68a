// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	"k8s.io/component-base/featuregate"
)

// QuorumAwareUpdatesWithOnDelete gives every StatefulSet the update strategy OnDelete, and has the operator
// replace outdated pods in an order that keeps the quorum (DEP-07). Without it the StatefulSet controller
// replaces them, by RollingUpdate.
//
// Alpha, off by default. It holds for every Etcd of the operator.
const QuorumAwareUpdatesWithOnDelete featuregate.Feature = "QuorumAwareUpdatesWithOnDelete"

// NewFeatureGate makes the operator's feature gates and sets those that a configuration names. An unknown
// name is an error.
func NewFeatureGate(settings map[string]bool) (featuregate.FeatureGate, error) {
	gates := featuregate.NewFeatureGate()
	err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		QuorumAwareUpdatesWithOnDelete: {Default: false, PreRelease: featuregate.Alpha},
	})
	if err != nil {
		return nil, fmt.Errorf("registering the feature gates: %w", err)
	}
	if err := gates.SetFromMap(settings); err != nil {
		return nil, fmt.Errorf("setting featureGates: %w", err)
	}
	return gates, nil
}
