// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package tls

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	ownURL  = "http://etcd-main-1.etcd-main-peer.ns.svc:2380"
	outside = "http://10.0.0.1:2380"
	other   = "http://10.0.0.2:2380"
)

// advertising is an Etcd that gives member 1 further peer URLs, all of which are recorded.
func advertising(override bool, urls ...string) *v1alpha1.Etcd {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "etcd-main", Namespace: "ns"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	if len(urls) > 0 {
		etcd.Spec.Etcd.AdditionalAdvertisedURLs = &v1alpha1.AdditionalAdvertisedURLs{PeerURLs: &v1alpha1.AdvertisedURLs{
			OverrideDefaultURL: ptr.To(override), Members: []v1alpha1.MemberURLs{{Name: "etcd-main-1", URLs: urls}},
		}}
		etcd.Status.AdvertisedPeerURLs = Record(etcd, nil)
	}
	return etcd
}

func recording(etcd *v1alpha1.Etcd, urls ...string) *v1alpha1.Etcd {
	etcd.Status.AdvertisedPeerURLs = []v1alpha1.ListedURLs{{Name: "etcd-main-1", URLs: urls}}
	return etcd
}

// listing is a healthy cluster that lists member 1 so, and the others with what they listen on.
func listing(urls ...string) *cluster.Snapshot {
	s := clustertest.Healthy(3)
	for i := range s.Cluster.Voters {
		v := &s.Cluster.Voters[i]
		v.PeerURLs = []string{component.PeerURL(advertising(false), int32(v.Ordinal), false)}
		if v.Ordinal == 1 {
			v.PeerURLs = urls
		}
	}
	return s
}

// Only what the spec names and the status records is added, and only what the status records is removed.
func TestAdvertisedChanges(t *testing.T) {
	old := advertising(false)
	old.Spec.Etcd.AdditionalAdvertisePeerURLs = []v1alpha1.MemberPeerURLs{{MemberName: "etcd-main-1", URLs: []string{outside}}}
	recording(old, outside)
	prefixed := advertising(false)
	prefixed.Spec.MemberNamePrefix = ptr.To("seed")
	prefixed.Spec.Etcd.AdditionalAdvertisePeerURLs = []v1alpha1.MemberPeerURLs{{MemberName: "seed-etcd-main-1", URLs: []string{outside}}}
	prefixed.Status.AdvertisedPeerURLs = Record(prefixed, nil)
	named := listing(ownURL)
	for i := range named.Cluster.Voters {
		named.Cluster.Voters[i].Name = "seed-" + named.Cluster.Voters[i].Name
	}
	for name, c := range map[string]struct {
		etcd *v1alpha1.Etcd
		at   component.PeerTLS
		s    *cluster.Snapshot
		want []string
	}{
		"added, after its own":            {advertising(false, outside, other), off, listing(ownURL), []string{ownURL, outside, other}},
		"added by the older field":        {old, off, listing(ownURL), []string{ownURL, outside}},
		"added to a name with a prefix":   {prefixed, off, named, []string{ownURL, outside}},
		"listed already, in any order":    {advertising(false, outside, other), off, listing(other, ownURL, outside), nil},
		"not recorded yet":                {recording(advertising(false, outside)), off, listing(ownURL), nil},
		"recorded in part":                {recording(advertising(false, outside, other), other), off, listing(ownURL), []string{ownURL, other}},
		"no longer in the spec":           {recording(advertising(false), outside), off, listing(ownURL, outside), []string{ownURL}},
		"another one":                     {recording(advertising(false, other), outside, other), off, listing(ownURL, outside), []string{ownURL, other}},
		"a person has added one":          {advertising(false, outside), off, listing(ownURL, "http://mine:1"), []string{ownURL, "http://mine:1", outside}},
		"what a person added stays":       {advertising(false), off, listing(ownURL, "http://mine:1"), nil},
		"in place of its own":             {advertising(true, outside), off, listing(ownURL), []string{outside}},
		"in place of its own, done":       {advertising(true, outside), off, listing(outside), nil},
		"in place of it, not recorded":    {recording(advertising(true, outside)), off, listing(ownURL), nil},
		"its own comes back":              {advertising(false, outside), off, listing(outside), []string{ownURL, outside}},
		"its own comes back alone":        {recording(advertising(false), outside), off, listing(outside), []string{ownURL}},
		"a voter is down":                 {advertising(false, outside), off, with(listing(ownURL), func(s *cluster.Snapshot) { clustertest.Away(s, 2, v1alpha1.ClassDead, "") }), nil},
		"without a port":                  {advertising(false, "http://10.0.0.1/"), off, listing(ownURL), []string{ownURL, "http://10.0.0.1:80"}},
		"a rollout to TLS is in progress": {advertising(true, outside), on, listing(ownURL), nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			changes := advertisedChanges(c.etcd, c.at, c.s)
			g.Expect(changes[c.s.Cluster.Voters[1].ID]).To(Equal(c.want))
			g.Expect(len(changes)).To(BeNumerically("<=", 1), "the other members stay as they are")
		})
	}
}

