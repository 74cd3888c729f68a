// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package temporal is a specification of the whole of etcd-foreman that can be executed: observation, act, agent, StatefulSet controller and membership
// as one state, actions that change it, and what must hold in each state and step. It imports the standard library only, and shares no code with the
// operator: the rules are those of docs/rollout.md, docs/membership.md and docs/recovery.md, written again. docs/temporal.md says what it leaves out.
package temporal

// Most is the largest number of members.
const Most = 5

// What a member is in the committed list. Leaving was removed while it led: the others count it until one of them, which is elected, tells them.
const (
	None uint8 = iota
	Learner
	Voter
	Leaving
)

// The process of a member.
const (
	Stopped uint8 = iota
	Running
	Frozen
)

// Its pod.
const (
	Absent uint8 = iota
	Present
	Ending
)

// Its node: Dark ones are reached by the other members alone, Cut ones by nothing.
const (
	Seen uint8 = iota
	Dark
	Cut
)

// The data on a volume: none, that of the member that is listed, that of one that was removed, and that of a voter of the cluster before.
const (
	Empty uint8 = iota
	Own
	Removed
	Past
)

// What an operator does to a member.
const (
	Nothing uint8 = iota
	DeletePod
	AddLearner
	Promote
	MoveLeader
	Remove
	ScaleUp
	ScaleDown
	DeleteClaim
)

// How far a recovery is.
const (
	NotAsked uint8 = iota
	Asked
	Stopping
)

// Slot is an ordinal: a place in the StatefulSet, with its pod, volume and member, and what is under way for it.
type Slot struct {
	Role, Process, Node, Data, Pod uint8
	// Has is how many acknowledged writes its data has.
	Has uint8
	// Ran: the member that is listed has started. Leads: it is the leader. Wanted: the spec asks for it. Set: the StatefulSet has this ordinal.
	Ran, Leads, Wanted, Set bool
	// Outdated: the pod has an old template. ClaimEnds: its claim is deleted, and goes with its data once no pod uses it.
	Outdated, ClaimEnds bool
	// Told: the agent has read that its member is not alone.
	Told bool
	// Since what may still be acted on was observed, a fault has stopped the member (Broken), it has started (Young), or a user has deleted its claim
	// (Doomed): no act is to blame for that.
	Broken, Young, Doomed bool
	// Intent is the step that is recorded in the status, and Plan what each operator has decided to do.
	Intent uint8
	Plan   [2]uint8
	// Late: deletions of this pod are under way, whose preconditions are true, or no longer. Request is one to etcd that is under way.
	Late, Void bool
	Request    uint8
}

// State is that of a cluster and of all that acts on it.
type State struct {
	Slots [Most]Slot
	N     uint8
	// Era counts clusters, Owed is how many writes the newest has acknowledged, and Before how many voters the one before had.
	Era, Owed, Before uint8
	Recovery          uint8
	// Leaderless is for how long no member that operators reach has known a leader; after 2, for the grace period.
	Leaderless uint8
	// Recoverable: a user may still ask for a recovery. Elected: the leader was elected since what may still be acted on was observed.
	Recoverable, Elected bool
	// Of each operator: nothing was written to the status since it has observed, and its step is recorded.
	Current, Recorded [2]bool
	// Faults and Writes are how many may still come.
	Faults, Writes uint8
}

// Model is the specification, or a mutant of it.
type Model struct {
	// Without is a rule that a mutant lacks, by its name in the documents if it has one there. It has to break something.
	Without string
	// Operators is how many act, without knowing of each other: leader election is no fence.
	Operators int
}

// lacks reports whether a mutant is without a rule, and need whether a rule holds or the mutant is without it.
func (m *Model) lacks(guard string) bool { return m.Without == guard }

func (m *Model) need(guard string, holds bool) bool { return holds || m.lacks(guard) }

func quorum(voters int) int { return voters/2 + 1 }

// count returns how many slots something is true of.
func (s *State) count(is func(*Slot) bool) (n int) {
	for i := range s.Slots[:s.N] {
		if is(&s.Slots[i]) {
			n++
		}
	}
	return n
}

func (l *Slot) voter() bool   { return l.Role == Voter }
func (l *Slot) learner() bool { return l.Role == Learner }
func (l *Slot) leads() bool   { return l.Leads }
func (l *Slot) counts() bool  { return l.Role == Voter || l.Role == Leaving }
func (l *Slot) runs() bool    { return l.Process == Running && l.Data == Own && l.Role != None }

func (s *State) voters() int { return s.count((*Slot).voter) }

// reached reports whether other members reach one; the only one needs no others.
func (s *State) reached(l *Slot) bool { return l.Node != Cut || l.voter() && s.voters() == 1 }

// votes reports whether a member could be part of a quorum now.
func (s *State) votes(l *Slot) bool { return l.voter() && l.runs() && s.reached(l) }

