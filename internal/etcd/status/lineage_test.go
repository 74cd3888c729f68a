// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"slices"
	"strconv"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The IDs in these tests are written out as etcd derives them, not by what the operator computes them with.
const (
	memberURL0, memberURL2 = "://etcd-main-0.etcd-main-peer.shoot-a.svc:2380", "://etcd-main-2.etcd-main-peer.shoot-a.svc:2380"
	etcdUID                = "5f0e"
)

// recovered returns the ID of the cluster that a recovery, of this UID, makes from m2.
func recovered(scheme, uid string) string {
	return member.ClusterID(etcdUID+"-"+uid, "etcd-main-2="+scheme+memberURL2)
}

// successor returns the ID of the cluster that a restore makes of another one.
func successor(scheme, of string) string {
	return member.ClusterID(etcdUID+"-after-"+of, "etcd-main-0="+scheme+memberURL0)
}

// serving returns a healthy cluster with an ID in hex.
func serving(members int, id string) *cluster.Snapshot {
	s := clustertest.Healthy(members)
	parsed, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		panic(err)
	}
	s.Cluster.ID = parsed
	return s
}

// What is recorded is compared with what serves, always. What follows from it is recorded; what does not is reported.
func TestLineage(t *testing.T) {
	const a, b, foreign = "a", "b", "d00d"
	second := &v1alpha1.ClusterRecovery{TaskUID: "second", Member: "etcd-main-2", Source: v1alpha1.RecoverFromData, PreviousClusterID: b, EarlierClusterIDs: []string{a}}
	wakes := &v1alpha1.ClusterRecovery{TaskUID: "hibernation", Member: "etcd-main-0", Source: v1alpha1.RecoverFromBackup, PreviousClusterID: a, Revision: 42}
	awake := member.ClusterID(etcdUID+"-hibernation", "etcd-main-0=http"+memberURL0)
	ofDruid := func(s *cluster.Snapshot) *cluster.Snapshot { s.Ordinals[0].Pod.OfDruid = true; return s }
	halfDruid := serving(3, foreign)
	halfDruid.Ordinals[0].Pod.OfDruid, halfDruid.Ordinals[0].Serving = true, false
	halted := serving(3, foreign)
	halted.Cluster.LeaderKnown = false
	for _, tc := range []struct {
		name     string
		recorded string
		size     int32
		recovery *v1alpha1.ClusterRecovery
		seen     *cluster.Snapshot
		want     string
		reported bool
	}{
		{"it serves for the first time", "", 0, nil, serving(3, a), a, false},
		{"it serves as recorded", a, 3, nil, serving(3, a), a, false},
		{"nothing is seen", a, 3, second, nil, a, false},
		{"the members do not say", a, 3, nil, serving(3, "0"), a, false},
		{"no quorum", a, 3, second, halted, a, false},

		{"the second recovery, of which the first was not recorded", a, 3, second, serving(3, recovered("http", "second")), recovered("http", "second"), false},
		{"the second recovery, of which the first was recorded", b, 3, second, serving(3, recovered("http", "second")), recovered("http", "second"), false},
		{"recovered with TLS between peers", b, 3, second, serving(3, recovered("https", "second")), recovered("https", "second"), false},
		{"recovered from a member beyond its size", a, 1, second, serving(3, recovered("http", "second")), recovered("http", "second"), false},
		{"another cluster while it is recovered", b, 3, second, serving(3, foreign), b, true},
		{"an earlier cluster while it is recovered", b, 3, second, serving(3, a), b, true},
		{"the cluster of the recovery before", b, 3, second, serving(3, recovered("http", "first")), b, true},
		{"an earlier cluster that is recorded", a, 3, second, serving(3, a), a, false},
		{"the cluster that has woken up", a, 1, wakes, serving(1, awake), awake, false},
		{"its only member was restored", awake, 1, wakes, serving(1, successor("http", awake)), successor("http", awake), false},
		{"the volume from before that restore", successor("http", awake), 1, wakes, serving(1, awake), successor("http", awake), true},

		{"an only member that was restored", a, 1, nil, serving(1, successor("http", a)), successor("http", a), false},
		{"an only member that was restored with TLS between peers", a, 1, nil, serving(1, successor("https", a)), successor("https", a), false},
		{"an only member that was restored twice", successor("http", a), 1, nil, serving(1, successor("https", successor("http", a))), successor("https", successor("http", a)), false},
		{"the volume from before the restore", successor("http", a), 1, nil, serving(1, a), successor("http", a), true},
		{"a successor of another cluster", a, 1, nil, serving(1, successor("http", b)), a, true},
		{"one of several that was restored when it was alone", a, 3, nil, serving(1, successor("http", a)), a, true},

		{"another cluster", a, 3, nil, serving(3, foreign), a, true},
		{"etcd-druid has restored its only member", a, 1, nil, ofDruid(serving(1, foreign)), foreign, false},
		{"a pod of etcd-druid that does not serve", a, 3, nil, halfDruid, a, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			etcd := &v1alpha1.Etcd{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shoot-a", Name: "etcd-main", UID: etcdUID, Generation: 1},
				Spec:       v1alpha1.EtcdSpec{Replicas: max(tc.size, 1)},
				Status:     v1alpha1.EtcdStatus{ClusterID: tc.recorded, ClusterSize: tc.size, Recovery: tc.recovery},
			}
			next := Next(observed(etcd, tc.seen, noon))
			g.Expect(next.ClusterID).To(Equal(tc.want))
			if !tc.reported {
				g.Expect(next.LastErrors).To(BeEmpty())
				if tc.recovery != nil && (next.ClusterID == tc.recovery.PreviousClusterID || slices.Contains(tc.recovery.EarlierClusterIDs, next.ClusterID)) {
					g.Expect(next.Recovery).To(Equal(tc.recovery), "its cluster has not served")
				}
				return
			}
			g.Expect(next.LastErrors).To(HaveLen(1))
			g.Expect(next.LastErrors[0].Code).To(Equal(v1alpha1.ErrClusterID))
			g.Expect(next.LastErrors[0].Description).To(And(ContainSubstring("cluster %s is recorded", tc.recorded),
				ContainSubstring(`kubectl patch etcd etcd-main -n shoot-a --subresource=status --type=merge -p '{"status":{"clusterID":"%x"}}'`, tc.seen.Cluster.ID)))
			g.Expect(next.Recovery).To(Equal(tc.recovery), "what may explain it later stays")
			g.Expect(next.ClusterSize).To(Equal(tc.size), "the size of another cluster is none of the recorded one")

			// What is reported stays while no quorum serves, and is over once the right cluster serves.
			etcd.Status = next
			g.Expect(Next(observed(etcd, tc.seen, later)).ClusterID).To(Equal(tc.recorded), "it does not explain itself the second time")
			g.Expect(Next(observed(etcd, nil, later)).LastErrors).To(Equal(next.LastErrors))
			g.Expect(Next(observed(etcd, serving(3, tc.recorded), later)).LastErrors).To(BeEmpty())
		})
	}
}
