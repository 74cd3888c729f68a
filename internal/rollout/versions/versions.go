// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package versions decides whether the members of a cluster may be replaced by another version of etcd (ADR 23). It is pure.
//
// etcd upgrades one minor version at a time, and downgrades one after "etcdctl downgrade enable". What counts is the version
// of the cluster: the lowest minor version of its members, until a downgrade lowers it. A member of 3.6 or later reports it as
// its storage version, with a delay.
package versions

import (
	"fmt"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"k8s.io/apimachinery/pkg/util/version"
)

// Member is a member of the cluster as it is now.
type Member struct {
	Name string
	// Versions as it says; those of a member that does not answer are that of its image, if any.
	Versions cluster.Versions
	// Answers is false if the version is that of the image.
	Answers bool
}

// Of returns the members of a cluster. The version of one that runs and does not answer is the tag of its image.
func Of(s *cluster.Snapshot) []Member {
	var members []Member
	for _, o := range s.Ordinals {
		m := Member{Name: o.Name, Versions: o.Versions, Answers: o.Answers}
		if !o.Answers && o.Class != v1alpha1.ClassTerminating && o.MayRun() {
			m.Versions = cluster.Versions{Etcd: o.Pod.EtcdVersion}
		}
		members = append(members, m)
	}
	for _, v := range s.Cluster.Voters {
		if v.Ordinal < 0 {
			members = append(members, Member{Name: v.Name, Versions: v.Versions, Answers: true})
		}
	}
	return members
}

// Target returns the version of etcd that a rollout brings the members to: as an updated member says, or else the tag of its
// image. It is empty if neither is known; canary is then the updated pod whose member has to answer, if there is one.
func Target(s *cluster.Snapshot, outdated func(ordinal int) bool) (version, canary string) {
	for i, o := range s.Ordinals {
		switch {
		case o.Pod == nil || o.Class == v1alpha1.ClassTerminating || outdated(i):
		case IsKnown(o.Versions.Etcd):
			return o.Versions.Etcd, ""
		case !o.Answers:
			canary = o.Name
		}
	}
	if tag := s.StatefulSet.EtcdVersion; IsKnown(tag) {
		return tag, ""
	}
	return "", canary
}

// steppingStones are the releases that a minor version must have before the next one: earlier ones may leave the next with a
// member list that is not theirs.
var steppingStones = map[uint]*version.Version{
	6: version.MustParseGeneric("3.5.26"),
	7: version.MustParseGeneric("3.6.11"),
}

// IsKnown reports whether the text is a version with a minor, as a tag "v3.6.16" is.
func IsKnown(text string) bool { return parse(text) != nil }

// ChangesMinor reports whether a version of etcd differs in its minor version from that of a member; true if it is not known.
func ChangesMinor(members []Member, target string) bool {
	to := parse(target)
	if to == nil {
		return true
	}
	for _, m := range members {
		if v := parse(m.Versions.Etcd); v != nil && !sameMinor(v, to) {
			return true
		}
	}
	return false
}

// Refusal returns why members must not be replaced by a version of etcd, and what to do instead, and the member that it
// refers to; empty if they may be, or if nothing is known of the versions.
func Refusal(members []Member, target string) (member, why string) {
	to := parse(target)
	if to == nil {
		return "", ""
	}
	for _, m := range members {
		if why := refusal(m, to); why != "" {
			return m.Name, why
		}
	}
	return "", ""
}

func refusal(m Member, to *version.Version) string {
	runs, of := parse(m.Versions.Etcd), clusterVersion(m)
	switch {
	case runs == nil || of == nil:
		return ""
	case to.Major() != of.Major():
		return fmt.Sprintf("the new etcd is %s and the cluster is at %s: etcd has no rollout from one major version to another", to, minor(of))
	case to.Minor() > of.Minor()+1:
		return fmt.Sprintf("the new etcd is %s and the cluster is at %s (%s runs %s): etcd upgrades one minor version at a time. Set an image of %d.%d first", to, minor(of), m.Name, runs, of.Major(), of.Minor()+1)
	case to.Minor() > runs.Minor():
		if stone := steppingStones[to.Minor()]; stone != nil && runs.LessThan(stone) {
			return fmt.Sprintf("the new etcd is %s and %s runs %s: etcd %s takes at least %s before it. Set an image of %s or a later %s first", to, m.Name, runs, minor(to), stone, stone, minor(stone))
		}
	case to.Minor() < of.Minor() && m.Answers:
		return goingBack(m, to, of)
	}
	return ""
}

func goingBack(m Member, to, of *version.Version) string {
	switch lower := fmt.Sprintf("%d.%d", of.Major(), of.Minor()-1); {
	case to.Minor()+1 < of.Minor():
		return fmt.Sprintf("the new etcd is %s and the cluster is at %s: etcd downgrades one minor version at a time. Set an image of %s first", to, minor(of), lower)
	case strings.HasPrefix(m.Versions.DowngradeTo, lower):
		return fmt.Sprintf("the downgrade to %s is enabled, and %s has not lowered its storage version %s yet: if this persists, check \"etcdctl endpoint status\" and the log of the leader", lower, m.Name, m.Versions.Storage)
	default:
		return fmt.Sprintf("the new etcd is %s and the cluster is at %s: a member of %s would refuse to start. Run \"etcdctl downgrade enable %s\" first, or set an image of %s", to, minor(of), lower, lower, minor(of))
	}
}

// clusterVersion is the version of the cluster as a member shows it: that of its storage, or its own if it reports none.
func clusterVersion(m Member) *version.Version {
	if v := parse(m.Versions.Storage); v != nil {
		return v
	}
	return parse(m.Versions.Etcd)
}

// parse reads a version, whatever follows its numbers: the tags of images have suffixes, as in "3.6.16-0".
func parse(text string) *version.Version {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return nil
	}
	return v
}

func sameMinor(a, b *version.Version) bool { return a.Major() == b.Major() && a.Minor() == b.Minor() }

func minor(v *version.Version) string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }
