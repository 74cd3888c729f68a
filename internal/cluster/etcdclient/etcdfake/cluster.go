// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package etcdfake is an etcd cluster that consists of its answers alone, for tests that have no real one.
package etcdfake

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/quorum"
)

// ErrDown is the error of a member that does not answer.
var ErrDown = errors.New("connection refused")

// Cluster is a cluster whose members are up or down as a function says. As long as a quorum is up it has a
// leader: the one it had, or else the first member that is up.
type Cluster struct {
	// Endpoints of the members; a member's ID is its index plus one.
	Endpoints []string
	// Names of the members.
	Names []string
	// Up reports whether a member is up.
	Up func(member int) bool
	// Version of etcd that the members say they run; it may be empty.
	Version string

	mu sync.Mutex
	// id of the cluster; 0 is 1.
	id uint64
	// leader is the member that led last, counted from one; 0 when none has.
	leader int
	term   uint64
	// moves are the members that leadership was moved to.
	moves []int
	// peerURLs that members were given, by index.
	peerURLs map[int][]string
}

// Dial implements etcdclient.Dialer.
func (c *Cluster) Dial(endpoint string, _ *tls.Config) (etcdclient.Client, error) {
	i := slices.Index(c.Endpoints, endpoint)
	if i < 0 {
		return nil, fmt.Errorf("dialing %s: no member is there", endpoint)
	}
	return &member{cluster: c, index: i}, nil
}

// Leader is the index of the member that leads; -1 when none does.
func (c *Cluster) Leader() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elect() - 1
}

// Rebuild gives the cluster another ID, in hex, as when it is recovered.
func (c *Cluster) Rebuild(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.id, err = strconv.ParseUint(id, 16, 64); err != nil {
		panic(err)
	}
}

// Moves are the members that leadership was moved to, in order.
func (c *Cluster) Moves() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.moves)
}

func (c *Cluster) elect() int {
	up, first := 0, 0
	for i := range c.Endpoints {
		if c.Up(i) {
			up++
			if first == 0 {
				first = i + 1
			}
		}
	}
	switch {
	case !quorum.Exists(up, len(c.Endpoints)):
		return 0
	case c.leader == 0 || !c.Up(c.leader-1):
		c.leader, c.term = first, c.term+1
	}
	return c.leader
}

type member struct {
	cluster *Cluster
	index   int
}

func (m *member) Status(context.Context) (etcdclient.Status, error) {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Up(m.index) {
		return etcdclient.Status{}, ErrDown
	}
	return etcdclient.Status{ClusterID: max(c.id, 1), MemberID: uint64(m.index + 1), Leader: uint64(c.elect()), Term: c.term, AppliedIndex: 100, Version: c.Version}, nil
}

func (m *member) Members(context.Context) ([]etcdclient.Member, error) {
	if !m.cluster.Up(m.index) {
		return nil, ErrDown
	}
	m.cluster.mu.Lock()
	defer m.cluster.mu.Unlock()
	var all []etcdclient.Member
	for i, name := range m.cluster.Names {
		all = append(all, etcdclient.Member{ID: uint64(i + 1), Name: name, ClientURLs: []string{m.cluster.Endpoints[i]}, PeerURLs: m.cluster.listed(i)})
	}
	return all, nil
}

func (m *member) MoveLeader(_ context.Context, to uint64) error {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.elect() != m.index+1 {
		return errors.New("etcdserver: not leader")
	}
	c.leader, c.term = int(to), c.term+1
	c.moves = append(c.moves, int(to)-1)
	return nil
}

func (m *member) Database(context.Context) (etcdclient.Database, error) {
	if !m.cluster.Up(m.index) {
		return etcdclient.Database{}, ErrDown
	}
	return etcdclient.Database{Size: 1 << 20, InUse: 1 << 20, Revision: 1}, nil
}

func (m *member) Read(ctx context.Context, _ bool) error {
	_, err := m.Database(ctx)
	return err
}

func (m *member) Compact(context.Context, int64) error { return nil }

func (m *member) Defragment(context.Context) error { return nil }

func (m *member) Alarms(context.Context) ([]etcdclient.Alarm, error) { return nil, nil }

func (m *member) Disarm(context.Context, etcdclient.Alarm) error { return nil }

func (m *member) Close() error { return nil }
