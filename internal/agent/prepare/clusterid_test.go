// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package prepare

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.uber.org/zap"
)

// The operator computes cluster IDs without etcd's server. Whether it does so as etcd does is for etcd to say.
func TestClusterIDIsThatOfEtcd(t *testing.T) {
	for _, founders := range []string{
		"main-0=http://main-0.main-peer.ns.svc:2380",
		"main-0=https://main-0.main-peer.ns.svc:2380",
		"main-2=http://c:2380,main-0=http://a:2380,main-1=http://b:2380",
		"main-0=http://b:2380,main-0=http://a:2380,main-1=https://c:1",
	} {
		for _, token := range []string{"", "etcd-uid", "etcd-uid-task-uid"} {
			g := NewWithT(t)
			urls, err := types.NewURLsMap(founders)
			g.Expect(err).NotTo(HaveOccurred())
			cluster, err := membership.NewClusterFromURLsMap(zap.NewNop(), token, urls)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(member.ClusterID(token, founders)).To(Equal(cluster.ID().String()), "%s, token %q", founders, token)
		}
	}
}
