// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/hotprefix"
	. "github.com/onsi/gomega"
)

// The newest full snapshot says how much there is below each prefix: present keys, the largest, earlier revisions, and deletions. What too
// few keys share has no name.
func TestReadAtRest(t *testing.T) {
	for name, signed := range map[string]bool{"unsigned": false, "signed": true} {
		t.Run(name, func(t *testing.T) {
			r := newTrial(t, signed)
			for i := range hotprefix.EnoughKeys {
				r.put(fmt.Sprintf("/registry/pods/ns/p%d=1", i))
			}
			r.put("/registry/pods/ns/p0="+strings.Repeat("v", 1000), "/registry/pods/ns/p0=2", "/registry/secrets/ns/mine=secret", "a=1", "a")
			full := r.full()
			r.put("/registry/events/ns/e=1")
			r.delta()
			work := t.TempDir()
			got, err := ReadAtRest(t.Context(), AtRestConfig{Store: r.store, WorkDir: work})
			r.Expect(err).NotTo(HaveOccurred())
			r.Expect(got.Database).To(BeNumerically(">", 0))
			const pod, secret = int64(len("/registry/pods/ns/p0") + 1), int64(len("/registry/secrets/ns/mine") + len("secret"))
			pods := backup.Sizes{Keys: 10, Bytes: 10 * pod, Largest: pod, Revisions: 12, Stored: 12*pod + 999}
			other := backup.Sizes{Keys: 1, Bytes: secret, Largest: secret, Revisions: 2, Deletions: 1, Stored: secret + 3}
			total := pods
			total.Add(other)
			r.Expect(got).To(Equal(backup.AtRest{
				Snapshot: full.Name(), Created: full.Created, Database: got.Database, Sizes: total,
				Prefixes: []backup.PrefixSizes{{Prefix: "/registry/pods/" + hotprefix.Other, Sizes: pods}, {Prefix: hotprefix.Other, Sizes: other}},
			}))
			r.Expect(os.ReadDir(work)).To(BeEmpty())
		})
	}
}

// A full snapshot that is corrupt is passed over if an older one leads to its end, and a store without one is an error.
func TestReadAtRestOfWhatIsBroken(t *testing.T) {
	r := newTrial(t, false)
	config := AtRestConfig{Store: r.store, WorkDir: t.TempDir()}
	_, err := ReadAtRest(t.Context(), config)
	r.Expect(err).To(MatchError(backup.ErrNoFull))
	r.put("a=1")
	before := r.full()
	r.put("a=2")
	r.delta()
	r.corrupt(r.fullOf(r.revision(), func(string) {}))
	got, err := ReadAtRest(t.Context(), config)
	r.Expect(err).NotTo(HaveOccurred())
	r.Expect(got.Snapshot).To(Equal(before.Name()))
	r.corrupt(before)
	_, err = ReadAtRest(t.Context(), config)
	r.Expect(err).To(MatchError(ContainSubstring("is corrupt")))
	r.Expect(os.ReadDir(config.WorkDir)).To(BeEmpty())
}

// However many prefixes there are, and whatever is in them, the result fits into a termination message, and nothing is lost of the totals.
func TestAtRestFits(t *testing.T) {
	for name, prefix := range map[string]string{"short": "/a/%03d", "long": "/" + strings.Repeat("x", 100) + "/%03d", "to be escaped": "/" + strings.Repeat("<", 100) + "/%03d"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			keys := newKeySpace()
			for p := range 200 {
				for k := range hotprefix.EnoughKeys {
					keys.put(fmt.Appendf(nil, prefix+"/%d", p, k), make([]byte, 1<<10+p))
				}
			}
			keys.put([]byte("alone"), nil)
			var found backup.AtRest
			found.Sizes, found.Prefixes = keys.sizes()
			g.Expect(found.Prefixes).To(HaveLen(201))
			found = fitting(found)
			text, err := json.Marshal(found)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(len(text)).To(BeNumerically("<=", maxPreview))
			g.Expect(len(found.Prefixes)).To(And(BeNumerically(">", 2), BeNumerically("<=", maxPrefixes)))
			g.Expect(found.Prefixes[0].Largest).To(BeNumerically(">", 1<<10+199), "most is stored there")
			var total backup.Sizes
			for _, p := range found.Prefixes {
				total.Add(p.Sizes)
			}
			g.Expect(total).To(Equal(found.Sizes))
			g.Expect(found.Prefixes[len(found.Prefixes)-1].Prefix).To(Equal(hotprefix.Other))
		})
	}
}

// A prefix is shown once enough different keys share it, also if all of them are deleted: a database may be full of what is deleted. One key
// that changes often is not enough.
func TestAtRestShowsWhatIsDeleted(t *testing.T) {
	g := NewWithT(t)
	keys := newKeySpace()
	for i := range hotprefix.EnoughKeys {
		gone, one := fmt.Appendf(nil, "/registry/events/e%d", i), []byte("/registry/secrets/mine")
		keys.put(gone, []byte("1"))
		keys.remove(gone)
		keys.put(one, []byte("1"))
		keys.remove(one)
		if i > 0 {
			keys.put(fmt.Appendf(nil, "/registry/pods/p%d", i), nil)
		}
	}
	_, prefixes := keys.sizes()
	g.Expect(prefixes).To(HaveLen(2))
	g.Expect(prefixes[0]).To(And(HaveField("Prefix", "/registry/events/"+hotprefix.Other), HaveField("Deletions", int64(hotprefix.EnoughKeys)), HaveField("Keys", BeZero())))
	g.Expect(prefixes[1]).To(And(HaveField("Prefix", hotprefix.Other), HaveField("Deletions", int64(hotprefix.EnoughKeys)), HaveField("Keys", int64(hotprefix.EnoughKeys-1))))
}

// What does not fit is found in one pass: a database may have 100,000 prefixes.
func TestAtRestFitsInOnePass(t *testing.T) {
	g := NewWithT(t)
	found := backup.AtRest{Prefixes: make([]backup.PrefixSizes, 2000)}
	for i := range found.Prefixes {
		found.Prefixes[i] = backup.PrefixSizes{Prefix: fmt.Sprintf("/a/%d/…", i), Sizes: backup.Sizes{Stored: 1}}
	}
	g.Expect(testing.AllocsPerRun(1, func() { fitting(found) })).To(BeNumerically("<", len(found.Prefixes)))
	g.Expect(found.Prefixes[maxPrefixes-1].Prefix).NotTo(Equal(hotprefix.Other), "the list is left as it is")
	kept := fitting(found).Prefixes
	g.Expect(kept).To(HaveLen(maxPrefixes))
	g.Expect(kept[maxPrefixes-1]).To(Equal(backup.PrefixSizes{Prefix: hotprefix.Other, Sizes: backup.Sizes{Stored: 2000 - maxPrefixes + 1}}))
}
