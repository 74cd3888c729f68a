// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"fmt"

	"k8s.io/component-base/featuregate"
)

// QuorumAwareUpdatesWithOnDelete sets the update strategy of every StatefulSet to OnDelete, and lets the operator replace
// outdated pods in an order that keeps the quorum (DEP-07). When it is off, the strategy is RollingUpdate and the StatefulSet
// controller replaces them.
//
// Alpha, off by default. It applies to every Etcd of the operator.
const QuorumAwareUpdatesWithOnDelete featuregate.Feature = "QuorumAwareUpdatesWithOnDelete"

// AdoptFromDruid lets the operator adopt the objects of an Etcd from etcd-druid when an annotation of the Etcd asks for it. What was
// adopted before it is switched off stays adopted.
//
// Beta, on by default: nothing is adopted unless the annotation asks for it.
const AdoptFromDruid featuregate.Feature = "AdoptFromDruid"

// FleetPolicies has tasks wait for the EtcdFleetPolicies that select their namespace, and automatic rollouts for each other where there
// is none. The operator needs the definition of the type, and rights to namespaces and to its ledger.
//
// Alpha, off by default.
const FleetPolicies featuregate.Feature = "FleetPolicies"

// NewFeatureGate returns the operator's feature gates with the given settings. An unknown name is an error.
func NewFeatureGate(settings map[string]bool) (featuregate.FeatureGate, error) {
	gates := featuregate.NewFeatureGate()
	err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{
		QuorumAwareUpdatesWithOnDelete: {Default: false, PreRelease: featuregate.Alpha},
		AdoptFromDruid:                 {Default: true, PreRelease: featuregate.Beta},
		FleetPolicies:                  {Default: false, PreRelease: featuregate.Alpha},
	})
	if err != nil {
		return nil, fmt.Errorf("registering the feature gates: %w", err)
	}
	if err := gates.SetFromMap(settings); err != nil {
		return nil, fmt.Errorf("setting featureGates: %w", err)
	}
	return gates, nil
}
