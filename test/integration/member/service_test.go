// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// service routes connections to members that are ready, as a Service does: it learns once a second who is.
type service struct {
	c        *cluster
	listener net.Listener
	mu       sync.Mutex
	ready    map[int]bool
}

func (c *cluster) service(g Gomega) *service {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	s := &service{c: c, listener: listener, ready: map[int]bool{}}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	c.t.Cleanup(func() { cancel(); _ = listener.Close(); all.Wait() })
	for i := range c.members {
		all.Go(func() { s.probe(ctx, i) })
	}
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go s.forward(client)
		}
	})
	return s
}

// probe is the readiness probe of a member.
func (s *service) probe(ctx context.Context, i int) {
	web := &http.Client{Timeout: time.Second}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		r, err := web.Get(s.c.url(i, s.c.client) + "/readyz")
		if err == nil {
			_ = r.Body.Close()
		}
		s.route(i, err == nil && r.StatusCode == http.StatusOK)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (s *service) route(i int, ready bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[i] = ready
	maps.DeleteFunc(s.ready, func(_ int, ready bool) bool { return !ready })
}

func (s *service) endpoints() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.ready))
}

func (s *service) forward(client net.Conn) {
	defer func() { _ = client.Close() }()
	ready := s.endpoints()
	if len(ready) == 0 {
		return
	}
	address := strings.TrimPrefix(s.c.url(ready[rand.IntN(len(ready))], s.c.client), "http://")
	member, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = member.Close() }()
	go func() { _, _ = io.Copy(member, client); _ = member.Close() }()
	_, _ = io.Copy(client, member)
}

// A second member takes over from the only one, whose pod is deleted once it was removed, while a client writes that knows the Service
// alone. Either the first leaves as soon as it no longer leads, or once clients reach the second one.
func TestClientsThroughTheService(t *testing.T) {
	gaps := map[bool]time.Duration{}
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprintf("waits %t", waits), func(t *testing.T) {
			g := NewWithT(t)
			c := newCluster(t, 2)
			c.share(g, 1)
			c.start(g, 0, "new")
			id := c.idOf(g, 0)
			c.recordID(id)
			s := c.service(g)
			g.Eventually(s.endpoints).WithTimeout(machine.Patience()).Should(Equal([]int{0}))
			c.mayBegin = false
			c.share(g, 2)
			c.recordID(id)
			g.Expect(c.refusal(g, 1)).To(Equal(free))
			c.changeAt(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
				_, err := etcd.MemberAddAsLearner(ctx, []string{c.url(1, c.peer)})
				return err
			})
			c.start(g, 1, "existing")
			c.write(g, 0, member.KeyMembers, map[string]any{"etcd": c.etcdUID, "clusterID": id, "generation": 1, "leaving": []string{"m0"}})
			end := s.write(g)
			// etcd removes a member once its connections are five seconds old.
			settled := time.Now().Add(6 * time.Second)
			g.Eventually(time.Now).WithTimeout(machine.Patience()).Should(BeTemporally(">", settled))
			c.promote(g, 1)
			left, joined := c.memberID(g, 0), c.memberID(g, 1)
			c.changeAt(g, 0, func(ctx context.Context, etcd *clientv3.Client) error {
				_, err := etcd.MoveLeader(ctx, joined)
				return err
			})
			if waits {
				g.Eventually(s.endpoints).WithTimeout(machine.Patience()).Should(Equal([]int{0, 1}))
			}
			c.changeAt(g, 1, func(ctx context.Context, etcd *clientv3.Client) error {
				_, err := etcd.MemberRemove(ctx, left)
				return err
			})
			// Its pod is deleted.
			s.route(0, false)
			g.Expect(c.processes[0].Process.Signal(syscall.SIGTERM)).To(Succeed())
			g.Eventually(s.endpoints).WithTimeout(machine.Patience()).Should(Equal([]int{1}))
			acknowledged, gap := end()
			t.Logf("%d writes, longest gap %s", acknowledged, gap)
			gaps[waits] = gap
		})
	}
	NewWithT(t).Expect(gaps[true]).To(BeNumerically("<", machine.Scaled(time.Second)))
}

// write writes through the Service, every 20 ms. The end waits for three more acknowledgements.
func (s *service) write(g Gomega) (end func() (acknowledged int, gap time.Duration)) {
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + s.listener.Addr().String()}, Logger: zap.NewNop()})
	g.Expect(err).NotTo(HaveOccurred())
	var (
		mu      sync.Mutex
		n       int
		last    = time.Now()
		longest time.Duration
		each    sync.WaitGroup
	)
	ctx, cancel := context.WithCancel(context.Background())
	each.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			each.Go(func() {
				ask, stop := context.WithTimeout(ctx, machine.Scaled(time.Second))
				defer stop()
				if _, err := etcd.Put(ask, "along/"+strconv.Itoa(i), ""); err == nil {
					mu.Lock()
					n, longest, last = n+1, max(longest, time.Since(last)), time.Now()
					mu.Unlock()
				}
			})
			<-ticker.C
		}
	})
	acknowledged := func() int { mu.Lock(); defer mu.Unlock(); return n }
	return func() (int, time.Duration) {
		from := acknowledged()
		g.Eventually(acknowledged).WithTimeout(machine.Patience()).Should(BeNumerically(">", from+2))
		cancel()
		each.Wait()
		_ = etcd.Close()
		return n, longest
	}
}
