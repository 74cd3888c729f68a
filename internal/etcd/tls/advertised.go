// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
)

// Record returns the further peer URLs, by member, that the operator lists members with or has listed them with: what the spec names, and
// what the status records and the list still has. The Snapshot is nil if there are no members.
func Record(etcd *v1alpha1.Etcd, s *cluster.Snapshot) []v1alpha1.ListedURLs {
	var record []v1alpha1.ListedURLs
	add := func(member string, urls []string) {
		if len(urls) == 0 {
			return
		}
		i := slices.IndexFunc(record, func(r v1alpha1.ListedURLs) bool { return r.Name == member })
		if i < 0 {
			record = append(record, v1alpha1.ListedURLs{Name: member})
			i = len(record) - 1
		}
		for _, url := range urls {
			if !slices.Contains(record[i].URLs, url) {
				record[i].URLs = append(record[i].URLs, url)
			}
		}
	}
	spec := etcd.AdvertisedPeerURLs()
	for _, m := range spec.Members {
		add(m.Name, spec.Of(m.Name))
	}
	for _, r := range etcd.Status.AdvertisedPeerURLs {
		add(r.Name, slices.DeleteFunc(slices.Clone(r.URLs), func(url string) bool { return gone(s, r.Name, url) }))
	}
	slices.SortFunc(record, func(a, b v1alpha1.ListedURLs) int { return strings.Compare(a.Name, b.Name) })
	return record
}

// gone reports whether the list, which a quorum confirms, no longer has a URL of a member.
func gone(s *cluster.Snapshot, member, url string) bool {
	return s != nil && s.Quorate() && !slices.ContainsFunc(s.Cluster.Voters, func(v cluster.Voter) bool {
		return v.Name == member && hasAddress(v.PeerURLs, url)
	})
}

// advertisedChanges returns, by member ID, the peer URLs that voters are to be listed with for the further ones of the spec. It changes
// nothing while a voter does not serve: one that has not started would no longer find itself in its own configuration. Learners are
// never changed: etcd before 3.5.31 and 3.6.12 could not promote them afterwards.
func advertisedChanges(etcd *v1alpha1.Etcd, at component.PeerTLS, s *cluster.Snapshot) map[uint64][]string {
	settled := at == component.PeerTLSOff || everyMemberAt(s, at) && len(peerURLChanges(at, s)) == 0
	if !settled || s.ServingVoters() < len(s.Cluster.Voters) {
		return nil
	}
	changes := map[uint64][]string{}
	for _, v := range s.Cluster.Voters {
		if v.Ordinal < 0 {
			continue
		}
		if want := advertised(etcd, at, v); !slices.Equal(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(v.PeerURLs))) {
			changes[v.ID] = want
		}
	}
	return changes
}

// advertised returns the peer URLs that a voter is to be listed with. Its own come first, since peers try them in this order; they stay
// unless the spec overrides them. URLs that a person has added stay.
func advertised(etcd *v1alpha1.Etcd, at component.PeerTLS, v cluster.Voter) []string {
	spec := etcd.AdvertisedPeerURLs()
	var recorded []string
	for _, r := range etcd.Status.AdvertisedPeerURLs {
		if r.Name == v.Name {
			recorded = r.URLs
		}
	}
	more := slices.DeleteFunc(spec.Of(v.Name), func(url string) bool { return !slices.Contains(recorded, url) })
	own := component.PeerURL(etcd, int32(v.Ordinal), at == component.PeerTLSOn)
	override := len(more) > 0 && spec.Overrides(v.Name)
	want := slices.DeleteFunc(slices.Clone(v.PeerURLs), func(url string) bool {
		return hasAddress(recorded, url) || override && address(url) == address(own)
	})
	if len(want) == 0 && !override {
		want = []string{own}
	}
	return append(want, more...)
}

// hasAddress reports whether a URL, with any scheme, is among others.
func hasAddress(urls []string, url string) bool {
	return slices.ContainsFunc(urls, func(other string) bool { return address(other) == address(url) })
}

// address is a URL without its scheme.
func address(url string) string {
	_, address, _ := strings.Cut(url, "://")
	return address
}
