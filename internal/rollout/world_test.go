// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/inplace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// A world is the true state of a cluster, on which the exploration runs Decide. It is a model: it has exactly what the
// decision can depend on, and it is small enough to be enumerated.
type world struct {
	members []member
	// leader is the leading member; -1 while there is none.
	leader int
	// stale: the leader is gone, but the others still name it: staleLeader.
	stale bool
	// foreignUp and foreignDown are voters outside of the StatefulSet.
	foreignUp, foreignDown int
	// lasted: the condition has lasted for longer than the grace period.
	lasted bool
	// intent is a pod whose removal was recorded and is not known to have been carried out; -1: none.
	intent int
	// short: it was recorded with a short grace period.
	short bool
	// recent: the intent was just recorded.
	recent bool
	// lagging: the observed pod is older than the one that its deletion was decided on.
	lagging bool
	// changed: the pod has changed since.
	changed bool
	// surplus: a pod beyond the replicas still exists.
	surplus bool
	// cutOff: no member can be reached by the operator, for longer than the grace period.
	cutOff bool
	// hidden: the operator reaches only members that are cut off from the others, for longer than the grace period.
	hidden bool
	// nodesLost: their kubelets are cut off from the API server, too.
	nodesLost bool
	// upgrade of etcd that the template makes.
	upgrade upgrade
	// unobserved: the StatefulSet controller has not seen the newest spec.
	unobserved bool
	// handovers so far, and whether the newest was just now.
	handovers      int32
	handoverRecent bool
	// cordoned: the node of an ordinal takes no new pods. unsteady: an ordinal may be lost with its node, or is
	// being evicted. stranded: no node takes the volume of an ordinal.
	cordoned, unsteady, stranded [7]bool
	// lost: the node of an ordinal is cut off from the API server and the operator. Its member runs, and votes, whatever the kubelet
	// reported last: that it was dead, starting, or frozen. A terminating one has not been told.
	lost [7]bool
	// unmarked: nothing says yet that these nodes are lost.
	unmarked bool
	// young: the container of an ordinal was started a moment ago.
	young [7]bool
	// behind: a follower answers, and votes, and lags so far behind that it does not serve.
	behind [7]bool
	// lying: a member says that it leads, in a term that no other knows. In a cluster of one or two, nothing tells that from the truth.
	lying [7]bool
	// kind of update that the template makes, and how far each pod has come.
	kind  kind
	phase [7]phase
	// distort changes what package inplace says of a pod; nil if that is true.
	distort func(*inplace.Assessment)
	// toPromote: a member whose etcd does not run is a learner, and still is one when it runs.
	toPromote [7]bool
	// surges: a change of members replaces the only member by way of a second one.
	surges bool
	// generation distinguishes successive pods of one ordinal.
	generation [7]int
}

// upgrade is what a template does to the version of etcd.
type upgrade uint8

const (
	samePatch upgrade = iota
	skipsMinor
	unsaved // the next minor, and there is no snapshot yet
	saving  // the same, and the snapshot is being taken
	blind   // the next minor, and the image does not say so
)

func (u upgrade) tag() string {
	return [...]string{samePatch: "3.6.11", skipsMinor: "3.8.0", unsaved: "3.7.3", saving: "3.7.3", blind: ""}[u]
}

// kind is how pods follow the template.
type kind uint8

const (
	replaced  kind = iota
	raised         // disturbs no member
	restarted      // etcd restarts
	lowered        // etcd may run out of memory
)

// phase is how far the update of a pod has come.
type phase uint8

const (
	untouched phase = iota
	marked
	written // the kubelet has not carried it out
	carried
)

func (k kind) disrupts() bool { return k == restarted || k == lowered }

