// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package opstask

import (
	"cmp"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// codes are the error codes by which clients of etcd-druid know errors of an EtcdOperatorTask.
var codes = map[v1alpha1.ErrorCode]v1alpha1.ErrorCode{
	v1alpha1.ErrEtcdNotFound:        v1alpha1.ErrGetEtcd,
	v1alpha1.ErrEtcdReplaced:        v1alpha1.ErrGetEtcd,
	v1alpha1.ErrNoBackup:            v1alpha1.ErrBackupNotEnabled,
	v1alpha1.ErrNoQuorum:            v1alpha1.ErrEtcdNotReady,
	v1alpha1.ErrStatefulSetNotFound: v1alpha1.ErrEtcdNotReady,
	v1alpha1.ErrSnapshot:            v1alpha1.ErrCreateSnapshot,
}

// operations are the type and state of the last operation by the state of a task.
var operations = map[v1alpha1.TaskState][2]string{
	v1alpha1.TaskStatePending:    {v1alpha1.OpsTaskAdmit, string(v1alpha1.OperationStateInProgress)},
	v1alpha1.TaskStateRejected:   {v1alpha1.OpsTaskAdmit, string(v1alpha1.OperationStateFailed)},
	v1alpha1.TaskStateInProgress: {v1alpha1.OpsTaskExecution, string(v1alpha1.OperationStateInProgress)},
	v1alpha1.TaskStateSucceeded:  {v1alpha1.OpsTaskExecution, string(v1alpha1.OperationStateCompleted)},
	v1alpha1.TaskStateFailed:     {v1alpha1.OpsTaskExecution, string(v1alpha1.OperationStateFailed)},
}

// mirror updates the status of a task from its EtcdOperatorTask.
func mirror(task *v1alpha1.EtcdOpsTask, by *v1alpha1.EtcdOperatorTask, now time.Time) {
	s := &task.Status
	s.OperatorTask = by.Name
	state := cmp.Or(by.Status.State, v1alpha1.TaskStatePending)
	if state != v1alpha1.TaskStateRejected && state != v1alpha1.TaskStatePending {
		s.StartedAt = by.Status.InitiatedAt
	}
	s.LastErrors = nil
	for _, e := range by.Status.LastErrors {
		e.Code = cmp.Or(codes[e.Code], e.Code)
		s.LastErrors = append(s.LastErrors, e)
	}
	setState(task, state, string(by.UID), cmp.Or(by.Status.Progressing().Message, "waiting for EtcdOperatorTask "+by.Name), now)
}

// reject and fail end a task because of what its own controller found.
func reject(task *v1alpha1.EtcdOpsTask, code v1alpha1.ErrorCode, message string, now time.Time) {
	end(task, v1alpha1.TaskStateRejected, code, message, now)
}

func fail(task *v1alpha1.EtcdOpsTask, code v1alpha1.ErrorCode, message string, now time.Time) {
	end(task, v1alpha1.TaskStateFailed, code, message, now)
}

func end(task *v1alpha1.EtcdOpsTask, state v1alpha1.TaskState, code v1alpha1.ErrorCode, message string, now time.Time) {
	task.Status.LastErrors = []v1alpha1.LastError{{Code: code, Description: message, ObservedAt: metav1.NewTime(now)}}
	setState(task, state, string(task.UID), message, now)
}

// setState sets the state and the last operation of a task, each with the time of its last change.
func setState(task *v1alpha1.EtcdOpsTask, state v1alpha1.TaskState, runID, description string, now time.Time) {
	s, at := &task.Status, metav1.NewTime(now)
	if ptr.Deref(s.State, "") != state {
		s.State, s.LastTransitionTime = &state, &at
	}
	o := v1alpha1.OpsTaskOperation{Type: operations[state][0], State: operations[state][1], RunID: runID, Description: description, LastUpdateTime: at}
	if old := s.LastOperation; old != nil {
		if o.LastUpdateTime = old.LastUpdateTime; o == *old {
			return
		}
		o.LastUpdateTime = at
	}
	s.LastOperation = &o
}
