// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/prepare"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"k8s.io/utils/clock"
)

// prepareVariable makes the test binary a process that prepares the member in a folder, to be killed, and storeVariable has the container of
// its backups; empty for none.
const prepareVariable, storeVariable = "PREPARE_MEMBER_IN", "PREPARE_BACKUPS_IN"

func TestMain(m *testing.M) {
	dir := os.Getenv(prepareVariable)
	if dir == "" {
		os.Exit(m.Run())
	}
	o := prepare.Options{Name: "m" + filepath.Base(dir), SharedDir: dir, ConfigFile: filepath.Join(dir, "rendered.yaml"), Patience: machine.Patience(), Clock: clock.RealClock{}}
	if backups := os.Getenv(storeVariable); backups != "" {
		o.Backups = prepare.StoredBackups{Config: store.Config{Provider: store.Local, Container: backups, Prefix: "here"}, Log: logr.Discard()}
	}
	err := prepare.Run(context.Background(), logr.Discard(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// process is one that prepares a member.
func (c *cluster) process(i int) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), prepareVariable+"="+c.memberDir(i), storeVariable+"="+c.store.Container), os.Stderr
	return cmd
}

// Everything that etcd acknowledged is recovered, even if it is only in the log and not yet marked committed: keys,
// deletions, transactions, leases, users, alarms. The state is identical, except for the other members, and etcd starts
// with it.
func TestEverythingInTheLogIsRecovered(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1).single(g)
	c.putMany(g, 50, 100)
	early := c.copyDatabase(g)
	c.putMany(g, 100, 100)
	c.ask(g, 0, changeEverything)
	want := c.revision(g)
	hash := c.hash(g, want, nil)
	id := c.idOf(g, 0)
	enableAuth(g, c)
	c.stop(0)
	c.rewind(g, early)

	// etcd itself drops entries that it does not know to be committed.
	lossy := filepath.Join(t.TempDir(), "lossy")
	g.Expect(os.CopyFS(lossy, os.DirFS(c.dataDir(0)))).To(Succeed())
	g.Expect(c.forceNewCluster(g, lossy)).To(BeNumerically("<", want), "if etcd keeps everything now, the rebuild is no longer needed")

	survey := c.survey(g, 0)
	g.Expect(survey.State).To(Equal(member.SurveyPresent), survey.Damage)
	g.Expect(survey.LastIndex).To(BeNumerically(">", survey.CommitIndex+100))
	g.Expect(survey.Revision).To(BeNumerically("<", want))
	g.Expect(survey.MaxRevision()).To(BeNumerically(">=", want), "whatever the database lacks")
	c.recover(g, &member.Recovery{Task: "5b1c", Member: "m0", Source: member.RecoverFromData, PreviousClusterID: id})
	c.start(g, 0, "existing")
	root := &clientv3.Config{Username: "root", Password: "secret"}
	g.Expect(c.hash(g, want, root)).To(Equal(hash))
	c.askAs(g, root, func(ctx context.Context, etcd *clientv3.Client) error { return expectEverything(ctx, g, etcd) })
	c.askAs(g, nil, func(ctx context.Context, etcd *clientv3.Client) error {
		_, err := etcd.Get(ctx, "deleted")
		g.Expect(err).To(MatchError(ContainSubstring("user name is empty")), "auth is on")
		return nil
	})
}

