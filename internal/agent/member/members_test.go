// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestMembers(t *testing.T) {
	g := NewWithT(t)
	for _, m := range []Members{
		{Etcd: "uid", ClusterID: "cafe", Generation: 1},
		{Etcd: "uid", ClusterID: "cafe", Generation: 7, Leaving: []string{"main-2", "main-1"}},
	} {
		text, err := m.Encode()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ParseMembers(text)).To(Equal(&m))
	}
	for _, empty := range []string{"", " \n"} {
		g.Expect(ParseMembers(empty)).To(BeNil())
	}
	got, err := ParseMembers("etcd: uid\nclusterID: cafe\ngeneration: 1\nofALaterOperator: true\n")
	g.Expect(got, err).To(Equal(&Members{Etcd: "uid", ClusterID: "cafe", Generation: 1}))
	for _, wrong := range []string{"leaving: [", "clusterID: cafe\ngeneration: 3", "etcd: uid\ngeneration: 3", "etcd: uid\nclusterID: cafe", "etcd: uid\nclusterID: cafe\ngeneration: -1"} {
		_, err := ParseMembers(wrong)
		g.Expect(err).To(MatchError(ContainSubstring("reading members.yaml of the shared configuration")), wrong)
	}
	m := &Members{Leaving: []string{"main-2"}}
	g.Expect(m.Leaves("main-2")).To(BeTrue())
	g.Expect(m.Leaves("main-1")).To(BeFalse())
	g.Expect((*Members)(nil).Leaves("main-2")).To(BeFalse())
}

// What the operator wrote for an earlier Etcd of the same name, or for the cluster before a recovery, is no word for these members. That cluster
// stays the recorded one until an operator records the new one.
func TestMembersOfAnother(t *testing.T) {
	const of = "clusterID: cafe\ngeneration: 7\nleaving: [main-2]\n"
	for name, c := range map[string]struct {
		etcd, recorded, previous, earlier string
		counts                            bool
	}{
		"its own":                                  {"4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f", "cafe", "", "", true},
		"an earlier Etcd's":                        {"earlier", "cafe", "", "", false},
		"another cluster's":                        {"4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f", "beef", "", "", false},
		"its own, which was recovered":             {"4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f", "cafe", "ace", "", true},
		"of the cluster that a recovery replaces":  {"4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f", "cafe", "cafe", "", false},
		"of one that an earlier recovery replaced": {"4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f", "cafe", "ace", "earlierClusterIDs: [cafe]\n", false},
	} {
		data := complete()
		data[KeyMembers], data[KeyClusterID], data[KeyRecovery] = "etcd: "+c.etcd+"\n"+of, c.recorded, ""
		if c.previous != "" {
			data[KeyRecovery] = strings.ReplaceAll(recovery, "cafe", c.previous) + c.earlier
		}
		s, err := ParseShared(data)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		NewWithT(t).Expect(s.Members != nil).To(Equal(c.counts), name)
	}
}

// A member that initial-cluster lists alone is not the only one while it joins a cluster, whose members it asks.
func TestSourcesAreAsked(t *testing.T) {
	g := NewWithT(t)
	s := Shared{
		Config:    map[string]any{"listen-client-urls": "http://0.0.0.0:2379"},
		Bootstrap: map[string]any{"initial-cluster": "main-0=http://main-0:2380"},
	}
	id, err := s.Identify("main-0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(id.PeerClientURLs).To(BeEmpty())
	g.Expect(s.Alone()).To(BeTrue())
	s.FirstStart = &FirstStart{}
	g.Expect(s.MayBegin()).To(BeTrue())
	s.Source = &Source{ClientEndpoints: []string{"http://source-0:2379"}}
	g.Expect(s.Alone()).To(BeFalse())
	g.Expect(s.MayBegin()).To(BeFalse(), "beside a cluster that it joins, a member never begins one")
	id, err = s.Identify("main-0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(id.PeerClientURLs).To(Equal([]string{"http://source-0:2379"}))
	s.Source, s.Bootstrap["initial-cluster"] = nil, "main-0=http://main-0:2380,main-1=http://main-1:2380"
	g.Expect(s.Alone()).To(BeFalse())
}
