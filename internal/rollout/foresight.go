// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"k8s.io/apimachinery/pkg/types"
)

// foresight is the input of the decision that comes next in a plan. Its methods carry out steps, and resolve what guards
// wait for.
type foresight struct {
	in  Input
	now time.Time
}

// act carries a step out, and returns the state while pods are away.
func (f *foresight) act(next *projection, step *Step) *cluster.Snapshot {
	f.now = f.now.Add(intentWindow)
	switch step.Action {
	case MoveLeader:
		next.lead(step.Successor)
	case RevokeDeletion:
		for _, i := range step.Ordinals {
			next.Ordinals[i].Pod.ResourceVersion += "+"
		}
	case DeletePod, EvictPod:
		next.remove(step.Ordinals)
		meanwhile := project(next.Snapshot).Snapshot
		next.comeBack(step.Ordinals, f.now)
		return meanwhile
	}
	return nil
}

// resolve makes true what a guard waits for.
func (f *foresight) resolve(next *projection, d Decision) {
	for _, g := range slices.Concat(sightGuards, stepGuards) {
		if g.name == d.Hold.Guard {
			g.resolve(f, next, d.Hold, d.Blocked)
		}
	}
}

func (f *foresight) observeRevision(next *projection, _ *Hold, _ *Step) {
	next.StatefulSet.Observed = true
}

func (f *foresight) observeDeletion(next *projection, _ *Hold, _ *Step) {
	intents := newState(f.in, f.now).intents
	next.remove(intents)
	next.comeBack(intents, f.now)
}

func (f *foresight) recoverPod(next *projection, hold *Hold, _ *Step) {
	next.recover(hold.Pod, f.now)
	if !next.Cluster.LeaderKnown {
		next.recoverVoters(-1, f.now)
	}
}

func (f *foresight) reachVolume(next *projection, _ *Hold, step *Step) {
	next.Ordinals[step.Ordinals[0]].Pod.VolumeTrouble = ""
}

func (f *foresight) settleNodes(next *projection, _ *Hold, _ *Step) { next.settle() }

func (f *foresight) recoverVoters(next *projection, _ *Hold, step *Step) {
	next.recoverVoters(step.Ordinals[0], f.now)
}

// confirmLoss lets the loss of the quorum last. Members that the operator cannot reach become reachable instead, and a pod
// that is waited for comes back.
func (f *foresight) confirmLoss(next *projection, hold *Hold, step *Step) {
	if names, quorate := unreachable(f.in.Snapshot); quorate {
		for _, pod := range names {
			next.recover(pod, f.now)
		}
		return
	}
	if hold.Pod != f.in.Snapshot.Ordinals[step.Ordinals[0]].Name {
		next.recover(hold.Pod, f.now)
	}
	f.passGrace(next, hold, step)
}

// passGrace lets the state last for the grace period.
func (f *foresight) passGrace(_ *projection, _ *Hold, step *Step) {
	t := Timers{At: f.now, LeaderlessSince: f.now, SilentSince: maps.Clone(f.in.Timers.SilentSince), Running: map[types.UID]Run{}}
	if t.SilentSince == nil {
		t.SilentSince = map[types.UID]time.Time{}
	}
	t.SilentSince[f.in.Snapshot.Ordinals[step.Ordinals[0]].Pod.UID] = f.now
	for _, o := range f.in.Snapshot.Ordinals {
		if o.Pod != nil {
			t.Running[o.Pod.UID] = Run{Since: f.now}
		}
	}
	f.in.Timers = t
	f.now = f.now.Add(f.in.Config.Grace())
}

func (f *foresight) observeHandover(_ *projection, _ *Hold, _ *Step) {
	f.now = f.now.Add(handoverWindow)
}

func (f *foresight) catchUp(next *projection, _ *Hold, _ *Step) { next.catchUp() }

func (f *foresight) grantRemoval(_ *projection, _ *Hold, _ *Step) { f.in.Refused = nil }