// assessment is what package inplace says of a pod.
func (w *world) assessment(i int) inplace.Assessment {
	if w.kind == replaced {
		return inplace.Assessment{Replace: "differs"}
	}
	final := inplace.Write{Kind: inplace.PatchMetadata, Final: true}
	spec := inplace.Write{Kind: inplace.ResizePod, Disrupts: w.kind.disrupts()}
	switch w.phase[i] {
	case untouched:
		return inplace.Assessment{Writes: []inplace.Write{{Kind: inplace.PatchMetadata}, spec, final}}
	case marked:
		return inplace.Assessment{Writes: []inplace.Write{spec, final}}
	case written:
		return inplace.Assessment{Writes: []inplace.Write{final}, Pending: "the kubelet", Restarted: w.kind == restarted, AtRisk: w.kind.disrupts()}
	}
	a := inplace.Assessment{Writes: []inplace.Write{final}, Restarted: w.kind == restarted}
	if w.kind == lowered {
		a.Settle, a.AtRisk = 30*time.Second, true
	}
	return a
}

func (w *world) updates(s *cluster.Snapshot) inplace.Updates {
	if w.kind == replaced {
		return inplace.Updates{}
	}
	assessed := map[types.UID]inplace.Assessment{}
	for i, o := range s.Ordinals {
		if o.Pod != nil && !w.members[i].updated() {
			a := w.assessment(i)
			if w.distort != nil {
				w.distort(&a)
			}
			a.ResourceVersion = o.Pod.ResourceVersion
			assessed[o.Pod.UID] = a
		}
	}
	return inplace.Updates{}.Next(s, assessed, MaxGap)
}

// faultsOfUpdate: nothing is written to a pod out of turn, or before the kubelet has carried out what was written before.
func (w *world) faultsOfUpdate(step *Step, config Config, say func(string, ...any)) {
	i := step.Ordinals[0]
	if step.Write == nil {
		say("writes to %s, which it waits for", podName[i])
		return
	}
	if w.members[i].updated() {
		say("writes to %s, which is updated", podName[i])
	}
	if m := w.members[i].old(); m != readyOld && m != frozenReadyOld && !w.stale {
		say("writes to %s, which does not participate", podName[i])
	}
	if step.Write.Final && w.phase[i] != carried {
		say("calls %s updated before the kubelet has updated it", podName[i])
	}
	if step.Write.Final && w.kind == lowered && !w.lasted {
		say("calls %s updated before it has settled", podName[i])
	}
	for j := range w.members {
		if j != i && w.phase[i] == untouched && (w.phase[j] >= written && w.members[j].present() || w.phase[j] == marked && !w.kind.disrupts() && w.participating(j)) {
			say("begins with %s while %s is on its way", podName[i], podName[j])
		}
		if m := w.members[j]; j != i && w.phase[i] == untouched && m.updated() && !w.participating(j) && !w.stale && w.leader >= 0 {
			say("begins with %s although %s, which is updated, does not participate", podName[i], podName[j])
		}
	}
	if step.Action == ResizePod && w.kind.disrupts() {
		w.faultsOfRemoval(i, config, say)
	}
}

// member is the state of one ordinal.
type member uint8

const (
	missing member = iota
	terminating
	deadOld
	startingOld
	runningOld     // answers; the kubelet does not report it as ready yet, or its probe is broken
	readyOld       // answers, and its probe passes
	frozenOld      // does not answer, and the kubelet reports it
	frozenReadyOld // does not answer, and the kubelet does not report it yet
	learnerOld
	deadNew
	startingNew
	runningNew
	readyNew
	frozenNew
	frozenReadyNew
	learnerNew
	memberStates // how many there are
)

func (m member) present() bool { return m != missing && m != terminating }
func (m member) updated() bool { return m >= deadNew }

// old maps the states at the new revision to those at the old one.
func (m member) old() member {
	if m.updated() {
		return m - deadNew + deadOld
	}
	return m
}

// alive reports whether the process runs, answers and votes.
func (m member) alive() bool {
	o := m.old()
	return o == runningOld || o == readyOld || m == terminating
}

// running reports whether the container runs according to the kubelet.
func (m member) running() bool {
	switch m.old() {
	case runningOld, readyOld, frozenOld, frozenReadyOld, learnerOld:
		return true
	}
	return false
}

// stopped reports whether there is no process.
func (m member) stopped() bool { return m == missing || m.old() == deadOld || m.old() == startingOld }