// quorate reports whether the members that run are a quorum: one of them leads, or is about to be elected.
func (s *State) quorate() bool { return s.count(s.votes) >= quorum(s.count((*Slot).counts)) }

func (s *State) led() bool { return s.count((*Slot).leads) > 0 }

// serves reports whether a member serves: it is in touch with the leader, and has what that has.
func (s *State) serves(l *Slot) bool { return l.runs() && s.reached(l) && s.led() && l.Has == s.Owed }

// sees reports whether an operator sees that a member serves.
func (s *State) sees(l *Slot) bool { return s.serves(l) && l.Node == Seen && l.Pod == Present }

// leaderKnown reports whether an operator reaches a member that knows a leader.
func (s *State) leaderKnown() bool {
	return s.led() && s.count(func(l *Slot) bool { return l.runs() && l.Node == Seen }) > 0
}

// lost reports whether the quorum is certainly lost, as it has been for the grace period: no member that is reached knows a leader, and those that may run
// out of sight are too few to have one. (Members in sight that could elect one would have done so by then.)
func (m *Model) lost(s *State) bool {
	unseen := s.count(func(l *Slot) bool { return l.voter() && l.Node != Seen })
	inSight := s.count(func(l *Slot) bool { return s.votes(l) && l.Node == Seen })
	return s.Leaderless == 2 && (inSight == 0 || !s.quorate()) && m.need("UnknownMayServe", unseen < quorum(s.voters()))
}

// mayDo reports whether the guards allow an operator a step, by what it sees at this moment.
func (m *Model) mayDo(s *State, l *Slot, act uint8) bool {
	voters, serving := s.voters(), s.count(func(o *Slot) bool { return o.voter() && s.sees(o) })
	others := s.count(func(o *Slot) bool { return o != l && o.voter() && !s.sees(o) })
	staying := s.count(func(o *Slot) bool { return o != l && o.voter() && o.Wanted && !s.sees(o) })
	without := serving
	if l.voter() && s.sees(l) {
		without--
	}
	listed := s.leaderKnown() && serving > 0
	switch act {
	case DeletePod:
		if l.Pod != Present || !l.Outdated && (l.Role != None || !l.ClaimEnds && l.Data != Removed) || !m.need("VolumeReachable", l.Role == None || !l.ClaimEnds) || l.learner() {
			return false
		}
		switch {
		case !l.voter():
			return true
		case !s.leaderKnown():
			return m.need("QuorumLossConfirmed", l.Process == Stopped && l.Node == Seen || m.lost(s))
		}
		return m.need("VotersOdd", voters%2 == 1 || !s.sees(l)) && m.need("OthersServing", !s.sees(l) || others == 0) && m.need("QuorumKept", without >= quorum(voters) || voters == 1)
	case AddLearner:
		return listed && l.Wanted && l.Role == None && l.Pod == Present && l.Data == Empty && !l.ClaimEnds && others == 0 &&
			s.count((*Slot).learner) == 0 && m.need("JoinAnnounced", voters > 1 || s.count(func(o *Slot) bool { return o.voter() && o.Told }) == 1)
	case Promote:
		return listed && l.learner() && l.Ran && m.need("LearnerCaughtUp", s.sees(l)) && m.need("QuorumKept", serving >= quorum(voters) && (voters == 1 || serving >= quorum(voters+1)))
	case MoveLeader:
		return listed && l.voter() && l.Wanted && !l.Leads && s.sees(l) && others == 0 && s.count(func(o *Slot) bool { return o.Leads && (!o.Wanted || o.Outdated) }) == 1
	case Remove:
		isLost := l.Data == Empty && l.Ran && l.Pod == Present && l.Node == Seen
		if !listed || l.Role == None || l.Role == Leaving || l.Wanted && !isLost {
			return false
		}
		return l.learner() || voters > 1 && m.need("LeaderStays", !l.Leads) && m.need("OthersServing", staying == 0) && m.need("QuorumKept", serving >= quorum(voters) && without >= quorum(voters-1)) &&
			m.need("UnreadyConfirmed", s.sees(l) || !l.Broken)
	case ScaleUp:
		return l.Wanted && !l.Set && s.Recovery != Stopping
	case ScaleDown:
		return listed && !l.Wanted && l.Set && m.need("NotListed", l.Role == None)
	case DeleteClaim:
		return listed && !l.ClaimEnds && l.Data != Empty && (!l.Wanted || l.Data == Removed) && m.need("ClaimNotListed", l.Role == None)
	}
	return false
}

// decide has an operator observe the cluster and decide on a step, at most one at a time, and none while an earlier one may still take effect.
func (m *Model) decide(s *State, l *Slot, k int, act uint8) bool {
	busy := s.count(func(o *Slot) bool { return o.Plan[k] != Nothing }) > 0
	other := s.count(func(o *Slot) bool { return o.Intent != Nothing && (o != l || o.Intent != act) }) > 0
	if busy || s.Recovery == Stopping && act != ScaleUp || !m.need("OneAtATime", !other) || l.Intent != Nothing && act != DeletePod || !m.mayDo(s, l, act) {
		return false
	}
	l.Plan[k], s.Current[k], s.Recorded[k] = act, true, false
	return true
}

