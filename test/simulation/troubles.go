// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (c *chaos) failing() func() {
	rate := 20 + c.random.IntN(200)
	c.faults.rate += rate
	return func() { c.faults.rate -= rate }
}

func (c *chaos) lagging() func() {
	slow := 10 + c.random.IntN(80)
	c.faults.slow += slow
	return func() { c.faults.slow -= slow }
}

func (c *chaos) holding() func() {
	kind := []string{"Etcd", "EtcdOperatorTask", "StatefulSet", "Pod", "PersistentVolumeClaim", "ConfigMap"}[c.random.IntN(6)]
	c.faults.held[kind] = true
	return func() { delete(c.faults.held, kind) }
}

// set begins a fault that is in effect or is not.
func (c *chaos) set(fault *bool) func() {
	if *fault {
		return nil
	}
	*fault = true
	return func() { *fault = false }
}

// loseNode loses a node that is there.
func (c *chaos) loseNode(power bool) func() {
	n := c.nodes[c.random.IntN(len(c.nodes))]
	if n.silent() {
		return nil
	}
	c.Log(n.name, "is lost")
	n.lose(power)
	return n.comeBack
}

// blinding cuts a member off from the others, and the operator from all but this one.
func (c *chaos) blinding() func() {
	m := c.running()
	if m == nil || c.faults.sight != nil {
		return nil
	}
	n := c.podOf(m).node
	n.apart, c.faults.sight = true, n
	return func() { n.apart, c.faults.sight = false, nil }
}

// splitting cuts the nodes of most members of an Etcd off together: they serve on, where neither the operator nor users see it. Mostly the last word of a
// kubelet is that one of them has ended, and it starts again.
func (c *chaos) splitting() func() {
	j := c.one()
	n := j.healthy()
	if n < 3 {
		return nil
	}
	own, far := j.running(), map[*node]bool{}
	ends := own[c.random.IntN(n/2+1)]
	for _, m := range own[:n/2+1] {
		far[c.podOf(m).node] = true
	}
	if slices.ContainsFunc(c.nodes, func(n *node) bool { return far[n] && n.silent() }) {
		return nil
	}
	if c.random.IntN(4) > 0 {
		c.podOf(ends).crash("it is killed")
	}
	c.zones++
	var lost []*node
	for _, n := range c.nodes {
		if far[n] {
			c.Log(n.name, "is cut off with others")
			n.zone = c.zones
			n.lose(false)
			lost = append(lost, n)
		}
	}
	return func() {
		for _, n := range lost {
			n.comeBack()
		}
	}
}

// one is the Etcd that a fault hits.
func (c *chaos) one() *judge {
	if len(c.judges) == 1 {
		return c.judges[0]
	}
	return c.judges[c.random.IntN(len(c.judges))]
}

// running returns the members of an Etcd that run.
func (j *judge) running() (all []*members.Member) {
	for _, m := range j.world.Etcd.Running() {
		if etcdOf(m.Name) == j.name {
			all = append(all, m)
		}
	}
	return all
}

// running returns a member that runs; nil if there is none.
func (c *chaos) running() *members.Member {
	if all := c.Etcd.Running(); len(all) > 0 {
		return all[c.random.IntN(len(all))]
	}
	return nil
}

func (c *chaos) freezing() func() {
	m := c.running()
	if m == nil || m.Frozen {
		return nil
	}
	c.Log(m.Name, "is frozen")
	m.Frozen = true
	return func() { m.Frozen = false }
}

// doubting has a member take another for disconnected until one of them starts again. At most one member does.
func (c *chaos) doubting() func() {
	m := c.running()
	if m == nil || slices.ContainsFunc(c.Etcd.Running(), func(o *members.Member) bool { return o.Doubts != 0 }) {
		return nil
	}
	list := m.List()
	if len(list) == 0 {
		return nil
	}
	if p := list[c.random.IntN(len(list))]; p.ID != m.Disk.Member {
		c.Log(m.Name, fmt.Sprintf("takes %x for disconnected", p.ID))
		m.Doubts = p.ID
	}
	return func() {}
}

