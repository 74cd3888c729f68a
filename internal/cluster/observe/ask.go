// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ask queries the status of every member that has an address and of the source cluster, then the best informed voter for the member list,
// and then the foreign members, all with deadlines. Members that do not answer are missing in the input. As long as no answer names a
// leader, every running member gets askTimeout.
func (o *Observer) ask(ctx context.Context, etcd *v1alpha1.Etcd, f *input) error {
	endpoints := map[int]target{}
	for i, ordinal := range f.ordinals {
		if ordinal.Pod != nil && ordinal.Pod.Endpoint != "" {
			endpoints[i] = target{member: ordinal.Name, endpoint: ordinal.Pod.Endpoint}
		}
	}
	members := &members{observer: o, etcd: etcd, clients: map[target]etcdclient.Client{}}
	defer members.close()
	limited, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	sources, answered := sourceTargets(etcd), make(chan map[int]etcdclient.Status, 1)
	go func() { answered <- statuses(limited, members, sources, patient) }()
	f.answers = statuses(limited, members, endpoints, func(i int) time.Duration {
		if !f.ordinals[i].Pod.Ready && !o.afar {
			return askUnreadyTimeout
		}
		return askTimeout
	})
	maps.Copy(f.answers, statuses(limited, members, o.hurried(f, endpoints), patient))
	f.sources = <-answered
	o.recheckCertificates(etcd, f)
	if f.members, f.hung = memberList(limited, members, bestInformed(f.answers, f.clusterID()), endpoints); f.members == nil {
		var hung map[int]bool
		f.members, hung = memberList(limited, members, bestInformed(f.sources, f.clusterID()), sources)
		maps.DeleteFunc(f.sources, func(i int, _ etcdclient.Status) bool { return hung[i] })
	}
	f.foreignAt = foreignVoters(f)
	f.foreign = answeredSources(f, sources)
	maps.Copy(f.foreign, statuses(limited, members, unanswered(f), patient))
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("asking the members of StatefulSet %s: %w", f.statefulSet.Name, err)
	}
	return nil
}

// hurried returns the members to query again with more time as long as no member of the cluster knows a leader: running ones that got
// little time. A loss of quorum is never concluded from answers for which nothing has waited.
func (o *Observer) hurried(f *input, endpoints map[int]target) map[int]target {
	again := map[int]target{}
	if o.afar || f.knowLeader() {
		return again
	}
	for i, at := range endpoints {
		_, answered := f.answers[i]
		if ordinal := f.ordinals[i]; !answered && ordinal.Class == v1alpha1.ClassUnready && !ordinal.Pod.Ready {
			again[i] = at
		}
	}
	return again
}

// knowLeader reports whether a member that answered knows a leader. Members of another cluster than the recorded one do not count.
func (f *input) knowLeader() bool {
	for _, s := range f.answers {
		if s.Leader != 0 && (f.lineage.recorded == 0 || s.ClusterID == f.lineage.recorded) {
			return true
		}
	}
	return false
}

// patient is the timeout of members that are not known to be slow.
func patient[K comparable](K) time.Duration { return askTimeout }

// sourceTargets are the client endpoints of the source cluster.
func sourceTargets(etcd *v1alpha1.Etcd) map[int]target {
	targets := map[int]target{}
	if source := etcd.Source(); source != nil {
		for i, endpoint := range source.ClientEndpoints {
			targets[i] = target{endpoint: endpoint}
		}
	}
	return targets
}

// answeredSources returns the foreign voters that an endpoint of the source cluster has answered for, and notes where.
func answeredSources(f *input, sources map[int]target) map[uint64]etcdclient.Status {
	foreign := map[uint64]etcdclient.Status{}
	for i, s := range f.sources {
		listed := slices.IndexFunc(f.members, func(m etcdclient.Member) bool { return m.ID == s.MemberID && !m.Learner })
		if listed >= 0 && !isOurs(f.ordinals, f.answers, f.members[listed]) {
			foreign[s.MemberID], f.foreignAt[s.MemberID] = s, sources[i]
		}
	}
	return foreign
}

