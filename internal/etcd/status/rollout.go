// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"slices"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/rollout"
)

// currentRollout returns the rollout to the newest template; nil if every pod is at it.
func currentRollout(status *v1alpha1.EtcdStatus, o Input) *v1alpha1.CurrentRollout {
	if o.Snapshot == nil || status.Conditions.IsTrue(v1alpha1.ConditionAllMembersUpdated) {
		return nil
	}
	if !o.Snapshot.StatefulSet.Observed {
		return status.Rollout
	}
	rollout := &v1alpha1.CurrentRollout{TargetRevision: o.Snapshot.StatefulSet.UpdateRevision}
	if t := rolloutTask(o.Tasks, rollout.TargetRevision); t != nil {
		rollout.Task = t.Name
	}
	return rollout
}

// rolloutTask returns the unfinished rollout task to a revision: the one that names it, otherwise the newest one that names none, which
// supersedes older ones.
func rolloutTask(tasks []v1alpha1.EtcdOperatorTask, revision string) *v1alpha1.EtcdOperatorTask {
	var candidates []*v1alpha1.EtcdOperatorTask
	for i := range tasks {
		t := &tasks[i]
		if t.Spec.Type.IsRollout() && !t.Status.State.IsFinal() && (rollout.RecordedRevision(t) == revision || rollout.RecordedRevision(t) == "") {
			candidates = append(candidates, t)
		}
	}
	if len(candidates) == 0 {
		return nil
	}
	return slices.MaxFunc(candidates, func(a, b *v1alpha1.EtcdOperatorTask) int {
		return cmp.Or(cmp.Compare(rollout.RecordedRevision(a), rollout.RecordedRevision(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}
