// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/sanitize"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

// input has the answers from which a Snapshot is made.
type input struct {
	at          time.Time
	statefulSet cluster.StatefulSet
	ordinals    []cluster.Ordinal
	surplus     []string
	changing    bool
	lineage     lineage
	lastVoters  int
	// answers are the statuses of the members that answered, by ordinal.
	answers map[int]etcdclient.Status
	// members is the member list of the cluster; nil if no voter returned one.
	members []etcdclient.Member
	// sources are the statuses that the client endpoints of the source cluster answered, by their index.
	sources map[int]etcdclient.Status
	// foreign are the statuses of the members without an ordinal that answered, by member ID, and foreignAt where.
	foreign   map[uint64]etcdclient.Status
	foreignAt map[uint64]target
	// hung are the ordinals whose members answered, and then did not return the member list in time.
	hung map[int]bool
}

// clusterID returns the ID of the cluster that the members belong to or, if none of them answers, of the source cluster that they join.
func (f *input) clusterID() uint64 {
	if len(f.answers) > 0 {
		return f.lineage.clusterID(f.answers)
	}
	return f.lineage.clusterID(f.sources)
}

// confirm reports whether a Snapshot was made from the same objects, regardless of the members' answers.
func (f input) confirm(s *cluster.Snapshot) bool {
	return f.statefulSet == s.StatefulSet && f.changing == s.Changing && slices.Equal(f.surplus, s.Surplus) &&
		slices.EqualFunc(f.ordinals, s.Ordinals, func(a, b cluster.Ordinal) bool {
			return a.Name == b.Name && a.Member == b.Member && reflect.DeepEqual(a.Pod, b.Pod)
		})
}

// build makes a Snapshot from its input. It is pure.
func build(f input) *cluster.Snapshot {
	s := &cluster.Snapshot{At: f.at, StatefulSet: f.statefulSet, Ordinals: f.ordinals, Surplus: f.surplus, Changing: f.changing, LastVoters: f.lastVoters}
	s.Cluster.Reachable = len(f.answers)+len(f.sources) > 0
	s.Cluster.ID = f.clusterID()
	s.Cluster.Leader, s.Cluster.Term = leader(f, s.Cluster.ID)
	s.Cluster.NewestTerm, s.Cluster.Revision = newest(f, s.Cluster.ID)
	s.Cluster.LeaderKnown = s.Cluster.Leader != 0
	committed := committedIndex(f, s.Cluster)
	serves := func(status etcdclient.Status) bool {
		return status.ClusterID == s.Cluster.ID && s.Cluster.Leader != 0 &&
			status.Leader == s.Cluster.Leader && status.Term == s.Cluster.Term && lag(status, committed) <= cluster.MaxLag
	}
	for i := range s.Ordinals {
		o := &s.Ordinals[i]
		status, answered := f.answers[i]
		o.Answers = answered && belongs(f, o.Member, status)
		if o.Answers {
			o.MemberID, o.AppliedIndex, o.Serving = status.MemberID, status.AppliedIndex, serves(status) && !f.hung[i]
			o.Lag, o.Versions = lag(status, committed), versions(status)
		} else {
			o.MemberID = memberID(f.members, o.Member)
		}
		o.Role = role(o, status, s.Cluster.Leader)
		o.Class = refine(o)
	}
	for _, m := range f.members {
		if m.Learner {
			s.Cluster.Learners = append(s.Cluster.Learners, cluster.Learner{ID: m.ID, Name: sanitize.Text(m.Name, maxName), PeerURLs: m.PeerURLs})
			continue
		}
		v := cluster.Voter{ID: m.ID, Name: listedAs(m), Ordinal: ordinalOf(s.Ordinals, m.ID), PeerURLs: m.PeerURLs}
		if v.Ordinal >= 0 {
			v.Serving = s.Ordinals[v.Ordinal].Serves()
		} else if status, ok := f.foreign[m.ID]; ok {
			v.Serving, v.Versions = serves(status), versions(status)
			v.Endpoint, v.Lag = f.foreignAt[m.ID].endpoint, lag(status, committed)
		}
		s.Cluster.Voters = append(s.Cluster.Voters, v)
	}
	s.Cluster.Alarms = alarms(f, serves)
	return s
}

// alarms returns what the members that serve report. Each has applied the same log, some a moment later than others.
func alarms(f input, serves func(etcdclient.Status) bool) (all []cluster.Alarm) {
	for _, answers := range []iter.Seq[etcdclient.Status]{maps.Values(f.answers), maps.Values(f.foreign)} {
		for s := range answers {
			if !serves(s) {
				continue
			}
			for _, a := range s.Alarms {
				all = append(all, cluster.Alarm{Kind: string(a.Kind), Member: nameOf(f, a.MemberID)})
			}
		}
	}
	slices.SortFunc(all, func(a, b cluster.Alarm) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Member, b.Member))
	})
	return slices.Compact(all)
}

// nameOf returns the name of a member, of one that answers also if there is no list of members, or else its ID in hex; empty for no member.
func nameOf(f input, id uint64) string {
	if id == 0 {
		return ""
	}
	for _, m := range f.members {
		if m.ID == id {
			return listedAs(m)
		}
	}
	if f.members == nil {
		for ordinal, s := range f.answers {
			if s.MemberID == id {
				return f.ordinals[ordinal].Member
			}
		}
	}
	return fmt.Sprintf("%x", id)
}

// listedAs returns the name of a listed member; its ID in hex if it has no name.
func listedAs(m etcdclient.Member) string {
	return cmp.Or(sanitize.Text(m.Name, maxName), fmt.Sprintf("%x", m.ID))
}

