// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"slices"
	"strconv"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Known returns what a diagnosis needs of a cluster that was observed, without measuring it. The databases are by the names of the pods.
func Known(s *cluster.Snapshot, alarms []etcdclient.Alarm, databases map[string]etcdclient.Database) diagnose.Input {
	// A member may serve although it does not answer this command: its readiness probe vouches for it.
	var silent []int
	for i, o := range s.Ordinals {
		if !o.Answers {
			silent = append(silent, i)
		}
	}
	s = s.Vouch(silent)
	in := diagnose.Input{Quorum: &diagnose.Quorum{Voters: len(s.Cluster.Voters), Serving: s.ServingVoters(), Size: s.Quorum()}}
	for i, o := range s.Ordinals {
		m := diagnose.Member{Name: o.Name, Leader: o.Role == v1alpha1.RoleLeader, Learner: o.Role == v1alpha1.RoleLearner, RoleUnknown: o.Role == v1alpha1.RoleUnknown}
		vote := slices.IndexFunc(s.Cluster.Voters, func(v cluster.Voter) bool { return v.Ordinal == i })
		// Without a list, each pod may be that of a voter.
		m.NoVoter, m.Serving = vote < 0 && len(s.Cluster.Voters) > 0, vote >= 0 && s.Cluster.Voters[vote].Serving
		if d, ok := databases[o.Name]; ok {
			m.First.Metrics = diagnose.DatabaseMetrics(d.Size, d.InUse, d.Quota)
			m.Second.Metrics = m.First.Metrics
		}
		if o.Answers {
			m.Second.Status = &diagnose.Status{}
		}
		in.Members = append(in.Members, m)
	}
	for _, a := range alarms {
		alarm := diagnose.Alarm{Kind: string(a.Kind), Member: nameOf(s, a.MemberID)}
		if len(in.Alarms) < maxAlarms && !slices.Contains(in.Alarms, alarm) {
			in.Alarms = append(in.Alarms, alarm)
		}
	}
	return in
}

// maxAlarms is more alarms than a cluster has: one member says what they are.
const maxAlarms = 50

// Reported returns what the operator last wrote of the members into the status of an Etcd, by the names of their pods, and their quorum;
// nil if the members and the conditions do not agree on that.
func Reported(etcd *v1alpha1.Etcd) (*diagnose.Quorum, map[string]diagnose.Member) {
	q, all := &diagnose.Quorum{Reported: true}, map[string]diagnose.Member{}
	for _, said := range etcd.Status.Members {
		// A member that is Unknown has a readiness probe that vouches for it.
		m := diagnose.Member{
			Name: strings.TrimPrefix(said.Name, etcd.MemberName("")), Leader: said.Role == v1alpha1.MemberRoleLeader, Learner: said.Role == v1alpha1.MemberRoleLearner,
			RoleUnknown: said.Role == "", Serving: said.Status != v1alpha1.MemberNotReady, Reported: true,
		}
		all[m.Name] = m
		if m.Learner {
			continue
		}
		if q.Voters++; m.Serving {
			q.Serving++
		}
	}
	q.Size = q.Voters/2 + 1
	ready := etcd.Status.Conditions.Find(v1alpha1.ConditionReady)
	if ready == nil || (ready.Status == metav1.ConditionTrue) != (q.Serving >= q.Size) {
		return nil, all
	}
	return q, all
}

// nameOf returns the name of a member, or its ID in hex.
func nameOf(s *cluster.Snapshot, id uint64) string {
	for _, o := range s.Ordinals {
		if o.MemberID == id {
			return o.Name
		}
	}
	return strconv.FormatUint(id, 16)
}
