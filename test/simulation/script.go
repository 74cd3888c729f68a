// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/simulation/loop"
)

// Script is what happens to a system: a run follows from it, and from its seed, which decides the order of everything else.
type Script struct {
	Seed uint64
	// Members that the Etcd begins with.
	Members int32
	// Etcds is how many there are, if there is a fleet.
	Etcds      int
	Faults     []Fault
	Operations []Operation
}

// Fault begins at a time, counted from when the Etcd serves, and lasts for a while. Pick decides what it hits.
type Fault struct {
	At, For time.Duration
	Name    string
	Pick    uint64
}

// Operation is one of a user, who begins the next one after a while.
type Operation struct {
	Name string
	Pick uint64
	Then time.Duration
}

// horizon is when the last fault begins at the latest: all operations have begun long before.
const horizon = time.Hour

// NewScript draws what a seed stands for: half of the kinds of faults, one after another and several at a time.
func NewScript(seed uint64) Script {
	users, chaos := loop.Random(seed, "users"), loop.Random(seed, "chaos")
	s := Script{Seed: seed, Members: []int32{3, 3, 5, 1}[users.IntN(4)]}
	for range operations {
		s.Operations = append(s.Operations, Operation{wishes[users.IntN(len(wishes))].name, users.Uint64N(1000), time.Duration(20+users.IntN(180)) * time.Second})
	}
	s.Faults = drawFaults(chaos, horizon, 25)
	return s
}

// drawFaults draws half of the kinds of faults, up to a time, with so many seconds at most between two of them.
func drawFaults(chaos *rand.Rand, until time.Duration, apart int) (all []Fault) {
	kinds := chaos.Perm(len(troubles))[:(len(troubles)+1)/2]
	for at := time.Duration(0); at < until; {
		at += time.Duration(1+chaos.IntN(apart)) * time.Second
		k := troubles[kinds[chaos.IntN(len(kinds))]]
		all = append(all, Fault{at, time.Duration(1+chaos.IntN(k.most)) * time.Second, k.name, chaos.Uint64N(1000)})
	}
	return all
}

func picked(pick uint64) *rand.Rand { return rand.New(rand.NewPCG(pick, 0)) }

// String writes a script as ParseScript reads it.
func (s Script) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\nmembers %d\n", s.Seed, s.Members)
	if s.Etcds > 0 {
		fmt.Fprintf(&b, "etcds %d\n", s.Etcds)
	}
	for _, f := range s.Faults {
		fmt.Fprintf(&b, "fault at %s for %s, %d: %s\n", f.At, f.For, f.Pick, f.Name)
	}
	for _, o := range s.Operations {
		fmt.Fprintf(&b, "user waits %s after, %d: %s\n", o.Then, o.Pick, o.Name)
	}
	return b.String()
}

// ParseScript reads a script. Lines that begin with # say why it is kept.
func ParseScript(text string) (s Script, err error) {
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() && err == nil {
		line := lines.Text()
		what, name, _ := strings.Cut(line, ": ")
		var at, long string
		var pick uint64
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case scans(line, "seed %d", &s.Seed), scans(line, "members %d", &s.Members), scans(line, "etcds %d", &s.Etcds):
		case scans(what, "fault at %s for %s %d", &at, &long, &pick):
			f := Fault{Name: name, Pick: pick}
			if f.At, err = time.ParseDuration(at); err == nil {
				f.For, err = time.ParseDuration(strings.TrimSuffix(long, ","))
			}
			s.Faults = append(s.Faults, f)
		case scans(what, "user waits %s after, %d", &at, &pick):
			o := Operation{Name: name, Pick: pick}
			o.Then, err = time.ParseDuration(at)
			s.Operations = append(s.Operations, o)
		default:
			err = fmt.Errorf("a script has no line %q", line)
		}
	}
	return s, err
}

func scans(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// Shrink leaves out of a script what it does not take to fail in the same way: operations, from the last one on, and faults, many at a time at
// first. Without a fault the rest of the run is another one, so each attempt is a run.
func (s Script) Shrink(fails func(Script) bool) Script {
	try := func(change func(*Script)) bool {
		next := s
		if change(&next); !fails(next) {
			return false
		}
		s = next
		return true
	}
	for len(s.Operations) > 0 && try(func(n *Script) { n.Operations = n.Operations[:len(n.Operations)-1] }) {
	}
	for step := len(s.Faults); step > 0; step /= 2 {
		for from := len(s.Faults); from > 0; from -= step {
			least := max(from-step, 0)
			try(func(n *Script) { n.Faults = append(append([]Fault(nil), s.Faults[:least]...), s.Faults[from:]...) })
		}
	}
	for i := len(s.Operations) - 1; i >= 0; i-- {
		try(func(n *Script) {
			n.Operations = append(append([]Operation(nil), s.Operations[:i]...), s.Operations[i+1:]...)
		})
	}
	return s
}
