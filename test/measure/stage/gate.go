// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// The operator's Deployment, and the ConfigMap of the same name with its OperatorConfiguration.
const (
	operatorNamespace = "etcd-foreman-system"
	operatorName      = "etcd-foreman"
	configKey         = "config.yaml"
)

// gate is the name of the feature gate.
const gate = string(configv1alpha1.QuorumAwareUpdatesWithOnDelete)

var operatorKey = types.NamespacedName{Namespace: operatorNamespace, Name: operatorName}

// WaitOperator waits until the operator runs and no pod of an older one does.
func (s *Stage) WaitOperator(ctx context.Context, note Note) error {
	return until(ctx, waitTimeout, "the operator", note, func(ctx context.Context) (string, error) {
		d := &appsv1.Deployment{}
		if err := s.Client.Get(ctx, operatorKey, d); err != nil {
			return "", fmt.Errorf("reading Deployment %s: %w", operatorKey, err)
		}
		want := ptr.Deref(d.Spec.Replicas, 1)
		if d.Status.ObservedGeneration < d.Generation || d.Status.Replicas != want || d.Status.UpdatedReplicas != want || d.Status.AvailableReplicas != want {
			return fmt.Sprintf("%d of %d new operators are available, and %d old ones are still running", d.Status.AvailableReplicas, want, d.Status.Replicas-d.Status.UpdatedReplicas), nil
		}
		return "", nil
	})
}

// Gate reports whether the feature gate QuorumAwareUpdatesWithOnDelete is on.
func (s *Stage) Gate(ctx context.Context) (bool, error) {
	config := &corev1.ConfigMap{}
	if err := s.Client.Get(ctx, operatorKey, config); err != nil {
		return false, fmt.Errorf("reading ConfigMap %s: %w", operatorKey, err)
	}
	c, err := configv1alpha1.Decode([]byte(config.Data[configKey]))
	if err != nil {
		return false, fmt.Errorf("decoding ConfigMap %s: %w", operatorKey, err)
	}
	return c.FeatureGates[gate], nil
}

// SetGate switches the feature gate as an administrator does: it edits the configuration, restarts the operator, and waits
// until it runs.
func (s *Stage) SetGate(ctx context.Context, on bool, note Note) error {
	before, err := s.Gate(ctx)
	if err != nil {
		return err
	}
	if before != on {
		if err := s.writeGate(ctx, on); err != nil {
			return err
		}
		if err := s.restartOperator(ctx); err != nil {
			return err
		}
	}
	return s.WaitOperator(ctx, note)
}

// WaitStrategy waits until the StatefulSet has the update strategy that goes with the feature gate.
func (c Cluster) WaitStrategy(ctx context.Context, gate bool, note Note) error {
	want := appsv1.RollingUpdateStatefulSetStrategyType
	if gate {
		want = appsv1.OnDeleteStatefulSetStrategyType
	}
	return until(ctx, waitTimeout, "the update strategy "+string(want), note, func(ctx context.Context) (string, error) {
		set, err := c.StatefulSet(ctx)
		if err != nil || set.Spec.UpdateStrategy.Type == want {
			return "", err
		}
		return "the update strategy is still " + string(set.Spec.UpdateStrategy.Type), nil
	})
}

func (s *Stage) writeGate(ctx context.Context, on bool) error {
	config := &corev1.ConfigMap{}
	if err := s.Client.Get(ctx, operatorKey, config); err != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", operatorKey, err)
	}
	edited, err := withGate(config.Data[configKey], on)
	if err != nil {
		return fmt.Errorf("editing ConfigMap %s: %w", operatorKey, err)
	}
	config.Data[configKey] = edited
	if err := s.Client.Update(ctx, config); err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", operatorKey, err)
	}
	return nil
}

// withGate sets the gate in an OperatorConfiguration and keeps everything else.
func withGate(config string, on bool) (string, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(config), &fields); err != nil {
		return "", fmt.Errorf("decoding the operator's configuration: %w", err)
	}
	gates, ok := fields["featureGates"].(map[string]any)
	if !ok {
		gates = map[string]any{}
		fields["featureGates"] = gates
	}
	gates[gate] = on
	edited, err := yaml.Marshal(fields)
	if err != nil {
		return "", fmt.Errorf("encoding the operator's configuration: %w", err)
	}
	return string(edited), nil
}

// restartOperator does what `kubectl rollout restart` does.
func (s *Stage) restartOperator(ctx context.Context) error {
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = operatorNamespace, operatorName
	patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{%q:%q}}}}}`, restartedAt, time.Now().UTC().Format(time.RFC3339Nano))
	if err := s.Client.Patch(ctx, deployment, client.RawPatch(types.StrategicMergePatchType, []byte(patch))); err != nil {
		return fmt.Errorf("restarting Deployment %s: %w", operatorKey, err)
	}
	return nil
}
