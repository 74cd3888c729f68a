// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// short writes intervals as 50-60, or 50 for that of one full snapshot.
func short(intervals []Interval) (texts []string) {
	for _, i := range intervals {
		if text := fmt.Sprint(i.From.Revision); i.Fine {
			texts = append(texts, fmt.Sprintf("%s-%d", text, i.To.Revision))
		} else {
			texts = append(texts, text)
		}
	}
	return texts
}

func TestRestorable(t *testing.T) {
	for name, tc := range map[string]struct{ store, want []string }{
		"nothing":                       {nil, nil},
		"deltas alone":                  {[]string{"1-5"}, nil},
		"one full":                      {[]string{"F50"}, []string{"50"}},
		"with deltas":                   {[]string{"F50", "51-60", "61-70"}, []string{"50-70"}},
		"fulls of which the deltas are": {[]string{"F50", "51-60", "F60", "61-70", "F70"}, []string{"50-70"}},
		"older deltas have expired":     {[]string{"F50", "F80", "F90", "91-95"}, []string{"50", "80", "90-95"}},
		"a delta is missing":            {[]string{"F50", "51-60", "71-80", "F80", "81-90"}, []string{"50-60", "80-90"}},
		"two histories that overlap":    {[]string{"F50", "51-100", "F70", "71-90"}, []string{"50-100", "70-90"}},
		"after a raised revision":       {[]string{"F50", "51-100", "F1070", "1071-1080"}, []string{"50-100", "1070-1080"}},
		"two leaders":                   {[]string{"F50", "51-60", "51-65", "61-70"}, []string{"50-70"}},
		"the same full twice":           {[]string{"F50", "F50"}, []string{"50-50"}},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(short(Restorable(list(tc.store...), nil))).To(Equal(tc.want))
		})
	}
}

// A locked snapshot leads nowhere, and still ends the history before it: what follows it does not continue another one.
func TestRestorableWithoutTheLocked(t *testing.T) {
	for name, tc := range map[string]struct{ store, locked, want []string }{
		"a full":                      {[]string{"F50", "F60", "F70"}, []string{"F60"}, []string{"50", "70"}},
		"a delta":                     {[]string{"F50", "51-60", "61-70", "71-80", "F80", "81-90"}, []string{"61-70"}, []string{"50-60", "80-90"}},
		"the newest delta":            {[]string{"F50", "51-60", "61-70"}, []string{"61-70"}, []string{"50-60"}},
		"a full that deltas lead by":  {[]string{"F50", "51-60", "F60", "61-70"}, []string{"F60"}, []string{"50-70"}},
		"the first full":              {[]string{"F50", "51-60", "F60", "61-70"}, []string{"F50"}, []string{"60-70"}},
		"that which begins a history": {[]string{"F50", "51-100", "F70", "71-120"}, []string{"F70"}, []string{"50-100"}},
		"all":                         {[]string{"F50", "51-60"}, []string{"F50", "51-60"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			locked := func(s Snapshot) bool { return slices.Contains(tc.locked, notation(s)[0]) }
			NewWithT(t).Expect(short(Restorable(list(tc.store...), locked))).To(Equal(tc.want))
		})
	}
}

// A minute passes between two snapshots of a list.
func minute(n float64) time.Time { return noon.Add(time.Duration(n * float64(time.Minute))) }

