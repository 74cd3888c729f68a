// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	words "github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/clustertest"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/component"
	"github.com/etcd-foreman/etcd-foreman/internal/etcd/state"
	peertls "github.com/etcd-foreman/etcd-foreman/internal/etcd/tls"
	"github.com/etcd-foreman/etcd-foreman/test/certs"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// outside is a second URL on which the members listen to their peers.
func (c *cluster) outside(i int) string { return fmt.Sprintf("http://127.0.1.%d:%d", i+1, c.peer) }

// shareOutside writes the configuration of a cluster of three whose members listen on both.
func (c *cluster) shareOutside(g Gomega) {
	c.share(g, 3)
	for i := range c.members {
		c.write(g, i, member.KeyConfig, map[string]any{
			"data-dir": c.dataDir(i), "listen-client-urls": c.url(i, c.client), "log-level": "error", "unsafe-no-fsync": true,
			"listen-peer-urls": c.url(i, c.peer) + "," + c.outside(i),
		})
	}
}

// list returns the member list, as the first member knows it, with what else identifies the cluster and its leader's term.
func (c *cluster) list(g Gomega) (members *clientv3.MemberListResponse, status *clientv3.StatusResponse) {
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) (err error) {
		if members, err = etcd.MemberList(ctx); err == nil {
			status, err = etcd.Status(ctx, c.url(0, c.client))
		}
		return err
	})
	return members, status
}

// peerURLs are those of the second member.
func (c *cluster) peerURLs(g Gomega) []string {
	members, _ := c.list(g)
	for _, m := range members.Members {
		if m.Name == "m1" {
			return m.PeerURLs
		}
	}
	return nil
}

// advertise lists the members as the operator does for an Etcd.
func (c *cluster) advertise(g Gomega, etcd *v1alpha1.Etcd) {
	s := clustertest.Healthy(3)
	s.Ordinals[0].Pod.Endpoint = c.url(0, c.client)
	members, _ := c.list(g)
	for _, m := range members.Members {
		i := int(m.Name[1] - '0')
		s.Cluster.Voters[i] = words.Voter{ID: m.ID, Name: m.Name, Ordinal: i, Serving: true, PeerURLs: m.PeerURLs}
	}
	etcd.Status.AdvertisedPeerURLs = peertls.Record(etcd, s)
	mover := &peertls.Mover{Dialer: etcdclient.NewDialer()}
	g.Expect(mover.ListAdvertised(context.Background(), &state.State{Etcd: etcd, Snapshot: s}, peertls.Plan{})).To(Succeed())
}

// A running cluster is told of a further URL of a member, and forgets it: no process is restarted, nobody is elected, nothing is
// written. A member that is known only by that URL starts, and says so when its data is gone; one that joins advertises all its URLs.
func TestMembersWithFurtherURLs(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	c.shareOutside(g)
	c.start(g, 0, "new")
	c.start(g, 1, "new")
	c.awaitVoters(g, 2)
	c.record(c.id(g))
	c.start(g, 2, "existing")
	c.awaitVoters(g, 3)
	c.put(g, "before")
	own, more := c.url(1, c.peer), c.outside(1)
	var members *clientv3.MemberListResponse
	g.Eventually(func(g Gomega) {
		var before *clientv3.StatusResponse
		members, before = c.list(g)
		etcd := &v1alpha1.Etcd{}
		etcd.Spec.Etcd.AdditionalAdvertisePeerURLs = []v1alpha1.MemberPeerURLs{{MemberName: "m1", URLs: []string{more}}}
		c.advertise(g, etcd)
		g.Expect(c.peerURLs(g)).To(Equal([]string{own, more}))
		etcd.Spec.Etcd.AdditionalAdvertisePeerURLs = nil
		c.advertise(g, etcd)
		g.Expect(c.peerURLs(g)).To(Equal([]string{own}))
		after, now := c.list(g)
		g.Expect(after.Members).To(Equal(members.Members))
		g.Expect([]uint64{now.Header.ClusterId, now.RaftTerm, now.Leader, uint64(now.Header.Revision)}).
			To(Equal([]uint64{before.Header.ClusterId, before.RaftTerm, before.Leader, uint64(before.Header.Revision)}))
	}).WithTimeout(machine.Patience()).Should(Succeed(), "a busy machine may elect for another reason, but not each time")

	second := members.Members[c.indexOf(members, "m1")].ID
	id := strconv.FormatUint(second, 16)
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.MemberUpdate(ctx, second, []string{more})
		return err
	})
	c.stop(1)
	c.start(g, 1, "existing")
	c.awaitVoters(g, 3)
	c.stop(1)
	g.Expect(os.RemoveAll(c.dataDir(1))).To(Succeed())
	g.Expect(c.refusal(g, 1)).To(Equal(words.Refusal{Reason: v1alpha1.ReasonDataLost, Volume: words.Volume{Store: words.StoreFree, Lost: id}}))
	c.remove(g, id)
	c.change(g, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.MemberAddAsLearner(ctx, []string{own, more})
		return err
	})
	c.start(g, 1, "existing")
	c.promote(g, 1)
	c.awaitVoters(g, 3)
	g.Expect(c.get(g, 1)).To(Equal("before"))
}

