// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/queue"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// newTask makes a pending task that was created at the epoch and is at a resourceVersion.
func newTask(resourceVersion string) *v1alpha1.EtcdOperatorTask {
	return &v1alpha1.EtcdOperatorTask{
		ObjectMeta: metav1.ObjectMeta{Name: "a", ResourceVersion: resourceVersion, CreationTimestamp: metav1.Time{Time: epoch}},
		Spec:       v1alpha1.EtcdOperatorTaskSpec{Type: v1alpha1.OnDemandSnapshot},
		Status:     v1alpha1.EtcdOperatorTaskStatus{State: v1alpha1.TaskStatePending},
	}
}

func inState(t *v1alpha1.EtcdOperatorTask, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
	t.Status.State = state
	return t
}

func TestLifeOfATask(t *testing.T) {
	g := NewWithT(t)
	task := newTask("7")
	task.Status = v1alpha1.EtcdOperatorTaskStatus{}
	recordArrival(task)
	g.Expect(task.Status.State).To(Equal(v1alpha1.TaskStatePending))
	g.Expect(task.Status.ArrivalResourceVersion).To(Equal("7"))
	task.ResourceVersion = "8"
	recordArrival(task)
	g.Expect(task.Status.ArrivalResourceVersion).To(Equal("7"), "the arrival is recorded once")

	recordAdmission(task, "{}", "fine", epoch)
	g.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateInProgress))
	recordVerdict(task, tasks.Verdict{Reason: v1alpha1.ReasonRunning, Message: "going", Progress: "1/3", Step: &tasks.Step{Operation: "DeletePod", Reason: "it is sick"}}, epoch)
	g.Expect(*task.Status.LastOperation).To(Equal(v1alpha1.LastOperation{Name: "DeletePod", State: v1alpha1.OperationStateInProgress, LastTransitionTime: metav1.Time{Time: epoch}, Reason: "it is sick"}))
	g.Expect(meta.IsStatusConditionTrue(task.Status.Conditions, v1alpha1.ConditionProgressing)).To(BeTrue())
	recordVerdict(task, tasks.Verdict{Reason: v1alpha1.ReasonStalled, Message: "stuck"}, epoch)
	g.Expect(task.Status.Progress).To(Equal("1/3"), "what a verdict leaves out stays")
	g.Expect(meta.IsStatusConditionFalse(task.Status.Conditions, v1alpha1.ConditionProgressing)).To(BeTrue())

	task.Status.Rollout = &v1alpha1.RolloutStatus{HeldBy: &v1alpha1.Hold{}}
	recordEnd(task, tasks.Done, "", "all is well", epoch.Add(time.Minute))
	g.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
	g.Expect(task.Status.CompletedAt.Time).To(Equal(epoch.Add(time.Minute)))
	g.Expect(task.Status.InitiatedAt.Time).To(Equal(epoch))
	g.Expect(task.Status.Rollout.HeldBy).To(BeNil())
	g.Expect(task.Status.LastErrors).To(BeEmpty())
}

func TestEndsOfATask(t *testing.T) {
	for outcome, want := range map[tasks.Outcome]struct {
		state               v1alpha1.TaskState
		succeeded, admitted metav1.ConditionStatus
	}{
		tasks.Done:   {v1alpha1.TaskStateSucceeded, metav1.ConditionTrue, metav1.ConditionTrue},
		tasks.Fail:   {v1alpha1.TaskStateFailed, metav1.ConditionFalse, metav1.ConditionTrue},
		tasks.Reject: {v1alpha1.TaskStateRejected, metav1.ConditionFalse, metav1.ConditionFalse},
	} {
		g := NewWithT(t)
		task := newTask("1")
		recordEnd(task, outcome, "", "because", epoch)
		g.Expect(task.Status.State).To(Equal(want.state))
		g.Expect(task.Status.State.IsFinal()).To(BeTrue())
		g.Expect(meta.IsStatusConditionTrue(task.Status.Conditions, v1alpha1.ConditionFinished)).To(BeTrue(), "kubectl wait ends, whatever the outcome")
		g.Expect(meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionSucceeded).Status).To(Equal(want.succeeded))
		g.Expect(meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionAdmitted).Status).To(Equal(want.admitted))
	}
}