func TestTargets(t *testing.T) {
	named := func(n string) string {
		all := list("F50", "51-60", "F60", "61-70", "71-80")
		for _, s := range all {
			if notation(s)[0] == n {
				return s.Name()
			}
		}
		panic(n)
	}
	usual := []string{"F50", "51-60", "F60", "61-70", "71-80"}
	gap := []string{"F50", "51-60", "71-80", "F80", "81-90"}
	two := []string{"F50", "51-100", "F70", "71-90"}
	for name, tc := range map[string]struct {
		store  []string
		target Target
		want   []string
		err    string
	}{
		"a revision in the middle":          {usual, Target{Revision: 65}, []string{"F60 61-70", "F50 51-60 61-70"}, ""},
		"at the end of a delta":             {usual, Target{Revision: 70}, []string{"F60 61-70", "F50 51-60 61-70"}, ""},
		"before the second full":            {usual, Target{Revision: 55}, []string{"F50 51-60"}, ""},
		"that of the second full":           {usual, Target{Revision: 60}, []string{"F60", "F50 51-60"}, ""},
		"from a base":                       {usual, Target{Revision: 65, Base: named("F50")}, []string{"F50 51-60 61-70"}, ""},
		"by a base of the older history":    {two, Target{Revision: 80, Base: named("F50")}, []string{"F50 51-100"}, ""},
		"from a base after it":              {usual, Target{Revision: 55, Base: named("F60")}, nil, "the full snapshot does not lead to revision 55: " + named("F60")},
		"by a base behind which is a gap":   {gap, Target{Revision: 85, Base: named("F50")}, nil, "the full snapshot does not lead to revision 85: " + named("F50") + ": revisions 61 to 70 are missing"},
		"by a base that is not there":       {usual, Target{Revision: 65, Base: "Full-00000000-00000007-7"}, nil, "does not lead to revision 65: Full-00000000-00000007-7 is not among the full snapshots"},
		"before everything":                 {usual, Target{Revision: 49}, nil, "revision 49 cannot be restored: the nearest state that can be restored is revision 50 (2023-11-14T22:13:20Z) after it"},
		"after everything":                  {usual, Target{Revision: 81}, nil, "revision 81 cannot be restored: the nearest state that can be restored is revision 80 (2023-11-14T22:17:20Z) before it"},
		"in a gap":                          {gap, Target{Revision: 65}, nil, "revision 65 cannot be restored (revisions 61 to 70 are missing: a delta snapshot was lost): the nearest states that can be restored are revision 60 (2023-11-14T22:14:20Z) before it, and revision 80 (2023-11-14T22:16:20Z) after it"},
		"behind a gap":                      {gap, Target{Revision: 75}, nil, "revision 75 cannot be restored"},
		"no full":                           {[]string{"1-5"}, Target{Revision: 3}, nil, "there is no full snapshot"},
		"nothing, latest":                   {nil, Target{Latest: true}, nil, "there is no full snapshot"},
		"latest":                            {usual, Target{Latest: true}, []string{"F60 61-70 71-80", "F50 51-60 61-70 71-80"}, ""},
		"latest behind a gap":               {[]string{"F50", "51-60", "71-80"}, Target{Latest: true}, nil, "revisions 61 to 70 are missing"},
		"in both histories: the newer":      {two, Target{Revision: 80}, []string{"F70 71-90"}, ""},
		"in the older history alone":        {two, Target{Revision: 95}, []string{"F50 51-100"}, ""},
		"before the newer history began":    {two, Target{Revision: 60}, []string{"F50 51-100"}, ""},
		"a time before the newer history":   {two, Target{Time: minute(0.5)}, []string{"F50 51-100"}, ""},
		"a time of the newer history":       {two, Target{Time: minute(2.5)}, []string{"F70 71-90"}, ""},
		"a time between deltas":             {usual, Target{Time: minute(2.5)}, []string{"F60 61-70 71-80", "F50 51-60 61-70 71-80"}, ""},
		"the time of a full":                {usual, Target{Time: minute(2)}, []string{"F60 61-70 71-80", "F50 51-60 61-70 71-80"}, ""},
		"a time after everything":           {usual, Target{Time: minute(4.5)}, nil, "2023-11-14T22:17:50Z cannot be restored: the nearest state that can be restored is revision 80 (2023-11-14T22:17:20Z) before it"},
		"a time before everything":          {usual, Target{Time: minute(-1)}, nil, "the nearest state that can be restored is revision 50 (2023-11-14T22:13:20Z) after it"},
		"a time in a gap":                   {gap, Target{Time: minute(1.5)}, nil, "revision 60 (2023-11-14T22:14:20Z) before it, and revision 80 (2023-11-14T22:16:20Z) after it"},
		"a full snapshot":                   {usual, Target{Snapshot: named("F60")}, []string{"F60", "F50 51-60"}, ""},
		"a delta snapshot":                  {usual, Target{Snapshot: named("61-70")}, []string{"F60 61-70", "F50 51-60 61-70"}, ""},
		"a snapshot that is not there":      {usual, Target{Snapshot: "Full-00000000-00000007-7"}, nil, "snapshot Full-00000000-00000007-7 cannot be restored"},
		"before a raised revision":          {[]string{"F50", "51-100", "F1070"}, Target{Revision: 99}, []string{"F50 51-100"}, ""},
		"in what a raised revision skipped": {[]string{"F50", "51-100", "F1070"}, Target{Revision: 500}, nil, "revision 100 (2023-11-14T22:14:20Z) before it, and revision 1070 (2023-11-14T22:15:20Z) after it"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			choices, err := tc.target.Choose(list(tc.store...))
			if tc.err != "" {
				g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			var got []string
			for _, c := range choices {
				got = append(got, strings.Join(notation(append([]Snapshot{*c.Full}, c.Deltas...)...), " "))
			}
			g.Expect(got).To(Equal(tc.want))
		})
	}
}

