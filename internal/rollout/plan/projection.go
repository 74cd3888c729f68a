// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
	"k8s.io/apimachinery/pkg/types"
)

// projection is a possible future state of a cluster, changed as steps, replacements and elections would change it. It shares nothing
// with the state that it was made of.
type projection struct {
	*cluster.Snapshot
	// Elected: an election on the way chose the leader.
	Elected bool
}

// projectionOf returns the projection of a state, in which nothing has changed yet.
func projectionOf(s *cluster.Snapshot) *projection {
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

// replace puts healthy pods of the newest template into ordinals. One whose member was a learner votes.
func (p *projection) replace(ordinals []int, now time.Time) {
	for _, i := range ordinals {
		o := &p.Ordinals[i]
		o.Pod = &cluster.Pod{
			UID: types.UID("replacement-" + o.Name + now.Format(time.RFC3339Nano)), ResourceVersion: "1", Revision: p.StatefulSet.UpdateRevision,
			Created: now, EtcdStarted: now,
		}
		o.Versions.Etcd = cmp.Or(p.StatefulSet.EtcdVersion, o.Versions.Etcd)
		o.AppliedIndex = p.newestIndex()
		p.promote(i)
		p.revive(o)
	}
	p.elect()
}

// bringBack makes a pod healthy; one that is not among the replicas goes. Pods that terminate are gone before: their members may serve until
// then, so their end may take the leader or the quorum.
func (p *projection) bringBack(name string, now time.Time) {
	p.endTerminating()
	p.Surplus = slices.DeleteFunc(p.Surplus, func(s string) bool { return s == name })
	i := slices.IndexFunc(p.Ordinals, func(o cluster.Ordinal) bool { return o.Name == name })
	if i < 0 {
		return
	}
	o := &p.Ordinals[i]
	if o.Class == v1alpha1.ClassMissing {
		p.replace([]int{i}, now)
		return
	}
	p.promote(i)
	p.revive(o)
	p.elect()
}

// promote makes the member of an ordinal a voter.
func (p *projection) promote(ordinal int) {
	o := &p.Ordinals[ordinal]
	if o.Role == v1alpha1.RoleLearner {
		o.Role = v1alpha1.RoleFollower
	}
	if len(p.Cluster.Voters) > 0 && p.isNonVoter(ordinal) {
		p.Cluster.Voters = append(p.Cluster.Voters, cluster.Voter{ID: o.MemberID, Name: o.Name, Ordinal: ordinal})
	}
}

// isNonVoter reports whether the member of an ordinal is a learner, also one that does not answer.
func (p *projection) isNonVoter(ordinal int) bool {
	return p.Ordinals[ordinal].MemberID != 0 && !slices.ContainsFunc(p.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal == ordinal })
}

func (p *projection) endTerminating() {
	var ending []int
	for i, o := range p.Ordinals {
		if o.Class == v1alpha1.ClassTerminating {
			ending = append(ending, i)
		}
	}
	if len(ending) > 0 {
		p.remove(ending)
	}
}

// recoverVoters makes every voter healthy but the one of an ordinal. If they are no quorum without that one, learners are promoted.
func (p *projection) recoverVoters(except int, now time.Time) {
	for i, v := range p.Cluster.Voters {
		switch {
		case v.Ordinal < 0:
			p.Cluster.Voters[i].Serving = true
		case v.Ordinal != except && !v.Serving:
			p.bringBack(v.Name, now)
		}
	}
	p.elect()
	if quorum.Exists(p.ServingVotersWithout(except), len(p.Cluster.Voters)) {
		return
	}
	for i, o := range p.Ordinals {
		if p.isNonVoter(i) {
			p.bringBack(o.Name, now)
		}
	}
}

func (p *projection) revive(o *cluster.Ordinal) {
	o.Answers, o.Lag = true, 0
	o.Class = v1alpha1.ClassUnready
	o.Pod.Ready, o.Pod.AllContainersReady, o.Pod.BackupSidecarReady, o.Pod.Trouble = true, true, true, ""
}

// settleNodes makes every node healthy; nothing else is about to remove a pod.
func (p *projection) settleNodes() {
	for _, o := range p.Ordinals {
		if o.Pod != nil {
			o.Pod.Node, o.Pod.Disrupted = cluster.Node{Name: o.Pod.Node.Name}, false
		}
	}
}

// catchUp has every member apply the leader's log.
func (p *projection) catchUp() {
	newest := p.newestIndex()
	for i := range p.Ordinals {
		if p.Ordinals[i].Answers {
			p.Ordinals[i].AppliedIndex, p.Ordinals[i].Lag = newest, 0
		}
	}
	p.elect()
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
		// No voter has returned the member list: every replica is one.
		for i, o := range p.Ordinals {
			p.Cluster.Voters = append(p.Cluster.Voters, cluster.Voter{ID: o.MemberID, Name: o.Name, Ordinal: i})
		}
	}
	// By readiness alone, the leader may be unknown. A foreign leader stays.
	keep := p.Cluster.LeaderKnown && p.Leader() < 0 && (p.Cluster.Leader == 0 || p.foreignLeads())
	lagging := 0
	for i, v := range p.Cluster.Voters {
		if v.Ordinal < 0 {
			continue
		}
		alive, lags := p.alive(v.Ordinal), p.Ordinals[v.Ordinal].Lag > cluster.MaxLag
		p.Cluster.Voters[i].Serving = alive && !lags
		if alive && lags {
			lagging++
		}
	}
	leaderless := !p.Cluster.LeaderKnown
	p.Cluster.LeaderKnown = quorum.Exists(p.ServingVoters()+lagging, len(p.Cluster.Voters))
	if !p.Cluster.LeaderKnown {
		p.disband()
		return
	}
	if leader := p.Leader(); !keep && (leader < 0 || !p.alive(leader)) {
		p.Elected = p.Elected || p.ServingVoters()+lagging > 1
		p.electAny()
	}
	for i := range p.Ordinals {
		p.serve(&p.Ordinals[i], i, leaderless)
	}
}

// serve lets a member that is alive serve, now that there is a leader, unless it lags. While there was none, its probe failed
// for that reason.
func (p *projection) serve(o *cluster.Ordinal, ordinal int, leaderless bool) {
	if !p.alive(ordinal) || o.Lag > cluster.MaxLag {
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

// electAny makes a voter that is alive the leader, one that lags only if there is no other. Which of several would win cannot be foreseen.
func (p *projection) electAny() {
	alive := func(v cluster.Voter) bool { return v.Ordinal >= 0 && p.alive(v.Ordinal) }
	winner := slices.IndexFunc(p.Cluster.Voters, func(v cluster.Voter) bool { return v.Serving && alive(v) })
	if winner < 0 {
		winner = slices.IndexFunc(p.Cluster.Voters, alive)
	}
	if winner >= 0 {
		p.lead(p.Cluster.Voters[winner].Ordinal)
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
