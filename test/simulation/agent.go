// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	if p.ending || p.prepared || p.disk == nil || p.told == nil {
		return
	}
	if p.disk.Joining {
		p.disk.Unjoin()
	}
	a := &preparation{pod: p, shared: p.told.Settled()}
	var err error
	if a.id, err = a.shared.Identify(p.name); err != nil {
		p.refuse(&cluster.Refusal{Message: err.Error()}, false)
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

// refuse has the container say why the member does not start: at once if what it says of the volume is new, or after waiting for a minute. Then
// the kubelet runs it again.
func (p *pod) refuse(why *cluster.Refusal, waits bool) {
	fresh := why.Volume != (cluster.Volume{}) && why.Volume != p.volume
	if p.waits++; waits && !fresh && p.waits%60 != 0 {
		p.after(p.world.between(900, 1100), p.prepare)
		return
	}
	p.volume = why.Volume
	if said := why.TerminationMessage(); said != p.refused {
		p.refused = said
		p.report()
	}
	p.after(p.world.between(5_000, 20_000), p.prepare)
}

// look gathers what the decision rests on, as internal/agent/prepare does.
func (a *preparation) look() {
	s := a.shared
	a.in = member.Input{
		Member: a.id.Name, DataDir: s.DataDir(), ClusterID: s.ClusterID, Single: s.Alone(), MayBegin: s.MayBegin(),
		Successors: s.SuccessorIDs(), Recovery: s.Recovery, Planned: s.Members != nil, Leaving: s.Members.Leaves(a.id.Name),
	}
	switch d := a.disk; {
	case d.Damaged:
		a.in.Data = member.Data{State: member.DataDamaged, Damage: "a page has a wrong checksum", ClusterID: d.Cluster}
	case d.Cluster != "":
		a.in.Data = member.Data{State: member.DataPresent, ClusterID: d.Cluster, MemberID: fmt.Sprintf("%x", d.Member), Removed: d.Removed()}
	}
	a.ask()
	a.in.NewClusterID = s.RecoveredID(a.in.ClusterID, a.in.OthersClusterID, a.in.Data.ClusterID)
	a.in.Backup = a.backup()
	if r := s.Recovery; r != nil {
		made := a.made()
		a.in.Rebuilt = made != nil
		for dir := range a.disk.Kept {
			a.in.KeptAside = a.in.KeptAside || strings.Contains(dir, member.BeforeSuffix+r.Task+"-")
		}
		begins := r.Member == a.id.Name && !a.in.Single && a.in.Others == member.AnswerNone && (r.Source == member.RecoverFromBackup || r.Source == member.RecoverFromPoint)
		a.in.BegunUnknown = begins && a.world.faults.storeless
		a.in.Begun = begins && (!a.in.BegunUnknown && a.world.of(a.name).backups.hasBegun(s.Token(), made) || slices.ContainsFunc(a.reached(), func(m *members.Member) bool {
			return slices.Contains(s.RecoveredIDs(), m.Disk.Cluster)
		}))
	}
}

// reached are the members that answer this one at all.
func (a *preparation) reached() []*members.Member { return a.reaches(a.id.PeerClientURLs) }

// reaches returns the members that a pod reaches, of those at some URLs.
func (p *pod) reaches(urls []string) (all []*members.Member) {
	w := p.world
	for _, m := range w.Etcd.Running() {
		if at := w.podOf(m); !m.Frozen && at != p && w.connected(at.node, p.node) && slices.ContainsFunc(urls, func(url string) bool { return strings.Contains(url, "//"+m.Name+".") }) {
			all = append(all, m)
		}
	}
	return all
}

// ask asks another member, by a linearizable read, what it knows of this one.
func (a *preparation) ask() {
	all := a.reached()
	// An agent asks each of them in turn; one that takes another for disconnected does not hold it up for long.
	slices.SortStableFunc(all, func(m, n *members.Member) int { return cmp.Compare(min(m.Doubts, 1), min(n.Doubts, 1)) })
	for _, m := range all {
		id, list, err := a.world.Etcd.Linearizable(m)
		if err != nil {
			continue
		}
		a.via, a.list = m, list
		a.in.Others, a.in.OthersClusterID = member.AnswerNotListed, id
		a.in.DataListed = slices.ContainsFunc(list, func(peer members.Peer) bool { return fmt.Sprintf("%x", peer.ID) == a.in.Data.MemberID })
		if self := a.listed(); self != nil {
			a.in.Listed = fmt.Sprintf("%x", self.ID)
		}
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
		a.world.of(a.name).starts(a.pod)
		return true
	case member.Bootstrap:
		return a.bootstrap()
	case member.Join:
		a.disk.Join(a.in.OthersClusterID, a.listed().ID, a.list)
		a.prepared, a.refused, a.joinsBy = true, "", a.id.PeerClientURLs
		a.alone(a.world.joins(), a.start)
		return false
	case member.SetAside:
		a.aside(d.Suffix)
		a.after(a.world.between(50, 500), a.prepare)
		return false
	case member.Restore:
		a.remake("RestoreFailed", a.restore)
		return false
	case member.Replace:
		a.replace(d)
		return false
	case member.Rebuild:
		a.remake("RebuildFailed", a.rebuild)
		return false
	}
	a.refuse(&cluster.Refusal{Reason: d.Reason, Message: d.Why, Volume: d.Volume}, d.Action == member.Wait)
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
			a.refuse(&cluster.Refusal{Message: "member has already been bootstrapped"}, false)
			return false
		}
	}
	a.disk.Bootstrap(member.ClusterID(a.shared.Token(), a.shared.Founders()), id, founders)
	return true
}