func (c *chaos) killing() func() {
	m := c.running()
	if m == nil {
		return nil
	}
	c.podOf(m).crash("it is killed")
	return func() {}
}

func (c *chaos) deleting() func() {
	set := c.one().set()
	if set == nil {
		return nil
	}
	pods := c.podsOf(set)
	if len(pods) == 0 {
		return nil
	}
	p := pods[c.random.IntN(len(pods))]
	c.Log("user", "deletes pod "+p.Name)
	c.remove(p)
	return func() {}
}

// draining has a user cordon a node, and evict what is on it again and again, as far as budgets let that happen.
func (c *chaos) draining() func() {
	n := c.nodes[c.random.IntN(len(c.nodes))]
	if n.isCordoned() {
		return nil
	}
	c.Log("user", "drains "+n.name)
	n.cordon(true)
	var drain func()
	drain = func() {
		if !n.isCordoned() {
			return
		}
		for _, p := range c.on(n) {
			o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: p.name}}
			if err := c.writer.SubResource("eviction").Create(context.Background(), o, &policyv1.Eviction{}); err == nil && !p.ending {
				c.Log("user", "evicts pod "+p.name)
			}
		}
		c.After(5*time.Second, "user", "", drain)
	}
	drain()
	return func() { n.cordon(false) }
}

// harmingOne harms the volume of a member, if all members serve, and the others can go on without.
func (c *chaos) harmingOne(harm func(*pod)) func() {
	j := c.one()
	if j.healthy() < 3 {
		return nil
	}
	own := j.running()
	c.harm(own[c.random.IntN(len(own))], harm)
	return func() {}
}

// harmingMost harms the volumes of a majority of the members.
func (c *chaos) harmingMost(harm func(*pod)) func() {
	j := c.one()
	n := j.healthy()
	if n < 3 {
		return nil
	}
	for _, m := range j.running()[:n/2+1] {
		c.harm(m, harm)
	}
	return func() {}
}

// healthy returns how many voters there are, if all of the Etcd's members vote and serve. Of a cluster of fewer than three that grows, a volume may be
// the last.
func (j *judge) healthy() int {
	leader, list := j.leader()
	if leader == nil || j.asked() == 0 || len(list) < int(min(j.asked(), 3)) {
		return 0
	}
	for _, p := range list {
		if p.Learner || !j.serves(p.ID) {
			return 0
		}
	}
	return len(list)
}

// wipe loses what is on the volume of a member, and has the pod made again.
func (c *chaos) wipe(m *members.Member) { c.harm(m, (*pod).lose) }

// harm does something to the volume of a member, unless its node is lost.
func (c *chaos) harm(m *members.Member, harm func(*pod)) {
	if p := c.podOf(m); p.disk != nil && !p.node.silent() {
		harm(p)
	}
}

// damage leaves what is on the volume of a pod, which is made again, where nothing can read it.
func (p *pod) damage() {
	p.world.Log(p.name, "has damaged data")
	p.kill()
	p.disk.Damaged = true
	p.world.remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: p.name}})
}

// lose loses what is on the volume of a pod, which is made again.
func (p *pod) lose() {
	p.world.Log(p.name, "loses its volume")
	p.kill()
	*p.disk = members.Disk{}
	p.world.remove(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: p.name}})
}

// replacing kills the operator, and starts another one later.
func (c *chaos) replacing() func() {
	if slices.ContainsFunc(c.operators, func(o *operator) bool { return o.actor.Paused }) {
		return nil
	}
	for _, o := range slices.Clone(c.operators) {
		o.kill()
	}
	return c.start
}

