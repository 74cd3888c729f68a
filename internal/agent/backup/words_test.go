// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A cut excludes what is beyond it, by revision or by time, and nothing without either.
func TestCutExcludes(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	at := func(revision int64, seen time.Time) Event {
		return Event{Time: seen, EtcdEvent: EtcdEvent{Kv: KeyValue{ModRevision: revision}}}
	}
	for _, c := range []struct {
		cut  Cut
		e    Event
		want bool
	}{
		{Cut{}, at(9, noon), false},
		{Cut{Revision: 9}, at(9, noon), false},
		{Cut{Revision: 9}, at(10, noon), true},
		{Cut{Time: noon}, at(10, noon), false},
		{Cut{Time: noon}, at(10, noon.Add(1)), true},
	} {
		g.Expect(c.cut.Excludes(c.e)).To(Equal(c.want), "%v, %v", c.cut, c.e)
	}
}

// What is said of snapshots that may not be used, and of a target.
func TestWords(t *testing.T) {
	g := NewWithT(t)
	g.Expect(TrustSigned.Lacks()).To(Equal("it has no valid signature"))
	g.Expect(TrustEncrypted.Lacks()).To(Equal("it is not encrypted"))
	g.Expect((&UntrustedError{Trust: TrustEncrypted}).Error()).To(ContainSubstring("use the encrypted snapshots without it"))
	g.Expect((&UntrustedError{Trust: TrustSigned}).Error()).To(ContainSubstring("use the signed snapshots without it"))
	g.Expect((&LockedError{Name: "n", Reason: "why"}).Error()).To(And(ContainSubstring("snapshot n is encrypted"), ContainSubstring("why")))
	g.Expect(Target{Latest: true}.String()).To(Equal("the latest state"))
	_, err := ParseRecipient("nobody")
	g.Expect(err).To(MatchError(ContainSubstring(`"nobody" is not the public key`)))
	g.Expect(TrustEncrypted.has(Snapshot{Encrypted: true})).To(BeTrue())
	g.Expect(TrustEncrypted.has(Snapshot{})).To(BeFalse())
}
