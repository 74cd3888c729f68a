// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"crypto/tls"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// Members is a real etcd cluster: processes on loopback addresses, which represent the members in the pods that a Kubelet
// simulates. Its Dial accepts the addresses of those pods.
type Members struct {
	// Endpoints are the addresses on which the members listen.
	Endpoints []string
	// Port is the one for clients, which is the same at each address.
	Port int
	tls  *tls.Config
}

// StartMembers starts a cluster with a member for each folder, named name-0 and so on, with additional arguments of etcd.
// The members run until the test ends.
func (e *Env) StartMembers(t testing.TB, name string, folders []string, args ...string) *Members {
	t.Helper()
	return e.StartSecureMembers(t, name, folders, nil, args...)
}

// StartSecureMembers is StartMembers for a cluster whose members serve clients with TLS if its configuration of clients is given. The arguments
// name the certificates.
func (e *Env) StartSecureMembers(t testing.TB, name string, folders []string, clients *tls.Config, args ...string) *Members {
	t.Helper()
	peer := machine.FreePort(t)
	m := &Members{Port: machine.FreePort(t), tls: clients}
	var initial []string
	for i := range folders {
		m.Endpoints = append(m.Endpoints, m.endpoint(i))
		initial = append(initial, PodName(name, i)+"="+loopback(i, peer))
	}
	for i, folder := range folders {
		member := PodName(name, i)
		cmd := exec.Command(filepath.Join(e.assets, "etcd"), append([]string{
			"--name=" + member, "--data-dir=" + filepath.Join(folder, member),
			"--listen-client-urls=" + m.Endpoints[i], "--advertise-client-urls=" + m.Endpoints[i],
			"--listen-peer-urls=" + loopback(i, peer), "--initial-advertise-peer-urls=" + loopback(i, peer),
			"--initial-cluster=" + strings.Join(initial, ","), "--initial-cluster-token=" + t.Name(),
			"--log-level=error", "--unsafe-no-fsync",
		}, args...)...)
		machine.Run(t, cmd)
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
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: m.tls, Logger: zap.NewNop(), MaxCallSendMsgSize: 8 << 20})
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
	ctx, cancel := context.WithTimeout(context.Background(), machine.Patience())
	defer cancel()
	for _, endpoint := range m.Endpoints {
		for {
			ask, stop := context.WithTimeout(ctx, machine.Scaled(time.Second))
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

func (m *Members) endpoint(i int) string {
	if m.tls != nil {
		return strings.Replace(loopback(i, m.Port), "http:", "https:", 1)
	}
	return loopback(i, m.Port)
}

func loopback(i, port int) string { return fmt.Sprintf("http://%s:%d", Loopback(i), port) }

// Loopback is the address of a member of StartMembers. Each has its own, so that one port is enough.
func Loopback(i int) string { return fmt.Sprintf("127.0.0.%d", i+1) }
