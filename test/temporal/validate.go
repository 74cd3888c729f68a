// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package temporal

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Sight is how old what an operator acts on may be, with the time for which a request may be late.
const Sight = 8 * time.Second

// mostBetween is how many steps may lie between two states of a recording.
const mostBetween = 8

// widest is how many states are followed at a time: those that are nearest to the next one of the recording.
const widest = 200

// Recorded is what a cluster was at a time.
type Recorded struct {
	At    time.Duration
	State State
}

// Read reads a recording: in each line milliseconds, and a word for each ordinal. TestRecord in test/simulation writes it.
func Read(r io.Reader) (all []Recorded, err error) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || len(fields) > Most+1 {
			return nil, fmt.Errorf("reading %q: not a time and a word for each of at most %d ordinals", lines.Text(), Most)
		}
		var ms int64
		if _, err := fmt.Sscan(fields[0], &ms); err != nil {
			return nil, fmt.Errorf("reading the time of %q: %w", lines.Text(), err)
		}
		s := State{N: uint8(len(fields) - 1), Owed: 1} //nolint:gosec // five at most
		for i, word := range fields[1:] {
			if len(word) < 11 {
				return nil, fmt.Errorf("reading %q: %q is too short", lines.Text(), word)
			}
			s.Slots[i] = slotOf(word)
		}
		all = append(all, Recorded{time.Duration(ms) * time.Millisecond, s})
	}
	return all, nil
}

func slotOf(word string) Slot {
	at := func(i int, of string) uint8 { return uint8(max(strings.IndexByte(of, word[i]), 0)) } //nolint:gosec // few
	l := Slot{
		Role: at(0, "NLV"), Process: at(1, "SRF"), Node: at(2, "SDC"), Data: at(3, "EOR"), Pod: min(at(4, "APEU"), Ending),
		Leads: word[5] == 'L', Ran: word[6] == 'R' || word[3] == 'O', Set: word[8] == 'S', ClaimEnds: word[9] == 'C', Wanted: word[10] == 'W',
		Outdated: true, Told: true, Doomed: word[4] == 'U', // a user may have deleted the pod
	}
	if word[7] == 'H' && l.Data == Own {
		l.Has = 1
	}
	return l
}

// Validate reports the first step of a recording that the model does not allow, once all members have begun the cluster, which is not modeled.
func (m *Model) Validate(all []Recorded) error {
	for len(all) > 0 && all[0].State.count((*Slot).voter) != all[0].State.count(all[0].State.votes) {
		all = all[1:]
	}
	for i := 1; i < len(all); i++ {
		all[i].State.keep(&all[i-1].State)
		first := i - 1
		for first > 0 && all[i].At-all[first].At < Sight {
			first--
		}
		if err := m.leads(all[first:i], &all[i].State); err != nil {
			return fmt.Errorf("at %s: %w", all[i].At, err)
		}
	}
	return nil
}

// keep has members have what they had while there is no leader, with which a recording compares them.
func (s *State) keep(before *State) {
	for i := range s.Slots[:s.N] {
		if l := &s.Slots[i]; !s.led() && l.Data == Own {
			l.Has = before.Slots[i].Has
		}
	}
}

// leads reports whether steps of the model lead from the newest of some states to another one. An act may rest on what was so in any of them.
func (m *Model) leads(seen []Recorded, to *State) error {
	level, visited := []State{seen[len(seen)-1].State}, map[State]bool{}
	for i := range to.Slots {
		level[0].Slots[i].Wanted = to.Slots[i].Wanted // what users ask for is free
	}
	nearest, least := level[0], Most*16
	for range mostBetween + 1 {
		var next []State
		for i := range level {
			differ := distance(&level[i], to)
			if differ == 0 {
				return nil
			}
			if differ < least {
				nearest, least = level[i], differ
			}
			next = m.nearer(next, seen, &level[i], to, visited)
		}
		slices.SortStableFunc(next, func(a, b State) int { return distance(&a, to) - distance(&b, to) })
		level = next[:min(len(next), widest)]
	}
	return fmt.Errorf("no steps lead from %v to %v; the nearest is %v", seen[len(seen)-1].State.Slots[:to.N], to.Slots[:to.N], nearest.Slots[:to.N])
}

