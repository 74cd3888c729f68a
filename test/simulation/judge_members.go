// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
)

// mostBehind is how many entries a learner may lack that gets its vote, or a member that is to lead: some more than the operator allows.
const mostBehind = 12

// changes judges a change of the member list that an operator asks for, before it is carried out: what it breaks if it is; empty if nothing.
func (j *judge) changes(o *operator, c listChange) string {
	leader, list := j.leader()
	if leader == nil {
		return "" // etcd refuses
	}
	i := slices.IndexFunc(list, func(p members.Peer) bool { return p.ID == c.id })
	if i < 0 {
		return ""
	}
	voters, serving, down := 0, 0, ""
	for _, p := range list {
		if p.Learner || p.ID == c.id {
			continue
		}
		voters++
		if s := j.serving[p.ID]; j.serves(p.ID) || !s.is && j.world.Now()-s.at < sight {
			serving++
		} else {
			down = podOfURL(p.PeerURL)
		}
	}
	name := podOfURL(list[i].PeerURL)
	switch {
	case c.promotes:
		return j.promotion(o, leader, c.id, voters, serving)
	case list[i].Learner:
		return ""
	case leader.Disk.Member == c.id && j.world.Now()-j.leads.at > sight:
		return fmt.Sprintf("%s removes %s, which leads since %s", o.name, name, j.leads.at)
	case j.serves(c.id) && down != "":
		return fmt.Sprintf("%s removes %s, which serves, while %s does not", o.name, name, down)
	case serving <= voters/2:
		return fmt.Sprintf("%s removes %s, after which %d of %d voters serve", o.name, name, serving, voters)
	}
	return ""
}

// promotion: the new voter has nearly all that the leader has, and the others are a quorum even if it fails. Two have to serve together.
func (j *judge) promotion(o *operator, leader *members.Member, id uint64, others, serving int) string {
	for _, m := range j.world.Etcd.Running() {
		if m.Disk.Member != id || m.Disk.Cluster != leader.Disk.Cluster {
			continue
		}
		if lacks := leader.Disk.Last() - m.Disk.Last(); lacks > mostBehind {
			return fmt.Sprintf("%s promotes %s, which lacks %d entries", o.name, m.Name, lacks)
		}
	}
	if others > 1 && serving <= (others+1)/2 {
		return fmt.Sprintf("%s promotes a learner while %d of %d voters serve", o.name, serving, others)
	}
	return ""
}

// starts judges that a member starts with the data that it has: if members that its agent could ask list it no longer, it must not.
func (j *judge) starts(p *pod) {
	for _, m := range j.world.Etcd.Running() {
		if at := j.world.podOf(m); at == p || m.Disk.Cluster != p.disk.Cluster || !j.world.Etcd.Serves(m) || !j.world.connected(at.node, p.node) {
			continue
		}
		if _, list, err := j.world.Etcd.Linearizable(m); err == nil && !slices.ContainsFunc(list, func(l members.Peer) bool { return l.ID == p.disk.Member }) {
			j.world.broke("%s starts with the data of member %x, which was removed", p.name, p.disk.Member)
		}
		return
	}
}