func TestLastErrors(t *testing.T) {
	g := NewWithT(t)
	task := newTask("1")
	for i := range 12 {
		addError(task, v1alpha1.ErrInternal, fmt.Sprint(i), epoch)
	}
	g.Expect(task.Status.LastErrors).To(HaveLen(10))
	g.Expect(task.Status.LastErrors[9].Description).To(Equal("11"), "the newest is last")

	addError(task, v1alpha1.ErrInternal, "5", epoch.Add(time.Second))
	g.Expect(task.Status.LastErrors[9].Description).To(Equal("11"), "the same again is not written within a minute")
	addError(task, v1alpha1.ErrInternal, "5", epoch.Add(time.Minute))
	g.Expect(task.Status.LastErrors[9].Description).To(Equal("5"))
	g.Expect(task.Status.LastErrors).To(HaveLen(10))

	addError(task, v1alpha1.ErrInternal, strings.Repeat("x", 1<<20), epoch)
	g.Expect(len(task.Status.LastErrors[9].Description)).To(BeNumerically("<=", maxMessage))
}

func TestUrgency(t *testing.T) {
	base := func() *v1alpha1.EtcdOperatorTask {
		task := newTask("1")
		recordAdmission(task, "", "", epoch)
		recordVerdict(task, tasks.Verdict{Reason: v1alpha1.ReasonHeld, Message: "m-0 is starting", Rollout: &v1alpha1.RolloutStatus{HeldBy: &v1alpha1.Hold{Pod: "m-0"}}}, epoch)
		return task
	}
	for name, c := range map[string]struct {
		change func(*v1alpha1.EtcdOperatorTask)
		urgent bool
	}{
		"nothing": {func(*v1alpha1.EtcdOperatorTask) {}, false},
		"the wording of a hold": {func(t *v1alpha1.EtcdOperatorTask) {
			recordVerdict(t, tasks.Verdict{Reason: v1alpha1.ReasonHeld, Message: "m-0 is ready", Progress: "2/3", Rollout: &v1alpha1.RolloutStatus{UpdatedReplicas: 2}}, epoch)
		}, false},
		"a step": {func(t *v1alpha1.EtcdOperatorTask) {
			recordVerdict(t, tasks.Verdict{Step: &tasks.Step{Operation: "x"}}, epoch)
		}, true},
		"a stall": {func(t *v1alpha1.EtcdOperatorTask) {
			recordVerdict(t, tasks.Verdict{Reason: v1alpha1.ReasonStalled}, epoch)
		}, true},
		"the end":  {func(t *v1alpha1.EtcdOperatorTask) { recordEnd(t, tasks.Done, "", "", epoch) }, true},
		"an error": {func(t *v1alpha1.EtcdOperatorTask) { addError(t, v1alpha1.ErrInternal, "x", epoch) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := base(), base()
			c.change(after)
			if got := isUrgent(&before.Status, &after.Status); got != c.urgent {
				t.Errorf("urgent: %v", got)
			}
		})
	}
}

func TestTimeToLive(t *testing.T) {
	ended := inState(newTask("1"), v1alpha1.TaskStateFailed)
	ended.Status.CompletedAt = &metav1.Time{Time: epoch}
	short := ended.DeepCopy()
	short.Spec.TTLSecondsAfterFinished = ptr.To(int32(0))
	for name, c := range map[string]struct {
		task *v1alpha1.EtcdOperatorTask
		left time.Duration
		ends bool
	}{
		"not ended":   {newTask("1"), 0, false},
		"the default": {ended, time.Hour - 10*time.Second, true},
		"at once":     {short, -10 * time.Second, true},
	} {
		if left, ends := timeToLive(c.task, epoch.Add(10*time.Second)); left != c.left || ends != c.ends {
			t.Errorf("%s: %s, %v", name, left, ends)
		}
	}
}

func TestMetricsCountTheEndOfATaskOnce(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	before := newTask("1")
	before.Namespace, before.Spec.OwnerEtcdReference.Name = "ns", "main"
	after := before.DeepCopy()
	recordEnd(after, tasks.Reject, v1alpha1.ErrInvalidConfig, "no", epoch)
	m.observe(before, after, epoch)
	m.observe(after, after, epoch)
	g.Expect(testutil.ToFloat64(m.total.WithLabelValues("OnDemandSnapshot", "rejected", "main", "ns"))).To(Equal(1.0))
	m.forget(types.NamespacedName{Namespace: "ns", Name: "main"})
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(families).To(BeEmpty())
}

