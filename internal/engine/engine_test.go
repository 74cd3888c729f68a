// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"testing"
	"time"

	configv1alpha1 "github.com/etcd-foreman/etcd-foreman/api/config/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	pending = v1alpha1.TaskStatePending
	running = v1alpha1.TaskStateInProgress
)

var tasksResource = schema.GroupResource{Resource: "etcdoperatortasks"}

// No step is carried out whose intent is not recorded: a second operator counts on finding it.
func TestStepIsNotCarriedOutWithoutItsIntent(t *testing.T) {
	for name, c := range map[string]struct {
		answer    error
		performed int
		again     time.Duration
	}{
		"it is recorded":              {nil, 1, 0},
		"another client wrote":        {apierrors.NewConflict(tasksResource, "a", errors.New("modified")), 0, retryInterval},
		"a user has deleted it":       {apierrors.NewNotFound(tasksResource, "a"), 0, retryInterval},
		"the API server does not say": {errors.New("timeout"), 0, firstPause},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", running)
			s.beforeStatus = func() error { return c.answer }
			e := newEngine(t, s)
			e.execute = step
			e.Expect(e.look()).To(Equal(c.again))
			e.Expect(e.performed).To(HaveLen(c.performed))
		})
	}
}

// Two operators decide on the same state of a task: the second one fails at the write, and does nothing.
func TestSecondOperatorFailsAtTheIntent(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	first, second := newEngine(t, s), newEngine(t, s)
	first.execute, second.execute = step, step
	second.Client = s.freeze(t)
	first.look()
	first.Expect(first.performed).To(HaveLen(1))
	second.Expect(second.look()).To(Equal(retryInterval), "it looks again")
	second.Expect(second.performed).To(BeEmpty())
}

// An operator that is paused after it has recorded an intent does not carry it out late: another may have taken over.
func TestStaleIntentIsNotCarriedOut(t *testing.T) {
	for name, c := range map[string]struct {
		paused    time.Duration
		performed int
	}{
		"not paused":      {0, 1},
		"just in time":    {configv1alpha1.StepTimeout, 1},
		"paused too long": {configv1alpha1.StepTimeout + time.Nanosecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", running)
			e := newEngine(t, s)
			e.execute = step
			s.beforeStatus = func() error {
				e.pass(c.paused)
				return nil
			}
			e.Expect(e.look()).To(Equal(map[int]time.Duration{0: retryInterval, 1: 0}[c.performed]))
			e.Expect(e.performed).To(HaveLen(c.performed))
		})
	}
}

// A task is admitted when the API server says that it is its turn. The cache may not show the task that runs.
func TestAdmissionIsDecidedOnLiveReads(t *testing.T) {
	suspend := func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = true }
	for name, c := range map[string]struct {
		since    func(t *testing.T, s *server)
		admitted bool
	}{
		"nothing has happened":      {func(*testing.T, *server) {}, true},
		"another was created later": {func(t *testing.T, s *server) { s.add(t, "b", pending) }, true},
		"another runs":              {func(t *testing.T, s *server) { s.add(t, "b", running) }, false},
		"another is suspended":      {func(t *testing.T, s *server) { s.add(t, "b", pending, suspend) }, true},
		"it was suspended":          {func(t *testing.T, s *server) { s.change(t, "a", suspend) }, false},
		"it was deleted":            {func(t *testing.T, s *server) { s.deleteA(t) }, false},
		"its Etcd was deleted": {func(t *testing.T, s *server) {
			if err := s.tracker.Delete(t.Context(), etcdOf("")); err != nil {
				t.Fatal(err)
			}
		}, false},
		"it runs already": {func(t *testing.T, s *server) { s.deleteA(t); s.add(t, "a", running) }, false},
		"another one has its name": {func(t *testing.T, s *server) {
			s.deleteA(t)
			s.add(t, "a", pending, func(task *v1alpha1.EtcdOperatorTask) { task.UID = "other" })
		}, false},
		"another recovers the Etcd": {func(t *testing.T, s *server) {
			s.add(t, "b", pending, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.QuorumLossRecovery })
		}, false},
		"another of an earlier time": {func(t *testing.T, s *server) { s.created = -1; s.add(t, "b", pending) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", pending)
			e := newEngine(t, s)
			e.Client = s.freeze(t)
			c.since(t, s)
			again := e.look()
			if c.admitted {
				e.Expect(e.admitted).To(Equal([]string{"a"}))
				e.Expect(e.state("a")).To(Equal(running))
				return
			}
			e.Expect(e.admitted).To(BeEmpty())
			e.Expect(again).To(Equal(retryInterval), "it looks again once the cache has caught up")
		})
	}
}

