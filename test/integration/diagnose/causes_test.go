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
	"syscall"
	"testing"
	"time"

	judge "github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	. "github.com/onsi/gomega"
	"github.com/prometheus/procfs"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// recording skips what takes minutes and is recorded already.
func recording(t *testing.T) {
	t.Helper()
	if os.Getenv("RECORD") == "" {
		t.Skip("recorded in internal/diagnose/testdata; RECORD=1 records it again")
	}
}

// slowSync lets each fdatasync of some members take longer.
func slowSync(t *testing.T, took time.Duration, members ...int) func(int) []string {
	if _, err := exec.LookPath("strace"); err != nil || os.Getuid() != 0 {
		t.Skip("it takes root and strace")
	}
	return func(i int) []string {
		for _, m := range members {
			if i == m {
				return []string{"strace", "-f", "-qq", "--seccomp-bpf", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", fmt.Sprintf("inject=fdatasync:delay_exit=%d", took.Microseconds())}
			}
		}
		return nil
	}
}

func TestHealthy(t *testing.T) {
	c := start(t, options{members: 3})
	c.writes(50, 1<<10)
	window := 8 * time.Second
	if os.Getenv("RECORD") != "" {
		window = 30 * time.Second
	}
	v := c.expect("healthy", "", "Three members with 50 writes of 1 KiB per second.", window)
	c.Expect(v.Headline).To(MatchRegexp(`^etcd answers in .* ms: it is not etcd\.$`))
}

func TestHealthyUnderLoad(t *testing.T) {
	recording(t)
	for _, program := range []string{"etcd", "etcd-3.6", "etcd-3.5"} {
		c := start(t, options{members: 3, program: program})
		c.writes(400, 2<<10)
		reader := c.client()
		c.during(2, func(ctx context.Context, _ int) error {
			pause(ctx, 20*time.Millisecond)
			_, err := reader.Get(ctx, "/registry/pods", clientv3.WithPrefix(), clientv3.WithLimit(50))
			return err
		})
		c.expect("healthy-load-"+program, "", "Three members with 400 writes of 2 KiB per second, and pages of 50 keys read 100 times a second.", 20*time.Second)
		for i := range c.members {
			c.kill(i)
		}
	}
}

func TestSlowDisk(t *testing.T) {
	c := start(t, options{members: 1, wrap: slowSync(t, 40*time.Millisecond, 0)})
	c.writes(20, 1<<10)
	v := c.expect("slow-disk-single", judge.SlowDisk, "One member, each fdatasync of which takes 40 ms longer.", 8*time.Second)
	c.Expect(v.Findings[0].Grade).To(Equal(judge.Sure))
	c.Expect(v.Findings[0].RulesOut).NotTo(BeEmpty())
}

func TestSlowDisks(t *testing.T) {
	recording(t)
	for _, s := range []struct {
		name, program string
		took          time.Duration
		members       []int
	}{
		{"slow-disk-all", "etcd", 20 * time.Millisecond, []int{0, 1, 2}},
		{"slow-disk-one", "etcd-3.6", 100 * time.Millisecond, []int{1}},
		{"slow-disk-400ms", "etcd-3.5", 400 * time.Millisecond, []int{0, 1, 2}},
	} {
		c := start(t, options{members: 3, program: s.program, wrap: slowSync(t, s.took, s.members...), args: []string{"--election-timeout=5000", "--heartbeat-interval=500"}})
		c.writes(50, 1<<10)
		c.expect(s.name, judge.SlowDisk, fmt.Sprintf("Three members; each fdatasync of %d of them takes %s longer.", len(s.members), s.took), 30*time.Second)
		for i := range c.members {
			c.kill(i)
		}
	}
}

// stops lets a process run for 100 ms of each second only.
func (c *etcds) stops(i int, stopped, runs time.Duration) {
	pid := c.members[i].process.Pid
	c.during(1, func(ctx context.Context, _ int) error {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		pause(ctx, stopped)
		_ = syscall.Kill(pid, syscall.SIGCONT)
		pause(ctx, runs)
		return nil
	})
}

func TestStopped(t *testing.T) {
	recording(t)
	for _, program := range []string{"etcd", "etcd-3.5"} {
		c := start(t, options{members: 3, program: program, args: []string{"--election-timeout=10000", "--heartbeat-interval=1000"}})
		c.writes(50, 1<<10)
		c.stops(c.leader(), 450*time.Millisecond, 50*time.Millisecond)
		c.expect("cpu-stopped-"+program, judge.CPU, "Three members; the leader is stopped (SIGSTOP) for 0.45 s of each half second.", 30*time.Second)
		for i := range c.members {
			c.kill(i)
		}
	}
}

func TestLateNetwork(t *testing.T) {
	recording(t)
	c := start(t, options{members: 3, late: 60 * time.Millisecond, args: []string{"--election-timeout=5000", "--heartbeat-interval=500"}})
	c.writes(20, 1<<10)
	c.expect("network-late", judge.Network, "Three members; what each sends to its peers arrives 60 ms later.", 65*time.Second)
}

func TestPeersCut(t *testing.T) {
	recording(t)
	c := start(t, options{members: 3, late: time.Millisecond})
	c.writes(20, 1<<10)
	cut := (c.leader() + 1) % 3
	c.members[cut].proxy.refuse()
	pauseFor(10 * time.Second)
	c.expect("peers-cut", judge.PeerConnections, "Three members; one of them, not the leader, takes no connections from its peers.", 20*time.Second)
}

func pauseFor(d time.Duration) { pause(context.Background(), d) }

func (c *etcds) fill(prefix string, keys, size int) {
	made := c.client(0)
	value := strings.Repeat("v", size)
	perTxn := max(min(100, 500_000/size), 1)
	for n := 0; n < keys; n += perTxn {
		var ops []clientv3.Op
		for k := n; k < min(n+perTxn, keys); k++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s/k-%06d", prefix, k), value))
		}
		_, err := made.Txn(c.t.Context()).Then(ops...).Commit()
		c.Expect(err).NotTo(HaveOccurred())
	}
}

