// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	judge "github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"github.com/etcd-foreman/etcd-foreman/test/load"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	"github.com/prometheus/procfs"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// recording skips what takes minutes and is recorded already.
func recording(t *testing.T) {
	t.Helper()
	if os.Getenv("RECORD") == "" && os.Getenv(etcdDiagnosis) == "" {
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
	quick := MatchRegexp(`^etcd answers in .* ms: it is not etcd\.$`)
	if machine.Scaled(time.Second) >= 4*time.Second {
		// A machine as busy as this one makes etcd slow indeed.
		quick = Or(quick, HavePrefix("etcd is slow, and no cause shows"))
	}
	c.Expect(v.Headline).To(quick)
}

func TestHealthyUnderLoad(t *testing.T) {
	recording(t)
	for _, program := range versions("etcd", "etcd-3.6", "etcd-3.5") {
		c := start(t, options{members: 3, program: program})
		c.writes(400, 2<<10)
		reader := c.client()
		c.during(2, func(ctx context.Context, _ int) error {
			load.Pause(ctx, 20*time.Millisecond)
			_, err := reader.Get(ctx, "/registry/pods", clientv3.WithPrefix(), clientv3.WithLimit(50))
			return err
		})
		c.expect("healthy-load-"+program, "", "Three members with 400 writes of 2 KiB per second, and pages of 50 keys read 100 times a second.", 20*time.Second)
		for i := range c.members {
			c.kill(i)
		}
	}
}

// Clients do what they do every day, and the diagnosis, asked again and again, finds nothing:
//
//	HOUR=1h go test ./test/integration/diagnose -run TestHealthyHour -timeout 2h -v | grep HOUR
func TestHealthyHour(t *testing.T) {
	lasts := load.Hour(t)
	c := start(t, options{members: 3, args: []string{"--auto-compaction-mode=periodic", "--auto-compaction-retention=1m"}})
	t.Cleanup(load.Everyday(c.client()))
	load.FindNothing(t, lasts, func() judge.Input { return c.measure(20 * time.Second) })
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
		load.Pause(ctx, stopped)
		_ = syscall.Kill(pid, syscall.SIGCONT)
		load.Pause(ctx, runs)
		return nil
	})
}

func TestStopped(t *testing.T) {
	recording(t)
	for _, program := range versions("etcd", "etcd-3.5") {
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

func pauseFor(d time.Duration) { load.Pause(context.Background(), d) }

func (c *etcds) fill(prefix string, keys, size int) {
	c.t.Helper()
	c.Expect(load.Fill(c.t.Context(), c.client(0), prefix, keys, size)).To(Succeed())
}

func TestElections(t *testing.T) {
	recording(t)
	c := start(t, options{members: 3})
	c.writes(20, 1<<10)
	c.again = func(context.Context) {
		pid := c.members[c.leader()].process.Pid
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		time.AfterFunc(4*time.Second, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
	time.AfterFunc(5*time.Second, func() { c.again(t.Context()) })
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

// A member that ends and starts again has counters that begin at zero: it does not count as fast.
func TestRestarted(t *testing.T) {
	c := start(t, options{members: 3})
	c.writes(20, 1<<10)
	window := machine.Scaled(8 * time.Second)
	which := (c.leader() + 1) % 3
	time.AfterFunc(window/4, func() {
		c.kill(which)
		c.members[which].again = time.Now()
		c.run(which)
	})
	v := c.expect("restarted", judge.Restarts, "Three members; a follower ends, and starts again at once.", window)
	c.Expect(v.Findings[0].Members).To(ConsistOf(c.members[which].name))
	c.Expect(v.Missing).To(ContainElement(HaveField("Signal", judge.SignalMetrics)))
}

// cpuOf returns how much CPU a process has used.
func cpuOf(t testing.TB, pid int) time.Duration {
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

// limit gives a process a limit of its CPU, in percent of a core, by a cgroup as the kubelet does.
func (c *etcds) limit(i, percent int) {
	c.t.Helper()
	folder, err := os.MkdirTemp("/sys/fs/cgroup/cpu", "diagnose-")
	if err != nil {
		c.t.Skip("it takes a cgroup: ", err)
	}
	c.t.Cleanup(func() { c.kill(i); _ = os.Remove(folder) })
	c.members[i].limit, c.members[i].cgroup = percent, folder
	write := func(name, value string) {
		c.Expect(os.WriteFile(filepath.Join(folder, name), []byte(value), 0o600)).To(Succeed())
	}
	write("cpu.cfs_period_us", "100000")
	write("cpu.cfs_quota_us", fmt.Sprint(percent*1000))
	// What wraps it has it as a child.
	pid := c.members[i].process.Pid
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	c.Expect(err).NotTo(HaveOccurred())
	for _, p := range append(strings.Fields(string(children)), fmt.Sprint(pid)) {
		write("cgroup.procs", p)
	}
}

// A process that is throttled measures long fsyncs, too: on a disk that is slow, the CPU is named first.
func TestThrottled(t *testing.T) {
	recording(t)
	for _, s := range []struct{ name, about string }{
		{"cpu-throttled", "One member with a CPU limit of 4 % of a core (cgroup), 100 writes of 1 KiB per second, and pages of 100 keys."},
		{"cpu-throttled-slow-disk", "One member with a CPU limit of 4 % of a core (cgroup) on a slow disk (each fdatasync takes 20 ms longer), with the same load."},
	} {
		o := options{members: 1}
		if s.name == "cpu-throttled-slow-disk" {
			o.wrap = slowSync(t, 20*time.Millisecond, 0)
		}
		c := start(t, o)
		c.fill("/registry/pods/default", 1000, 1000)
		c.limit(0, 4) // percent
		c.writes(100, 1<<10)
		reader := c.client()
		c.during(2, func(ctx context.Context, _ int) error {
			_, err := reader.Get(ctx, "/registry/pods", clientv3.WithPrefix(), clientv3.WithLimit(100))
			return err
		})
		c.expect(s.name, judge.CPU, s.about, 30*time.Second)
	}
}
