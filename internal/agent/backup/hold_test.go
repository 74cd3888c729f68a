// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A hold keeps its full snapshot and what may lead on to its revision, and nothing else.
func TestAHoldKeepsAChain(t *testing.T) {
	g := NewWithT(t)
	all := list("F10", "11-20", "F20", "21-30", "31-40", "F40", "41-50")
	hold := Hold{Since: noon, Revision: 35, Base: all[2]}
	kept := func(h Hold) (names []Snapshot) {
		for _, s := range all {
			if h.Keeps(s) {
				names = append(names, s)
			}
		}
		return names
	}
	g.Expect(notation(kept(hold)...)).To(Equal([]string{"F20", "21-30", "31-40"}))
	hold.Revision = 0
	g.Expect(notation(kept(hold)...)).To(Equal([]string{"F20"}), "the full snapshot alone")
	earlier := all[3]
	earlier.Created = all[2].Created.Add(-time.Second)
	g.Expect(Hold{Revision: 35, Base: all[2]}.Keeps(earlier)).To(BeFalse(), "a delta of another history")
}

// Retention removes nothing of what is held, and the rest as before.
func TestRetentionHonorsHolds(t *testing.T) {
	g := NewWithT(t)
	all := list("F10", "11-20", "F20", "21-30", "F30", "31-40", "F40", "41-50")
	r := Retention{Limit: 1}
	g.Expect(notation(r.Expired(all, noon.Add(time.Hour))...)).To(ContainElements("F20", "21-30"))
	hold := Hold{Revision: 25, Base: all[2]}
	for i, s := range all {
		all[i].Kept = hold.Keeps(s)
	}
	g.Expect(notation(r.Expired(all, noon.Add(time.Hour))...)).To(Equal([]string{"31-40", "F30", "11-20", "F10"}))
}

func TestHoldsAreRead(t *testing.T) {
	g := NewWithT(t)
	hold := Hold{Since: noon, Revision: 35, Base: Snapshot{Kind: Full, LastRevision: 20, Created: noon, Encrypted: true, Compression: Gzip, Final: true}}
	got, err := ParseHold(hold.String())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.String()).To(Equal(hold.String()))
	g.Expect(got.Since).To(BeTemporally("==", noon))
	g.Expect(got.Base.Name()).To(Equal(hold.Base.Name()))
	for _, text := range []string{"", "1.2", "x.2." + hold.Base.Name(), "1.x." + hold.Base.Name(), "1.2.Full", "1.2"} {
		_, err := ParseHold(text)
		g.Expect(err).To(HaveOccurred(), text)
	}
}
