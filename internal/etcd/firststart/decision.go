// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package firststart

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/job/survey"
)

// input of the decision on an Etcd that records no cluster and whose StatefulSet runs no member.
type input struct {
	// members is how many members are to be started.
	members int
	// set: there is a StatefulSet. Without one, pods may be running that it will adopt.
	set, adopts bool
	// pods are those that have to terminate first.
	pods []string
	// recorded is the ID, in hex, of the cluster in the ConfigMap, which has served; empty if there is none.
	recorded string
	// own is the ID of the cluster that the members would bootstrap.
	own string
	// foundings are how they would have bootstrapped that, or another one under another spec, by ID.
	foundings map[string]founding
	// claims are the UIDs of the existing claims that members may use. foreign are the claims under members' names that are not the Etcd's
	// own, with their owners.
	claims, foreign []string
	// permit that was given to this Etcd; nil if none was.
	permit *member.FirstStart
	// round of surveys: results of an earlier round do not count.
	round string
	// jobs: there are Jobs that have surveyed volumes.
	jobs bool
	// volumes as they were surveyed, and the names of the Jobs.
	volumes []survey.Volume
	jobsOf  []string
}

// surveyed reports whether every claim was found empty in this round.
func (f input) surveyed() bool {
	return f.permit != nil && f.recorded == "" && f.permit.Round == f.round &&
		!slices.ContainsFunc(f.claims, func(uid string) bool { return !slices.Contains(f.permit.Claims, uid) })
}

// step is the next step.
type step int

const (
	// wait: there is nothing to do, or something in progress has to end first.
	wait step = iota
	// withdraw withdraws the permission to begin the cluster: some claims were not surveyed.
	withdraw
	// surveyVolumes creates or removes the Jobs that survey volumes.
	surveyVolumes
	// permit records which claims were found empty.
	permit
	// removeJobs removes the Jobs.
	removeJobs
)

// Cluster is a cluster whose data is on volumes.
type Cluster struct {
	// ID in hex.
	ID string
	// Size is the number of its members.
	Size int32
}

// decision is the outcome of decide: what has to happen before the members are started.
type decision struct {
	step step
	// reason of the condition DataVolumesReady, and why no member is started; empty if they may start.
	reason, why string
	// begins: members without data may begin the cluster.
	begins bool
	// found is the cluster whose data is on the volumes, to which the members belong; nil if there is none.
	found *Cluster
}

// decide decides what has to happen before the first start. It is pure.
func decide(f input) decision {
	switch {
	case f.adopts:
		// They run with the data that they have. Members without data wait for a permission, or for members with data.
		return decision{}
	case len(f.foreign) > 0:
		return blocked(wait, "%s", strings.Join(f.foreign, "; "))
	case len(f.pods) > 0:
		return surveying(wait, "waiting for the end of pods that are left: %s", strings.Join(f.pods, ", "))
	case len(f.claims) == 0 && f.recorded == "":
		return decision{begins: true}
	case len(f.claims) == 0:
		return f.belongsTo(f.recorded, f.members, "the ConfigMap records cluster %s, and no claim exists", f.recorded)
	case !f.set:
		return surveying(wait, "claims of its members exist; the StatefulSet is created without replicas")
	case f.surveyed() && f.jobs:
		return surveying(removeJobs, "no volume holds data; removing the Jobs that have surveyed them")
	case f.surveyed():
		return decision{begins: true}
	case f.permit != nil:
		return surveying(withdraw, "claims of its members exist that have not been surveyed")
	}
	if waits, act := survey.Pending(f.volumes); len(waits) > 0 {
		next := wait
		if act {
			next = surveyVolumes
		}
		if slices.ContainsFunc(f.volumes, func(v survey.Volume) bool { return v.State == survey.Unread || v.State == survey.Foreign }) {
			return blocked(next, "%s", strings.Join(waits, "; "))
		}
		return surveying(next, "surveying the volumes that exist: %s", strings.Join(waits, "; "))
	}
	return f.judge()
}

