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
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// pod returns the pod that the guard of clitest.Held waits for. Its container prepare has the state given, and etcd has
// crashed or has not run.
func pod(prepare corev1.ContainerState, crashed bool) *corev1.Pod {
	p := &corev1.Pod{}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: v1alpha1.InitContainerPrepare, State: prepare}}
	etcd := corev1.ContainerStatus{Name: v1alpha1.ContainerEtcd, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}}
	if crashed {
		etcd.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{etcd}
	return p
}

func TestDescribe(t *testing.T) {
	imagePullFails := pod(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}, false)
	refuses := pod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "DataLost: the volume of etcd-main-1 is empty\x1b[2J, and the cluster has no quorum to replace it"}}, false)
	crashes := pod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}, true)
	ended, events := clitest.Ended()
	suspended := clitest.Task("etcd-main-defrag-b2wlq", v1alpha1.OnDemandMaintenance, v1alpha1.TaskStatePending, 40)
	suspended.Spec.Suspend = true
	snapshot := clitest.Task("etcd-main-snapshot-k9fzx", v1alpha1.OnDemandSnapshot, v1alpha1.TaskStateSucceeded, 40)
	snapshot.Status.Result = map[string]string{"snapshot": "Full-00000000-00004711-1767312000.gz", "revision": "4711"}
	snapshot.Status.LastOperation = &v1alpha1.LastOperation{Name: "TakeSnapshot", State: v1alpha1.OperationStateCompleted, LastTransitionTime: clitest.Ago(20), Reason: "etcd-main-2 leads, and has taken it"}
	twice := clitest.Held()
	twice.Status.Rollout.BlockedBy = []v1alpha1.BlockedBy{
		{Guard: v1alpha1.GuardOthersParticipating, Pod: "etcd-main-1", Message: twice.Status.Rollout.HeldBy.Message},
		{Guard: v1alpha1.GuardQuorumKept, Pod: "etcd-main-2", Message: "removing etcd-main-2 would leave 1 of 3 voters; quorum is 2"},
	}
	for name, d := range map[string]description{
		"twice":     {task: twice, place: "1 of 3"},
		"held":      {task: clitest.Held(), place: "1 of 3", pod: imagePullFails},
		"refuses":   {task: clitest.Held(), place: "1 of 3", pod: refuses},
		"crashes":   {task: clitest.Held(), place: "1 of 3", pod: crashes},
		"no-pod":    {task: clitest.Held(), place: "1 of 3"},
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
		if len((description{task: clitest.Rejected(code, "because")}).advice()) == 0 {
			t.Errorf("%s: no advice", code)
		}
	}
	if got := strings.Join(description{task: clitest.Rejected("ERR_NEW", "because")}.advice(), ""); !strings.Contains(got, "ERR_NEW: because") {
		t.Errorf("an error that is not known: %q", got)
	}
	if got := (description{task: clitest.Task("a", v1alpha1.CopyBackups, v1alpha1.TaskStateSucceeded, 1)}).advice(); len(got) > 0 {
		t.Errorf("a success: %q", got)
	}
}

// A Restore that a recovery supersedes has not done its work, and no other task does it.
func TestAdviceOnARestoreThatIsSuperseded(t *testing.T) {
	g := NewWithT(t)
	task := clitest.Rejected(v1alpha1.ErrSuperseded, "task r2 supersedes it")
	g.Expect(description{task: task}.advice()).To(ConsistOf(HavePrefix("Nothing: ")))
	task.Spec.Type = v1alpha1.Restore
	g.Expect(description{task: task}.advice()).To(ConsistOf(And(HavePrefix("The cluster may not have gone back: "), ContainSubstring(", unless it found that a quorum was back. "))))
}

// What a Restore or a recovery has begun goes on after its deadline: it is not to be created again.
func TestAdviceOnWhatGoesOn(t *testing.T) {
	g := NewWithT(t)
	task := clitest.Rejected(v1alpha1.ErrDeadlineExceeded, "the task did not end within 4h0m0s")
	g.Expect(description{task: task}.advice()).To(ConsistOf(HaveSuffix("fix that, and create the task again.")))
	task.Status.Recovery = &v1alpha1.RecoveryStatus{}
	g.Expect(description{task: task}.advice()).To(ConsistOf(HaveSuffix("fix that, and create the task again.")))
	task.Spec.Type, task.Status.Recovery.Source = v1alpha1.Restore, v1alpha1.RecoverFromTarget
	g.Expect(description{task: task}.advice()).To(ConsistOf(And(HavePrefix("The cluster goes on without the task"), ContainSubstring("--undo TASK"), Not(ContainSubstring("create the task again")))))
	task.Status.LastErrors[0].Code = v1alpha1.ErrStatefulSetNotFound
	g.Expect(description{task: task}.advice()).To(ConsistOf(HavePrefix("The cluster goes on without the task")))
	task.Spec.Type = v1alpha1.QuorumLossRecovery
	g.Expect(description{task: task}.advice()).To(ConsistOf(And(HavePrefix("The cluster goes on without the task"), ContainSubstring("create another QuorumLossRecovery"))))
}

// A Restore waits for members of a source cluster to leave. Other tasks are for that cluster.
func TestAdviceOnARestoreBesideASource(t *testing.T) {
	g := NewWithT(t)
	task := clitest.Rejected(v1alpha1.ErrSourceCluster, "it still shares a cluster")
	g.Expect(description{task: task}.advice()).To(ConsistOf(ContainSubstring("recover or compact it there")))
	task.Spec.Type = v1alpha1.Restore
	g.Expect(description{task: task}.advice()).To(ConsistOf("Wait until the last member of the source cluster has left (condition Scaled of the Etcd), and create the task again."))
}

// Advice has commands, and no name that a shell would interpret.
func TestAdviceOnATaskWithAnotherName(t *testing.T) {
	g := NewWithT(t)
	task := clitest.Task("rollout", v1alpha1.QuorumAwareRollout, v1alpha1.TaskStatePending, 40)
	task.Spec.Suspend = true
	g.Expect(description{task: task}.advice()).To(ConsistOf(ContainSubstring("kubectl etcdtask plan etcd-main")))
	task.Spec.OwnerEtcdReference.Name = "$(evil)"
	g.Expect(description{task: task}.advice()).To(ConsistOf(Not(ContainSubstring("evil"))))
}
