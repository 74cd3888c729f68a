// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/observe"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// witness is an Observer that has been told what to say.
type witness struct {
	// seen is what the cache and the members say; expected is what the cache says now, with what they said then.
	seen, expected *observe.Snapshot
	// confirmed is what the API server says once the removal has been announced.
	confirmed *observe.Snapshot
	failure   error
	announced chan struct{}
	asked     int
}

func (w *witness) Observe(context.Context, client.Reader, *v1alpha1.Etcd) (*observe.Snapshot, error) {
	w.asked++
	return w.seen, nil
}

func (w *witness) Expect(context.Context, client.Reader, *v1alpha1.Etcd, *observe.Snapshot) (*observe.Snapshot, error) {
	return w.expected, nil
}

func (w *witness) Confirm(context.Context, client.Reader, *v1alpha1.Etcd, *observe.Snapshot) (*observe.Snapshot, error) {
	<-w.announced
	return w.confirmed, w.failure
}

func (w *witness) ObserveConfirmed(context.Context, client.Reader, client.Reader, *v1alpha1.Etcd) (*observe.Snapshot, error) {
	<-w.announced
	return w.confirmed, w.failure
}

// trial is a handler with a witness, whose deletions are written down.
type trial struct {
	Gomega
	t       *testing.T
	handler *Handler
	witness *witness
	clock   *clocktesting.FakePassiveClock
	task    tasks.Task
	deleted []string
}

func newTrial(t *testing.T, seen *observe.Snapshot) *trial {
	r := &trial{Gomega: NewWithT(t), t: t, witness: &witness{seen: seen, announced: make(chan struct{})}, clock: clocktesting.NewFakePassiveClock(noon)}
	r.task = tasks.Task{
		Object: &v1alpha1.EtcdOperatorTask{Status: v1alpha1.EtcdOperatorTaskStatus{Rollout: &v1alpha1.RolloutStatus{TargetRevision: newRevision}}},
		Etcd:   &v1alpha1.Etcd{}, Config: defaultConfig(),
	}
	r.handler = &Handler{Observer: r.witness, Clock: r.clock, Client: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, _ client.WithWatch, pod client.Object, _ ...client.DeleteOption) error {
			if ctx.Err() == nil {
				r.deleted = append(r.deleted, pod.GetName())
			}
			return ctx.Err()
		},
	}).Build()}
	return r
}

// step lets the handler decide, announces what it decides as the task engine does, and has it carried out.
func (r *trial) step() error {
	r.t.Helper()
	v, err := r.handler.Execute(r.t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(v.Step).NotTo(BeNil())
	r.task.Object.Status.Rollout = v.Rollout
	close(r.witness.announced)
	return r.handler.Perform(r.t.Context(), r.task, *v.Step)
}

func ledByTheFirst(members ...member) *observe.Snapshot {
	return of(0, members...).snapshot(noon)
}

// A removal is announced while the API server is asked. If it tells of anything else than what was announced, nothing
// happens, and the announcement holds up nobody.
func TestRemovalIsConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		members []member // what the API server tells of, led by m-0
		change  func(*observe.Snapshot)
		failure error
		deleted bool
		next    string // what is decided afterwards
	}{
		"nothing has changed": {deleted: true, next: "hold DeletionObserved m-2"},
		"another pod was written, which changes nothing": {deleted: true, next: "hold DeletionObserved m-2", change: func(s *observe.Snapshot) {
			s.Ordinals[1].Pod.ResourceVersion = "2"
		}},
		"another member has died":        {members: []member{readyOld, deadOld, readyOld}, next: "DeletePod m-1"},
		"another member is not ready":    {members: []member{readyOld, runningNew, readyOld}, next: "hold UpdatedPodsParticipating m-1"},
		"the pod is another one":         {members: []member{readyOld, readyOld, readyNew}, next: "DeletePod m-1"},
		"the pod was written":            {change: func(s *observe.Snapshot) { s.Ordinals[2].Pod.ResourceVersion = "2" }, next: "DeletePod m-2"},
		"there was an election":          {change: func(s *observe.Snapshot) { s.Cluster.Term++ }, next: "DeletePod m-2"},
		"the revision is another one":    {change: func(s *observe.Snapshot) { s.StatefulSet.UpdateRevision = "newest" }, next: "Superseded"},
		"RollingUpdate was switched on":  {change: func(s *observe.Snapshot) { s.StatefulSet.OnDelete = false }, next: "Disengaged"},
		"the API server does not answer": {failure: errors.New("refused"), next: "DeletePod m-2"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, ledByTheFirst(readyOld, readyOld, readyOld))
			members := c.members
			if members == nil {
				members = []member{readyOld, readyOld, readyOld}
			}
			now := ledByTheFirst(members...)
			if c.change != nil {
				c.change(now)
			}
			r.witness.confirmed, r.witness.failure = now, c.failure
			err := r.step()
			switch {
			case c.deleted:
				r.Expect(err).NotTo(HaveOccurred())
				r.Expect(r.deleted).To(Equal([]string{"m-2"}))
			case c.failure != nil:
				coded, ok := errors.AsType[*tasks.CodedError](err)
				r.Expect(ok).To(BeTrue())
				r.Expect(coded.Code).To(Equal(v1alpha1.ErrObserve))
				r.Expect(r.deleted).To(BeEmpty())
			default:
				r.Expect(err).To(MatchError(tasks.ErrOvertaken))
				r.Expect(r.deleted).To(BeEmpty())
			}
			in, decision, _ := r.handler.decide(r.task, now)
			r.Expect(short(decision, in.Snapshot)).To(Equal(c.next))
		})
	}
}