// changeEverything makes a change of each kind.
func changeEverything(ctx context.Context, etcd *clientv3.Client) error {
	lease, err := etcd.Grant(ctx, 600)
	if err != nil {
		return err
	}
	gone, err := etcd.Grant(ctx, 600)
	if err != nil {
		return err
	}
	for _, change := range []func() error{
		func() error { _, err := etcd.Put(ctx, "leased", "x", clientv3.WithLease(lease.ID)); return err },
		func() error { _, err := etcd.Put(ctx, "gone", "x", clientv3.WithLease(gone.ID)); return err },
		func() error { _, err := etcd.Revoke(ctx, gone.ID); return err },
		func() error { _, err := etcd.Put(ctx, "deleted", "x"); return err },
		func() error {
			_, err := etcd.Txn(ctx).If(clientv3.Compare(clientv3.Version("deleted"), "=", 1)).
				Then(clientv3.OpDelete("deleted"), clientv3.OpPut("txn", "then")).Else(clientv3.OpPut("txn", "else")).Commit()
			return err
		},
		func() error { _, err := etcd.Compact(ctx, 60); return err },
		func() error { _, err := etcd.MemberAddAsLearner(ctx, []string{"http://127.0.0.9:1"}); return err },
		func() error {
			_, err := etcdserverpb.NewMaintenanceClient(etcd.ActiveConnection()).Alarm(ctx, &etcdserverpb.AlarmRequest{
				Action: etcdserverpb.AlarmRequest_ACTIVATE, MemberID: 7, Alarm: etcdserverpb.AlarmType_NOSPACE,
			})
			return err
		},
		func() error {
			if _, err := etcd.Put(ctx, "refused", "x"); err == nil {
				return fmt.Errorf("etcd accepted a write despite the alarm")
			}
			return nil
		},
	} {
		if err := change(); err != nil {
			return err
		}
	}
	return nil
}

func expectEverything(ctx context.Context, g Gomega, etcd *clientv3.Client) error {
	for key, want := range map[string]string{"leased": "x", "gone": "", "deleted": "", "txn": "then", "refused": ""} {
		r, err := etcd.Get(ctx, key)
		if err != nil {
			return err
		}
		got := ""
		if len(r.Kvs) > 0 {
			got = string(r.Kvs[0].Value)
		}
		g.Expect(got).To(Equal(want), key)
		if key != "leased" {
			continue
		}
		ttl, err := etcd.TimeToLive(ctx, clientv3.LeaseID(r.Kvs[0].Lease), clientv3.WithAttachedKeys())
		if err != nil {
			return err
		}
		g.Expect(ttl.GrantedTTL).To(Equal(int64(600)))
		g.Expect(ttl.Keys).To(HaveLen(1))
	}
	alarms, err := etcd.AlarmList(ctx)
	if err != nil {
		return err
	}
	g.Expect(alarms.Alarms).To(HaveLen(1))
	list, err := etcd.MemberList(ctx)
	if err == nil {
		g.Expect(list.Members).To(HaveLen(1), "the learner belonged to the previous cluster")
		g.Expect(list.Members[0].Name).To(Equal("m0"))
	}
	return err
}

func enableAuth(g Gomega, c *cluster) {
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		if _, err := etcd.UserAdd(ctx, "root", "secret"); err != nil {
			return err
		}
		if _, err := etcd.UserGrantRole(ctx, "root", "root"); err != nil {
			return err
		}
		_, err := etcd.AuthEnable(ctx)
		return err
	})
}

// A log with much more than one raft snapshot's worth of entries, none of them in the database.
func TestLargeLogIsRecovered(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	c := newCluster(t, 1)
	c.options = map[string]any{"snapshot-count": 10_000_000}
	c.single(g)
	early := c.copyDatabase(g)
	want := c.putMany(g, 30_000, 4_000)
	hash := c.hash(g, want, nil)
	id := c.idOf(g, 0)
	c.stop(0)
	c.rewind(g, early)
	c.recover(g, &member.Recovery{Task: "5b1c", Member: "m0", Source: member.RecoverFromData, PreviousClusterID: id})
	began := time.Now()
	c.start(g, 0, "existing")
	t.Logf("30000 entries of 4000 bytes, 117 MiB of them, were replayed in %s", time.Since(began).Round(10*time.Millisecond))
	g.Expect(c.hash(g, want, nil)).To(Equal(hash))
}

// copyDatabase copies the database of a running member, as of some moment.
func (c *cluster) copyDatabase(g Gomega) (path string) {
	c.stop(0)
	path = filepath.Join(c.memberDir(0), "early.db")
	copyFile(g, filepath.Join(c.dataDir(0), "member", "snap", "db"), path)
	c.start(g, 0, "existing")
	c.awaitVoters(g, 1)
	return path
}

