// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package member_test lets prepare decide for real members: etcd processes on loopback addresses.
package member_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/datadir"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/prepare"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/serve"
	words "github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"
)

// A late member joins; one with lost or damaged data rejoins as a learner once the operator has replaced it in the list; a fourth
// joins a cluster of three once the operator has added it; and no member starts a new cluster while its past is unknown.
func TestLifeOfAMember(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 4)
	c.share(g, 3)
	c.start(g, 0, "new")
	c.start(g, 1, "new")
	c.awaitVoters(g, 2)
	c.record(c.id(g))

	c.start(g, 2, "existing")
	c.awaitVoters(g, 3)
	c.stop(2)
	c.start(g, 2, "existing")
	c.put(g, "before the loss")

	c.stop(2)
	g.Expect(os.RemoveAll(c.dataDir(2))).To(Succeed())
	c.replaceThird(g)
	c.promote(g, 2)
	c.awaitVoters(g, 3)

	c.stop(2)
	c.damage(g, 2)
	c.replaceThird(g)
	c.promote(g, 2)
	c.awaitVoters(g, 3)
	g.Expect(filepath.Glob(c.dataDir(2) + member.ReplacedSuffix + "*")).To(HaveLen(1))

	c.share(g, 4)
	g.Expect(c.refusal(g, 3)).To(Equal(words.Refusal{Reason: v1alpha1.ReasonNotListed, Volume: words.Volume{Store: words.StoreFree}}))
	c.add(g, 3)
	c.start(g, 3, "existing")
	c.promote(g, 3)
	c.awaitVoters(g, 4)
	g.Expect(c.get(g, 3)).To(Equal("before the loss"))
}

// Without a quorum it is unknown whether the member ever ran.
func TestMemberThatLostItsDataWaitsForAQuorum(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 3)
	c.share(g, 3)
	c.start(g, 0, "new")
	c.start(g, 1, "new")
	c.awaitVoters(g, 2)
	c.start(g, 2, "existing")
	c.awaitVoters(g, 3)
	c.record(c.id(g))
	c.stop(1)
	c.stop(2)
	g.Expect(os.RemoveAll(c.dataDir(2))).To(Succeed())
	g.Expect(c.prepare(2, 0)).To(MatchError(HavePrefix(v1alpha1.ReasonDataLost + ": member m2 has no data")))
	c.damage(g, 1)
	g.Expect(c.prepare(1, 0)).To(MatchError(HavePrefix(v1alpha1.ReasonDataDamaged + ": the data of member m1")))
	g.Expect(c.dataDir(1)).To(BeADirectory(), "it was left alone")

	waited := make(chan error, 1)
	go func() { waited <- c.prepare(2, machine.Patience()) }()
	c.repair(g, 1)
	c.start(g, 1, "existing")
	g.Eventually(waited).WithTimeout(machine.Patience()).Should(Receive(MatchError(ContainSubstring("once the operator has replaced it"))), "it says so once quorum is restored")
	c.replaceThird(g)
	c.promote(g, 2)
	c.awaitVoters(g, 3)
}

func TestDataOfAnotherClusterIsLeftAlone(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).single(g)
	c.stop(0)
	c.record(0xbeef)
	g.Expect(c.prepare(0, 0)).To(MatchError(HavePrefix(v1alpha1.ReasonDataOfAnotherCluster + ": ")))
	g.Expect(filepath.Join(c.dataDir(0), "member", "wal")).To(BeADirectory())
}

// Without a backup, the only member does not start a new cluster, and its data stays in place.
func TestOnlyMemberThatLostItsData(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).single(g)
	c.record(c.id(g))
	c.stop(0)
	c.damage(g, 0)
	g.Expect(c.prepare(0, 0)).To(MatchError(HavePrefix(v1alpha1.ReasonDataDamaged + ": ")))
	g.Expect(c.dataDir(0)).To(BeADirectory())
	g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed())
	g.Expect(c.prepare(0, 0)).To(MatchError(And(HavePrefix(v1alpha1.ReasonDataLost+": "), ContainSubstring("there is no backup"))))
}

// With a backup, the only member is restored up to the newest snapshot.
func TestOnlyMemberIsRestored(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).backedUp().single(g)
	id := c.id(g)
	c.record(id)
	c.put(g, "in the full snapshot")
	taker := c.takeSnapshots(g)
	_, err := taker.Full(t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	c.put(g, "in the delta")
	_, err = taker.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	for _, harm := range []func(){
		func() { g.Expect(os.RemoveAll(c.dataDir(0))).To(Succeed()) },
		func() { c.damage(g, 0) },
	} {
		c.stop(0)
		harm()
		c.start(g, 0, "existing")
		c.awaitVoters(g, 1)
		g.Expect(c.get(g, 0)).To(Equal("in the delta"))
		g.Expect(c.id(g)).NotTo(Equal(id), "the cluster is another one")
	}
	g.Expect(filepath.Glob(c.dataDir(0)+member.AsideSuffix+"*")).To(HaveLen(1), "the only copy of damaged data is kept")
}

