// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// BenchmarkGoingBack takes a cluster of three back to a revision in the middle of its deltas, as the members do it, and after that back to the full
// snapshot, by hand, as etcd's documentation says: it has no way to a revision. RESTORE_BENCH_MIB is the size of the database, and
// RESTORE_BENCH_EVENTS how many events follow the full snapshot. Members share the disk and the processors of one machine.
//
//	RESTORE_BENCH_MIB=1024 RESTORE_BENCH_EVENTS=100000 go test ./test/integration/member -run xxx -bench GoingBack -benchtime 1x
func BenchmarkGoingBack(b *testing.B) {
	g := NewWithT(b)
	c := newCluster(b, 3)
	c.options = map[string]any{"unsafe-no-fsync": false, "quota-backend-bytes": 8 << 30}
	c.store = store.Config{Provider: store.Local, Container: b.TempDir(), Prefix: "here"}
	before := c.startThree(g)
	c.fill(g, number(b, "RESTORE_BENCH_MIB", 16))
	taker := c.takeSnapshots(g, func(o *snapshotter.Options) { o.DeltaLimit, o.Timeout = 10<<20, time.Hour })
	full, err := taker.Full(b.Context(), false)
	g.Expect(err).NotTo(HaveOccurred())
	byHand := filepath.Join(b.TempDir(), "snapshot.db")
	c.tool("etcdctl", "--endpoints="+c.url(0, c.client), "snapshot", "save", byHand)
	events := number(b, "RESTORE_BENCH_EVENTS", 1000)
	c.change100(g, events)
	_, err = taker.Delta(b.Context())
	g.Expect(err).NotTo(HaveOccurred())
	target := full.LastRevision + int64(events)/2

	settle(b)
	began := time.Now()
	point := c.preview(g, backup.Target{Revision: target})
	report(b, "s-preview", time.Since(began))
	g.Expect(point.Revision).To(Equal(target))
	point.Bump = 1_000_000_000

	settle(b)
	began = time.Now()
	for i := range 3 {
		c.stop(i)
	}
	c.recover(g, &member.Recovery{Task: "aaaa", Member: "m0", Source: member.RecoverFromPoint, PreviousClusterID: before, Restore: point})
	c.start(g, 0, "existing")
	id := c.idOf(g, 0)
	report(b, "s-until-one-serves", time.Since(began))
	c.recordID(id)
	for _, i := range []int{1, 2} {
		c.start(g, i, "existing")
		c.promote(g, i)
	}
	c.awaitVoters(g, 3)
	report(b, "s-until-three-vote", time.Since(began))

	settle(b)
	began = time.Now()
	c.goBackByHand(g, byHand)
	c.put(g, "served")
	report(b, "s-by-hand-until-it-serves", time.Since(began))
	c.awaitVoters(g, 3)
	report(b, "s-by-hand-until-three-vote", time.Since(began))
	for i := range 3 {
		c.stop(i)
	}
}

func report(b *testing.B, name string, took time.Duration) { b.ReportMetric(took.Seconds(), name) }

func number(b *testing.B, variable string, otherwise int) int {
	b.Helper()
	if text := os.Getenv(variable); text != "" {
		if _, err := fmt.Sscan(text, &otherwise); err != nil {
			b.Fatal(err)
		}
	}
	return otherwise
}

// settle has the disk finish what was begun.
func settle(b *testing.B) {
	b.Helper()
	if err := exec.Command("/usr/bin/sync").Run(); err != nil {
		b.Fatal(err)
	}
}

func (c *cluster) tool(name string, args ...string) {
	c.t.Helper()
	if output, err := exec.Command(machine.Program(c.t, name), args...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v\n%s", name, err, output)
	}
}

// fill writes a number of MiB.
func (c *cluster) fill(g Gomega, mib int) {
	value := string(bytes.Repeat([]byte("0123456789abcdef"), 4<<10)) // 64 KiB
	c.ask(g, 0, func(_ context.Context, etcd *clientv3.Client) error {
		for i := range mib {
			ops := make([]clientv3.Op, 16)
			for j := range ops {
				ops[j] = clientv3.OpPut(fmt.Sprintf("/filled/%06d-%02d", i, j), value)
			}
			if _, err := etcd.Txn(c.t.Context()).Then(ops...).Commit(); err != nil {
				return err
			}
		}
		return nil
	})
}

// change100 makes a number of changes of one revision each, to 100 keys in turn.
func (c *cluster) change100(g Gomega, events int) {
	const parallel = 64
	c.ask(g, 0, func(_ context.Context, etcd *clientv3.Client) error {
		var writing sync.WaitGroup
		failed := make([]error, parallel)
		for w := range parallel {
			writing.Go(func() {
				for i := w; i < events && failed[w] == nil; i += parallel {
					_, failed[w] = etcd.Put(c.t.Context(), fmt.Sprintf("/changed/%02d", i%100), strings.Repeat("x", 512))
				}
			})
		}
		writing.Wait()
		for _, err := range failed {
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// goBackByHand restores a snapshot into each of the stopped members, and starts them.
func (c *cluster) goBackByHand(g Gomega, file string) {
	for i := range 3 {
		c.stop(i)
	}
	var initial []string
	for i := range 3 {
		initial = append(initial, fmt.Sprintf("m%d=%s", i, c.url(i, c.peer)))
	}
	// Each on a machine of its own, they would run at the same time.
	var restoring sync.WaitGroup
	for i := range 3 {
		restoring.Go(func() {
			c.tool("etcdutl", "snapshot", "restore", file, "--bump-revision=1000000000", "--mark-compacted", "--data-dir="+filepath.Join(c.memberDir(i), "by-hand"),
				fmt.Sprintf("--name=m%d", i), "--initial-advertise-peer-urls="+c.url(i, c.peer), "--initial-cluster="+strings.Join(initial, ","))
		})
	}
	restoring.Wait()
	for i := range 3 {
		cmd := exec.Command(c.etcd, fmt.Sprintf("--name=m%d", i), "--data-dir="+filepath.Join(c.memberDir(i), "by-hand"), "--listen-client-urls="+c.url(i, c.client),
			"--advertise-client-urls="+c.url(i, c.client), "--listen-peer-urls="+c.url(i, c.peer), "--initial-advertise-peer-urls="+c.url(i, c.peer),
			"--initial-cluster="+strings.Join(initial, ","), "--log-level=error", "--quota-backend-bytes=8589934592")
		cmd.Stderr = os.Stderr
		g.Expect(cmd.Start()).To(Succeed())
		c.processes[i] = cmd
	}
}
