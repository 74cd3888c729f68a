// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// cluster is a cluster of members that are cut off, restarted, without power and replaced at random.
type cluster struct {
	*Etcd
	random *rand.Rand
	disks  []*Disk
	up     []*Member
	cut    []bool
}

func newCluster(seed uint64, n int) *cluster {
	c := &cluster{random: rand.New(rand.NewPCG(seed, 1)), up: make([]*Member, n), cut: make([]bool, n)}
	c.Etcd = New(rand.New(rand.NewPCG(seed, 2)))
	var founders []Peer
	for i := range n {
		founders = append(founders, Peer{ID: uint64(i + 1), Name: fmt.Sprint(i), Started: true})
	}
	for i := range n {
		d := &Disk{}
		d.Bootstrap("1", uint64(i+1), founders)
		c.disks = append(c.disks, d)
		c.up[i] = c.Start(fmt.Sprint(i), d)
	}
	c.Reaches = func(a, b *Member) bool { return !c.cut[number(a)] && !c.cut[number(b)] }
	return c
}

func number(m *Member) (i int) {
	_, _ = fmt.Sscan(m.Name, &i)
	return i
}

// disturb does something to a member.
func (c *cluster) disturb() {
	i := c.random.IntN(len(c.disks))
	switch m := c.up[i]; c.random.IntN(5) {
	case 0:
		c.cut[i] = !c.cut[i]
	case 1:
		if m != nil {
			m.Frozen = !m.Frozen
		}
	case 2:
		if m != nil {
			c.Stop(m)
			c.up[i] = nil
			if c.random.IntN(2) == 0 {
				c.disks[i].LosePower()
			}
		}
	case 3:
		if m == nil {
			c.up[i] = c.Start(fmt.Sprint(i), c.disks[i])
		}
	case 4:
		if m != nil {
			_ = c.MoveLeader(m, uint64(1+c.random.IntN(len(c.disks))))
		}
	}
}

// Whatever happens to members, no acknowledged write is lost, and all come to one log once they are well again.
func TestNoAcknowledgedWriteIsLost(t *testing.T) {
	acknowledged := 0
	for seed := range uint64(80) {
		c := newCluster(seed, 3+2*int(seed%2))
		for range 400 {
			if c.random.IntN(4) == 0 {
				c.disturb()
			}
			if running := c.Running(); len(running) > 0 {
				c.Write(running[c.random.IntN(len(running))])
			}
			c.Round()
		}
		for i := range c.disks {
			c.cut[i] = false
			if c.up[i] == nil {
				c.up[i] = c.Start(fmt.Sprint(i), c.disks[i])
			}
			c.up[i].Frozen = false
		}
		for range 60 {
			c.Round()
		}
		for i, d := range c.disks {
			if lost := Missing(d, c.Acknowledged["1"]); lost > 0 || d.Commit != c.disks[0].Commit {
				t.Fatalf("seed %d: member %d lacks %d writes, and has committed up to %d", seed, i, lost, d.Commit)
			}
		}
		if len(c.Broken) > 0 {
			t.Fatalf("seed %d: %v", seed, c.Broken)
		}
		acknowledged += len(c.Acknowledged["1"])
	}
	t.Logf("%d writes were acknowledged", acknowledged)
	if acknowledged < 80*20 {
		t.Errorf("only %d writes were acknowledged", acknowledged)
	}
}

// rounds are enough for what has begun to end.
func (c *cluster) rounds() {
	for range 2 * healthy {
		c.Round()
	}
}

// A member that considers another one disconnected refuses to change the list, until one of them starts again. Others do not refuse.
func TestDoubts(t *testing.T) {
	c := newCluster(1, 5)
	c.rounds()
	c.up[0].Doubts = 3
	if err := c.AddLearner(c.up[0], "url"); !errors.Is(err, ErrUnhealthy) {
		t.Fatalf("%v", err)
	}
	c.Stop(c.up[3])
	c.rounds()
	if err := c.Remove(c.up[0], 5); !errors.Is(err, ErrUnhealthy) {
		t.Fatalf("%v", err)
	}
	if err := c.Remove(c.up[1], 5); err != nil {
		t.Fatal(err)
	}
	c.Stop(c.up[2])
	c.Start("2", c.disks[2])
	if c.up[0].Doubts != 0 {
		t.Error("it does after the other has started again")
	}
}

