// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package operations

import (
	"context"
	"errors"
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// restartWithOverrides restarts all pods, and overrides every guard that the API server lets a task override: the quorum is kept
// nevertheless.
func (c *Cluster) restartWithOverrides(ctx context.Context) error {
	definition := &unstructured.Unstructured{}
	definition.SetAPIVersion("apiextensions.k8s.io/v1")
	definition.SetKind("CustomResourceDefinition")
	err := until(ctx, "the definition of tasks can be read", func(ctx context.Context) error {
		return c.Kube.Get(ctx, client.ObjectKey{Name: "etcdoperatortasks.druid.gardener.cloud"}, definition)
	})
	if err != nil {
		return err
	}
	guards, err := overridable(definition)
	if err != nil {
		return err
	}
	return task(v1alpha1.QuorumAwareRollout, "restart: true", guards...)(ctx, c)
}

// overridable returns the guards that a task may override, by the definition of tasks.
func overridable(definition *unstructured.Unstructured) ([]v1alpha1.OverridableGuard, error) {
	versions, _, err := unstructured.NestedSlice(definition.Object, "spec", "versions")
	if err != nil || len(versions) != 1 {
		return nil, fmt.Errorf("reading the definition of tasks: there are %d versions: %w", len(versions), err)
	}
	names, _, err := unstructured.NestedStringSlice(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", "overrideGuards", "items", "enum")
	if err != nil {
		return nil, fmt.Errorf("reading which guards a task may override: %w", err)
	}
	var guards []v1alpha1.OverridableGuard
	for _, name := range names {
		guards = append(guards, v1alpha1.OverridableGuard(name))
	}
	if len(guards) == 0 {
		return nil, errors.New("reading which guards a task may override: there are none")
	}
	return guards, nil
}
