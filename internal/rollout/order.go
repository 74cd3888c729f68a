// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout/spec"
)

// first is the outdated pod that goes first; found is false when no pod is outdated.
func (s *state) first(precedes func(s *state, a, b int) int) (ordinal int, found bool) {
	for i := range s.Snapshot.Ordinals {
		if s.outdated(i) && (!found || precedes(s, i, ordinal) < 0) {
			ordinal, found = i, true
		}
	}
	return ordinal, found
}

// precedes compares two outdated pods: negative when a goes before b. What contributes least goes first
// (DEP-07, steps 2 and 4), and the leader last of its kind.
func precedes(s *state, a, b int) int {
	x, y := s.ordinal(a), s.ordinal(b)
	return cmp.Or(
		cmp.Compare(classRank(x.Class), classRank(y.Class)),
		// Of members that are running and do not participate: those whose probe fails first, then those that do not serve.
		after(x.ReadyButNotServing(), y.ReadyButNotServing()),
		after(x.Serving, y.Serving),
		// DEP-06, "Pod Update Preference Order": an eviction counts pod readiness, so pods with an unready
		// container go first, whatever their role.
		after(s.Config.PodRemoval != spec.Evict || x.Pod.AllContainersReady, s.Config.PodRemoval != spec.Evict || y.Pod.AllContainersReady),
		cmp.Compare(roleRank(x.Role), roleRank(y.Role)),
		cmp.Compare(placeRank(x.Pod), placeRank(y.Pod)),
		after(!s.Config.UnhealthyBackupSidecarFirst || x.Pod.BackupSidecarReady, !s.Config.UnhealthyBackupSidecarFirst || y.Pod.BackupSidecarReady),
		// As the StatefulSet controller does: the highest ordinal first.
		cmp.Compare(b, a),
	)
}

// classRank is DEP-07, step 2: dead, then starting, then alive and unready; step 4: participating.
func classRank(class v1alpha1.PodClass) int {
	switch class {
	case v1alpha1.ClassDead:
		return 0
	case v1alpha1.ClassStarting:
		return 1
	case v1alpha1.ClassUnready:
		return 2
	}
	return 3
}

// roleRank is DEP-07, step 4: followers before the leader. A learner that is catching up is left alone longest.
func roleRank(role v1alpha1.Role) int {
	switch role {
	case v1alpha1.RoleLeader:
		return 1
	case v1alpha1.RoleLearner:
		return 2
	}
	return 0
}

// placeRank: a pod on a cordoned node has to leave it anyway, and goes first of its role. One whose replacement could not
// attach its volume goes last, so that it blocks as few others as possible.
func placeRank(pod *cluster.Pod) int {
	switch {
	case pod.VolumeTrouble != "":
		return 2
	case pod.Node.Cordoned:
		return 0
	}
	return 1
}

// after orders what is false before what is true.
func after(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return 1
	}
	return -1
}
