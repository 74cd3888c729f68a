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
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
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
	// Listed is how many of them the cluster begins with; 0 is all. The others are added.
	Listed int
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
	// list is the member list; nil before the first request.
	list []entry
	// alarms that were raised.
	alarms []etcdclient.Alarm
	// added is how many members were added, and changes what has changed the list.
	added   int
	changes []string
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
	up, voters, first := 0, 0, 0
	for _, e := range c.entries() {
		if e.learner {
			continue
		}
		voters++
		if c.runs(e) {
			up++
			if first == 0 {
				first = e.index + 1
			}
		}
	}
	switch {
	case !quorum.Exists(up, voters):
		return 0
	case c.leader == 0 || !c.leads(c.leader-1):
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
	e := c.entryAt(m.index)
	if e == nil || !c.runs(*e) {
		return etcdclient.Status{}, ErrDown
	}
	leader := uint64(0)
	if at := c.elect(); at > 0 {
		leader = c.entryAt(at - 1).id
	}
	return etcdclient.Status{
		ClusterID: max(c.id, 1), MemberID: e.id, Leader: leader, Term: c.term, CommittedIndex: 100, AppliedIndex: 100, Revision: 1, Learner: e.learner, Version: c.Version,
		Alarms: slices.Clone(c.alarms),
	}, nil
}

// Raise has a member raise an alarm.
func (c *Cluster) Raise(kind etcdclient.AlarmKind, member int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := (etcdclient.Alarm{MemberID: c.entryAt(member).id, Kind: kind}); !slices.Contains(c.alarms, a) {
		c.alarms = append(c.alarms, a)
	}
}

// Disarm ends all alarms.
func (c *Cluster) Disarm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarms = nil
}

func (m *member) MoveLeader(_ context.Context, to uint64) error {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.elect() != m.index+1 {
		return errors.New("etcdserver: not leader")
	}
	e := c.entryOf(to)
	if e == nil || e.learner || !c.runs(*e) {
		return rpctypes.ErrBadLeaderTransferee
	}
	c.leader, c.term = e.index+1, c.term+1
	c.moves = append(c.moves, e.index)
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

func (m *member) Alarms(ctx context.Context) ([]etcdclient.Alarm, error) {
	s, err := m.Status(ctx)
	return s.Alarms, err
}

func (m *member) Administers(context.Context) error { return nil }

func (m *member) Disarm(context.Context, etcdclient.Alarm) error { return nil }

func (m *member) Close() error { return nil }
