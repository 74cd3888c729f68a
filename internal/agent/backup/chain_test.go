// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
)

// list reads snapshots from a short notation: F50 is a full one at revision 50, 51-60 a delta. Each is a minute
// younger than the one before.
func list(notation ...string) []Snapshot {
	var snapshots []Snapshot
	for i, n := range notation {
		s := Snapshot{Kind: Delta, Created: noon.Add(time.Duration(i) * time.Minute), Compression: Gzip}
		if _, err := fmt.Sscanf(n, "F%d", &s.LastRevision); err == nil {
			s.Kind = Full
		} else if _, err := fmt.Sscanf(n, "%d-%d", &s.StartRevision, &s.LastRevision); err != nil {
			panic(n)
		}
		snapshots = append(snapshots, s)
	}
	return snapshots
}

func notation(snapshots ...Snapshot) []string {
	written := []string{}
	for _, s := range snapshots {
		if s.Kind == Full {
			written = append(written, fmt.Sprintf("F%d", s.LastRevision))
		} else {
			written = append(written, fmt.Sprintf("%d-%d", s.StartRevision, s.LastRevision))
		}
	}
	return written
}

func TestChains(t *testing.T) {
	for _, tc := range []struct {
		name  string
		store []string
		want  [][]string
		err   error
	}{
		{"nothing", nil, nil, ErrNoFull},
		{"deltas alone", []string{"1-5"}, nil, ErrNoFull},
		{"full alone", []string{"F50"}, [][]string{{"F50"}}, nil},
		{"deltas", []string{"F50", "51-60", "61-61"}, [][]string{{"F50", "51-60", "61-61"}}, nil},
		{"two fulls", []string{"F50", "51-60", "F60", "61-70"}, [][]string{{"F60", "61-70"}, {"F50", "51-60", "61-70"}}, nil},
		{"the deltas before the newest full are gone", []string{"F50", "F60", "61-70"}, [][]string{{"F60", "61-70"}}, nil},
		{"full that has more than its name says", []string{"F50", "48-60"}, [][]string{{"F50", "48-60"}}, nil},
		{"overlapping deltas of two leaders", []string{"F50", "51-60", "51-65", "61-64", "66-70"}, [][]string{{"F50", "51-65", "66-70"}}, nil},
		{"the same full twice", []string{"F50", "F50"}, [][]string{{"F50"}, {"F50"}}, nil},
		{"a delta was lost", []string{"F50", "51-60", "71-80"}, [][]string{{"F50", "51-60"}}, &GapError{60, 71}},
		{"a delta was lost before the newest full", []string{"F50", "61-70", "F70"}, [][]string{{"F70"}}, nil},
		{"revisions restarted", []string{"F50", "51-90", "F60", "61-62"}, [][]string{{"F60", "61-62"}}, nil},
		{"revisions restarted and went beyond", []string{"F50", "51-90", "F60", "61-95"}, [][]string{{"F60", "61-95"}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			chains, err := Chains(list(tc.store...))
			if tc.err == nil {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(Equal(tc.err))
			}
			var got [][]string
			for _, c := range chains {
				got = append(got, notation(append([]Snapshot{*c.Full}, c.Deltas...)...))
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

func TestNewestOfAnEmptyStore(t *testing.T) {
	g := NewWithT(t)
	chain, err := Newest(nil)
	g.Expect(err).To(MatchError(ErrNoFull))
	g.Expect(chain.LastRevision()).To(BeZero())
}

func TestRetentionByNumber(t *testing.T) {
	store := []string{"F10", "11-20", "F20", "21-30", "F30", "31-40", "F40", "41-50"}
	for _, tc := range []struct {
		limit int
		want  []string
	}{
		{1, []string{"31-40", "F30", "21-30", "F20", "11-20", "F10"}},
		{2, []string{"21-30", "F20", "11-20", "F10"}},
		{3, []string{"21-30", "11-20", "F10"}},
		{9, []string{"21-30", "11-20"}},
	} {
		g := NewWithT(t)
		r := Retention{Limit: tc.limit}
		g.Expect(notation(r.Expired(list(store...), noon.Add(time.Hour))...)).To(Equal(tc.want), "limit %d", tc.limit)
	}
	g := NewWithT(t)
	r := Retention{Limit: 1, Deltas: 57 * time.Minute} // the deltas are 59, 57, 55 and 53 minutes old
	g.Expect(notation(r.Expired(list(store...), noon.Add(time.Hour))...)).To(Equal([]string{"F30", "F20", "11-20", "F10"}))
	g.Expect(r.Expired(nil, noon)).To(BeEmpty())
	g.Expect(r.Expired(list("1-5", "6-9"), noon.Add(time.Hour))).To(BeEmpty(), "deltas without a full one are none of our business")
}

// A full snapshot every half an hour for 80 days, with a collection after each: what is left is what the policy
// promises, and neither the newest nor the one before it was ever removed.
func TestExponentialRetention(t *testing.T) {
	g := NewWithT(t)
	var store []Snapshot
	now := noon
	for i := range int64(80 * 48) {
		now = noon.Add(time.Duration(i) * 30 * time.Minute)
		store = append(store, Snapshot{Kind: Full, LastRevision: i + 1, Created: now})
		for _, s := range (Retention{}).Expired(store, now) {
			if s.LastRevision > i {
				t.Fatalf("removed the newest or the one before: %s", s.Name())
			}
			for at := range store {
				if store[at] == s {
					store = append(store[:at], store[at+1:]...)
					break
				}
			}
		}
	}
	count := map[string]int{}
	for _, s := range store {
		switch age := now.Sub(s.Created); {
		case age <= 25*time.Hour:
			count["hourly"]++
		case age <= 8*24*time.Hour:
			count["daily"]++
		default:
			count["weekly"]++
			g.Expect(age).To(BeNumerically("<=", 7*6*24*time.Hour))
		}
	}
	g.Expect(count["hourly"]).To(BeNumerically("~", 26, 1))
	g.Expect(count["daily"]).To(BeNumerically("~", 7, 1))
	g.Expect(count["weekly"]).To(BeNumerically("~", 4, 1))
}

// A clock that jumps, in either direction, removes nothing that the newest state needs.
func TestRetentionUnderAClockThatJumps(t *testing.T) {
	store := list("F10", "11-20", "F20", "21-30", "31-40")
	for _, now := range []time.Time{noon.AddDate(-10, 0, 0), noon.AddDate(10, 0, 0), {}} {
		for _, r := range []Retention{{}, {Limit: 2}, {Deltas: time.Hour}} {
			if expired := r.Expired(store, now); len(expired) > 0 {
				t.Errorf("at %s, %+v removes %v", now, r, notation(expired...))
			}
		}
	}
}

// simpleFollow is follow in the obvious way, which takes the square of the number of snapshots.
func simpleFollow(full Snapshot, later []Snapshot) (Chain, error) {
	chain := Chain{Full: &full, Deltas: []Snapshot{}}
	for {
		at, best, next := chain.LastRevision(), -1, int64(0)
		for i, s := range later {
			switch {
			case s.Kind == Full || s.LastRevision <= at:
			case s.StartRevision > at+1:
				if next == 0 || s.StartRevision < next {
					next = s.StartRevision
				}
			case best < 0 || s.LastRevision > later[best].LastRevision:
				best = i
			}
		}
		if best < 0 {
			if next > 0 {
				return chain, &GapError{After: at, Next: next}
			}
			return chain, nil
		}
		chain.Deltas = append(chain.Deltas, later[best])
	}
}

func TestFollowFindsTheSameChains(t *testing.T) {
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(1, 2))
	gaps := 0
	for range 20_000 {
		var later []Snapshot
		for i := range random.IntN(8) {
			start := 1 + random.Int64N(12)
			later = append(later, Snapshot{Kind: Delta, StartRevision: start, LastRevision: start + random.Int64N(6), Created: time.Unix(int64(i), 0)})
		}
		full := Snapshot{Kind: Full, LastRevision: random.Int64N(6)}
		got, gotErr := follow(full, later)
		want, wantErr := simpleFollow(full, later)
		if wantErr == nil {
			g.Expect(gotErr).NotTo(HaveOccurred())
		} else {
			gaps++
			g.Expect(gotErr).To(Equal(wantErr))
		}
		g.Expect(got).To(Equal(want), "%v", later)
	}
	g.Expect(gaps).To(BeNumerically(">", 1000))
}

// A listing may have as many snapshots as the store lets through: what is made of it is found while a request waits.
func TestManySnapshots(t *testing.T) {
	g := NewWithT(t)
	const n = 200_000
	var deltas, fulls []Snapshot
	deltas = append(deltas, Snapshot{Kind: Full, LastRevision: 1, Created: time.Unix(0, 0)})
	for i := range int64(n) {
		deltas = append(deltas, Snapshot{Kind: Delta, StartRevision: 2 + i, LastRevision: 2 + i, Created: time.Unix(1+i, 0)})
		fulls = append(fulls, Snapshot{Kind: Full, LastRevision: 1, Created: time.Unix(i, 0)})
	}
	start := time.Now()
	chain, err := Newest(deltas)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(chain.LastRevision()).To(BeEquivalentTo(n + 1))
	chains, err := Chains(fulls)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(chains).To(HaveLen(maxChains))
	g.Expect(time.Since(start)).To(BeNumerically("<", machine.Scaled(20*time.Second)))
}

// Signed deltas follow only a snapshot of their history, and only if what they continue is there.
func TestSignedChains(t *testing.T) {
	at := func(minute int64) time.Time { return time.Unix(1_700_000_000+60*minute, 0).UTC() }
	digest := func(n int64) string { return fmt.Sprintf("%064x", n) }
	full := func(minute, last int64, history string) Snapshot {
		return Snapshot{Kind: Full, LastRevision: last, Created: at(minute), Compression: Gzip, Proof: &Proof{SHA256: digest(minute), History: history}}
	}
	delta := func(minute, first, last int64, before Snapshot) Snapshot {
		return Snapshot{
			Kind: Delta, StartRevision: first, LastRevision: last, Created: at(minute), Compression: Gzip,
			Proof: &Proof{SHA256: digest(minute), History: before.Proof.History, Predecessor: before.Reference()},
		}
	}
	f := full(1, 10, "a")
	d1 := delta(2, 11, 20, f)
	d2 := delta(3, 21, 30, d1)
	twin := delta(4, 21, 35, d1) // of an agent that was paused
	d3 := delta(5, 31, 40, d2)
	compacted := full(3, 30, "a")
	between := full(6, 40, "a")
	d4 := delta(7, 41, 50, between)
	other := full(8, 20, "b")
	o1 := delta(9, 21, 60, other)
	replaced := d2
	replaced.Proof = &Proof{SHA256: digest(99), History: "a", Predecessor: d1.Reference()}
	for _, tc := range []struct {
		name    string
		list    []Snapshot
		reaches int64
		says    string
	}{
		{"all", []Snapshot{f, d1, d2, d3}, 40, ""},
		{"an overlapping one", []Snapshot{f, d1, d2, twin, d3}, 40, ""},
		{"an overlapped one is missing", []Snapshot{f, d1, twin, d3}, 35, "was taken after " + d2.Name()},
		{"one was replaced by another of its name", []Snapshot{f, d1, replaced, d3}, 30, "was taken after " + d2.Name()},
		{"compacted", []Snapshot{compacted, d3}, 40, ""},
		{"a full one between was removed", []Snapshot{f, d1, d2, d3, d4}, 50, ""},
		{"another history", []Snapshot{f, d1, d2, d3, other, o1}, 60, ""},
		{"another history whose beginning is missing", []Snapshot{f, d1, d2, d3, o1}, 40, ""},
		{"a delta of the earlier history comes late", []Snapshot{f, d1, other, delta(10, 21, 70, d1)}, 20, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			chain, err := Newest(tc.list)
			g.Expect(chain.LastRevision()).To(Equal(tc.reaches))
			if tc.says == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(tc.says)))
			}
		})
	}
	g := NewWithT(t)
	chains, err := Chains([]Snapshot{full(0, 20, "a"), full(8, 20, "b")})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(chains).To(HaveLen(1), "the same revision of another history is another state")
}

