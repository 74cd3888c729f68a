// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// gate answers as it is told, and remembers what it was asked about.
type gate struct {
	wait, pause *Wait
	err         error
	asked       []string
	// target is the revision that the last task recorded.
	target string
	// change is what it says that the task changes.
	change string
}

func (g *gate) Ask(_ context.Context, task tasks.Task) (*Wait, error) {
	g.asked = append(g.asked, task.Object.Name+" "+task.Object.ResourceVersion)
	if r := task.Object.Status.Rollout; r != nil {
		g.target = r.TargetRevision
	}
	task.Object.Status.Change = g.change
	return g.wait, g.err
}
func (g *gate) Pause(context.Context, *v1alpha1.EtcdOperatorTask) *Wait { return g.pause }
func (g *gate) Wakes() <-chan event.GenericEvent                        { return nil }
func admittedOf(t *v1alpha1.EtcdOperatorTask) string {
	c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionAdmitted)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

// A task whose preconditions are met waits for other Etcds, and says so; then it starts. While it waits it has not begun.
func TestATaskWaitsForOtherEtcds(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", pending)
	e := newEngine(t, s)
	g := &gate{wait: &Wait{Reason: v1alpha1.ReasonWaitingForSlot, Message: "b has the slot", RequeueAfter: 7 * time.Second}}
	e.Gate = g
	e.Expect(e.look()).To(Equal(7 * time.Second))
	e.Expect(e.state("a")).To(Equal(pending))
	e.Expect(e.progress("a")).To(Equal("WaitingForSlot: b has the slot"))
	e.Expect(admittedOf(s.get(t, "a"))).To(Equal("False WaitingForSlot: b has the slot"))
	e.Expect(e.admitted).To(Equal([]string{"a"}), "its preconditions come first")
	e.Expect(e.told()).To(BeEmpty())
	e.Expect(s.get(t, "a").Status.InitiatedAt).To(BeNil())

	version := s.get(t, "a").ResourceVersion
	g.wait = nil
	e.look()
	e.Expect(e.state("a")).To(Equal(running))
	e.Expect(g.asked[len(g.asked)-1]).To(Equal("a "+version), "its start is written on what was asked about")
	e.Expect(admittedOf(s.get(t, "a"))).To(HavePrefix("True Admitted"))

	asked := len(g.asked)
	e.look()
	e.Expect(g.asked).To(HaveLen(asked), "a task that runs is not asked about")
}

// How long a task has waited is how long it has waited with its change: one that it has only just taken up has not been asked for before.
func TestAWaitBeginsAgainWithAnotherChange(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", pending)
	e := newEngine(t, s)
	g := &gate{wait: &Wait{Reason: v1alpha1.ReasonWaitingForSlot, Message: "b has the slot"}}
	e.Gate = g
	since := func() time.Duration {
		e.look()
		return meta.FindStatusCondition(s.get(t, "a").Status.Conditions, v1alpha1.ConditionAdmitted).LastTransitionTime.Sub(epoch).Truncate(time.Hour)
	}
	for _, c := range []struct {
		change  string
		message string
		since   time.Duration
	}{{"A", "b has the slot", 0}, {"A", "c has the slot", 0}, {"B", "c has the slot", 2 * time.Hour}, {"B", "b has the slot", 2 * time.Hour}} {
		g.change, g.wait.Message = c.change, c.message
		e.Expect(since()).To(Equal(c.since), "%+v", c)
		e.pass(time.Hour)
	}
}

// A task that is suspended while it waits, or whose turn it is no longer, does not say that it waits for others.
func TestASuspendedTaskWaitsForNobody(t *testing.T) {
	s := newServer(t)
	s.add(t, "waiting", pending)
	e := newEngine(t, s)
	g := &gate{wait: &Wait{Reason: v1alpha1.ReasonWaitingForSlot, Message: "b has the slot"}}
	e.Gate = g
	e.look()
	s.change(t, "waiting", func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = true })
	asked := len(g.asked)
	e.pass(time.Minute)
	e.look()
	e.Expect(g.asked).To(HaveLen(asked))
	e.Expect(admittedOf(s.get(t, "waiting"))).To(BeEmpty())
	e.Expect(e.progress("waiting")).To(HavePrefix("Suspended: "))
}

