// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/view"
	clientv3 "go.etcd.io/etcd/client/v3"
)

var errNoMember = errors.New("no such member has an address")

// connection is a client of one member, or of all, whose addresses change.
type connection struct {
	roster *view.Roster
	target string // name of a pod; empty for all

	mutex     sync.Mutex
	addresses []string
	etcd      *clientv3.Client
}

// client returns a client for the addresses of now.
func (c *connection) client() (*clientv3.Client, error) {
	var addresses []string
	for _, pod := range c.roster.Pods() {
		if c.target == "" || c.target == pod.Name {
			addresses = append(addresses, pod.Address())
		}
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	switch {
	case len(addresses) == 0:
		return nil, errNoMember
	case slices.Equal(addresses, c.addresses):
		return c.etcd, nil
	}
	if c.etcd != nil {
		_ = c.etcd.Close()
		c.addresses = nil
	}
	etcd, err := view.Dial(addresses...)
	if err != nil {
		return nil, err
	}
	c.etcd, c.addresses = etcd, addresses
	return etcd, nil
}

// page is the number of keys of one request.
const page = 2000

// End records what every member has at the end: all unique keys, read linearizably, and the hash of its key space.
func (t *Traffic) End(ctx context.Context) error {
	pods := t.roster.Pods()
	revision := int64(0)
	for _, pod := range pods {
		etcd, err := view.Dial(pod.Address())
		if err != nil {
			return err
		}
		newest, err := t.readAll(ctx, etcd, pod.Name)
		if err = errors.Join(err, etcd.Close()); err != nil {
			return fmt.Errorf("reading all keys through %s: %w", pod.Name, err)
		}
		revision = max(revision, newest)
	}
	return t.hash(ctx, pods, revision)
}

// Read records all that the cluster has at one revision, once it has gone back.
func (t *Traffic) Read(ctx context.Context) error {
	var addresses []string
	for _, pod := range t.roster.Pods() {
		addresses = append(addresses, pod.Address())
	}
	etcd, err := view.Dial(addresses...)
	if err != nil {
		return err
	}
	defer etcd.Close() //nolint:errcheck // it was only read
	s := history.State{Pairs: map[string]string{}}
	for from, end := prefix, clientv3.GetPrefixRangeEnd(prefix); ; {
		answer, err := etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(s.Revision))
		if err != nil {
			return err
		}
		for _, pair := range answer.Kvs {
			s.Pairs[strings.TrimPrefix(string(pair.Key), prefix)] = string(pair.Value)
			from = string(pair.Key) + "\x00"
		}
		if s.Revision = cmp.Or(s.Revision, answer.Header.Revision); !answer.More {
			t.writer.Write(history.Line{State: &s})
			return nil
		}
	}
}

// readAll records all keys, and returns the newest revision that was seen.
func (t *Traffic) readAll(ctx context.Context, etcd *clientv3.Client, member string) (int64, error) {
	from, end, newest := prefix, clientv3.GetPrefixRangeEnd(prefix), int64(0)
	for {
		answer, err := etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(page))
		if err != nil {
			return 0, err
		}
		pairs := map[string]string{}
		for _, pair := range answer.Kvs {
			pairs[strings.TrimPrefix(string(pair.Key), prefix)] = string(pair.Value)
			from = string(pair.Key) + "\x00"
		}
		t.writer.Write(history.Line{Final: &history.Final{Member: member, Pairs: pairs, More: answer.More}})
		if newest = max(newest, answer.Header.Revision); !answer.More {
			return newest, nil
		}
	}
}

// hash records the hash of every member's key space at one revision, once all are compacted to the same one: a member
// compacts in the background.
func (t *Traffic) hash(ctx context.Context, pods []view.Pod, revision int64) error {
	for {
		var hashes []history.Hash
		for _, pod := range pods {
			etcd, err := view.Dial(pod.Address())
			if err != nil {
				return err
			}
			answer, err := etcd.HashKV(ctx, pod.Address(), revision)
			if err = errors.Join(err, etcd.Close()); err != nil {
				return fmt.Errorf("hashing the key space of %s: %w", pod.Name, err)
			}
			hashes = append(hashes, history.Hash{Member: pod.Name, Revision: revision, Compacted: answer.CompactRevision, Hash: answer.Hash})
		}
		compacted := func(h history.Hash) bool { return h.Compacted == hashes[0].Compacted }
		if len(hashes) > 0 && !slices.ContainsFunc(hashes, func(h history.Hash) bool { return !compacted(h) }) {
			for _, h := range hashes {
				t.writer.Write(history.Line{Hash: &h})
			}
			return nil
		}
		if !wait(ctx, time.Second) {
			return fmt.Errorf("comparing hashes: %w: members are not compacted to the same revision", context.Cause(ctx))
		}
	}
}
