// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// chaos injects the faults of a script, and ends each of them.
type chaos struct {
	*World
	t testing.TB
	// random draws for the fault that begins now.
	random *rand.Rand
	// over: no more faults are injected. open is how many have not ended.
	over bool
	open int
	// ends end the faults that have begun, once.
	ends []func()
	// started counts the operators, and zones the times that nodes were cut off together.
	started, zones int
}

// trouble is a fault that begins and ends.
type trouble struct {
	name string
	// most is for how long it lasts at most, in seconds.
	most int
	// begin returns nil if there is nothing that it could hit.
	begin func(c *chaos) (end func())
}

var troubles = []trouble{
	{"API server fails", 60, (*chaos).failing},
	{"watches are late", 60, (*chaos).lagging},
	{"a watch is held", 60, (*chaos).holding},
	{"node without power", 90, func(c *chaos) func() { return c.loseNode(true) }},
	{"node cut off", 90, func(c *chaos) func() { return c.loseNode(false) }},
	{"nodes of most members cut off together", 240, (*chaos).splitting},
	{"operator sees only a member that is cut off", 90, (*chaos).blinding},
	{"member frozen", 60, (*chaos).freezing},
	{"member killed", 1, (*chaos).killing},
	{"a member takes another for disconnected", 1, (*chaos).doubting},
	{"pod deleted by a user", 1, (*chaos).deleting},
	{"controllers of Kubernetes stand still", 120, func(c *chaos) func() { return c.set(&c.faults.still) }},
	{"pods end slowly", 120, func(c *chaos) func() { return c.set(&c.faults.slowly) }},
	{"node lost for long", 600, func(c *chaos) func() { return c.loseNode(c.random.IntN(2) == 0) }},
	{"node drained", 120, (*chaos).draining},
	{"volume lost", 30, func(c *chaos) func() { return c.harmingOne((*pod).lose) }},
	{"volumes of a quorum lost", 30, func(c *chaos) func() { return c.harmingMost((*pod).lose) }},
	{"volume damaged", 30, func(c *chaos) func() { return c.harmingOne((*pod).damage) }},
	{"volumes of a quorum damaged", 30, func(c *chaos) func() { return c.harmingMost((*pod).damage) }},
	{"volume of the only member lost", 30, (*chaos).wipingOnly},
	{"volumes of all members lost", 30, (*chaos).wipingAll},
	{"store does not answer", 60, (*chaos).storeDown},
	{"a new cluster loses its first node or volume", 180, (*chaos).losingNew},
	{"operator replaced", 30, (*chaos).replacing},
	{"operator ends after it has promoted or removed a member", 30, (*chaos).endingAfterChange},
	{"operator replaced by one whose clock is off", 30, (*chaos).skewing},
	{"operator paused beside another one", 60, (*chaos).pausing},
	{"removals arrive late", 120, func(c *chaos) func() { return c.set(&c.faults.delayed) }},
	{"pods are replaced before their removal arrives", 120, func(c *chaos) func() { return c.set(&c.faults.replaced) }},
}

// scriptTroubles are faults that scripts have, and no seed draws.
var scriptTroubles = []trouble{
	{"agents end while they replace data", 300, func(c *chaos) func() { return c.set(&c.faults.torn) }},
}

func newChaos(t testing.TB, w *World) *chaos {
	return &chaos{World: w, t: t, random: w.Random("operators")}
}

// run injects faults when it is their time.
func (c *chaos) run(all []Fault) {
	for _, f := range all {
		all := slices.Concat(troubles, scriptTroubles)
		k := all[slices.IndexFunc(all, func(k trouble) bool { return k.name == f.Name })]
		c.After(f.At, "chaos", "", func() {
			c.random = picked(f.Pick)
			if c.over {
				return
			}
			if end := k.begin(c); end != nil {
				c.faults.injected[k.name]++
				c.Log("chaos", "begins: "+k.name)
				c.lasts(f.For, k.name, end)
			}
		})
	}
}

// lasts ends a fault after a while, or before.
func (c *chaos) lasts(d time.Duration, name string, end func()) {
	c.open++
	c.faults.going++
	ends := func() {
		if end != nil {
			c.Log("chaos", "ends: "+name)
			c.open--
			c.faults.going--
			end()
			end = nil
		}
	}
	c.ends = append(c.ends, ends)
	c.After(d, "chaos", "", ends)
}

// last is within what time the faults end that have begun once users have done what they do: what follows is the same again and again otherwise.
const last = 20 * time.Second

// finish lets no more faults begin, and those that have begun end within last.
func (c *chaos) finish() {
	c.over, c.faults.steady = true, true
	random := c.Random("ends")
	for _, end := range c.ends {
		c.After(time.Duration(random.Int64N(int64(last))), "chaos", "", end)
	}
	c.After(last, "chaos", "", func() {
		for _, o := range slices.Clone(c.operators) {
			if o.off.Abs() > mostOff {
				o.kill()
			}
		}
		c.start()
	})
}

// mostOff is how far the clock of an operator may be off in the end: by one that is off by more, reports of backups are of the future.
const mostOff = 30 * time.Second

// mostStale is how old the API server's answer is at most that a cache begins with.
const mostStale = time.Minute

// start starts another operator, unless there is one that is not paused: leader election sees to that. Its cache may begin with what was some
// changes ago.
func (c *chaos) start() {
	if slices.ContainsFunc(c.operators, func(o *operator) bool { return !o.actor.Paused }) {
		return
	}
	c.started++
	c.StartOperator(c.t, fmt.Sprintf("op%d", c.started), func(kind string) int {
		if c.over || c.random.IntN(4) > 0 {
			return 0
		}
		return min(c.random.IntN(20), c.API.Since(kind, time.Now().Add(-mostStale)))
	})
}
