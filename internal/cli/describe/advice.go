// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"fmt"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/story"
)

// advice says what to do about a task that ended with an error.
var advice = map[v1alpha1.ErrorCode]string{
	v1alpha1.ErrUnsupportedType:     "Install a version of the operator that has this type of task.",
	v1alpha1.ErrInvalidConfig:       "Mend the field of the config that the error names, and make another task: the config of a task cannot be changed.",
	v1alpha1.ErrDuplicateTask:       "Wait for the task that the error names: it does the same work.",
	v1alpha1.ErrCrossNamespace:      "Make the task in the namespace of its Etcd.",
	v1alpha1.ErrEtcdNotFound:        "See which Etcds there are with \"kubectl get etcds\", and make the task again for one of them.",
	v1alpha1.ErrEtcdReplaced:        "If the task is meant for the present Etcd, create it again: it was for an earlier one of the same name.",
	v1alpha1.ErrStatefulSetNotFound: "See why the Etcd has no StatefulSet with \"kubectl describe etcd\" and in the operator's log, and make the task again once it has one.",
	v1alpha1.ErrStrategy:            "Switch the operator's feature gate QuorumAwareUpdatesWithOnDelete on: while it is off, the StatefulSet's own controller replaces the pods.",
	v1alpha1.ErrSuperseded:          "Nothing: the newer revision has its own task. See it with \"kubectl etcdtask list\".",
	v1alpha1.ErrNoQuorum:            "Bring the quorum back first: \"kubectl etcdtask plan\" shows which members serve.",
	v1alpha1.ErrQuorumNotLost:       "Nothing: there is a quorum, and members that are away come back, or are replaced, by themselves. \"kubectl etcdtask plan\" shows how each is.",
	v1alpha1.ErrSingleMember:        "Nothing: a single member restores the newest backup by itself. What keeps it from it is in the condition DataVolumesReady: \"kubectl describe etcd\".",
	v1alpha1.ErrNeverServed:         "See why its members do not start: \"kubectl describe etcd\" and \"kubectl get pods\". There is nothing to recover.",
	v1alpha1.ErrHibernated:          "Wake the cluster up first: set its spec.replicas.",
	v1alpha1.ErrNothingToRecover:    "If a volume can still be found, bring it back under the name of its claim, and make the task again. Otherwise delete the Etcd and create it anew.",
	v1alpha1.ErrNotQuorate:          "See why the members do not start or do not reach each other: \"kubectl get pods\" and their logs. Then make the task again.",
	v1alpha1.ErrNoBackup:            "Set spec.backup.store of the Etcd.",
	v1alpha1.ErrAlarm:               "Members disagree on the data, and nothing was done. Look at that before anything else: see docs/maintenance.md.",
	v1alpha1.ErrNoSpace:             "Compact as well (\"kubectl etcdtask defrag --compaction\"), delete keys, or raise spec.etcd.quota.",
	v1alpha1.ErrDeadlineExceeded:    "See above how far it came and what it met last, mend that, and make the task again.",
}

// next says what to do about a task that did not end well, or does not go on.
func next(t *v1alpha1.EtcdOperatorTask) []string {
	state, n := t.Status.State, len(t.Status.LastErrors)
	switch {
	case state == v1alpha1.TaskStateSucceeded:
		return nil
	case state.IsFinal():
		return afterFailure(t, n)
	case t.Spec.Suspend:
		say := fmt.Sprintf("It is suspended. Let it go on with \"kubectl etcdtask resume %s\".", t.Name)
		if t.Spec.Type == v1alpha1.QuorumAwareRollout {
			say += fmt.Sprintf(" See before what it would do with \"kubectl etcdtask plan %s\".", t.Spec.OwnerEtcdReference.Name)
		}
		return []string{say}
	case t.Status.State == "":
		return []string{"The operator has not seen the task. If this lasts, see whether it runs: \"kubectl get pods -A -l app.kubernetes.io/name=etcd-foreman\"."}
	}
	return whileHeld(t)
}

func afterFailure(t *v1alpha1.EtcdOperatorTask, errors int) []string {
	if errors == 0 {
		return nil
	}
	last := t.Status.LastErrors[errors-1]
	say, known := advice[last.Code]
	if !known {
		say = fmt.Sprintf("%s: %s. Mend that, and make the task again.", last.Code, last.Description)
	}
	return []string{say}
}

// whileHeld adds to a hold's own message what can be done beyond it.
func whileHeld(t *v1alpha1.EtcdOperatorTask) []string {
	r := t.Status.Rollout
	if r == nil || r.HeldBy == nil {
		return nil
	}
	var say []string
	if story.Progressing(t).Reason == v1alpha1.ReasonStalled {
		say = append(say, "It has stalled, and goes on by itself once the cause is gone.")
	}
	if pod := r.HeldBy.Pod; pod != "" {
		say = append(say, fmt.Sprintf("Look at the pod: \"kubectl -n %s describe pod %s\", and at its log: \"kubectl -n %s logs %s -c etcd\".", t.Namespace, pod, t.Namespace, pod))
	}
	switch guard := r.HeldBy.Guard; guard {
	case v1alpha1.GuardOthersParticipating, v1alpha1.GuardOthersServing:
		say = append(say, "If the new template is wrong, change it again: the next rollout first replaces the pod that failed to start.")
	case v1alpha1.GuardQuorumKept:
		say = append(say, "Restore the members named above, or let operator traffic reach them. No task may override this guard.")
	case v1alpha1.GuardQuorumLossConfirmed:
		say = append(say, "Without a leader a running member is replaced only when the quorum is certainly lost. No task may override this guard.")
	case v1alpha1.GuardUnreadyConfirmed, v1alpha1.GuardDeletionObserved, v1alpha1.GuardHandoverObserved:
		say = append(say, "Wait: it decides by itself.")
	}
	return say
}