// replace has the others remove the member and add it as a learner, a change at a time, and clears the data in between.
func (a *preparation) replace(d member.Decision) {
	var err error
	if self := a.listed(); self != nil {
		err = a.world.Etcd.Remove(a.via, self.ID)
	} else {
		a.aside(member.ReplacedSuffix)
		err = a.world.Etcd.AddLearner(a.via, a.id.PeerURL)
	}
	if err != nil {
		a.refuse(&cluster.Refusal{Reason: "NotReplaced", Message: d.Why + ": " + err.Error()}, true)
		return
	}
	a.after(a.world.between(500, 1500), a.prepare)
}

// memberID is the ID that etcd gives a founder, by its URL and the token.
func memberID(url, token string) uint64 {
	sum := sha256.Sum256([]byte(url + token))
	return binary.BigEndian.Uint64(sum[:8])
}

// agents are those beside members: they end with a member that was removed, publish, and report what they read of members that leave. In a
// recovery they promote.
func (w *World) agents() {
	for _, m := range slices.Clone(w.Etcd.Running()) {
		p := w.podOf(m)
		if p.told == nil {
			continue
		}
		p.says(m)
		i := slices.IndexFunc(m.List(), func(peer members.Peer) bool { return peer.ID == m.Disk.Member })
		switch {
		case m.Removed():
			p.crash("it was removed from the cluster")
		case i < 0 || m.Frozen:
		case !m.List()[i].Started:
			_ = w.Etcd.Publish(m) // it is tried again
		case !m.List()[i].Learner && p.told.ClusterID != "" && p.told.Recovery == nil && !p.told.Kept:
			m.Disk.Kept, m.Disk.Made = nil, nil // no recovery or undo can need it
		case m.List()[i].Learner && p.told.Recovery != nil && p.told.Members == nil:
			_ = w.Etcd.Promote(m, m.Disk.Member) // it is tried again
		}
	}
}

// says has the agent beside a member report what it reads of members that leave, and that its own was removed.
func (p *pod) says(m *members.Member) {
	read := cluster.Read{Etcd: p.told.EtcdUID()}
	if told := p.told.Members; told != nil {
		read.Generation, read.Leaving = told.Generation, told.Leaves(p.name)
	}
	if m.Removed() {
		read.Removed = fmt.Sprintf("%x", m.Disk.Member)
	}
	lease := apiserver.Find[*coordinationv1.Lease](p.world.API.Live(), Namespace, p.name)
	if lease == nil || read.Generation == 0 && read.Removed == "" || p.node == nil || p.node.silent() || lease.Annotations[v1alpha1.AnnotationMembersRead] == read.Encode() {
		return
	}
	edit(p.world, Namespace, p.name, "", func(l *coordinationv1.Lease) {
		metav1.SetMetaDataAnnotation(&l.ObjectMeta, v1alpha1.AnnotationMembersRead, read.Encode())
	})
}

// podOf returns the pod of a member that runs.
func (w *World) podOf(m *members.Member) *pod {
	if p := w.runs[m]; p != nil {
		return p
	}
	return &pod{world: w, name: m.Name, node: &node{world: w, cut: true}}
}

func (w *World) reaches(a, b *members.Member) bool {
	return w.connected(w.podOf(a).node, w.podOf(b).node)
}

func (w *World) connected(a, b *node) bool {
	switch {
	case a.off || b.off:
		return false
	case a == b:
		return true
	}
	return a.cut == b.cut && (!a.cut || a.zone != 0) && a.zone == b.zone && !a.apart && !b.apart
}
