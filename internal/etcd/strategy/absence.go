// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package strategy

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// progressDeadline is how long the change to RollingUpdate waits for a member that does not participate. Rollouts use the same.
	progressDeadline = 10 * time.Minute
	// maxUnobserved is the longest gap between two observations of an uninterrupted absence. An Etcd that waits for a member is observed
	// every two seconds, and every few seconds if members hang. The gap is shorter than a pod takes to be created, participate and
	// terminate, so none goes unnoticed.
	maxUnobserved = 10 * time.Second
)

// absences records how long each member that does not participate has been away, by the name of its pod. It permits the StatefulSet
// controller to replace pods, so it is kept only in memory.
type absences lasting.Timers[string, absence]

// absence of a member. Another pod of the same name begins a new absence.
type absence struct {
	away bool
	// pod is the UID of its pod; empty if there is no pod, or if it is beyond the replicas.
	pod types.UID
}

// next returns the absences after one more observation. It is pure.
func (a absences) next(s *cluster.Snapshot) absences {
	away := map[string]absence{}
	for _, o := range s.Ordinals {
		switch {
		case o.Class == v1alpha1.ClassParticipating:
		case o.Pod == nil:
			away[o.Name] = absence{away: true}
		default:
			away[o.Name] = absence{true, o.Pod.UID}
		}
	}
	for _, name := range s.Surplus {
		away[name] = absence{away: true}
	}
	return absences(lasting.Timers[string, absence](a).Next(away, s.At, maxUnobserved))
}

// mayRoll reports whether the StatefulSet controller may take over: every member participates and no surplus pod is left, or all absences
// have lasted for progressDeadline. It is pure.
func (a absences) mayRoll() bool {
	for _, absent := range a {
		if !absent.Lasted(progressDeadline) {
			return false
		}
	}
	return true
}
