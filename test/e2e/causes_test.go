//go:build e2e

// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	diagnoseverb "github.com/etcd-foreman/etcd-foreman/internal/cli/diagnose"
	plugin "github.com/etcd-foreman/etcd-foreman/internal/cli/kube"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose"
	"github.com/etcd-foreman/etcd-foreman/internal/diagnose/diagnosetest"
	"github.com/etcd-foreman/etcd-foreman/test/load"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults/delay"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/faults/nft"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// injection is a cause that is injected into a cluster, and undone by the cleanup of its test.
type injection struct {
	name   string
	expect diagnose.Cause
	about  string
	// window is 20 s by default.
	window time.Duration
	inject func(*cluster)
}

// diagnose gathers what the plugin would, as an administrator.
func (c *cluster) diagnose(window time.Duration) diagnose.Input {
	c.t.Helper()
	flags := plugin.New(genericiooptions.NewTestIOStreamsDiscard())
	flags.Flags.KubeConfig, flags.Flags.Namespace = ptr.To(kubeconfig), &c.namespace
	connected, err := flags.Connect()
	c.Expect(err).NotTo(HaveOccurred())
	in, err := diagnoseverb.Gather(c.t.Context(), connected, clock.RealClock{}, c.etcd(c), diagnoseverb.Options{
		Window: window, Logs: true, HotPrefixes: true, Progress: func(int) func() { return func() {} },
	})
	c.Expect(err).NotTo(HaveOccurred())
	return in
}

// names injects one cause after the other, and expects that each is named first. RECORD=NAME writes what was measured to the folder of
// that name in internal/diagnose/testdata, RECORD=all everything, and RECORD=wrong what was judged wrongly.
func (c *cluster) names(all ...injection) {
	for _, i := range all {
		c.t.Run(i.name, func(t *testing.T) {
			sub := &cluster{WithT: NewWithT(t), t: t, namespace: c.namespace}
			sub.SetDefaultEventuallyTimeout(time.Minute)
			if i.window == 0 {
				i.window = 20 * time.Second
			}
			if i.inject != nil {
				i.inject(sub)
			}
			began, busy := time.Now(), machine.BusyCPU(t)
			in := sub.diagnose(i.window)
			took := time.Since(began)
			used := busy()
			v := diagnose.Judge(in)
			first, grade := diagnose.Cause("none"), diagnose.Grade("")
			if len(v.Findings) > 0 {
				first, grade = v.Findings[0].Cause, v.Findings[0].Grade
			}
			wrong := first != cmp.Or(i.expect, "none")
			if found := func(c diagnose.Cause) bool {
				return slices.ContainsFunc(v.Findings, func(f diagnose.Finding) bool { return f.Cause == c })
			}; first == diagnose.NodeCPU && used >= 95 {
				// That the machine is too busy is true, whatever runs on it.
				wrong = i.expect == "" && len(v.Findings) > 1 || i.expect != "" && !found(i.expect)
			}
			sub.record(i, in, wrong)
			t.Logf("RESULT | %t | %s | %s | %s %s | %s | CPU of the machine %.0f %%", !wrong, i.about, i.expect, first, grade, took.Round(100*time.Millisecond), used)
			t.Logf("%s\n%s", in.Summary(), v.Headline)
			for _, f := range v.Findings {
				t.Logf("%s %s slows %t follows %v: %v", f.Cause, f.Grade, f.Slows, f.FollowsFrom, f.Evidence)
			}
			t.Logf("symptoms %v missing %v figures %+v prefixes %v", v.Symptoms, v.Missing, in.Figures(), in.HotPrefixes)
			sub.Expect(wrong).To(BeFalse(), "%s, and not %q", first, i.expect)
		})
		if i.inject != nil {
			c.servesAgain()
		}
	}
}

func (c *cluster) record(i injection, in diagnose.Input, wrong bool) {
	name := "pods-" + i.name
	switch os.Getenv("RECORD") {
	case "all", i.name:
	case "wrong":
		if !wrong {
			return
		}
		name += "-wrong"
	default:
		return
	}
	r := diagnosetest.Recording{About: i.about + " Recorded of pods on the local Kubernetes.", Expect: i.expect, Input: in}
	c.Expect(diagnosetest.Save(filepath.Join("..", "..", "internal", "diagnose", "testdata", name), r)).To(Succeed())
}

// causes skips what takes a quarter of an hour.
func causes(t *testing.T) {
	t.Helper()
	if os.Getenv("CAUSES") == "" {
		t.Skip("CAUSES=1 injects what makes etcd slow, one cause after the other")
	}
}

