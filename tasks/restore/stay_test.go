// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/tasks"
	"github.com/etcd-foreman/etcd-foreman/tasks/newcluster"
	"github.com/etcd-foreman/etcd-foreman/test/apitest"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// A final snapshot counts as long as the task has been executed since without a gap, whatever the clocks of the agents say: clients may have
// written while it was suspended, or while there was no operator.
func TestAFinalSnapshotIsOfTheSameStay(t *testing.T) {
	type turn struct {
		after      time.Duration
		phase      v1alpha1.RecoveryPhase
		generation int64
	}
	for name, c := range map[string]struct {
		between []turn
		restart bool
		counts  bool
		since   time.Duration
	}{
		"at once":                           {nil, false, true, 0},
		"looked at all the time":            {[]turn{{maxUnwatched, saving, 1}, {maxUnwatched, saving, 1}}, false, true, 0},
		"until the members are stopped":     {[]turn{{time.Second, stopping, 1}}, false, true, 0},
		"suspended for hours":               {[]turn{{3 * time.Hour, saving, 1}}, false, false, 3 * time.Hour},
		"suspended for hours, then watched": {[]turn{{3 * time.Hour, saving, 1}, {time.Second, saving, 1}}, false, false, 3 * time.Hour},
		"suspended for a moment":            {[]turn{{2 * time.Second, saving, 3}}, false, false, 2 * time.Second},
		"a clock that goes back":            {[]turn{{-time.Second, saving, 1}}, false, false, -time.Second},
		"another operator":                  {nil, true, false, 0},
		"hours before the members stop":     {[]turn{{3 * time.Hour, stopping, 1}}, false, false, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			g := machine.Gomega(t)
			etcd, in, clock := newEtcd(), at(saving), clocktesting.NewFakePassiveClock(epoch)
			task := taskOf(etcd, Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}, &in.Recorded)
			task.Object.Generation = 1
			operator := func() *Handler {
				h := handlerOf(apitest.API(etcd), in.Snapshot)
				h.Clock = clock
				return h
			}
			h := operator()
			look := func() Input {
				found, err := h.input(t.Context(), task, in.Snapshot)
				g.Expect(err).NotTo(HaveOccurred())
				return found
			}
			g.Expect(look().Call).To(BeNil())
			h.calls.Start(t.Context(), "task", "asked", time.Minute, func(context.Context) (backup.Snapshot, error) { return backup.Snapshot{LastRevision: 95}, nil })
			g.Eventually(func() bool { call, _ := h.calls.Of("task"); return call.Running }).WithTimeout(time.Minute).Should(BeFalse())
			if c.restart {
				h = operator()
			}
			at := epoch
			for _, turn := range c.between {
				at = at.Add(turn.after)
				clock.SetTime(at)
				task.Object.Status.Recovery.Phase, task.Object.Generation = turn.phase, turn.generation
				look()
			}
			found := look()
			g.Expect(found.Call != nil).To(Equal(c.counts))
			g.Expect(found.Since).To(Equal(epoch.Add(c.since)))
		})
	}
}

