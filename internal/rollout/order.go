// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
)

// first is the outdated pod that goes first; found is false when no pod is outdated.
func (s *state) first(precedes func(s *state, a, b int) int) (ordinal int, found bool) {
	for i := range s.Snapshot.Ordinals {
		if s.outdated(i) && (!found || precedes(s, i, ordinal) < 0) {
			ordinal, found = i, true
		}
	}
	for i := range s.Snapshot.Ordinals {
		// A member that serves is not disturbed while another one, which was updated, may yet stop serving. One that is running may
		// serve although it does not seem to: it is not disturbed either, soon after the update.
		if !s.outdated(i) {
			continue
		}
		if o := s.ordinal(ordinal); o.Serving && s.Updates.AtRisk(s.ordinal(i)) || o.MayRun() && s.Updates.AtRiskLately(s.ordinal(i), s.now) {
			return i, true
		}
	}
	return ordinal, found
}

// precedes compares two outdated pods: negative when a goes before b.
func precedes(s *state, a, b int) int {
	// As the StatefulSet controller does: the highest ordinal first.
	return cmp.Or(cmp.Compare(s.Updates.Stage(s.ordinal(a), s.now), s.Updates.Stage(s.ordinal(b), s.now)), compareHealth(s.ordinal(a), s.ordinal(b), s.Config.PodRemoval == Evict, s.Config.UnhealthyBackupSidecarFirst), cmp.Compare(b, a))
}
