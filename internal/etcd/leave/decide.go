// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package leave

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
)

const (
	// absentFor is how long no member must be listed before the Etcd is released: until then, an earlier request to add a member may still
	// take effect.
	absentFor = 15 * time.Second
	// maxGap is the longest time between two observations that counts as uninterrupted.
	maxGap = 5 * time.Second
)

// timers record how long conditions have lasted. They are kept only in memory.
type timers struct {
	members members.Timers
	// absent: no member of the Etcd is listed.
	absent lasting.Timer[bool]
}

func (t timers) next(k members.Known) timers {
	k = declareAll(k)
	return timers{t.members.Next(k), t.absent.Next(len(k.List) > 0 && len(own(k)) == 0, k.Snapshot.At, maxGap)}
}

// decision on a deleted Etcd.
type decision struct {
	// left: no member of the Etcd is in the list of a source cluster, and none can come back.
	left bool
	// step to take; nil for none.
	step *membership.Step
	// why the Etcd is kept, and what to do.
	why string
}

// declareAll returns what is known with an Etcd that declares all other members of the list.
func declareAll(k members.Known) members.Known {
	k.Etcd = declare(k.Etcd, k.List)
	return k
}

// declare returns an Etcd that declares every member that has no name or peer URL of its own as one of the source. That may have replaced its
// members since, and a deleted Etcd can declare no more. None of them is removed, and each counts by what it answers.
func declare(etcd *v1alpha1.Etcd, list []etcdclient.Member) *v1alpha1.Etcd {
	if etcd.Source() == nil {
		return etcd
	}
	etcd = etcd.DeepCopy()
	source := etcd.Source()
	for _, m := range list {
		if members.Ordinal(etcd, m) < 0 && !members.IsSource(etcd, m) {
			source.Members = append(source.Members, v1alpha1.BootstrapExistingMember{Name: cmp.Or(m.Name, hex(m.ID)), PeerURLs: m.PeerURLs})
		}
	}
	return etcd
}

// votersOf returns the voters of a Snapshot as a member list has them: without a name until they have started.
func votersOf(s *cluster.Snapshot) (list []etcdclient.Member) {
	for _, v := range s.Cluster.Voters {
		m := etcdclient.Member{ID: v.ID, Name: v.Name, PeerURLs: v.PeerURLs}
		if m.Name == hex(m.ID) {
			m.Name = ""
		}
		list = append(list, m)
	}
	return list
}

// decide is pure. It decides as for a migration that is given up, but without pods and agents: outside of a recovery, agents add no member,
// and the Etcd's pods are deleted with it. Members that are not the Etcd's own stay, also undeclared ones.
func decide(k members.Known, t timers) decision {
	k = declareAll(k)
	in := k.Input(members.Request{Goal: membership.Goal{KeepSources: true, KeepClaims: true, Single: true}, Timers: t.members})
	// Source members that have already left do not come back.
	in.Observed, in.BackedUp, in.Sources = true, true, 0
	for i := range in.Members {
		if m := &in.Members[i]; m.Owner == membership.Ours {
			m.Told, m.Confirmed = true, true
		}
	}
	others := len(k.List) - len(own(k))
	switch {
	case len(in.Members) > 0 && others == 0, t.absent.Lasted(absentFor):
		// The cluster is the Etcd's alone, or the members have left.
		return decision{left: true}
	case len(in.Members) > 0 && others == len(in.Members):
		return decision{why: "its members have left; it is deleted once no request that adds one can take effect any more"}
	}
	if doubtful := unproven(k); len(doubtful) > 0 {
		return decision{why: fmt.Sprintf("the source cluster lists %s by the name of a member of this Etcd, at another peer URL: a second Etcd of this name may have joined since, so no member is removed. "+
			"If it is this Etcd's, remove it with etcdctl member remove. %s", strings.Join(doubtful, ", "), wayOut(k))}
	}
	d := membership.Decide(in)
	if d.Conclusion == membership.Act {
		return decision{step: d.Step, why: fmt.Sprintf("%s: %s", d.Step.Action, d.Step.Reason)}
	}
	why := "no step is left to take"
	if len(d.Blocking) > 0 {
		why = fmt.Sprintf("%s: %s", d.Blocking[0].Guard, d.Blocking[0].Message)
	}
	return decision{why: why + ". " + wayOut(k)}
}

// wayOut says how to delete the Etcd where its members cannot leave.
func wayOut(k members.Known) string {
	say := fmt.Sprintf("To delete the Etcd without that: kubectl annotate etcd %s -n %s %s=%s", k.Etcd.Name, k.Etcd.Namespace, v1alpha1.AnnotationAbandonSource, k.Etcd.UID)
	listed := "its members"
	if names := ownNames(k); len(names) > 0 {
		listed = strings.Join(names, ", ")
	} else if len(own(k)) > 0 {
		return say
	}
	return fmt.Sprintf("%s. Then remove %s from the source cluster with etcdctl member remove, unless that cluster is gone", say, listed)
}

// own returns the listed members that have the name of a member of the Etcd or, while they have none, its peer URL.
func own(k members.Known) (listed []etcdclient.Member) {
	for _, m := range k.List {
		if members.Ordinal(k.Etcd, m) >= 0 {
			listed = append(listed, m)
		}
	}
	return listed
}

// ownNames returns the names and IDs of the Etcd's own members.
func ownNames(k members.Known) (names []string) {
	for _, m := range own(k) {
		if isProven(k.Etcd, m) {
			names = append(names, fmt.Sprintf("%s (%s)", nameOf(k.Etcd, m), hex(m.ID)))
		}
	}
	return names
}

// unproven returns the members that have the name of a member of the Etcd, and not its peer URLs, with these.
func unproven(k members.Known) (names []string) {
	for _, m := range own(k) {
		if !isProven(k.Etcd, m) {
			names = append(names, fmt.Sprintf("%s (%s, %s)", nameOf(k.Etcd, m), hex(m.ID), members.ShownURLs(m)))
		}
	}
	return names
}

// isProven reports whether a member of the Etcd's name is its own: each of its peer URLs is. Members of two Etcds of one name in two Kubernetes
// clusters may share a host, and differ in the others.
func isProven(etcd *v1alpha1.Etcd, m etcdclient.Member) bool {
	own := members.OwnURL(etcd, members.Ordinal(etcd, m))
	return len(m.PeerURLs) > 0 && !slices.ContainsFunc(m.PeerURLs, func(peer string) bool { return !own(peer) })
}

// nameOf returns the name that a member of the Etcd has, or will have.
func nameOf(etcd *v1alpha1.Etcd, m etcdclient.Member) string {
	return etcd.MemberName(etcd.PodName(int32(members.Ordinal(etcd, m))))
}

func hex(id uint64) string { return fmt.Sprintf("%x", id) }