// The metrics of the queue follow it, also when a task is deleted in the middle, and when an operator takes over.
func TestMetricsOfTheQueue(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m := NewMetrics(registry)
	etcd := types.NamespacedName{Namespace: "ns", Name: "main"}
	task := inState(newTask("1"), v1alpha1.TaskStateInProgress)
	recordVerdict(task, tasks.Verdict{Reason: v1alpha1.ReasonStalled}, epoch)
	m.show(etcd, queue.New([]*v1alpha1.EtcdOperatorTask{task}))
	g.Expect(testutil.ToFloat64(m.length.WithLabelValues("main", "ns"))).To(Equal(1.0))
	g.Expect(testutil.ToFloat64(m.stalled.WithLabelValues("main", "ns"))).To(Equal(1.0))
	m.show(etcd, nil)
	g.Expect(testutil.ToFloat64(m.length.WithLabelValues("main", "ns"))).To(BeZero())
	g.Expect(testutil.ToFloat64(m.stalled.WithLabelValues("main", "ns"))).To(BeZero())
	m.forget(etcd)
	g.Expect(registry.Gather()).To(BeEmpty())
}

// The record of a step that failed wakes its task, which still waits.
func TestTaskIsLeftAloneAfterAStepThatFailed(t *testing.T) {
	g := NewWithT(t)
	var m bookkeeping
	task := newTask("1")
	g.Expect(m.pausedFor(task, epoch)).To(BeNumerically("<=", 0))
	m.pause(task, epoch, retryInterval)
	m.resume(task, epoch)
	g.Expect(m.pausedFor(task, epoch)).To(Equal(retryInterval), "a pause that has just begun stays")
	g.Expect(m.pausedFor(task, epoch.Add(retryInterval))).To(BeZero())
	g.Expect(m.backOff(task, epoch)).To(Equal(2 * retryInterval))
	for range 9 {
		m.backOff(task, epoch)
	}
	g.Expect(m.pausedFor(task, epoch)).To(Equal(maxPause))
	m.resume(task, epoch.Add(maxPause))
	g.Expect(m.backOff(task, epoch)).To(Equal(firstPause))
	m.keep(task.EtcdKey(), nil)
	g.Expect(m.pausedFor(task, epoch)).To(BeNumerically("<=", 0))
}

func TestShorten(t *testing.T) {
	g := NewWithT(t)
	g.Expect(shorten("short", 5)).To(Equal("short"))
	g.Expect(shorten("longer", 5)).To(Equal("lo…"))
	g.Expect(shorten("lö ä", 5)).To(Equal("l…"), "no half of a letter")
}

func TestDetailsWait(t *testing.T) {
	for name, c := range map[string]struct {
		last  written
		after time.Duration
		waits bool
	}{
		"an operator that has just started writes":   {written{}, 0, false},
		"a hold that has just begun is not told yet": {written{at: epoch, urgent: true}, 4 * time.Second, true},
		"one that lasts is":                          {written{at: epoch, urgent: true}, 5 * time.Second, false},
		"another wording of it waits for longer":     {written{at: epoch, urgent: false}, 9 * time.Second, true},
		"and is told in the end":                     {written{at: epoch, urgent: false}, 10 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(putOff(c.last, epoch.Add(c.after)) > 0).To(Equal(c.waits))
		})
	}
}

// A task that the cache shows as it was before it was last written is not worked on: the next write would be refused.
func TestCacheIsBehind(t *testing.T) {
	g := NewWithT(t)
	cached := newTask("1")
	cached.ResourceVersion = "99"
	for name, c := range map[string]struct {
		written string
		after   time.Duration
		want    bool
	}{
		"nothing was written":                {"", 0, false},
		"it shows what was there before":     {"100", 0, true},
		"it shows what was written":          {"99", 0, false},
		"somebody else has written it since": {"98", 0, false},
		"it never shows it":                  {"100", maxCacheLag, false},
	} {
		got := written{at: epoch, resourceVersion: c.written}.isBehind(cached, epoch.Add(c.after))
		g.Expect(got).To(Equal(c.want), name)
	}
}