// What etcd asks of a change of the member list, as etcd 3.6.8 does.
func TestRefusals(t *testing.T) {
	c := newCluster(1, 3)
	c.rounds()
	c.Stop(c.up[2])
	c.up[2] = c.Start("2", c.disks[2])
	c.Round()
	for _, err := range []error{c.AddLearner(c.up[0], "url"), c.Remove(c.up[0], 2)} {
		if !errors.Is(err, ErrUnhealthy) {
			t.Errorf("a moment after a member has started: %v", err)
		}
	}
	c.rounds()
	if err := c.AddLearner(c.up[0], "url"); err != nil {
		t.Fatal(err)
	}
	c.rounds()
	if again, another := c.AddLearner(c.up[0], "url"), c.AddLearner(c.up[0], "other"); !errors.Is(again, ErrURLExists) || !errors.Is(another, ErrTooMany) {
		t.Errorf("beside a learner: %v, and with another URL %v", again, another)
	}
	_, list, err := c.Linearizable(c.up[0])
	if err != nil {
		t.Fatal(err)
	}
	id := list[3].ID
	if err := c.Promote(c.up[0], id); !errors.Is(err, ErrNotReady) {
		t.Errorf("one that has never started: %v", err)
	}
	d := &Disk{}
	d.Join("1", id, list[1:])
	if e := c.Refuses(d, c.Running()); !strings.Contains(e, "member count is unequal") {
		t.Errorf("by a list that has changed since: %q", e)
	}
	d.Join("1", id, list)
	if e := c.Refuses(d, c.Running()); e != "" {
		t.Errorf("by the list of now: %s", e)
	}
	c.cut = append(c.cut, false)
	learner := c.Start("3", d)
	c.rounds()
	c.Stop(learner)
	c.Round()
	if err := c.Promote(c.up[0], id); err != nil {
		t.Errorf("one that has caught up and is gone: %v", err)
	}
}

// A member that lost its data comes back as a learner with another ID, and its old one never does.
func TestReplacement(t *testing.T) {
	c := newCluster(1, 3)
	c.rounds()
	c.Stop(c.up[2])
	if err := c.Remove(c.up[0], 3); err != nil {
		t.Fatal(err)
	}
	c.rounds()
	if err := c.Remove(c.up[0], 3); err == nil {
		t.Error("it was removed twice")
	}
	if err := c.AddLearner(c.up[0], "url"); err != nil {
		t.Fatal(err)
	}
	c.rounds()
	_, list, err := c.Linearizable(c.up[1])
	if err != nil || len(list) != 3 || !list[2].Learner || list[2].ID == 3 {
		t.Fatalf("list: %v, %v", list, err)
	}
	old := c.Start("2", c.disks[2])
	c.rounds()
	if c.Serves(old) {
		t.Error("the removed member serves")
	}
	c.Stop(old)
	d := &Disk{}
	d.Join("1", list[2].ID, list)
	learner := c.Start("2", d)
	c.rounds()
	if err := c.Promote(learner, list[2].ID); err != nil {
		t.Fatal(err)
	}
	c.rounds()
	if learner.IsLearner() || !c.Serves(learner) {
		t.Error("it has no vote")
	}
}

// A member that is removed while it is cut off learns of it from those that it reaches later: etcd answers its connections so, and it ends. What is
// on its disk does not say so, so it is told again each time that it starts.
func TestARemovedMemberIsTold(t *testing.T) {
	c := newCluster(1, 4)
	rounds := func(n int) {
		for range n {
			c.Round()
		}
	}
	rounds(10)
	c.cut[3] = true
	rounds(10)
	leader := c.up[0].Leader
	if err := c.Remove(c.up[leader-1], 4); err != nil {
		t.Fatal(err)
	}
	rounds(10)
	if c.up[3].Removed() {
		t.Error("it knows while it is cut off")
	}
	c.cut[3] = false
	rounds(10)
	if !c.up[3].Removed() {
		t.Error("it was not told")
	}
	c.Stop(c.up[3])
	if c.up[3] = c.Start("3", c.disks[3]); c.up[3].Removed() {
		t.Error("it knows before it has reached another one")
	}
	if rounds(10); !c.up[3].Removed() {
		t.Error("it was not told again")
	}
}
