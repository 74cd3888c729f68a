// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
)

// preparation is what the agent of a pod knows when it decides how its member starts.
type preparation struct {
	*pod
	shared member.Shared
	id     member.Identity
	in     member.Input
	// via is a member that answers for the others, list its member list.
	via  *members.Member
	list []members.Peer
}

// prepare is what the init container of a pod does: it decides how the member starts, until it starts.
func (p *pod) prepare() {
	if p.ending || p.prepared || p.disk == nil || p.shared == nil {
		return
	}
	shared, err := member.ParseShared(p.shared)
	if err != nil {
		p.world.broke("%s cannot read its configuration: %v", p.name, err)
		return
	}
	a := &preparation{pod: p, shared: shared.Settled()}
	if a.id, err = a.shared.Identify(p.name); err != nil {
		p.refuse("", err.Error(), member.Refuse)
		return
	}
	a.look()
	d := member.Decide(a.in)
	if d.Action != member.Wait {
		p.world.Log("agent of "+p.name, string(d.Action)+": "+d.Why)
	}
	if a.act(d) {
		p.run()
	}
}

// refuse has the container say why the member does not start: at once, or after waiting for a minute. Then the kubelet runs it again.
func (p *pod) refuse(reason, why string, action member.Action) {
	if p.waits++; action == member.Wait && p.waits%60 != 0 {
		p.after(p.world.between(900, 1100), p.prepare)
		return
	}
	said := (&cluster.Refusal{Reason: reason, Message: why}).Error()
	if said != p.refused {
		p.refused = said
		p.report()
	}
	p.after(p.world.between(5_000, 20_000), p.prepare)
}

// look gathers what the decision rests on, as internal/agent/prepare does.
func (a *preparation) look() {
	s := a.shared
	a.in = member.Input{
		Member: a.id.Name, DataDir: s.DataDir(), ClusterID: s.ClusterID, Single: len(a.id.PeerClientURLs) == 0, MayBegin: s.MayBegin(),
		Successors: s.SuccessorIDs(), Recovery: s.Recovery, Data: member.Data{ClusterID: a.disk.Cluster},
	}
	switch {
	case a.disk.Damaged:
		a.in.Data.State, a.in.Data.Damage = member.DataDamaged, "a page has a wrong checksum"
	case a.disk.Cluster != "":
		a.in.Data.State = member.DataPresent
	}
	a.in.NewClusterID = s.RecoveredID(a.in.ClusterID, a.in.Data.ClusterID)
	if a.in.Data.State == member.DataPresent && (a.in.Recovery == nil || a.in.Data.ClusterID == a.in.NewClusterID) {
		return
	}
	a.ask()
	a.in.NewClusterID = s.RecoveredID(a.in.ClusterID, a.in.OthersClusterID, a.in.Data.ClusterID)
}

// ask asks another member, by a linearizable read, what it knows of this one.
func (a *preparation) ask() {
	w := a.world
	for _, m := range w.Etcd.Running() {
		if at := w.podOf(m); at == a.pod || !w.connected(at.node, a.node) || !slices.ContainsFunc(a.id.PeerClientURLs, func(url string) bool { return strings.Contains(url, "//"+m.Name+".") }) {
			continue
		}
		id, list, err := w.Etcd.Linearizable(m)
		if err != nil {
			continue
		}
		a.via, a.list = m, list
		a.in.Others, a.in.OthersClusterID = member.AnswerNotListed, id
		if self := a.listed(); self != nil && self.Started {
			a.in.Others = member.AnswerStarted
		} else if self != nil {
			a.in.Others = member.AnswerNeverStarted
		}
		return
	}
}

// listed returns how the others list this member; nil if they do not.
func (a *preparation) listed() *members.Peer {
	for i := range a.list {
		if a.list[i].PeerURL == a.id.PeerURL {
			return &a.list[i]
		}
	}
	return nil
}

// act carries a decision out, and reports whether etcd starts.
func (a *preparation) act(d member.Decision) bool {
	switch d.Action {
	case member.Start:
		return true
	case member.Bootstrap:
		return a.bootstrap()
	case member.Join:
		a.disk.Join(a.in.OthersClusterID, a.listed().ID, a.list)
		return true
	case member.Replace:
		a.replace(d)
		return false
	case member.Rebuild:
		a.disk.Rebuild(a.in.NewClusterID, members.Peer{ID: memberID(a.id.PeerURL, a.shared.Token()), Name: a.name, PeerURL: a.id.PeerURL})
		a.after(a.world.between(100, 5000), a.prepare)
		return false
	}
	a.refuse(d.Reason, d.Why, d.Action)
	return false
}

// bootstrap has a member begin a cluster with the other founders. etcd refuses if one of them has seen it before.
func (a *preparation) bootstrap() bool {
	var founders []members.Peer
	for entry := range strings.SplitSeq(a.shared.Founders(), ",") {
		name, url, _ := strings.Cut(entry, "=")
		founders = append(founders, members.Peer{ID: memberID(url, a.shared.Token()), Name: name, PeerURL: url})
	}
	id := memberID(a.id.PeerURL, a.shared.Token())
	for _, m := range a.world.Etcd.Running() {
		if slices.ContainsFunc(m.List(), func(p members.Peer) bool { return p.ID == id && p.Started }) && a.world.connected(a.world.podOf(m).node, a.node) {
			a.refuse("", "member has already been bootstrapped", member.Refuse)
			return false
		}
	}
	a.disk.Bootstrap(member.ClusterID(a.shared.Token(), a.shared.Founders()), id, founders)
	return true
}

// replace has the others remove the member and add it as a learner, a change at a time, and clears the data in between.
func (a *preparation) replace(d member.Decision) {
	var err error
	switch self := a.listed(); {
	case self == nil:
		*a.disk = members.Disk{}
		err = a.world.Etcd.AddLearner(a.via, a.id.PeerURL)
	default:
		err = a.world.Etcd.Remove(a.via, self.ID)
	}
	if err != nil {
		a.refuse("NotReplaced", d.Why+": "+err.Error(), member.Wait)
		return
	}
	a.after(a.world.between(500, 1500), a.prepare)
}

// memberID is the ID that etcd gives a founder, by its URL and the token.
func memberID(url, token string) uint64 {
	sum := sha256.Sum256([]byte(url + token))
	return binary.BigEndian.Uint64(sum[:8])
}

// agents are those beside members: they end with a member that was removed, publish, and promote.
func (w *World) agents() {
	for _, m := range slices.Clone(w.Etcd.Running()) {
		p := w.podOf(m)
		i := slices.IndexFunc(m.List(), func(peer members.Peer) bool { return peer.ID == m.Disk.Member })
		switch {
		case m.Removed():
			p.crash("it was removed from the cluster")
		case i < 0 || m.Frozen:
		case !m.List()[i].Started:
			_ = w.Etcd.Publish(m) // it is tried again
		case m.List()[i].Learner:
			_ = w.Etcd.Promote(m, m.Disk.Member) // it is tried again
		}
	}
}

// podOf returns the pod of a member that runs.
func (w *World) podOf(m *members.Member) *pod {
	for _, p := range w.pods {
		if p.member == m {
			return p
		}
	}
	return &pod{world: w, name: m.Name, node: &node{world: w, cut: true}}
}

func (w *World) reaches(a, b *members.Member) bool {
	return w.connected(w.podOf(a).node, w.podOf(b).node)
}

func (w *World) connected(a, b *node) bool {
	return a == b && !a.off || !a.silent() && !b.silent() && !a.apart && !b.apart
}
