// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package firststart

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Members that join a cluster never begin one, whatever they find and whatever that cluster says.
func TestJoin(t *testing.T) {
	etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
	etcd.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{
		Members:         []v1alpha1.BootstrapExistingMember{{Name: "s0", PeerURLs: []string{"http://s0:2380"}}, {Name: "s1", PeerURLs: []string{"http://s1:2380"}}},
		ClientEndpoints: []string{"http://s:2379"},
	}
	both := []etcdclient.Member{{ID: 1, Name: "s0"}, {ID: 2, Name: "s1"}}
	and := func(m etcdclient.Member) []etcdclient.Member { return append(both[:2:2], m) }
	for name, c := range map[string]struct {
		found  *Cluster
		list   []etcdclient.Member
		reason string
		says   string
		is     *Cluster
	}{
		"the source is as declared":       {nil, both, looks, "the members join cluster cafe", &Cluster{"cafe", 3}},
		"one has not started":             {nil, []etcdclient.Member{both[0], {ID: 2, PeerURLs: []string{"http://x:1", "http://s1:2380"}}}, looks, "join cluster cafe", &Cluster{"cafe", 3}},
		"it does not answer":              {nil, nil, blockedBy, "no client endpoint of spec.etcd.bootstrapWithExistingCluster answers", nil},
		"one more than declared":          {nil, and(etcdclient.Member{ID: 15, Name: "x"}), blockedBy, "does not name: x (f)", nil},
		"one fewer":                       {nil, both[:1], blockedBy, "does not have: s1", nil},
		"a name of ours":                  {nil, and(etcdclient.Member{ID: 3, Name: "main-1"}), blockedBy, "lists main-1 (3), which is a name or a peer URL of a member of this Etcd", nil},
		"a peer URL of ours":              {nil, []etcdclient.Member{{ID: 1, Name: "s0", PeerURLs: []string{"https://main-2.main-peer.ns.svc:2380"}}, both[1]}, blockedBy, "lists s0 (1), which is", nil},
		"the volumes hold its data":       {&Cluster{"cafe", 1}, and(etcdclient.Member{ID: 3, Name: "main-1"}), looks, "join cluster cafe", &Cluster{"cafe", 3}},
		"the volumes hold another's data": {&Cluster{"beef", 1}, both, blockedBy, "hold data of cluster beef", nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := join(etcd, c.found, 0xcafe, c.list)
			g.Expect(d.begins).To(BeFalse())
			g.Expect(d.why).To(ContainSubstring(c.says))
			g.Expect(d.reason).To(Equal(c.reason))
			g.Expect(d.found).To(Equal(c.is))
			g.Expect(d.step).To(Equal(wait))
		})
	}
}