func TestDefragmentation(t *testing.T) {
	recording(t)
	for _, program := range []string{"etcd", "etcd-3.6"} {
		c := start(t, options{members: 1, program: program, dir: t.TempDir(), args: []string{"--quota-backend-bytes=4000000000"}})
		c.fill("/registry/secrets", 600, 1_000_000)
		c.writes(20, 1<<10)
		made := c.client(0)
		time.AfterFunc(5*time.Second, func() { _, _ = made.Defragment(context.Background(), "http://"+c.members[0].client) })
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
	time.AfterFunc(2*time.Second, func() {
		if r, err := made.Snapshot(context.Background()); err == nil {
			_, _ = io.Copy(io.Discard, r)
			_ = r.Close()
		}
	})
	c.expect("backup", judge.Backup, "One member with 200 MB whose disk is slow (each fdatasync takes 30 ms longer), and whose snapshot is read.", 20*time.Second)
}

func TestCompaction(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1, args: []string{"--quota-backend-bytes=4000000000", "--compaction-batch-limit=1000000"}})
	made := c.client(0)
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
	c.writes(20, 1<<10)
	time.AfterFunc(3*time.Second, func() {
		if r, err := made.Get(context.Background(), "x"); err == nil {
			_, _ = made.Compact(context.Background(), r.Header.Revision, clientv3.WithCompactPhysical())
		}
	})
	c.expect("compaction", judge.Compaction, "One member with --compaction-batch-limit=1000000, which compacts hundreds of thousands of revisions at once.", 30*time.Second)
}

func TestLargeRanges(t *testing.T) {
	recording(t)
	for _, program := range []string{"etcd", "etcd-3.5"} {
		c := start(t, options{members: 1, program: program, args: []string{"--quota-backend-bytes=4000000000"}})
		c.fill("/registry/configmaps", 40_000, 4000)
		c.writes(20, 1<<10)
		made := c.client(0)
		c.during(4, func(ctx context.Context, _ int) error {
			_, err := made.Get(ctx, "/registry/configmaps", clientv3.WithPrefix())
			return err
		})
		c.expect("large-ranges-"+program, judge.LargeRanges, "One member with 40,000 keys of 4 KB, which four clients list again and again.", 20*time.Second)
		c.kill(0)
	}
}

func TestLargeValues(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1, dir: t.TempDir(), args: []string{"--quota-backend-bytes=8000000000"}})
	made := c.client(0)
	value := strings.Repeat("v", 1_000_000)
	c.during(8, func(ctx context.Context, n int) error {
		_, err := made.Put(ctx, fmt.Sprintf("/registry/secrets/s-%d", n%20), value)
		pause(ctx, 50*time.Millisecond)
		return err
	})
	c.expect("large-values", judge.LargeValues, "One member; eight clients write values of 1 MB.", 20*time.Second)
}

func TestWriteStorm(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1})
	made := c.client(0)
	c.during(600, func(ctx context.Context, n int) error {
		_, err := made.Put(ctx, fmt.Sprintf("/registry/events/e-%d", n%5000), "0123456789")
		return err
	})
	c.expect("write-storm", judge.WriteStorm, "One member; 600 clients write without a pause.", 20*time.Second)
}

