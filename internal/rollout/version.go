// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
)

// versionsCompatible: etcd takes every member from its version to the new one (ADR 23). If an image does not say which version
// it has, the first updated member does, and the others wait for it, unless it cannot answer: without a quorum,
// or while the operator is cut off.
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
