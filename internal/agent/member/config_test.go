// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"strings"
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
			shared, err := ParseShared(map[string]string{KeyConfig: sharedConfig, KeyBootstrap: bootstrapConfig, KeyClusterID: "cafe\n"})
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

func TestIdentifyRefusesAnUnknownMember(t *testing.T) {
	g := NewWithT(t)
	shared, err := ParseShared(map[string]string{KeyConfig: sharedConfig, KeyBootstrap: bootstrapConfig})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = shared.Identify("etcd-main-2")
	g.Expect(err).To(MatchError(ContainSubstring("member etcd-main-2: it is not in the initial cluster")))
}

const recovery = `
task: 5b1c
member: etcd-main-1
source: Data
previousClusterID: cafe
`

func TestRecoveryIsReadCompletelyOrNotAtAll(t *testing.T) {
	g := NewWithT(t)
	data := map[string]string{KeyConfig: sharedConfig, KeyBootstrap: bootstrapConfig}
	parse := func(value string) (Shared, error) {
		data[KeyRecovery] = value
		return ParseShared(data)
	}
	shared, err := parse(recovery)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(shared.Recovery).To(Equal(&Recovery{Task: "5b1c", Member: "etcd-main-1", Source: RecoverFromData, PreviousClusterID: "cafe"}))
	g.Expect(shared.Token()).To(Equal("4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f-5b1c"))
	g.Expect(shared.Founders()).To(Equal("etcd-main-1=http://etcd-main-1.etcd-main-peer.shoot-a.svc:2380"))
	encoded, err := shared.Recovery.Encode()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ParseRecovery([]byte(encoded))).To(Equal(shared.Recovery))

	for _, none := range []string{"", "\n"} {
		shared, err := parse(none)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(shared.Recovery).To(BeNil())
		g.Expect(shared.Token()).To(Equal("4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f"))
		g.Expect(shared.Founders()).To(Equal(shared.InitialCluster()))
	}
	of := func(source, restore string) string {
		return strings.Replace(recovery, "source: Data", "source: "+source, 1) + restore + "\n"
	}
	for _, good := range []RestorePoint{{Base: "b", Prefix: "copy", Revision: 7, Hash: 1 << 31, Bytes: 5, Bump: 1}, {Kept: "new.etcd.before-x-1", Bump: 1}} {
		r := *shared.Recovery
		r.Restore, r.Source = &good, RecoverFromPoint
		if good.Kept != "" {
			r.Source = RecoverFromKept
		}
		text, err := r.Encode()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(ParseRecovery([]byte(text))).To(Equal(&r))
	}
	for name, bad := range map[string]string{
		"no YAML":              "task: [",
		"an unknown field":     recovery + "force: true\n",
		"a field twice":        recovery + "member: etcd-main-2\n",
		"an empty object":      "{}",
		"no member":            strings.Replace(recovery, "member: etcd-main-1\n", "", 1),
		"no task":              strings.Replace(recovery, "task: 5b1c\n", "", 1),
		"no cluster":           strings.Replace(recovery, "previousClusterID: cafe\n", "", 1),
		"to wake up from data": recovery + "revision: 42\n",
		"another source":       strings.Replace(recovery, "source: Data", "source: data", 1),
		"a state for data":     recovery + "restore: {base: b, revision: 7, bump: 1}\n",
		"a point without one":  of("Restore", ""),
		"it goes back":         of("Restore", "restore: {base: b, revision: 7, bump: 0}"),
		"no base":              of("Restore", "restore: {revision: 7, bump: 1}"),
		"no revision":          of("Restore", "restore: {base: b, bump: 1}"),
		"no kept data":         of("KeptData", "restore: {bump: 1}"),
		"another folder":       of("KeptData", "restore: {bump: 1, kept: ../new.etcd.before-x-1}"),
	} {
		_, err := parse(bad)
		g.Expect(err).To(MatchError(ContainSubstring("reading "+KeyRecovery)), name)
	}
}

// A permission counts for the Etcd that it was given to alone, and none is read from what is unreadable.
func TestMayBegin(t *testing.T) {
	for name, c := range map[string]struct {
		value string
		want  bool
	}{
		"given":                     {"etcd: uid-1\n", true},
		"with the claims looked at": {"etcd: uid-1\nclaims: [a, b]\nround: \"2\"\n", true},
		"by a later operator":       {"etcd: uid-1\nmore: true\n", true},
		"not given":                 {"", false},
		"to an earlier Etcd":        {"etcd: uid-0\n", false},
		"to none":                   {"claims: [a]\n", false},
		"unreadable":                {"etcd: [uid-1", false},
	} {
		shared, err := ParseShared(map[string]string{KeyConfig: sharedConfig, KeyBootstrap: "initial-cluster-token: uid-1\n", KeyFirstStart: c.value})
		if err != nil || shared.MayBegin() != c.want {
			t.Errorf("%s: %v %v", name, shared.MayBegin(), err)
		}
	}
	without, err := ParseShared(map[string]string{KeyConfig: sharedConfig, KeyFirstStart: "etcd: \"\"\n"})
	if err != nil || without.MayBegin() {
		t.Errorf("without a token: %v %v", without.MayBegin(), err)
	}
}