// Signed snapshots of two histories are told apart also where revisions would continue.
func TestTargetsOfSignedHistories(t *testing.T) {
	g := NewWithT(t)
	all := list("F50", "51-100", "F100", "101-110")
	for i := range all {
		all[i].Proof = &Proof{History: fmt.Sprint(i / 2)}
		if all[i].Kind == Delta {
			all[i].Proof.Predecessor = all[i-1].Reference()
		}
	}
	g.Expect(short(Restorable(all, nil))).To(Equal([]string{"50-100", "100-110"}))
	choices, err := Target{Revision: 105}.Choose(all)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(choices).To(HaveLen(1), "the older history does not lead there")
}

func TestValidTargets(t *testing.T) {
	g := NewWithT(t)
	for _, ok := range []Target{{Latest: true}, {Revision: 1}, {Time: noon}, {Snapshot: "Full-00000000-00000007-7", Base: "Full-00000000-00000005-5"}} {
		g.Expect(ok.Validate()).To(Succeed())
	}
	for _, wrong := range []Target{{}, {Latest: true, Revision: 1}, {Revision: -1}, {Snapshot: "../x"}, {Latest: true, Base: "x"}} {
		g.Expect(wrong.Validate()).NotTo(Succeed())
	}
}

// What Restorable lists can be restored, with chains that have each revision once, of one history; what it does not list cannot.
func TestTargetsAreThoseThatAreListed(t *testing.T) {
	for seed := range uint64(100) {
		g := NewWithT(t)
		store, histories := randomStore(rand.New(rand.NewPCG(seed, 1)))
		intervals := Restorable(store, nil)
		for revision := int64(1); revision < 140; revision++ {
			listed := false
			for _, i := range intervals {
				listed = listed || i.From.Revision <= revision && revision <= i.To.Revision
			}
			choices, err := Target{Revision: revision}.Choose(store)
			g.Expect(err == nil).To(Equal(listed), "seed %d, revision %d of %v: %v", seed, revision, notation(store...), err)
			for _, c := range choices {
				at := c.Full.LastRevision
				g.Expect(at).To(BeNumerically("<=", revision))
				for _, d := range c.Deltas {
					g.Expect(d.StartRevision).To(BeNumerically("<=", at+1), "seed %d", seed)
					g.Expect(histories[d.Created]).To(Equal(histories[c.Full.Created]), "seed %d", seed)
					at = d.LastRevision
				}
				g.Expect(at).To(BeNumerically(">=", revision), "seed %d", seed)
			}
			outside, ok := errors.AsType[*OutsideError](err)
			if !listed && len(intervals) > 0 {
				g.Expect(ok).To(BeTrue())
				for _, p := range []*Point{outside.Before, outside.After} {
					if p != nil {
						_, err := Target{Revision: p.Revision}.Choose(store)
						g.Expect(err).NotTo(HaveOccurred(), "the nearest can be restored")
					}
				}
			}
		}
		for _, i := range intervals {
			for _, at := range []time.Time{i.From.Time, i.To.Time, i.From.Time.Add(i.To.Time.Sub(i.From.Time) / 2)} {
				_, err := Target{Time: at}.Choose(store)
				g.Expect(err).NotTo(HaveOccurred(), "seed %d", seed)
			}
		}
	}
}

