// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package hotprefix

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

func TestPrefixOf(t *testing.T) {
	for key, want := range map[string]string{
		"":                                       "",
		"a":                                      "",
		"/":                                      "",
		"/a":                                     "",
		"/registry/a":                            "/registry",
		"/registry/pods/a":                       "/registry/pods",
		"/registry/pods/default/a":               "/registry/pods",
		"registry/pods/default/a":                "registry/pods",
		"/registry/example.com/w/a":              "/registry/example.com",
		"a/b":                                    "a",
		"/" + strings.Repeat("x", 1000) + "/y/z": "/" + strings.Repeat("x", maxPrefix-1),
	} {
		NewWithT(t).Expect(string(PrefixOf([]byte(key)))).To(Equal(want), key)
	}
}

// What is shown controls no terminal.
func TestPrefixesArePlain(t *testing.T) {
	g := NewWithT(t)
	var r Recent
	for n := range int64(10) {
		r.Add(fmt.Appendf(nil, "/a\x1b[2J/b/%d", n), n, 1, noon)
	}
	g.Expect(r.Report(noon, false).Prefixes).To(Equal([]Prefix{{Prefix: "/a [2J/b/…", Events: 10, Bytes: 10}}))
}

// exact counts what a table of fixed size estimates.
type exact struct{ events, bytes map[string]int64 }

// For each prefix, the estimate is the exact count or more, by at most MaxError; bytes are the exact ones or fewer; and each prefix with more
// than a 64th of the events is in the table, which never has more entries.
func TestEstimatesAreWithinTheirError(t *testing.T) {
	for seed := range uint64(50) {
		g := NewWithT(t)
		r := rand.New(rand.NewPCG(seed, 7))
		zipf := rand.NewZipf(r, 1.05+r.Float64(), 1, 400)
		table, count := newTable(noon), exact{map[string]int64{}, map[string]int64{}}
		total := int64(2000 + r.IntN(20000))
		for n := range total {
			prefix := fmt.Sprintf("/registry/kind-%d", zipf.Uint64())
			key, bytes := fmt.Sprintf("%s/name-%d", prefix, r.IntN(20)), int64(r.IntN(2000))
			table.add(PrefixOf([]byte(key)), []byte(key), bytes)
			count.events[prefix]++
			count.bytes[prefix] += bytes
			if n%1000 == 0 {
				g.Expect(len(table.entries)).To(BeNumerically("<=", entries))
			}
		}
		g.Expect(table.events).To(Equal(total))
		sum := int64(0)
		for i, e := range table.entries {
			prefix := e.prefix
			g.Expect(table.at).To(HaveKeyWithValue(prefix, i))
			sum += e.events
			g.Expect(e.events).To(BeNumerically(">=", count.events[prefix]), prefix)
			g.Expect(e.events-e.maxError).To(BeNumerically("<=", count.events[prefix]), prefix)
			g.Expect(e.maxError).To(BeNumerically("<=", total/entries), prefix)
			g.Expect(e.bytes).To(BeNumerically("<=", count.bytes[prefix]), prefix)
			g.Expect(len(e.keys)).To(BeNumerically("<=", EnoughKeys))
		}
		g.Expect(sum).To(Equal(total), "no event is lost")
		for prefix, n := range count.events {
			if n > total/entries {
				g.Expect(table.at).To(HaveKey(prefix))
			}
		}
	}
}

// With fewer prefixes than entries, the table is exact.
func TestFewPrefixesAreExact(t *testing.T) {
	g := NewWithT(t)
	var r Recent
	for n := range int64(300) {
		r.Add(fmt.Appendf(nil, "/registry/kind-%d/name-%d", n%3, n%30), n, 10, noon)
	}
	report := r.Report(noon, false)
	g.Expect(report.Events).To(Equal(int64(300)))
	g.Expect(report.Bytes).To(Equal(int64(3000)))
	g.Expect(report.Prefixes).To(Equal([]Prefix{
		{Prefix: "/registry/kind-0/…", Events: 100, Bytes: 1000}, {Prefix: "/registry/kind-1/…", Events: 100, Bytes: 1000}, {Prefix: "/registry/kind-2/…", Events: 100, Bytes: 1000},
	}))
}