// nearer appends the states after one step at a slot that differs. Faults are recorded: none is inserted that is over by then.
func (m *Model) nearer(next []State, seen []Recorded, s, to *State, visited map[State]bool) []State {
	add := func(after State) {
		for i := range after.Slots[:after.N] {
			l, t := &after.Slots[i], &to.Slots[i]
			l.Broken, l.Young, l.Late, l.Void, l.Request = false, false, false, false, Nothing
			l.Leads = l.Leads && after.votes(l) && after.quorate()
			l.Wanted, l.Outdated, l.Told, l.Doomed = t.Wanted, true, true, t.Doomed
		}
		after.Elected, after.Leaderless, after.Faults = false, 0, 1
		if !visited[after] {
			visited[after] = true
			next = append(next, after)
		}
	}
	for i := range s.Slots[:s.N] {
		if differ(&s.Slots[i], &to.Slots[i]) == 0 {
			continue
		}
		for a := range Actions {
			var after State
			s.Faults = 1
			if step := (Step{Action: uint8(a), Slot: uint8(i)}); unobserved(step.Name(), to.Slots[i].Doomed) && m.Take(s, &after, step) && (!Actions[a].Fault || distance(&after, to) < distance(s, to)) { //nolint:gosec // few
				add(after)
			}
		}
		for act := DeletePod; act <= DeleteClaim; act++ {
			if after, may := m.act(seen, s, i, act); may && (act != DeletePod || !to.Slots[i].Doomed) {
				add(after)
			}
		}
	}
	return next
}

// unobserved reports whether an action may be inserted between two states: none of an operator, a request or a recovery, and of a user only what is recorded.
func unobserved(name string, byUser bool) bool {
	if name == "user deletes the pod" {
		return byUser
	}
	for _, not := range []string{"user", "operator", "recovery", "deletion", "request", "time passes", "etcd carries out", "a client writes"} {
		if strings.Contains(name, not) {
			return false
		}
	}
	return true
}

// act carries an act out at once, if the guards allowed it in what was seen, and it breaks nothing.
func (m *Model) act(seen []Recorded, s *State, i int, act uint8) (after State, may bool) {
	may = m.mayDo(s, &s.Slots[i], act)
	for j := range seen {
		o := seen[j].State
		o.Leaderless = 2
		may = may || m.mayDo(&o, &o.Slots[i], act)
	}
	before := *s
	l, step := &before.Slots[i], Step{Slot: uint8(i)} //nolint:gosec // five at most
	before.fresh(seen)
	after = before
	switch act {
	case DeletePod:
		l.Late, step.Action = true, indexOf("deletion arrives")
	case ScaleUp, ScaleDown:
		after.Slots[i].Set = act == ScaleUp
		return after, may
	case DeleteClaim:
		after.Slots[i].ClaimEnds = true
		return after, may
	default:
		l.Request, step.Action = act, indexOf("etcd carries out")
	}
	may = may && m.Take(&before, &after, step) && Broken(&before, &after, step) == ""
	turn(&after.Slots[i].Role, Leaving, None)
	return after, may
}

// fresh marks what has changed within Sight.
func (s *State) fresh(seen []Recorded) {
	for i := range s.Slots[:s.N] {
		l := &s.Slots[i]
		for j := range seen {
			was := &seen[j].State
			l.Broken = l.Broken || was.votes(&was.Slots[i]) && was.Slots[i].Pod == Present && !s.votes(l) && l.Pod == Present
			l.Young = l.Young || !was.votes(&was.Slots[i])
			s.Elected = s.Elected || l.Leads && !was.Slots[i].Leads
		}
	}
}

func indexOf(name string) uint8 {
	for a := range Actions {
		if Actions[a].Name == name {
			return uint8(a) //nolint:gosec // few
		}
	}
	return 0
}

// distance is in how much of what is recorded two states differ.
func distance(a, b *State) (n int) {
	for i := range a.Slots[:a.N] {
		n += differ(&a.Slots[i], &b.Slots[i])
	}
	return n
}

func differ(l, o *Slot) (n int) {
	for _, differs := range []bool{l.Role != o.Role, l.Process != o.Process, l.Node != o.Node, l.Data != o.Data, l.Pod != o.Pod, l.Has < o.Has, l.Leads != o.Leads, l.Ran != o.Ran, l.Set != o.Set, l.ClaimEnds != o.ClaimEnds} {
		if differs {
			n++
		}
	}
	return n
}