// unanswered returns the foreign voters that have not answered at an endpoint of the source cluster.
func unanswered(f *input) map[uint64]target {
	rest := maps.Clone(f.foreignAt)
	maps.DeleteFunc(rest, func(id uint64, _ target) bool { _, ok := f.foreign[id]; return ok })
	return rest
}

// maxForeign is how many foreign voters are queried. A member list can name any address, and each takes a connection. Voters that are not
// queried count as down.
const maxForeign = 7

// foreignVoters returns the targets of the voters without an ordinal, by member ID.
func foreignVoters(f *input) map[uint64]target {
	foreign := map[uint64]target{}
	for _, m := range f.members {
		if len(foreign) < maxForeign && len(m.ClientURLs) > 0 && !m.Learner && !isOurs(f.ordinals, f.answers, m) {
			foreign[m.ID] = target{endpoint: m.ClientURLs[0]}
		}
	}
	return foreign
}

func isOurs(ordinals []cluster.Ordinal, answers map[int]etcdclient.Status, m etcdclient.Member) bool {
	for i, o := range ordinals {
		if o.Member == m.Name || answers[i].MemberID == m.ID {
			return true
		}
	}
	return false
}

// recheckCertificates causes the certificates of the Etcd to be read again if a ready member did not answer over TLS.
func (o *Observer) recheckCertificates(etcd *v1alpha1.Etcd, f *input) {
	for i, ordinal := range f.ordinals {
		_, answered := f.answers[i]
		if !answered && ordinal.Pod != nil && ordinal.Pod.Ready && strings.HasPrefix(ordinal.Pod.Endpoint, "https://") {
			o.credentials.Doubt(client.ObjectKeyFromObject(etcd))
		}
	}
}

// target is the address of a member. The name is empty for a foreign member.
type target struct {
	member, endpoint string
}

// members are the clients of one observation, one for each target.
type members struct {
	observer *Observer
	etcd     *v1alpha1.Etcd
	mu       sync.Mutex
	clients  map[target]etcdclient.Client
}

func (m *members) at(ctx context.Context, t target) (etcdclient.Client, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.clients[t]; ok {
		return c, nil
	}
	c, err := m.observer.credentials.Dial(ctx, m.observer.dialer, m.etcd, t.member, t.endpoint)
	if err == nil {
		m.clients[t] = c
	}
	return c, err
}

func (m *members) close() {
	for _, c := range m.clients {
		// Nothing depends on how a connection that is no longer needed ends.
		_ = c.Close()
	}
}

// statuses queries all endpoints in parallel, each with its own timeout.
func statuses[K comparable](ctx context.Context, members *members, endpoints map[K]target, timeout func(K) time.Duration) map[K]etcdclient.Status {
	var (
		mu      sync.Mutex
		all     sync.WaitGroup
		answers = map[K]etcdclient.Status{}
	)
	for key, target := range endpoints {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, timeout(key))
			defer cancel()
			c, err := members.at(ctx, target)
			if err != nil {
				return
			}
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

// memberList queries targets in order until one returns the list, and also returns those that hung: they had all of the time that there is for one.
func memberList(ctx context.Context, members *members, order []int, endpoints map[int]target) (list []etcdclient.Member, hung map[int]bool) {
	hung = map[int]bool{}
	for _, i := range order {
		c, err := members.at(ctx, endpoints[i])
		if err != nil {
			continue
		}
		ask, cancel := context.WithTimeout(ctx, askTimeout)
		list, err := c.Members(ask)
		late := errors.Is(ask.Err(), context.DeadlineExceeded)
		cancel()
		if err == nil {
			return list, hung
		}
		hung[i] = late && ctx.Err() == nil
	}
	return nil, hung
}