// judge decides by the content of the volumes, once all have been surveyed.
func (f input) judge() decision {
	var held, usable []survey.Volume
	var ids []string
	size := 0
	for i, v := range f.volumes {
		if v.State != survey.Seen || v.Survey.State == member.SurveyNone && v.Survey.ClusterID == "" {
			continue
		}
		held = append(held, v)
		if !v.Survey.Removed {
			size = max(size, i+1, len(v.Survey.Voters))
		}
		if v.Survey.State == member.SurveyPresent {
			usable = append(usable, v)
		}
		if id := v.Survey.ClusterID; id != "" && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	switch {
	case len(ids) > 1:
		return blocked(wait, "the volumes hold data of different clusters: %s", f.remedies(held))
	case len(held) > 0 && len(ids) == 0:
		return blocked(wait, "the data on the volumes is damaged, and does not say of which cluster it is: %s", f.remedies(held))
	case len(held) > 0 && f.recorded != "" && f.recorded != ids[0]:
		return blocked(wait, "the ConfigMap records cluster %s, and the volumes hold data of another: %s; or, if that is the right one, remove the key %s of the ConfigMap", f.recorded, f.remedies(held), member.KeyClusterID)
	}
	if len(held) > 0 && size == 0 {
		return blocked(wait, "the volumes hold only data of members that were removed from their cluster: %s", f.remedies(held))
	}
	aside := f.setAside()
	if len(held) > 0 {
		usable, _ = survey.Sift(usable, ids[0])
	}
	if len(held) > 0 && !f.interrupted(held, usable, ids[0]) {
		return f.ofCluster(held, usable, aside, ids[0], size)
	}
	if f.recorded != "" {
		return f.belongsTo(f.recorded, f.members, "the ConfigMap records cluster %s, and no volume holds data", f.recorded)
	}
	if len(aside) > 0 {
		return blocked(wait, "no volume holds data, but some was set aside: %s", strings.Join(aside, "; "))
	}
	return surveying(permit, "no volume holds data that was acknowledged")
}

// ofCluster decides beside volumes that hold data of one cluster, given the number of its members as far as they show it.
func (f input) ofCluster(held, usable []survey.Volume, aside []string, id string, size int) decision {
	if as, is := f.foundings[id]; is && id != f.own && len(aside) == 0 && f.unled(held, usable, as.members) {
		return blocked(wait, "the cluster that was begun with %s has had no leader, and the Etcd is to begin one with %s: to continue the first, change the spec back; %s", as, f.foundings[f.own], f.remedies(held))
	}
	if len(aside) > 0 && !survey.AreQuorum(usable, f.members) {
		// Data that was set aside may be newer than the rest.
		return blocked(wait, "claims %s hold data of cluster %s, but not that of a quorum, and some was set aside: %s", strings.Join(claims(held), ", "), id, strings.Join(aside, "; "))
	}
	if !slices.ContainsFunc(held, func(v survey.Volume) bool { return len(v.Survey.Voters) > 0 }) {
		// Its size is unknown, and a cluster of one would restore the backup by itself.
		size = max(size, f.members)
	}
	return f.belongsTo(id, size, "claims %s hold data of cluster %s", strings.Join(claims(held), ", "), id)
}

// interrupted reports whether the volumes only hold what this Etcd's own bootstrap wrote before it had a leader. With a quorum of such
// volumes, the bootstrap continues by itself.
func (f input) interrupted(held, usable []survey.Volume, id string) bool {
	return id == f.own && f.unled(held, usable, f.members)
}

// unled reports whether a cluster that was begun with some members has had no leader.
func (f input) unled(held, usable []survey.Volume, members int) bool {
	return f.recorded == "" && !survey.AreQuorum(usable, members) && !slices.ContainsFunc(held, acknowledged)
}

// founding is how a cluster of the Etcd may have begun.
type founding struct {
	members int
	peerTLS bool
}

func (f founding) String() string {
	if f.peerTLS {
		return fmt.Sprintf("spec.replicas: %d and peer TLS", f.members)
	}
	return fmt.Sprintf("spec.replicas: %d and no peer TLS", f.members)
}

// setAside names the volumes with data that was set aside, and says what to do about it.
func (f input) setAside() (say []string) {
	for i, v := range f.volumes {
		if v.State == survey.Seen && len(v.Survey.SetAside) > 0 {
			say = append(say, fmt.Sprintf("claim %s of %s has %s; rename it to new.etcd to use it, or move it away, and delete Job %s to survey the claim again", v.Claim, v.Member, strings.Join(v.Survey.SetAside, ", "), f.jobsOf[i]))
		}
	}
	return say
}

// belongsTo: the Etcd has a cluster, which its status has to record before members are started.
func (f input) belongsTo(id string, size int, format string, args ...any) decision {
	d := surveying(wait, format+"; recording that before members are started", args...)
	d.found = &Cluster{ID: id, Size: int32(size)}
	return d
}

// acknowledged reports whether the log on a volume has more than the entries of the bootstrap. A leader begins its term with an entry, so
// without one there was no leader and no write was acknowledged.
func acknowledged(v survey.Volume) bool {
	return v.Survey.State == member.SurveyDamaged || v.Survey.LastTerm > 1 || v.Survey.LastIndex > uint64(len(v.Survey.Voters))
}

// remedies describes the content of each volume, and says what to do with data that is not wanted.
func (f input) remedies(held []survey.Volume) string {
	var say, jobs []string
	for i, v := range f.volumes {
		if !slices.ContainsFunc(held, func(h survey.Volume) bool { return h.Claim == v.Claim }) {
			continue
		}
		what := "data of cluster " + v.Survey.ClusterID
		if v.Survey.State == member.SurveyDamaged {
			what = fmt.Sprintf("damaged data (%s)", v.Survey.Damage)
			if v.Survey.ClusterID != "" {
				what += " of cluster " + v.Survey.ClusterID
			}
		}
		say, jobs = append(say, fmt.Sprintf("claim %s of %s holds %s", v.Claim, v.Member, what)), append(jobs, f.jobsOf[i])
	}
	return fmt.Sprintf("%s. Delete each claim whose data is not wanted; or move the directory new.etcd on its volume away, and delete its Job (%s) to survey it again", strings.Join(say, "; "), strings.Join(jobs, ", "))
}

func claims(volumes []survey.Volume) (names []string) {
	for _, v := range volumes {
		names = append(names, v.Claim)
	}
	return names
}

func surveying(next step, format string, args ...any) decision {
	return decision{step: next, reason: v1alpha1.ReasonSurveyingVolumes, why: fmt.Sprintf(format, args...)}
}

func blocked(next step, format string, args ...any) decision {
	return decision{step: next, reason: v1alpha1.ReasonFirstStartBlocked, why: fmt.Sprintf(format, args...)}
}
