// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
)

// outdated tells whether the pod of an ordinal is to be replaced.
func (s *situation) outdated(ordinal int) bool {
	pod := s.Snapshot.Ordinals[ordinal].Pod
	if pod == nil || s.Snapshot.Ordinals[ordinal].Class == v1alpha1.ClassTerminating {
		return false
	}
	return pod.Revision != s.target || s.Config.Restart && !pod.Created.After(s.Created) && !s.succeeds(ordinal)
}

// succeeds tells whether the pod of an ordinal took the place of one that this rollout removed. Timestamps have
// steps of a second, and would call a successor of the task's own second older than the task.
func (s *situation) succeeds(ordinal int) bool {
	o := s.Snapshot.Ordinals[ordinal]
	return slices.ContainsFunc(s.Recorded.Pods, func(p v1alpha1.RolloutPod) bool {
		return p.Name == o.Name && p.UID != o.Pod.UID && p.LastOperation.State != v1alpha1.OperationStateFailed
	})
}

// nextPod is the ordinal of the outdated pod that goes first; -1 when no pod is outdated.
func (s *situation) nextPod(precedes func(s *situation, a, b int) int) int {
	next := -1
	for i := range s.Snapshot.Ordinals {
		if s.outdated(i) && (next < 0 || precedes(s, i, next) < 0) {
			next = i
		}
	}
	return next
}

// precedes compares two outdated pods: negative when a goes before b. What contributes least goes first
// (DEP-07, steps 2 and 4), and the leader last of its kind.
func precedes(s *situation, a, b int) int {
	x, y := &s.Snapshot.Ordinals[a], &s.Snapshot.Ordinals[b]
	return cmp.Or(
		cmp.Compare(classRank(x.Class), classRank(y.Class)),
		// Of members that run and do not participate: the kubelet's verdict first, then the members that
		// serve nobody.
		after(x.Class == v1alpha1.ClassUnready && x.Pod.Ready, y.Class == v1alpha1.ClassUnready && y.Pod.Ready),
		after(x.Serving, y.Serving),
		// DEP-06, "Pod Update Preference Order": an eviction counts pod readiness, so pods with an unready
		// container go first, whatever their role.
		after(s.Config.PodRemoval != Evict || x.Pod.AllContainersReady, s.Config.PodRemoval != Evict || y.Pod.AllContainersReady),
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

// roleRank is DEP-07, step 4: followers before the leader. A learner that catches up is left alone longest.
func roleRank(role v1alpha1.Role) int {
	switch role {
	case v1alpha1.RoleLeader:
		return 1
	case v1alpha1.RoleLearner:
		return 2
	}
	return 0
}

// placeRank: a pod on a cordoned node has to leave it anyway, and goes first of its role. One that could not come
// back goes last, so that it holds up as few others as possible.
func placeRank(pod *observe.Pod) int {
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
