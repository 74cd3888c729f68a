// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestMembers(t *testing.T) {
	g := NewWithT(t)
	for _, m := range []Members{
		{Etcd: "uid", Generation: 1},
		{Etcd: "uid", Generation: 7, Leaving: []string{"main-2", "main-1"}, Others: []string{"https://source-0:2379"}},
	} {
		text, err := m.Encode()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ParseMembers(text)).To(Equal(&m))
	}
	for _, empty := range []string{"", " \n"} {
		g.Expect(ParseMembers(empty)).To(BeNil())
	}
	got, err := ParseMembers("etcd: uid\ngeneration: 1\nofALaterOperator: true\n")
	g.Expect(got, err).To(Equal(&Members{Etcd: "uid", Generation: 1}))
	for _, wrong := range []string{"leaving: [", "generation: 3", "etcd: uid", "etcd: uid\ngeneration: -1"} {
		_, err := ParseMembers(wrong)
		g.Expect(err).To(MatchError(ContainSubstring("reading members.yaml of the shared configuration")), wrong)
	}
	m := &Members{Leaving: []string{"main-2"}}
	g.Expect(m.Leaves("main-2")).To(BeTrue())
	g.Expect(m.Leaves("main-1")).To(BeFalse())
	g.Expect((*Members)(nil).Leaves("main-2")).To(BeFalse())
}

// What the operator wrote for an earlier Etcd of the same name is no word for the members of this one.
func TestMembersOfAnEarlierEtcd(t *testing.T) {
	g := NewWithT(t)
	data := complete()
	s, err := ParseShared(data)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Members).NotTo(BeNil())
	data[KeyMembers] = "etcd: earlier\ngeneration: 7\nleaving: [main-2]\n"
	s, err = ParseShared(data)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Members).To(BeNil())
}

// A member that initial-cluster lists alone is not the only one while there are others.
func TestOthersAreAsked(t *testing.T) {
	g := NewWithT(t)
	s := Shared{
		Config:    map[string]any{"listen-client-urls": "http://0.0.0.0:2379"},
		Bootstrap: map[string]any{"initial-cluster": "main-0=http://main-0:2380"},
	}
	id, err := s.Identify("main-0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(id.PeerClientURLs).To(BeEmpty())
	s.Members = &Members{Others: []string{"http://source-0:2379"}}
	id, err = s.Identify("main-0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(id.PeerClientURLs).To(Equal([]string{"http://source-0:2379"}))
}