// A cache that lags would have a removal announced again and again that the API server does not confirm: so what was
// overtaken is confirmed before it is announced.
func TestRemovalThatWasOvertakenIsConfirmedFirst(t *testing.T) {
	r := newTrial(t, ledByTheFirst(readyOld, readyOld, readyOld))
	r.witness.confirmed = ledByTheFirst(readyOld, terminating, readyOld)
	r.Expect(r.step()).To(MatchError(tasks.ErrOvertaken))
	v, err := r.handler.Execute(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(v.Step).To(BeNil())
	r.Expect(v.Rollout.HeldBy.Pod).To(Equal("m-1"))

	r.witness.confirmed = r.witness.seen
	v, err = r.handler.Execute(t.Context(), r.task)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(r.handler.Perform(t.Context(), r.task, *v.Step)).To(Succeed())
	r.Expect(r.deleted).To(Equal([]string{"m-2"}))
}

// Another operator has announced the same removal before, and may still send it. That it is announced once more, and not
// sent, does not change this.
func TestRemovalThatWasAnnouncedBeforeMayStillCome(t *testing.T) {
	w := of(0, readyOld, readyOld, readyOld)
	w.announced = 2
	r := newTrial(t, w.snapshot(noon))
	recorded := w.input(noon, defaultConfig()).Recorded
	r.task.Object.Status.Rollout = &recorded
	r.witness.confirmed = ledByTheFirst(readyOld, deadOld, readyOld)
	r.Expect(r.step()).To(MatchError(tasks.ErrOvertaken))
	in, decision, _ := r.handler.decide(r.task, r.witness.confirmed)
	r.Expect(short(decision, in.Snapshot)).To(Equal("hold DeletionObserved m-2"))
	r.clock.SetTime(noon.Add(deletionWindow))
	in, decision, _ = r.handler.decide(r.task, r.witness.confirmed)
	r.Expect(short(decision, in.Snapshot)).To(Equal("RevokeDeletion m-2"))
}

// An operator that is paused in the middle of a removal does nothing when it wakes: the members may have changed since
// they answered, and whoever has taken over counts on it.
func TestRemovalByAnOperatorThatWasPaused(t *testing.T) {
	for name, c := range map[string]struct {
		seen, confirmed time.Duration // before the deletion
		deleted         bool
	}{
		"it was not":                           {time.Second, time.Second, true},
		"since it saw the cluster":             {requestTimeout, requestTimeout, false},
		"since it announced the removal":       {requestTimeout, 0, false},
		"before the API server last confirmed": {time.Second, requestTimeout, false},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(ago time.Duration) *observe.Snapshot {
				return of(0, readyOld, readyOld, readyOld).snapshot(noon.Add(-ago))
			}
			r := newTrial(t, at(c.seen))
			r.witness.confirmed = at(c.confirmed)
			r.clock.SetTime(noon.Add(-c.seen))
			v, err := r.handler.Execute(t.Context(), r.task)
			r.Expect(err).NotTo(HaveOccurred())
			close(r.witness.announced)
			r.clock.SetTime(noon)
			err = r.handler.Perform(t.Context(), r.task, *v.Step)
			r.Expect(err == nil).To(Equal(c.deleted))
			r.Expect(len(r.deleted) > 0).To(Equal(c.deleted))
		})
	}
}

// Once every pod is ready, a removal is announced on what the members said a moment ago. It is carried out only if they
// still say so.
func TestRemovalIsForeseen(t *testing.T) {
	waiting, ready := ledByTheFirst(readyOld, readyOld, runningNew), ledByTheFirst(readyOld, readyOld, readyNew)
	begin := func(t *testing.T) *trial {
		r := newTrial(t, waiting)
		v, err := r.handler.Execute(t.Context(), r.task)
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(v.Rollout.HeldBy).NotTo(BeNil())
		r.task.Object.Status.Rollout = v.Rollout
		r.witness.seen, r.witness.expected, r.witness.confirmed, r.witness.asked = ready, ready, ready, 0
		return r
	}
	t.Run("they do", func(t *testing.T) {
		r := begin(t)
		r.Expect(r.step()).To(Succeed())
		r.Expect(r.deleted).To(Equal([]string{"m-1"}))
		r.Expect(r.witness.asked).To(BeZero(), "before it is announced")
	})
	t.Run("they do not", func(t *testing.T) {
		r := begin(t)
		r.witness.confirmed = ledByTheFirst(readyOld, readyOld, frozenReadyOld)
		r.Expect(r.step()).To(MatchError(tasks.ErrOvertaken))
		r.Expect(r.deleted).To(BeEmpty())
	})
	for name, change := range map[string]func(*trial){
		"that was too long ago":             func(r *trial) { r.clock.SetTime(noon.Add(maxAnswerAge + time.Millisecond)) },
		"the pods are others":               func(r *trial) { r.witness.expected = nil },
		"somebody did not participate then": func(r *trial) { r.witness.expected = ledByTheFirst(readyOld, readyOld, runningNew) },
		"leadership is to move":             func(r *trial) { r.witness.expected = ledByTheFirst(readyOld, readyNew, readyNew) },
	} {
		t.Run(name, func(t *testing.T) {
			r := begin(t)
			change(r)
			r.Expect(r.step()).To(Succeed())
			r.Expect(r.witness.asked).To(Equal(1), "before it is announced")
		})
	}
}
