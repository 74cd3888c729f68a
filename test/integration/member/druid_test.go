// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// druidName is the name of a member of an Etcd etcd-main with a memberNamePrefix, as etcd-druid makes it.
func druidName(prefix string, i int) string {
	pod := fmt.Sprintf("etcd-main-%d", i)
	if prefix == "" {
		return pod
	}
	return prefix + "-" + pod
}

// startDruid starts all members of a cluster with the configuration that etcd-wrapper gets from etcd-druid 0.38, in which addresses stand for
// the names of the peer Service. The further peer URLs, by member, are additionalAdvertisePeerURLs.
func (c *cluster) startDruid(g Gomega, prefix string, further func(i int) []string) {
	var initial []string
	peers := func(i int) []string { return append([]string{c.url(i, c.peer)}, further(i)...) }
	for i := range c.members {
		for _, url := range peers(i) {
			initial = append(initial, druidName(prefix, i)+"="+url)
		}
	}
	for i := range c.members {
		config := map[string]any{
			"name": druidName(prefix, i), "data-dir": c.dataDir(i), "metrics": "basic", "snapshot-count": 10000, "enable-grpc-gateway": false,
			"quota-backend-bytes": 8 << 30, "initial-cluster-token": "etcd-cluster", "initial-cluster-state": "new", "initial-cluster": strings.Join(initial, ","),
			"auto-compaction-mode": "periodic", "auto-compaction-retention": "30m", "next-cluster-version-compatible": true, "backend-bbolt-freelist-type": "array",
			"listen-peer-urls": strings.Join(peers(i), ","), "listen-client-urls": c.url(i, c.client),
			"initial-advertise-peer-urls": strings.Join(peers(i), ","), "advertise-client-urls": c.url(i, c.client),
			"log-level": "error", "unsafe-no-fsync": true,
		}
		maps.Copy(config, c.options)
		file, err := yaml.Marshal(config)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.MkdirAll(c.memberDir(i), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(c.configFile(i), file, 0o600)).To(Succeed())
		c.run(g, i)
	}
	c.awaitVoters(g, c.members)
}

// A cluster of etcd-druid 0.38 moves to an Etcd of the same name, as in Gardener's GEP-39: both are called etcd-main, with a memberNamePrefix
// each, which etcd-druid's may lack; TLS with client certificates everywhere; one client endpoint, that of the client Service, so that the
// other members are asked where they advertise themselves; and members that are listed under a second peer URL.
func TestMigrationOfAClusterOfDruid(t *testing.T) {
	t.Parallel()
	const v35, v36 = "etcd-3.5/etcd", "etcd-3.6/etcd"
	for name, c := range map[string]struct {
		prefix, own string
		further     bool
	}{
		"the same release, no prefix":     {"", v35, false},
		"the next release, and a prefix":  {"seed-a", v36, false},
		"further peer URLs, and a prefix": {"seed-a", v35, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			source, own := newCluster(t, 3), newCluster(t, 3)
			source.etcd, own.etcd = machine.Program(t, v35), machine.Program(t, c.own)
			ca, err := certs.NewCA("seeds")
			g.Expect(err).NotTo(HaveOccurred())
			var hosts []string
			for i := range 3 {
				hosts = append(hosts, fmt.Sprintf("127.0.1.%d", i+1))
			}
			source.secure(g, ca, hosts, ca)
			m := declare(source, own)
			m.etcd.Name = "etcd-main"
			own.secure(g, ca, []string{m.etcd.MemberHost("etcd-main-0"), m.etcd.MemberHost("etcd-main-1"), m.etcd.MemberHost("etcd-main-2")}, ca)
			further := func(i int) []string {
				if !c.further {
					return nil
				}
				return []string{strings.Replace(source.outside(i), "http://", "https://", 1)}
			}
			source.startDruid(g, c.prefix, further)
			source.put(g, "before")

			m = declare(source, own)
			m.etcd.Name, m.etcd.Spec.MemberNamePrefix = "etcd-main", ptr.To("seed-b")
			joins := m.etcd.Spec.Etcd.BootstrapWithExistingCluster
			joins.ClientEndpoints, joins.Members = joins.ClientEndpoints[:1], nil
			for i := range 3 {
				joins.Members = append(joins.Members, v1alpha1.BootstrapExistingMember{Name: druidName(c.prefix, i), PeerURLs: append([]string{source.url(i, source.peer)}, further(i)...)})
			}
			m.begin(g)
			writes := m.writeAlways()
			m.until(g, func() bool { return m.etcd.Status.BootstrapWithExistingCluster != nil })
			theirs := strings.Join([]string{druidName(c.prefix, 0), druidName(c.prefix, 1), druidName(c.prefix, 2)}, " ")
			g.Expect(m.list(g)).To(Equal(theirs + " seed-b-etcd-main-0 seed-b-etcd-main-1 seed-b-etcd-main-2?"))
			m.etcd.Spec.Etcd.BootstrapWithExistingCluster = nil
			m.until(g, func() bool { return m.ended })
			acknowledged, gap := writes()
			t.Logf("%d writes, longest gap %s", acknowledged, gap)
			g.Expect(m.list(g)).To(Equal("seed-b-etcd-main-0 seed-b-etcd-main-1 seed-b-etcd-main-2"))
			g.Expect(m.leader(g)).To(HavePrefix("seed-b-"))
			g.Expect(own.get(g, 0)).To(Equal("before"))
		})
	}
}