// A foreign voter is left alone, whatever its name is.
func TestForeignVotersAreNotChanged(t *testing.T) {
	s := listing(ownURL)
	s.Cluster.Voters = append(s.Cluster.Voters[:1], s.Cluster.Voters[2], cluster.Voter{ID: 9, Name: "etcd-main-1", Ordinal: -1, Serving: true, PeerURLs: []string{ownURL}})
	NewWithT(t).Expect(advertisedChanges(advertising(false, outside), off, s)).To(BeEmpty())
}

// The record has what the spec names, and what it no longer names until a quorum confirms that the list does not have it.
func TestRecord(t *testing.T) {
	g := NewWithT(t)
	of := func(urls ...string) []v1alpha1.ListedURLs {
		return recording(advertising(false), urls...).Status.AdvertisedPeerURLs
	}
	g.Expect(Record(advertising(false), nil)).To(BeNil())
	g.Expect(Record(advertising(false, outside, outside), listing(ownURL))).To(Equal(of(outside)))
	g.Expect(Record(recording(advertising(false, other), outside), listing(ownURL, outside))).To(Equal(of(other, outside)))
	g.Expect(Record(recording(advertising(false, other), outside), listing(ownURL, other))).To(Equal(of(other)))
	g.Expect(Record(recording(advertising(false), outside), listing(ownURL))).To(BeNil())
	g.Expect(Record(recording(advertising(false), outside), listing(ownURL, "https://10.0.0.1:2380"))).To(Equal(of(outside)), "TLS has changed the scheme")
	g.Expect(Record(recording(advertising(false), outside), with(listing(ownURL), clustertest.Unreachable))).To(Equal(of(outside)), "nothing is known of the list")
	g.Expect(Record(recording(advertising(false), outside), nil)).To(Equal(of(outside)), "hibernated")
}

// The leader changes the list. While TLS is on its way, nothing is added.
func TestListAdvertised(t *testing.T) {
	g := NewWithT(t)
	etcd, s, fake := advertising(false, outside), listing(ownURL), &peers{}
	s.Ordinals[0].Pod.Endpoint = "http://leader"
	m := &Mover{Dialer: fake}
	g.Expect(m.ListAdvertised(t.Context(), &state.State{Etcd: etcd}, Plan{})).To(Succeed())
	secure := etcd.DeepCopy()
	secure.Spec.Etcd.PeerURLTLS = &v1alpha1.PeerURLTLS{}
	g.Expect(m.ListAdvertised(t.Context(), &state.State{Etcd: secure, Snapshot: s}, Plan{Stage: prepared})).To(Succeed())
	g.Expect(fake.calls).To(BeEmpty())
	g.Expect(m.ListAdvertised(t.Context(), &state.State{Etcd: etcd, Snapshot: s}, Plan{})).To(Succeed())
	g.Expect(fake.calls).To(Equal([]string{"2 " + ownURL + " " + outside}))
}
