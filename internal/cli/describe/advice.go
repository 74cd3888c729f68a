// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// adviceByError has what to do about a task that ended with an error, by its code.
var adviceByError = map[v1alpha1.ErrorCode]string{
	v1alpha1.ErrUnsupportedType:     "Install a version of the operator that has this task type.",
	v1alpha1.ErrInvalidConfig:       "Fix the field of the config that the error names, and create another task: the config of a task cannot be changed.",
	v1alpha1.ErrTooManyTasks:        "Delete tasks of the Etcd that are not needed, or wait until some have ended, and create the task again.",
	v1alpha1.ErrDuplicateTask:       "Wait for the task that the error names: it does the same work.",
	v1alpha1.ErrCrossNamespace:      "Create the task in the namespace of its Etcd.",
	v1alpha1.ErrEtcdNotFound:        "List the Etcds with \"kubectl get etcds\", and create the task again for one of them.",
	v1alpha1.ErrEtcdReplaced:        "If the task is meant for the present Etcd, create it again: it was for an earlier one of the same name.",
	v1alpha1.ErrStatefulSetNotFound: "Check why the Etcd has no StatefulSet with \"kubectl describe etcd\" and in the operator's log, and create the task again once it has one.",
	v1alpha1.ErrStrategy:            "Switch on the operator's feature gate QuorumAwareUpdatesWithOnDelete: while it is off, the StatefulSet controller replaces the pods. Beside etcd-druid, do what the error says.",
	v1alpha1.ErrNotAllowed:          "Change the field of the Etcd that the error names, or have the operator's configuration allow it, and create the task again.",
	v1alpha1.ErrSuperseded:          "Nothing: the newer revision has its own task. See it with \"kubectl etcdtask list\".",
	v1alpha1.ErrNoQuorum:            "Restore quorum first: \"kubectl etcdtask plan ETCD\" shows which members serve.",
	v1alpha1.ErrQuorumNotLost:       "Nothing, unless the error names another task: there is a quorum, and missing members come back or are replaced automatically. \"kubectl etcdtask plan ETCD\" shows each of them.",
	v1alpha1.ErrSingleMember:        "Nothing: a single member restores the newest backup automatically. If it cannot, the condition DataVolumesReady says why: \"kubectl describe etcd\".",
	v1alpha1.ErrNeverServed:         "Check why its members do not start: \"kubectl describe etcd\" and \"kubectl get pods\". There is nothing to recover.",
	v1alpha1.ErrSourceCluster:       "The cluster that the members have joined has the quorum and takes the backups until spec.etcd.bootstrapWithExistingCluster is removed: recover or compact it there. If it is lost for good, remove the field, and create the task again.",
	v1alpha1.ErrHibernated:          "Wake the cluster up first: set its spec.replicas.",
	v1alpha1.ErrNothingToRecover:    "If a volume still exists, restore it under the name of its claim, and create the task again. Otherwise delete the Etcd and create a new one.",
	v1alpha1.ErrNotQuorate:          "Check why the members do not start or cannot reach each other: \"kubectl get pods\" and their logs. Then create the task again.",
	v1alpha1.ErrRestoreRefused:      "Choose a state that can be restored (\"kubectl etcdtask restorable ETCD\"), or fix what the error names, and preview it.",
	v1alpha1.ErrNotConfirmed:        "Preview the restore again, and confirm what it shows now.",
	v1alpha1.ErrNoBackup:            "Set spec.backup.store of the Etcd.",
	v1alpha1.ErrAlarm:               "Members disagree on the data, and nothing was done. Fix that before anything else: see docs/maintenance.md.",
	v1alpha1.ErrNoSpace:             "Compact as well (\"kubectl etcdtask defrag ETCD --compaction\"), delete keys, or raise spec.etcd.quota.",
	v1alpha1.ErrDeadlineExceeded:    "Check its last step above and what it waited for, fix that, and create the task again.",
}

// advice returns what to do about a task that failed, or is stuck.
func (d description) advice() []string {
	t := d.task
	state, n := t.Status.State, len(t.Status.LastErrors)
	switch {
	case state == v1alpha1.TaskStateSucceeded:
		return nil
	case state.IsFinal():
		return afterFailure(t, n)
	case t.Spec.Suspend:
		say := fmt.Sprintf("It is suspended. Continue it with \"kubectl etcdtask resume %s\".", t.Name)
		// A task that is older than the pattern of the definition may name anything, and people paste commands into a shell.
		if t.Spec.Type == v1alpha1.QuorumAwareRollout && len(validation.IsDNS1123Subdomain(t.Spec.OwnerEtcdReference.Name)) == 0 {
			say += fmt.Sprintf(" First check what it would do with \"kubectl etcdtask plan %s\".", t.Spec.OwnerEtcdReference.Name)
		}
		return []string{say}
	case t.Status.State == "":
		return []string{"The operator has not seen the task yet. If this persists, check that it is running: \"kubectl get pods -A -l app.kubernetes.io/name=etcd-foreman\"."}
	}
	return d.whileBlocked()
}

