// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/golden"
	. "github.com/onsi/gomega"
)

const sharedConfig = `
data-dir: /var/etcd/data/new.etcd
listen-client-urls: http://0.0.0.0:2379
listen-peer-urls: http://0.0.0.0:2380
quota-backend-bytes: 8589934592
strict-reconfig-check: true
`

const bootstrapConfig = `
initial-cluster: etcd-main-0=http://etcd-main-0.etcd-main-peer.shoot-a.svc:2380,etcd-main-1=http://etcd-main-1.etcd-main-peer.shoot-a.svc:2380
initial-cluster-token: 4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f
`

func TestRender(t *testing.T) {
	for _, action := range []Action{Start, Bootstrap, Join} {
		t.Run(string(action), func(t *testing.T) {
			g := NewWithT(t)
			shared, err := ParseShared([]byte(sharedConfig), []byte(bootstrapConfig), "cafe\n")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(shared.ClusterID).To(Equal("cafe"))
			id, err := shared.Identify("etcd-main-1")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(id.PeerClientURLs).To(ConsistOf("http://etcd-main-0.etcd-main-peer.shoot-a.svc:2379"))

			initialCluster := ""
			if action == Join {
				initialCluster = "etcd-main-0=http://etcd-main-0:2380,etcd-main-1=http://etcd-main-1:2380"
			}
			file, err := shared.Render(id, action, initialCluster)
			g.Expect(err).NotTo(HaveOccurred())
			golden.Check(t, string(action)+".yaml", file)
			g.Expect(shared.Config).NotTo(HaveKey("name"), "rendering changed its input")
		})
	}
}

func TestIdentifyRefusesAStranger(t *testing.T) {
	g := NewWithT(t)
	shared, err := ParseShared([]byte(sharedConfig), []byte(bootstrapConfig), "")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = shared.Identify("etcd-main-2")
	g.Expect(err).To(MatchError(ContainSubstring("member etcd-main-2: it is not in the initial cluster")))
}
