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

// chaos injects faults, one after another and several at a time, and ends each of them.
type chaos struct {
	*World
	t      testing.TB
	random *rand.Rand
	// kinds are those that this seed injects: half of all.
	kinds []trouble
	// over: no more faults are injected. open is how many have not ended.
	over bool
	open int
	// started counts the operators.
	started int
	failed  map[string]bool
}

// trouble is a fault that begins and ends.
type trouble struct {
	name string
	// most is for how long it lasts at most, in seconds.
	most  int
	begin func(c *chaos) (end func())
}

var troubles = []trouble{
	{"API server fails", 60, (*chaos).failing},
	{"watches are late", 60, (*chaos).lagging},
	{"a watch is held", 60, (*chaos).holding},
	{"node without power", 90, func(c *chaos) func() { return c.loseNode(true) }},
	{"node cut off", 90, func(c *chaos) func() { return c.loseNode(false) }},
	{"operator sees only a member that is cut off", 90, (*chaos).blinding},
	{"member frozen", 60, (*chaos).freezing},
	{"member killed", 1, (*chaos).killing},
	{"pod deleted by a user", 1, (*chaos).deleting},
	{"volume lost", 30, (*chaos).wiping},
	{"volumes of a quorum lost", 30, (*chaos).wipingMost},
	{"operator replaced", 30, (*chaos).replacing},
	{"operator paused beside another one", 60, (*chaos).pausing},
}

func newChaos(t testing.TB, w *World) *chaos {
	c := &chaos{World: w, t: t, random: w.Random("chaos"), failed: map[string]bool{}}
	for _, i := range c.random.Perm(len(troubles))[:(len(troubles)+1)/2] {
		c.kinds = append(c.kinds, troubles[i])
	}
	return c
}

// run injects a fault now and then.
func (c *chaos) run() {
	c.After(time.Duration(1+c.random.IntN(25))*time.Second, "chaos", "", func() {
		if c.over {
			return
		}
		k := c.kinds[c.random.IntN(len(c.kinds))]
		if end := k.begin(c); end != nil {
			c.faults.injected[k.name]++
			c.Log("chaos", "begins: "+k.name)
			c.open++
			c.After(time.Duration(1+c.random.IntN(k.most))*time.Second, "chaos", "ends: "+k.name, func() {
				c.open--
				end()
			})
		}
		c.run()
	})
}

// start starts another operator, unless there is one that is not paused: leader election sees to that. Its cache may begin with what was some
// changes ago.
func (c *chaos) start() {
	if slices.ContainsFunc(c.operators, func(o *operator) bool { return !o.actor.Paused }) {
		return
	}
	c.started++
	c.StartOperator(c.t, fmt.Sprintf("op%d", c.started), func(string) int {
		if c.over || c.random.IntN(4) > 0 {
			return 0
		}
		return c.random.IntN(20)
	})
}
