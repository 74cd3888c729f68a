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
			g := NewWithT(t)
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
				found, _, err := h.input(t.Context(), task, in.Snapshot)
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

// A task that is resumed after its final snapshot was taken asks for another one, and stops nobody before it has that.
func TestResumedInSaving(t *testing.T) {
	g := NewWithT(t)
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
