// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
)

// first returns the outdated pod that goes first; found is false if no pod is outdated.
func (s *state) first(precedes func(s *state, a, b int) int) (ordinal int, found bool) {
	for i := range s.Snapshot.Ordinals {
		if s.outdated(i) && (!found || precedes(s, i, ordinal) < 0) {
			ordinal, found = i, true
		}
	}
	for i := range s.Snapshot.Ordinals {
		// A serving member is not disrupted while another one, which was updated, may still stop serving. Nor is a running member soon
		// after the update: it may serve although it does not seem to.
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
	// The highest ordinal first, like the StatefulSet controller.
	return cmp.Or(cmp.Compare(s.Updates.Stage(s.ordinal(a), s.now), s.Updates.Stage(s.ordinal(b), s.now)), compareHealth(s.ordinal(a), s.ordinal(b), s.Config.PodRemoval == Evict, s.Config.UnhealthyBackupSidecarFirst), cmp.Compare(b, a))
}

// compareHealth compares two ordinals with outdated pods, except for their position: negative when x goes before y. The member that
// contributes least goes first (DEP-07, steps 2 and 4), and the leader is the last of its class. Of evicted pods, those with an unready
// container go first; with sidecarFirst, those whose agent is not ready.
func compareHealth(x, y *cluster.Ordinal, evict, sidecarFirst bool) int {
	return cmp.Or(
		cmp.Compare(classOrder(x.KnownClass()), classOrder(y.KnownClass())),
		// Of members that are running and do not participate: those whose probe fails first, then those that do not serve.
		after(x.ReadyButNotServing(), y.ReadyButNotServing()),
		after(x.Serving, y.Serving),
		// DEP-06, "Pod Update Preference Order": an eviction counts pod readiness, so pods with an unready container go first, regardless
		// of their role.
		after(!evict || x.Pod.AllContainersReady, !evict || y.Pod.AllContainersReady),
		cmp.Compare(roleOrder(x.Role), roleOrder(y.Role)),
		cmp.Compare(place(x.Pod), place(y.Pod)),
		after(!sidecarFirst || x.Pod.BackupSidecarReady, !sidecarFirst || y.Pod.BackupSidecarReady),
	)
}

// classOrder is the rank of a class. DEP-07, step 2: dead, then starting, then alive and unready; step 4: participating.
func classOrder(class v1alpha1.PodClass) int {
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

// roleOrder is the rank of a role. DEP-07, step 4: followers before the leader. A learner that is catching up is left alone longest.
func roleOrder(role v1alpha1.Role) int {
	switch role {
	case v1alpha1.RoleLeader:
		return 1
	case v1alpha1.RoleLearner:
		return 2
	}
	return 0
}

// place: a pod on a cordoned node has to leave it anyway, and goes first of its role. One whose replacement could not
// attach its volume goes last, so that it blocks as few others as possible.
func place(pod *cluster.Pod) int {
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
