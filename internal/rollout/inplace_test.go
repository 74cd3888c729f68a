// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// following returns a world whose pods follow the template in place, as far as they have come.
func following(k kind, w *world, phases ...phase) *world {
	w.kind = k
	copy(w.phase[:], phases)
	return w
}

// Which pod is written to next, and what that waits for.
func TestDecideInPlace(t *testing.T) {
	lasting := func(w *world) *world { w.lasted = true; return w }
	evict := config(func(c *Config) { c.PodRemoval = Evict })
	for name, c := range map[string]struct {
		world  *world
		change change
		want   string
	}{
		"the highest ordinal first":                                  {following(raised, of(0, readyOld, readyOld, readyOld)), nil, "PatchMetadata m-2"},
		"then its resources":                                         {following(raised, of(0, readyOld, readyOld, readyOld), 0, 0, marked), nil, "ResizePod m-2"},
		"then it waits for the kubelet":                              {following(raised, of(0, readyOld, readyOld, readyOld), 0, 0, written), nil, "hold UpdateObserved m-2"},
		"then it is at the new revision":                             {following(raised, of(0, readyOld, readyOld, readyOld), 0, 0, carried), nil, "PatchMetadata m-2"},
		"what is on its way goes first":                              {following(raised, of(0, readyOld, readyOld, readyOld), 0, marked), nil, "ResizePod m-1"},
		"a restart that is carried out, too":                         {following(restarted, of(0, readyOld, readyOld, readyOld), 0, carried), nil, "PatchMetadata m-1"},
		"one that is only marked waits for its turn":                 {following(restarted, of(0, readyOld, readyOld, readyOld), 0, marked), nil, "PatchMetadata m-2"},
		"lower resources have to settle":                             {following(lowered, of(0, readyOld, readyOld, readyOld), 0, 0, carried), nil, "hold UpdateObserved m-2"},
		"until they have":                                            {lasting(following(lowered, of(0, readyOld, readyOld, readyOld), 0, 0, carried)), nil, "PatchMetadata m-2"},
		"a member that seems to hang waits for one that was lowered": {following(lowered, of(1, frozenOld, readyOld, readyOld), 0, 0, carried), nil, "hold UpdateObserved m-2"},
		"or is about to be restarted":                                {following(restarted, of(1, frozenOld, readyOld, readyOld), 0, 0, written), nil, "hold UpdateObserved m-2"},
		"but not for long":                                           {lasting(following(lowered, of(1, frozenOld, readyOld, readyOld), 0, 0, carried)), nil, "DeletePod m-0"},
		"and a dead one does not":                                    {following(lowered, of(1, deadOld, readyOld, readyOld), 0, 0, carried), nil, "DeletePod m-0"},
		"what does not participate takes a new pod":                  {following(raised, of(0, readyOld, deadOld, readyOld)), nil, "DeletePod m-1"},
		"unless the update has been written to it":                   {following(raised, of(0, readyOld, readyOld, frozenOld), 0, 0, carried), nil, "hold UpdateObserved m-2"},
		"leadership moves before the leader restarts":                {following(restarted, of(0, readyOld, readyNew, readyNew)), nil, "MoveLeader m-0 to m-1"},
		"and not before a raise":                                     {following(raised, of(0, readyOld, readyNew, readyNew)), nil, "PatchMetadata m-0"},

		"a restart waits for a pod that is missing":             {following(restarted, of(0, readyOld, missing, readyOld)), nil, "hold OthersParticipating m-1"},
		"a raise does not":                                      {following(raised, of(0, readyOld, missing, readyOld)), nil, "PatchMetadata m-2"},
		"nor for one that terminates":                           {following(raised, of(0, readyOld, terminating, readyOld)), nil, "PatchMetadata m-2"},
		"but for one that is updated and does not participate":  {following(raised, of(0, readyOld, deadNew, readyOld)), nil, "hold OthersParticipating m-1"},
		"unless it has begun":                                   {following(raised, of(0, readyOld, deadNew, readyOld), 0, 0, marked), nil, "ResizePod m-2"},
		"a raise does not wait for nodes":                       {following(raised, of(0, readyOld, readyOld, readyOld)), pod(1, notReady), "PatchMetadata m-2"},
		"a restart does":                                        {following(restarted, of(0, readyOld, readyOld, readyOld)), pod(1, notReady), "hold NodesStable m-1"},
		"a raise waits for the StatefulSet controller":          {following(raised, of(0, readyOld, readyOld, readyOld)), func(in *Input) { in.Snapshot.StatefulSet.Observed = false }, "hold RevisionObserved "},
		"a restart of a member that a volume keeps is blocked":  {following(restarted, of(0, readyOld, readyNew, readyOld)), pod(2, stranded), "hold VolumeReachable m-2"},
		"a lowering in a cluster of one":                        {following(lowered, of(0, readyOld)), nil, "PatchMetadata m-0"},
		"a raise of a learner's neighbors":                      {following(raised, of(0, readyOld, readyOld, learnerNew)), nil, "hold OthersParticipating m-2"},
		"eviction or not, a raise removes no pod":               {following(raised, of(0, readyOld, readyOld, readyOld), 0, 0, marked), evict, "ResizePod m-2"},
		"a pod that cannot be compared with its template waits": {following(raised, of(0, readyOld, readyOld, readyOld)), pod(2, func(p *cluster.Pod) { p.ResourceVersion = "7"; p.UID = "another" }), "PatchMetadata m-1"},

		"a blocked pod keeps no other waiting":               {following(raised, of(0, readyOld, readyOld, deadOld)), pod(2, stranded), "PatchMetadata m-0"},
		"what is on its way goes on beside it":               {following(raised, of(0, readyOld, readyOld, deadOld), 0, marked), pod(2, stranded), "ResizePod m-1"},
		"also after a restart":                               {following(restarted, of(0, readyOld, readyOld, deadOld), 0, carried), pod(2, stranded), "PatchMetadata m-1"},
		"but no restart begins beside it":                    {following(restarted, of(0, readyOld, readyOld, deadOld)), pod(2, stranded), "hold VolumeReachable m-2"},
		"nor does what is blocked itself":                    {following(raised, of(0, readyOld, readyOld, deadOld, deadNew)), pod(2, stranded), "hold VolumeReachable m-2"},
		"nothing begins beside a pod that is being updated":  {following(raised, of(0, readyOld, readyOld, readyOld), 0, 0, written), nil, "hold UpdateObserved m-2"},
		"what is being updated is waited for beside it, too": {following(raised, of(0, readyOld, readyOld, deadOld), 0, written), pod(2, stranded), "hold VolumeReachable m-2"},
	} {
		t.Run(name, func(t *testing.T) {
			expectDecision(t, c.world, c.change, c.want)
		})
	}
}

