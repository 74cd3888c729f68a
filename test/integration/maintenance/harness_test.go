// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package maintenance_test runs OnDemandMaintenance tasks against real etcd clusters, under the task engine and a
// real API server. Pods are simulated.
package maintenance_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	composed "github.com/etcd-foreman/etcd-foreman/internal/operator"
	"github.com/etcd-foreman/etcd-foreman/test/composition"
	"github.com/etcd-foreman/etcd-foreman/test/integration/env"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var testEnv *env.Env

func TestMain(m *testing.M) {
	os.Exit(env.Main(m, &testEnv, env.WithControllerManager(), env.WithRoles()))
}

const name = "main"

// cluster is an Etcd whose pods are simulated and whose members are real.
type cluster struct {
	*env.Cluster
	members *env.Members
	spy     *spy
}

func newCluster(t *testing.T, n int, args ...string) *cluster {
	t.Helper()
	return newClusterIn(t, slices.Repeat([]string{t.TempDir()}, n), args...)
}

// newClusterIn creates a cluster with a member for each folder.
func newClusterIn(t *testing.T, folders []string, args ...string) *cluster {
	t.Helper()
	n := len(folders)
	c := &cluster{Cluster: testEnv.NewCluster(t, name)}
	c.members = testEnv.StartMembers(t, name, folders, args...)
	c.spy = &spy{Dialer: c.members}
	c.Simulate(n)
	c.CreateEtcd(n)
	c.Create(c.NewStatefulSet(n))
	c.UntilReady(n)
	return c
}

// start starts an operator that runs tasks, with further controllers; stop stops it.
func (c *cluster) start(more ...composed.Controller) (stop func()) {
	c.T.Helper()
	return c.Start(append(more, composed.Tasks), composition.Depending(func(d *composed.Dependencies) { d.Dialer = c.spy }))
}

func (c *cluster) run(name, config string) {
	c.T.Helper()
	c.CreateTask(name, v1alpha1.OnDemandMaintenance, config)
}

// fill writes the given number of MiB twice, so that half of them are garbage after a compaction.
func (c *cluster) fill(etcd *clientv3.Client, mebibytes int) {
	c.T.Helper()
	value := make([]byte, 1<<20)
	_, _ = rand.Read(value)
	for range 2 {
		for i := range mebibytes {
			_, err := etcd.Put(c.T.Context(), fmt.Sprintf("fill/%04d", i), string(value))
			c.Expect(err).NotTo(HaveOccurred())
		}
	}
}

// keepWriting writes a little until the test ends, as clients do: a member updates its free size on commit.
func (c *cluster) keepWriting(etcd *clientv3.Client) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-c.T.Context().Done():
			return
		case <-ticker.C:
			// A failed write is followed by another.
			_, _ = etcd.Put(c.T.Context(), "count", "")
		}
	}
}

// spy is a Dialer that records the requests to the members and can delay a defragmentation.
type spy struct {
	etcdclient.Dialer
	mu    sync.Mutex
	asked bytes.Buffer
	// hold, if set, is called with the address before a defragmentation is forwarded.
	hold func(ctx context.Context) error
}

func (s *spy) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.asked, format+"\n", args...)
}

func (s *spy) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked.String()
}
