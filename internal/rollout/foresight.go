// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"maps"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/projection"
	"k8s.io/apimachinery/pkg/types"
)

// foresight is the input of the decision that comes next in a plan. Its methods carry out steps, and resolve what guards
// wait for.
type foresight struct {
	in  Input
	now time.Time
}

// act carries a step out, and returns the state while pods are away.
func (f *foresight) act(next *projection.Projection, step *Step) *cluster.Snapshot {
	f.now = f.now.Add(intentWindow)
	switch step.Action {
	case MoveLeader:
		next.Lead(step.Successor)
	case RevokeDeletion:
		for _, i := range step.Ordinals {
			next.Ordinals[i].Pod.ResourceVersion += "+"
		}
	case TakeSnapshot:
		f.in.Backup.Taken = "snapshot"
	case PatchMetadata, ResizePod, UpdateContainer:
		return f.update(next, step)
	case DeletePod, EvictPod:
		next.Remove(step.Ordinals)
		meanwhile := projection.Of(next.Snapshot).Snapshot
		next.Replace(step.Ordinals, f.now)
		return meanwhile
	}
	return nil
}

// update carries out a write to a pod, and returns the state while its member is disrupted.
func (f *foresight) update(next *projection.Projection, step *Step) *cluster.Snapshot {
	o := &next.Ordinals[step.Ordinals[0]]
	f.in.Updates = f.in.Updates.Foresee(o, next.StatefulSet, f.now)
	if !step.Write.Disrupts {
		return nil
	}
	meanwhile := projection.Of(next.Snapshot)
	meanwhile.Remove(step.Ordinals)
	next.Elected = next.Elected || meanwhile.Elected
	return meanwhile.Snapshot
}

func (f *foresight) observeUpdate(next *projection.Projection, hold *Hold, step *Step) {
	o := &next.Ordinals[step.Ordinals[0]]
	f.in.Updates = f.in.Updates.Foresee(o, next.StatefulSet, f.now)
	if o.Class != v1alpha1.ClassParticipating {
		f.recoverPod(next, hold, step)
	}
}

// resolve makes true what a guard waits for.
func (f *foresight) resolve(next *projection.Projection, d Decision) {
	for _, g := range slices.Concat(sightGuards, stepGuards) {
		if g.name == d.Hold.Guard {
			g.resolve(f, next, d.Hold, d.Blocked)
		}
	}
}

func (f *foresight) observeRevision(next *projection.Projection, _ *Hold, _ *Step) {
	next.StatefulSet.Observed = true
}

func (f *foresight) observeDeletion(next *projection.Projection, _ *Hold, _ *Step) {
	intents := newState(f.in, f.now).intents
	next.Remove(intents)
	next.Replace(intents, f.now)
}

func (f *foresight) recoverPod(next *projection.Projection, hold *Hold, _ *Step) {
	next.Recover(hold.Pod, f.now)
	if !next.Cluster.LeaderKnown {
		next.RecoverVoters(-1, f.now)
	}
}

func (f *foresight) reachVolume(next *projection.Projection, _ *Hold, step *Step) {
	next.Ordinals[step.Ordinals[0]].Pod.VolumeTrouble = ""
}

func (f *foresight) settleNodes(next *projection.Projection, _ *Hold, _ *Step) { next.SettleNodes() }

func (f *foresight) recoverVoters(next *projection.Projection, _ *Hold, step *Step) {
	next.SettleNodes()
	next.RecoverVoters(step.Ordinals[0], f.now)
}

// confirmLoss lets the loss of the quorum last. Before that, nodes come back, members that the operator cannot reach become
// reachable, and a pod that is waited for comes back; if they know a leader, nothing was lost.
func (f *foresight) confirmLoss(next *projection.Projection, hold *Hold, step *Step) {
	next.SettleNodes()
	if names, quorate := f.in.Snapshot.Unreachable(); quorate {
		for _, pod := range names {
			next.Recover(pod, f.now)
		}
		if next.Cluster.LeaderKnown {
			return
		}
	} else if hold.Pod != f.in.Snapshot.Ordinals[step.Ordinals[0]].Name {
		next.Recover(hold.Pod, f.now)
	}
	f.passGrace(next, hold, step)
}

// passGrace lets the state last for the grace period.
func (f *foresight) passGrace(next *projection.Projection, _ *Hold, step *Step) {
	t := Timers{At: f.now, LeaderlessSince: f.now, LedSince: f.now, NotServingSince: maps.Clone(f.in.Timers.NotServingSince), Running: map[types.UID]Running{}}
	if t.NotServingSince == nil {
		t.NotServingSince = map[types.UID]time.Time{}
	}
	t.NotServingSince[next.Ordinals[step.Ordinals[0]].Pod.UID] = f.now
	for _, o := range next.Ordinals {
		if o.Pod != nil {
			t.Running[o.Pod.UID] = Running{Since: f.now}
		}
	}
	f.in.Timers = t
	f.now = f.now.Add(f.in.Config.Grace())
}

func (f *foresight) observeHandover(_ *projection.Projection, _ *Hold, _ *Step) {
	f.now = f.now.Add(HandoverWindow)
}

func (f *foresight) catchUp(next *projection.Projection, _ *Hold, _ *Step) { next.CatchUp() }

// agreeOnVersions lets the canary answer. A rollout that etcd does not take cannot be foreseen.
func (f *foresight) agreeOnVersions(next *projection.Projection, hold *Hold, _ *Step) {
	s := newState(f.in, f.now)
	if _, canary := targetVersion(s.Snapshot, s.outdated); canary == "" {
		return
	}
	next.Recover(hold.Pod, f.now)
	assumed := cluster.Versions{Etcd: "0.0"}
	for _, m := range VersionsOf(s.Snapshot) {
		if IsKnownVersion(m.Versions.Etcd) {
			assumed = m.Versions
		}
	}
	next.Ordinals[slices.IndexFunc(next.Ordinals, func(o cluster.Ordinal) bool { return o.Name == hold.Pod })].Versions = assumed
}

func (f *foresight) takeSnapshot(_ *projection.Projection, _ *Hold, _ *Step) {
	f.in.Backup = Backup{Taken: "snapshot"}
}

func (f *foresight) grantRemoval(_ *projection.Projection, _ *Hold, _ *Step) { f.in.Refused = nil }