// mayBeLost reports whether the kubelet may have reported this when its node was lost, and the operator gets no answer since.
func (m member) mayBeLost() bool {
	o := m.old()
	return m == terminating || o == deadOld || o == startingOld || o == frozenOld
}

func (m member) ready() bool { return m.old() == readyOld || m.old() == frozenReadyOld }

func (w *world) learner(i int) bool {
	return w.members[i].old() == learnerOld || w.toPromote[i] && w.members[i].stopped()
}

func (w *world) voters() int {
	n := w.foreignUp + w.foreignDown
	for i := range w.members {
		if !w.learner(i) {
			n++
		}
	}
	return n
}

// votes reports whether the process of an ordinal runs and votes, whatever the operator sees of it.
func (w *world) votes(i int) bool { return w.members[i].alive() || w.lost[i] }

// staleReport reports whether the kubelet's last report on an ordinal may no longer be true.
func (w *world) staleReport(i int) bool { return w.lost[i] && !w.unmarked || w.unsteady[i] && i%2 != 0 }

// alive returns the number of voters that are alive, with or without those of terminating pods.
func (w *world) alive(withTerminating bool) int {
	n := w.foreignUp
	for i, m := range w.members {
		if w.votes(i) && (withTerminating || m != terminating) {
			n++
		}
	}
	return n
}

func (w *world) hasQuorum() bool { return quorum.Exists(w.alive(true), w.voters()) }

// participating reports whether a member really participates.
func (w *world) participating(i int) bool {
	return w.leader >= 0 && w.members[i].old() == readyOld && !w.behind[i]
}

// coherent reports whether a combination of variables means anything.
func (w *world) coherent() bool {
	if w.leader >= 0 && (!w.hasQuorum() || !w.votes(w.leader)) {
		return false
	}
	if w.stale && (w.leader >= 0 || w.alive(true) == 0 || w.lasted) {
		return false
	}
	if w.intent >= 0 && !w.members[w.intent].present() {
		return false
	}
	for i, m := range w.members {
		if w.behind[i] && (i == w.leader || !m.alive() || m == terminating) {
			return false
		}
		if w.lying[i] && (len(w.members) < 3 || i == w.leader || w.stale || !m.alive() || m == terminating) {
			return false
		}
		if w.toPromote[i] && (!m.stopped() || w.voters() == 0) {
			return false
		}
		if w.lost[i] && !m.mayBeLost() {
			return false
		}
		if w.unmarked && (w.leader < 0 || !w.anyAnswers() || m == terminating || !w.answers(i) && !m.stopped()) {
			// Only where a leader is known, and nothing else can give it a quorum, is the report known to be late.
			return false
		}
		if w.phase[i] != untouched && (w.kind == replaced || !m.present() || m.updated()) {
			return false
		}
	}
	if w.cutOff {
		return w.lasted && w.probesAreAccurate()
	}
	if w.hidden {
		return w.leader >= 0 && w.lasted && w.probesAreAccurate() && w.anyAnswers()
	}
	if w.lasted && w.alive(true) == w.foreignUp && slices.ContainsFunc(w.members, member.ready) {
		// The probe of a frozen process does not pass for longer than the grace period.
		return false
	}
	return w.intent >= 0 || !w.recent && !w.changed
}

// probesAreAccurate reports whether a probe passes exactly if its member participates. Without etcd, a learner cannot be
// distinguished from an unhealthy member.
func (w *world) probesAreAccurate() bool {
	for i, m := range w.members {
		if m.ready() != w.participating(i) || w.learner(i) {
			return false
		}
	}
	return slices.ContainsFunc(w.members, member.ready) || w.lost != [7]bool{}
}

var (
	epoch   = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	podName = [7]string{"m-0", "m-1", "m-2", "m-3", "m-4", "m-5", "m-6"}
)

const (
	newRevision = "new"
	oldRevision = "old"
	staleLeader = 99
)

func (w *world) uid(i int) types.UID { return types.UID([]byte{byte('a' + i), byte(w.generation[i])}) }