// survey returns what is on the volume of a member.
func (c *cluster) survey(g Gomega, i int) member.Survey {
	found, err := datadir.Survey(c.dataDir(i))
	g.Expect(err).NotTo(HaveOccurred())
	return found
}

// takeFull takes one full snapshot.
func (c *cluster) takeFull(g Gomega) {
	_, err := c.takeSnapshots(g).Full(c.t.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
}

// takeSnapshots takes snapshots until the test ends, as the leader's agent does.
func (c *cluster) takeSnapshots(g Gomega, changes ...func(*snapshotter.Options)) *snapshotter.Snapshotter {
	to, err := store.Open(c.t.Context(), c.store)
	g.Expect(err).NotTo(HaveOccurred())
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{c.url(0, c.client)}, Logger: zap.NewNop()})
	g.Expect(err).NotTo(HaveOccurred())
	m, err := snapshotter.Member(etcd)
	g.Expect(err).NotTo(HaveOccurred())
	options := snapshotter.Options{Schedule: "0 0 1 1 *", DeltaLimit: 1 << 20, Compression: backup.Gzip, Timeout: machine.Patience()}
	for _, change := range changes {
		change(&options)
	}
	taker, err := snapshotter.New(snapshotter.Config{
		Options: options, Etcd: m, Store: to, OnSnapshot: func(backup.Snapshot) {}, Clock: clock.RealClock{}, Log: logr.Discard(),
	})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = taker.Run(ctx)
	}()
	c.t.Cleanup(func() { cancel(); <-done; _ = etcd.Close(); _ = to.Close() })
	g.Eventually(func() error { _, err := taker.Delta(ctx); return err }).WithTimeout(machine.Patience()).Should(Succeed())
	return taker
}

// cluster is a set of members, each with its own loopback address.
type cluster struct {
	t         testing.TB
	dir       string
	etcd      string
	members   int
	client    int
	peer      int
	processes map[int]*exec.Cmd
	// store of the backups; without a provider there is none.
	store store.Config
	// etcdUID is the UID of the Etcd, which is the token of its cluster, and mayBegin whether the operator permits a first start.
	etcdUID  string
	mayBegin bool
	// options of etcd.
	options map[string]any
	// secured has the certificates of a cluster that speaks TLS alone; nil if it does not.
	secured *secured
}

func newCluster(t testing.TB, members int) *cluster {
	t.Helper()
	c := &cluster{
		t: t, dir: t.TempDir(), etcd: machine.Program(t, "etcd"), members: members,
		client: machine.FreePort(t), peer: machine.FreePort(t), processes: map[int]*exec.Cmd{},
		etcdUID: t.Name(), mayBegin: true,
	}
	t.Cleanup(func() {
		for i := range c.processes {
			c.stop(i)
		}
	})
	return c
}

// backedUp gives the members a store, which is empty.
func (c *cluster) backedUp() *cluster {
	c.store = store.Config{Provider: store.Local, Container: c.t.TempDir(), Prefix: "here"}
	return c
}

// share writes the configuration of a cluster of n for every member.
func (c *cluster) share(g Gomega, n int) {
	var initial []string
	for i := range n {
		initial = append(initial, fmt.Sprintf("m%d=%s", i, c.url(i, c.peer)))
	}
	for i := range c.members {
		config := map[string]any{
			"data-dir":           c.dataDir(i),
			"listen-client-urls": c.url(i, c.client),
			"listen-peer-urls":   c.url(i, c.peer),
			"log-level":          "error",
			"unsafe-no-fsync":    true,
		}
		maps.Copy(config, c.options)
		c.write(g, i, member.KeyConfig, config)
		c.write(g, i, member.KeyBootstrap, map[string]any{
			"initial-cluster": strings.Join(initial, ","), "initial-cluster-token": c.etcdUID,
		})
		if c.mayBegin {
			c.write(g, i, member.KeyFirstStart, map[string]any{"etcd": c.etcdUID})
		}
	}
}