// What disrupts no member changes no version, and waits for no snapshot: the store may be broken for as long as it takes.
func TestSnapshotBeforeUpdatesInPlace(t *testing.T) {
	unknown := func(in *Input) {
		in.Backup = Backup{Configured: true}
		in.Snapshot.StatefulSet.EtcdVersion = ""
		for i := range in.Snapshot.Ordinals {
			in.Snapshot.Ordinals[i].Pod.EtcdVersion = ""
		}
	}
	always := config(func(c *Config) { c.SnapshotBefore = SnapshotAlways })
	for name, c := range map[string]struct {
		world  *world
		change change
		want   string
	}{
		"a raise":                        {following(raised, of(0, readyOld, readyOld, readyOld)), unknown, "PatchMetadata m-2"},
		"a raise that has begun":         {following(raised, of(0, readyOld, readyOld, readyOld), 0, 0, written), unknown, "hold UpdateObserved m-2"},
		"a raise, with Always":           {following(raised, of(0, readyOld, readyOld, readyOld)), twice(unknown, always), "TakeSnapshot m-2"},
		"a restart":                      {following(restarted, of(0, readyOld, readyOld, readyOld)), unknown, "TakeSnapshot m-2"},
		"a new pod":                      {of(0, readyOld, readyOld, readyOld), unknown, "TakeSnapshot m-2"},
		"a raise beside a pod that died": {following(raised, of(0, readyOld, readyOld, deadOld)), unknown, "TakeSnapshot m-2"},
	} {
		t.Run(name, func(t *testing.T) {
			expectDecision(t, c.world, c.change, c.want)
		})
	}
}

