// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"k8s.io/apimachinery/pkg/util/version"
)

// MemberVersion is the version of a member of the cluster as it is now.
type MemberVersion struct {
	Name string
	// Versions that it reports; for a member that does not answer, the version of its image, if any.
	Versions cluster.Versions
	// Answers is false if the version is that of the image.
	Answers bool
}

// VersionsOf returns the versions of all members. That of a member that runs and does not answer is the tag of its image.
func VersionsOf(s *cluster.Snapshot) []MemberVersion {
	var members []MemberVersion
	for _, o := range s.Ordinals {
		m := MemberVersion{Name: o.Name, Versions: o.Versions, Answers: o.Answers}
		if !o.Answers && o.Class != v1alpha1.ClassTerminating && o.MayRun() {
			m.Versions = cluster.Versions{Etcd: o.Pod.EtcdVersion}
		}
		members = append(members, m)
	}
	for _, v := range s.Cluster.Voters {
		if v.Ordinal < 0 {
			members = append(members, MemberVersion{Name: v.Name, Versions: v.Versions, Answers: true})
		}
	}
	return members
}

// targetVersion returns the version of etcd that a rollout brings the members to: as an updated member says, or else the tag of its
// image. It is empty if neither is known; canary is then the updated pod whose member has to answer, if there is one.
func targetVersion(s *cluster.Snapshot, outdated func(ordinal int) bool) (version, canary string) {
	for i, o := range s.Ordinals {
		switch {
		case o.Pod == nil || o.Class == v1alpha1.ClassTerminating || outdated(i):
		case IsKnownVersion(o.Versions.Etcd):
			return o.Versions.Etcd, ""
		case !o.Answers:
			canary = o.Name
		}
	}
	if tag := s.StatefulSet.EtcdVersion; IsKnownVersion(tag) {
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

// IsKnownVersion reports whether the text is a version with a minor, as a tag "v3.6.16" is.
func IsKnownVersion(text string) bool { return parseVersion(text) != nil }

// changesMinor reports whether a version of etcd differs in its minor version from that of a member; true if it is not known.
func changesMinor(members []MemberVersion, target string) bool {
	to := parseVersion(target)
	if to == nil {
		return true
	}
	return slices.ContainsFunc(members, func(m MemberVersion) bool {
		v := parseVersion(m.Versions.Etcd)
		return v != nil && !sameMinor(v, to)
	})
}

// RefusedVersion returns why members must not be replaced by a version of etcd, and what to do instead, and the member that it
// refers to; empty if they may be, or if nothing is known of the versions.
func RefusedVersion(members []MemberVersion, target string) (member, why string) {
	to := parseVersion(target)
	if to == nil {
		return "", ""
	}
	for _, m := range members {
		if why := refusedVersion(m, to); why != "" {
			return m.Name, why
		}
	}
	return "", ""
}

func refusedVersion(m MemberVersion, to *version.Version) string {
	runs, of := parseVersion(m.Versions.Etcd), clusterVersion(m)
	switch {
	case runs == nil || of == nil:
		return ""
	case to.Major() != of.Major():
		return fmt.Sprintf("the new etcd is %s and the cluster is at %s: etcd has no rollout from one major version to another", to, minorOf(of))
	case to.Minor() > of.Minor()+1:
		return fmt.Sprintf("the new etcd is %s and the cluster is at %s (%s runs %s): etcd upgrades one minor version at a time. Set an image of %d.%d first", to, minorOf(of), m.Name, runs, of.Major(), of.Minor()+1)
	case to.Minor() > runs.Minor():
		if stone := steppingStones[to.Minor()]; stone != nil && runs.LessThan(stone) {
			return fmt.Sprintf("the new etcd is %s and %s runs %s: etcd %s takes at least %s before it. Set an image of %s or a later %s first", to, m.Name, runs, minorOf(to), stone, stone, minorOf(stone))
		}
	case to.Minor() < of.Minor() && m.Answers:
		return goingBack(m, to, of)
	}
	return ""
}

func goingBack(m MemberVersion, to, of *version.Version) string {
	switch lower := fmt.Sprintf("%d.%d", of.Major(), of.Minor()-1); {
	case to.Minor()+1 < of.Minor():
		return fmt.Sprintf("the new etcd is %s and the cluster is at %s: etcd downgrades one minor version at a time. Set an image of %s first", to, minorOf(of), lower)
	case strings.HasPrefix(m.Versions.DowngradeTo, lower):
		return fmt.Sprintf("the downgrade to %s is enabled, and %s has not lowered its storage version %s yet: if this persists, check \"etcdctl endpoint status\" and the log of the leader", lower, m.Name, m.Versions.Storage)
	default:
		return fmt.Sprintf("the new etcd is %s and the cluster is at %s: a member of %s would refuse to start. Run \"etcdctl downgrade enable %s\" first, or set an image of %s", to, minorOf(of), lower, lower, minorOf(of))
	}
}

// clusterVersion is the version of the cluster as a member shows it: that of its storage, or its own if it reports none.
func clusterVersion(m MemberVersion) *version.Version {
	return cmp.Or(parseVersion(m.Versions.Storage), parseVersion(m.Versions.Etcd))
}

// parseVersion parses a version, and ignores what follows its numbers: the tags of images have suffixes, as in "3.6.16-0".
func parseVersion(text string) *version.Version {
	v, err := version.ParseGeneric(text)
	if err != nil {
		return nil
	}
	return v
}

func sameMinor(a, b *version.Version) bool { return a.Major() == b.Major() && a.Minor() == b.Minor() }

func minorOf(v *version.Version) string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }

// versionsCompatible: etcd supports the change from every member's version to the new one (ADR 23). If an image does not reveal its
// version, the first updated member does, and the others wait for it, unless it cannot answer: without a quorum, or while the operator
// cannot reach it.
func versionsCompatible(s *state, _ *Step) *Hold {
	target, canary := targetVersion(s.Snapshot, s.outdated)
	if canary != "" && s.Snapshot.Cluster.LeaderKnown && !s.byReadiness {
		return &Hold{Pod: canary, Message: fmt.Sprintf("the image of the template has no tag with a version of etcd, so the first pod with it has to answer with its version before the next one is replaced: %s", s.waitFor(canary).Message)}
	}
	if member, why := RefusedVersion(VersionsOf(s.Snapshot), target); why != "" {
		return &Hold{Pod: member, Message: why}
	}
	return nil
}
