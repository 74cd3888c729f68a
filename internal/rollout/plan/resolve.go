// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
	"k8s.io/apimachinery/pkg/types"
)

// resolver makes the condition of a guard true in a plan, by what would make it true in a cluster. The step is the one that the
// guard blocks; nil if there is none yet.
type resolver func(f *foresight, next *projection, hold rollout.Hold, step *rollout.Step)

var resolvers = map[v1alpha1.GuardName]resolver{
	v1alpha1.GuardRevisionObserved:    (*foresight).observeRevision,
	v1alpha1.GuardDeletionObserved:    (*foresight).observeDeletion,
	v1alpha1.GuardUpdateObserved:      (*foresight).observeUpdate,
	v1alpha1.GuardLearnerPromoted:     (*foresight).recoverPod,
	v1alpha1.GuardVolumeReachable:     (*foresight).reachVolume,
	v1alpha1.GuardOthersParticipating: (*foresight).recoverPod,
	v1alpha1.GuardOthersServing:       (*foresight).recoverPod,
	v1alpha1.GuardVotersOdd:           (*foresight).settleMembers,
	v1alpha1.GuardMemberRelieved:      (*foresight).relieve,
	v1alpha1.GuardNodesStable:         (*foresight).settleNodes,
	v1alpha1.GuardVersionsCompatible:  (*foresight).agreeOnVersions,
	v1alpha1.GuardQuorumKept:          (*foresight).recoverVoters,
	v1alpha1.GuardQuorumLossConfirmed: (*foresight).confirmLoss,
	v1alpha1.GuardUnreadyConfirmed:    (*foresight).passGrace,
	v1alpha1.GuardHandoverObserved:    (*foresight).observeHandover,
	v1alpha1.GuardSuccessorCaughtUp:   (*foresight).catchUp,
	v1alpha1.GuardRemovalGranted:      (*foresight).grantRemoval,
	v1alpha1.GuardSnapshotTaken:       (*foresight).takeSnapshot,
}

func (f *foresight) observeUpdate(next *projection, hold rollout.Hold, step *rollout.Step) {
	o := &next.Ordinals[step.Ordinals[0]]
	f.in.Updates = f.in.Updates.Foresee(o, next.StatefulSet, f.now)
	if o.Class != v1alpha1.ClassParticipating {
		f.recoverPod(next, hold, step)
	}
}

func (f *foresight) observeRevision(next *projection, _ rollout.Hold, _ *rollout.Step) {
	next.StatefulSet.Observed = true
}

func (f *foresight) observeDeletion(next *projection, _ rollout.Hold, _ *rollout.Step) {
	intents := rollout.ViewOf(f.in, f.now).Intents
	next.remove(intents)
	next.replace(intents, f.now)
}

func (f *foresight) recoverPod(next *projection, hold rollout.Hold, _ *rollout.Step) {
	next.bringBack(hold.Pod, f.now)
	if !next.Cluster.LeaderKnown {
		next.recoverVoters(-1, f.now)
	}
}

func (f *foresight) reachVolume(next *projection, _ rollout.Hold, step *rollout.Step) {
	next.Ordinals[step.Ordinals[0]].Pod.VolumeTrouble = ""
}

// settleMembers has the change of members come to its end: every ordinal votes.
func (f *foresight) settleMembers(next *projection, _ rollout.Hold, _ *rollout.Step) {
	next.Changing = false
	for _, o := range next.Ordinals {
		if o.Class != v1alpha1.ClassParticipating {
			next.bringBack(o.Name, f.now)
		}
	}
}

// relieve has a change of members replace the only member by way of a second one.
func (f *foresight) relieve(next *projection, _ rollout.Hold, step *rollout.Step) {
	next.Changing = false
	next.Ordinals = next.Ordinals[:1]
	next.Cluster.Voters = slices.DeleteFunc(next.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal > 0 })
	next.replace([]int{0}, f.now)
}

func (f *foresight) settleNodes(next *projection, _ rollout.Hold, _ *rollout.Step) {
	next.settleNodes()
}

func (f *foresight) recoverVoters(next *projection, _ rollout.Hold, step *rollout.Step) {
	next.settleNodes()
	next.recoverVoters(step.Ordinals[0], f.now)
}

// confirmLoss has the loss of the quorum last. Before that, nodes come back, members that the operator cannot reach become
// reachable, and a pod that is waited for comes back; if they know a leader, nothing was lost.
func (f *foresight) confirmLoss(next *projection, hold rollout.Hold, step *rollout.Step) {
	next.settleNodes()
	if names, quorate := f.in.Snapshot.Unreachable(); quorate {
		for _, pod := range names {
			next.bringBack(pod, f.now)
		}
		if next.Cluster.LeaderKnown {
			return
		}
	} else if hold.Pod != f.in.Snapshot.Ordinals[step.Ordinals[0]].Name {
		next.bringBack(hold.Pod, f.now)
	}
	f.passGrace(next, hold, step)
}

// passGrace has the state last for the grace period.
func (f *foresight) passGrace(next *projection, _ rollout.Hold, step *rollout.Step) {
	t := rollout.Timers{At: f.now, LeaderlessSince: f.now, LedSince: f.now, NotServingSince: maps.Clone(f.in.Timers.NotServingSince), Running: map[types.UID]rollout.Running{}}
	if t.NotServingSince == nil {
		t.NotServingSince = map[types.UID]time.Time{}
	}
	t.NotServingSince[next.Ordinals[step.Ordinals[0]].Pod.UID] = f.now
	for _, o := range next.Ordinals {
		if o.Pod != nil {
			t.Running[o.Pod.UID] = rollout.Running{Since: f.now}
		}
	}
	f.in.Timers = t
	f.now = f.now.Add(f.in.Config.Grace())
}

func (f *foresight) observeHandover(_ *projection, _ rollout.Hold, _ *rollout.Step) {
	f.now = f.now.Add(rollout.HandoverWindow)
}

func (f *foresight) catchUp(next *projection, _ rollout.Hold, _ *rollout.Step) { next.catchUp() }

// agreeOnVersions has the canary answer. A rollout that etcd does not take cannot be foreseen.
func (f *foresight) agreeOnVersions(next *projection, hold rollout.Hold, _ *rollout.Step) {
	view := rollout.ViewOf(f.in, f.now)
	if view.Canary == "" {
		return
	}
	next.bringBack(hold.Pod, f.now)
	assumed := cluster.Versions{Etcd: "0.0"}
	for _, m := range rollout.VersionsOf(view.Snapshot) {
		if rollout.IsKnownVersion(m.Versions.Etcd) {
			assumed = m.Versions
		}
	}
	next.Ordinals[slices.IndexFunc(next.Ordinals, func(o cluster.Ordinal) bool { return o.Name == hold.Pod })].Versions = assumed
}

func (f *foresight) takeSnapshot(_ *projection, _ rollout.Hold, _ *rollout.Step) {
	f.in.Backup = rollout.Backup{Taken: "snapshot"}
}

func (f *foresight) grantRemoval(_ *projection, _ rollout.Hold, _ *rollout.Step) { f.in.Refused = nil }
