// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// every returns a schedule: the multiples of a period since 1970, and some more.
func every(period, offset time.Duration) func(time.Time) time.Time {
	return func(after time.Time) time.Time {
		since := after.Sub(time.Unix(0, 0).Add(offset))
		return time.Unix(0, 0).UTC().Add(offset + (since/period+1)*period)
	}
}

// full returns a full snapshot.
func full(revision int64, created time.Time) Snapshot {
	return Snapshot{Kind: Full, LastRevision: revision, Created: created}
}

// Seven requests in seven minutes displace none of the seven daily snapshots. Neither does one every minute of a day, nor do the full
// snapshots of an agent that restarts at one revision. Requested snapshots stay bounded, and the newest of them is kept.
func TestRequestsDoNotDisplaceTheSchedule(t *testing.T) {
	const day = 24 * time.Hour
	start := time.Date(2026, 11, 1, 3, 0, 0, 0, time.UTC)
	for name, interval := range map[string]time.Duration{"every minute": time.Minute, "every second": time.Second, "every hour": time.Hour} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			r := Retention{Limit: 7, Due: every(day, 3*time.Hour)}
			var store, daily []Snapshot
			for i := range 7 {
				daily = append(daily, full(int64(i), start.AddDate(0, 0, i)))
			}
			store = slices.Clone(daily)
			now := start.AddDate(0, 0, 6)
			for range 20 {
				now = now.Add(interval)
				store = append(store, full(100, now))
				expired := r.Expired(store, now)
				store = slices.DeleteFunc(store, func(s Snapshot) bool { return slices.Contains(expired, s) })
				g.Expect(store).To(ContainElements(daily), "of the schedule")
				g.Expect(len(store)).To(BeNumerically("<=", 14))
			}
			g.Expect(store[len(store)-1].Created).To(Equal(now), "the newest")
			next := full(101, start.AddDate(0, 0, 7))
			g.Expect(r.Expired(append(store, next), next.Created)).To(ContainElement(daily[0]), "it is the eighth of the schedule")
		})
	}
}

// The first full snapshot after a time of the schedule is the one of the schedule, also if it is late or was requested.
func TestWhichSnapshotsAreOfTheSchedule(t *testing.T) {
	g := NewWithT(t)
	at := func(hour, minute int) Snapshot {
		return full(1, time.Date(2026, 11, 1, hour, minute, 0, 0, time.UTC))
	}
	r := Retention{Limit: 7, Due: every(time.Hour, 0)}
	delta := at(3, 30)
	delta.Kind = Delta
	list := []Snapshot{at(1, 30), at(1, 59), at(2, 0), at(2, 1), delta, at(4, 10), at(4, 59), at(5, 0)}
	g.Expect(OfSchedule(list, r.Due)).To(Equal([]bool{true, false, true, false, false, true, false, true}))
	r.Due = nil
	g.Expect(OfSchedule(list, r.Due)).To(Equal([]bool{true, true, true, true, false, true, true, true}), "without a schedule, all")
}

// Deltas since the full snapshot of the schedule before the newest are kept, whatever was requested since, for a week.
func TestRequestsDoNotDisplaceDeltas(t *testing.T) {
	g := NewWithT(t)
	r := Retention{Limit: 7, Due: every(365*24*time.Hour, 0)}
	list := list("F10", "11-20", "F20", "21-30", "F30", "31-40", "F40", "41-50")
	g.Expect(r.Expired(list, noon.Add(7*24*time.Hour+time.Minute))).To(BeEmpty())
	g.Expect(notation(r.Expired(list, noon.Add(7*24*time.Hour+2*time.Minute))...)).To(Equal([]string{"11-20"}), "after a week, those before the newest two")
	r.Due = nil
	g.Expect(notation(r.Expired(list, noon.Add(time.Hour))...)).To(Equal([]string{"21-30", "11-20"}))
	r.Deltas = 365 * 24 * time.Hour
	g.Expect(r.Expired(list, noon.Add(8*24*time.Hour))).To(BeEmpty(), "their own period is longer")
}

// Hours, days and weeks are those of UTC, and weeks begin on Mondays.
func TestPeriods(t *testing.T) {
	g := NewWithT(t)
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.DateTime, text)
		g.Expect(err).NotTo(HaveOccurred())
		return parsed
	}
	now := at("2026-11-25 12:30:00") // a Wednesday
	for created, want := range map[string]length{
		"2026-11-25 13:00:00": moment, "2026-11-25 12:00:00": moment, "2026-11-25 11:59:59": hour,
		"2026-11-24 12:00:00": hour, "2026-11-24 11:59:59": day,
		"2026-11-18 00:00:00": day, "2026-11-17 23:59:59": week,
		"2026-10-19 00:00:00": week, "2026-10-18 23:59:59": ever,
	} {
		g.Expect(periodOf(at(created), now).length).To(Equal(want), created)
	}
	same := func(a, b string) bool { return periodOf(at(a), now) == periodOf(at(b), now) }
	g.Expect(same("2026-11-25 10:00:00", "2026-11-25 10:59:59")).To(BeTrue())
	g.Expect(same("2026-11-25 10:00:00", "2026-11-25 09:59:59")).To(BeFalse())
	g.Expect(same("2026-11-20 00:00:00", "2026-11-20 23:59:59")).To(BeTrue())
	g.Expect(same("2026-11-20 00:00:00", "2026-11-19 23:59:59")).To(BeFalse())
	g.Expect(same("2026-11-09 00:00:00", "2026-11-15 23:59:59")).To(BeTrue())
	g.Expect(same("2026-11-09 00:00:00", "2026-11-08 23:59:59")).To(BeFalse())

	ofThisHour := []Snapshot{full(1, now.Add(-4*time.Minute)), full(2, now.Add(-3*time.Minute)), full(3, now.Add(-2*time.Minute)), full(4, now.Add(-time.Minute))}
	g.Expect(Retention{}.Expired(ofThisHour, now)).To(BeEmpty())
}