// rewind gives a stopped member an earlier database, and a log that marks no more committed than that database has. This
// is a member whose machine crashed at the worst moment.
func (c *cluster) rewind(g Gomega, database string) {
	copyFile(g, database, filepath.Join(c.dataDir(0), "member", "snap", "db"))
	log, err := wal.Open(zap.NewNop(), filepath.Join(c.dataDir(0), "member", "wal"), &walpb.Snapshot{})
	g.Expect(err).NotTo(HaveOccurred())
	_, state, entries, err := log.ReadAll()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(entries)).To(BeNumerically(">", 100))
	state.Commit = proto.Uint64(applied(g, database))
	g.Expect(log.Save(state, nil)).To(Succeed())
	g.Expect(log.Close()).To(Succeed())
}

// applied returns the index of the last entry in a database.
func applied(g Gomega, path string) (index uint64) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(db.Close()).To(Succeed()) }()
	g.Expect(db.View(func(tx *bolt.Tx) error {
		for _, b := range tx.Bucket(schema.Meta.Name()).Get(schema.MetaConsistentIndexKeyName) {
			index = index<<8 | uint64(b)
		}
		return nil
	})).To(Succeed())
	return index
}

// forceNewCluster starts etcd on a data directory with its own recovery and returns the remaining revision.
func (c *cluster) forceNewCluster(g Gomega, dir string) (revision int64) {
	cmd := exec.Command(c.etcd, "--name=m0", "--data-dir="+dir, "--force-new-cluster", "--log-level=error", "--unsafe-no-fsync",
		"--listen-client-urls="+c.url(0, c.client), "--advertise-client-urls="+c.url(0, c.client), "--listen-peer-urls="+c.url(0, c.peer))
	cmd.Stderr = os.Stderr
	g.Expect(cmd.Start()).To(Succeed())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	g.Eventually(func(g Gomega) { revision = c.revision(g) }).WithTimeout(machine.Patience()).Should(Succeed())
	return revision
}

// putMany puts keys with values of a size and returns the revision of the last one.
func (c *cluster) putMany(g Gomega, n, size int) (revision int64) {
	const batch = 100
	value := strings.Repeat("v", size)
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		pending := make(chan error, batch)
		for i := range n {
			if i >= batch {
				if err := <-pending; err != nil {
					return err
				}
			}
			go func() {
				_, err := etcd.Put(ctx, fmt.Sprintf("many-%d", i), value)
				for err != nil && ctx.Err() == nil { // another member leads, say
					select {
					case <-ctx.Done():
					case <-time.After(50 * time.Millisecond):
						_, err = etcd.Put(ctx, fmt.Sprintf("many-%d", i), value)
					}
				}
				pending <- err
			}()
		}
		for range min(n, batch) {
			if err := <-pending; err != nil {
				return err
			}
		}
		return nil
	})
	return c.revision(g)
}

func (c *cluster) revision(g Gomega) (revision int64) {
	c.ask(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
		r, err := etcd.Get(ctx, "x")
		if err == nil {
			revision = r.Header.Revision
		}
		return err
	})
	return revision
}

// hash returns etcd's own checksum over all keys and their history up to a revision.
func (c *cluster) hash(g Gomega, revision int64, as *clientv3.Config) (hash uint32) {
	g.Eventually(func(g Gomega) {
		c.askAs(g, as, func(ctx context.Context, etcd *clientv3.Client) error {
			r, err := etcd.HashKV(ctx, c.url(0, c.client), revision)
			if err == nil {
				hash = r.Hash
			}
			return err
		})
	}).WithTimeout(machine.Patience()).Should(Succeed())
	return hash
}

// askAs sends a request to the first member as a user.
func (c *cluster) askAs(g Gomega, as *clientv3.Config, question func(context.Context, *clientv3.Client) error) {
	config := clientv3.Config{}
	if as != nil {
		config = *as
	}
	config.Endpoints, config.Logger, config.DialTimeout = []string{c.url(0, c.client)}, zap.NewNop(), machine.Patience()
	etcd, err := clientv3.New(config)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = etcd.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), machine.Patience())
	defer cancel()
	g.Expect(question(ctx, etcd)).To(Succeed())
}

func copyFile(g Gomega, from, to string) {
	source, err := os.Open(from)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = source.Close() }()
	target, err := os.Create(to)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = io.Copy(target, source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(target.Close()).To(Succeed())
}