// A task does not start while it is not known whether it may, nor if its preconditions are not met.
func TestTheGateComesLast(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", pending)
	e := newEngine(t, s)
	g := &gate{err: errors.New("the ledger cannot be read")}
	e.Gate = g
	e.look()
	e.Expect(e.state("a")).To(Equal(pending))
	e.Expect(e.progress("a")).To(Equal("Retrying: the ledger cannot be read"))

	g.err, g.asked = nil, nil
	e.onAdmit = func() (tasks.Verdict, error) { return tasks.Rejected(v1alpha1.ErrNoQuorum, "no"), nil }
	e.pass(time.Minute)
	e.look()
	e.Expect(e.state("a")).To(Equal(rejected))
	e.Expect(g.asked).To(BeEmpty())
}

// A task that is to pause goes on until its cluster is whole, says why it pauses and what it has observed, and goes on afterwards.
func TestATaskPausesWhereItsClusterIsWhole(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	e := newEngine(t, s)
	whole := false
	e.executes = func(task tasks.Task) tasks.Verdict {
		if !whole || !task.Pausing {
			return step()
		}
		return tasks.Verdict{
			Outcome: tasks.Continue, Pauses: true, Message: "what the type says", RequeueAfter: time.Second, ProgressDeadline: time.Minute,
			Rollout: &v1alpha1.RolloutStatus{UpdatedReplicas: 2, LastProgressTime: &metav1.Time{Time: epoch}},
		}
	}
	g := &gate{pause: &Wait{Reason: v1alpha1.ReasonWaitingForWindow, Message: "the window has closed", RequeueAfter: time.Minute}}
	e.Gate = g
	e.look()
	e.Expect(e.performed).To(HaveLen(1), "a member is stopped: it is not left so until the next window")
	whole = true
	e.Expect(e.look()).To(Equal(time.Minute))
	e.Expect(e.performed).To(HaveLen(1))
	e.Expect(e.state("a")).To(Equal(running))
	for range 2 {
		e.Expect(e.progress("a")).To(Equal("WaitingForWindow: the window has closed"))
		c := meta.FindStatusCondition(s.get(t, "a").Status.Conditions, v1alpha1.ConditionProgressing)
		e.Expect(c.Status).To(Equal(metav1.ConditionFalse))
		e.Expect(s.get(t, "a").Status.Rollout.UpdatedReplicas).To(Equal(int32(2)))
		e.pass(24 * time.Hour)
		e.look()
	}
	g.pause = nil
	e.look()
	e.Expect(e.performed).To(HaveLen(2))
}

// A task that was suspended, or paused, has not been without progress for that long: otherwise it would be stalled when it goes on, and its
// change would fail for the whole fleet.
func TestATaskThatRestedIsNotStalled(t *testing.T) {
	for name, rests := range map[string]func(*server, *gate, bool){
		"paused": func(_ *server, g *gate, rests bool) {
			if g.pause = nil; rests {
				g.pause = &Wait{Reason: v1alpha1.ReasonWaitingForWindow, Message: "the window has closed"}
			}
		},
		"suspended": func(s *server, _ *gate, rests bool) {
			s.change(t, "a", func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Suspend = rests })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", running)
			e := newEngine(t, s)
			g := &gate{}
			e.Gate = g
			e.executes = func(task tasks.Task) tasks.Verdict {
				return tasks.Verdict{
					Outcome: tasks.Continue, Pauses: task.Pausing, Message: "why", ProgressDeadline: 10 * time.Minute,
					Rollout: &v1alpha1.RolloutStatus{LastProgressTime: &metav1.Time{Time: epoch}},
				}
			}
			e.look()
			e.Expect(e.progress("a")).To(Equal("Running: why"))
			e.pass(time.Minute)
			rests(s, g, true)
			e.look()
			e.pass(time.Hour)
			rests(s, g, false)
			e.look()
			e.Expect(e.progress("a")).To(Equal("Running: why"))
			e.pass(10 * time.Minute)
			e.look()
			e.Expect(e.progress("a")).To(HavePrefix("Stalled: "))
		})
	}
}

