// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/versions"
)

// targetVersion is the version of etcd that the rollout brings the members to: as an updated member says, or else the tag of
// its image. It is empty if neither is known; canary is then the updated pod whose member has to answer, if there is one.
func (s *state) targetVersion() (version, canary string) {
	for i := range s.Snapshot.Ordinals {
		switch o := s.ordinal(i); {
		case o.Pod == nil || o.Class == v1alpha1.ClassTerminating || s.outdated(i):
		case versions.IsKnown(o.Versions.Etcd):
			return o.Versions.Etcd, ""
		case !o.Answers:
			canary = o.Name
		}
	}
	if tag := s.Snapshot.StatefulSet.EtcdVersion; versions.IsKnown(tag) {
		return tag, ""
	}
	return "", canary
}

// versionsCompatible: etcd takes every member from its version to the new one (ADR 23). If an image does not say which version
// it has, the first updated member does, and the others wait for it, unless it cannot answer: without a quorum,
// or while the operator is cut off.
func versionsCompatible(s *state, _ *Step) *Hold {
	target, canary := s.targetVersion()
	if canary != "" && s.Snapshot.Cluster.LeaderKnown && !s.byReadiness() {
		return &Hold{Pod: canary, Message: fmt.Sprintf("the image of the template has no tag with a version of etcd, so the first pod with it has to answer with its version before the next one is replaced: %s", s.waitFor(canary).Message)}
	}
	if member, why := versions.Refusal(versions.Of(s.Snapshot), target); why != "" {
		return &Hold{Pod: member, Message: why}
	}
	return nil
}
