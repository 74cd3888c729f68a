// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/members"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
)

// judge says what must never happen. It asks the models themselves what is true, and shares no code with the operator.
type judge struct {
	world *World
	// serving is since when each member that is listed has served, or not, by its ID.
	serving map[uint64]since
	// quorate is since when a quorum has served, or not.
	quorate since
	// clusters are those that have had a leader, in order.
	clusters []string
	// raft is how many broken promises of raft were told of.
	raft int
}

type since struct {
	is bool
	at time.Duration
}

func newJudge(w *World) *judge { return &judge{world: w, serving: map[uint64]since{}} }

// sight is for how long an operator may act on what it saw: for as long as it may take between an observation and what is done, and for as long
// as a request may be late. What a fault has broken in that time is not the operator's doing.
const sight = 5*time.Second + mostLate*time.Millisecond

func (s since) now(is bool, at time.Duration) since {
	if s.is == is && s.at != 0 {
		return s
	}
	return since{is, at}
}

// members looks at what the members are.
func (j *judge) members() {
	w := j.world
	for ; j.raft < len(w.Etcd.Broken); j.raft++ {
		w.broke("the model of etcd: %s", w.Etcd.Broken[j.raft])
	}
	leader, list := j.leader()
	if leader == nil {
		j.quorate = j.quorate.now(false, w.Now())
		return
	}
	j.quorate = j.quorate.now(true, w.Now())
	for _, p := range list {
		j.serving[p.ID] = j.serving[p.ID].now(j.serves(p.ID), w.Now())
	}
	j.cluster(leader)
}

// leader returns the member that leads with a quorum, with its member list; nil if there is none.
func (j *judge) leader() (leader *members.Member, list []members.Peer) {
	for _, m := range j.world.Etcd.Running() {
		if !m.Leads() || !j.world.Etcd.Serves(m) {
			continue
		}
		if leader != nil && leader.Disk.Cluster != m.Disk.Cluster {
			j.world.broke("clusters %s and %s serve at a time", leader.Disk.Cluster, m.Disk.Cluster)
		}
		leader, list = m, m.List()
	}
	return leader, list
}

func (j *judge) serves(id uint64) bool {
	for _, m := range j.world.Etcd.Running() {
		if m.Disk.Member == id && j.world.Etcd.Serves(m) {
			return true
		}
	}
	return false
}

// cluster checks what a cluster has that leads for the first time: all that was acknowledged in the one before it, as far as a volume has it.
func (j *judge) cluster(leader *members.Member) {
	id := leader.Disk.Cluster
	n := len(j.clusters)
	if n > 0 && j.clusters[n-1] == id {
		return
	}
	j.clusters = append(j.clusters, id)
	if n == 0 {
		return
	}
	before := j.clusters[n-1]
	acknowledged := j.world.Etcd.Acknowledged[before]
	least := len(acknowledged)
	for _, d := range j.world.disks {
		if d.Cluster == before && !d.Damaged {
			least = min(least, members.Missing(d, acknowledged))
		}
	}
	if lost := members.Missing(leader.Disk, acknowledged); lost > least {
		j.world.broke("cluster %s lacks %d writes that were acknowledged in cluster %s, and a volume lacks only %d", id, lost, before, least)
	}
}

// before judges a request of an operator to the API server, before it is carried out: what it breaks if it is; empty if nothing.
func (j *judge) before(o *operator, r apiserver.Request) string {
	switch {
	case r.Kind == "Pod" && (r.Verb == "delete" || r.Verb == "create eviction"):
		return j.removal(o, r.Key.Name)
	case r.Kind == "PersistentVolumeClaim" && r.Verb == "delete":
		return fmt.Sprintf("%s deletes claim %s", o.name, r.Key.Name)
	}
	return ""
}

// removal judges the removal of a pod: where a quorum serves, one has to be left. Members that a fault has stopped just now count as serving.
func (j *judge) removal(o *operator, name string) string {
	leader, list := j.leader()
	if leader == nil {
		return ""
	}
	voters, left := 0, 0
	removes := false
	for _, p := range list {
		if p.Learner {
			continue
		}
		voters++
		s := j.serving[p.ID]
		switch recent := j.world.Now()-s.at < sight; {
		case p.Name == name:
			removes = j.serves(p.ID)
		case j.serves(p.ID) || !s.is && recent:
			left++
		}
	}
	if removes && left <= voters/2 {
		return fmt.Sprintf("%s removes pod %s, which leaves %d of %d voters", o.name, name, left, voters)
	}
	return ""
}

// change judges a change at the API server.
func (j *judge) change(c apiserver.Change) {
	before, _ := c.Before.(*appsv1.StatefulSet)
	after, _ := c.After.(*appsv1.StatefulSet)
	if before == nil || after == nil || ptr.Deref(before.Spec.Replicas, 1) == 0 || ptr.Deref(after.Spec.Replicas, 1) != 0 {
		return
	}
	if leader, _ := j.leader(); leader != nil && j.quorate.is && j.world.Now()-j.quorate.at > sight {
		j.world.broke("all members are stopped, although a quorum has served since %s", j.quorate.at)
	}
}