// What fewer than ten keys share is not shown.
func TestFewKeysAreNotShown(t *testing.T) {
	g := NewWithT(t)
	var r Recent
	for n := range int64(9) {
		r.Add(fmt.Appendf(nil, "/tenant/secret/name-%d", n), n, 1, noon)
		r.Add(fmt.Appendf(nil, "/tenant/secret/name-%d", n), n, 1, noon)
	}
	g.Expect(fmt.Sprint(r.Report(noon, false))).NotTo(ContainSubstring("secret"))
	g.Expect(r.Report(noon, false).Prefixes).To(Equal([]Prefix{{Prefix: Other, Events: 18, Bytes: 18}}))
	r.Add([]byte("/tenant/secret/name-9"), 10, 1, noon)
	g.Expect(r.Report(noon, false).Prefixes).To(Equal([]Prefix{{Prefix: "/tenant/secret/…", Events: 19, Bytes: 19}}))
}

// A stream that begins again is not counted twice; a transaction has several events of one revision.
func TestRevisionsAreCountedOnce(t *testing.T) {
	g := NewWithT(t)
	var r Recent
	for range 2 {
		for n := range int64(10) {
			r.Add([]byte("/a/b/c"), n, 1, noon)
		}
	}
	g.Expect(r.Report(noon, false).Events).To(Equal(int64(11)), "the last revision may be incomplete, and is counted again")
}

// What is older than two minutes is forgotten, also if nothing is written, and if the clock is set back.
func TestOldEventsAreForgotten(t *testing.T) {
	g := NewWithT(t)
	var r Recent
	g.Expect(r.Report(noon, false)).To(Equal(Report{Prefixes: []Prefix{}}))
	r.Add([]byte("/a/b/c"), 1, 1, noon)
	r.Add([]byte("/a/b/c"), 2, 1, noon.Add(time.Minute))
	g.Expect(r.Report(noon.Add(time.Minute), false).Events).To(Equal(int64(2)))
	g.Expect(r.Report(noon.Add(time.Minute), false).Since).To(Equal(noon))
	g.Expect(r.Report(noon.Add(2*time.Minute), false).Events).To(Equal(int64(1)))
	g.Expect(r.Report(noon.Add(10*time.Minute), false).Events).To(BeZero())
	r.Add([]byte("/a/b/c"), 3, 1, noon.Add(10*time.Minute))
	r.Add([]byte("/a/b/c"), 4, 1, noon)
	g.Expect(r.Report(noon, false).Events).To(Equal(int64(1)))
}

// Whole keys are told only to those who ask for them, the most written first, and as text.
func TestWholeKeys(t *testing.T) {
	g := NewWithT(t)
	var r Recent
	for n := range int64(30) {
		r.Add([]byte("/registry/leases/kube-system/a"), n, 10, noon)
		if n%3 == 0 {
			r.Add([]byte("/registry/pods/default/b\x1b[2J"), n, 10, noon)
		}
	}
	r.Add([]byte("/"+strings.Repeat("x", 1<<20)), 30, 1, noon)
	g.Expect(r.Report(noon, false).Keys).To(BeNil())
	keys := r.Report(noon, true).Keys
	g.Expect(keys[:2]).To(Equal([]Prefix{{Prefix: "/registry/leases/kube-system/a", Events: 30, Bytes: 300}, {Prefix: "/registry/pods/default/b [2J", Events: 10, Bytes: 100}}))
	g.Expect(len(keys[2].Prefix)).To(BeNumerically("<=", maxKey))
	g.Expect(r.Report(noon, true).Prefixes).To(Equal(r.Report(noon, false).Prefixes))
}

func FuzzPrefix(f *testing.F) {
	f.Add([]byte("/registry/pods/default/a"))
	f.Fuzz(func(t *testing.T, key []byte) {
		var r Recent
		r.Add(key, 1, 1, noon)
		for _, p := range r.Report(noon, false).Prefixes {
			if p.Prefix != Other {
				t.Fatalf("%q is shown, which one key has", p.Prefix)
			}
		}
		if got := PrefixOf(key); len(got) > maxPrefix {
			t.Fatalf("%q is too long", got)
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	var r Recent
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "/registry/kind-%d/namespace/name-%d", i%100, i)
	}
	for n := 0; b.Loop(); n++ {
		r.Add(keys[n%len(keys)], int64(n), 1000, noon)
	}
}
