// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/base/coded"
	"github.com/etcd-foreman/etcd-foreman/internal/engine/queue"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	succeeded = v1alpha1.TaskStateSucceeded
	failed    = v1alpha1.TaskStateFailed
	rejected  = v1alpha1.TaskStateRejected
)

// endsAs has the handler give a verdict.
func endsAs(v tasks.Verdict) func() tasks.Verdict { return func() tasks.Verdict { return v } }

// What a handler says of a task becomes its state, its conditions and its events. Events follow what was written.
func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		verdict  tasks.Verdict
		state    v1alpha1.TaskState
		progress string
		events   []string
		again    time.Duration
		cleaned  bool
	}{
		"it goes on":                          {tasks.Verdict{Outcome: tasks.Continue, Message: "one of two", RequeueAfter: 7 * time.Second}, running, "Running: one of two", nil, 7 * time.Second, false},
		"it goes on by events":                {tasks.Verdict{Outcome: tasks.Continue, Message: "one of two"}, running, "Running: one of two", nil, 0, false},
		"it has news":                         {tasks.Verdict{Outcome: tasks.Continue, Message: "one of two", Event: "Half", RequeueAfter: 7 * time.Second}, running, "Running: one of two", []string{"Normal Half one of two"}, 7 * time.Second, false},
		"it takes a step":                     {tasks.Verdict{Outcome: tasks.Continue, Message: "one of two", Event: "Half", Step: &tasks.Step{Operation: "Try", Reason: "it is time", RecheckAfter: 3 * time.Second}}, running, "Running: one of two", []string{"Normal Try it is time"}, 3 * time.Second, false},
		"it is stalled":                       {tasks.Verdict{Outcome: tasks.Continue, Reason: v1alpha1.ReasonStalled, Message: "no progress"}, running, "Stalled: no progress", []string{"Warning Stalled no progress"}, 0, false},
		"it is done":                          {tasks.Verdict{Outcome: tasks.Done, Message: "all is well"}, succeeded, "Succeeded: all is well", []string{"Normal Succeeded all is well"}, 0, true},
		"it is done, for a reason of its own": {tasks.Verdict{Outcome: tasks.Done, Message: "all is well", EndReason: "NothingToDo"}, succeeded, "NothingToDo: all is well", []string{"Normal Succeeded all is well"}, 0, true},
		"it is done, and has news":            {tasks.Verdict{Outcome: tasks.Done, Message: "all is well", Event: "Half"}, succeeded, "Succeeded: all is well", []string{"Normal Succeeded all is well", "Normal Half all is well"}, 0, true},
		"it has failed":                       {tasks.Verdict{Outcome: tasks.Fail, Code: v1alpha1.ErrJob, Message: "no space"}, failed, "Failed: ERR_JOB: no space", []string{"Warning Failed ERR_JOB: no space"}, 0, true},
		"it is outdated":                      {tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrSuperseded, Message: "by another"}, rejected, "Rejected: ERR_SUPERSEDED: by another", []string{"Warning Rejected ERR_SUPERSEDED: by another"}, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", running)
			e := newEngine(t, s)
			e.execute = endsAs(c.verdict)
			e.Expect(e.look()).To(Equal(c.again))
			e.Expect(e.state("a")).To(Equal(c.state))
			e.Expect(e.progress("a")).To(Equal(c.progress))
			e.Expect(e.told()).To(Equal(c.events))
			e.Expect(len(e.cleaned) == 1).To(Equal(c.cleaned))
			e.Expect(e.runs()).To(Equal(map[bool]int{false: 1, true: 0}[c.cleaned]))
			e.look()
			e.Expect(e.told()).To(HaveLen(map[bool]int{false: 0, true: 1}[c.verdict.Step != nil || c.verdict.Event != "" && !c.cleaned]))
		})
	}
}

// No event says what was not written.
func TestNoEventWithoutAWrite(t *testing.T) {
	for name, verdict := range map[string]tasks.Verdict{
		"done": {Outcome: tasks.Done, Event: "News"},
		"news": {Outcome: tasks.Continue, Message: "one of two", Event: "News"},
	} {
		s := newServer(t)
		s.add(t, "a", running)
		s.beforeStatus = func() error { return errors.New("the API server is away") }
		e := newEngine(t, s)
		e.execute = endsAs(verdict)
		e.Expect(e.look()).To(Equal(firstPause), name)
		e.Expect(e.told()).To(BeEmpty(), name)
		e.Expect(e.state("a")).To(Equal(running), name)
		e.Expect(e.runs()).To(Equal(1), name)
	}
}

