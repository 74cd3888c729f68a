// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// entry is one of the member list.
type entry struct {
	id uint64
	// index of the member; -1 for one that is nowhere.
	index   int
	learner bool
	// urls that it was added with; nil for a member that the cluster began with.
	urls []string
	// started: it has run since it was added.
	started bool
}

// firstAdded is the ID of the first member that is added.
const firstAdded = 100

// entries is the member list. The caller holds the mutex.
func (c *Cluster) entries() []entry {
	if c.list == nil {
		n := c.Listed
		if n == 0 {
			n = len(c.Names)
		}
		for i := range n {
			c.list = append(c.list, entry{id: uint64(i + 1), index: i, started: true})
		}
	}
	for i := range c.list {
		if c.runs(c.list[i]) {
			c.list[i].started = true
		}
	}
	return c.list
}

func (c *Cluster) runs(e entry) bool { return e.index >= 0 && c.Up(e.index) }

// leads reports whether the member at an index may lead.
func (c *Cluster) leads(index int) bool {
	e := c.entryAt(index)
	return e != nil && !e.learner && c.runs(*e)
}

func (c *Cluster) entryAt(index int) *entry {
	return c.find(func(e entry) bool { return e.index == index })
}

func (c *Cluster) entryOf(id uint64) *entry {
	return c.find(func(e entry) bool { return e.id == id })
}

func (c *Cluster) find(is func(entry) bool) *entry {
	all := c.entries()
	if i := slices.IndexFunc(all, is); i >= 0 {
		return &all[i]
	}
	return nil
}

// Lists reports whether the list has the member at an index, whether it has a vote, and whether it has ever run.
func (c *Cluster) Lists(index int) (listed, votes, started bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryAt(index)
	return e != nil, e != nil && !e.learner, e != nil && e.started
}

// ID is that of the listed member at an index; 0 if there is none.
func (c *Cluster) ID(index int) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entryAt(index); e != nil {
		return e.id
	}
	return 0
}

// Changes are the changes of the member list, in order.
func (c *Cluster) Changes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.changes)
}

// Found has one member found the cluster again, with no other in its list, as in a recovery.
func (c *Cluster) Found(index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = []entry{{id: firstAdded + uint64(c.added), index: index, started: true}}
	c.added++
}

// Join adds the member at an index as a voter, as its agent does in a recovery.
func (c *Cluster) Join(index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.entries(), entry{id: firstAdded + uint64(c.added), index: index})
	c.added++
}

// Forget removes the member at an index, as a user of etcdctl does.
func (c *Cluster) Forget(index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = slices.DeleteFunc(c.entries(), func(e entry) bool { return e.index == index })
}

func (m *member) Members(context.Context) ([]etcdclient.Member, error) {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entryAt(m.index)
	switch {
	case e == nil || !c.runs(*e):
		return nil, ErrDown
	case e.learner:
		return nil, rpctypes.ErrGRPCNotSupportedForLearner
	}
	var all []etcdclient.Member
	for _, e := range c.entries() {
		listed := etcdclient.Member{ID: e.id, Learner: e.learner, PeerURLs: e.urls}
		if e.index >= 0 {
			if e.started {
				listed.Name, listed.ClientURLs = c.Names[e.index], []string{c.Endpoints[e.index]}
			}
			if e.urls == nil || c.peerURLs[e.index] != nil {
				listed.PeerURLs = c.listed(e.index)
			}
		}
		all = append(all, listed)
	}
	return all, nil
}

func (m *member) ConfirmedMembers(ctx context.Context) ([]etcdclient.Member, error) {
	m.cluster.mu.Lock()
	leader := m.cluster.elect()
	m.cluster.mu.Unlock()
	if leader == 0 {
		return nil, rpctypes.ErrNoLeader
	}
	return m.Members(ctx)
}

// change changes the member list, if the member runs and there is a leader.
func (m *member) change(do func(c *Cluster) (string, error)) error {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entryAt(m.index); e == nil || !c.runs(*e) {
		return ErrDown
	}
	if c.elect() == 0 {
		return rpctypes.ErrNoLeader
	}
	what, err := do(c)
	if err == nil {
		c.changes = append(c.changes, what)
	}
	return err
}

func (m *member) AddLearner(_ context.Context, urls []string) error {
	return m.change(func(c *Cluster) (string, error) {
		index := slices.IndexFunc(c.Names, func(name string) bool { return hostOf(urls[0]) == name })
		for _, e := range c.entries() {
			if e.learner {
				return "", rpctypes.ErrTooManyLearners
			}
			if e.index == index && index >= 0 {
				return "", rpctypes.ErrPeerURLExist
			}
		}
		c.list = append(c.list, entry{id: firstAdded + uint64(c.added), index: index, learner: true, urls: slices.Clone(urls)})
		c.added++
		return "add " + hostOf(urls[0]), nil
	})
}

// hostOf is the first label of the host of a peer URL: the name of the pod.
func hostOf(peer string) string {
	u, err := url.Parse(peer)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(u.Hostname(), ".")
	return name
}

func (m *member) PromoteLearner(_ context.Context, id uint64) error {
	return m.change(func(c *Cluster) (string, error) {
		e := c.entryOf(id)
		switch {
		case e == nil:
			return "", rpctypes.ErrMemberNotFound
		case !e.learner:
			return "", rpctypes.ErrMemberNotLearner
		case !c.runs(*e):
			return "", rpctypes.ErrMemberLearnerNotReady
		}
		e.learner = false
		return "promote " + c.nameOf(*e), nil
	})
}

func (m *member) RemoveMember(_ context.Context, id uint64) error {
	return m.change(func(c *Cluster) (string, error) {
		e := c.entryOf(id)
		if e == nil {
			return "", rpctypes.ErrMemberNotFound
		}
		what := "remove " + c.nameOf(*e)
		c.list = slices.DeleteFunc(c.list, func(e entry) bool { return e.id == id })
		return what, nil
	})
}

func (c *Cluster) nameOf(e entry) string {
	if e.index < 0 {
		return fmt.Sprintf("%x", e.id)
	}
	return c.Names[e.index]
}
