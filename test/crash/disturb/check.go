// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package disturb

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
)

// Harm returns what a write in the namespace of an Etcd breaks, by the judgment of tests; empty if nothing. ready says of each member whether it
// serves.
func Harm(w Write, namespace string, ready map[string]bool) string {
	if w.Kind != "member" && w.Namespace != namespace {
		return fmt.Sprintf("%s is in namespace %q", w, w.Namespace)
	}
	kind := strings.TrimSuffix(strings.ToLower(w.Kind), "s")
	if kind == "persistentvolumeclaim" && w.Verb == "delete" {
		return w.String()
	}
	if kind != "pod" || w.Verb != "delete" && w.Verb != "create eviction" || !ready[w.Name] {
		return ""
	}
	serving := 0
	for _, serves := range ready {
		if serves {
			serving++
		}
	}
	if n := len(ready); n > 2 && quorum.Exists(serving, n) && !quorum.Exists(serving-1, n) {
		return fmt.Sprintf("%s leaves %d of %d members", w, serving-1, n)
	}
	return ""
}
