// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
)

// State is what is known of one pod name.
type State struct {
	// Class as in the status of a rollout; Participating stands for a readiness probe that passes.
	Class v1alpha1.PodClass
	// Revision and UID of the pod.
	Revision string
	UID      types.UID
}

// Span is a period in which a pod name kept its state. The newest has no end.
type Span struct {
	State
	From, To time.Time
}

// Life has the spans of each pod name, in order and without holes.
type Life map[string][]Span

// Reign is a period in which one member led in one term.
type Reign struct {
	// Pod of the leader; empty if it is not known.
	Pod      string
	Term     uint64
	From, To time.Time
}

// Gap is a time without an acknowledged write.
type Gap struct{ From, To time.Time }

// Duration returns the length of the gap.
func (g Gap) Duration() time.Duration { return g.To.Sub(g.From) }
