// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Body is the strategic merge patch of the write, for a pod with this UID and resourceVersion and no other.
func (w Write) Body(uid types.UID, resourceVersion string) ([]byte, error) {
	patch, metadata := maps.Clone(w.Patch), map[string]any{"uid": uid, "resourceVersion": resourceVersion}
	if given, ok := patch["metadata"].(map[string]any); ok {
		maps.Copy(metadata, given)
	}
	patch["metadata"] = metadata
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding a patch: %w", err)
	}
	return body, nil
}

// set sets a value at a path, and makes the maps on the way.
func set(patch map[string]any, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		next, ok := patch[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			patch[name] = next
		}
		patch = next
	}
	patch[path[len(path)-1]] = value
}

// metadataPatch sets labels and annotations, and removes those that have no value.
func metadataPatch(leaves []leaf, goal values) map[string]any {
	patch := map[string]any{}
	for _, l := range leaves {
		var value any
		if wanted, found := goal[l]; found {
			value = wanted
		}
		set(patch, value, "metadata", l.bound+"s", l.key)
	}
	return patch
}

// resourcesPatch sets resources of containers, and leaves out all that stays as it is.
func resourcesPatch(leaves []leaf, goal values) map[string]any {
	byName, names := map[string]map[string]any{}, []string{}
	for _, l := range leaves {
		if byName[l.container] == nil {
			byName[l.container] = map[string]any{"name": l.container}
			names = append(names, l.container)
		}
		set(byName[l.container], goal[l], "resources", l.bound, l.key)
	}
	slices.Sort(names)
	var containers []any
	for _, name := range names {
		containers = append(containers, byName[name])
	}
	patch := map[string]any{}
	set(patch, containers, "spec", "containers")
	return patch
}
