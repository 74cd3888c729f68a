// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollouts

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// change returns a template change to revision main-abc, with the existing tasks.
func change(tasks ...v1alpha1.EtcdOperatorTask) pending {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}}
	return pending{etcd: etcd, set: "set", revision: "main-abc", tasks: tasks}
}

// owned makes the Etcd the owner of a task, as the engine does on arrival.
func owned(t v1alpha1.EtcdOperatorTask) v1alpha1.EtcdOperatorTask {
	t.OwnerReferences = []metav1.OwnerReference{{UID: "etcd"}}
	return t
}

// rolloutTask returns a rollout task to a revision, created some minutes ago.
func rolloutTask(config string, state v1alpha1.TaskState, minutesAgo int) v1alpha1.EtcdOperatorTask {
	at := metav1.Time{Time: now.Add(-time.Duration(minutesAgo) * time.Minute)}
	t := v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: "by-hand", CreationTimestamp: at},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.QuorumAwareRollout, Config: config},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: state},
	}
	if state.IsFinal() {
		t.Status.CompletedAt = &at
	}
	return t
}

func TestCovered(t *testing.T) {
	recreate := rolloutTask("targetRevision: main-abc", v1alpha1.TaskStatePending, 1)
	recreate.Spec.Type = v1alpha1.RecreateRollout
	snapshot := rolloutTask("", v1alpha1.TaskStatePending, 1)
	snapshot.Spec.Type = v1alpha1.OnDemandSnapshot
	started := rolloutTask("", v1alpha1.TaskStateInProgress, 1)
	started.Status.Rollout = &v1alpha1.RolloutStatus{TargetRevision: "main-old"}
	for name, c := range map[string]struct {
		task v1alpha1.EtcdOperatorTask
		want bool
	}{
		"to this revision":                      {rolloutTask("targetRevision: main-abc", v1alpha1.TaskStateInProgress, 1), true},
		"to another one":                        {rolloutTask("targetRevision: main-old", v1alpha1.TaskStateInProgress, 1), false},
		"by a user, to the current revision":    {rolloutTask("", v1alpha1.TaskStatePending, 1), true},
		"by a user, started with an older one":  {started, false},
		"a restart follows the revision":        {rolloutTask("restart: true", v1alpha1.TaskStateInProgress, 1), true},
		"one that has ended":                    {rolloutTask("targetRevision: main-abc", v1alpha1.TaskStateSucceeded, 1), false},
		"a recreation":                          {recreate, true},
		"a task of another type":                {snapshot, false},
		"a suspended one waits for an approval": {suspend(rolloutTask("targetRevision: main-abc", v1alpha1.TaskStatePending, 1)), true},
	} {
		if got := change(c.task).covered(); got != c.want {
			t.Errorf("%s: covered is %v", name, got)
		}
	}
	if change().covered() {
		t.Error("covered without a task")
	}
}

func suspend(t v1alpha1.EtcdOperatorTask) v1alpha1.EtcdOperatorTask {
	t.Spec.Suspend = true
	return t
}

func supersede(t v1alpha1.EtcdOperatorTask) v1alpha1.EtcdOperatorTask {
	t.Status.State = v1alpha1.TaskStateRejected
	t.Status.LastErrors = []v1alpha1.LastError{{Code: v1alpha1.ErrSuperseded}}
	return t
}

func TestNameIsAFunctionOfTheWork(t *testing.T) {
	g := NewWithT(t)
	first, wait := change().next(now)
	g.Expect(wait).To(BeZero())
	again, _ := change().next(now.Add(time.Hour))
	g.Expect(again.Name).To(Equal(first.Name))
	other := change()
	other.set = "another set"
	elsewhere, _ := other.next(now)
	g.Expect(elsewhere.Name).NotTo(Equal(first.Name), "a revision hash means nothing beyond its StatefulSet")
	g.Expect(first.Spec.Config).To(Equal("targetRevision: main-abc\n"))
	g.Expect(first.OwnerReferences).To(HaveLen(1))
	g.Expect(first.Spec.Suspend).To(BeFalse())
}