// A step that fails is told of, and tried again after a while, whatever happens meanwhile.
func TestStepThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code v1alpha1.ErrorCode
	}{
		"an error with a code": {coded.Error(v1alpha1.ErrJob, errors.New("the API server says no")), v1alpha1.ErrJob},
		"any other error":      {errors.New("the API server says no"), v1alpha1.ErrInternal},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", running)
			e := newEngine(t, s)
			e.execute = step
			e.onPerform = func() error { return c.err }
			e.Expect(e.look()).To(Equal(retryInterval))
			e.Expect(e.told()).To(Equal([]string{"Warning Try the API server says no"}))
			e.Expect(s.get(t, "a").Status.LastErrors).To(HaveLen(1))
			e.Expect(s.get(t, "a").Status.LastErrors[0].Code).To(Equal(c.code))
			e.Expect(s.get(t, "a").Status.LastErrors[0].Description).To(Equal("the API server says no"))
			e.pass(retryInterval - 1)
			e.Expect(e.look()).To(Equal(time.Duration(1)), "its own record is no reason to try again")
			e.Expect(e.performed).To(HaveLen(1))
			e.onPerform = nil
			e.pass(1)
			e.look()
			e.Expect(e.performed).To(HaveLen(2))
			e.Expect(e.told()).To(Equal([]string{"Normal Try it is time"}))
		})
	}
}

// A step that keeps failing, for hours if need be, is tried again soon at first, and then as rarely as details are written: each attempt is a
// write of its intent.
func TestAStepThatKeepsFailing(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	e := newEngine(t, s)
	e.execute, e.onPerform = step, func() error { return errors.New("etcd says no") }
	writes := 0
	s.beforeStatus = func() error { writes++; return nil }
	attempts := map[string]int{}
	for passed := time.Duration(0); passed < 20*time.Minute; {
		again := max(e.look(), time.Millisecond)
		e.told()
		for within, d := range map[string]time.Duration{"5s": 5 * time.Second, "20s": 20 * time.Second} {
			if passed <= d {
				attempts[within] = len(e.performed)
			}
		}
		e.pass(again)
		passed += again
	}
	e.Expect(attempts["5s"]).To(BeNumerically(">=", 4))
	e.Expect(attempts["20s"]).To(BeNumerically(">=", 8))
	e.Expect(len(e.performed)).To(BeNumerically("~", 120, 20), "every ten seconds")
	e.Expect(writes).To(BeNumerically("<", 2*120), "of which the error is one a minute at most")

	e.onPerform = nil
	e.look()
	e.pass(detailInterval)
	e.look()
	e.onPerform = func() error { return errors.New("etcd says no") }
	e.pass(retryInterval)
	e.Expect(e.look()).To(Equal(retryInterval), "it has succeeded in between")
}

// The handler decides on admission, with the config that is recorded then. A task that is rejected is never said to have begun.
func TestAdmission(t *testing.T) {
	for name, c := range map[string]struct {
		verdict  tasks.Verdict
		err      error
		state    v1alpha1.TaskState
		progress string
		events   []string
		again    time.Duration
	}{
		"admitted":  {tasks.Verdict{Outcome: tasks.Continue, Message: "nothing is in its way"}, nil, running, "Running: it waits", []string{"Normal Started task OnDemandSnapshot of Etcd main has started"}, 0},
		"refused":   {tasks.Verdict{Outcome: tasks.Reject, Code: v1alpha1.ErrInvalidConfig, Message: "no store"}, nil, rejected, "Rejected: ERR_INVALID_CONFIG: no store", []string{"Warning Rejected ERR_INVALID_CONFIG: no store"}, 0},
		"not known": {tasks.Verdict{}, errors.New("the API server is away"), pending, "Retrying: the API server is away", nil, firstPause},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", pending)
			e := newEngine(t, s)
			e.onAdmit = func() (tasks.Verdict, error) { return c.verdict, c.err }
			e.Expect(e.look()).To(Equal(c.again))
			e.Expect(e.state("a")).To(Equal(c.state))
			e.Expect(e.progress("a")).To(Equal(c.progress))
			e.Expect(e.told()).To(Equal(c.events))
			e.Expect(e.cleaned).To(BeEmpty())
			task := s.get(t, "a")
			if c.state == running {
				e.Expect(task.Status.Config).To(Equal(`"a"`))
				e.Expect(task.Status.InitiatedAt.Time).To(BeTemporally("==", e.clock.Now()))
				e.Expect(meta.FindStatusCondition(task.Status.Conditions, v1alpha1.ConditionAdmitted).Message).To(Equal("nothing is in its way"))
			}
			if c.err != nil {
				e.Expect(task.Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrInternal))
			}
		})
	}
}