// snapshot returns what an observation of the world at a moment sees.
func (w *world) snapshot(now time.Time) *cluster.Snapshot {
	s := &cluster.Snapshot{At: now, StatefulSet: cluster.StatefulSet{Name: "m", UID: "set", Observed: !w.unobserved, UpdateRevision: newRevision, OnDelete: true, EtcdVersion: w.upgrade.tag()}}
	if w.surplus {
		s.Surplus = []string{"m-9"}
	}
	c := &s.Cluster
	c.LeaderKnown = (w.leader >= 0 || w.stale) && !w.cutOff && !w.hidden && w.anyAnswers()
	s.Ordinals = make([]cluster.Ordinal, len(w.members))
	for i, m := range w.members {
		o := &s.Ordinals[i]
		o.Name, o.MemberID, o.Role, o.Class = podName[i], uint64(i+1), v1alpha1.RoleUnknown, v1alpha1.ClassMissing
		if m != missing {
			o.Pod = w.pod(i)
		}
		o.Answers = w.answers(i)
		o.Serving = o.Answers && c.LeaderKnown && !w.behind[i]
		if w.behind[i] && o.Answers {
			o.Lag = cluster.MaxLag + 1
		}
		if o.Answers && w.upgrade != samePatch {
			o.Versions = cluster.Versions{Etcd: "3.6.11", Storage: "3.6.0"}
			if m.updated() {
				o.Versions.Etcd = cmp.Or(w.upgrade.tag(), "3.7.3")
			}
		}
		c.Reachable = c.Reachable || o.Answers
		switch {
		case !o.Answers:
		case w.learner(i):
			o.Role = v1alpha1.RoleLearner
		case i == w.leader:
			o.Role = v1alpha1.RoleLeader
		default:
			o.Role = v1alpha1.RoleFollower
		}
		switch {
		case m == missing:
		case m == terminating:
			o.Class = v1alpha1.ClassTerminating
		case m.old() == deadOld:
			o.Class = v1alpha1.ClassDead
		case m.old() == startingOld:
			o.Class = v1alpha1.ClassStarting
		case m.old() == readyOld && c.LeaderKnown && !w.behind[i]:
			o.Class = v1alpha1.ClassParticipating
		default:
			o.Class = v1alpha1.ClassUnready
		}
		if !w.learner(i) {
			c.Voters = append(c.Voters, cluster.Voter{ID: o.MemberID, Name: o.Name, Ordinal: i, Serving: o.Serving && m != terminating})
		}
	}
	if w.cutOff {
		c.Voters = nil
		return s
	}
	for range w.foreignUp {
		c.Voters = append(c.Voters, cluster.Voter{ID: 50, Name: "foreign", Ordinal: -1, Serving: c.LeaderKnown})
	}
	for range w.foreignDown {
		c.Voters = append(c.Voters, cluster.Voter{ID: 51, Name: "foreign", Ordinal: -1})
	}
	switch {
	case w.leader >= 0:
		c.Leader = uint64(w.leader + 1)
	case w.stale:
		c.Leader = staleLeader
	}
	for i := range w.members {
		if w.lying[i] {
			believe(s, i)
		}
	}
	return s
}

// believe changes a snapshot as an observation has it that believes a member: what it says is of the newest term.
func believe(s *cluster.Snapshot, liar int) {
	s.Cluster.LeaderKnown, s.Cluster.Leader = true, s.Ordinals[liar].MemberID
	for i := range s.Ordinals {
		o := &s.Ordinals[i]
		o.Serving = i == liar && o.Answers
		if o.Role == v1alpha1.RoleLeader {
			o.Role = v1alpha1.RoleFollower
		}
		if o.Serving {
			o.Role = v1alpha1.RoleLeader
		}
		switch {
		case o.Serving && o.Pod.Ready:
			o.Class = v1alpha1.ClassParticipating
		case o.Class == v1alpha1.ClassParticipating:
			o.Class = v1alpha1.ClassUnready
		}
	}
	for i, v := range s.Cluster.Voters {
		s.Cluster.Voters[i].Serving = v.Ordinal == liar
	}
}

