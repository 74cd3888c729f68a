// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
)

// pair is two operators that both believe that they lead. Each waits before every write until it is its turn.
type pair struct {
	*run
	operators [2]*operator
	// schedule says, bit by bit, whose turn it is when both wait; after its end they alternate.
	schedule uint
	bound    int

	mu      sync.Mutex
	waiting [2][]chan struct{}
	turns   int
}

// park waits for the turn of an operator.
func (p *pair) park(i int) func(disturb.Write) disturb.Fate {
	return func(w disturb.Write) disturb.Fate {
		turn := make(chan struct{})
		p.mu.Lock()
		p.waiting[i] = append(p.waiting[i], turn)
		p.mu.Unlock()
		<-turn
		return p.decide(w)
	}
}

// next lets one write through; false if none waits.
func (p *pair) next() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := 0
	switch a, b := len(p.waiting[0]), len(p.waiting[1]); {
	case a == 0 && b == 0:
		return false
	case a > 0 && b > 0:
		if i = p.turns % 2; p.turns < p.bound {
			i = int(p.schedule>>p.turns) & 1
		}
		p.turns++
	case b > 0:
		i = 1
	}
	turn := p.waiting[i][0]
	p.waiting[i] = p.waiting[i][1:]
	close(turn)
	return true
}

// round has both operators look at once, on the same state, and their writes arrive as the schedule says.
func (p *pair) round(ctx context.Context) {
	var both sync.WaitGroup
	active := p.operators[:]
	if active[0] == active[1] {
		active = active[:1]
	}
	for _, o := range active {
		o.Deliver()
	}
	for _, o := range active {
		// What one of them is refused, it sees later.
		both.Go(func() { _ = o.look(ctx) })
	}
	for {
		synctest.Wait()
		if !p.next() {
			break
		}
	}
	both.Wait()
	p.step(ctx)
}

// twins is for how many rounds there are two: for twice as long as it takes until the lease of the first has ended.
const twins = 60

// performTwice runs a scenario with two operators.
func performTwice(t *testing.T, s scenario, schedule uint, bound int) (out outcome) {
	t.Helper()
	agent := disturb.NewAgent()
	defer agent.Close()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		p := &pair{run: &run{t: t, scenario: s, agent: agent}, schedule: schedule, bound: bound}
		p.begin(ctx)
		p.armed = true
		for i := range p.operators {
			p.operators[i] = newOperator(t, p.world, agent.URL, s.whole, p.park(i))
		}
		quiet := 0
		for n := range maxRounds {
			before := len(p.writes)
			if n == twins {
				// In lockstep, each could refuse the other's last write for as long as there are two.
				p.operators[1] = p.operators[0]
			}
			p.round(ctx)
			if quiet++; len(p.writes) != before || !p.read(ctx).Status.State.IsFinal() {
				quiet = 0
			}
			if quiet == 24 {
				out = p.outcome(ctx)
				return
			}
		}
		t.Fatalf("it does not end: %+v", p.status(ctx))
	})
	return out
}

// Two operators at once, at every interleaving of their writes up to a bound, do what one does, and nothing twice.
func TestTwoOperators(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			bound := 3
			switch {
			case *all && !s.whole:
				bound = 10
			case (s.taskType == v1alpha1.MembershipChange || s.surges) && !*all:
				bound = 1
			case s.whole && !*all:
				t.Skip("it takes minutes: -crash-all")
			}
			want := perform(t, s, disturbance{})
			for schedule := range uint(1) << bound {
				got := performTwice(t, s, schedule, bound)
				if len(got.broken) > 0 || got.state != want.state || got.acts != want.acts {
					t.Fatalf("schedule %s: broken %v, it ends as\n%s\n%s\nand not as\n%s\n%s\nwrites: %v\nstatus: %s", fmt.Sprintf("%0*b", bound, schedule), got.broken, got.state, got.acts, want.state, want.acts, got.writes, got.why)
				}
			}
			t.Logf("%d interleavings", 1<<bound)
		})
	}
}
