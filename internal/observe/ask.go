// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/etcdclient"
)

// ask asks every member that has an address for its status, the best informed voter for the member list, and
// then the foreign members, all with deadlines. Who does not answer is not in the facts.
func (o *Observer) ask(ctx context.Context, f *facts) error {
	endpoints := map[int]string{}
	for i, ordinal := range f.ordinals {
		if ordinal.Pod != nil && ordinal.Pod.Endpoint != "" {
			endpoints[i] = ordinal.Pod.Endpoint
		}
	}
	members := newMembers(o.dialer)
	defer members.close()
	f.answers = statuses(ctx, members, endpoints, func(i int) time.Duration {
		if !f.ordinals[i].Pod.Ready {
			return askUnreadyTimeout
		}
		return askTimeout
	})
	f.members = memberList(ctx, members, f.answers, endpoints)
	foreign := map[uint64]string{}
	for _, m := range f.members {
		if len(m.ClientURLs) > 0 && !m.Learner && !isOurs(f.ordinals, f.answers, m) {
			foreign[m.ID] = m.ClientURLs[0]
		}
	}
	f.foreign = statuses(ctx, members, foreign, func(uint64) time.Duration { return askTimeout })
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("asking the members of StatefulSet %s: %w", f.statefulSet.Name, err)
	}
	return nil
}

func isOurs(ordinals []Ordinal, answers map[int]etcdclient.Status, m etcdclient.Member) bool {
	for i, o := range ordinals {
		if o.Name == m.Name || answers[i].MemberID == m.ID {
			return true
		}
	}
	return false
}

func endpoint(host string, port int32) string {
	return "http://" + net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// members are the clients of one observation, one for each endpoint.
type members struct {
	dialer  etcdclient.Dialer
	mu      sync.Mutex
	clients map[string]etcdclient.Client
}

func newMembers(dialer etcdclient.Dialer) *members {
	return &members{dialer: dialer, clients: map[string]etcdclient.Client{}}
}

func (m *members) at(endpoint string) (etcdclient.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.clients[endpoint]; ok {
		return c, nil
	}
	c, err := m.dialer.Dial(endpoint, nil)
	if err == nil {
		m.clients[endpoint] = c
	}
	return c, err
}

func (m *members) close() {
	for _, c := range m.clients {
		// Nothing depends on how a connection that is not needed any more ends.
		_ = c.Close()
	}
}

// statuses asks all endpoints at the same time, each for as long as it is given.
func statuses[K comparable](ctx context.Context, members *members, endpoints map[K]string, timeout func(K) time.Duration) map[K]etcdclient.Status {
	var (
		mu      sync.Mutex
		all     sync.WaitGroup
		answers = map[K]etcdclient.Status{}
	)
	for key, endpoint := range endpoints {
		all.Go(func() {
			c, err := members.at(endpoint)
			if err != nil {
				return
			}
			ctx, cancel := context.WithTimeout(ctx, timeout(key))
			defer cancel()
			if status, err := c.Status(ctx); err == nil {
				mu.Lock()
				defer mu.Unlock()
				answers[key] = status
			}
		})
	}
	all.Wait()
	return answers
}

// memberList asks the voters that answered, the best informed first, until one gives the list.
func memberList(ctx context.Context, members *members, answers map[int]etcdclient.Status, endpoints map[int]string) []etcdclient.Member {
	for _, i := range bestInformed(answers) {
		c, err := members.at(endpoints[i])
		if err != nil {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		list, err := c.Members(ask)
		cancel()
		if err == nil {
			return list
		}
	}
	return nil
}