// world is a store with what was requested, and the same one without.
type world struct {
	retention     Retention
	with, without []Snapshot
	revision      int64
}

// take adds a snapshot to both stores, or only to the one with requests.
func (w *world) take(s Snapshot, requested bool) {
	w.revision++
	s.LastRevision = w.revision
	w.with = append(w.with, s)
	if !requested {
		w.without = append(w.without, s)
	}
}

// collect removes what retention does not keep from both.
func (w *world) collect(now time.Time) {
	for _, store := range []*[]Snapshot{&w.with, &w.without} {
		expired := w.retention.Expired(*store, now)
		*store = slices.DeleteFunc(*store, func(s Snapshot) bool { return slices.Contains(expired, s) })
	}
}

// displaced returns what only the store without requests has, other than deltas of more than a week.
func (w *world) displaced(now time.Time) []Snapshot {
	return slices.DeleteFunc(slices.Clone(w.without), func(s Snapshot) bool {
		return slices.Contains(w.with, s) || s.Kind == Delta && now.Sub(s.Created) > 7*24*time.Hour
	})
}

// Whatever is requested and whenever, the store keeps each snapshot that it would keep without the requests, and not many more; and
// the newest one of all.
func TestRequestsDisplaceNothing(t *testing.T) {
	const hour = time.Hour
	for seed := range uint64(150) {
		random := rand.New(rand.NewPCG(seed, 47))
		period := []time.Duration{10 * time.Minute, hour, 2 * hour, 5 * hour, 24 * hour, 7 * 24 * hour}[random.IntN(6)]
		w := &world{retention: Retention{Limit: random.IntN(9), Due: every(period, time.Duration(random.Int64N(int64(period))).Truncate(time.Second))}}
		// Requests come in bursts, up to ten for each snapshot of the schedule.
		requests := random.IntN(11)
		now := noon
		w.take(Snapshot{Kind: Full, Created: now}, false) // an agent begins with one
		due := w.retention.Due(now)
		for step := range 60 {
			// Between two of the schedule: deltas, requests, collections, in any order. When one is due, it is taken before any request.
			for range requests + 3 {
				now = now.Add(time.Duration(1+random.Int64N(int64(max(due.Sub(now)/4, time.Second)))) + time.Second).Truncate(time.Second)
				if !now.Before(due) {
					break
				}
				switch kind := random.IntN(requests + 2); {
				case kind < requests:
					created := now
					if n := len(w.without); random.IntN(4) == 0 && w.without[n-1].Kind == Delta {
						created = w.without[n-1].Created // by a compaction
					}
					w.take(Snapshot{Kind: Full, Created: created, Final: random.IntN(5) == 0}, true)
				case kind == requests:
					w.take(Snapshot{Kind: Delta, StartRevision: 1, Created: now}, false)
				default:
					w.collect(now)
				}
			}
			if now.Before(due) {
				now = due
			}
			now = now.Add(time.Duration(random.IntN(30)) * time.Second)
			if random.IntN(10) == 0 {
				now = now.Add(time.Duration(random.Int64N(int64(3 * period))).Truncate(time.Second)) // no member led
			}
			w.take(Snapshot{Kind: Full, Created: now}, false)
			due = w.retention.Due(now)
			newest := w.with[len(w.with)-1]
			w.collect(now)
			if lost := w.displaced(now); len(lost) > 0 {
				t.Fatalf("seed %d, limit %d, every %s, step %d: requests displaced %s of %s, at %s", seed, w.retention.Limit, period, step, lost[0].Name(), lost[0].Created, now)
			}
			if !slices.Contains(w.with, newest) {
				t.Fatalf("seed %d: the newest was removed", seed)
			}
			if fulls, most := countFulls(w.with), w.most(now); fulls > most {
				t.Fatalf("seed %d, limit %d, every %s, step %d: %d full snapshots, at most %d expected", seed, w.retention.Limit, period, step, fulls, most)
			}
		}
	}
}

// most is the largest number of full snapshots that a store has after a collection.
func (w *world) most(now time.Time) int {
	if w.retention.Limit > 0 {
		return 2 * max(w.retention.Limit, 2)
	}
	current := 0
	for _, s := range w.with {
		if s.Kind == Full && s.Created.Truncate(time.Hour).Equal(now.Truncate(time.Hour)) {
			current++
		}
	}
	return 2*(24+8+6+2) + current
}