// answers reports whether the operator gets an answer. In a hidden world, a frozen member is one that runs near the
// operator, cut off from the others.
func (w *world) answers(i int) bool {
	switch {
	case w.cutOff:
		return false
	case w.hidden:
		return w.members[i].old() == frozenOld && !w.lost[i]
	}
	return (w.members[i].alive() || w.members[i].old() == learnerOld) && !w.lost[i]
}

func (w *world) anyAnswers() bool {
	for i := range w.members {
		if w.answers(i) {
			return true
		}
	}
	return false
}

func (w *world) pod(i int) *cluster.Pod {
	m := w.members[i]
	p := &cluster.Pod{UID: w.uid(i), ResourceVersion: "1", Revision: oldRevision, Ready: m.ready(), AllContainersReady: m.ready(), BackupSidecarReady: true, EtcdVersion: "3.6.11", Probed: true, GracePeriod: 30 * time.Second}
	if m.updated() {
		p.Revision = newRevision
	}
	p.Updating = w.phase[i] != untouched
	p.Node = cluster.Node{Name: "n", Cordoned: w.cordoned[i]}
	switch {
	case w.unsteady[i] && i%2 == 0:
		p.Disrupted = true
	case w.unsteady[i]:
		p.Node.Trouble = "not ready"
	}
	if w.nodesLost && m.alive() {
		p.Ready, p.AllContainersReady, p.Node.Trouble = false, false, "not ready"
	}
	if w.lost[i] && !w.unmarked {
		p.Node.Trouble = "not ready"
	}
	if w.stranded[i] {
		p.VolumeTrouble = "stranded"
	}
	if w.intent == i && w.changed {
		p.ResourceVersion = "2"
	}
	if m.running() || m == terminating {
		p.EtcdStarted = epoch
	}
	return p
}

// input returns the input of Decide.
func (w *world) input(now time.Time, config Config) Input {
	in := Input{
		Snapshot: w.snapshot(now), Config: config, Created: epoch,
		Recorded: v1alpha1.RolloutStatus{TargetRevision: newRevision},
		Backup:   Backup{Configured: w.upgrade == unsaved || w.upgrade == saving, Running: w.upgrade == saving},
		Surges:   w.surges,
	}
	since := now
	if w.lasted {
		since = now.Add(-config.UnreadyGracePeriod.Duration)
	}
	before := w.snapshot(since)
	in.Timers, in.Updates = Timers{}.Next(before), w.updates(before)
	for i := range w.members {
		if run, runs := in.Timers.Running[w.uid(i)]; runs && w.young[i] {
			run.Since = now
			in.Timers.Running[w.uid(i)] = run
		}
	}
	if i := w.intent; i >= 0 {
		at := now.Add(-time.Hour)
		if w.recent {
			at = now
		}
		in.Recorded.Pods = []v1alpha1.RolloutPod{{
			Name: podName[i], UID: w.uid(i), LastOperation: v1alpha1.LastOperation{State: v1alpha1.OperationStateInProgress},
			Evidence: v1alpha1.Evidence{ObservedAt: metav1.MicroTime{Time: at}, ResourceVersion: map[bool]string{false: "1", true: "2"}[w.lagging]},
		}}
		if w.short {
			in.Recorded.Pods[0].GracePeriodSeconds = ptr.To(int64(2))
		}
	}
	if w.handovers > 0 && w.leader >= 0 {
		at := now.Add(-time.Hour)
		if w.handoverRecent {
			at = now
		}
		in.Recorded.LeaderHandover = &v1alpha1.LeaderHandover{From: podName[w.leader], To: "m-0", Attempts: w.handovers, LastAttemptTime: metav1.Time{Time: at}}
	}
	return in
}

