// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package temporal

// quorumLeft reports whether the voters that serve are a quorum, as far as operators could know: one that a fault has just broken counts as well, and one
// whose pod is removed does not. What only just serves does not count before an act.
func (s *State) quorumLeft(after bool) bool {
	return s.count(func(l *Slot) bool {
		return l.voter() && (after && l.Broken || s.votes(l) && l.Pod == Present && (after || !l.Young))
	}) >= quorum(s.count((*Slot).counts))
}

// Broken returns which invariant a step breaks, empty if none. What is a rule of acting is no invariant: only what must not become of a cluster is.
func Broken(was, is *State, step Step) string {
	b, a, name := &was.Slots[step.Slot], &is.Slots[step.Slot], step.Name()
	before := is.count(func(l *Slot) bool { return l.Data == Past && l.Process == Running && l.Node != Cut })
	more := was.count(func(l *Slot) bool { return l.Role != None && l.Data == Own && l.Has > is.Owed })
	differ := 0
	for i := range is.Slots[:is.N] {
		if is.Slots[i].voter() != was.Slots[i].voter() {
			differ++
		}
	}
	acts := name == "deletion arrives" || name == "etcd carries out"
	switch {
	case is.count(func(l *Slot) bool { return l.Leads && l.Has < is.Owed }) > 0:
		return "an acknowledged write is lost: the leader does not have it"
	case is.Era != was.Era && more > 0:
		return "an acknowledged write is lost: a volume has it, and the new cluster has not"
	case is.Before > 0 && before >= quorum(int(is.Before)) && is.quorate():
		return "two clusters serve at a time"
	case is.Era == was.Era && differ > 1:
		return "the voters change by more than one"
	case acts && (was.votes(b) && !b.Young && was.voters() > 1 && (!b.Leads || !was.Elected || b.Request != Remove) || b.Request == Promote) && was.quorumLeft(false) && !is.quorumLeft(true):
		return "an act leaves a quorum that serves without one"
	case name == "recovery stops all members" && was.quorate():
		return "all members are stopped while a quorum serves"
	case name == "deletion arrives" && b.ClaimEnds && !b.Doomed && b.Role != None:
		return "the data of a listed member goes with its pod"
	case name == "sends to" && b.Role != None && (b.Set && !a.Set || !b.ClaimEnds && a.ClaimEnds):
		return "the pod or the claim of a listed member goes"
	case name == "agent starts the member" && b.Data == Removed && a.Process == Running && was.led() && was.quorate() && b.Node != Cut:
		return "a removed member returns"
	}
	return ""
}