// A final snapshot ages: once its call has ended, more may be written while the task waits, for a quorum or for the members to be stopped.
// Only a revision that it has, seen with a quorum, renews it; and so does what stops the members.
func TestAFinalSnapshotAges(t *testing.T) {
	noQuorum := func(in *Input) { serving(before, 0)(in) }
	for name, c := range map[string]struct {
		phase  v1alpha1.RecoveryPhase
		seen   []func(*Input)
		counts bool
		saved  bool
	}{
		"nothing was written":               {saving, []func(*Input){live(95)}, true, true},
		"something was":                     {saving, []func(*Input){live(96)}, false, false},
		"something was, before the stop":    {stopping, []func(*Input){live(96)}, false, false},
		"without a quorum, before the stop": {stopping, []func(*Input){live(95), noQuorum}, false, false},
		"no member says":                    {stopping, nil, false, false},
		"the members are stopped":           {stopping, []func(*Input){stopped}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := machine.Gomega(t)
			etcd, in, clock := newEtcd(), at(saving, live(95)), clocktesting.NewFakePassiveClock(epoch)
			task := taskOf(etcd, Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}, &in.Recorded)
			h := handlerOf(apitest.API(etcd), in.Snapshot)
			h.Clock = clock
			look := func() Input {
				found, err := h.input(t.Context(), task, in.Snapshot)
				g.Expect(err).NotTo(HaveOccurred())
				return found
			}
			saved := func() bool { return h.Stays.Saved(task.Object, clock.Now()) }
			look()
			g.Expect(saved()).To(BeFalse(), "it was not taken")
			h.calls.Start(t.Context(), "task", "asked", time.Minute, func(context.Context) (backup.Snapshot, error) { return backup.Snapshot{LastRevision: 95}, nil })
			g.Eventually(func() bool { call, _ := h.calls.Of("task"); return call.Running }).WithTimeout(time.Minute).Should(BeFalse())
			g.Expect(look().Call).NotTo(BeNil())
			g.Expect(saved()).To(BeTrue())
			in = at(c.phase, c.seen...)
			task.Object.Status.Recovery = &in.Recorded
			for range 60 { // an hour, in which the task is executed all the time
				clock.SetTime(clock.Now().Add(maxUnwatched))
				found := look()
				if !c.counts && found.Call == nil {
					break
				}
			}
			found := look()
			g.Expect(found.Call != nil).To(Equal(c.counts))
			g.Expect(saved()).To(Equal(c.saved))
			if !c.counts {
				g.Expect(found.Since).To(BeTemporally(">", epoch), "the next request has its own time")
			}
		})
	}
}

// What stops the members believes a stay, not a phase.
func TestSaved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*stay)
		want   bool
	}{
		"just now":             {func(*stay) {}, true},
		"another phase":        {func(s *stay) { s.phase = reopening }, false},
		"suspended since":      {func(s *stay) { s.generation = 2 }, false},
		"not executed since":   {func(s *stay) { s.at = epoch.Add(-maxUnwatched - 1) }, false},
		"saved a while ago":    {func(s *stay) { s.saved = epoch.Add(-maxUnwatched) }, true},
		"saved long ago":       {func(s *stay) { s.saved = epoch.Add(-maxUnwatched - 1) }, false},
		"not saved":            {func(s *stay) { s.saved = time.Time{} }, false},
		"of another operation": {func(s *stay) { *s = stay{} }, false},
	} {
		in := at(stopping)
		task := taskOf(newEtcd(), Config{}, &in.Recorded).Object
		task.Generation = 1
		present := stay{phase: saving, generation: 1, since: epoch, at: epoch, saved: epoch}
		c.change(&present)
		s := &Stays{}
		s.of.Change(task.UID, func(of *stay) { *of = present })
		if got := s.Saved(task, epoch); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A task that is resumed after its final snapshot was taken asks for another one, and stops no member before it has that.
func TestResumedInSaving(t *testing.T) {
	g := machine.Gomega(t)
	etcd, in, clock := newEtcd(), at(saving), clocktesting.NewFakePassiveClock(epoch)
	task := taskOf(etcd, Config{To: &Target{Latest: true}, Confirm: digest[:32] + "@90"}, &in.Recorded)
	h := handlerOf(apitest.API(etcd), in.Snapshot)
	h.Clock = clock
	execute := func() tasks.Verdict {
		v, err := h.Execute(t.Context(), task)
		g.Expect(err).NotTo(HaveOccurred())
		return v
	}
	g.Expect(execute().Step).NotTo(BeNil())
	h.calls.Start(t.Context(), "task", "asked", time.Minute, func(context.Context) (backup.Snapshot, error) {
		return backup.Snapshot{Kind: backup.Full, LastRevision: 95, Created: epoch, Final: true}, nil
	})
	g.Eventually(func() bool { call, _ := h.calls.Of("task"); return call.Running }).WithTimeout(time.Minute).Should(BeFalse())
	clock.SetTime(epoch.Add(6 * time.Hour))
	v := execute()
	g.Expect(v.Step).NotTo(BeNil(), v.Message)
	g.Expect(v.Step.Operation).To(Equal(requestSnapshot))
	g.Expect(v.Recovery.Phase).To(Equal(saving))
	g.Expect(v.LastOperation == nil || v.LastOperation.Name != newcluster.Operations[stopping]).To(BeTrue())
}
