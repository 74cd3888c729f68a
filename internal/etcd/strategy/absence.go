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
	// progressDeadline is how long the change to RollingUpdate waits for a member that does not participate. It is that of a
	// rollout.
	progressDeadline = 10 * time.Minute
	// maxUnobserved is the longest gap between two observations of an uninterrupted absence. An Etcd that waits for a member is
	// observed every two seconds; members that hang make that some seconds more. It is shorter than a pod takes to be created, to
	// participate and to be gone again, so none of these goes unnoticed.
	maxUnobserved = 10 * time.Second
)

// absences are how long each member that does not participate has been away, by the name of its pod. They permit the StatefulSet
// controller to take pods, so they live in memory alone.
type absences lasting.Timers[string, absence]

// absence of a member. Another pod of the same name begins another.
type absence struct {
	away bool
	// pod is empty while there is none, and for a pod that is not among the replicas.
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

// mayRoll reports whether the StatefulSet controller may take over: every member participates, and no other pod is left, or waiting
// for those that are absent has taken long enough. It is pure.
func (a absences) mayRoll() bool {
	for _, absent := range a {
		if !absent.Lasted(progressDeadline) {
			return false
		}
	}
	return true
}