// prepare decides how a member starts and renders its configuration.
func (c *cluster) prepare(i int, patience time.Duration) error {
	o := prepare.Options{
		Name: fmt.Sprintf("m%d", i), SharedDir: c.memberDir(i), ClientDir: c.certificateDir(), ConfigFile: c.configFile(i), Patience: patience, Clock: clock.RealClock{},
	}
	if c.store.Provider != "" {
		o.Backups = prepare.StoredBackups{Config: c.store, Log: logr.Discard()}
	}
	return prepare.Run(context.Background(), logr.Discard(), o)
}

// start prepares and starts a member, and expects its initial-cluster-state. etcd accepts a membership change only after
// the other members have been connected for five seconds.
func (c *cluster) start(g Gomega, i int, state string) {
	c.t.Helper()
	g.Expect(c.prepare(i, machine.Patience())).To(Succeed())
	file, err := os.ReadFile(c.configFile(i))
	g.Expect(err).NotTo(HaveOccurred())
	var config map[string]any
	g.Expect(yaml.Unmarshal(file, &config)).To(Succeed())
	g.Expect(config).To(HaveKeyWithValue("initial-cluster-state", state))
	c.run(g, i)
}

// run runs a member with its present configuration file.
func (c *cluster) run(g Gomega, i int) {
	cmd := exec.Command(c.etcd, "--config-file="+c.configFile(i))
	cmd.Stderr = os.Stderr
	g.Expect(cmd.Start()).To(Succeed())
	c.processes[i] = cmd
}

func (c *cluster) stop(i int) {
	_ = c.processes[i].Process.Kill()
	_ = c.processes[i].Wait()
	delete(c.processes, i)
}

// awaitVoters waits until exactly n voters are listed and have started.
func (c *cluster) awaitVoters(g Gomega, n int) { c.awaitVotersAt(g, 0, n) }

// awaitVotersAt asks one of the members.
func (c *cluster) awaitVotersAt(g Gomega, i, n int) {
	c.t.Helper()
	g.Eventually(func(g Gomega) {
		c.ask(g, i, func(ctx context.Context, etcd *clientv3.Client) error {
			list, err := etcd.MemberList(ctx)
			if err != nil {
				return err
			}
			voters := 0
			for _, m := range list.Members {
				if len(m.ClientURLs) > 0 && !m.IsLearner {
					voters++
				}
			}
			g.Expect(voters).To(Equal(n))
			return nil
		})
	}).WithTimeout(machine.Patience()).Should(Succeed())
}

// change changes the member list, as the operator does. etcd accepts a change only once the others have been connected for a while.
func (c *cluster) change(g Gomega, change func(context.Context, *clientv3.Client) error) {
	c.t.Helper()
	c.changeAt(g, 0, change)
}

// wasDone are the answers to a change that was carried out before, if its first answer was lost.
var wasDone = []error{rpctypes.ErrPeerURLExist, rpctypes.ErrMemberNotFound, rpctypes.ErrNotLeader}

// changeAt changes something at a member: again and again, since on a busy machine answers are lost.
func (c *cluster) changeAt(g Gomega, i int, change func(context.Context, *clientv3.Client) error) {
	c.t.Helper()
	lost := false
	g.Eventually(func() (err error) {
		c.ask(g, i, func(ctx context.Context, etcd *clientv3.Client) error {
			ctx, cancel := context.WithTimeout(ctx, machine.Scaled(5*time.Second))
			defer cancel()
			if err = change(ctx, etcd); lost && slices.Contains(wasDone, err) {
				err = nil
			}
			return nil
		})
		lost = lost || err != nil && !etcdclient.IsRefusal(err)
		return err
	}).WithTimeout(machine.Patience()).Should(Succeed())
}

// add adds a member as a learner, and remove removes a member by its ID.
func (c *cluster) add(g Gomega, i int) {
	c.change(g, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.MemberAddAsLearner(ctx, []string{c.url(i, c.peer)})
		return err
	})
}

func (c *cluster) remove(g Gomega, id string) {
	number, err := strconv.ParseUint(id, 16, 64)
	g.Expect(err).NotTo(HaveOccurred())
	c.change(g, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.MemberRemove(ctx, number)
		return err
	})
}

// listedID returns the ID, in hex, of the member that is listed with the peer URL of one; empty if there is none.
func (c *cluster) listedID(g Gomega, i int) (id string) {
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		list, err := etcd.MemberList(ctx)
		if err != nil {
			return err
		}
		for _, m := range list.Members {
			if slices.Contains(m.PeerURLs, c.url(i, c.peer)) {
				id = strconv.FormatUint(m.ID, 16)
			}
		}
		return nil
	})
	return id
}

