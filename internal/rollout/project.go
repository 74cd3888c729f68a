// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/quorum"
	"k8s.io/apimachinery/pkg/types"
)

// projection is a state that has not come about yet. It shares nothing with the one it was made of.
type projection struct {
	*cluster.Snapshot
	// elected: the leader was elected on the way.
	elected bool
}

func project(s *cluster.Snapshot) *projection {
	p := *s
	p.Ordinals, p.Surplus, p.Cluster.Voters = slices.Clone(s.Ordinals), slices.Clone(s.Surplus), slices.Clone(s.Cluster.Voters)
	for i, o := range p.Ordinals {
		if o.Pod != nil {
			pod := *o.Pod
			p.Ordinals[i].Pod = &pod
		}
	}
	return &projection{Snapshot: &p}
}

// remove takes pods away.
func (p *projection) remove(ordinals []int) {
	for _, i := range ordinals {
		o := &p.Ordinals[i]
		o.Pod, o.Class, o.Role, o.Answers, o.Serving = nil, v1alpha1.ClassMissing, v1alpha1.RoleUnknown, false, false
	}
	p.elect()
}

// comeBack puts healthy pods of the newest template into ordinals.
func (p *projection) comeBack(ordinals []int, now time.Time) {
	for _, i := range ordinals {
		o := &p.Ordinals[i]
		o.Pod = &cluster.Pod{
			UID: types.UID("successor-" + o.Name + now.Format(time.RFC3339Nano)), ResourceVersion: "1", Revision: p.StatefulSet.UpdateRevision,
			Created: now, EtcdStarted: now,
		}
		o.AppliedIndex = p.newestIndex()
		p.revive(o)
	}
	p.elect()
}

// recover makes a pod healthy that is waited for; one that is beyond the replicas goes.
func (p *projection) recover(name string, now time.Time) {
	p.Surplus = slices.DeleteFunc(p.Surplus, func(s string) bool { return s == name })
	i := slices.IndexFunc(p.Ordinals, func(o cluster.Ordinal) bool { return o.Name == name })
	if i < 0 {
		return
	}
	o := &p.Ordinals[i]
	if o.Class == v1alpha1.ClassMissing || o.Class == v1alpha1.ClassTerminating {
		p.comeBack([]int{i}, now)
		return
	}
	if o.Role == v1alpha1.RoleLearner {
		o.Role = v1alpha1.RoleFollower
		p.Cluster.Voters = append(p.Cluster.Voters, cluster.Voter{ID: o.MemberID, Name: o.Name, Ordinal: i})
	}
	p.revive(o)
	p.elect()
}

// recoverVoters makes every voter healthy but the one of an ordinal.
func (p *projection) recoverVoters(except int, now time.Time) {
	for i, v := range p.Cluster.Voters {
		switch {
		case v.Ordinal < 0:
			p.Cluster.Voters[i].Serving = true
		case v.Ordinal != except && !v.Serving:
			p.recover(v.Name, now)
		}
	}
	p.elect()
}

func (p *projection) revive(o *cluster.Ordinal) {
	o.Answers = true
	o.Class = v1alpha1.ClassUnready
	o.Pod.Ready, o.Pod.AllContainersReady, o.Pod.BackupSidecarReady, o.Pod.Trouble = true, true, true, ""
}

// settle lets every node be well, and nobody else remove a pod.
func (p *projection) settle() {
	for _, o := range p.Ordinals {
		if o.Pod != nil {
			o.Pod.Node, o.Pod.Disrupted = cluster.Node{Name: o.Pod.Node.Name}, false
		}
	}
}

// catchUp lets every member apply the leader's log.
func (p *projection) catchUp() {
	newest := p.newestIndex()
	for i := range p.Ordinals {
		if p.Ordinals[i].Answers {
			p.Ordinals[i].AppliedIndex = newest
		}
	}
}

func (p *projection) newestIndex() uint64 {
	newest := uint64(0)
	for _, o := range p.Ordinals {
		newest = max(newest, o.AppliedIndex)
	}
	return newest
}