// A task says on admission what it runs beside, and what it preempts.
func TestCompany(t *testing.T) {
	task := func(name string, taskType v1alpha1.TaskType, state v1alpha1.TaskState) *v1alpha1.EtcdOperatorTask {
		t := inState(newTask(), state)
		t.Name, t.UID, t.Spec.Type = name, types.UID(name), taskType
		return t
	}
	stalled := task("a", v1alpha1.QuorumAwareRollout, running)
	stalled.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Reason: v1alpha1.ReasonStalled}}
	pauses := task("a", v1alpha1.QuorumAwareRollout, running)
	pauses.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionProgressing, Reason: v1alpha1.ReasonWaitingForWindow}}
	waits := task("a", v1alpha1.QuorumAwareRollout, pending)
	waits.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAdmitted, Status: metav1.ConditionFalse}}
	held := task("a", v1alpha1.OnDemandMaintenance, running)
	held.Status.Conditions = stalled.Status.Conditions
	for want, q := range map[string][]*v1alpha1.EtcdOperatorTask{
		"; it goes ahead of a, which waits for other Etcds": {waits, task("b", v1alpha1.OnDemandSnapshot, pending)},
		"":                                     {task("b", v1alpha1.OnDemandSnapshot, pending)},
		"; it runs beside a, which is stalled": {stalled, task("b", v1alpha1.OnDemandSnapshot, pending)},
		"; it runs beside a, which pauses":     {pauses, task("b", v1alpha1.OnDemandSnapshot, pending)},
		"; it preempts a, which continues afterwards":                        {task("a", v1alpha1.QuorumAwareRollout, running), task("b", v1alpha1.QuorumLossRecovery, pending)},
		"; it preempts a, which waits for a member and continues afterwards": {held, task("b", v1alpha1.QuorumAwareRollout, pending)},
	} {
		if got := company(queue.New(q), "b"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A task that takes longer than its type allows fails, also while it is suspended. It is looked at again when it will have.
func TestDeadlines(t *testing.T) {
	for name, c := range map[string]struct {
		suspend bool
		after   time.Duration
		state   v1alpha1.TaskState
		// again is when the engine looks again while it is suspended; one that runs says so itself.
		again time.Duration
	}{
		"there is time":                      {false, time.Hour - 1, running, 0},
		"its time is over":                   {false, time.Hour, failed, 0},
		"there is time, and it is suspended": {true, time.Hour - time.Minute, running, time.Minute},
		"its time is over while suspended":   {true, time.Hour, failed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", running, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = c.suspend })
			e := newEngine(t, s)
			e.Registry[v1alpha1.OnDemandSnapshot] = tasks.Type{Handler: e.actor, Deadline: time.Hour}
			e.clock.SetTime(epoch.Add(c.after))
			e.Expect(e.look()).To(Equal(c.again))
			e.Expect(e.state("a")).To(Equal(c.state))
			if c.state == failed {
				e.Expect(e.progress("a")).To(Equal("Failed: ERR_DEADLINE_EXCEEDED: the task did not end within 1h0m0s"))
				e.Expect(e.cleaned).To(Equal([]string{"a"}))
			}
		})
	}
}

// A task that has chosen what a cluster starts from ends by its deadline, and the cluster goes on: the task says so.
func TestDeadlineOfWhatGoesOn(t *testing.T) {
	const over = "Failed: ERR_DEADLINE_EXCEEDED: the task did not end within 1h0m0s"
	for name, c := range map[string]struct {
		is   v1alpha1.RecoveryStatus
		says string
	}{
		"nothing is chosen":    {v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoverySurveying, Restore: &v1alpha1.RestoreStatus{Fenced: true}}, over},
		"a restore begins":     {v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryStarting, Source: v1alpha1.RecoverFromTarget, Restore: &v1alpha1.RestoreStatus{Fenced: true}}, over + ". If status.recovery of Etcd main names the task, the members go on to start from what it has chosen. Clients are let in, also while no quorum votes. To go back to what the members had before, undo the task once a quorum serves"},
		"a restore grows":      {v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryGrowing, Source: v1alpha1.RecoverFromTarget, Restore: &v1alpha1.RestoreStatus{Fenced: true}}, over + ". The members go on to start from what it has chosen. Clients are let in, also while no quorum votes. To go back to what the members had before, undo the task once a quorum serves"},
		"clients were let in":  {v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryGrowing, Source: v1alpha1.RecoverFromTarget, Restore: &v1alpha1.RestoreStatus{}}, over + ". The members go on to start from what it has chosen. To go back to what the members had before, undo the task once a quorum serves"},
		"a recovery continues": {v1alpha1.RecoveryStatus{Phase: v1alpha1.RecoveryGrowing, Source: v1alpha1.RecoverFromData}, over + ". The members go on to start from what it has chosen"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", running, func(task *v1alpha1.EtcdOperatorTask) { task.Status.Recovery = &c.is })
			e := newEngine(t, s)
			e.Registry[v1alpha1.OnDemandSnapshot] = tasks.Type{Handler: e.actor, Deadline: time.Hour}
			e.clock.SetTime(epoch.Add(time.Hour))
			e.look()
			e.Expect(e.progress("a")).To(Equal(c.says))
		})
	}
}