func TestTrusted(t *testing.T) {
	at := func(minute int64) time.Time { return time.Unix(1_700_000_000+60*minute, 0).UTC() }
	signed := &Proof{History: "a"}
	snapshot := func(kind Kind, minute int64, proof *Proof) Snapshot {
		return Snapshot{Kind: kind, StartRevision: min(minute, 1), LastRevision: minute, Created: at(minute), Proof: proof}
	}
	old, first, plain, next := snapshot(Full, 1, nil), snapshot(Full, 2, signed), snapshot(Delta, 3, nil), snapshot(Full, 4, signed)
	for _, tc := range []struct {
		name    string
		list    []Snapshot
		until   time.Time
		trusted int
		refused string
	}{
		{"nothing", nil, time.Time{}, 0, ""},
		{"unsigned", []Snapshot{old}, time.Time{}, 0, old.Name()},
		{"unsigned before the first signed one", []Snapshot{first, old}, time.Time{}, 1, ""},
		{"unsigned after it", []Snapshot{old, first, plain}, time.Time{}, 1, plain.Name()},
		{"superseded", []Snapshot{old, first, plain, next}, time.Time{}, 2, ""},
		{"accepted", []Snapshot{old, first, plain}, at(3), 3, ""},
		{"accepted up to an earlier one", []Snapshot{old, first, plain}, at(1), 2, plain.Name()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			trusted, refused := Trusted(tc.list, TrustSigned, tc.until)
			g.Expect(trusted).To(HaveLen(tc.trusted))
			g.Expect(refused).To(Equal(tc.refused))
		})
	}
}