func (c *cluster) indexOf(members *clientv3.MemberListResponse, name string) int {
	for i, m := range members.Members {
		if m.Name == name {
			return i
		}
	}
	return -1
}

// A server does not check the URLs of a peer that it is told of, and its peers panic. The client that the operator uses refuses to send them.
func TestURLsThatPeersPanicOver(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 2)
	c.share(g, 2)
	c.start(g, 0, "new")
	c.start(g, 1, "new")
	c.awaitVoters(g, 2)
	operator, err := etcdclient.NewDialer().Dial(c.url(0, c.client), nil)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = operator.Close() }()
	members, _ := c.list(g)
	for _, m := range members.Members {
		g.Expect(operator.SetPeerURLs(t.Context(), m.ID, []string{"http://10.0.0.1"})).To(MatchError(ContainSubstring("host:port")))
	}
	after, _ := c.list(g)
	g.Expect(after.Members).To(Equal(members.Members))
	c.put(g, "they serve")
}

// With skipClientSANVerification a member accepts a peer whose certificate is for another address, in each version; 3.5 does not
// otherwise.
func TestPeersFromAnyAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		program string
		skip    bool
		accepts bool
	}{{"etcd-3.5/etcd", false, false}, {"etcd-3.5/etcd", true, true}, {"etcd", true, true}} {
		t.Run(fmt.Sprint(c.program, c.skip), func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			dir := t.TempDir()
			ca, err := certs.NewCA("peers")
			g.Expect(err).NotTo(HaveOccurred())
			server, err := ca.Issue([]string{"127.0.0.1"})
			g.Expect(err).NotTo(HaveOccurred())
			config := renderedTLS(g, c.skip)
			security := config["peer-transport-security"].(map[string]any)
			for file, data := range map[string][]byte{"trusted-ca-file": ca.PEM, "cert-file": server.Certificate, "key-file": server.Key} {
				security[file] = filepath.Join(dir, file)
				g.Expect(os.WriteFile(security[file].(string), data, 0o600)).To(Succeed())
			}
			peer := fmt.Sprintf("https://127.0.0.1:%d", machine.FreePort(t))
			client := fmt.Sprintf("http://127.0.0.1:%d", machine.FreePort(t))
			for key, value := range map[string]any{
				"name": "m0", "data-dir": filepath.Join(dir, "data"), "listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster": "m0=" + peer,
				"listen-client-urls": client, "advertise-client-urls": client, "listen-metrics-urls": "", "unsafe-no-fsync": true, "log-level": "fatal",
			} {
				config[key] = value
			}
			file, err := yaml.Marshal(config)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(os.WriteFile(filepath.Join(dir, "etcd.yaml"), file, 0o600)).To(Succeed())
			machine.Run(t, exec.Command(machine.Program(t, c.program), "--config-file="+filepath.Join(dir, "etcd.yaml")))
			asks := func(host string) error { return askAsPeer(g, ca, host, peer) }
			g.Eventually(func() error { return asks("127.0.0.1") }).WithTimeout(machine.Patience()).Should(Succeed(), "a peer from its own address")
			if c.accepts {
				g.Expect(asks("10.0.0.1")).To(Succeed())
			} else {
				g.Expect(asks("10.0.0.1")).NotTo(Succeed())
			}
		})
	}
}

// renderedTLS is etcd's configuration of an Etcd with TLS among peers.
func renderedTLS(g Gomega, skip bool) map[string]any {
	etcd := &v1alpha1.Etcd{}
	etcd.Spec.Etcd.PeerURLTLS = &v1alpha1.PeerURLTLS{SkipClientSANVerification: ptr.To(skip)}
	object, err := component.ConfigMap(component.Input{Etcd: etcd, Replicas: 1, PeerTLS: component.PeerTLSOn})
	g.Expect(err).NotTo(HaveOccurred())
	config := map[string]any{}
	g.Expect(yaml.Unmarshal([]byte(object.Data[member.KeyConfig]), &config)).To(Succeed())
	return config
}

// askAsPeer connects to a peer URL with a certificate for a host.
func askAsPeer(g Gomega, ca *certs.CA, host, peer string) error {
	pair, err := ca.Issue([]string{host})
	g.Expect(err).NotTo(HaveOccurred())
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	g.Expect(err).NotTo(HaveOccurred())
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(ca.PEM)
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: trusted}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: machine.Scaled(5 * time.Second)}).Get(strings.TrimSuffix(peer, "/") + "/version")
	if err != nil {
		return err
	}
	return response.Body.Close()
}
