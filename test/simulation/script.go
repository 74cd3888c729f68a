// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
	Etcds int
	// Store: the Etcd has backups.
	Store      bool
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

// Draw is how scripts are drawn.
type Draw bool

// Swarm: each seed has its own part of the users and of the faults, with weights and at a pace of its own, so that what seldom meets does in some of
// them. Plain: each of them may be drawn at any time, with equal chances.
const (
	Swarm Draw = true
	Plain Draw = false
)

// Script draws what a seed stands for.
func (d Draw) Script(seed uint64) Script {
	users := loop.Random(seed, "users")
	s := Script{Seed: seed, Members: []int32{3, 3, 5, 1}[users.IntN(4)], Store: loop.Random(seed, "store").IntN(2) == 0}
	s.Operations = d.operations(users, wishes, 10, 180)
	s.Faults = d.faults(loop.Random(seed, "chaos"), s.operating(), 25)
	return s
}

// operations draws four operations, with a pause of so many seconds after each, and up to so many more. With a swarm there are mostly more of them, and some
// are eight times as fast.
func (d Draw) operations(random *rand.Rand, all []wish, least, more int) (drawn []Operation) {
	number, fast := 4, 1
	if d == Swarm {
		number, fast = 4+random.IntN(11), 1<<random.IntN(4)
	}
	kinds := d.mix(random, len(all))
	for range number {
		pause := time.Duration(least+random.IntN(more)) * time.Second / time.Duration(fast)
		drawn = append(drawn, Operation{all[kinds[random.IntN(len(kinds))]].name, random.Uint64N(1000), pause})
	}
	return drawn
}

// faults draws faults, up to a time, one after another and several at a time, with so many seconds at most between two of them.
func (d Draw) faults(random *rand.Rand, until time.Duration, apart int) (all []Fault) {
	if d == Swarm {
		apart = max(4, apart*(1<<random.IntN(4))/4)
	}
	kinds := d.mix(random, len(troubles))
	for at := time.Duration(0); at < until; {
		at += time.Duration(1+random.IntN(apart)) * time.Second
		k := troubles[kinds[random.IntN(len(kinds))]]
		all = append(all, Fault{at, time.Duration(1+random.IntN(k.most)) * time.Second, k.name, random.Uint64N(1000)})
	}
	return all
}

// mix returns what a seed draws from, of n kinds: all of them, or half, each as often as its weight says.
func (d Draw) mix(random *rand.Rand, n int) (kinds []int) {
	if d == Plain {
		return random.Perm(n)
	}
	for _, kind := range random.Perm(n)[:(n+1)/2] {
		kinds = append(kinds, slices.Repeat([]int{kind}, 1<<random.IntN(4))...)
	}
	return kinds
}

// operating is for how long users act. Faults begin until then.
func (s Script) operating() (all time.Duration) {
	for _, o := range s.Operations {
		all += o.Then
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
	if s.Store {
		fmt.Fprintln(&b, "store")
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
		case line == "store":
			s.Store = true
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
	return s, errors.Join(err, s.validate())
}

// validate checks that there is what a script names.
func (s Script) validate() error {
	for _, f := range s.Faults {
		if !slices.ContainsFunc(slices.Concat(troubles, scriptTroubles), func(k trouble) bool { return k.name == f.Name }) {
			return fmt.Errorf("there is no fault %q", f.Name)
		}
	}
	for _, o := range s.Operations {
		if !slices.ContainsFunc(slices.Concat(wishes, fleetWishes, scriptWishes), func(w wish) bool { return w.name == o.Name }) {
			return fmt.Errorf("there is no user who %s", o.Name)
		}
	}
	return nil
}

func scans(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// Shrink leaves out of a script what it does not take to fail in the same way: operations, from the last one on, and faults, many at a time at
// first. Without a fault the rest of the run is another one, even if that fault never began, so each attempt is a run; of what is left then, some goes
// with another seed.
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
	for i := len(s.Faults) - 1; i >= 0; i-- {
		for another := range uint64(4) {
			if try(func(n *Script) { n.Seed, n.Faults = s.Seed+another, slices.Delete(slices.Clone(s.Faults), i, i+1) }) {
				break
			}
		}
	}
	return s
}