// endingAfterChange has the operator end as soon as it has promoted or removed a member, and starts another one later.
func (c *chaos) endingAfterChange() func() {
	end := c.set(&c.faults.fatal)
	if end == nil {
		return nil
	}
	return func() {
		end()
		c.start()
	}
}

// skewing replaces the operator by one whose clock is up to a quarter of an hour ahead or behind.
func (c *chaos) skewing() func() {
	end, by := c.replacing(), time.Duration(1+c.random.IntN(15))*time.Minute
	if end == nil {
		return nil
	}
	if c.random.IntN(2) == 0 {
		by = -by
	}
	return func() {
		c.faults.skew = by
		end()
	}
}

// pausing pauses the operator, starts another one, and has the first go on for a while before it notices that its time is over.
func (c *chaos) pausing() func() {
	if len(c.operators) != 1 || c.operators[0].actor.Paused {
		return nil
	}
	first := c.operators[0]
	first.pause()
	c.After(time.Duration(1+c.random.IntN(20))*time.Second, "chaos", "", c.start)
	return func() {
		first.resume()
		c.open++
		c.After(time.Duration(100+c.random.IntN(5000))*time.Millisecond, "chaos", "", func() {
			c.open--
			if !first.dead {
				first.kill()
			}
			c.start()
		})
	}
}

// wipingOnly loses what is on the volume of the only member, if there is a backup.
func (c *chaos) wipingOnly() func() {
	j := c.one()
	if j.healthy() != 1 || !j.backups.recorded() {
		return nil
	}
	c.wipe(j.running()[0])
	return func() {}
}

// wipingAll loses what is on the volumes of all members, if there is a backup.
func (c *chaos) wipingAll() func() {
	j := c.one()
	if j.healthy() < 3 || !j.backups.recorded() {
		return nil
	}
	for _, m := range j.running() {
		c.wipe(m)
	}
	return func() {}
}

// losingNew waits for the next cluster that takes the place of one before. Its first node loses its power once the cluster has acknowledged a write, or
// its volume once there is another voter, and not yet a third one. Then every second time, the node of a member that still has its data from before has
// no power until the fault is over.
func (c *chaos) losingNew() func() {
	j, volume, over := c.one(), c.random.IntN(3) > 0, false
	known, lost := len(j.past), (*node)(nil)
	late, away := volume && c.random.IntN(2) == 0, (*node)(nil)
	if known == 0 {
		return nil
	}
	var look func()
	look = func() {
		if over || lost != nil {
			return
		}
		c.After(50*time.Millisecond, "chaos", "", look)
		leader, _ := j.leader()
		if late && away == nil && leader != nil && leader.Disk.Cluster != j.past[known-1].id {
			away = c.loseLate(j, leader)
		}
		if leader == nil || len(j.past) == known || len(c.Etcd.Acknowledged[leader.Disk.Lineage()]) == 0 || c.podOf(leader).node.silent() {
			return
		}
		switch at := c.podOf(leader).node; {
		case !volume:
			c.Log(at.name, "is lost")
			at.lose(true)
			lost = at
		case len(j.voters()) == 2 && j.asked() > 2:
			c.wipe(leader)
			lost = at
		}
	}
	look()
	return func() {
		over = true
		if away != nil && away.off {
			away.comeBack()
		}
		if lost != nil && lost.off && !volume {
			lost.comeBack()
		}
	}
}

// loseLate takes the power of a node whose pod has data of a cluster before that of a leader, and returns it; nil if there is none.
func (c *chaos) loseLate(j *judge, leader *members.Member) *node {
	for _, n := range c.nodes {
		for _, p := range c.on(n) {
			if p.disk != nil && p.disk.Cluster != "" && p.disk.Cluster != leader.Disk.Cluster && etcdOf(p.name) == j.name && n != c.podOf(leader).node && !n.silent() {
				c.Log(n.name, "is lost")
				n.lose(true)
				return n
			}
		}
	}
	return nil
}
