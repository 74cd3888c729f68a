// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
)

// foresight is the input of the next decision of a plan.
type foresight struct {
	in  rollout.Input
	now time.Time
}

// act carries out a step, and returns the state while pods are away.
func (f *foresight) act(next *projection, step *rollout.Step) *cluster.Snapshot {
	f.now = f.now.Add(rollout.IntentWindow)
	switch step.Action {
	case rollout.MoveLeader:
		next.lead(step.Successor)
	case rollout.RevokeDeletion:
		for _, i := range step.Ordinals {
			next.Ordinals[i].Pod.ResourceVersion += "+"
		}
	case rollout.TakeSnapshot:
		f.in.Backup.Taken = "snapshot"
	case rollout.PatchMetadata, rollout.ResizePod, rollout.UpdateContainer:
		return f.update(next, step)
	case rollout.DeletePod, rollout.EvictPod:
		next.remove(step.Ordinals)
		meanwhile := projectionOf(next.Snapshot).Snapshot
		next.replace(step.Ordinals, f.now)
		return meanwhile
	}
	return nil
}

// update carries out a write to a pod, and returns the state while its member is disrupted; nil if it is not.
func (f *foresight) update(next *projection, step *rollout.Step) *cluster.Snapshot {
	o := &next.Ordinals[step.Ordinals[0]]
	f.in.Updates = f.in.Updates.Foresee(o, next.StatefulSet, f.now)
	if !step.Write.Disrupts {
		return nil
	}
	meanwhile := projectionOf(next.Snapshot)
	meanwhile.remove(step.Ordinals)
	next.Elected = next.Elected || meanwhile.Elected
	return meanwhile.Snapshot
}