// An expired task is deleted as the cache shows it. It is kept when that is not what the API server has.
func TestExpiredTaskIsDeletedAsItWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		since func(t *testing.T, s *server)
		kept  bool
	}{
		"nothing has happened": {func(*testing.T, *server) {}, false},
		"its TTL was raised": {func(t *testing.T, s *server) {
			s.change(t, "a", func(task *v1alpha1.EtcdOperatorTask) { task.Spec.TTLSecondsAfterFinished = ptr.To(int32(3600)) })
		}, true},
		"another one has its name": {func(t *testing.T, s *server) {
			s.deleteA(t)
			s.add(t, "a", pending, func(task *v1alpha1.EtcdOperatorTask) { task.UID = "other" })
		}, true},
		"a user has deleted it": {func(t *testing.T, s *server) { s.deleteA(t) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", v1alpha1.TaskStateSucceeded, func(task *v1alpha1.EtcdOperatorTask) {
				task.Spec.TTLSecondsAfterFinished = ptr.To(int32(0))
				task.Status.CompletedAt = task.CreationTimestamp.DeepCopy()
			})
			e := newEngine(t, s)
			e.Client = s.freeze(t)
			c.since(t, s)
			again := e.look()
			e.Expect(s.get(t, "a") != nil).To(Equal(c.kept))
			e.Expect(again).To(Equal(map[bool]time.Duration{true: retryInterval}[name != "nothing has happened"]), "it looks again once the cache has caught up")
		})
	}
}

// What a deleted task recorded may still happen, so no other task is carried on before it is cleaned up after.
func TestNothingRunsBeforeADeletedTaskIsCleanedUpAfter(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	e := newEngine(t, s)
	e.look()
	s.deleteA(t)
	s.add(t, "b", pending)
	broken := errors.New("the API server is away")
	e.cleanUp = func() error { return broken }
	for range 3 {
		_, err := e.Reconcile(t.Context(), ctrl.Request{NamespacedName: mainKey})
		e.Expect(err).To(MatchError(broken))
		e.Expect(e.state("b")).To(Equal(pending))
	}
	e.Expect(e.cleaned).To(Equal([]string{"a", "a", "a"}))
	e.cleanUp = nil
	e.look()
	e.Expect(e.state("b")).To(Equal(running))
	e.look()
	e.Expect(e.cleaned).To(HaveLen(4), "once is enough")
}

// Nor is a task forgotten that has had no turn since the operator started, as one that a recovery has preempted.
func TestATaskThatWasPreemptedBeforeARestartIsCleanedUpAfter(t *testing.T) {
	for name, c := range map[string]struct {
		suspend bool
		prepare func(*engine)
	}{
		"it waits":                               {false, func(*engine) {}},
		"it is suspended, and may be superseded": {true, func(e *engine) { e.failure = errors.New("the API server is away") }},
		"its config cannot be read, nor it ended": {false, func(e *engine) {
			e.restore, e.cleanUp = errors.New("no config"), func() error { return errors.New("not yet") }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", running, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = c.suspend })
			s.add(t, "recovery", running, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.QuorumLossRecovery })
			e := newEngine(t, s)
			e.Registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: &actor{}}
			c.prepare(e)
			e.look()
			s.deleteA(t)
			e.cleaned, e.cleanUp = nil, nil
			e.look()
			e.Expect(e.cleaned).To(Equal([]string{"a"}))
			e.look()
			e.Expect(e.cleaned).To(HaveLen(1), "once is enough")
		})
	}
}

// A task of a type that has no handler is not cleaned up after.
func TestATaskWithoutAHandlerIsDeleted(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	e := newEngine(t, s)
	e.Registry = tasks.Registry{}
	s.beforeStatus = func() error { return errors.New("the API server is away") }
	e.look()
	s.deleteA(t)
	e.look()
	e.Expect(e.runs()).To(BeZero())
}

// A task does not end before what it has recorded has become impossible: whatever comes next would run beside it.
func TestTaskDoesNotEndBeforeItIsCleanedUpAfter(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	s.add(t, "b", pending)
	e := newEngine(t, s)
	e.execute = func() tasks.Verdict { return tasks.Verdict{Outcome: tasks.Done, Message: "all is done"} }
	e.cleanUp = func() error { return errors.New("the API server is away") }
	wait := e.look()
	e.Expect(wait).To(Equal(firstPause))
	e.Expect(e.state("a")).To(Equal(running))
	e.Expect(e.progress("a")).To(Equal("Retrying: the API server is away"))
	e.Expect(e.state("b")).To(Equal(pending))
	e.cleanUp = nil
	e.pass(wait)
	e.look()
	e.Expect(e.state("a")).To(Equal(v1alpha1.TaskStateSucceeded))
	e.Expect(e.cleaned).To(Equal([]string{"a", "a"}))
}

