// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package leave

import (
	"fmt"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/members"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// joined is an Etcd whose members have joined a source of three, which leads: s0, s1 and s2 have the IDs 1 to 3, its own 10 and more.
func joined(own int) members.Known {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main", UID: "etcd"}, Status: v1alpha1.EtcdStatus{ClusterID: "7"}}
	source := &v1alpha1.BootstrapWithExistingCluster{}
	k := members.Known{Etcd: etcd, Snapshot: &cluster.Snapshot{}}
	k.Snapshot.Cluster = cluster.Cluster{ID: 7, Leader: 1, LeaderKnown: true, Reachable: true}
	vote := func(id uint64, name string) {
		k.List = append(k.List, etcdclient.Member{ID: id, Name: name, PeerURLs: []string{"http://" + name + ".main-peer.ns.svc:2380"}})
		k.Snapshot.Cluster.Voters = append(k.Snapshot.Cluster.Voters, cluster.Voter{ID: id, Name: name, Ordinal: -1, Serving: true, Endpoint: "http://" + name})
	}
	for i := range 3 {
		name := fmt.Sprintf("s%d", i)
		source.Members = append(source.Members, v1alpha1.BootstrapExistingMember{Name: name})
		vote(uint64(1+i), name)
	}
	for i := range own {
		vote(uint64(10+i), fmt.Sprintf("main-%d", i))
	}
	etcd.Spec.Etcd.BootstrapWithExistingCluster = source
	return k
}

func without(k *members.Known, n int) {
	k.List, k.Snapshot.Cluster.Voters = k.List[n:], k.Snapshot.Cluster.Voters[n:]
	k.Snapshot.Cluster.Leader = k.List[0].ID
}

// after observes the same for some seconds, and decides.
func after(k members.Known, seconds int) decision {
	t := timers{}
	for i := range seconds + 1 {
		k.Snapshot.At = noon.Add(time.Duration(i) * time.Second)
		t = t.next(k)
	}
	return decide(k, t)
}

func (d decision) String() string {
	switch {
	case d.left:
		return "left"
	case d.step != nil:
		return fmt.Sprintf("%s %x to %x", d.step.Action, d.step.Member, d.step.Successor)
	}
	return d.why
}

func TestDecide(t *testing.T) {
	const wayOut = ". To delete the Etcd without that: kubectl annotate etcd main -n ns druid.gardener.cloud/abandon-source-cluster=etcd. Then remove %s from the source cluster with etcdctl member remove, unless that cluster is gone"
	both := fmt.Sprintf(wayOut, "main-0 (a), main-1 (b)")
	for name, tc := range map[string]struct {
		own     int
		change  func(*members.Known)
		seconds int
		want    string
	}{
		"the highest ordinal first": {2, nil, 6, "RemoveMember b to 0"},
		"connections are young":     {2, nil, 5, "MembersSettled: 0 of 5 voters have been connected for long enough, and etcd wants 4" + both},
		"one leads":                 {2, func(k *members.Known) { k.Snapshot.Cluster.Leader = 10 }, 0, "MoveLeader a to 1"},
		"a learner": {2, func(k *members.Known) {
			k.List = append(k.List, etcdclient.Member{ID: 12, Name: "main-2", PeerURLs: []string{"http://main-2.main-peer.ns.svc:2380"}, Learner: true})
		}, 0, "RemoveMember c to 0"},
		"one that has never started": {0, func(k *members.Known) {
			k.List = append(k.List, etcdclient.Member{ID: 12, PeerURLs: []string{"http://main-0.main-peer.ns.svc:2380"}, Learner: true})
		}, 0, "RemoveMember c to 0"},
		"its pods are gone":            {2, down(3, 4), 30, "RemoveMember b to 0"},
		"its pods may come back":       {2, down(3, 4), 29, "UnreadyConfirmed: main-1 does not serve: it is removed if it stays down" + both},
		"a source is down":             {2, down(2), 60, "OthersServing: s2 does not serve: members change while every other one serves" + both},
		"the quorum is lost":           {3, down(3, 4, 5), 60, "QuorumKept: 3 of 6 voters serve, which is not a quorum" + fmt.Sprintf(wayOut, "main-0 (a), main-1 (b), main-2 (c)")},
		"the source is unreachable":    {2, func(k *members.Known) { k.List = nil }, 60, "ListKnown: no member answers the operator with a member list: members change only while a quorum answers. If the quorum is lost, restore it first" + fmt.Sprintf(wayOut, "its members")},
		"a member was not declared":    {2, replaced(0), 6, "RemoveMember b to 0"},
		"none was declared":            {2, replaced(0, 1, 2), 6, "RemoveMember b to 0"},
		"one that was not is down":     {2, func(k *members.Known) { replaced(0)(k); down(0)(k) }, 60, "OthersServing: x0 does not serve: members change while every other one serves" + both},
		"one that was not has no name": {2, func(k *members.Known) { replaced(0)(k); k.List[0].Name, k.Snapshot.Cluster.Voters[0].Name = "", "" }, 6, "RemoveMember b to 0"},
		"some of the source have left": {3, func(k *members.Known) { without(k, 2) }, 6, "RemoveMember c to 0"},
		"all of the source have left":  {3, func(k *members.Known) { without(k, 3) }, 0, "left"},
		"a request may be on its way":  {0, nil, 14, "its members have left; it is deleted once no request that adds one can take effect any more"},
		"they have left":               {0, nil, 15, "left"},
		"a stranger stays":             {0, func(k *members.Known) { k.List[0].Name = "x" }, 15, "left"},
	} {
		t.Run(name, func(t *testing.T) {
			k := joined(tc.own)
			if tc.change != nil {
				tc.change(&k)
			}
			NewWithT(t).Expect(after(k, tc.seconds).String()).To(Equal(tc.want))
		})
	}
}

// A second Etcd of that name may have joined the source since the members of this one have left. Its members have the names of this one's, and
// are not removed: they are this one's only by their peer URLs. While that is not clear, nothing is removed, and the Etcd is kept.
func TestANameAloneIsNotRemoved(t *testing.T) {
	const peer = "http://main-0.main-peer.ns.svc:2380"
	url := func(urls ...string) func(*members.Known) {
		return func(k *members.Known) { k.List[3].PeerURLs = urls }
	}
	records := func(change func(*members.Known)) func(*members.Known) {
		return func(k *members.Known) {
			change(k)
			k.Etcd.Status.AdvertisedPeerURLs = []v1alpha1.ListedURLs{{Name: "main-0", URLs: []string{"http://gone.example:2380"}}}
			k.Etcd.Spec.Etcd.AdditionalAdvertisedURLs = &v1alpha1.AdditionalAdvertisedURLs{PeerURLs: &v1alpha1.AdvertisedURLs{Members: []v1alpha1.MemberURLs{{Name: "main-0", URLs: []string{"http://more.example:2380"}}}}}
		}
	}
	const removed, says = "RemoveMember a to 0", "the source cluster lists main-0 (a, %s) by the name of a member of this Etcd, at another peer URL: " +
		"a second Etcd of this name may have joined since, so no member is removed. If it is this Etcd's, remove it with etcdctl member remove. " +
		"To delete the Etcd without that: kubectl annotate etcd main -n ns druid.gardener.cloud/abandon-source-cluster=etcd"
	for name, tc := range map[string]struct {
		change func(*members.Known)
		want   string
	}{
		"its own URL":                       {url(peer), removed},
		"with TLS between peers":            {url("https://main-0.main-peer.ns.svc:2380"), removed},
		"on the way to TLS":                 {url(peer, "https://main-0.main-peer.ns.svc:2380"), removed},
		"a further URL":                     {records(url(peer, "http://more.example:2380")), removed},
		"a further URL alone":               {records(url("https://more.example:2380")), removed},
		"a further one that the spec had":   {records(url(peer, "http://gone.example:2380")), removed},
		"one of another namespace":          {url("http://main-0.main-peer.ns2.svc:2380"), fmt.Sprintf(says, "http://main-0.main-peer.ns2.svc:2380")},
		"of another ordinal":                {url("http://main-1.main-peer.ns.svc:2380"), fmt.Sprintf(says, "http://main-1.main-peer.ns.svc:2380")},
		"the same names in another cluster": {url(peer, "http://lb.example:2380"), fmt.Sprintf(says, peer+" http://lb.example:2380")},
		"a further URL at another port":     {records(url("http://more.example:2390")), fmt.Sprintf(says, "http://more.example:2390")},
		"none":                              {url(), fmt.Sprintf(says, "")},
		"not a URL":                         {url("http://main-0.main-peer.ns.svc:x"), fmt.Sprintf(says, "http://main-0.main-peer.ns.svc:x")},
	} {
		t.Run(name, func(t *testing.T) {
			k := joined(1)
			tc.change(&k)
			NewWithT(t).Expect(after(k, 60).String()).To(Equal(tc.want))
		})
	}
	// Its own members stay listed until a person has said whose the other is; they are named as before.
	g, k := NewWithT(t), joined(2)
	url("http://main-0.main-peer.ns2.svc:2380")(&k)
	g.Expect(after(k, 60).String()).To(HaveSuffix("abandon-source-cluster=etcd. Then remove main-1 (b) from the source cluster with etcdctl member remove, unless that cluster is gone"))
	k = joined(1)
	url("http://main-0.main-peer.ns2.svc:2380")(&k)
	without(&k, 3)
	g.Expect(after(k, 0).String()).To(Equal("left"), "no source is left, so none is removed")
}

// replaced has the source replace members by others, which were not declared.
func replaced(places ...int) func(*members.Known) {
	return func(k *members.Known) {
		for _, i := range places {
			name := fmt.Sprintf("x%d", i)
			k.List[i].Name, k.List[i].PeerURLs, k.Snapshot.Cluster.Voters[i].Name = name, []string{"http://" + name}, name
		}
	}
}

// down has members not serve, by their place in the list.
func down(places ...int) func(*members.Known) {
	return func(k *members.Known) {
		for _, i := range places {
			k.Snapshot.Cluster.Voters[i].Serving = false
		}
	}
}

// A gap between two looks starts the wait again: an operator may have sent a request in it.
func TestAbsenceHasNoGap(t *testing.T) {
	g := NewWithT(t)
	k, timers := joined(0), timers{}
	for _, at := range []int{0, 5, 10, 16, 20, 25, 30} {
		k.Snapshot.At = noon.Add(time.Duration(at) * time.Second)
		timers = timers.next(k)
		g.Expect(decide(k, timers).left).To(BeFalse(), "after %ds", at)
	}
	k.Snapshot.At = noon.Add(31 * time.Second)
	g.Expect(decide(k, timers.next(k)).left).To(BeTrue())
}