func (c *cluster) writes(perSecond, size int) {
	c.t.Cleanup(load.Writes(c.clients(), perSecond, size))
}

func (c *cluster) during(workers int, do func(ctx context.Context, n int) error) {
	c.t.Cleanup(load.During(workers, do))
}

// slowSyncs lets each fsync of members take longer.
func (c *cluster) slowSyncs(by time.Duration, members ...int) {
	c.t.Helper()
	for _, i := range members {
		p := c.process(i)
		ctx, cancel := context.WithCancel(context.Background())
		delayed, done := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(done)
			_ = p.DelaySyncs(ctx, by, func() {
				select {
				case delayed <- struct{}{}:
				default:
				}
			})
		}()
		c.t.Cleanup(func() { cancel(); <-done })
		c.Eventually(delayed).Should(Receive())
	}
}

// stops lets a member run for a part of the time only.
func (c *cluster) stops(i int, stopped, runs time.Duration) {
	pid := c.process(i).PID()
	c.during(1, func(ctx context.Context, _ int) error {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		load.Pause(ctx, stopped)
		_ = syscall.Kill(pid, syscall.SIGCONT)
		load.Pause(ctx, runs)
		return nil
	})
}

// later does something a while after the measurement began.
func (c *cluster) later(after time.Duration, do func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		load.Pause(ctx, after)
		do(ctx)
	}()
	c.t.Cleanup(func() { cancel(); <-done })
}

// follower returns the ordinal of a member that does not lead.
func (c *cluster) follower() int { return (c.leader() + 1) % 3 }

func pauseFor(d time.Duration) { load.Pause(context.Background(), d) }

