// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// oneLine returns a plan in one line. It marks a step that costs quorum.
func oneLine(p Plan) string {
	var say []string
	for _, e := range p.Entries {
		line := short(e.Decision, e.Before)
		if e.Meanwhile != nil && !e.Meanwhile.HasQuorum() {
			line += " (no quorum)"
		}
		say = append(say, line)
	}
	return strings.Join(append(say, string(p.End)), ", ")
}

func TestForesee(t *testing.T) {
	lasting := func(w *world) *world { w.lasted = true; return w }
	foreign := func(w *world) *world { w.foreignDown = 1; return w }
	intended := func(w *world) *world { w.intent, w.recent = 2, true; return w }
	cutOff := func(w *world) *world { w.lasted, w.cutOff = true, true; return w }
	surplus := func(w *world) *world { w.surplus = true; return w }
	hidden := func(w *world) *world { w.hidden, w.lasted = true, true; return w }
	for name, c := range map[string]struct {
		world  *world
		change change
		want   string
	}{
		"nothing to do":             {of(0, readyNew, readyNew, readyNew), nil, "Finished"},
		"all are healthy":           {of(0, readyOld, readyOld, readyOld), nil, "DeletePod m-2, DeletePod m-1, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
		"a frozen member":           {of(2, frozenOld, readyOld, readyOld), nil, "DeletePod m-0, DeletePod m-1, MoveLeader m-2 to m-0, DeletePod m-2, Finished"},
		"a broken probe everywhere": {of(0, runningOld, runningOld, runningOld), nil, "DeletePod m-2, DeletePod m-1, DeletePod m-0, Finished"},
		"one member":                {of(0, readyOld), nil, "DeletePod m-0 (no quorum), Finished"},
		"two members":               {of(0, readyOld, readyOld), nil, "DeletePod m-1 (no quorum), MoveLeader m-0 to m-1, DeletePod m-0 (no quorum), Finished"},
		"two of three are dead": {of(-1, deadOld, deadOld, runningOld), nil,
			"DeletePod m-1 (no quorum), DeletePod m-0, DeletePod m-2, Finished"},
		"a moment without a leader": {of(-1, readyOld, readyOld, readyOld), nil,
			"hold QuorumLossConfirmed m-2, DeletePod m-2, DeletePod m-1, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
		"a persistent quorum loss": {lasting(of(-1, frozenOld, frozenOld, runningOld)), nil, "DeletePod m-2 (no quorum), hold QuorumLossConfirmed m-2, DeletePod m-1 (no quorum), DeletePod m-0, Finished"},
		"one is missing":           {of(2, missing, readyOld, readyOld), nil, "hold OthersParticipating m-0, DeletePod m-1, MoveLeader m-2 to m-0, DeletePod m-2, Finished"},
		"one new pod is dead":      {of(2, deadNew, readyOld, readyOld), nil, "hold OthersParticipating m-0, DeletePod m-1, MoveLeader m-2 to m-0, DeletePod m-2, Finished"},
		"a learner":                {of(0, readyOld, readyNew, learnerOld), nil, "hold LearnerPromoted m-2, DeletePod m-2, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
		"a foreign voter":          {foreign(of(0, readyOld, readyOld)), nil, "hold QuorumKept m-1, DeletePod m-1, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
		"a surplus pod":            {surplus(of(0, readyOld, readyNew, readyNew)), nil, "MoveLeader m-0 to m-1, hold OthersParticipating m-9, DeletePod m-0, Finished"},
		"halfway":                  {intended(of(0, readyOld, readyNew, readyOld)), nil, "hold DeletionObserved m-2, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
		"roles from readiness":     {cutOff(of(0, readyOld, readyOld, readyOld)), nil, "DeletePod m-2, DeletePod m-1, DeletePod m-0, Finished"},
		"a restart": {of(0, readyNew, readyNew, readyNew), func(in *Input) { in.Config.Restart = true },
			"DeletePod m-2, DeletePod m-1, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
		"all followers behind": {of(0, readyOld, readyNew, readyNew), func(in *Input) { in.Snapshot.Ordinals[0].AppliedIndex = maxSuccessorLag + 1 },
			"hold SuccessorCaughtUp m-0, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
		"another strategy":                    {of(0, readyOld, readyOld, readyOld), func(in *Input) { in.Snapshot.StatefulSet.OnDelete = false }, "Disengaged"},
		"a node that is not ready":            {of(0, readyOld, readyOld, readyOld), pod(1, notReady), "hold NodesStable m-1, DeletePod m-2, DeletePod m-1, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
		"a voter on a node that is not ready": {of(2, frozenOld, frozenNew, readyOld), pod(1, notReady), "hold QuorumKept m-0, DeletePod m-0, MoveLeader m-2 to m-0, DeletePod m-2, Finished"},
		"a stranded volume":                   {of(0, readyOld, readyNew, readyOld), pod(2, stranded), "hold VolumeReachable m-2, DeletePod m-2, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
		"the leader froze a moment ago":       {of(1, frozenReadyOld, readyOld, readyNew), nil, "hold UnreadyConfirmed m-0, DeletePod m-0, MoveLeader m-1 to m-0, DeletePod m-1, Finished"},
		"an operator that has just started": {of(1, frozenReadyOld, readyOld, readyNew), func(in *Input) { in.Timers = Timers{} },
			"hold UnreadyConfirmed m-0, DeletePod m-0, MoveLeader m-1 to m-0, DeletePod m-1, Finished"},
		"two frozen members of five": {of(2, frozenReadyOld, frozenReadyOld, readyNew, readyNew, readyNew), nil, "hold UnreadyConfirmed m-1, DeletePod m-1, DeletePod m-0, Finished"},
		"unreachable members": {hidden(of(1, frozenNew, readyOld, readyOld)), nil,
			"hold QuorumLossConfirmed m-2, DeletePod m-2, DeletePod m-1, Finished"},
		"a loss that lasts, and a pod that has yet to run": {lasting(of(-1, startingNew, startingNew, runningOld)), nil, "hold QuorumLossConfirmed m-0, hold OthersParticipating m-1, DeletePod m-2, Finished"},
		"no leader, and a pod that is missing":             {of(-1, missing, missing, frozenOld), nil, "hold QuorumLossConfirmed m-2, hold QuorumLossConfirmed m-0, hold QuorumLossConfirmed m-1, DeletePod m-2, Finished"},
		"an unreachable member beside a lost voter": {foreign(of(-1, frozenReadyOld)), nil,
			"hold QuorumLossConfirmed m-0, DeletePod m-0 (no quorum), hold OthersParticipating m-0, Finished"},
		"an intended removal of a learner": {func() *world { w := of(-1, runningOld, learnerOld); w.intent, w.recent = 1, true; return w }(), nil,
			"hold DeletionObserved m-1, MoveLeader m-0 to m-1, DeletePod m-0 (no quorum), Finished"},
		"a restart in place to the next minor version": {func() *world {
			w := following(restarted, of(-1, readyOld, readyOld, frozenOld))
			w.upgrade = unsaved
			return w
		}(), nil, "hold QuorumLossConfirmed m-2, DeletePod m-2, TakeSnapshot m-1, PatchMetadata m-1, ResizePod m-1, PatchMetadata m-1, MoveLeader m-0 to m-1, PatchMetadata m-0, ResizePod m-0, PatchMetadata m-0, Finished"},
		"a refused eviction": {of(0, readyNew, readyNew, readyOld), func(in *Input) {
			in.Config.PodRemoval = Evict
			in.Refused = map[types.UID]RefusedWrite{in.Snapshot.Ordinals[2].Pod.UID: {At: noon, ByBudget: true}}
		}, "hold RemovalGranted m-2, EvictPod m-2, Finished"},
		"an intended removal of the leader": {func() *world { w := of(2, readyOld, readyNew, readyOld); w.intent, w.recent = 2, true; return w }(), nil, "hold DeletionObserved m-2, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
		"a restart that was asked for in the future": {of(0, readyNew, readyNew, readyNew), func(in *Input) { in.Config.Restart, in.Created = true, noon.Add(time.Hour) },
			"DeletePod m-2, DeletePod m-1, MoveLeader m-0 to m-1, DeletePod m-0, Finished"},
	} {
		t.Run(name, func(t *testing.T) {
			in := c.world.input(noon, DefaultConfig())
			if c.change != nil {
				c.change(&in)
			}
			if got := oneLine(Foresee(in, noon)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// A plan says if it assumes who wins an election. Each replacement is younger than the step before it.
func TestElectionsOfAPlan(t *testing.T) {
	for name, c := range map[string]struct {
		world *world
		want  bool
	}{
		"leadership moves":                       {of(0, readyOld, readyOld, readyOld), false},
		"leadership has been lost":               {of(-1, deadOld, deadOld, runningOld), true},
		"the removal of the leader was recorded": {func() *world { w := of(2, readyOld, readyNew, readyOld); w.intent, w.recent = 2, true; return w }(), true},
	} {
		plan := Foresee(c.world.input(noon, DefaultConfig()), noon)
		if plan.Elections != c.want {
			t.Errorf("%s: %t, %s", name, plan.Elections, oneLine(plan))
		}
	}
	plan := Foresee(of(0, readyOld, readyOld, readyOld).input(noon, DefaultConfig()), noon)
	if created := plan.Entries[1].Before.Ordinals[2].Pod.Created; !created.Equal(noon.Add(IntentWindow)) {
		t.Errorf("the replacement was created at %s", created)
	}
	unreachable := of(1, frozenNew, readyOld, readyOld)
	unreachable.hidden, unreachable.lasted = true, true
	plan = Foresee(unreachable.input(noon, DefaultConfig()), noon)
	if created := plan.Entries[2].Before.Ordinals[2].Pod.Created; !created.Equal(noon.Add(IntentWindow)) {
		t.Errorf("once members can be reached, no grace period has to pass: the replacement was created at %s", created)
	}
}

// In every state, a plan ends, replaces each outdated pod once, keeps an existing quorum, and does not change its
// input.
func TestEveryPlanKeepsThePromises(t *testing.T) {
	for _, z := range []size{
		{members: 1, states: allStates(), memory: true},
		{members: 3, states: fewer, sorted: true},
	} {
		z.worlds(func(w *world) {
			in := w.input(noon, DefaultConfig())
			before := oneLine(Plan{End: Finished}) + fmt.Sprintf("%+v %+v", in.Snapshot.Ordinals, in.Snapshot.Cluster)
			plan := Foresee(in, noon)
			if after := oneLine(Plan{End: Finished}) + fmt.Sprintf("%+v %+v", in.Snapshot.Ordinals, in.Snapshot.Cluster); before != after {
				t.Fatalf("the input has changed:\n%s", cmp.Diff(before, after))
			}
			if fault := plan.fault(); fault != "" {
				t.Errorf("%s in %+v: %s", fault, *w, oneLine(plan))
			}
		})
		if t.Failed() {
			t.FailNow()
		}
	}
}

func (p Plan) fault() string {
	if last := p.Entries[max(len(p.Entries)-1, 0):]; p.End != Finished && (len(last) == 0 || last[0].Hold() == nil ||
		last[0].Hold().Guard != v1alpha1.GuardQuorumKept && last[0].Hold().Guard != v1alpha1.GuardQuorumLossConfirmed && last[0].Hold().Guard != v1alpha1.GuardVersionsCompatible) {
		// A single replica beside a foreign voter can never be removed, nor can any for a version that skips a minor; nothing else
		// blocks forever.
		return "does not finish"
	}
	var gone []string
	for _, e := range p.Entries {
		if e.Meanwhile == nil {
			continue
		}
		if e.Before.HasQuorum() && !e.Meanwhile.HasQuorum() && len(e.Before.Cluster.Voters) > 2 {
			return "costs the quorum"
		}
		for _, i := range e.Step.Ordinals {
			if slices.Contains(gone, podName[i]) {
				return "replaces a pod twice"
			}
			gone = append(gone, podName[i])
		}
	}
	return ""
}

func TestHolding(t *testing.T) {
	in := of(0, readyOld, readyOld, deadNew).input(noon, DefaultConfig())
	var names []v1alpha1.GuardName
	for _, hold := range Holding(in, noon) {
		names = append(names, hold.Guard)
	}
	want := []v1alpha1.GuardName{v1alpha1.GuardOthersParticipating, v1alpha1.GuardQuorumKept}
	if !slices.Equal(names, want) {
		t.Errorf("%v hold, want %v", names, want)
	}
	raise := following(raised, of(0, readyOld, readyOld, deadNew))
	raise.unobserved, raise.intent, raise.recent = true, 1, true
	names, in = nil, raise.input(noon, DefaultConfig())
	for _, hold := range Holding(in, noon) {
		names = append(names, hold.Guard)
	}
	// What a write that disturbs no member waits for.
	want = []v1alpha1.GuardName{v1alpha1.GuardRevisionObserved, v1alpha1.GuardDeletionObserved, v1alpha1.GuardOthersParticipating}
	if !slices.Equal(names, want) {
		t.Errorf("%v hold, want %v", names, want)
	}
	if holds := Holding(of(0, readyNew, readyNew, readyNew).input(noon, DefaultConfig()), noon); len(holds) > 0 {
		t.Errorf("%v hold, but nothing is left to do", holds)
	}
}
