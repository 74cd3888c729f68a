// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
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
		if is := j.serves(p.ID); (is || j.lately(p.ID)) && j.remains(o, p.ID, is, j.world.Now()-mostLate*time.Millisecond) {
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
	if others == 1 && !j.lately(id) {
		return fmt.Sprintf("%s promotes a learner beside one voter, and it does not serve", o.name)
	}
	if others > 1 && serving <= (others+1)/2 {
		return fmt.Sprintf("%s promotes a learner while %d of %d voters serve", o.name, serving, others)
	}
	return ""
}

// consecutive judges that the member list changes by one member at a time, and that no ID returns.
func (j *judge) consecutive(leader *members.Member) {
	if !leader.Settled() {
		return
	}
	had, has, before := j.settled, leader.List(), j.settledOf
	j.settled, j.settledOf = has, leader.Disk.Lineage()
	if before != leader.Disk.Lineage() {
		clear(j.gone)
		return
	}
	differs := 0
	for _, p := range has {
		if was := slices.IndexFunc(had, func(o members.Peer) bool { return o.ID == p.ID }); was < 0 || had[was].Learner != p.Learner {
			differs++
		}
		if j.gone[p.ID] {
			j.world.broke("member %x is listed again after it was removed", p.ID)
		}
	}
	for _, p := range had {
		if !lists(has, p.ID) {
			j.gone[p.ID] = true
			differs++
		}
	}
	if differs > 1 {
		j.world.broke("the member list changes by %d members at a time", differs)
	}
}

func lists(list []members.Peer, id uint64) bool {
	return slices.ContainsFunc(list, func(p members.Peer) bool { return p.ID == id })
}

// claim judges the deletion of a claim: no member that is listed has it, a quorum serves, and it is of another class than the Etcd asks for, or one
// that the Etcd has no member for.
func (j *judge) claim(o *operator, name string) string {
	leader, list := j.leader()
	etcd, pod := j.etcd(), podOfClaim(name)
	c := apiserver.Find[*corev1.PersistentVolumeClaim](j.world.API.Live(), Namespace, name)
	if c == nil || c.DeletionTimestamp != nil || etcd == nil {
		return ""
	}
	if slices.ContainsFunc(list, func(p members.Peer) bool { return podOfURL(p.PeerURL) == pod }) {
		return fmt.Sprintf("%s deletes claim %s, whose member is listed", o.name, name)
	}
	if leader == nil && !j.quorate.is && j.gaveUp > j.quorate.at && len(j.past) > 0 {
		if last := len(j.past) - 1; j.backups.lacks(j.ended(last)) > 0 {
			return fmt.Sprintf("%s deletes claim %s, and no snapshot has all that cluster %s had", o.name, name, j.past[last].id)
		}
		return ""
	}
	if leader == nil && !j.quorate.is && j.world.Now()-j.quorate.at > sight {
		return fmt.Sprintf("%s deletes claim %s, while no quorum serves since %s", o.name, name, j.quorate.at)
	}
	if ordinalOf(pod) < int(etcd.Spec.Replicas) && ptr.Deref(c.Spec.StorageClassName, "") == ptr.Deref(etcd.Spec.StorageClass, "") && j.world.Now()-j.edited > sight {
		return fmt.Sprintf("%s deletes claim %s, which is to stay", o.name, name)
	}
	return ""
}

// relieved reports whether users wanted that a second member stands in for the only one, some time before an operator asked for what it does, and
// that member was the only one, and has served since.
func (j *judge) relieved(asked time.Duration) bool {
	before := func(s since) bool { return s.is && s.at < asked-observation && j.world.Now()-s.at > sight }
	return before(j.surges) && before(j.alone) && before(j.serving[j.voters()[0].ID]) && !j.mayStop() && j.world.faults.sight == nil
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