// What is injected into three members with backups, one after the other.
func TestCausesOfThreeMembers(t *testing.T) {
	causes(t)
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(5*time.Minute), func(_ *cluster, e *v1alpha1.Etcd) {
		e.Spec.StorageCapacity = ptr.To(resource.MustParse("4Gi"))
		e.Spec.Etcd.Quota = ptr.To(resource.MustParse("2Gi"))
	})
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	var all []injection
	for n := range 5 {
		all = append(all, injection{name: fmt.Sprintf("healthy-%d", n), about: "Three members with 20 writes a second."})
	}
	all = append(all,
		injection{name: "healthy-load", about: "300 writes of 2 KiB and 50 pages of 50 keys a second.", inject: func(c *cluster) {
			c.writes(300, 2<<10)
			reader := c.clients()
			c.during(1, func(ctx context.Context, _ int) error {
				load.Pause(ctx, 20*time.Millisecond)
				_, err := reader.Get(ctx, "/registry/pods", clientv3.WithPrefix(), clientv3.WithLimit(50))
				return err
			})
		}},
		injection{name: "slow-disk-one", expect: diagnose.SlowDisk, about: "Each fsync of one member takes 100 ms longer.", inject: func(c *cluster) { c.slowSyncs(100*time.Millisecond, c.follower()) }},
		injection{name: "slow-disk-all", expect: diagnose.SlowDisk, about: "Each fsync of every member takes 60 ms longer.", inject: func(c *cluster) { c.slowSyncs(60*time.Millisecond, 0, 1, 2) }},
		injection{name: "stopped-leader", expect: diagnose.CPU, about: "The leader is stopped (SIGSTOP) for 0.45 s of each half second.", inject: func(c *cluster) { c.stops(c.leader(), 450*time.Millisecond, 50*time.Millisecond) }},
		injection{name: "elections", expect: diagnose.Elections, about: "The leader is stopped for 3 s.", inject: func(c *cluster) {
			p := c.process(c.leader())
			c.later(6*time.Second, func(ctx context.Context) {
				_ = p.Freeze(ctx)
				load.Pause(ctx, 3*time.Second)
				_ = p.Thaw(context.Background())
			})
		}},
		injection{name: "frozen-before", expect: diagnose.MemberDown, about: "A member is frozen until its probe fails.", inject: func(c *cluster) {
			i := c.follower()
			c.freeze(i)
			c.untilUnready(i)
		}},
		injection{name: "frozen-just-now", expect: diagnose.MemberDown, about: "A member is frozen a second before.", inject: func(c *cluster) {
			c.freeze(c.follower())
			pauseFor(time.Second)
		}},
		injection{name: "peers-cut", expect: diagnose.PeerConnections, about: "A follower and its peers do not reach each other.", inject: func(c *cluster) { c.cutPeers(c.follower()) }},
		injection{name: "network-late", expect: diagnose.Network, window: 65 * time.Second, about: "What members say to each other is 120 ms late.", inject: func(c *cluster) { c.latePeers(120 * time.Millisecond) }},
		injection{name: "large-values", expect: diagnose.LargeValues, about: "Four clients write values of 1 MB; the agent watches.", inject: func(c *cluster) {
			made, value := c.clients(), strings.Repeat("v", 1_000_000)
			c.during(4, func(ctx context.Context, n int) error {
				_, err := made.Put(ctx, fmt.Sprintf("/registry/secrets/s-%d", n%20), value)
				load.Pause(ctx, 100*time.Millisecond)
				return err
			})
		}},
		injection{name: "write-storm", expect: diagnose.WriteStorm, about: "400 clients write without a pause.", inject: func(c *cluster) {
			made := c.clients()
			c.during(400, func(ctx context.Context, n int) error {
				_, err := made.Put(ctx, fmt.Sprintf("/registry/events/e-%d", n%5000), "0123456789")
				return err
			})
		}},
		injection{name: "leases", expect: diagnose.Leases, about: "200 clients grant leases of 2 s without a pause.", inject: func(c *cluster) {
			made := c.clients()
			c.during(200, func(ctx context.Context, _ int) error {
				_, err := made.Grant(ctx, 2)
				return err
			})
			pauseFor(5 * time.Second)
		}},
		injection{name: "watches", expect: diagnose.Watches, about: "500 watchers with prevKV on one stream, which is not read.", inject: func(c *cluster) {
			stop, err := load.Stall(c.pod(c, c.follower()).Status.PodIP + ":2379")
			c.Expect(err).NotTo(HaveOccurred())
			c.t.Cleanup(stop)
			c.writes(200, 4<<10)
			pauseFor(10 * time.Second)
		}},
		injection{name: "large-ranges", expect: diagnose.LargeRanges, about: "Three clients list 20,000 keys of 2 KB again and again.", inject: func(c *cluster) {
			made := c.clients()
			c.Expect(load.Fill(c.t.Context(), made, "/registry/configmaps", 20_000, 2000)).To(Succeed())
			c.during(3, func(ctx context.Context, _ int) error {
				_, err := made.Get(ctx, "/registry/configmaps", clientv3.WithPrefix())
				return err
			})
		}},
		injection{name: "backup", expect: diagnose.Backup, about: "A full snapshot of 200 MB is taken, beside a slow disk (20 ms).", inject: func(c *cluster) {
			made := c.clients()
			c.Expect(load.Fill(c.t.Context(), made, "/registry/secrets", 200, 1_000_000)).To(Succeed())
			c.slowSyncs(20*time.Millisecond, 0, 1, 2)
			c.later(8*time.Second, func(ctx context.Context) {
				task := c.task("full", "type: full")
				task.Spec.Type = v1alpha1.OnDemandSnapshot
				_ = kube.Create(ctx, task)
			})
			// On a busy machine it would be found by what follows, too.
			c.t.Cleanup(func() {
				c.Eventually(func(g Gomega) {
					task := &v1alpha1.EtcdOperatorTask{}
					if err := kube.Get(context.Background(), client.ObjectKey{Namespace: c.namespace, Name: "full"}, task); !apierrors.IsNotFound(err) {
						g.Expect(err).NotTo(HaveOccurred())
						g.Expect(task.Status.State).To(Equal(v1alpha1.TaskStateSucceeded))
					}
				}).WithTimeout(patience).Should(Succeed())
			})
		}},
		injection{name: "defragmentation", expect: diagnose.Defragmentation, about: "The leader is defragmented (250 MB).", inject: func(c *cluster) {
			i := c.leader()
			made, endpoint := c.clients(i), "http://"+c.pod(c, i).Status.PodIP+":2379"
			c.later(8*time.Second, func(ctx context.Context) { _, _ = made.Defragment(context.WithoutCancel(ctx), endpoint) })
		}},
		// Before the next one, which lasts, and is as little a reason for slow requests.
		injection{name: "clock", expect: diagnose.Clock, window: 65 * time.Second, about: "The clock of a member is an hour ahead.", inject: func(c *cluster) {
			undo, err := c.process(c.follower()).ShiftClock(c.t.Context(), time.Hour)
			c.Expect(err).NotTo(HaveOccurred())
			c.t.Cleanup(func() { _ = undo(context.Background()) })
		}},
		injection{name: "fragmentation", expect: diagnose.Fragmentation, about: "200 MB were deleted and compacted.", inject: func(c *cluster) {
			made := c.clients()
			c.Expect(load.Compact(c.t.Context(), made, "/registry/secrets")).To(Succeed())
		}},
		injection{name: "no-quorum", expect: diagnose.NoQuorum, about: "Two members are frozen.", inject: func(c *cluster) {
			c.freeze(1)
			c.freeze(2)
			c.untilUnready(1)
			c.untilUnready(2)
		}},
	)
	c.names(all...)
	c.writesSurvive()
}

