// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package temporal

// Action changes a state at one slot, and reports whether it is possible there.
type Action struct {
	Name  string
	Fault bool
	Do    func(m *Model, s *State, l *Slot) bool
}

// Actions are what may happen around the operators.
var Actions = []Action{
	{"member dies", true, func(_ *Model, s *State, l *Slot) bool { return s.breaks(l, l.Process != Stopped) && l.stop() }},
	{"member freezes", true, func(_ *Model, s *State, l *Slot) bool {
		return s.breaks(l, l.Process == Running) && turn(&l.Process, Running, Frozen)
	}},
	{"node out of sight", true, func(_ *Model, _ *State, l *Slot) bool { return turn(&l.Node, Seen, Dark) }},
	{"node cut off", true, func(_ *Model, s *State, l *Slot) bool { return s.breaks(l, l.Node == Seen) && turn(&l.Node, Seen, Cut) }},
	{"volume lost", true, func(_ *Model, s *State, l *Slot) bool { return s.breaks(l, l.Data != Empty) && l.lose() }},
	{"user deletes the pod", true, func(_ *Model, s *State, l *Slot) bool {
		return s.breaks(l, l.Pod == Present) && turn(&l.Pod, Present, Ending)
	}},
	{"user deletes the claim", true, func(_ *Model, _ *State, l *Slot) bool {
		l.Doomed = true
		return l.Data != Empty && set(&l.ClaimEnds)
	}},
	{"user asks for a recovery", false, func(_ *Model, s *State, l *Slot) bool {
		asks := s.first(l) && s.Recoverable
		s.Recoverable = false
		return asks && turn(&s.Recovery, NotAsked, Asked)
	}},
	{"time passes", false, tick},
	{"member thaws", false, func(_ *Model, _ *State, l *Slot) bool {
		l.Young = true
		return turn(&l.Process, Frozen, Running)
	}},
	{"node is back", false, func(_ *Model, _ *State, l *Slot) bool {
		l.Young = true
		return turn(&l.Node, Dark, Seen) || turn(&l.Node, Cut, Seen)
	}},
	{"StatefulSet makes the pod", false, func(_ *Model, _ *State, l *Slot) bool {
		l.Outdated = l.Outdated && l.Pod != Absent
		return l.Set && !l.ClaimEnds && turn(&l.Pod, Absent, Present)
	}},
	{"StatefulSet scales the pod away", false, func(_ *Model, _ *State, l *Slot) bool { return !l.Set && turn(&l.Pod, Present, Ending) }},
	{"pod ends", false, func(_ *Model, s *State, l *Slot) bool {
		for k := range l.Plan { // what was decided about this pod hits no other one
			s.Current[k] = s.Current[k] && l.Plan[k] == Nothing
		}
		l.stop()
		turn(&l.Intent, DeletePod, Nothing)
		l.Late, l.Void = false, l.Void || l.Late
		return l.Node == Seen && turn(&l.Pod, Ending, Absent)
	}},
	{"claim ends", false, func(_ *Model, _ *State, l *Slot) bool { return l.Pod == Absent && unset(&l.ClaimEnds) && l.lose() }},
	{"agent reads that its member is not alone", false, func(_ *Model, s *State, l *Slot) bool {
		return l.voter() && l.Process == Running && l.Node == Seen && s.count(func(o *Slot) bool { return o.Wanted }) > 1 && set(&l.Told)
	}},
	{"agent starts the member", false, start},
	{"member hears that it was removed", false, func(_ *Model, s *State, l *Slot) bool {
		return l.Process == Running && l.Data != Own && s.quorate() && l.Node != Cut && l.stop()
	}},
	{"member is elected", false, elect},
	{"member catches up", false, func(_ *Model, s *State, l *Slot) bool {
		lacks := l.Has < s.Owed && l.runs() && s.led() && s.reached(l)
		l.Has = s.Owed
		return lacks
	}},
	{"a client writes", false, write},
	{"deletion arrives", false, func(m *Model, _ *State, l *Slot) bool {
		arrives := l.Pod == Present && (l.Late || l.Void && m.lacks("Preconditions"))
		l.Late, l.Void, l.Pod, l.Broken = false, false, Ending, false
		return arrives
	}},
	{"deletion fails", false, func(_ *Model, _ *State, l *Slot) bool {
		fails := l.Late || l.Void
		l.Late, l.Void = false, false
		return fails
	}},
	{"request to etcd is lost", false, func(_ *Model, _ *State, l *Slot) bool {
		return l.Request != Nothing && turn(&l.Request, l.Request, Nothing)
	}},
	{"etcd carries out", false, carryOut},
	{"operator settles", false, (*Model).settle},
	{"operator revokes", false, (*Model).revoke},
	{"recovery stops all members", false, func(m *Model, s *State, l *Slot) bool { return s.first(l) && m.stopAll(s) }},
	{"recovery starts", false, (*Model).choose},
}