func TestNextAttempt(t *testing.T) {
	first, _ := change().next(now)
	named := func(t v1alpha1.EtcdOperatorTask) v1alpha1.EtcdOperatorTask { t.Name = first.Name; return t }
	for name, c := range map[string]struct {
		before v1alpha1.EtcdOperatorTask
		wait   time.Duration
	}{
		"after a success: the revision came back": {named(rolloutTask("", v1alpha1.TaskStateSucceeded, 0)), 0},
		"after one that was superseded":           {named(supersede(rolloutTask("", v1alpha1.TaskStateRejected, 0))), 0},
		"after a failure, a moment ago":           {named(rolloutTask("", v1alpha1.TaskStateFailed, 0)), 10 * time.Second},
		"after a failure, long ago":               {named(rolloutTask("", v1alpha1.TaskStateFailed, 5)), 0},
	} {
		next, wait := change(c.before).next(now)
		if wait != c.wait || next.Name == first.Name {
			t.Errorf("%s: %s in %s", name, next.Name, wait)
		}
	}
	other := named(rolloutTask("", v1alpha1.TaskStateFailed, 0))
	other.Spec.Type = v1alpha1.OnDemandSnapshot
	if next, wait := change(other).next(now); next.Name != first.Name || wait > 0 {
		t.Errorf("a task of another type, which has the name, delays the rollout by %s, and is an attempt: %s", wait, next.Name)
	}
	if next, _ := change(rolloutTask("", v1alpha1.TaskStateSucceeded, 0)).next(now); next.Name != first.Name {
		t.Error("a task with another name counts as an attempt")
	}
}

func TestSuspendIsInherited(t *testing.T) {
	manual := change()
	manual.etcd.Annotations = map[string]string{v1alpha1.AnnotationRollout: v1alpha1.RolloutManual}
	for name, c := range map[string]struct {
		change pending
		want   bool
	}{
		"manual approval":              {manual, true},
		"from one that has not ended":  {change(suspend(rolloutTask("", v1alpha1.TaskStateInProgress, 1))), true},
		"from one that was superseded": {change(suspend(supersede(owned(rolloutTask("", v1alpha1.TaskStateRejected, 1))))), true},
		"past one that was rejected on arrival": {change(
			suspend(supersede(owned(rolloutTask("", v1alpha1.TaskStateRejected, 9)))), supersede(rolloutTask("", v1alpha1.TaskStateRejected, 1))), true},
		"not from one that succeeded":        {change(suspend(rolloutTask("", v1alpha1.TaskStateSucceeded, 1))), false},
		"not from one before a newer one":    {change(suspend(rolloutTask("", v1alpha1.TaskStateInProgress, 9)), rolloutTask("", v1alpha1.TaskStateInProgress, 1)), false},
		"not from one that is not suspended": {change(rolloutTask("", v1alpha1.TaskStateInProgress, 1)), false},
	} {
		if next, _ := c.change.next(now); next.Spec.Suspend != c.want {
			t.Errorf("%s: suspend is %v", name, next.Spec.Suspend)
		}
	}
}

// Of tasks of one second, the one that arrived last counts, in whatever order a cache lists them: a recreation that followed a
// suspended rollout has taken its place.
func TestSuspendIsInheritedFromTheTaskThatArrivedLast(t *testing.T) {
	arrived := func(t v1alpha1.EtcdOperatorTask, resourceVersion string) v1alpha1.EtcdOperatorTask {
		t.Status.ArrivalResourceVersion = resourceVersion
		return t
	}
	suspended := suspend(supersede(owned(rolloutTask("", v1alpha1.TaskStateRejected, 1))))
	recreation := owned(rolloutTask("", v1alpha1.TaskStateSucceeded, 1))
	recreation.Spec.Type = v1alpha1.RecreateRollout
	for name, c := range map[string]struct {
		change pending
		want   bool
	}{
		"the recreation came later, and is listed first": {change(arrived(recreation, "10"), arrived(suspended, "9")), false},
		"the recreation came later, and is listed last":  {change(arrived(suspended, "9"), arrived(recreation, "10")), false},
		"the rollout came later, and is listed first":    {change(arrived(suspended, "10"), arrived(recreation, "9")), true},
		"the rollout came later, and is listed last":     {change(arrived(recreation, "9"), arrived(suspended, "10")), true},
	} {
		if next, _ := c.change.next(now); next.Spec.Suspend != c.want {
			t.Errorf("%s: suspend is %v", name, next.Spec.Suspend)
		}
	}
}
