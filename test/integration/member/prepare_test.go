// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package member_test lets prepare decide for real members: three etcd processes on loopback addresses.
package member_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/member"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"sigs.k8s.io/yaml"
)

const patience = 30 * time.Second

// A member that comes late joins, one that lost its data does not come back under its old identity, and
// after a person replaced it in the member list it joins again.
func TestLifeOfAMember(t *testing.T) {
	g := NewWithT(t)
	c := newCluster(t)
	g.Expect(c.start(0)).To(Equal("new"))
	g.Expect(c.start(1)).To(Equal("new"))
	id := c.awaitMembersStarted(g, 2)
	c.record(g, id)

	g.Expect(c.start(2)).To(Equal("existing"), "a member that never started joins the cluster that serves")
	c.awaitMembersStarted(g, 3)

	c.stop(2)
	g.Expect(c.start(2)).To(Equal("existing"), "a member starts with its data")
	c.stop(2)

	g.Expect(os.RemoveAll(c.dataDir(2))).To(Succeed())
	g.Expect(c.prepare(2)).To(MatchError(ContainSubstring("member m2 has no data")))

	c.remove(g, 2)
	g.Expect(c.prepare(2)).To(MatchError(ContainSubstring("etcdctl member add m2")))
	c.add(g, 2)
	g.Expect(c.start(2)).To(Equal("existing"))
	c.awaitMembersStarted(g, 3)

	c.stop(1)
	c.stop(2)
	g.Expect(os.RemoveAll(c.dataDir(2))).To(Succeed())
	g.Expect(c.prepare(2)).To(MatchError(ContainSubstring("second cluster")), "nobody can tell without a quorum")
	g.Expect(c.start(1)).To(Equal("existing"), "a member with data starts without a quorum")
}

// cluster is three members, each with a loopback address of its own.
type cluster struct {
	t         testing.TB
	dir       string
	etcd      string
	client    int
	peer      int
	processes map[int]*exec.Cmd
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		t.Fatal(`KUBEBUILDER_ASSETS is not set: run the tests with "make test", or set it to a folder with etcd`)
	}
	c := &cluster{
		t: t, dir: t.TempDir(), etcd: filepath.Join(assets, "etcd"),
		client: freePort(t), peer: freePort(t), processes: map[int]*exec.Cmd{},
	}
	var initial []string
	for i := range 3 {
		initial = append(initial, fmt.Sprintf("m%d=%s", i, c.url(i, c.peer)))
	}
	for i := range 3 {
		c.write(i, member.KeyConfig, map[string]any{
			"data-dir":           c.dataDir(i),
			"listen-client-urls": c.url(i, c.client),
			"listen-peer-urls":   c.url(i, c.peer),
			"log-level":          "error",
			"unsafe-no-fsync":    true,
		})
		c.write(i, member.KeyBootstrap, map[string]any{
			"initial-cluster": strings.Join(initial, ","), "initial-cluster-token": t.Name(),
		})
	}
	t.Cleanup(func() {
		for i := range c.processes {
			c.stop(i)
		}
	})
	return c
}

// prepare decides how a member starts and renders its file.
func (c *cluster) prepare(i int) error {
	return member.Prepare(context.Background(), testr.New(c.t.(*testing.T)), member.Options{
		Name: fmt.Sprintf("m%d", i), SharedDir: c.memberDir(i), ConfigFile: c.configFile(i),
	})
}

// start prepares and starts a member, and returns its initial-cluster-state.
func (c *cluster) start(i int) string {
	c.t.Helper()
	if err := c.prepare(i); err != nil {
		c.t.Fatalf("preparing member %d: %v", i, err)
	}
	file, err := os.ReadFile(c.configFile(i))
	if err != nil {
		c.t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(file, &config); err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(c.etcd, "--config-file="+c.configFile(i))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		c.t.Fatalf("starting member %d: %v", i, err)
	}
	c.processes[i] = cmd
	return config["initial-cluster-state"].(string)
}

func (c *cluster) stop(i int) {
	_ = c.processes[i].Process.Kill()
	_ = c.processes[i].Wait()
	delete(c.processes, i)
}

// awaitMembersStarted waits until n members are listed as started, and returns the cluster's ID.
func (c *cluster) awaitMembersStarted(g Gomega, n int) uint64 {
	var id uint64
	g.Eventually(func(g Gomega) {
		c.ask(g, func(ctx context.Context, etcd *clientv3.Client) error {
			list, err := etcd.MemberList(ctx)
			if err != nil {
				return err
			}
			started := 0
			for _, m := range list.Members {
				if len(m.ClientURLs) > 0 {
					started++
				}
			}
			g.Expect(started).To(Equal(n))
			id = list.Header.ClusterId
			return nil
		})
	}).WithTimeout(patience).Should(Succeed())
	return id
}

// record does what the operator does once the cluster serves.
func (c *cluster) record(g Gomega, id uint64) {
	for i := range 3 {
		file := filepath.Join(c.memberDir(i), member.KeyClusterID)
		g.Expect(os.WriteFile(file, []byte(strconv.FormatUint(id, 16)), 0o600)).To(Succeed())
	}
}

func (c *cluster) remove(g Gomega, i int) {
	c.change(g, func(ctx context.Context, etcd *clientv3.Client) error {
		list, err := etcd.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if m.PeerURLs[0] == c.url(i, c.peer) {
				_, err := etcd.MemberRemove(ctx, m.ID)
				return err
			}
		}
		return fmt.Errorf("member %d is not listed", i)
	})
}

func (c *cluster) add(g Gomega, i int) {
	c.change(g, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.MemberAdd(ctx, []string{c.url(i, c.peer)})
		return err
	})
}

// change asks until it is done: etcd takes a change of members only when the others have been connected for
// five seconds.
func (c *cluster) change(g Gomega, request func(context.Context, *clientv3.Client) error) {
	g.Eventually(func(g Gomega) { c.ask(g, request) }).WithTimeout(patience).WithPolling(time.Second).Should(Succeed())
}

// ask asks member 0, which always runs.
func (c *cluster) ask(g Gomega, question func(context.Context, *clientv3.Client) error) {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{c.url(0, c.client)}, Logger: zap.NewNop()})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = etcd.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	g.Expect(question(ctx, etcd)).To(Succeed())
}

func (c *cluster) write(i int, key string, value map[string]any) {
	data, err := yaml.Marshal(value)
	if err == nil {
		err = os.MkdirAll(c.memberDir(i), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(c.memberDir(i), key), data, 0o600)
	}
	if err != nil {
		c.t.Fatalf("writing the shared configuration of member %d: %v", i, err)
	}
}

func (c *cluster) memberDir(i int) string  { return filepath.Join(c.dir, strconv.Itoa(i)) }
func (c *cluster) dataDir(i int) string    { return filepath.Join(c.memberDir(i), "data") }
func (c *cluster) configFile(i int) string { return filepath.Join(c.memberDir(i), "rendered.yaml") }
func (c *cluster) url(i, port int) string  { return fmt.Sprintf("http://127.0.0.%d:%d", i+1, port) }

// freePort is a port that is free on the first address; the others have no listeners of their own.
func freePort(t testing.TB) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