// settable is a clock that can be set. Time passes by the one that cannot.
type settable struct {
	*clocktesting.FakePassiveClock
	ahead time.Duration
	read  map[time.Time]time.Time
}

func (c *settable) Now() time.Time {
	now := c.FakePassiveClock.Now()
	c.read[now.Add(c.ahead)] = now
	return now.Add(c.ahead)
}

func (c *settable) Since(at time.Time) time.Duration { return c.FakePassiveClock.Since(c.read[at]) }

// Who sets the operator's clock while a task runs neither ends it nor prolongs it.
func TestDeadlineOnAClockThatIsSet(t *testing.T) {
	for _, ahead := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		s := newServer(t)
		s.add(t, "a", running)
		e := newEngine(t, s)
		clock := &settable{FakePassiveClock: e.clock, read: map[time.Time]time.Time{}}
		e.Clock = clock
		e.Registry[v1alpha1.OnDemandSnapshot] = tasks.Type{Handler: e.actor, Deadline: time.Hour}
		e.look()
		clock.ahead = ahead
		e.clock.SetTime(epoch.Add(time.Hour - 1))
		e.look()
		e.Expect(e.state("a")).To(Equal(running), "the clock is %s ahead", ahead)
		e.clock.SetTime(epoch.Add(time.Hour))
		e.look()
		e.Expect(e.state("a")).To(Equal(failed), "the clock is %s ahead", ahead)
	}
}

// A task whose admission was recorded by a clock that was ahead has no more time than others.
func TestDeadlineOfATaskFromTheFuture(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running, func(task *v1alpha1.EtcdOperatorTask) {
		task.Status.InitiatedAt = &metav1.Time{Time: epoch.Add(24 * time.Hour)}
	})
	e := newEngine(t, s)
	e.Registry[v1alpha1.OnDemandSnapshot] = tasks.Type{Handler: e.actor, Deadline: time.Hour}
	e.look()
	seen := e.clock.Now()
	e.clock.SetTime(seen.Add(time.Hour - 1))
	e.look()
	e.Expect(e.state("a")).To(Equal(running))
	e.clock.SetTime(seen.Add(time.Hour))
	e.look()
	e.Expect(e.state("a")).To(Equal(failed))
}

// A task that is suspended between two steps says so, is not executed, and does not lose its place.
func TestSuspendedTask(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = true })
	s.add(t, "b", pending)
	e := newEngine(t, s)
	e.execute = step
	e.Expect(e.look()).To(BeZero())
	e.Expect(e.progress("a")).To(Equal("Suspended: spec.suspend is set: the task is suspended between two steps, and keeps its place"))
	e.Expect(e.performed).To(BeEmpty())
	e.Expect(e.state("b")).To(Equal(pending))
	s.change(t, "a", func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = false })
	e.look()
	e.Expect(e.performed).To(Equal([]string{"a"}))
}

// What a paused operator has recorded may still happen, and a task that is suspended or preempted does not repeat or revoke it by a step.
func TestTaskThatRestsRevokesItsIntents(t *testing.T) {
	for name, c := range map[string]struct {
		state   v1alpha1.TaskState
		suspend bool
		others  []v1alpha1.TaskType
		rests   string // empty if it does not
	}{
		"it is suspended":                 {running, true, nil, "Suspended: spec.suspend is set"},
		"it is preempted":                 {running, false, []v1alpha1.TaskType{v1alpha1.QuorumLossRecovery}, "Preempted: "},
		"it runs":                         {running, false, nil, ""},
		"it runs before another":          {running, false, []v1alpha1.TaskType{v1alpha1.OnDemandMaintenance}, ""},
		"it was suspended from the start": {pending, true, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", c.state, func(task *v1alpha1.EtcdOperatorTask) {
				task.Spec.Type, task.Spec.Suspend = v1alpha1.QuorumAwareRollout, c.suspend
			})
			e := newEngine(t, s)
			var revoked []string
			refusal := errors.New("the API server is away")
			for _, of := range append(c.others, v1alpha1.QuorumAwareRollout) {
				e.Registry[of] = tasks.Type{Handler: e.actor}
			}
			e.Registry[v1alpha1.QuorumAwareRollout] = tasks.Type{Handler: e.actor, RevokeIntents: func(_ context.Context, task tasks.Task) error {
				revoked = append(revoked, task.Object.Name)
				return refusal
			}}
			for _, of := range c.others {
				s.add(t, string(of), pending, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = of })
			}
			wait := e.look()
			if c.rests == "" {
				e.Expect(revoked).To(BeEmpty())
				return
			}
			e.Expect(revoked).To(Equal([]string{"a"}))
			e.Expect(wait).To(Equal(firstPause))
			e.Expect(e.progress("a")).To(Equal("Retrying: the API server is away"), "it does not rest yet")
			refusal = nil
			e.pass(detailInterval)
			e.look()
			e.Expect(revoked).To(Equal([]string{"a", "a"}))
			e.Expect(e.progress("a")).To(HavePrefix(c.rests))
			e.Expect(e.state("a")).To(Equal(running))
			e.Expect(e.cleaned).To(BeEmpty())
		})
	}
}

