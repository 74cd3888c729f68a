// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cli/clitest"
	"github.com/etcd-foreman/etcd-foreman/test/golden"
)

func TestDescribe(t *testing.T) {
	ended, events := clitest.Ended()
	suspended := clitest.Task("etcd-main-defrag-b2wlq", v1alpha1.OnDemandMaintenance, v1alpha1.TaskStatePending, 40)
	suspended.Spec.Suspend = true
	snapshot := clitest.Task("etcd-main-snapshot-k9fzx", v1alpha1.OnDemandSnapshot, v1alpha1.TaskStateSucceeded, 40)
	snapshot.Status.Result = map[string]string{"snapshot": "Full-00000000-00004711-1767312000.gz", "revision": "4711"}
	snapshot.Status.LastOperation = &v1alpha1.LastOperation{Name: "TakeSnapshot", State: v1alpha1.OperationStateCompleted, LastTransitionTime: clitest.Ago(20), Reason: "etcd-main-2 leads, and has taken it"}
	for name, d := range map[string]description{
		"held":      {task: clitest.Held(), place: "1 of 3"},
		"ended":     {task: ended, events: events},
		"rejected":  {task: clitest.Rejected(v1alpha1.ErrStrategy, "the update strategy of StatefulSet etcd-main is not OnDelete"), noEvents: "not permitted: events is forbidden"},
		"unseen":    {task: clitest.Task("etcd-main-restart-x7k2p", v1alpha1.QuorumAwareRollout, "", 3), place: "1 of 1"},
		"suspended": {task: suspended, place: "suspended, among 2"},
		"snapshot":  {task: snapshot},
	} {
		d.now, d.location = clitest.Now, time.UTC
		for suffix, width := range map[string]int{"": 0, "-80": 80} {
			golden.Check(t, "describe-"+name+suffix+".txt", []byte(strings.Join(d.lines(width), "\n")+"\n"))
		}
	}
}

func TestEveryEndHasAdvice(t *testing.T) {
	for code := range adviceByError {
		if len(advice(clitest.Rejected(code, "because"))) == 0 {
			t.Errorf("%s: no advice", code)
		}
	}
	if got := strings.Join(advice(clitest.Rejected("ERR_NEW", "because")), ""); !strings.Contains(got, "ERR_NEW: because") {
		t.Errorf("an error that is not known: %q", got)
	}
	if got := advice(clitest.Task("a", v1alpha1.CopyBackups, v1alpha1.TaskStateSucceeded, 1)); len(got) > 0 {
		t.Errorf("a success: %q", got)
	}
}