// A task that is suspended before it starts may never run: no task is a duplicate of it, and it supersedes none.
func TestSuspendedTaskTakesNobodysPlace(t *testing.T) {
	same := func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Config = "the same" }
	suspended := func(task *v1alpha1.EtcdOperatorTask) { same(task); task.Spec.Suspend = true }
	type list []func(*v1alpha1.EtcdOperatorTask)
	for name, c := range map[string]struct {
		a, b       list
		wantA      v1alpha1.TaskState
		wantB      v1alpha1.TaskState
		superseded bool
	}{
		"the second is a duplicate":               {a: list{same}, b: list{same}, wantA: running, wantB: v1alpha1.TaskStateRejected},
		"not of a suspended one":                  {a: list{suspended}, b: list{same}, wantA: pending, wantB: running},
		"nor is the first of a later one":         {a: list{same}, b: list{suspended}, wantA: running, wantB: v1alpha1.TaskStateRejected},
		"a later one of its kind supersedes it":   {a: list{same}, b: list{same}, superseded: true, wantA: v1alpha1.TaskStateRejected, wantB: pending},
		"one that is suspended does not":          {a: list{same}, b: list{suspended}, superseded: true, wantA: running, wantB: pending},
		"one that has yet to arrive does not yet": {a: list{same}, b: list{same, func(task *v1alpha1.EtcdOperatorTask) { task.Status.State = "" }}, superseded: true, wantA: running, wantB: pending},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			e := newEngine(t, s)
			if c.superseded {
				c.b = append(c.b, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.RecreateRollout })
				e.Registry[v1alpha1.RecreateRollout] = e.Registry[v1alpha1.OnDemandSnapshot]
				recreate := e.Registry[v1alpha1.RecreateRollout]
				recreate.Supersedes = []v1alpha1.TaskType{v1alpha1.OnDemandSnapshot}
				e.Registry[v1alpha1.RecreateRollout] = recreate
			}
			s.add(t, "a", pending, c.a...)
			s.add(t, "b", pending, c.b...)
			e.look()
			e.Expect(e.state("a")).To(Equal(c.wantA))
			e.Expect(e.state("b")).To(Equal(c.wantB))
		})
	}
}

// A task that runs and is suspended ends when it is outdated: it would be in the way of those behind it for ever.
func TestSuspendedRunningTaskEndsWhenItIsSuperseded(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = true })
	e := newEngine(t, s)
	e.look()
	e.Expect(e.state("a")).To(Equal(running))
	e.superseded = "there is a newer revision"
	e.look()
	e.Expect(e.state("a")).To(Equal(v1alpha1.TaskStateRejected))
	e.Expect(e.cleaned).To(Equal([]string{"a"}))
}

// A task that fails again and again, before anything of it is written, is tried less and less often.
func TestBackOffIsRememberedWithoutWrites(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", pending)
	e := newEngine(t, s)
	e.failure = errors.New("the API server is away")
	for wait := firstPause; wait < maxPause; wait *= 2 {
		e.Expect(e.look()).To(Equal(wait))
		e.pass(wait)
	}
	e.Expect(e.look()).To(Equal(maxPause))
	e.pass(maxPause)
	e.failure = nil
	e.look()
	e.Expect(e.state("a")).To(Equal(running))
}

// What keeps a task from going on, and from saying so in its status, is said by an event, once.
func TestATaskWhoseStatusCannotBeWrittenIsToldOf(t *testing.T) {
	for name, state := range map[string]v1alpha1.TaskState{"it arrives": pending, "it runs": running} {
		s := newServer(t)
		s.add(t, "a", state)
		e := newEngine(t, s)
		e.execute = endsAs(tasks.Verdict{Outcome: tasks.Done, Message: "all is well"})
		s.beforeStatus = func() error { return errors.New("status.rollout.pods: Too long") }
		for wait := firstPause; wait < maxPause; wait *= 2 {
			e.Expect(e.look()).To(Equal(wait), name)
			e.Expect(e.told()).To(BeEmpty(), name)
			e.pass(wait)
		}
		e.Expect(e.look()).To(Equal(maxPause), name)
		e.Expect(e.told()).To(ConsistOf(And(HavePrefix("Warning Retrying "), ContainSubstring("retried every 30s"), ContainSubstring("writing the status of task ns/a: status.rollout.pods: Too long"))), name)
		for range 5 {
			e.pass(maxPause)
			e.Expect(e.look()).To(Equal(maxPause), name)
		}
		e.Expect(e.told()).To(BeEmpty(), name)
	}
}

