// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
)

// What was read of the members is reported once, whatever the state of the member, and again when it changes.
func TestWhatWasReadOfTheMembersIsReported(t *testing.T) {
	const key = "druid.gardener.cloud/members-read="
	g := NewWithT(t)
	s, m, l, _ := newServer()
	shared := member.Shared{Bootstrap: map[string]any{"initial-cluster-token": "uid"}}
	s.Name, s.Shared = "m-2", func() (member.Shared, error) { return shared, nil }
	s.once(t.Context())
	g.Expect(l.annotations).To(BeEmpty(), "nothing was announced")

	m.err = errors.New("connection refused")
	shared.Members = &member.Members{Etcd: "uid", Generation: 7, Leaving: []string{"m-2"}}
	l.err = errors.New("no API server")
	s.once(t.Context())
	l.err = nil
	s.once(t.Context())
	s.once(t.Context())
	g.Expect(l.annotations).To(Equal([]string{key + `{"etcd":"uid","generation":7,"leaving":true}`}))
	m.err = nil
	shared.Members = &member.Members{Etcd: "uid", Generation: 8, Leaving: []string{"m-1"}}
	s.once(t.Context())
	g.Expect(l.annotations[1:]).To(Equal([]string{key + `{"etcd":"uid","generation":8}`}))
	shared.Members = nil
	s.once(t.Context())
	g.Expect(l.annotations).To(HaveLen(2), "the change is over")
}

// A member whose etcd does not run any more because it was removed says so, and the others commit no entry for it.
func TestARemovedMemberSaysSo(t *testing.T) {
	g := NewWithT(t)
	s, m, l, clock := newServer()
	s.Name, s.Shared = "m-2", func() (member.Shared, error) {
		return member.Shared{Bootstrap: map[string]any{"initial-cluster-token": "uid"}}, nil
	}
	pass := func() {
		clock.Step(stirPeriod)
		s.once(t.Context())
	}
	m.err, m.unlisted = errors.New("connection refused"), true
	for _, writer := range []func() (uint64, uint64, error){
		nil,
		func() (uint64, uint64, error) { return 0, 0, nil },
		func() (uint64, uint64, error) { return 0xcafe, 0x1a, errors.New("illegible") },
	} {
		s.Writer = writer
		pass()
		pass()
	}
	g.Expect(l.annotations).To(BeEmpty(), "its ID is not known")
	s.Writer, m.unlisted = func() (uint64, uint64, error) { return 0xcafe, 0x1a, nil }, true
	m.listing = errors.New("no quorum")
	pass()
	stirs := m.stirs
	g.Expect(l.annotations).To(BeEmpty(), "nothing was said")
	m.listing, m.unlisted = nil, false
	pass()
	g.Expect(m.stirs).To(Equal(stirs+1), "it is listed")
	m.unlisted = true
	pass()
	clock.Step(time.Second)
	s.once(t.Context())
	g.Expect(l.annotations).To(Equal([]string{`druid.gardener.cloud/members-read={"etcd":"uid","generation":0,"removed":"1a"}`}))
	pass()
	g.Expect(m.stirs).To(Equal(stirs + 1))
	g.Expect(l.annotations).To(HaveLen(1))
}

// While the source of a migration leads, it takes the snapshots: a member that leads for a moment takes none. After the cut-over it does.
func TestTheSourceTakesTheSnapshots(t *testing.T) {
	g := NewWithT(t)
	s, m, _, _ := newServer()
	s.Lead = func(ctx context.Context) { <-ctx.Done() }
	m.status.Leader = m.status.MemberID
	shared := member.Shared{Bootstrap: map[string]any{"initial-cluster-token": "uid"}, Source: &member.Source{Leads: true}}
	s.Name, s.Shared = "m-2", func() (member.Shared, error) { return shared, nil }
	s.once(t.Context())
	g.Expect(s.resign).To(BeNil())
	shared.Source = &member.Source{}
	s.once(t.Context())
	g.Expect(s.resign).NotTo(BeNil())
	shared.Source = &member.Source{Leads: true}
	s.once(t.Context())
	g.Expect(s.resign).To(BeNil())
}
