// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/lasting"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// seen returns an observation of a member that does not answer although its probe passes, with a container start time.
func seen(after, started time.Duration) *cluster.Snapshot {
	return &cluster.Snapshot{At: noon.Add(after), Ordinals: []cluster.Ordinal{{
		Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{UID: "pod", Ready: true, EtcdStarted: noon.Add(started)},
	}}}
}

func TestConditionsLastFromOneObservationToTheNext(t *testing.T) {
	g := NewWithT(t)
	var timers Timers
	for second := range 20 {
		timers = timers.Next(seen(time.Duration(second)*time.Second, 0))
	}
	g.Expect(timers.NotServingSince["pod"]).To(Equal(noon))
	g.Expect(timers.NoAnswerSince).To(Equal(noon))
	g.Expect(timers.Running["pod"].Since).To(Equal(noon))
	g.Expect(timers.LeaderlessSince).To(BeZero(), "a member that is ready and does not answer may be a quorum of one")

	g.Expect(timers.Next(seen(19*time.Second+MaxGap, 0)).NotServingSince["pod"]).To(Equal(noon), "the timer just continues")
	late := noon.Add(20*time.Second + MaxGap)
	timers = timers.Next(seen(20*time.Second+MaxGap, 0))
	g.Expect(timers.NotServingSince["pod"]).To(Equal(late), "a gap resets every timer")
	g.Expect(timers.Running["pod"].Since).To(Equal(late))

	restarted := seen(21*time.Second+MaxGap, time.Minute)
	timers = timers.Next(restarted)
	g.Expect(timers.Running["pod"].Since).To(Equal(restarted.At), "another run of the container")
	g.Expect(timers.NotServingSince["pod"]).To(Equal(late))

	timers = timers.Next(&cluster.Snapshot{At: restarted.At.Add(time.Second), Ordinals: []cluster.Ordinal{{Class: v1alpha1.ClassMissing}}})
	g.Expect(timers.NotServingSince).To(BeEmpty())
	g.Expect(timers.Running).To(BeEmpty())
	g.Expect(timers.LeaderlessSince).To(Equal(timers.At))
}

// A time that goes back says nothing of what was between, and no condition has lasted.
func TestATimeThatGoesBackResetsTimers(t *testing.T) {
	g := NewWithT(t)
	timers := Timers{}.Next(seen(0, 0)).Next(seen(5*time.Second, 0)).Next(seen(4*time.Second, 0))
	g.Expect(timers.NotServingSince["pod"]).To(Equal(noon.Add(4 * time.Second)))
	g.Expect(timers.Running["pod"].Since).To(Equal(noon.Add(4 * time.Second)))
	g.Expect(timers.NoAnswerSince).To(Equal(noon.Add(4 * time.Second)))
}

func TestWithinIsNotTheFuture(t *testing.T) {
	g := NewWithT(t)
	g.Expect(within(noon, noon, time.Second)).To(BeTrue())
	g.Expect(within(noon, noon.Add(time.Second), time.Second)).To(BeFalse())
	g.Expect(within(noon.Add(time.Minute), noon, time.Second)).To(BeFalse())
	g.Expect(lasting.Since(noon, noon.Add(time.Second), time.Second)).To(BeTrue())
	g.Expect(lasting.Since(time.Time{}, noon, 0)).To(BeFalse())
}

const timersGrace = 30 * time.Second

func TestProbesVouchOnceTheyHavePassedForLong(t *testing.T) {
	g := NewWithT(t)
	snapshot := seen(0, 0)
	snapshot.Cluster.LeaderKnown = true
	timers := Timers{NotServingSince: map[types.UID]time.Time{"pod": noon}}
	g.Expect(timers.vouched(snapshot, noon.Add(vouchAfter-time.Second), timersGrace)).To(BeEmpty())
	g.Expect(timers.vouched(snapshot, noon.Add(vouchAfter), timersGrace)).To(Equal([]int{0}))
	g.Expect(timers.vouched(snapshot, noon.Add(vouchAfter), time.Hour)).To(BeEmpty(), "a longer grace period counts")
	g.Expect(Timers{}.vouched(snapshot, noon.Add(vouchAfter), timersGrace)).To(BeEmpty(), "never seen")

	leaderless := seen(0, 0)
	g.Expect(timers.vouched(leaderless, noon.Add(vouchAfter), timersGrace)).To(BeEmpty())
	snapshot.Ordinals[0].Answers = true
	g.Expect(timers.vouched(snapshot, noon.Add(vouchAfter), timersGrace)).To(BeEmpty(), "a member that answers speaks for itself")
}

func TestTheOperatorIsCutOffAfterTheGracePeriod(t *testing.T) {
	g := NewWithT(t)
	g.Expect(Timers{NoAnswerSince: noon}.cutOff(noon.Add(timersGrace-time.Second), timersGrace)).To(BeFalse())
	g.Expect(Timers{NoAnswerSince: noon}.cutOff(noon.Add(timersGrace), timersGrace)).To(BeTrue())
	g.Expect(Timers{}.cutOff(noon, timersGrace)).To(BeFalse())
}

func TestAContainerHasRunForTheGracePeriod(t *testing.T) {
	g := NewWithT(t)
	timers := Timers{Running: map[types.UID]Running{"pod": {Since: noon}}}
	o := seen(0, 0).Ordinals[0]
	g.Expect(timers.hasRun(&o, noon.Add(timersGrace-time.Second), timersGrace)).To(BeFalse())
	g.Expect(timers.hasRun(&o, noon.Add(timersGrace), timersGrace)).To(BeTrue())
	o.Class = v1alpha1.ClassTerminating
	g.Expect(timers.hasRun(&o, noon.Add(timersGrace), timersGrace)).To(BeFalse(), "it is going")
	g.Expect(timers.hasRun(&cluster.Ordinal{Class: v1alpha1.ClassMissing}, noon.Add(timersGrace), timersGrace)).To(BeFalse())
}

// A term that has begun between two observations shows a quorum that this operator did not see: it is not lost since before that.
func TestATermThatBeginsShowsAQuorumNobodySaw(t *testing.T) {
	g := NewWithT(t)
	leaderless := func(second int, term uint64) *cluster.Snapshot {
		s := &cluster.Snapshot{At: noon.Add(time.Duration(second) * time.Second), Ordinals: []cluster.Ordinal{{Class: v1alpha1.ClassMissing}}}
		s.Cluster.NewestTerm = term
		return s
	}
	timers := Timers{}.Next(leaderless(0, 7)).Next(leaderless(1, 7))
	g.Expect(timers.LeaderlessSince).To(Equal(noon))
	timers = timers.Next(leaderless(2, 8))
	g.Expect(timers.LeaderlessSince).To(Equal(noon.Add(2*time.Second)), "a term has begun")
	timers = timers.Next(leaderless(3, 0)).Next(leaderless(4, 8))
	g.Expect(timers.LeaderlessSince).To(Equal(noon.Add(2*time.Second)), "a member that does not answer for a moment has begun none")
	led := leaderless(5, 9)
	led.Cluster.LeaderKnown = true
	timers = timers.Next(led).Next(leaderless(6, 9))
	g.Expect(timers.LeaderlessSince).To(Equal(noon.Add(6 * time.Second)))
}
