// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/membership"
	. "github.com/onsi/gomega"
)

// beside has two members of a source cluster in the list, the first of which leads, and declares them.
func beside(k *Known) {
	k.Etcd.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{
		Members: []v1alpha1.BootstrapExistingMember{{Name: "s0", PeerURLs: []string{"http://s0"}}, {Name: "s1", PeerURLs: []string{"http://s1"}}},
	}
	k.List = append(k.List, etcdclient.Member{ID: 8, Name: "s0"}, etcdclient.Member{ID: 9, PeerURLs: []string{"http://s1"}})
	k.Snapshot.Cluster.Leader = 8
	k.Snapshot.Cluster.Voters = []cluster.Voter{
		{ID: 8, Name: "s0", Ordinal: -1, Serving: true, Endpoint: "http://s0:1", Lag: 5}, {ID: 9, Name: "9", Ordinal: -1, PeerURLs: []string{"http://s1"}}, {ID: 7, Name: "x", Ordinal: -1, Serving: true, Endpoint: "http://x:1"},
	}
}

// Members of the source are known by what was declared, and serve by what they answer. Others belong to no one.
func TestSources(t *testing.T) {
	g := NewWithT(t)
	k := known(1, beside, func(k *Known) {
		k.Snapshot.Ordinals[0].Role = v1alpha1.RoleFollower
		k.List = append(k.List, etcdclient.Member{ID: 7, Name: "x"})
	})
	in := k.Input(Request{Goal: Goal(k.Etcd, 3, false)})
	g.Expect(in.Sources).To(Equal(2))
	g.Expect(in.BackedUp).To(BeTrue(), "only the source could take a snapshot")
	g.Expect(in.Goal).To(Equal(membership.Goal{Size: 3, KeepSources: true, KeepClaims: true}))
	g.Expect(in.Members[1]).To(Equal(membership.Member{ID: 8, Name: "s0", Owner: membership.Source, Serving: true, Leads: true, Lag: 5}))
	g.Expect(in.Members[2]).To(Equal(membership.Member{ID: 9, Name: "9", Owner: membership.Source}))
	g.Expect(in.Members[3]).To(Equal(membership.Member{ID: 7, Name: "x"}), "nothing that it says counts")

	timers := Timers{}
	for i := range 8 {
		k.Snapshot.At = noon.Add(time.Duration(i) * time.Second)
		timers = timers.Next(k)
	}
	g.Expect([]bool{timers.settled(8), timers.settled(9), timers.settled(7), timers.steady(8)}).To(Equal([]bool{true, false, false, true}))

	k.Etcd.Status.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingClusterStatus{Source: k.Etcd.Source()}
	k.Etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
	in = k.Input(Request{Goal: Goal(k.Etcd, 3, false)})
	g.Expect(in.Goal.KeepSources).To(BeFalse(), "they leave")
	k.Snapshot.Cluster.Leader = 1
	g.Expect(k.Input(Request{}).BackedUp).To(BeFalse(), "the member leads, and its agent can take one")
	g.Expect(in.Members[1].Owner).To(Equal(membership.Source))
	k.Etcd.Status.BootstrapWithExistingCluster.Source = nil
	g.Expect(k.Input(Request{}).Members[1].Owner).To(Equal(membership.Unknown))
}