// Beside a Gate, a task that has ended is kept for as long as the Gate may take to read how, whatever its TTL.
func TestATaskThatHasEndedIsKeptForTheGate(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", failed, func(task *v1alpha1.EtcdOperatorTask) {
		task.Spec.TTLSecondsAfterFinished, task.Status.CompletedAt = ptr.To[int32](0), &metav1.Time{Time: epoch}
	})
	s.ended = epoch
	e := newEngine(t, s)
	e.Gate = &gate{}
	e.clock.SetTime(epoch.Add(minTTL - time.Second))
	e.Expect(e.look()).To(Equal(time.Second))
	e.Expect(s.get(t, "a")).NotTo(BeNil())
	e.pass(time.Second)
	e.look()
	e.Expect(s.get(t, "a")).To(BeNil())
}

// Beside a Gate, which may have to annotate a task, one with so much metadata that the API server may refuse that does not start. A recovery does.
func TestATaskWithTooMuchMetadata(t *testing.T) {
	large := func(taskType v1alpha1.TaskType, size int) func(*v1alpha1.EtcdOperatorTask) {
		return func(task *v1alpha1.EtcdOperatorTask) {
			task.Spec.Type = taskType
			task.Annotations = map[string]string{"a": strings.Repeat("x", size)}
		}
	}
	for name, c := range map[string]struct {
		is    v1alpha1.TaskType
		size  int
		gated bool
		want  v1alpha1.TaskState
	}{
		"large":                {v1alpha1.OnDemandSnapshot, 128 << 10, true, rejected},
		"a recovery":           {v1alpha1.QuorumLossRecovery, 128 << 10, true, running},
		"as kubectl leaves it": {v1alpha1.OnDemandSnapshot, 100 << 10, true, running},
		"without a Gate":       {v1alpha1.OnDemandSnapshot, 128 << 10, false, running},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.add(t, "a", pending, large(c.is, c.size))
			e := newEngine(t, s)
			e.Registry[v1alpha1.QuorumLossRecovery] = tasks.Type{Handler: e.actor}
			g := &gate{}
			if c.gated {
				e.Gate = g
			}
			e.look()
			e.Expect(e.state("a")).To(Equal(c.want))
			if c.want == rejected {
				e.Expect(g.asked).To(BeEmpty())
				e.Expect(s.get(t, "a").Status.LastErrors).To(ConsistOf(HaveField("Code", v1alpha1.ErrTaskTooLarge)))
			}
		})
	}
}

// A recreation follows the StatefulSet until it stops the pods: the Gate is asked again with the revision that it is about to record, and while
// it may not, nothing of that is written.
func TestARecreationIsAskedAboutAgain(t *testing.T) {
	s := newServer(t)
	s.add(t, "a", running)
	s.change(t, "a", func(task *v1alpha1.EtcdOperatorTask) { task.Spec.Type = v1alpha1.RecreateRollout })
	e := newEngine(t, s)
	e.Registry[v1alpha1.RecreateRollout] = e.Registry[v1alpha1.OnDemandSnapshot]
	phase := v1alpha1.RecreatePhase("")
	e.executes = func(tasks.Task) tasks.Verdict {
		return tasks.Verdict{Outcome: tasks.Continue, Message: "it waits", Rollout: &v1alpha1.RolloutStatus{Phase: phase, TargetRevision: "r2"}}
	}
	g := &gate{wait: &Wait{Reason: v1alpha1.ReasonWaitingForCanary, Message: "b tries it", RequeueAfter: 7 * time.Second}}
	e.Gate = g
	e.look()
	e.Expect(g.asked).To(BeEmpty(), "it stops nothing yet")

	phase = v1alpha1.RecreateNeedsDeletion
	e.pass(time.Minute)
	version := s.get(t, "a").ResourceVersion
	e.Expect(e.look()).To(Equal(7 * time.Second))
	e.Expect(g.asked).To(Equal([]string{"a " + version}))
	e.Expect(g.target).To(Equal("r2"))
	e.Expect(e.state("a")).To(Equal(running))
	e.Expect(e.progress("a")).To(Equal("WaitingForCanary: b tries it"))
	e.Expect(s.get(t, "a").Status.Rollout.Phase).To(BeEmpty())

	g.wait = nil
	e.look()
	e.Expect(s.get(t, "a").Status.Rollout.Phase).To(Equal(phase))
	asked := len(g.asked)
	e.look()
	e.Expect(g.asked).To(HaveLen(asked), "it has stopped them")
}