// randomStore returns snapshots of which some are lost, of up to three histories whose revisions overlap, and the history of each by its
// time.
func randomStore(r *rand.Rand) (store []Snapshot, histories map[time.Time]int) {
	histories = map[time.Time]int{}
	revision, history, now := int64(10), 0, noon
	add := func(s Snapshot) {
		now = now.Add(time.Minute)
		s.Created = now
		histories[now] = history
		if r.IntN(8) > 0 || s.Kind == Full && len(store) == 0 {
			store = append(store, s)
		}
	}
	add(Snapshot{Kind: Full, LastRevision: revision})
	for range 4 + r.IntN(16) {
		switch n := r.IntN(10); {
		case n < 7:
			first := revision + 1
			revision += 1 + r.Int64N(8)
			add(Snapshot{Kind: Delta, StartRevision: first, LastRevision: revision})
		case n < 9:
			add(Snapshot{Kind: Full, LastRevision: revision})
		case history < 2 && revision > 20:
			// What shows that another history begins is not lost: the end of the one before, and the full snapshot.
			store = append(store, Snapshot{Kind: Delta, StartRevision: revision + 1, LastRevision: revision + 2, Created: now.Add(time.Minute)})
			histories[now.Add(time.Minute)] = history
			history++
			revision -= 5 + r.Int64N(10)
			now = now.Add(2 * time.Minute)
			histories[now] = history
			store = append(store, Snapshot{Kind: Full, LastRevision: revision, Created: now})
		}
	}
	return store, histories
}

func TestFits(t *testing.T) {
	members := Members{Version: "3.6.1", Quota: 100}
	for name, tc := range map[string]struct {
		p    Preview
		m    Members
		want RefusalCode
	}{
		"all is well":             {Preview{Version: "3.6.9", Bytes: 99}, members, ""},
		"an older minor":          {Preview{Version: "3.5.0"}, members, ""},
		"a newer minor":           {Preview{Version: "3.7.0"}, members, NewerVersion},
		"a newer major":           {Preview{Version: "4.0.0"}, members, NewerVersion},
		"a version is not known":  {Preview{Version: ""}, members, ""},
		"the members' is not":     {Preview{Version: "3.7.0"}, Members{}, ""},
		"at the quota":            {Preview{Bytes: 100}, members, OverQuota},
		"clients had to log in":   {Preview{Auth: true, Users: 2}, members, AuthEnabled},
		"which is accepted":       {Preview{Auth: true}, Members{AcceptAuth: true}, ""},
		"accepted, but too large": {Preview{Auth: true, Bytes: 100}, Members{AcceptAuth: true, Quota: 100}, OverQuota},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			if refused := tc.p.Fits(tc.m); tc.want == "" {
				g.Expect(refused).To(BeNil())
			} else {
				g.Expect(refused).To(HaveField("Code", tc.want))
				g.Expect(refused.Message).NotTo(BeEmpty())
			}
		})
	}
}

// Whatever a restore depends on changes its digest.
func TestDigests(t *testing.T) {
	g := NewWithT(t)
	all := list("F50", "51-60")
	chain := Chain{Full: &all[0], Deltas: all[1:]}
	seen := map[string]bool{DigestOf("etcd", "cafe", chain, 55, 7): true}
	differs := func(digest string) { g.Expect(seen).NotTo(HaveKey(digest)); seen[digest] = true }
	differs(DigestOf("other", "cafe", chain, 55, 7))
	differs(DigestOf("etcd", "beef", chain, 55, 7))
	differs(DigestOf("etcd", "cafe", chain, 56, 7))
	differs(DigestOf("etcd", "cafe", chain, 55, 8))
	differs(DigestOf("etcd", "cafe", Chain{Full: &all[0]}, 55, 7))
	larger := all[0]
	larger.Size++
	differs(DigestOf("etcd", "cafe", Chain{Full: &larger, Deltas: all[1:]}, 55, 7))
}