func afterFailure(t *v1alpha1.EtcdOperatorTask, errors int) []string {
	if errors == 0 {
		return nil
	}
	last := t.Status.LastErrors[errors-1]
	say, known := adviceByError[last.Code]
	if last.Code == v1alpha1.ErrSuperseded && t.Spec.Type == v1alpha1.Restore {
		// By a QuorumLossRecovery.
		say = "The cluster may not have gone back: the recovery that the error names starts it from what has survived, unless it found that a quorum was back. Once that has ended, look at what the cluster has, and preview the restore again."
	}
	if last.Code == v1alpha1.ErrSourceCluster && t.Spec.Type == v1alpha1.Restore {
		say = "Wait until the last member of the source cluster has left (condition Scaled of the Etcd), and create the task again."
	}
	if (last.Code == v1alpha1.ErrDeadlineExceeded || last.Code == v1alpha1.ErrStatefulSetNotFound) && t.SetsAside() {
		say = goesOn(t)
	}
	if !known {
		say = fmt.Sprintf("%s: %s. Fix that, and create the task again.", last.Code, last.Description)
	}
	return []string{say}
}

// goesOn returns what to do about a task that has ended after it had chosen what the cluster starts from.
func goesOn(t *v1alpha1.EtcdOperatorTask) string {
	say := "The cluster goes on without the task if status.recovery of the Etcd names it: \"kubectl describe etcd\" says what its members wait for. "
	if t.Spec.Type == v1alpha1.Restore {
		return say + "Once a quorum serves, the restore can be undone: \"kubectl etcdtask restore ETCD --undo TASK\". If none can, create a QuorumLossRecovery."
	}
	return say + "If they cannot start, create another QuorumLossRecovery: it reads all volumes again."
}

// whileBlocked returns what to do while a guard blocks, beyond the guard's own message.
func (d description) whileBlocked() []string {
	t := d.task
	held, _ := t.Status.Held()
	if held == nil {
		return nil
	}
	var say []string
	if t.Status.Progressing().Reason == v1alpha1.ReasonStalled {
		say = append(say, "It is stalled, and continues automatically once the cause is fixed.")
	}
	if pod := held.Pod; pod != "" {
		say = append(say, podAdvice(t.Namespace, pod, d.pod)...)
	}
	if t.Spec.Type == v1alpha1.MembershipChange {
		return append(say, "docs/membership.md has what each guard requires.")
	}
	switch held.Guard {
	case v1alpha1.GuardOthersParticipating, v1alpha1.GuardOthersServing:
		say = append(say, "If the new template is wrong, change it again: the next rollout first replaces the pod that failed to start.")
	case v1alpha1.GuardQuorumKept:
		say = append(say, "Restore the members named above, or allow operator traffic to them. No task may override this guard.")
	case v1alpha1.GuardQuorumLossConfirmed:
		say = append(say, "Without a leader a running member is replaced only when the quorum is certainly lost. No task may override this guard.")
	case v1alpha1.GuardUnreadyConfirmed, v1alpha1.GuardDeletionObserved, v1alpha1.GuardHandoverObserved:
		say = append(say, "Wait: it continues automatically.")
	}
	return say
}

// podAdvice returns where to find out why a pod does not participate: its log only if a container has run. The pod is nil if it
// does not exist or could not be read.
func podAdvice(namespace, name string, pod *corev1.Pod) []string {
	look := fmt.Sprintf("Check the pod: \"kubectl -n %s describe pod %s\"", namespace, name)
	if pod == nil {
		return []string{look + "."}
	}
	var say []string
	if r := observe.Refusal(pod); r != nil {
		say = append(say, fmt.Sprintf("The agent of %s keeps its member from starting (%s): %s.", name, r.Reason, strings.TrimSuffix(r.Message, ".")))
	}
	if container, previous := lastToRun(pod); container != "" {
		look += fmt.Sprintf(", and its log: \"kubectl -n %s logs %s -c %s%s\"", namespace, name, container, previous)
	}
	return append(say, look+".")
}

// lastToRun returns the container whose log says why a member does not participate, and the flag of kubectl for the log of its
// previous run if it is waiting for the next one; empty if none has run.
func lastToRun(pod *corev1.Pod) (container, previous string) {
	all := slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses)
	for _, name := range []string{v1alpha1.ContainerEtcd, v1alpha1.InitContainerPrepare} {
		i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == name })
		if i < 0 {
			continue
		}
		switch c := all[i]; {
		case c.State.Running != nil || c.State.Terminated != nil:
			return name, ""
		case c.LastTerminationState.Terminated != nil:
			return name, " --previous"
		}
	}
	return "", ""
}
