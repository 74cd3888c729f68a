// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package asread makes patches of objects that are as they were read: one that has changed since, or another of its name, is left alone.
package asread

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Merge returns a merge patch with two preconditions: the UID of the object that is patched, and its resourceVersion, unless that is empty.
func Merge(change map[string]any) client.Patch { return merge(change) }

type merge map[string]any

// Type implements client.Patch.
func (merge) Type() types.PatchType { return types.MergePatchType }

// Data implements client.Patch.
func (m merge) Data(object client.Object) ([]byte, error) {
	metadata := map[string]any{"uid": object.GetUID()}
	if version := object.GetResourceVersion(); version != "" {
		metadata["resourceVersion"] = version
	}
	if more, ok := m["metadata"].(map[string]any); ok {
		maps.Copy(metadata, more)
	}
	patch := map[string]any{}
	maps.Copy(patch, m)
	patch["metadata"] = metadata
	data, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return data, nil
}
