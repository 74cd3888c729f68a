// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	judge "github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"github.com/etcd-foreman/etcd-foreman/test/load"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func TestDefragmentation(t *testing.T) {
	recording(t)
	for _, program := range versions("etcd", "etcd-3.6") {
		c := start(t, options{members: 1, program: program, dir: t.TempDir(), args: []string{"--quota-backend-bytes=4000000000"}})
		c.fill("/registry/secrets", 600, 1_000_000)
		c.writes(20, 1<<10)
		made := c.client(0)
		c.again = func(ctx context.Context) {
			go func() { _, _ = made.Defragment(context.WithoutCancel(ctx), "http://"+c.members[0].client) }()
		}
		time.AfterFunc(5*time.Second, func() { c.again(t.Context()) })
		c.expect("defragmentation-"+program, judge.Defragmentation, "One member with 600 MB, which is defragmented during the measurement.", 20*time.Second)
		c.kill(0)
	}
}

func TestBackup(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1, wrap: slowSync(t, 30*time.Millisecond, 0), args: []string{"--quota-backend-bytes=4000000000"}})
	c.fill("/registry/secrets", 200, 1_000_000)
	c.writes(20, 1<<10)
	made := c.client(0)
	snapshot := func(ctx context.Context) {
		if r, err := made.Snapshot(ctx); err == nil {
			_, _ = io.Copy(io.Discard, r)
			_ = r.Close()
		}
	}
	c.again = func(ctx context.Context) {
		go func() {
			for ctx.Err() == nil {
				snapshot(ctx)
			}
		}()
	}
	time.AfterFunc(2*time.Second, func() { snapshot(context.Background()) })
	c.expect("backup", judge.Backup, "One member with 200 MB whose disk is slow (each fdatasync takes 30 ms longer), and whose snapshot is read.", 20*time.Second)
}

func TestCompaction(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1, args: []string{"--quota-backend-bytes=4000000000", "--compaction-batch-limit=1000000"}})
	made := c.client(0)
	revisions := func() {
		stop := c.during(8, func(ctx context.Context, n int) error {
			var ops []clientv3.Op
			for k := range 120 {
				ops = append(ops, clientv3.OpPut(fmt.Sprintf("/registry/events/e-%d", k), "v"))
			}
			_, err := made.Txn(ctx).Then(ops...).Commit()
			return err
		})
		pauseFor(20 * time.Second)
		stop()
	}
	compact := func() {
		if r, err := made.Get(context.Background(), "x"); err == nil {
			_, _ = made.Compact(context.Background(), r.Header.Revision, clientv3.WithCompactPhysical())
		}
	}
	c.again = func(context.Context) {
		revisions()
		go compact()
	}
	revisions()
	c.writes(20, 1<<10)
	time.AfterFunc(3*time.Second, compact)
	c.expect("compaction", judge.Compaction, "One member with --compaction-batch-limit=1000000, which compacts hundreds of thousands of revisions at once.", 30*time.Second)
}

func TestQuota(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1, args: []string{"--quota-backend-bytes=50000000"}})
	c.fill("/registry/secrets", 38, 1_000_000)
	c.writes(20, 10)
	c.expect("quota", judge.Quota, "One member with a quota of 50 MB, most of which is used.", 10*time.Second)
}

func TestNoSpace(t *testing.T) {
	recording(t)
	c := start(t, options{members: 3, args: []string{"--quota-backend-bytes=20000000"}})
	made := c.client(0)
	c.Eventually(func() error {
		_, err := made.Put(t.Context(), fmt.Sprintf("/registry/secrets/s-%d", time.Now().UnixNano()), strings.Repeat("v", 1_000_000))
		return err
	}).Should(MatchError(ContainSubstring("database space exceeded")))
	c.expect("no-space", judge.AlarmNoSpace, "Three members whose databases have reached the quota.", 10*time.Second)
}

func TestFragmentation(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1, args: []string{"--quota-backend-bytes=4000000000"}})
	c.fill("/registry/secrets", 200, 1_000_000)
	made := c.client(0)
	c.Expect(load.Compact(t.Context(), made, "/registry/secrets")).To(Succeed())
	c.writes(20, 1<<10)
	c.expect("fragmentation", judge.Fragmentation, "One member; 200 MB were written, deleted and compacted.", 10*time.Second)
}

func TestFileDescriptors(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1, wrap: func(int) []string { return []string{"prlimit", "--nofile=1000"} }})
	// etcd keeps 150 for itself.
	for range 800 {
		connection, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.members[0].client)
		c.Expect(err).NotTo(HaveOccurred())
		defer func() { _ = connection.Close() }()
	}
	c.expect("file-descriptors", judge.FileDescriptors, "One member that may open 1,000 files, with 800 connections.", 10*time.Second)
}

func TestDiskFull(t *testing.T) {
	recording(t)
	dir := t.TempDir()
	if os.Getuid() != 0 {
		t.Skip("it takes root to mount")
	}
	if err := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", "size=150m", "none", dir).Run(); err != nil {
		t.Skip("it takes a mount: ", err)
	}
	t.Cleanup(func() { _ = exec.CommandContext(context.Background(), "umount", "-l", dir).Run() })
	c := start(t, options{members: 1, dir: dir, args: []string{"--quota-backend-bytes=4000000000"}})
	made := c.client(0)
	c.during(2, func(ctx context.Context, n int) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err := made.Put(ctx, fmt.Sprintf("/registry/secrets/s-%d", n), strings.Repeat("v", 1_000_000))
		return err
	})
	c.Eventually(func() string { return c.members[0].log.String() }).Should(ContainSubstring("no space left on device"))
	c.expect("disk-full", judge.DiskFull, "One member whose volume is full.", 10*time.Second)
}