// Whatever the cache shows, nothing is done twice on one state of a task: the engine waits until the cache shows its own write.
func TestCacheHasToCatchUp(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	e := newEngine(t, s)
	e.Client = s.freeze(t)
	asked := 0
	e.execute = func() tasks.Verdict {
		asked++
		return step()
	}
	e.look()
	e.Expect(e.performed).To(HaveLen(1))
	e.Expect(e.look()).To(Equal(retryInterval))
	e.Expect(e.performed).To(HaveLen(1))
	e.Expect(asked).To(Equal(1))
}

// The next of many tasks is looked at soon, and none of those that are turned away is forgotten.
func TestThoseThatAreTurnedAwayLater(t *testing.T) {
	g := NewWithT(t)
	for pending, soon := range map[int]bool{maxLine + maxTurnedAway: false, maxLine + maxTurnedAway + 1: true} {
		c := newCrowd(pending, 0)
		result, err := c.engine(&actor{}).Reconcile(t.Context(), ctrl.Request{NamespacedName: mainKey})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.RequeueAfter == retryInterval).To(Equal(soon))
		for i, task := range c.all {
			want := map[bool]v1alpha1.TaskState{true: rejected}[i >= maxLine && i < maxLine+maxTurnedAway]
			if i < maxLine {
				continue
			}
			g.Expect(task.Status.State).To(Equal(want), task.Name)
		}
		turnedAway := c.all[maxLine]
		g.Expect(turnedAway.Status.ArrivalResourceVersion).NotTo(BeEmpty())
		g.Expect(turnedAway.Status.LastErrors[0].Description).To(HavePrefix("50 earlier tasks of Etcd main have not ended"))
	}
	c := newCrowd(maxLine+1, 0)
	c.refused = c.all[maxLine].UID
	result, err := c.engine(&actor{}).Reconcile(t.Context(), ctrl.Request{NamespacedName: mainKey})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.RequeueAfter).To(Equal(firstPause), "it is tried again")
}

// Tasks that have ended are deleted when their time has come, and looked at again then.
func TestExpiry(t *testing.T) {
	ended := func(ttl int32) func(*v1alpha1.EtcdOperatorTask) {
		return func(task *v1alpha1.EtcdOperatorTask) {
			task.Spec.TTLSecondsAfterFinished, task.Status.CompletedAt = ptr.To(ttl), &metav1.Time{Time: epoch}
		}
	}
	s := newServer(t)
	s.add(t, "a", succeeded, ended(100))
	s.add(t, "b", failed, ended(200))
	s.add(t, "c", rejected)
	s.ended = epoch
	e := newEngine(t, s)
	e.clock.SetTime(epoch.Add(99 * time.Second))
	e.Expect(e.look()).To(Equal(time.Second))
	e.Expect(s.get(t, "a")).NotTo(BeNil())
	e.pass(time.Second)
	e.Expect(e.look()).To(Equal(100 * time.Second))
	e.Expect(s.get(t, "a")).To(BeNil())
	e.Expect(s.get(t, "b")).NotTo(BeNil())
	e.Expect(s.get(t, "c")).NotTo(BeNil(), "it is unknown when it ended")

	s.beforeDelete = errors.New("the API server is away")
	e.pass(time.Hour)
	e.Expect(e.look()).To(Equal(firstPause))
	e.pass(firstPause)
	e.Expect(e.look()).To(Equal(2*firstPause), "it is tried less and less often")
}

