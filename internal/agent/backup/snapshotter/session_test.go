// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
)

func TestSchedule(t *testing.T) {
	g := NewWithT(t)
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.DateTime, text)
		g.Expect(err).NotTo(HaveOccurred())
		return parsed
	}
	daily, err := parseSchedule("30 1 * * *")
	g.Expect(err).NotTo(HaveOccurred())
	for _, tc := range []struct{ name, last, now, want string }{
		{"taken in time", "2026-11-20 01:30:05", "2026-11-20 12:00:00", "2026-11-21 01:30:00"},
		{"missed", "2026-11-18 01:30:05", "2026-11-20 12:00:00", "2026-11-19 01:30:00"},
		{"the clock was ahead", "2036-01-01 00:00:00", "2026-11-20 12:00:00", "2026-11-21 01:30:00"},
	} {
		g.Expect(daily.after(at(tc.last), at(tc.now))).To(Equal(at(tc.want)), tc.name)
	}
	elsewhere := time.FixedZone("elsewhere", 5*3600)
	g.Expect(daily.after(at("2026-11-20 01:30:05").In(elsewhere), at("2026-11-20 12:00:00"))).To(BeTemporally("==", at("2026-11-21 01:30:00")), "the schedule is in UTC")
	_, err = parseSchedule("0 0 31 2 *")
	g.Expect(err).To(MatchError(ContainSubstring("never")))
	_, err = New(Config{Options: Options{Schedule: "0 0 31 2 *", Compression: backup.None}, Clock: testingclock.NewFakeClock(time.Time{})})
	g.Expect(err).To(MatchError(ContainSubstring("never")))
	leap, err := parseSchedule("0 0 29 2 *")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(leap.after(at("2097-01-01 00:00:00"), at("2097-01-01 00:00:00"))).To(BeTemporally(">", at("2100-01-01 00:00:00")), "the next one is further away than cron looks")
	_, err = parseSchedule("5-3 * * * *")
	g.Expect(err).To(MatchError(ContainSubstring("schedule of full snapshots")))
}

// Snapshots become due by the clock, also by one that jumps.
func TestLook(t *testing.T) {
	g := NewWithT(t)
	hourly, err := parseSchedule("0 * * * *")
	g.Expect(err).NotTo(HaveOccurred())
	start := time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	s := &Snapshotter{
		schedule: hourly, metrics: NewMetrics(nil), running: true, pending: map[want]*request{}, wake: make(chan struct{}, 1),
		config: Config{Clock: testingclock.NewFakeClock(start), Options: Options{DeltaPeriod: 10 * time.Minute, CollectionPeriod: 20 * time.Minute}},
	}
	n := &session{Snapshotter: s, checked: start, fullDue: hourly.after(start, start), deltaDue: start.Add(10 * time.Minute), collectionDue: start.Add(20 * time.Minute)}
	after := func(now time.Time, elapsed time.Duration) (kinds []string) {
		if n.look(now, elapsed) {
			kinds = append(kinds, "collection")
		}
		for r := s.next(now); r != nil; r = s.next(now) {
			s.finish(r, nil, nil)
			kinds = append(kinds, string(r.kind))
		}
		return kinds
	}
	// asked is what is due at a time, on a clock that was not set since the last.
	asked := func(now time.Time) (kinds []string) { return after(now, now.Sub(n.checked)) }
	required := func(kind backup.Kind) float64 {
		return testutil.ToFloat64(s.metrics.required.WithLabelValues(string(kind)))
	}
	g.Expect(asked(start.Add(time.Second))).To(BeEmpty())
	g.Expect(s.Current().IsZero()).To(BeTrue())
	g.Expect(asked(start.Add(10*time.Minute))).To(Equal([]string{"Incr"}), "etcd is asked whether nothing has changed")
	g.Expect(s.Current()).To(Equal(start.Add(10*time.Minute)), "the store was found to be up to date")
	g.Expect(required(backup.Delta)).To(BeZero(), "a delta of nothing is not required")
	g.Expect(n.events.Add(event(5))).To(Succeed())
	g.Expect(asked(start.Add(19 * time.Minute))).To(BeEmpty())
	g.Expect(asked(start.Add(21 * time.Minute))).To(Equal([]string{"collection", "Incr"}))
	g.Expect(required(backup.Delta)).To(Equal(1.0), "nothing was written yet")
	g.Expect(asked(start.Add(30 * time.Minute))).To(Equal([]string{"Full"}))
	g.Expect(asked(start.Add(30*time.Minute + time.Second))).To(BeEmpty())

	ahead := start.Add(100 * 24 * time.Hour)
	g.Expect(after(ahead, time.Second)).To(Equal([]string{"Full", "Incr"}), "a jump ahead makes each snapshot due once, and removes nothing")
	g.Expect(asked(ahead.Add(19*time.Minute))).To(Equal([]string{"Incr"}), "nor soon after it")
	g.Expect(after(start, time.Second)).To(BeEmpty(), "a jump back")
	g.Expect(asked(start.Add(30*time.Minute))).To(Equal([]string{"collection", "Full", "Incr"}), "and all goes on from there")
	g.Expect(after(start.Add(51*time.Minute), 20*time.Minute+30*time.Second)).To(Equal([]string{"collection", "Incr"}), "a clock that is adjusted is not one that was set")
}