// Beside a source, an Etcd of the same name may have joined it, from another namespace or Kubernetes cluster. Its members have the names of this
// one's and are not: what an agent takes for its own lost member by the name is left alone. One URL of ours is enough, whatever the others are.
func TestANameAloneIsNotOurs(t *testing.T) {
	const own, more, was, others = "http://main-0.main-peer.ns.svc:2380", "http://more.example:2380", "http://was.example:2380", "http://main-0.main-peer.ns2.svc:2380"
	lost := func(k *Known) {
		o := &k.Snapshot.Ordinals[0]
		o.Class, o.Answers, o.Serving, o.MemberID, o.Role = v1alpha1.ClassDead, false, false, 0, v1alpha1.RoleUnknown
		o.Pod.Refusal = &cluster.Refusal{Reason: v1alpha1.ReasonDataLost, Volume: cluster.Volume{Lost: "1"}}
		k.Etcd.Spec.Etcd.AdditionalAdvertisedURLs = &v1alpha1.AdditionalAdvertisedURLs{PeerURLs: &v1alpha1.AdvertisedURLs{Members: []v1alpha1.MemberURLs{{Name: "main-0", URLs: []string{more}}}}}
		k.Etcd.Status.AdvertisedPeerURLs = []v1alpha1.ListedURLs{{Name: "main-0", URLs: []string{was}}}
	}
	for name, c := range map[string]struct {
		urls []string
		ours bool
	}{
		"its own":                     {[]string{own}, true},
		"with TLS between peers":      {[]string{"https://main-0.main-peer.ns.svc:2380"}, true},
		"one that a person has added": {[]string{others, own}, true},
		"a further one":               {[]string{"https://more.example:2380"}, true},
		"a further one of before":     {[]string{was}, true},
		"another namespace":           {[]string{others}, false},
		"another ordinal":             {[]string{"http://main-1.main-peer.ns.svc:2380"}, false},
		"another network":             {[]string{"http://lb.example:2380", "http://more.example:2381"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			k := known(1, lost, func(k *Known) { k.List[0].PeerURLs = c.urls })
			g.Expect(k.Input(Request{}).Members[0].Owner).To(Equal(membership.Ours), "it has no source")
			beside(&k)
			m := k.Input(Request{}).Members[0]
			if c.ours {
				g.Expect(m).To(And(HaveField("Owner", membership.Ours), HaveField("Name", "main-0"), HaveField("Lost", true), HaveField("Elsewhere", "")))
				return
			}
			g.Expect(m).To(And(HaveField("Owner", membership.Unknown), HaveField("Name", "main-0"), HaveField("Elsewhere", strings.Join(c.urls, " "))))
			d := membership.Decide(k.Input(Request{Goal: Goal(k.Etcd, 3, false)}))
			g.Expect(d.Blocking[0].Guard).To(Equal(membership.GuardMembersKnown))
		})
	}
}

// The leader is asked first, wherever it is, then members of the Etcd, then those of the source. What was not declared is never asked.
func TestSpokesmen(t *testing.T) {
	g := NewWithT(t)
	k := known(1, beside)
	k.Snapshot.Ordinals[0].Pod.Endpoint = "http://main-0:1"
	own, source := spokesman{"main-0", "http://main-0:1"}, spokesman{Endpoint: "http://s0:1"}
	g.Expect(spokesmen(k.Etcd, k.Snapshot)).To(HaveExactElements(source, own))
	k.Snapshot.Ordinals[0].Role, k.Snapshot.Cluster.Leader = v1alpha1.RoleLeader, 1
	g.Expect(spokesmen(k.Etcd, k.Snapshot)).To(HaveExactElements(own, source))
	k.Snapshot.Ordinals[0].Role, k.Snapshot.Cluster.Leader = v1alpha1.RoleFollower, 9
	g.Expect(spokesmen(k.Etcd, k.Snapshot)).To(HaveExactElements(own, source))
	k.Snapshot.Ordinals[0].Role = v1alpha1.RoleLearner
	g.Expect(spokesmen(k.Etcd, k.Snapshot)).To(HaveExactElements(source))
	k.Snapshot.Cluster.Voters[0].Serving = false
	k.Snapshot.Cluster.Leader = 7
	g.Expect(spokesmen(k.Etcd, k.Snapshot)).To(BeEmpty())
}

// Members leave a source cluster although the Etcd has no replicas any more; a cluster of its own hibernates.
func TestActingBesideASource(t *testing.T) {
	g := NewWithT(t)
	k := known(3, func(k *Known) { k.Etcd.Spec.Replicas = 0 })
	g.Expect(Acting(k.Etcd, k.Snapshot, nil)).To(Equal("the cluster hibernates"))
	beside(&k)
	g.Expect(Acting(k.Etcd, k.Snapshot, nil)).To(BeEmpty())
	k.Snapshot.Ordinals = nil
	g.Expect(Acting(k.Etcd, k.Snapshot, nil)).To(BeEmpty(), "what is left is cleaned up")
}
