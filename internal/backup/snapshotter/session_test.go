// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	. "github.com/onsi/gomega"
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
		schedule: hourly, running: true, pending: map[want]*request{}, queue: make(chan *request, kinds),
		config: Config{Options: Options{DeltaPeriod: 10 * time.Minute, CollectionPeriod: 20 * time.Minute}},
	}
	n := &session{Snapshotter: s, checked: start, fullDue: hourly.after(start, start), deltaDue: start.Add(10 * time.Minute), collectionDue: start.Add(20 * time.Minute)}
	asked := func(now time.Time) (kinds []string) {
		if n.look(now) {
			kinds = append(kinds, "collection")
		}
		for len(s.queue) > 0 {
			r := <-s.queue
			s.finish(r, nil, nil)
			kinds = append(kinds, string(r.kind))
		}
		return kinds
	}
	g.Expect(asked(start.Add(time.Second))).To(BeEmpty())
	g.Expect(asked(start.Add(10*time.Minute))).To(BeEmpty(), "a delta of nothing")
	g.Expect(n.events.Add(event(5))).To(Succeed())
	g.Expect(asked(start.Add(19 * time.Minute))).To(BeEmpty())
	g.Expect(asked(start.Add(21 * time.Minute))).To(Equal([]string{"collection", "Incr"}))
	g.Expect(asked(start.Add(30 * time.Minute))).To(Equal([]string{"Full"}))
	g.Expect(asked(start.Add(30*time.Minute + time.Second))).To(BeEmpty())

	g.Expect(asked(start.Add(100*24*time.Hour))).To(Equal([]string{"collection", "Full", "Incr"}), "a jump ahead makes each due once")
	g.Expect(asked(start)).To(BeEmpty(), "a jump back")
	g.Expect(asked(start.Add(30*time.Minute))).To(Equal([]string{"collection", "Full", "Incr"}), "and all goes on from there")
}

func event(revision int64) backup.Event {
	return backup.Event{EtcdEvent: backup.EtcdEvent{Kv: backup.KeyValue{Key: []byte("k"), ModRevision: revision}}}
}