// A write that was recorded is repeated by the same write alone, and so is a removal by any removal.
func TestIntendedUpdates(t *testing.T) {
	for name, c := range map[string]struct {
		kind     kind
		phase    phase
		recorded Action
		evict    bool
		want     string
	}{
		"the same write":                  {raised, marked, ResizePod, false, "ResizePod m-2"},
		"another write":                   {raised, marked, PatchMetadata, false, "RevokeDeletion m-2"},
		"a write, and now a removal":      {replaced, untouched, ResizePod, false, "RevokeDeletion m-2"},
		"a removal, and now a write":      {raised, marked, DeletePod, false, "RevokeDeletion m-2"},
		"a deletion, and now an eviction": {replaced, untouched, DeletePod, true, "EvictPod m-2"},
	} {
		w := following(c.kind, of(0, readyOld, readyOld, readyOld), 0, 0, c.phase)
		w.intent = 2
		in := w.input(noon, DefaultConfig())
		in.Recorded.Pods[0].LastOperation.Name = string(c.recorded)
		if c.evict {
			in.Config.PodRemoval = Evict
		}
		if got := short(Decide(in, noon), in.Snapshot); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The step says what is written, and why its turn has come if it disrupts the member. A hold says what the pod lacks.
func TestWhatIsSaidOfUpdatesInPlace(t *testing.T) {
	g := NewWithT(t)
	said := func(k kind, m member, p phase) (string, *Hold) {
		d := Decide(following(k, of(0, readyOld, readyNew, m), 0, 0, p).input(noon, DefaultConfig()), noon)
		if d.Step != nil {
			return d.Step.Reason, d.Hold()
		}
		return "", d.Hold()
	}
	reason, _ := said(raised, readyOld, marked)
	g.Expect(reason).To(HavePrefix("m-2 is updated in place: "))
	reason, _ = said(restarted, readyOld, marked)
	g.Expect(reason).To(HavePrefix("m-2 is a follower, and all others participate; m-2 is updated in place: "))
	_, hold := said(raised, readyOld, written)
	g.Expect(hold.Message).To(Equal("m-2 is being updated in place: the kubelet"))
	_, hold = said(raised, frozenOld, carried)
	g.Expect(hold.Message).To(HavePrefix("m-2 has been updated in place and does not participate; m-2 is running but not answering the operator"))

	costly := following(restarted, of(0, readyOld, deadNew, readyOld), 0, 0, marked).input(noon, DefaultConfig())
	override(v1alpha1.GuardOthersParticipating, v1alpha1.GuardOthersServing)(&costly)
	g.Expect(Decide(costly, noon).Hold().Message).To(HavePrefix("restarting m-2 would leave 1 of 3 voters; quorum is 2."))
	costly.Updates = inplace.Updates{}
	g.Expect(Decide(costly, noon).Hold().Message).To(HavePrefix("removing m-2 would leave 1 of 3 voters; quorum is 2."))

	replaced := following(raised, of(0, readyOld, readyOld, deadOld)).input(noon, DefaultConfig())
	replaced.Snapshot.Ordinals[2].Pod.Trouble = "OOMKilled"
	g.Expect(Decide(replaced, noon).Step.Reason).To(HavePrefix("m-2 is not running (OOMKilled); it needs a new pod: it does not participate"))
	g.Expect(Decide(of(0, readyOld, readyOld, readyOld).input(noon, DefaultConfig()), noon).Step.Reason).NotTo(ContainSubstring("new pod"))
}

// The record of an update ends once the pod has the revision and its member participates, or once another write is needed.
func TestRecordOfUpdatesInPlace(t *testing.T) {
	const inProgress, completed, failed = v1alpha1.OperationStateInProgress, v1alpha1.OperationStateCompleted, v1alpha1.OperationStateFailed
	for name, c := range map[string]struct {
		recorded Action
		member   member
		phase    phase
		want     v1alpha1.OperationState
		reason   string
	}{
		"it is updated and participates":           {ResizePod, readyNew, untouched, completed, "; it was updated in place to revision new and participates"},
		"it does not participate":                  {ResizePod, runningNew, untouched, inProgress, "it was its turn"},
		"it is on its way":                         {ResizePod, readyOld, carried, inProgress, "it was its turn"},
		"another client has removed the mark":      {ResizePod, readyOld, untouched, failed, "; not carried out: the pod has changed since"},
		"it was to be removed, and needs not be":   {DeletePod, readyNew, untouched, failed, "; not carried out: the pod has changed since"},
		"it was to be removed, and is on its way":  {DeletePod, readyOld, carried, failed, "; not carried out: the pod has changed since"},
		"it was to be removed, and is not running": {DeletePod, runningNew, untouched, failed, "; not carried out: the pod has changed since"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := following(raised, of(1, c.member, readyOld, readyOld), c.phase)
			w.intent, w.changed = 0, true
			in := w.input(noon, DefaultConfig())
			op := &in.Recorded.Pods[0].LastOperation
			op.Name, op.Reason = string(c.recorded), "it was its turn"
			r := Record(in, Decision{Conclusion: Wait, Blocking: []Hold{{Guard: "x"}}}, noon)
			g.Expect(r.Pods[0].LastOperation.State).To(Equal(c.want))
			g.Expect(r.Pods[0].LastOperation.Reason).To(HaveSuffix(c.reason))
			g.Expect(r.Pods[0].LastOperation.LastTransitionTime.Time.Equal(noon)).To(Equal(c.want != inProgress))

			in.Recorded = r
			later := Record(in, Decision{Conclusion: Wait, Blocking: []Hold{{Guard: "x"}}}, noon.Add(time.Minute))
			g.Expect(later.Pods).To(Equal(r.Pods), "what has ended is said once")
		})
	}
}

// An update in place that comes to its end is progress, whether or not more members participate than before.
func TestUpdatesInPlaceAreProgress(t *testing.T) {
	for _, done := range []bool{false, true} {
		w := following(raised, of(0, readyOld, readyOld, map[bool]member{false: readyOld, true: readyNew}[done]))
		if !done {
			w.phase[2] = carried
		}
		w.intent, w.changed = 2, true
		in := w.input(noon, DefaultConfig())
		in.Recorded.Pods[0].LastOperation.Name = string(ResizePod)
		in.Recorded.LastProgressTime = &metav1.Time{Time: noon.Add(-time.Minute)}
		in.Recorded.MostParticipatingReplicas = 3
		r := Record(in, Decision{Conclusion: Wait, Blocking: []Hold{{Guard: "x"}}}, noon)
		if got := r.LastProgressTime.Time.Equal(noon); got != done {
			t.Errorf("done %t: progress %t", done, got)
		}
	}
}

// A plan writes to one pod after the other, and says what each write disrupts.
func TestForeseeUpdatesInPlace(t *testing.T) {
	one := func(pod string) string {
		return "PatchMetadata " + pod + ", ResizePod " + pod + ", PatchMetadata " + pod
	}
	for name, c := range map[string]struct {
		world *world
		want  string
		// elections: leadership moves by one on the way.
		elections bool
	}{
		"raised":                  {following(raised, of(0, readyOld, readyOld, readyOld)), one("m-2") + ", " + one("m-1") + ", " + one("m-0") + ", Finished", false},
		"half-way":                {following(raised, of(0, readyOld, readyNew, readyOld), 0, 0, written), "hold UpdateObserved m-2, PatchMetadata m-2, " + one("m-0") + ", Finished", false},
		"a single member":         {following(restarted, of(0, readyOld)), "PatchMetadata m-0, ResizePod m-0 (no quorum), PatchMetadata m-0, Finished", false},
		"it does not participate": {following(raised, of(0, readyNew, readyNew, frozenOld), 0, 0, carried), "hold UpdateObserved m-2, PatchMetadata m-2, Finished", false},
	} {
		plan := Foresee(c.world.input(noon, DefaultConfig()), noon)
		if got := oneLine(plan); got != c.want || plan.Elections != c.elections {
			t.Errorf("%s: elections %t\ngot  %s\nwant %s", name, plan.Elections, got, c.want)
		}
	}
	// Without a handover, the leader restarts, and another one is elected meanwhile.
	in := following(restarted, of(0, readyOld, readyNew, readyNew)).input(noon, DefaultConfig())
	in.Config.LeaderHandover = ptr.To(false)
	plan := Foresee(in, noon)
	if !plan.Elections {
		t.Errorf("no election: %s", oneLine(plan))
	}
	for _, e := range plan.Entries {
		if disrupts := e.Step.Write.Disrupts; disrupts != (e.Meanwhile != nil) || disrupts && e.Meanwhile.ServingVoters() != 2 {
			t.Errorf("meanwhile %+v: %s", e.Meanwhile, short(e.Decision, e.Before))
		}
	}
	if strings.Contains(oneLine(plan), "no quorum") {
		t.Error(oneLine(plan))
	}
}

// The kubelet has yet to restart the etcd of m-1, which serves. A member that serves is not removed by then, although its probe
// fails: two of three would be down. One that is dead is.
func TestNobodyElseGoesBeforeARestartThatIsComing(t *testing.T) {
	for name, c := range map[string]struct {
		other member
		want  Conclusion
	}{
		"the other serves":  {runningOld, Wait},
		"the other is dead": {deadOld, Act},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := &world{members: []member{readyOld, readyOld, c.other}, leader: 0, intent: -1, kind: restarted, phase: [7]phase{1: written}}
			d := Decide(w.input(epoch, DefaultConfig()), epoch)
			g.Expect(d.Conclusion).To(Equal(c.want))
			if c.want == Act {
				g.Expect(d.Step.Ordinals).To(Equal([]int{2}))
				return
			}
			g.Expect(d.Hold().Guard).To(Equal(v1alpha1.GuardUpdateObserved))
			g.Expect(d.Hold().Pod).To(Equal("m-1"))
		})
	}
}