// A wrong clock of the operator, or of the one that recorded the end, deletes no task before its time, and keeps none for ever. With a
// recovery's task go the data that members have kept.
func TestExpiryOnAClockThatIsWrong(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		// at is how far ahead the clock is at the start, and then what it is set to. wrote is how far ahead the clock was that recorded
		// the end.
		at, then, wrote time.Duration
		// stamped: the API server says when the status was written.
		stamped bool
		// restarts: another operator looks each time.
		restarts bool
		deleted  time.Duration
	}{
		"right":                            {0, 0, 0, true, false, 100 * time.Second},
		"set ahead":                        {0, day, 0, true, false, 100 * time.Second},
		"set back":                         {0, -day, 0, true, false, 100 * time.Second},
		"ahead from the start":             {day, day, 0, true, false, 100 * time.Second},
		"ahead, of each operator":          {day, day, 0, true, true, 100 * time.Second},
		"ahead, until it was set right":    {day, 0, 0, true, false, 100 * time.Second},
		"behind":                           {-day, -day, 0, true, false, 100 * time.Second},
		"behind, and nothing was stamped":  {-day, -day, 0, false, false, 110 * time.Second},
		"recorded by one that was ahead":   {0, 0, day, true, false, 100 * time.Second},
		"recorded ahead, and it restarts":  {0, 0, 1000 * day, true, true, 100 * time.Second},
		"recorded by one that was behind":  {0, 0, -day, true, false, 100 * time.Second},
		"ahead, and nothing was stamped":   {day, day, 0, false, false, 110 * time.Second},
		"right, and the operator restarts": {0, 0, 0, true, true, 100 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", succeeded, func(task *v1alpha1.EtcdOperatorTask) {
				task.Spec.TTLSecondsAfterFinished, task.Status.CompletedAt = ptr.To[int32](100), &metav1.Time{Time: epoch.Add(c.wrote)}
			})
			var e *engine
			for second := 10; second <= 120; second += 10 {
				if e == nil || c.restarts {
					e = newEngine(t, s)
					e.Clock = &settable{FakePassiveClock: e.clock, read: map[time.Time]time.Time{}, ahead: c.at}
				}
				if s.ended = epoch; !c.stamped {
					s.ended = time.Time{}
				}
				e.clock.SetTime(epoch.Add(time.Duration(second) * time.Second))
				e.look()
				after := time.Duration(second) * time.Second
				e.Expect(s.get(t, "a") == nil).To(Equal(after >= c.deleted), "after %s", after)
				e.Clock.(*settable).ahead = c.then
			}
			e.Expect(s.asked).To(BeNumerically("<=", map[bool]int{false: 2, true: 12}[c.restarts]), "the API server is asked for the time")
			if !c.stamped {
				e.Expect(s.asked).To(BeZero(), "there is nothing to compare the time with")
			}
		})
	}
}

// How long a task has been running says nothing of how long ago it ended, also if another operator's clock has dated its start to the second
// of its end.
func TestExpiryOfATaskThatEndsWhenItSaysToHaveBegun(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running, func(task *v1alpha1.EtcdOperatorTask) {
		task.Status.InitiatedAt = &metav1.Time{Time: epoch.Add(90 * time.Second)}
		task.Spec.TTLSecondsAfterFinished = ptr.To[int32](30)
	})
	e := newEngine(t, s)
	e.look()
	e.pass(30 * time.Second)
	e.execute = endsAs(tasks.Verdict{Outcome: tasks.Done, Message: "all is well"})
	e.look()
	ended := s.get(t, "a").Status
	e.Expect(ended.CompletedAt.Time).To(BeTemporally("==", ended.InitiatedAt.Time))
	e.Expect(e.look()).To(Equal(30 * time.Second))
	e.pass(29 * time.Second)
	e.look()
	e.Expect(s.get(t, "a")).NotTo(BeNil())
	e.pass(time.Second)
	e.look()
	e.Expect(s.get(t, "a")).To(BeNil())
}

// A change that matters is written at once. Another wording waits, also after a change that mattered, and is written in the end: a pod
// that is replaced within that time costs no write of its own.
func TestWordingWaits(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	e := newEngine(t, s)
	e.pass(time.Hour)
	e.execute = endsAs(tasks.Verdict{Outcome: tasks.Continue, Reason: v1alpha1.ReasonStalled, Message: "urgent"})
	e.look()
	e.execute = endsAs(tasks.Verdict{Outcome: tasks.Continue, Message: "zero"})
	e.look()
	e.Expect(e.progress("a")).To(Equal("Running: zero"), "a condition has changed")
	says := func(what string, again time.Duration) string {
		e.execute = endsAs(tasks.Verdict{Outcome: tasks.Continue, Message: what, RequeueAfter: time.Hour})
		e.Expect(e.look()).To(Equal(again))
		return s.get(t, "a").Status.Progressing().Message
	}
	e.pass(6 * time.Second)
	e.Expect(says("one", detailInterval-6*time.Second)).To(Equal("zero"))
	e.pass(detailInterval - 6*time.Second)
	e.Expect(says("two", time.Hour)).To(Equal("two"))
	e.pass(9 * time.Second)
	e.Expect(says("three", detailInterval-9*time.Second)).To(Equal("two"))
	e.Expect(says("two", time.Hour)).To(Equal("two"), "nothing is left to write")
	e.execute = endsAs(tasks.Verdict{Outcome: tasks.Continue, Reason: v1alpha1.ReasonStalled, Message: "five"})
	e.look()
	e.Expect(e.progress("a")).To(Equal("Stalled: five"), "a condition has changed")
}