// faults returns the promises that a decision breaks in this world.
func (w *world) faults(d Decision, config Config) []string {
	if d.Conclusion == Finished {
		for i, m := range w.members {
			if !m.updated() || !w.participating(i) && (!w.stale || m != readyNew) {
				return []string{"finished too early"}
			}
		}
		return nil
	}
	if d.Step == nil {
		return nil
	}
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if w.unobserved {
		say("acts on a revision that is not current")
	}
	w.faultsOfUpgrade(d.Step, say)
	switch d.Step.Action {
	case MoveLeader:
		if w.handoverRecent && w.handovers > 0 {
			say("moves leadership again before the last attempt can be observed")
		}
		if to := w.members[d.Step.Successor]; to != readyNew || w.behind[d.Step.Successor] {
			say("moves leadership to a member that is not updated, or does not participate")
		}
		for j, other := range w.members {
			if (!other.alive() || other == terminating || w.behind[j]) && !w.cutOff {
				say("moves leadership while %s does not serve", podName[j])
			}
		}
	case PatchMetadata, ResizePod, UpdateContainer:
		w.faultsOfUpdate(d.Step, config, say)
		if w.intent >= 0 && !w.changed {
			say("writes to a pod while an intended deletion may still happen")
		}
	case DeletePod, EvictPod:
		if config.NonParticipatingPods != AllAtOnce && len(d.Step.Ordinals) > 1 {
			say("removes %d pods in one step", len(d.Step.Ordinals))
		}
		for _, i := range d.Step.Ordinals {
			w.faultsOfRemoval(i, config, say)
			w.faultsOfGrace(i, d.Step, config, say)
			if w.kind != replaced && w.participating(i) && !w.cutOff && !w.hidden {
				say("removes %s, which can be updated in place", podName[i])
			}
		}
		if w.intent >= 0 && !w.changed && !d.Step.removes(w.intent) {
			say("removes a pod while the intended deletion of another may still happen")
		}
		if w.intent >= 0 && w.short && !w.changed && d.Step.removes(w.intent) && w.serves(w.intent) {
			say("repeats an intent, which may still remove a serving member with a short grace period")
		}
	}
	if w.intent >= 0 && w.recent && !w.changed {
		say("acts before an intended deletion could be observed")
	}
	return faults
}

// removes reports whether a step removes the pod of an ordinal.
func (s *Step) removes(ordinal int) bool {
	return s.IsRemoval() && slices.Contains(s.Ordinals, ordinal)
}

func (w *world) faultsOfRemoval(i int, config Config, say func(string, ...any)) {
	m := w.members[i]
	if !m.present() || m.updated() {
		say("removes a pod that is not outdated")
		return
	}
	if w.members[i].old() == learnerOld {
		say("disturbs a learner")
	}
	if w.phase[i] >= written && w.kind != replaced {
		say("removes %s, which is what a new pod would be", podName[i])
	}
	if w.stranded[i] {
		say("removes a pod whose volume fits no node")
	}
	if w.surges && w.participating(i) && !w.cutOff && !w.hidden {
		say("takes the only member before another one has taken over")
	}
	onItsOwn := w.voters() == len(w.members) && len(w.members) <= 2
	lastingLoss := w.leader < 0 && w.lasted
	if w.votes(i) && !onItsOwn && !lastingLoss && w.hasQuorum() && !quorum.Exists(w.alive(false)-1, w.voters()) {
		say("costs quorum: %d of %d voters are alive", w.alive(false), w.voters())
	}
	mayRun := m.running() || w.staleReport(i)
	if w.leader < 0 && !w.stale && mayRun && !w.lasted {
		say("removes a running member during a short time without a leader")
	}
	for j, other := range w.members {
		if w.leader < 0 && !w.stale && mayRun && (w.young[j] || j != i && (!other.running() || w.staleReport(j) && !w.answers(j))) {
			say("removes a running member without a leader while %s has not been running for long", podName[j])
		}
	}
	if m.old() == frozenReadyOld && !w.lasted {
		say("removes at once a member that does not answer but whose probe passes")
	}
	for j, other := range w.members {
		if j == i {
			continue
		}
		if w.participating(i) && (!w.participating(j) || w.surplus) {
			say("removes a participating pod while %s does not participate", podName[j])
		}
		if w.mayStop(j) && w.leader >= 0 && m.alive() && !w.behind[i] && !w.cutOff {
			say("removes a serving pod while %s may stop serving, because of what was written to it", podName[j])
		}
		if w.unsteady[j] && w.participating(i) && w.participating(j) {
			say("removes a participating pod while %s may be lost", podName[j])
		}
		if w.cordoned[j] && w.participating(i) && w.participating(j) && i != w.leader && j != w.leader && !other.updated() && !w.cutOff {
			say("removes a follower before %s, which is on a cordoned node", podName[j])
		}
		if w.participating(i) && i == w.leader && !other.updated() && !w.cutOff {
			say("removes the leader before %s", podName[j])
		}
		if w.leader >= 0 && m.alive() && !w.behind[i] && (!other.alive() || w.behind[j]) && !w.learner(j) && !w.cutOff {
			say("removes a serving pod while %s does not serve", podName[j])
		}
		if worse := other.old(); other.present() && !other.updated() && w.phase[j] < written && !w.staleReport(j) && (worse == deadOld && (m != deadOld || mayRun) || worse == startingOld && mayRun) {
			say("removes a pod that is healthier than %s", podName[j])
		}
	}
	if w.participating(i) && i == w.leader && len(w.members) > 1 && w.handovers < maxHandoverAttempts && *config.LeaderHandover && !w.cutOff {
		say("removes the leader without a handover")
	}
}

