// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	"k8s.io/apimachinery/pkg/types"
)

// Input is all that a decision rests on.
type Input struct {
	Snapshot *cluster.Snapshot
	Config   Config
	// Created is when the task was created. A restart replaces the pods that are not younger.
	Created time.Time
	// Overridden are the guards that the task overrides.
	Overridden []v1alpha1.OverridableGuard
	// Recorded is what the task's status says of the rollout so far.
	Recorded v1alpha1.RolloutStatus
	Timers   Timers
	// Refused are the removals that the API server refused, by the UID of the pod.
	Refused map[types.UID]RefusedWrite
	// Updates is how pods can be updated in place.
	Updates inplace.Updates
	// Backup is what is known of the snapshot before the rollout.
	Backup Backup
}

// RefusedWrite is the API server's answer to a removal, or an update in place, that it did not carry out.
type RefusedWrite struct {
	At time.Time
	// ByBudget reports that a PodDisruptionBudget does not allow the eviction now.
	ByBudget bool
	// MayStillHappen reports that the same removal was an intent before, whose request may still be under way.
	MayStillHappen bool
	// Update: what was refused is an update in place, and not a removal.
	Update  bool
	Message string
}

func (in Input) overrides(guard v1alpha1.GuardName) bool {
	return slices.Contains(in.Overridden, v1alpha1.OverridableGuard(guard))
}