// Of two waits, the sooner counts, and 0 is none.
func TestSooner(t *testing.T) {
	for _, c := range [][3]time.Duration{{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 2, 1}, {2, 1, 1}, {2, -1, 2}} {
		if got := sooner(c[0], c[1]); got != c[2] {
			t.Errorf("%v: %s", c, got)
		}
	}
}

// What could not be written is tried again, whatever it was.
func TestWritesThatFail(t *testing.T) {
	away := errors.New("the API server is away")
	suspended := func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = true }
	foreign := func(task *v1alpha1.EtcdOperatorTask) { task.OwnerReferences[0].UID = "old" }
	unknown := func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = "Dance" }
	for name, c := range map[string]struct {
		state   v1alpha1.TaskState
		change  func(*v1alpha1.EtcdOperatorTask)
		prepare func(*engine)
		// so many writes succeed before one that does not.
		after int
		err   error
		again time.Duration
	}{
		"how far it is":                 {running, nil, nil, 0, away, firstPause},
		"that a task is suspended":      {running, suspended, nil, 0, away, firstPause},
		"that it is of an earlier Etcd": {running, foreign, nil, 0, away, firstPause},
		"that its type is unknown":      {pending, unknown, nil, 0, away, firstPause},
		"that a step has failed":        {running, nil, func(e *engine) { e.execute, e.onPerform = step, func() error { return away } }, 1, away, 2 * retryInterval},
		"why it was not admitted": {pending, nil, func(e *engine) {
			e.onAdmit = func() (tasks.Verdict, error) { return tasks.Verdict{}, errors.New("no") }
		}, 0, away, firstPause},
		"why it was not admitted, and has been": {pending, nil, func(e *engine) {
			e.onAdmit = func() (tasks.Verdict, error) { return tasks.Verdict{}, errors.New("no") }
		}, 0, apierrors.NewConflict(tasksResource, "a", away), retryInterval},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			if c.change == nil {
				c.change = func(*v1alpha1.EtcdOperatorTask) {}
			}
			s.add(t, "a", c.state, c.change)
			e := newEngine(t, s)
			if c.prepare != nil {
				c.prepare(e)
			}
			s.beforeStatus = func() error {
				if c.after--; c.after < 0 {
					return c.err
				}
				return nil
			}
			e.Expect(e.look()).To(Equal(c.again))
			e.Expect(e.state("a")).To(Equal(c.state))
		})
	}
}

// A task whose config cannot be recorded is not admitted: after a restart, it would be lost.
func TestConfigThatCannotBeRecorded(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", pending)
	e := newEngine(t, s)
	e.Registry[v1alpha1.OnDemandSnapshot] = tasks.Type{Handler: unencodable{e.actor}}
	e.Expect(e.look()).To(Equal(firstPause))
	e.Expect(e.progress("a")).To(HavePrefix("Retrying: encoding the config of task a: "))
	e.Expect(e.state("a")).To(Equal(pending))
}

// unencodable is a handler whose configs have no JSON.
type unencodable struct{ *actor }

func (unencodable) Decode(string) (any, error) { return make(chan int), nil }

// A handler sees what was decided, with times as they are, and not what the API server keeps of them.
func TestStatusDuringAStep(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", pending)
	e := newEngine(t, s)
	e.pass(time.Second / 2)
	e.execute = step
	e.look()
	e.Expect(e.shown.InitiatedAt.Time).To(Equal(e.clock.Now()))
	e.Expect(s.get(t, "a").Status.InitiatedAt.Time).NotTo(BeTemporally("==", e.clock.Now()))
}