// refusal is why a member does not start, without the words for people.
func (c *cluster) refusal(g Gomega, i int) words.Refusal {
	c.t.Helper()
	refusal, ok := errors.AsType[*words.Refusal](c.prepare(i, 0))
	g.Expect(ok).To(BeTrue())
	return words.Refusal{Reason: refusal.Reason, Volume: refusal.Volume}
}

// replaceThird lets the third member say that its data is gone, replaces it in the list by what it says, as the operator does, and
// starts it.
func (c *cluster) replaceThird(g Gomega) {
	c.t.Helper()
	id := c.listedID(g, 2)
	g.Expect(c.refusal(g, 2)).To(Equal(words.Refusal{Reason: v1alpha1.ReasonDataLost, Volume: words.Volume{Store: words.StoreFree, Lost: id}}))
	c.remove(g, id)
	c.add(g, 2)
	c.start(g, 2, "existing")
}

// promote promotes a learner, as its agent does in a recovery.
func (c *cluster) promote(g Gomega, i int) {
	c.t.Helper()
	m, _, err := serve.NewMember(fmt.Sprintf("m%d", i), serve.SharedIn(c.memberDir(i), ""))
	g.Expect(err).NotTo(HaveOccurred())
	asked := false
	g.Eventually(func(g Gomega) {
		ctx, cancel := context.WithTimeout(context.Background(), machine.Scaled(2*time.Second))
		defer cancel()
		status, err := m.Status(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		if asked && !status.Learner {
			return // the answer was lost
		}
		g.Expect(status.Learner).To(BeTrue())
		asked = true
		g.Expect(m.Promote(ctx, status.MemberID)).To(Succeed())
	}).WithTimeout(machine.Patience()).Should(Succeed())
}

// id returns the ID of the cluster.
func (c *cluster) id(g Gomega) uint64 {
	var id uint64
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		list, err := etcd.MemberList(ctx)
		if err == nil {
			id = list.Header.ClusterId
		}
		return err
	})
	return id
}

// record records the cluster's ID, as the operator does once the cluster serves.
func (c *cluster) record(id uint64) {
	c.t.Helper()
	for i := range c.members {
		file := filepath.Join(c.memberDir(i), member.KeyClusterID)
		if err := os.WriteFile(file, []byte(strconv.FormatUint(id, 16)), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
}

// logFile returns the newest file of a member's write-ahead log.
func (c *cluster) logFile(g Gomega, i int) string {
	files, err := filepath.Glob(filepath.Join(c.dataDir(i), "member", "wal", "*.wal"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	return files[len(files)-1]
}

// damage overwrites the beginning of a member's log; repair restores it.
func (c *cluster) damage(g Gomega, i int) {
	path := c.logFile(g, i)
	content, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(c.memberDir(i), "good"), content, 0o600)).To(Succeed())
	copy(content[100:], "this was not written by etcd at all")
	g.Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
}

func (c *cluster) repair(g Gomega, i int) {
	content, err := os.ReadFile(filepath.Join(c.memberDir(i), "good"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(c.logFile(g, i), content, 0o600)).To(Succeed())
}

const key = "key"

func (c *cluster) put(g Gomega, value string) {
	c.changeAt(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.Put(ctx, key, value)
		return err
	})
}

// get reads the value from a member's own data.
func (c *cluster) get(g Gomega, i int) string {
	var value string
	c.ask(g, i, func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.Get(ctx, key, clientv3.WithSerializable())
		if err == nil && len(r.Kvs) == 1 {
			value = string(r.Kvs[0].Value)
		}
		return err
	})
	return value
}

// ask sends a request to a member.
func (c *cluster) ask(g Gomega, i int, question func(context.Context, *clientv3.Client) error) {
	etcd, err := clientv3.New(c.clientConfig(c.url(i, c.client)))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = etcd.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), machine.Patience())
	defer cancel()
	g.Expect(question(ctx, etcd)).To(Succeed())
}

func (c *cluster) write(g Gomega, i int, key string, value map[string]any) {
	data, err := yaml.Marshal(value)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.MkdirAll(c.memberDir(i), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(c.memberDir(i), key), data, 0o600)).To(Succeed())
}

func (c *cluster) memberDir(i int) string  { return filepath.Join(c.dir, strconv.Itoa(i)) }
func (c *cluster) dataDir(i int) string    { return filepath.Join(c.memberDir(i), "data") }
func (c *cluster) configFile(i int) string { return filepath.Join(c.memberDir(i), "rendered.yaml") }
func (c *cluster) url(i, port int) string {
	return fmt.Sprintf("%s://127.0.0.%d:%d", c.scheme(), i+1, port)
}