func (s *State) first(l *Slot) bool { return l == &s.Slots[0] }

func turn(what *uint8, is, becomes uint8) bool {
	was := *what == is
	if was {
		*what = becomes
	}
	return was
}

func set(what *bool) bool {
	was := *what
	*what = true
	return !was
}

func unset(what *bool) bool {
	was := *what
	*what = false
	return was
}

func (l *Slot) stop() bool {
	ran := l.Process != Stopped
	l.Process, l.Leads = Stopped, false
	return ran
}

func (l *Slot) lose() bool {
	l.stop()
	l.Has, l.Data = 0, Empty
	return true
}

// breaks notes that a fault stops a member that was part of the quorum.
func (s *State) breaks(l *Slot, possible bool) bool {
	l.Broken = l.Broken || l.runs() && l.Pod == Present
	return possible
}

// tick lets so much time pass that operators do not act on what they have observed before. From now on, what faults have broken until now is held against
// an act, unless it is one that is under way.
func tick(m *Model, s *State, l *Slot) bool {
	elected := s.led() || !s.quorate() // which takes less time than that
	if !s.leaderKnown() {
		s.Leaderless = min(s.Leaderless+1, 2)
	}
	under := s.count(func(l *Slot) bool { return l.Late || l.Request != Nothing }) > 0
	s.Elected = s.Elected && under
	for i := range s.Slots[:s.N] {
		o := &s.Slots[i]
		o.Broken, o.Young, o.Doomed = o.Broken && under, o.Young && under, o.Doomed && under
		if m.lacks("ObservationFresh") {
			continue
		}
		o.Plan, s.Current, s.Recorded = [2]uint8{}, [2]bool{}, [2]bool{}
	}
	return elected && s.first(l)
}

// start is what the agent decides before etcd starts, by the data and by what the other members say.
func start(m *Model, s *State, l *Slot) bool {
	serve := s.quorate() && s.led() && l.Node != Cut
	switch {
	case l.Pod != Present || l.Process != Stopped:
		return false
	case l.Data == Own, l.Data == Removed && (!serve || m.lacks("RemovedDataStays")):
		l.Process, l.Young = Running, true
	case l.Data != Empty:
		return serve && l.lose() // it is moved aside
	case serve && l.learner() && !l.Ran, l.Role != None && m.lacks("DataLostWaits"):
		l.Process, l.Young, l.Data, l.Ran, l.Told, l.Has = Running, true, Own, true, true, 0
	case !serve && l.voter() && !l.Told:
		s.begin(l) // from the backup, which may have nothing
		l.Process = Running
	default:
		return false
	}
	return true
}

// elect makes a member leader that has as much as each of a quorum that votes for it. Raft counts a removed leader until then.
func elect(_ *Model, s *State, l *Slot) bool {
	if s.led() || !s.votes(l) || !s.quorate() || s.count(func(o *Slot) bool { return s.votes(o) && o.Has <= l.Has }) < quorum(s.count((*Slot).counts)) {
		return false
	}
	for i := range s.Slots[:s.N] {
		turn(&s.Slots[i].Role, Leaving, None)
	}
	s.Elected = true
	return set(&l.Leads)
}

// write acknowledges a write once a quorum has it.
func write(_ *Model, s *State, l *Slot) bool {
	follows := func(o *Slot) bool { return s.votes(o) && s.serves(o) }
	if !s.first(l) || s.Writes == 0 || s.count(follows) < quorum(s.voters()) {
		return false
	}
	for i := range s.Slots[:s.N] {
		if o := &s.Slots[i]; s.serves(o) {
			o.Has++
		}
	}
	s.Owed, s.Writes = s.Owed+1, s.Writes-1
	return true
}

// carryOut is what etcd does with a request for a change of the list. What else it refuses by itself is left out: the guards have to do without that.
func carryOut(_ *Model, s *State, l *Slot) bool {
	act := l.Request
	l.Request = Nothing
	switch {
	case !s.led():
		return false
	case act == AddLearner:
		l.Ran = false
		return s.count((*Slot).learner) == 0 && turn(&l.Role, None, Learner)
	case act == Promote:
		return l.Ran && turn(&l.Role, Learner, Voter)
	case act == MoveLeader && s.votes(l) && s.serves(l):
		for i := range s.Slots[:s.N] {
			s.Slots[i].Leads = false
		}
		return set(&l.Leads)
	case act == Remove && (l.Role == Learner || l.Role == Voter):
		l.Role = None
		if unset(&l.Leads) {
			l.Role = Leaving
		}
		l.Ran, l.Has = false, 0
		turn(&l.Data, Own, Removed)
		return true
	}
	return false
}
