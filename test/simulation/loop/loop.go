// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package loop runs a simulation: one thing at a time, in virtual time, in an order that a seed decides. It runs in a bubble of testing/synctest.
//
// What happens is of two kinds. An event is due at a time: a pod starts, a watch delivers, a node is lost. A call is what a goroutine of the
// system under test asks of the world: it parks, and waits until it is drawn. Whenever all goroutines wait, the loop draws one of the calls
// and carries it out itself, and releases that goroutine alone. Only when no call is parked does time move, to the next event. So at any moment at
// most one goroutine runs, and the same seed gives the same run, which the hash of the Trace shows.
package loop

import (
	"container/heap"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// Loop is one run.
type Loop struct {
	Trace *Trace
	seed  uint64
	begun time.Time
	due   events
	count int
	ties  *rand.Rand
	turns *rand.Rand

	mu     sync.Mutex
	parked []*call
	// open are the calls that were drawn and not released.
	open []*call
	// running are the goroutines that Start has started and that have not ended, with the number of their calls that were not released.
	running map[string]int
}

// Actor is whose calls are parked. While it is paused, none of them is drawn.
type Actor struct{ Paused bool }

type call struct {
	actor     *Actor
	who, what string
	do        func(release func())
	released  chan struct{}
	// refused: the loop is closing, and the call was not carried out.
	refused bool
}

// patience is how far time moves at most while a goroutine waits for something other than a call, such as a timer of its own.
const patience = 20 * time.Millisecond

// New makes the loop of a seed.
func New(seed uint64) *Loop {
	l := &Loop{Trace: newTrace(), seed: seed, begun: time.Now(), running: map[string]int{}}
	l.ties, l.turns = l.Random("ties"), l.Random("turns")
	return l
}

// Random returns the stream of random numbers of a purpose. Each purpose has its own, so that what one draws changes nothing for the others.
func (l *Loop) Random(purpose string) *rand.Rand { return Random(l.seed, purpose) }

// Random returns the stream of random numbers that a seed has for a purpose.
func Random(seed uint64, purpose string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(purpose))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// Now returns for how long the run has lasted.
func (l *Loop) Now() time.Duration { return time.Since(l.begun) }

// After has something done after a while. What happens at the same moment happens in an order that the seed decides.
func (l *Loop) After(d time.Duration, who, what string, do func()) {
	l.count++
	heap.Push(&l.due, &event{at: l.Now() + max(d, 0), tie: l.ties.Uint64(), count: l.count, who: who, what: what, do: do})
}

// Log adds a line to the Trace.
func (l *Loop) Log(who, what string) { l.Trace.add(l.Now(), who, what) }

// Start starts a goroutine of the system under test. One name is that of one goroutine at a time.
func (l *Loop) Start(who string, do func()) {
	l.mu.Lock()
	l.running[who] = 0
	l.mu.Unlock()
	go func() {
		do()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.running, who)
	}()
}

// most is how much may happen at one moment. More is something that never ends.
const most = 20_000

// Run carries out what is due until a time, or until done says so after a step. It returns false if something never ends.
func (l *Loop) Run(until time.Duration, done func() bool) bool {
	for at, steps := l.Now(), 0; ; steps++ {
		synctest.Wait()
		if now := l.Now(); now != at {
			at, steps = now, 0
		}
		if steps > most {
			l.Log("loop", "what happens at this moment never ends")
			return false
		}
		switch c := l.draw(); {
		case c != nil:
			l.Log(c.who, c.what)
			c.do(func() { l.release(c) })
		case !l.pop(until):
			return true
		}
		if done() {
			return true
		}
	}
}

// Close ends what still runs: each call is refused.
func (l *Loop) Close() {
	for {
		synctest.Wait()
		l.mu.Lock()
		refused := append(slices.Clone(l.open), l.parked...)
		l.parked = nil
		l.mu.Unlock()
		if len(refused) == 0 {
			return
		}
		for _, c := range refused {
			c.refused = true
			l.release(c)
		}
	}
}

// pop carries out the next event, or moves time towards it. It returns false when none is due until a time.
func (l *Loop) pop(until time.Duration) bool {
	wait := until - l.Now()
	if len(l.due) > 0 {
		wait = min(wait, l.due[0].at-l.Now())
	}
	switch {
	case wait > 0:
		if l.waits() {
			wait = min(wait, patience)
		}
		<-time.After(wait)
		return true
	case len(l.due) == 0 || l.due[0].at > until:
		return false
	}
	e := heap.Pop(&l.due).(*event)
	if e.what != "" {
		l.Log(e.who, e.what)
	}
	e.do()
	return true
}

// waits reports whether a goroutine waits for something other than a call.
func (l *Loop) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, calls := range l.running {
		if calls == 0 {
			return true
		}
	}
	return false
}