func TestLeases(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1})
	made := c.client(0)
	c.during(100, func(ctx context.Context, _ int) error {
		_, err := made.Grant(ctx, 2)
		return err
	})
	pauseFor(5 * time.Second)
	c.expect("leases", judge.Leases, "One member; 100 clients grant leases of 2 s without a pause.", 20*time.Second)
}

func TestWatches(t *testing.T) {
	recording(t)
	for _, program := range []string{"etcd", "etcd-3.5"} {
		c := start(t, options{members: 1, program: program})
		c.stall()
		c.writes(200, 4<<10)
		pauseFor(15 * time.Second)
		c.expect("watches-"+program, judge.Watches, "One member; 500 watchers with prevKV on one stream, which is not read.", 20*time.Second)
		c.kill(0)
	}
}

func TestPasswords(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1})
	admin := c.client(0)
	_, err := admin.UserAdd(t.Context(), "root", "secret")
	c.Expect(err).NotTo(HaveOccurred())
	_, err = admin.RoleAdd(t.Context(), "root")
	c.Expect(err).NotTo(HaveOccurred())
	_, err = admin.UserGrantRole(t.Context(), "root", "root")
	c.Expect(err).NotTo(HaveOccurred())
	_, err = admin.AuthEnable(t.Context())
	c.Expect(err).NotTo(HaveOccurred())
	c.during(6, func(ctx context.Context, _ int) error {
		_, err := admin.Authenticate(ctx, "root", "secret")
		return err
	})
	c.expect("passwords", judge.Passwords, "One member with users; six clients log in again and again.", 20*time.Second)
}

func TestElections(t *testing.T) {
	recording(t)
	c := start(t, options{members: 3})
	c.writes(20, 1<<10)
	time.AfterFunc(5*time.Second, func() {
		pid := c.members[c.leader()].process.Pid
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		time.AfterFunc(4*time.Second, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	})
	c.expect("elections", judge.Elections, "Three members; the leader is stopped for 4 s.", 20*time.Second)
}

func TestFollowerBehind(t *testing.T) {
	recording(t)
	slow := 2
	c := start(t, options{members: 3, wrap: slowSync(t, 900*time.Millisecond, slow), args: []string{"--election-timeout=10000", "--heartbeat-interval=500"}})
	c.Eventually(func() int { return c.leader() }).ShouldNot(Equal(slow))
	made := c.client(c.leader())
	c.during(200, func(ctx context.Context, n int) error {
		_, err := made.Put(ctx, fmt.Sprintf("/registry/events/e-%d", n%5000), "0123456789")
		return err
	})
	pauseFor(15 * time.Second)
	c.expect("follower-behind", judge.SlowDisk, "Three members; each fdatasync of one follower takes 0.9 s longer, and 200 clients write without a pause.", 20*time.Second)
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
	_, err := made.Delete(t.Context(), "/registry/secrets", clientv3.WithPrefix())
	c.Expect(err).NotTo(HaveOccurred())
	r, err := made.Get(t.Context(), "x")
	c.Expect(err).NotTo(HaveOccurred())
	_, err = made.Compact(t.Context(), r.Header.Revision, clientv3.WithCompactPhysical())
	c.Expect(err).NotTo(HaveOccurred())
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

func TestLostQuorum(t *testing.T) {
	recording(t)
	c := start(t, options{members: 3})
	c.kill(1)
	c.kill(2)
	pauseFor(3 * time.Second)
	c.expect("no-quorum", judge.NoQuorum, "Three members, two of which were killed.", 10*time.Second)
}

func TestMemberDown(t *testing.T) {
	recording(t)
	c := start(t, options{members: 3})
	c.writes(20, 1<<10)
	c.kill((c.leader() + 1) % 3)
	pauseFor(3 * time.Second)
	c.expect("member-down", judge.MemberDown, "Three members, one of which was killed.", 10*time.Second)
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

// cpuOf returns how much CPU a process has used.
func cpuOf(t *testing.T, pid int) time.Duration {
	p, err := procfs.NewProc(pid)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := p.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

// A measurement costs a member less than one percent of a core.
func TestCost(t *testing.T) {
	recording(t)
	c := start(t, options{members: 1})
	pid := c.members[0].process.Pid
	const window = 30 * time.Second
	pauseFor(5 * time.Second)
	before := cpuOf(t, pid)
	pauseFor(window)
	idle := cpuOf(t, pid) - before
	before = cpuOf(t, pid)
	c.measure(window)
	cost := cpuOf(t, pid) - before - idle
	t.Logf("an idle member used %s of CPU in %s, and %s more while it was measured", idle, window, cost)
	c.Expect(cost).To(BeNumerically("<", window/100))
}