// mayStop reports whether a member serves and may yet stop, because of an update of its pod.
func (w *world) mayStop(i int) bool {
	return w.members[i].alive() && !w.behind[i] && (w.kind == restarted && w.phase[i] == written || w.kind == lowered && w.phase[i] >= written)
}

// faultsOfUpgrade: no member gets a version that the cluster does not take, or before the snapshot is taken.
func (w *world) faultsOfUpgrade(step *Step, say func(string, ...any)) {
	known := (w.leader >= 0 || w.stale) && !w.cutOff && !w.hidden
	reported := slices.ContainsFunc(w.members, func(m member) bool { return m.alive() && m != terminating && !m.updated() })
	disturbs := step.IsRemoval() || step.Action == ResizePod && w.kind.disrupts()
	switch {
	case step.Action == RevokeDeletion:
	case w.upgrade == skipsMinor && reported && !w.cutOff && !w.hidden:
		say("skips a minor version of etcd")
	case w.upgrade == saving && step.Action == TakeSnapshot:
		say("asks for a snapshot while it is being taken")
	case (w.upgrade == unsaved || w.upgrade == saving) && disturbs && known && quorum.Exists(w.alive(false), w.voters()) && reported:
		say("changes the minor version of etcd before the snapshot is taken")
	case w.upgrade == blind && known && disturbs:
		for i, m := range w.members {
			if m.updated() && !w.answers(i) && !w.updatedAnswers() {
				say("replaces a pod before %s, the canary, has answered", podName[i])
			}
		}
	}
}

// updatedAnswers reports whether an updated member answers.
func (w *world) updatedAnswers() bool {
	for i, m := range w.members {
		if m.updated() && w.answers(i) {
			return true
		}
	}
	return false
}

// serves reports whether a member really serves, whatever the operator sees of it.
func (w *world) serves(i int) bool { return w.leader >= 0 && w.votes(i) }

// faultsOfGrace: a member that serves has the time that its pod asks for, and nothing waits for one that does not.
func (w *world) faultsOfGrace(i int, step *Step, config Config, say func(string, ...any)) {
	short := step.Grace[i] > 0
	if short && step.Action != DeletePod {
		say("evicts %s with a short grace period", podName[i])
	}
	if short && w.serves(i) && !w.unmarked {
		say("gives %s, which serves, a short grace period", podName[i])
	}
	if short && step.Grace[i] != config.shortGrace() {
		say("gives %s a grace period of %s", podName[i], step.Grace[i])
	}
	staleNode := w.staleReport(i)
	switch w.members[i].old() {
	case deadOld, startingOld:
		if !short && !staleNode {
			say("waits for %s, which is not running", podName[i])
		}
	case frozenOld:
		if !short && !staleNode && !w.cutOff {
			say("waits for %s, which is frozen", podName[i])
		}
	}
}