// Go's times have two clocks, and are compared by the monotonic one. Here the wall clock counts.
func TestLookGoesByTheTimeOfDay(t *testing.T) {
	g := NewWithT(t)
	hourly, err := parseSchedule("0 * * * *")
	g.Expect(err).NotTo(HaveOccurred())
	s, err := New(Config{Options: Options{Schedule: "0 * * * *", Compression: backup.None, DeltaPeriod: time.Hour, CollectionPeriod: time.Hour}, Clock: clock.RealClock{}})
	g.Expect(err).NotTo(HaveOccurred())
	s.start()
	now := time.Now()
	// The last check was a day later, by a clock that was set back since.
	n := &session{Snapshotter: s, checked: now.Round(0).Add(24 * time.Hour), fullDue: hourly.after(now.Add(24*time.Hour), now.Add(24*time.Hour))}
	n.look(now, time.Second)
	for what, due := range map[string]time.Time{"full": n.fullDue, "delta": n.deltaDue, "collection": n.collectionDue} {
		g.Expect(due).To(BeTemporally("~", now, time.Hour), what)
		g.Expect(due).To(Equal(due.Round(0)), "%s is due by the time of day", what)
	}
}

// Repeated requests wait and share a snapshot; there is none for each. What is due by the schedule is not delayed by them.
func TestTheIntervalOfRequests(t *testing.T) {
	g := NewWithT(t)
	start := time.Date(2026, 11, 20, 12, 30, 0, 0, time.UTC)
	now := testingclock.NewFakeClock(start)
	s, err := New(Config{Options: Options{Schedule: "0 * * * *", Compression: backup.Gzip, MinInterval: time.Minute}, Clock: now})
	g.Expect(err).NotTo(HaveOccurred())
	s.start()
	full, final, delta := want{kind: backup.Full}, want{backup.Full, true}, want{kind: backup.Delta}
	ask := func(w want, scheduled bool) *request {
		r, err := s.submit(w, scheduled)
		g.Expect(err).NotTo(HaveOccurred())
		return r
	}
	taken := func() (kinds []want) {
		for r := s.next(now.Now()); r != nil; r = s.next(now.Now()) {
			s.finish(r, &backup.Snapshot{}, nil)
			kinds = append(kinds, r.want)
		}
		return kinds
	}
	ask(full, false)
	g.Expect(taken()).To(Equal([]want{full}), "the first one")
	first := ask(full, false)
	g.Expect(ask(full, false)).To(BeIdenticalTo(first), "all who wait get the same")
	ask(final, false)
	ask(delta, false)
	g.Expect(taken()).To(Equal([]want{delta}), "of another kind")
	now.Step(59 * time.Second)
	g.Expect(taken()).To(BeEmpty())
	now.Step(time.Second)
	g.Expect(taken()).To(Equal([]want{full}), "and the final one is a full one, too")
	now.Step(time.Minute)
	g.Expect(taken()).To(Equal([]want{final}))

	ask(full, false)
	g.Expect(taken()).To(BeEmpty())
	ask(full, true)
	g.Expect(taken()).To(Equal([]want{full}), "the schedule does not wait")
	now.SetTime(start.Add(-time.Hour))
	ask(full, false)
	g.Expect(taken()).To(Equal([]want{full}), "a clock that was set back")

	ask(full, false)
	now.Step(2 * time.Minute)
	failed := s.next(now.Now())
	s.finish(failed, nil, errors.New("no store"))
	ask(full, false)
	g.Expect(taken()).To(Equal([]want{full}), "one that failed is asked for again at once")
	waits := ask(full, false)
	s.stop(ErrNotRunning)
	g.Expect(waits.done).To(BeClosed())
	g.Expect(waits.err).To(MatchError(ErrNotRunning))
	s.start()
	g.Expect(taken()).To(BeEmpty(), "who waited was answered")
}

func event(revision int64) backup.Event {
	return backup.Event{EtcdEvent: backup.EtcdEvent{Kv: backup.KeyValue{Key: []byte("k"), ModRevision: revision}}}
}