// A request in the background fails after the reconcile that started it has succeeded, which does not shorten the waits between its
// failures.
func TestBackOffOfARequestInTheBackground(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	e := newEngine(t, s)
	asked, fails := false, errors.New("the store is away")
	e.execute = func() tasks.Verdict {
		v := step()
		v.Step.RecheckAfter = time.Second
		return v
	}
	e.onExecute = func() error {
		if asked = !asked; asked {
			return nil
		}
		return fails
	}
	var waits []time.Duration
	for passed := time.Duration(0); passed < 10*time.Minute; {
		again := e.look()
		if e.told(); !asked {
			waits = append(waits, again)
		}
		e.pass(again)
		passed += again
	}
	e.Expect(waits[:6]).To(Equal([]time.Duration{firstPause, 2 * firstPause, 4 * firstPause, 8 * firstPause, 16 * firstPause, 32 * firstPause}))
	e.Expect(waits[len(waits)-1]).To(Equal(maxPause))
	e.Expect(len(e.performed)).To(BeNumerically("<", 30))

	e.onExecute = nil
	for passed := time.Duration(0); passed <= maxPause; passed += time.Second {
		e.look()
		e.pass(time.Second)
		e.told()
	}
	e.onExecute = func() error { return fails }
	e.Expect(e.look()).To(Equal(firstPause), "it has gone without a failure for as long as it waited")
}

// One that succeeds in between, for a while, is tried again as soon as any other.
func TestBackOffEndsWithASuccess(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", pending, func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = true })
	e := newEngine(t, s)
	e.failure = errors.New("the API server is away")
	e.Expect(e.look()).To(Equal(firstPause))
	e.pass(firstPause)
	e.failure = nil
	e.Expect(e.look()).To(BeZero())
	e.pass(detailInterval)
	e.Expect(e.look()).To(BeZero())
	e.failure = errors.New("the API server is away")
	e.Expect(e.look()).To(Equal(firstPause))
}

// A queue that is blocked since a deleted task cannot be cleaned up after says so.
func TestCleanupThatFailsIsToldOf(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	e := newEngine(t, s)
	e.look()
	s.deleteA(t)
	e.cleanUp = func() error { return errors.New("the API server is away") }
	lookInVain := func() {
		_, err := e.Reconcile(t.Context(), ctrl.Request{NamespacedName: mainKey})
		e.Expect(err).To(HaveOccurred())
	}
	e.told()
	const why = "cleaning up after task a, which was deleted while it was running: the API server is away"
	lookInVain()
	e.Expect(e.told()).To(Equal([]string{"Warning CleanupFailed " + why}), "also while no task waits")

	s.add(t, "b", "")
	s.add(t, "c", pending)
	s.beforeStatus = func() error { return errors.New("nor does it take a status") }
	_, err := e.Reconcile(t.Context(), ctrl.Request{NamespacedName: mainKey})
	e.Expect(err).To(MatchError(And(ContainSubstring(why), ContainSubstring("nor does it take a status"))))
	s.beforeStatus = nil
	lookInVain()
	e.Expect(e.state("b")).To(Equal(pending))
	e.Expect(e.progress("b")).To(Equal("CleanupFailed: no task of Etcd main runs until this succeeds; it is retried: " + why))
	before := s.get(t, "b").ResourceVersion
	lookInVain()
	e.Expect(s.get(t, "b").ResourceVersion).To(Equal(before), "it is written once")
	e.Expect(e.told()).To(BeEmpty(), "the event is made once")

	e.cleanUp = nil
	e.look()
	e.Expect(e.state("b")).To(Equal(running))
	e.Expect(e.progress("b")).To(Equal("Running: it waits"))
}

// A user with rights on status, or an earlier operator, may have written that a task runs that was never admitted.
func TestTaskThatRunsWithoutAnAdmissionIsRejected(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.EtcdOperatorTask){
		"and runs":         func(*v1alpha1.EtcdOperatorTask) {},
		"and is suspended": func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = true },
	} {
		for _, deadline := range []time.Duration{0, time.Hour} {
			t.Run(name+" "+deadline.String(), func(t *testing.T) {
				s := newServer(t)
				s.add(t, "a", running, change, func(task *v1alpha1.EtcdOperatorTask) { task.Status.InitiatedAt = nil })
				e := newEngine(t, s)
				e.Registry[v1alpha1.OnDemandSnapshot] = tasks.Type{Handler: e.actor, Deadline: deadline}
				e.execute, e.restore = step, errors.New("no admission has written it")
				e.look()
				e.Expect(e.state("a")).To(Equal(v1alpha1.TaskStateRejected))
				e.Expect(s.get(t, "a").Status.LastErrors[0].Code).To(Equal(v1alpha1.ErrNotAdmitted))
				e.Expect(e.performed).To(BeEmpty())
				e.Expect(e.cleaned).To(Equal([]string{"a"}), "it may have recorded something")
			})
		}
	}
}