// Snapshots of a writer of the bucket displace no signed ones, and leave time for new ones.
func TestUnsignedSnapshotsDisplaceNone(t *testing.T) {
	g := NewWithT(t)
	now := time.Unix(1_700_000_000, 0).UTC()
	snapshot := func(age time.Duration, proof *Proof) Snapshot {
		return Snapshot{Kind: Full, LastRevision: 1, Created: now.Add(-age), Proof: proof}
	}
	signed := snapshot(time.Hour, &Proof{})
	list := []Snapshot{signed, snapshot(-time.Hour, nil), snapshot(-2*time.Hour, nil), snapshot(-48*time.Hour, nil), snapshot(2*time.Hour, nil)}
	retention := Retention{Limit: 1}
	g.Expect(retention.Expired(list, now)).To(ContainElement(signed))
	g.Expect(retention.ExpiredTrusted(list, TrustSigned, now)).NotTo(ContainElement(signed))
	g.Expect(retention.ExpiredTrusted(list, TrustSigned, now)).To(ContainElement(list[4]), "those from before signing expire")
	older := snapshot(3*time.Hour, &Proof{})
	g.Expect(retention.ExpiredTrusted(append(list, older), TrustSigned, now)).To(And(ContainElement(older), Not(ContainElement(signed))), "signed ones displace each other")
	g.Expect(LastTaken(list, TrustSigned, now)).To(Equal(now.Add(2 * time.Hour)))
	g.Expect(LastTaken(list, TrustAll, now)).To(Equal(now.Add(48 * time.Hour)))
}

func TestRecords(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	g.Expect(ParseRecord("", noon)).To(BeZero())
	g.Expect(ParseRecord("7", time.Time{})).To(BeZero())
	r, err := ParseRecord("7", noon)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = ParseRecord("x", noon)
	g.Expect(err).To(HaveOccurred())
	chain := func(revision int64, created time.Time) Chain {
		return Chain{Full: &Snapshot{Kind: Full, LastRevision: revision, Created: created}}
	}
	g.Expect(r.Check(chain(7, noon))).To(Succeed())
	g.Expect(r.Check(chain(6, noon.Add(time.Hour)))).NotTo(Succeed())
	g.Expect(r.Check(chain(8, noon.Add(-time.Second)))).To(MatchError(ContainSubstring("end at revision 8")), "another history")
	g.Expect(Record{}.Check(Chain{})).To(Succeed())
}
