// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"fmt"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	. "github.com/onsi/gomega"
)

const (
	off, prepared, on = component.PeerTLSOff, component.PeerTLSPrepared, component.PeerTLSOn
)

// peersAt returns a healthy cluster with every member at a stage and listed with the URLs of these schemes.
func peersAt(replicas int, stage component.PeerTLS, schemes ...string) *cluster.Snapshot {
	s := clustertest.Healthy(replicas)
	for i := range s.Ordinals {
		s.Ordinals[i].Pod.PeerTLS = string(stage)
		for _, scheme := range schemes {
			s.Cluster.Voters[i].PeerURLs = append(s.Cluster.Voters[i].PeerURLs, fmt.Sprintf("%s://m-%d:2380", scheme, i))
		}
	}
	return s
}

func TestNextStation(t *testing.T) {
	for _, tc := range []struct {
		name string
		at   component.PeerTLS
		s    *cluster.Snapshot
		want component.PeerTLS
		// urls that member 1 is to be listed with; nil: unchanged.
		urls []string
	}{
		{"no members", off, nil, off, nil},
		{"start", off, peersAt(3, off, "http"), prepared, nil},
		{"a single member has no peers", off, peersAt(1, off, "http"), on, nil},
		{"hibernated", prepared, clustertest.Healthy(0), prepared, nil},
		{"every member can dial TLS", prepared, peersAt(3, prepared, "http"), prepared, []string{"http://m-0:2380", "https://m-0:2380"}},
		{"every member is listed with both URLs", prepared, peersAt(3, prepared, "https", "http"), on, nil},
		{"a member cannot dial TLS yet", prepared, with(peersAt(3, prepared, "http", "https"), func(s *cluster.Snapshot) { s.Ordinals[2].Pod.PeerTLS = "" }), prepared, nil},
		{"a member is dead", prepared, with(peersAt(3, prepared, "http", "https"), func(s *cluster.Snapshot) { clustertest.Away(s, 2, v1alpha1.ClassDead, "") }), prepared, nil},
		{"a member is missing", prepared, with(peersAt(3, prepared, "http", "https"), func(s *cluster.Snapshot) { clustertest.Away(s, 2, v1alpha1.ClassMissing, "") }), prepared, nil},
		{"a foreign voter", prepared, with(peersAt(3, prepared, "http", "https"), func(s *cluster.Snapshot) {
			s.Cluster.Voters = append(s.Cluster.Voters, cluster.Voter{ID: 9, Ordinal: -1, Serving: true})
		}), prepared, nil},
		{"no member answers", prepared, with(peersAt(3, prepared, "http", "https"), clustertest.Unreachable), prepared, nil},
		{"the second rollout is in progress", on, with(peersAt(3, on, "http", "https"), func(s *cluster.Snapshot) { s.Ordinals[0].Pod.PeerTLS = string(prepared) }), on, nil},
		{"every member listens with TLS", on, peersAt(3, on, "http", "https"), on, []string{"https://m-0:2380"}},
		{"a single member listens with TLS", on, peersAt(1, on, "http"), on, []string{"https://m-0:2380"}},
		{"done", on, peersAt(3, on, "https"), on, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(nextStage(tc.at, tc.s)).To(Equal(tc.want))
			if tc.s == nil {
				return
			}
			changes := peerURLChanges(tc.at, tc.s)
			g.Expect(changes[1]).To(Equal(tc.urls))
			if tc.urls == nil {
				g.Expect(changes).To(BeEmpty())
			} else {
				g.Expect(changes).To(HaveLen(len(tc.s.Cluster.Voters)))
			}
		})
	}
}

func with(s *cluster.Snapshot, change func(*cluster.Snapshot)) *cluster.Snapshot {
	change(s)
	return s
}

// At every step, each running member can be reached by every other: by a URL that it listens on and that the others can
// dial.
func TestMembersCanAlwaysReachEachOther(t *testing.T) {
	g := NewWithT(t)
	at, schemes, pods := off, []string{"http"}, []component.PeerTLS{off, off, off}
	for step := 0; ; step++ {
		g.Expect(step).To(BeNumerically("<", 20), "the switch ends")
		s := peersAt(3, off, schemes...)
		for i, p := range pods {
			s.Ordinals[i].Pod.PeerTLS = string(p)
		}
		for i, p := range pods {
			if p == off {
				g.Expect(schemes).To(ContainElement("http"), "pod %d", i)
			}
			if p == on {
				g.Expect(schemes).To(ContainElement("https"))
				g.Expect(pods).NotTo(ContainElement(off), "every member can dial TLS")
			} else {
				g.Expect(schemes).To(ContainElement("http"))
			}
		}
		if changes := peerURLChanges(at, s); len(changes) > 0 {
			schemes = map[int][]string{1: {"https"}, 2: {"http", "https"}}[len(changes[1])]
			continue
		}
		next := nextStage(at, s)
		outdated := -1
		for i, p := range pods {
			if p != next {
				outdated = i
			}
		}
		if at = next; outdated < 0 {
			break
		}
		pods[outdated] = at
	}
	g.Expect(pods).To(Equal([]component.PeerTLS{on, on, on}))
	g.Expect(schemes).To(Equal([]string{"https"}))
}