// The guards of a task that a recovery has preempted are not asked: it says that it waits for the recovery, and not what blocked it before.
func TestAPreemptedTaskIsBlockedByNoGuard(t *testing.T) {
	s := newServer(t)
	s.add(t, "rollout", running, func(task *v1alpha1.EtcdOperatorTask) {
		hold := v1alpha1.BlockedBy{Guard: "OthersParticipating", Message: "main-1 does not participate"}
		task.Status.Rollout = &v1alpha1.RolloutStatus{HeldBy: &v1alpha1.Hold{Guard: hold.Guard, Message: hold.Message}, BlockedBy: []v1alpha1.BlockedBy{hold}}
	})
	s.add(t, "recovery", running, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.QuorumLossRecovery })
	e := newEngine(t, s)
	e.Registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: e.actor}
	e.look()
	e.Expect(e.progress("rollout")).To(HavePrefix("Preempted: recovery has preempted this task"))
	held, all := s.get(t, "rollout").Status.Held()
	e.Expect(held).To(BeNil())
	e.Expect(all).To(BeEmpty())
}

// Nor are those of a rollout that is suspended, which is held by the user alone: what comes of the change of members behind it does not
// depend on what it waited for, and the time is no guard's.
func TestASuspendedRolloutIsBlockedByNoGuard(t *testing.T) {
	s := newServer(t)
	blocked := &v1alpha1.Hold{Guard: "OthersParticipating", Since: metav1.Time{Time: epoch}}
	of := func(taskType v1alpha1.TaskType) func(*v1alpha1.EtcdOperatorTask) {
		return func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type, task.Spec.Suspend = taskType, true }
	}
	s.add(t, "rollout", running, of(v1alpha1.QuorumAwareRollout), func(task *v1alpha1.EtcdOperatorTask) {
		task.Status.Rollout = &v1alpha1.RolloutStatus{HeldBy: blocked, BlockedBy: []v1alpha1.BlockedBy{{Guard: blocked.Guard}}}
	})
	s.add(t, "members", pending, of(v1alpha1.MembershipChange), func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = false })
	e := newEngine(t, s)
	for _, known := range []v1alpha1.TaskType{v1alpha1.QuorumAwareRollout, v1alpha1.MembershipChange} {
		e.Registry[known] = tasks.Type{Handler: e.actor}
	}
	e.look()
	held, all := s.get(t, "rollout").Status.Held()
	e.Expect(held).To(BeNil())
	e.Expect(all).To(BeEmpty())
	e.pass(time.Hour)
	e.look()
	e.Expect(e.admitted).To(Equal([]string{"members"}))
	e.Expect(meta.FindStatusCondition(s.get(t, "members").Status.Conditions, v1alpha1.ConditionAdmitted).Message).To(HaveSuffix("; it runs beside rollout, which is suspended"))
	e.pass(time.Hour)
	s.change(t, "rollout", func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = false })
	e.executes = func(task tasks.Task) tasks.Verdict {
		if task.Object.Name != "rollout" {
			return tasks.Verdict{Outcome: tasks.Continue, Message: "it waits"}
		}
		return tasks.Verdict{Outcome: tasks.Done, Rollout: &v1alpha1.RolloutStatus{}}
	}
	e.look()
	e.Expect(e.state("rollout")).To(Equal(succeeded))
	e.Expect(testutil.ToFloat64(e.Metrics.held.WithLabelValues("OthersParticipating", mainKey.Name, mainKey.Namespace))).To(Equal(time.Minute.Seconds()), "from its beginning to the suspension")
}

// A task is stalled once this operator has seen it without progress for its deadline, whatever the clock of another one has written. What another one
// has said is kept until there is progress: two of them do not correct each other.
func TestStalledByWhatThisOperatorHasSeen(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	first, second := newEngine(t, s), newEngine(t, s)
	last := epoch.Add(-time.Hour)
	for _, e := range []*engine{first, second} {
		e.execute = func() tasks.Verdict {
			return tasks.Verdict{
				Outcome: tasks.Continue, Reason: v1alpha1.ReasonHeld, Message: "why", ProgressDeadline: 10 * time.Minute,
				Rollout: &v1alpha1.RolloutStatus{LastProgressTime: &metav1.Time{Time: last}},
			}
		}
	}
	says := func(e *engine) string {
		e.look()
		return e.progress("a")
	}
	first.Expect(says(first)).To(Equal("Held: why"), "by a clock that is an hour behind")
	first.pass(10*time.Minute - time.Second)
	first.Expect(says(first)).To(Equal("Held: why"))
	first.pass(time.Second)
	first.Expect(says(first)).To(Equal("Stalled: no progress for 10m0s; why"))
	written := s.get(t, "a").ResourceVersion
	for range 3 {
		first.Expect(says(second)).To(HavePrefix("Stalled: "), "it has only just begun to look")
		first.Expect(says(first)).To(HavePrefix("Stalled: "))
	}
	first.Expect(s.get(t, "a").ResourceVersion).To(Equal(written), "nothing is corrected")
	last = epoch
	first.Expect(says(second)).To(Equal("Held: why"))
	first.Expect(says(first)).To(Equal("Held: why"))
}
