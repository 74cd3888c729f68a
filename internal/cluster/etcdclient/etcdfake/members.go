// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package etcdfake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// PeerURLs are the peer URLs under which a member is listed.
func (c *Cluster) PeerURLs(member int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listed(member)
}

// ListWith has every member listed with a peer URL of a scheme.
func (c *Cluster) ListWith(scheme string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.peerURLs = map[int][]string{}
	for i, name := range c.Names {
		c.peerURLs[i] = []string{fmt.Sprintf("%s://%s:2380", scheme, name)}
	}
}

// listed is what PeerURLs returns. The caller holds the mutex.
func (c *Cluster) listed(member int) []string {
	if urls, ok := c.peerURLs[member]; ok {
		return slices.Clone(urls)
	}
	return []string{fmt.Sprintf("http://%s:2380", c.Names[member])}
}

func (m *member) SetPeerURLs(_ context.Context, id uint64, urls []string) error {
	c := m.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.elect() == 0 {
		return errors.New("etcdserver: no leader")
	}
	e := c.entryOf(id)
	if e == nil {
		return rpctypes.ErrMemberNotFound
	}
	if c.peerURLs == nil {
		c.peerURLs = map[int][]string{}
	}
	c.peerURLs[e.index] = slices.Clone(urls)
	return nil
}