// Clients do what they do every day to three members with backups, and the diagnosis, asked again and again, finds nothing:
//
//	HOUR=1h make e2e RUN=TestHealthyHour
func TestHealthyHour(t *testing.T) {
	lasts := load.Hour(t)
	c := newEmptyCluster(t)
	c.store("backups")
	c.begin(3, withStore(5*time.Minute), func(_ *cluster, e *v1alpha1.Etcd) {
		// Half an hour of revisions, compacted at once, would be a fragmented database indeed.
		e.Spec.SharedConfig = &v1alpha1.SharedConfig{AutoCompactionRetention: ptr.To("1m")}
	})
	c.untilCondition(v1alpha1.ConditionBackupReady, metav1.ConditionTrue, v1alpha1.ReasonBackupSucceeded)
	t.Cleanup(load.Everyday(c.clients()))
	load.FindNothing(t, lasts, func() diagnose.Input { return c.diagnose(30 * time.Second) })
}

// cutPeers drops what a member and its peers send each other.
func (c *cluster) cutPeers(i int) {
	c.t.Helper()
	stop, err := nft.Drop(c.t.Context(), func(context.Context) ([]string, error) {
		ip := c.pod(c, i).Status.PodIP
		var all []string
		for j := range 3 {
			if other := c.pod(c, j).Status.PodIP; j != i {
				all = append(all, fmt.Sprintf("ip saddr %s ip daddr %s", ip, other), fmt.Sprintf("ip saddr %s ip daddr %s", other, ip))
			}
		}
		return all, nil
	})
	c.Expect(err).NotTo(HaveOccurred())
	c.t.Cleanup(func() { _, _ = stop(context.Background()) })
	pauseFor(3 * time.Second)
}

// latePeers lets what members say to each other be late.
func (c *cluster) latePeers(by time.Duration) {
	c.t.Helper()
	for i := range 3 {
		undo, err := delay.Answers(c.t.Context(), c.process(i), []delay.Port{{Port: 2380, Proxy: 12380, By: by}}, func(int) {})
		c.Expect(err).NotTo(HaveOccurred())
		c.t.Cleanup(undo)
	}
	pauseFor(5 * time.Second)
}

// limited gives etcd limits.
func limited(cpu, memory string) func(*cluster, *v1alpha1.Etcd) {
	return func(_ *cluster, e *v1alpha1.Etcd) {
		e.Spec.Etcd.Resources.Limits = corev1.ResourceList{}
		for name, value := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
			if value != "" {
				e.Spec.Etcd.Resources.Limits[name] = resource.MustParse(value)
			}
		}
	}
}

// pages reads pages of 100 keys without a pause.
func (c *cluster) pages(clients int) {
	reader := c.clients()
	c.Expect(load.Fill(c.t.Context(), reader, "/registry/pods/other", 500, 1000)).To(Succeed())
	c.during(clients, func(ctx context.Context, _ int) error {
		_, err := reader.Get(ctx, "/registry/pods", clientv3.WithPrefix(), clientv3.WithLimit(100))
		return err
	})
}

// A member with a CPU limit: what is throttled measures long fsyncs, too.
func TestCausesOfACPULimit(t *testing.T) {
	causes(t)
	c := newEmptyCluster(t).begin(1, limited("60m", ""))
	busy := func(c *cluster) {
		c.writes(50, 1<<10)
		c.pages(1)
	}
	c.names(
		injection{name: "throttled", expect: diagnose.CPU, about: "One member with a CPU limit of 60m, 50 writes a second and pages of 100 keys.", inject: busy},
		injection{name: "throttled-slow-disk", expect: diagnose.CPU, about: "The same, and each fsync takes 40 ms longer.", inject: func(c *cluster) {
			busy(c)
			c.slowSyncs(40*time.Millisecond, 0)
		}},
	)
}