// lead makes the member of an ordinal the leader.
func (p *projection) lead(ordinal int) {
	p.Cluster.Leader = p.Ordinals[ordinal].MemberID
	for i := range p.Ordinals {
		if p.Ordinals[i].Role == v1alpha1.RoleLeader {
			p.Ordinals[i].Role = v1alpha1.RoleFollower
		}
	}
	p.Ordinals[ordinal].Role = v1alpha1.RoleLeader
}

// elect brings roles, classes and voters in line with who is alive.
func (p *projection) elect() {
	if len(p.Cluster.Voters) == 0 {
		// No voter has told the member list: every replica is one.
		for i, o := range p.Ordinals {
			p.Cluster.Voters = append(p.Cluster.Voters, cluster.Voter{ID: o.MemberID, Name: o.Name, Ordinal: i})
		}
	}
	// By readiness alone nobody may know who leads; and a foreign leader stays.
	keep := p.Cluster.LeaderKnown && p.Leader() < 0 && (p.Cluster.Leader == 0 || p.foreignLeads())
	for i, v := range p.Cluster.Voters {
		if v.Ordinal >= 0 {
			p.Cluster.Voters[i].Serving = p.alive(v.Ordinal)
		}
	}
	leaderless := !p.Cluster.LeaderKnown
	p.Cluster.LeaderKnown = quorum.Exists(p.ServingVoters(), len(p.Cluster.Voters))
	if !p.Cluster.LeaderKnown {
		p.disband()
		return
	}
	if leader := p.Leader(); !keep && (leader < 0 || !p.alive(leader)) {
		p.elected = p.elected || p.ServingVoters() > 1
		p.electAnew()
	}
	for i := range p.Ordinals {
		p.serve(&p.Ordinals[i], i, leaderless)
	}
}

// serve lets a member that is alive serve, now that there is a leader. While there was none, its probe failed
// for that reason.
func (p *projection) serve(o *cluster.Ordinal, ordinal int, leaderless bool) {
	if !p.alive(ordinal) {
		return
	}
	o.Serving = true
	if o.Role == v1alpha1.RoleUnknown {
		o.Role = v1alpha1.RoleFollower
	}
	if leaderless {
		o.Pod.Ready = true
	}
	if o.Pod.Ready && o.Role != v1alpha1.RoleLearner {
		o.Class = v1alpha1.ClassParticipating
	}
}

// electAnew makes a voter the leader that is alive; among several it is anybody's guess.
func (p *projection) electAnew() {
	for i, v := range p.Cluster.Voters {
		if v.Serving && v.Ordinal >= 0 {
			p.lead(v.Ordinal)
			p.Cluster.Leader = p.Cluster.Voters[i].ID
			return
		}
	}
}

// disband takes the leader away, and with it everything that a quorum gives.
func (p *projection) disband() {
	p.Cluster.Leader = 0
	for i := range p.Ordinals {
		o := &p.Ordinals[i]
		o.Serving = false
		if o.Role != v1alpha1.RoleLearner {
			o.Role = v1alpha1.RoleUnknown
		}
		if o.Class == v1alpha1.ClassParticipating {
			o.Class, o.Pod.Ready = v1alpha1.ClassUnready, false
			o.Answers = true
		}
	}
	for i := range p.Cluster.Voters {
		if p.Cluster.Voters[i].Ordinal >= 0 {
			p.Cluster.Voters[i].Serving = false
		}
	}
}

// alive: the member would serve if there was a quorum.
func (p *projection) alive(ordinal int) bool {
	o := p.Ordinals[ordinal]
	return o.Class == v1alpha1.ClassParticipating || o.Class == v1alpha1.ClassUnready && (o.Answers || o.Serving)
}

func (p *projection) foreignLeads() bool {
	return slices.ContainsFunc(p.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal < 0 && v.Serving && v.ID == p.Cluster.Leader })
}
