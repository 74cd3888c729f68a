// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package firststart

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/observe"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/resource"
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
			d := join(etcd, c.found, observe.Source{ClusterID: 0xcafe, Members: c.list}, "etcd:v3.6.16")
			g.Expect(d.begins).To(BeFalse())
			g.Expect(d.why).To(ContainSubstring(c.says))
			g.Expect(d.reason).To(Equal(c.reason))
			g.Expect(d.found).To(Equal(c.is))
			g.Expect(d.step).To(Equal(wait))
		})
	}
}

// A member that could not start would stay in the source's list as a learner, and one whose quota is exceeded would stop all writes: none
// joins. Where a member has joined already, that is not asked any more.
func TestJoinWithoutHarm(t *testing.T) {
	const gi = 1 << 30
	versions := func(etcd, storage string) map[string]cluster.Versions {
		return map[string]cluster.Versions{"http://s:2379": {Etcd: etcd, Storage: storage}}
	}
	for name, c := range map[string]struct {
		found    *Cluster
		versions map[string]cluster.Versions
		image    string
		size     int64
		says     string
	}{
		"the same minor version":  {nil, versions("3.6.8", "3.6.0"), "etcd:v3.6.16", 2*gi - 1, "the members join cluster cafe"},
		"the next one":            {nil, versions("3.6.11", "3.6.0"), "etcd:v3.7.3", 0, "the members join cluster cafe"},
		"the one before":          {nil, versions("3.7.0", "3.7.0"), "etcd:v3.6.16", 0, "the new etcd is 3.6.16 and the cluster is at 3.7: a member of 3.6 would refuse to start"},
		"one is left out":         {nil, versions("3.5.30", ""), "etcd:v3.7.3", 0, "etcd upgrades one minor version at a time"},
		"an image without a tag":  {nil, versions("3.7.0", "3.7.0"), "etcd@sha256:0", 0, "the members join cluster cafe"},
		"the database is larger":  {nil, nil, "etcd:v3.6.16", 2 * gi, "has 2147483648 bytes, and spec.etcd.quota of the Etcd is 2147483648"},
		"the members have joined": {&Cluster{"cafe", 3}, versions("3.7.0", "3.7.0"), "etcd:v3.6.16", 3 * gi, "the members join cluster cafe"},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
			quota := resource.MustParse("2Gi")
			etcd.Spec.Etcd.Quota = &quota
			etcd.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "s0"}}}
			source := observe.Source{ClusterID: 0xcafe, Members: []etcdclient.Member{{ID: 1, Name: "s0"}}, Versions: c.versions, DatabaseSize: c.size}
			NewWithT(t).Expect(join(etcd, c.found, source, c.image).why).To(ContainSubstring(c.says))
		})
	}
}

// A source that refuses the operator says so, whatever else is known, and one with alarms is put in order first. Once members have joined,
// alarms are those of the whole cluster.
func TestJoinOfASourceInTrouble(t *testing.T) {
	alarm := func(id uint64, kind etcdclient.AlarmKind) etcdclient.Alarm {
		return etcdclient.Alarm{MemberID: id, Kind: kind}
	}
	many := make([]etcdclient.Alarm, 99)
	for name, c := range map[string]struct {
		found   *Cluster
		refused bool
		alarms  []etcdclient.Alarm
		says    string
	}{
		"auth":                    {nil, true, nil, "the source cluster has auth enabled, and refuses the operator: make the common name of the certificate in spec.etcd.clientUrlTls.clientTLSSecretRef a user of it with the role root"},
		"auth, and members":       {&Cluster{"cafe", 3}, true, nil, "auth enabled"},
		"no space":                {nil, false, []etcdclient.Alarm{alarm(1, etcdclient.AlarmNoSpace)}, "the source cluster has the alarm NOSPACE of s0 (1): it takes no writes. Compact and defragment it, or raise its quota, and disarm"},
		"corrupt":                 {nil, false, []etcdclient.Alarm{alarm(1, etcdclient.AlarmNoSpace), alarm(10, etcdclient.AlarmCorrupt)}, "NOSPACE of s0 (1), CORRUPT of a: replace the member by one with the data of the others"},
		"any number":              {nil, false, many, " of 0,  of 0,  of 0,  of 0,  of 0: replace"},
		"the members have joined": {&Cluster{"cafe", 3}, false, []etcdclient.Alarm{alarm(1, etcdclient.AlarmNoSpace)}, "the members join cluster cafe"},
	} {
		t.Run(name, func(t *testing.T) {
			etcd := &v1alpha1.Etcd{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "main"}, Spec: v1alpha1.EtcdSpec{Replicas: 3}}
			etcd.Spec.Etcd.BootstrapWithExistingCluster = &v1alpha1.BootstrapWithExistingCluster{Members: []v1alpha1.BootstrapExistingMember{{Name: "s0"}}}
			source := observe.Source{ClusterID: 0xcafe, Members: []etcdclient.Member{{ID: 1, Name: "s0"}}, Alarms: c.alarms, Refused: c.refused}
			NewWithT(t).Expect(join(etcd, c.found, source, "etcd:v3.6.16").why).To(ContainSubstring(c.says))
		})
	}
}
