// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A flapping member makes no progress, however often it returns. More participating members than ever before are progress,
// and so is the first return of a member that the rollout removed.
func TestFlappingIsNoProgress(t *testing.T) {
	g := NewWithT(t)
	w := of(0, readyOld, startingNew, readyNew, deadNew, readyOld)
	in := w.input(noon, DefaultConfig())
	minute := 0
	// next advances a minute and returns the minute of the last progress.
	next := func(ordinal int, m member) int {
		w.members[ordinal] = m
		minute++
		now := noon.Add(time.Duration(minute)*time.Minute + time.Second/2)
		in.Snapshot = w.snapshot(now)
		in.Timers = in.Timers.Next(in.Snapshot)
		in.Recorded = Record(in, Decide(in, now), now)
		// With the precision of the API server.
		in.Recorded.LastProgressTime.Time = in.Recorded.LastProgressTime.Truncate(time.Second)
		return int(in.Recorded.LastProgressTime.Sub(noon) / time.Minute)
	}
	g.Expect(next(1, startingNew)).To(Equal(1), "it begins")
	for range 5 {
		g.Expect(next(2, runningNew)).To(Equal(1), "one stops")
		g.Expect(in.Recorded.ParticipatingReplicas).To(Equal(int32(2)))
		g.Expect(next(2, readyNew)).To(Equal(1), "the member is back")
		g.Expect(in.Recorded.ParticipatingReplicas).To(Equal(int32(3)))
	}
	g.Expect(next(3, readyNew)).To(Equal(12), "four participate for the first time")
	g.Expect(next(2, runningNew)).To(Equal(12))
	g.Expect(next(1, readyNew)).To(Equal(12), "another member replaces it in the count")
	g.Expect(next(2, readyNew)).To(Equal(15), "all five participate")
	g.Expect(in.Recorded.Pods).To(HaveLen(1), "m-4 is about to be removed")

	g.Expect(next(4, terminating)).To(Equal(16), "it goes")
	w.generation[4]++
	g.Expect(next(4, missing)).To(Equal(16))
	g.Expect(next(4, startingNew)).To(Equal(16))
	g.Expect(next(2, frozenNew)).To(Equal(16), "leadership does not move")
	g.Expect(next(4, readyNew)).To(Equal(20), "its replacement participates, while fewer do than before")
	for range 3 {
		g.Expect(next(4, runningNew)).To(Equal(20))
		g.Expect(next(4, readyNew)).To(Equal(20), "once")
	}
	g.Expect(next(2, readyNew)).To(Equal(27), "leadership moves")
	g.Expect(in.Recorded.LeaderHandover.Attempts).To(Equal(int32(1)))
}

// A status without a recorded maximum counts from the participating members.
func TestProgressOfARolloutOfAnEarlierOperator(t *testing.T) {
	g := NewWithT(t)
	in := of(0, readyOld, startingNew, readyNew).input(noon, DefaultConfig())
	in.Recorded = Record(in, Decide(in, noon), noon)
	in.Recorded.MostParticipatingReplicas = 0
	later := noon.Add(time.Minute)
	in.Recorded = Record(in, Decide(in, later), later)
	g.Expect(in.Recorded.LastProgressTime.Time).To(Equal(noon))
	g.Expect(in.Recorded.MostParticipatingReplicas).To(Equal(int32(2)))
}
