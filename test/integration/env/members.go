// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Members is a real etcd cluster: processes on loopback addresses, which represent the members in the pods that a Kubelet
// simulates. Its Dial accepts the addresses of those pods.
type Members struct {
	// Endpoints are the addresses on which the members listen.
	Endpoints []string
}

// StartMembers starts a cluster with a member for each folder, named name-0 and so on, with additional arguments of etcd.
// The members run until the test ends.
func (e *Env) StartMembers(t testing.TB, name string, folders []string, args ...string) *Members {
	t.Helper()
	client, peer := freePort(t), freePort(t)
	m := &Members{}
	var initial []string
	for i := range folders {
		m.Endpoints = append(m.Endpoints, loopback(i, client))
		initial = append(initial, fmt.Sprintf("%s-%d=%s", name, i, loopback(i, peer)))
	}
	for i, folder := range folders {
		member := fmt.Sprintf("%s-%d", name, i)
		cmd := exec.Command(filepath.Join(e.assets, "etcd"), append([]string{
			"--name=" + member, "--data-dir=" + filepath.Join(folder, member),
			"--listen-client-urls=" + loopback(i, client), "--advertise-client-urls=" + loopback(i, client),
			"--listen-peer-urls=" + loopback(i, peer), "--initial-advertise-peer-urls=" + loopback(i, peer),
			"--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-token=" + t.Name(),
			"--log-level=error", "--unsafe-no-fsync",
		}, args...)...)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatalf("starting etcd %s: %v", member, err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	m.awaitLeader(t)
	return m
}

// Client returns a client of the given members; of all if none is given.
func (m *Members) Client(t testing.TB, members ...int) *clientv3.Client {
	t.Helper()
	endpoints := m.Endpoints
	if len(members) > 0 {
		endpoints = nil
		for _, i := range members {
			endpoints = append(endpoints, m.Endpoints[i])
		}
	}
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(), MaxCallSendMsgSize: 8 << 20})
	if err != nil {
		t.Fatalf("making an etcd client: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Dial implements etcdclient.Dialer for the simulated address of a member's pod.
func (m *Members) Dial(endpoint string, tls *tls.Config) (etcdclient.Client, error) {
	for i, real := range m.Endpoints {
		if endpoint == fmt.Sprintf("http://%s:2379", PodIP(i)) {
			return etcdclient.NewDialer().Dial(real, tls)
		}
	}
	return nil, fmt.Errorf("dialing %s: no member has this address", endpoint)
}

func (m *Members) awaitLeader(t testing.TB) {
	t.Helper()
	c := m.Client(t)
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for _, endpoint := range m.Endpoints {
		for {
			ask, stop := context.WithTimeout(ctx, time.Second)
			status, err := c.Status(ask, endpoint)
			stop()
			if err == nil && status.Leader != 0 {
				break
			}
			select {
			case <-ctx.Done():
				t.Fatalf("waiting for etcd at %s to know a leader: %v", endpoint, err)
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// loopback gives each member its own address, so that one port is enough.
func loopback(i, port int) string { return fmt.Sprintf("http://127.0.0.%d:%d", i+1, port) }

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("finding a free port: %v", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