func countFulls(list []Snapshot) (n int) {
	for _, s := range list {
		if s.Kind == Full {
			n++
		}
	}
	return n
}

// The rule removes nothing that the policy alone would keep: it may be wrong about what the schedule has taken, after a changed
// schedule or on a clock that jumps.
func TestNothingMoreExpiresThanByThePolicyAlone(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 11))
		var list []Snapshot
		now := noon
		for i := range 40 {
			s := Snapshot{Kind: Full, LastRevision: int64(i + 1), Created: now.Add(-time.Duration(random.IntN(40*24*3600)) * time.Second)}
			if random.IntN(3) == 0 {
				s.Kind, s.StartRevision = Delta, 1
			}
			list = append(list, s)
		}
		alone := Retention{Limit: random.IntN(9), Deltas: time.Duration(random.IntN(72)) * time.Hour}
		rule := alone
		rule.Due = every(time.Duration(1+random.IntN(48))*time.Hour, 0)
		for _, s := range rule.Expired(list, now) {
			if !slices.Contains(alone.Expired(list, now), s) {
				t.Fatalf("seed %d: %s expires only with a schedule", seed, s.Name())
			}
		}
	}
}

// Deltas that were taken before all full snapshots that stay lead nowhere, and go with the last one that led to them, whatever their age.
func TestDeltasThatLeadNowhereExpire(t *testing.T) {
	g := NewWithT(t)
	later := noon.Add(time.Hour)
	all := list("1-9", "F10", "11-20", "F20", "21-30", "F30", "31-40", "F40", "41-50")
	expired := func(r Retention) []string { return notation(r.ExpiredTrusted(all, TrustAll, later)...) }
	week := Retention{Limit: 2, Deltas: 7 * 24 * time.Hour}
	g.Expect(expired(week)).To(Equal([]string{"F20", "F10", "1-9", "11-20", "21-30"}))
	g.Expect(expired(Retention{Limit: 9, Deltas: week.Deltas})).To(Equal([]string{"1-9"}))
	all[0].Kept = true
	g.Expect(expired(week)).To(Equal([]string{"F20", "F10", "11-20", "21-30"}), "one that is held")
	all[1].Kept = true
	g.Expect(expired(week)).To(Equal([]string{"F20"}), "a full snapshot that is kept leads to them")
	all = list("1-9", "10-20")
	g.Expect(expired(week)).To(BeEmpty(), "nothing is known without a full one")
}

// Whatever was removed: without the deltas that lead nowhere, each revision is restored by the same snapshots as with them, also by those who
// trust the signed ones alone.
func TestNoRestoreNeedsDeltasThatLeadNowhere(t *testing.T) {
	found := 0
	for seed := range uint64(100) {
		g, random := NewWithT(t), rand.New(rand.NewPCG(seed, 87))
		var store, removed []Snapshot
		revision, history := int64(1), "a"
		for i := range 25 {
			s := Snapshot{Kind: Delta, StartRevision: revision + 1, LastRevision: revision + 1 + random.Int64N(4), Created: noon.Add(time.Duration(i+random.IntN(2)) * time.Minute), Kept: random.IntN(12) == 0}
			switch random.IntN(8) {
			case 0, 1:
				s = Snapshot{Kind: Full, LastRevision: revision, Created: s.Created, Kept: s.Kept}
			case 2:
				s.StartRevision -= random.Int64N(3)
			case 3:
				revision, history = max(revision-random.Int64N(9), 1), history+"b" // another history
			}
			if random.IntN(3) > 0 {
				s.Proof = &Proof{History: history}
			}
			revision = max(s.LastRevision, revision)
			if slices.ContainsFunc(store, func(other Snapshot) bool { return other.Name() == s.Name() }) {
				continue
			}
			store = append(store, s)
			if !s.Kept && random.IntN(3) == 0 {
				removed = append(removed, s)
			}
		}
		without := func(list, gone []Snapshot) []Snapshot {
			return slices.DeleteFunc(slices.Clone(list), func(s Snapshot) bool { return slices.Contains(gone, s) })
		}
		nowhere := leadingNowhere(store, removed)
		found += len(nowhere)
		with := without(store, removed)
		for _, unsigned := range [][]Snapshot{nil, slices.DeleteFunc(slices.Clone(store), func(s Snapshot) bool { return s.Proof != nil })} {
			before, after := without(with, unsigned), without(without(with, unsigned), nowhere)
			g.Expect(Restorable(after, nil)).To(Equal(Restorable(before, nil)), "seed %d", seed)
			for target := range revision + 2 {
				want, missing := Target{Revision: target + 1}.Choose(before)
				got, err := Target{Revision: target + 1}.Choose(after)
				g.Expect(got).To(Equal(want), "seed %d, revision %d", seed, target+1)
				g.Expect(err == nil).To(Equal(missing == nil), "seed %d, revision %d: %v, %v", seed, target+1, err, missing)
			}
		}
	}
	NewWithT(t).Expect(found).To(BeNumerically(">", 30))
}
