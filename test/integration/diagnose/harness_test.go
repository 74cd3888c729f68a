// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package diagnose measures real etcd processes while a cause is injected, and expects that it is named first. With RECORD=1, each
// measurement is written to internal/diagnose/testdata, where the pure tests judge it again.
package diagnose

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/load"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// options of a cluster.
type options struct {
	members int
	// program is the name of the etcd to run; etcd by default.
	program string
	// wrap is put before the command line of a member.
	wrap func(member int) []string
	// late is how late peers hear each other; each peer is then reached through a proxy.
	late time.Duration
	args []string
	dir  string
}

// member is an etcd process.
type member struct {
	name, client, peer, metrics string
	dir                         string
	cmd                         *exec.Cmd
	process                     *os.Process
	log                         *output
	proxy                       *proxy
	// limit of its CPU, in percent of a core, and the cgroup that has it.
	limit  int
	cgroup string
	// again is when it started again; zero if it has not.
	again time.Time
}

// output is what a process prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// etcds is a cluster of processes.
type etcds struct {
	*machine.WithT
	t       testing.TB
	o       options
	members []*member
	// list is the initial cluster.
	list string
	// again injects what does not last, until the context ends; nil for what lasts. The user and its password are those of etcd, if it has
	// users. Both are for other tools.
	again func(ctx context.Context)
	user  string
}

// start starts a cluster, whose data is in memory unless a folder is given: what else writes to the disk of this machine is no part of it.
func start(t testing.TB, o options) *etcds {
	t.Helper()
	c := &etcds{WithT: machine.Gomega(t), t: t, o: o}
	if c.o.program == "" {
		c.o.program = "etcd"
	}
	base := o.dir
	if base == "" {
		var err error
		base, err = os.MkdirTemp("/dev/shm", "diagnose")
		c.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = os.RemoveAll(base) })
	}
	var list []string
	for i := range max(o.members, 1) {
		m := &member{name: fmt.Sprintf("etcd-main-%d", i), client: machine.FreeAddress(t), peer: machine.FreeAddress(t), metrics: machine.FreeAddress(t), log: &output{}}
		m.dir = filepath.Join(base, m.name)
		advertised := m.peer
		if o.late > 0 {
			m.proxy = newProxy(t, m.peer, o.late)
			advertised = m.proxy.address()
		}
		list = append(list, m.name+"=http://"+advertised)
		c.members = append(c.members, m)
	}
	c.list = strings.Join(list, ",")
	for i := range c.members {
		c.run(i)
	}
	c.Eventually(func() error { return c.put("/registry/first", 1) }).Should(Succeed(), c.logs)
	return c
}

func (c *etcds) logs() string {
	var all strings.Builder
	for _, m := range c.members {
		all.WriteString(m.log.String())
	}
	return all.String()
}

func (c *etcds) run(i int) {
	m := c.members[i]
	peer := ""
	for _, entry := range strings.Split(c.list, ",") {
		if name, url, _ := strings.Cut(entry, "="); name == m.name {
			peer = url
		}
	}
	program := "etcd"
	if c.o.program != program {
		program = c.o.program + "/etcd"
	}
	line := []string{machine.Program(c.t, program), "--name=" + m.name, "--data-dir=" + m.dir,
		"--listen-client-urls=http://" + m.client, "--advertise-client-urls=http://" + m.client, "--listen-metrics-urls=http://" + m.metrics,
		"--listen-peer-urls=http://" + m.peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=" + c.list, "--logger=zap"}
	line = append(line, c.o.args...)
	if c.o.wrap != nil {
		line = append(c.o.wrap(i), line...)
	}
	m.cmd = exec.CommandContext(context.Background(), line[0], line[1:]...)
	m.cmd.Stdout, m.cmd.Stderr = m.log, m.log
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Expect(m.cmd.Start()).To(Succeed())
	m.process = m.cmd.Process
	c.t.Cleanup(func() { c.kill(i) })
}

// kill ends a member, with what wraps it.
func (c *etcds) kill(i int) {
	m := c.members[i]
	_ = syscall.Kill(-m.process.Pid, syscall.SIGCONT)
	_ = syscall.Kill(-m.process.Pid, syscall.SIGKILL)
	_ = m.cmd.Wait()
}

// client returns a client of a member, or of all.
func (c *etcds) client(of ...int) *clientv3.Client {
	c.t.Helper()
	config := clientv3.Config{Logger: zap.NewNop(), MaxCallSendMsgSize: 8 << 20, MaxCallRecvMsgSize: 1 << 30}
	for i, m := range c.members {
		if len(of) == 0 || of[0] == i {
			config.Endpoints = append(config.Endpoints, "http://"+m.client)
		}
	}
	made, err := clientv3.New(config)
	c.Expect(err).NotTo(HaveOccurred())
	c.t.Cleanup(func() { _ = made.Close() })
	return made
}

func (c *etcds) put(key string, size int) error {
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	made, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + c.members[0].client}, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer func() { _ = made.Close() }()
	_, err = made.Put(ctx, key, strings.Repeat("x", size))
	return err
}

// leader returns the index of the leader.
func (c *etcds) leader() int {
	for i := range c.members {
		if s := c.status(i); s != nil && s.Leader == s.MemberID {
			return i
		}
	}
	c.t.Fatal("there is no leader")
	return -1
}

func (c *etcds) dial(i int) etcdclient.Client {
	dialed, err := etcdclient.NewDialer().Dial("http://"+c.members[i].client, nil)
	c.Expect(err).NotTo(HaveOccurred())
	c.t.Cleanup(func() { _ = dialed.Close() })
	return dialed
}

func (c *etcds) status(i int) *etcdclient.Status {
	ctx, cancel := context.WithTimeout(c.t.Context(), 3*time.Second)
	defer cancel()
	s, err := c.dial(i).Status(ctx)
	if err != nil {
		return nil
	}
	return &s
}

// during does something again and again until the test ends or stop is called.
func (c *etcds) during(workers int, do func(ctx context.Context, n int) error) (stop func()) {
	stop = load.During(workers, do)
	c.t.Cleanup(stop)
	return stop
}

// writes writes so often per second, of so many bytes.
func (c *etcds) writes(perSecond, size int) { c.t.Cleanup(load.Writes(c.client(), perSecond, size)) }

// stall has a client that does not read what its watchers are sent.
func (c *etcds) stall() {
	c.t.Helper()
	stop, err := load.Stall(c.members[0].client)
	c.Expect(err).NotTo(HaveOccurred())
	c.t.Cleanup(stop)
}