// maxName bounds the shown part of a member's name, in bytes. The Etcd's own members have names of pods.
const maxName = 253

// refine derives the class of an ordinal from the kubelet's report on its pod and from the answer of the member.
func refine(o *cluster.Ordinal) v1alpha1.PodClass {
	switch o.Class {
	case v1alpha1.ClassMissing, v1alpha1.ClassTerminating:
		return o.Class
	case v1alpha1.ClassDead, v1alpha1.ClassStarting:
		if o.Answers {
			// The kubelet's status lags behind: a member that answers is running.
			return v1alpha1.ClassUnready
		}
		return o.Class
	}
	if o.Pod.Ready && o.Serving && o.Role != v1alpha1.RoleLearner {
		return v1alpha1.ClassParticipating
	}
	return v1alpha1.ClassUnready
}

func role(o *cluster.Ordinal, status etcdclient.Status, leader uint64) v1alpha1.Role {
	switch {
	case !o.Answers:
		return v1alpha1.RoleUnknown
	case status.Learner:
		return v1alpha1.RoleLearner
	case leader != 0 && status.MemberID == leader:
		return v1alpha1.RoleLeader
	}
	return v1alpha1.RoleFollower
}

// leader returns the leader of the newest term in which a member of the cluster knows one. A member that was cut off reports an older term,
// and does not serve.
func leader(f input, cluster uint64) (id, term uint64) {
	consider := func(s etcdclient.Status) {
		if s.ClusterID == cluster && s.Leader != 0 && s.Term > term {
			id, term = s.Leader, s.Term
		}
	}
	for _, s := range f.answers {
		consider(s)
	}
	for _, s := range f.foreign {
		consider(s)
	}
	return id, term
}

// newest returns the newest raft term and the newest revision that members of the cluster reported.
func newest(f input, cluster uint64) (term uint64, revision int64) {
	for _, s := range f.answers {
		if s.ClusterID == cluster {
			term, revision = max(term, s.Term), max(revision, s.Revision)
		}
	}
	return term, revision
}

// committedIndex returns the raft index up to which the cluster has committed, according to its leader or, if that does not answer, the
// newest one that a member of the cluster knows.
func committedIndex(f input, cluster cluster.Cluster) uint64 {
	newest := uint64(0)
	for _, answers := range []iter.Seq[etcdclient.Status]{maps.Values(f.answers), maps.Values(f.foreign)} {
		for s := range answers {
			switch {
			case s.ClusterID != cluster.ID:
			case s.MemberID == cluster.Leader:
				return s.CommittedIndex
			default:
				newest = max(newest, s.CommittedIndex)
			}
		}
	}
	return newest
}

// lag returns the number of entries up to an index that a member has yet to apply.
func lag(s etcdclient.Status, committed uint64) uint64 {
	return committed - min(committed, s.AppliedIndex)
}

// belongs reports whether an answer came from the member of this name: another pod may have got the address of a pod that is gone.
func belongs(f input, name string, status etcdclient.Status) bool {
	for _, m := range f.members {
		if m.ID == status.MemberID {
			return m.Name == name || m.Name == ""
		}
	}
	return true
}

// maxVersion bounds the kept part of a version that a member reports, in bytes.
const maxVersion = 64

func versions(s etcdclient.Status) cluster.Versions {
	return cluster.Versions{Etcd: sanitize.Text(s.Version, maxVersion), Storage: sanitize.Text(s.StorageVersion, maxVersion), DowngradeTo: sanitize.Text(s.DowngradeTo, maxVersion)}
}

func memberID(members []etcdclient.Member, name string) uint64 {
	for _, m := range members {
		if m.Name == name {
			return m.ID
		}
	}
	return 0
}

func ordinalOf(ordinals []cluster.Ordinal, id uint64) int {
	return slices.IndexFunc(ordinals, func(o cluster.Ordinal) bool { return o.MemberID != 0 && o.MemberID == id })
}

func describeStatefulSet(s *appsv1.StatefulSet) cluster.StatefulSet {
	return cluster.StatefulSet{
		Name:           s.Name,
		UID:            s.UID,
		Generation:     s.Generation,
		Observed:       s.Status.ObservedGeneration >= s.Generation,
		UpdateRevision: s.Status.UpdateRevision,
		EtcdVersion:    etcdVersion(s.Spec.Template.ObjectMeta, s.Spec.Template.Spec),
		AgentImage:     agentImage(s.Spec.Template.Spec),
		OnDelete:       s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType,
		OfDruid:        runsDruid(s.Spec.Template.ObjectMeta),
		HeldAtZeroBy:   types.UID(s.Annotations[v1alpha1.AnnotationHeldAtZeroBy]),
	}
}

// bestInformed orders the voters of a cluster that answered by whether they know a leader, then by term, then by log.
func bestInformed(answers map[int]etcdclient.Status, cluster uint64) []int {
	voters := slices.DeleteFunc(slices.Sorted(maps.Keys(answers)), func(i int) bool { return answers[i].Learner || answers[i].ClusterID != cluster })
	slices.SortStableFunc(voters, func(a, b int) int {
		x, y := answers[a], answers[b]
		return cmp.Or(knowsLeader(y)-knowsLeader(x), cmp.Compare(y.Term, x.Term), cmp.Compare(y.AppliedIndex, x.AppliedIndex))
	})
	return voters
}

func knowsLeader(s etcdclient.Status) int {
	if s.Leader != 0 {
		return 1
	}
	return 0
}
