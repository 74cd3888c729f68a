// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package apply

import "k8s.io/apimachinery/pkg/api/equality"

// contains reports whether a live JSON value has everything that a desired one says. What the API server or
// another client has added does not matter: neither fields of an object, nor objects in a list of objects,
// as long as the desired ones come in their order. Unlike equality.DeepDerivative it takes a desired false or 0 at its
// word.
func contains(live, desired any) bool {
	switch d := desired.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			// The API server drops what is empty.
			return live == nil && len(d) == 0
		}
		for key, value := range d {
			if !contains(l[key], value) {
				return false
			}
		}
		return true
	case []any:
		l, _ := live.([]any)
		if len(d) == 0 || !isObject(d[0]) {
			return equality.Semantic.DeepEqual(l, d)
		}
		return containsInOrder(l, d)
	default:
		return equality.Semantic.DeepEqual(live, desired)
	}
}

func containsInOrder(live, desired []any) bool {
	for _, l := range live {
		if len(desired) == 0 {
			break
		}
		if contains(l, desired[0]) {
			desired = desired[1:]
		}
	}
	return len(desired) == 0
}

func isObject(value any) bool {
	_, ok := value.(map[string]any)
	return ok
}