// A member with a quota: first close to it, then beyond it.
func TestCausesOfAQuota(t *testing.T) {
	causes(t)
	c := newEmptyCluster(t).begin(1, func(_ *cluster, e *v1alpha1.Etcd) { e.Spec.Etcd.Quota = ptr.To(resource.MustParse("60Mi")) })
	c.names(
		injection{name: "quota", expect: diagnose.Quota, about: "One member with a quota of 60 MiB, most of which is used.", inject: func(c *cluster) {
			c.Expect(load.Fill(c.t.Context(), c.clients(), "/registry/secrets", 48, 1_000_000)).To(Succeed())
		}},
		injection{name: "no-space", expect: diagnose.AlarmNoSpace, about: "The database has reached the quota.", inject: func(c *cluster) {
			made := c.clients()
			c.Eventually(func() error { return load.Fill(c.t.Context(), made, "/registry/more", 4, 1_000_000) }).Should(MatchError(ContainSubstring("database space exceeded")))
		}},
	)
}

// A member with a memory limit, whose clients read large ranges until it is killed.
func TestCausesOfAMemoryLimit(t *testing.T) {
	causes(t)
	c := newEmptyCluster(t).begin(1, limited("", "120Mi"))
	c.names(injection{name: "killed-for-its-memory", expect: diagnose.Memory, about: "One member with a memory limit of 120 MiB was killed while clients listed 40 MB.", inject: func(c *cluster) {
		made := c.clients()
		c.Expect(load.Fill(c.t.Context(), made, "/registry/configmaps", 20_000, 2000)).To(Succeed())
		stop := load.During(8, func(ctx context.Context, _ int) error {
			_, err := made.Get(ctx, "/registry/configmaps", clientv3.WithPrefix())
			return err
		})
		c.Eventually(func(g Gomega) {
			status := etcdStatus(c.pod(g, 0))
			g.Expect(status.RestartCount).To(BeNumerically(">", 0))
		}).Should(Succeed())
		stop()
		c.Eventually(func(g Gomega) { g.Expect(etcdStatus(c.pod(g, 0)).Ready).To(BeTrue()) }).Should(Succeed())
		made = c.clients()
		c.during(4, func(ctx context.Context, _ int) error {
			_, err := made.Get(ctx, "/registry/configmaps", clientv3.WithPrefix(), clientv3.WithLimit(5000))
			return err
		})
	}})
}

// A member whose clients take its connections, and then log in again and again.
func TestCausesOfClients(t *testing.T) {
	causes(t)
	c := newCluster(t, 1)
	c.names(
		injection{name: "file-descriptors", expect: diagnose.FileDescriptors, about: "One member that may open 400 files, with 300 connections.", inject: func(c *cluster) {
			c.Expect(limitOpenFiles(c.process(0).PID(), 400)).To(Succeed())
			for range 300 {
				connection, err := (&net.Dialer{}).DialContext(c.t.Context(), "tcp", c.pod(c, 0).Status.PodIP+":2379")
				c.Expect(err).NotTo(HaveOccurred())
				c.t.Cleanup(func() { _ = connection.Close() })
			}
		}},
		injection{name: "passwords", expect: diagnose.Passwords, about: "One member with users; four clients log in again and again.", inject: func(c *cluster) {
			admin, ctx := c.clients(), c.t.Context()
			_, err := admin.UserAdd(ctx, "root", "secret")
			c.Expect(err).NotTo(HaveOccurred())
			_, err = admin.RoleAdd(ctx, "root")
			c.Expect(err).NotTo(HaveOccurred())
			_, err = admin.UserGrantRole(ctx, "root", "root")
			c.Expect(err).NotTo(HaveOccurred())
			_, err = admin.AuthEnable(ctx)
			c.Expect(err).NotTo(HaveOccurred())
			c.t.Cleanup(func() {
				root, err := clientv3.New(clientv3.Config{Endpoints: admin.Endpoints(), Username: "root", Password: "secret", Logger: zap.NewNop()})
				c.Expect(err).NotTo(HaveOccurred())
				defer func() { _ = root.Close() }()
				_, err = root.AuthDisable(context.Background())
				c.Expect(err).NotTo(HaveOccurred())
			})
			c.during(4, func(ctx context.Context, _ int) error {
				_, err := admin.Authenticate(ctx, "root", "secret")
				return err
			})
		}},
	)
}

// limitOpenFiles limits how many files a process may open, as its user: root has no right to limit others here.
func limitOpenFiles(pid, files int) error {
	return exec.Command("setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", "prlimit", "--pid", strconv.Itoa(pid), fmt.Sprintf("--nofile=%d", files)).Run()
}