// record writes the step into the status as an intent. That fails if another operator has written to the status since.
func (m *Model) record(s *State, l *Slot, k int) bool {
	if l.Plan[k] == Nothing || s.Recorded[k] || !m.need("StatusUnchanged", s.Current[k]) {
		return false
	}
	l.Intent, s.Recorded[k] = l.Plan[k], true
	s.Current[1-k] = s.Current[1-k] && s.Recorded[1-k]
	return true
}

// perform sends the request for the step, unless the observation is too old by now. Requests for pods name the pod that was seen, by UID and version.
func (m *Model) perform(s *State, l *Slot, k int) bool {
	act := l.Plan[k]
	if act == Nothing || !s.Recorded[k] {
		return false
	}
	l.Plan[k], s.Recorded[k] = Nothing, false
	switch act {
	case DeletePod:
		l.Late, l.Void = l.Late || s.Current[k], l.Void || !s.Current[k]
	case ScaleUp, ScaleDown:
		l.Set, l.Intent = act == ScaleUp, Nothing
	case DeleteClaim:
		l.ClaimEnds, l.Intent = true, Nothing
	default:
		l.Request = act
	}
	return true
}

// written notes that an operator has written to the status: what others have decided before comes to nothing.
func (s *State) written() { s.Current = [2]bool{} }

// settle takes an intent for carried out: the pod goes, or the request to etcd shows in the list or can no longer take effect.
func (m *Model) settle(s *State, l *Slot) bool {
	if l.Intent == Nothing || l.Intent == DeletePod && l.Pod == Present || l.Intent != DeletePod && !m.need("ChangeObserved", l.Request == Nothing && !s.Recorded[0] && !s.Recorded[1]) {
		return false
	}
	l.Intent = Nothing
	s.written()
	return true
}

// revoke writes to the pod whose removal is recorded: a deletion that is under way fails at its precondition.
func (m *Model) revoke(s *State, l *Slot) bool {
	if l.Intent != DeletePod || l.Pod != Present {
		return false
	}
	if m.lacks("IntentRevoked") {
		l.Intent = Nothing // without a word to the pod
	} else {
		l.Intent, l.Void, l.Late = Nothing, l.Void || l.Late, false
	}
	s.written()
	return true
}

// stopAll begins a recovery that a user has asked for, once the quorum is certainly lost: what other tasks have recorded is revoked first.
func (m *Model) stopAll(s *State) bool {
	if s.Recovery != Asked || !m.lost(s) || s.count(func(l *Slot) bool { return l.Intent != Nothing || l.Request != Nothing }) > 0 {
		return false
	}
	for i := range s.Slots[:s.N] {
		s.Slots[i].Set = false
	}
	s.Recovery = Stopping
	s.written()
	return true
}

// choose ends the survey of a recovery, and starts what was there if that is a quorum, or else a new cluster from the most advanced data.
func (m *Model) choose(s *State, l *Slot) bool {
	has := func(o *Slot) bool {
		return o.Role != None && o.Data == Own && (o.Node == Seen || !m.lacks("VolumesRead"))
	}
	if s.Recovery != Stopping || !has(l) || !m.need("PodsGone", s.count(func(o *Slot) bool { return o.Pod != Absent }) == 0) || !m.need("VolumesRead", s.count(func(o *Slot) bool { return o.Node != Seen }) == 0) ||
		!m.need("MostAdvanced", s.count(func(o *Slot) bool { return has(o) && o.Has > l.Has }) == 0) {
		return false
	}
	if s.count(func(o *Slot) bool { return o.voter() && has(o) }) < quorum(s.voters()) {
		s.begin(l)
	}
	for j := range s.Slots[:s.N] {
		s.Slots[j].Set = s.Slots[j].Wanted
	}
	s.Recovery = NotAsked
	s.written()
	return true
}

// begin begins another cluster with the data of one member.
func (s *State) begin(first *Slot) {
	s.Before, s.Era, s.Owed = uint8(s.voters()), s.Era+1, first.Has //nolint:gosec // five at most
	for i := range s.Slots[:s.N] {
		l := &s.Slots[i]
		switch {
		case l == first:
			l.Role, l.Data, l.Ran, l.Told = Voter, Own, true, true
			continue
		case l.Data == Own && l.voter():
			l.Data = Past
		case l.Data == Own:
			l.Data = Removed
		}
		l.Role, l.Ran, l.Leads, l.Has = None, false, false, 0
		l.Request, l.Plan = Nothing, [2]uint8{} // requests name members of the cluster before
	}
}
