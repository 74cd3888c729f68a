// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient/etcdfake"
	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
)

// slowly dials a cluster whose members answer with a delay.
type slowly struct {
	etcdfake.Cluster
	takes func(member int) time.Duration
	asked atomic.Int32
}

func (s *slowly) Dial(endpoint string, config *tls.Config) (etcdclient.Client, error) {
	c, err := s.Cluster.Dial(endpoint, config)
	return &slow{Client: c, cluster: s, endpoint: endpoint}, err
}

type slow struct {
	etcdclient.Client
	cluster  *slowly
	endpoint string
}

func (s *slow) Status(ctx context.Context) (etcdclient.Status, error) {
	s.cluster.asked.Add(1)
	for i, endpoint := range s.cluster.Endpoints {
		if endpoint != s.endpoint {
			continue
		}
		select {
		case <-ctx.Done():
			return etcdclient.Status{}, ctx.Err()
		case <-time.After(s.cluster.takes(i)):
		}
	}
	return s.Client.Status(ctx)
}

// Members with failing probes get little time to answer, since most of them hang. If no answering member knows a leader,
// running members get as much time as the others: a slow member is not a lost one.
func TestSlowIsNotLost(t *testing.T) {
	const hangs = time.Hour
	for name, c := range map[string]struct {
		takes   [3]time.Duration
		dead    int // the ordinals from here on do not run
		serving int
		asked   int32
		within  time.Duration
	}{
		"all at once":                         {[3]time.Duration{0, 0, 0}, 3, 3, 3, 0},
		"all of them slowly":                  {[3]time.Duration{400 * time.Millisecond, 400 * time.Millisecond, 400 * time.Millisecond}, 3, 3, 6, 700 * time.Millisecond},
		"one that hangs is not waited for":    {[3]time.Duration{hangs, 0, 0}, 3, 2, 3, 300 * time.Millisecond},
		"one that is slow is not waited for":  {[3]time.Duration{400 * time.Millisecond, 0, 0}, 3, 2, 3, 300 * time.Millisecond},
		"a stopped member is not asked twice": {[3]time.Duration{400 * time.Millisecond, 400 * time.Millisecond, hangs}, 2, 2, 5, 700 * time.Millisecond},
		"all hang":                            {[3]time.Duration{hangs, hangs, hangs}, 3, 0, 6, 2300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				members := &slowly{takes: func(i int) time.Duration { return c.takes[i] }}
				members.Up = func(i int) bool { return c.takes[i] < hangs }
				var f input
				for i := range 3 {
					name, endpoint := fmt.Sprintf("m-%d", i), fmt.Sprintf("http://10.0.0.%d:2379", i)
					members.Names, members.Endpoints = append(members.Names, name), append(members.Endpoints, endpoint)
					class := v1alpha1.ClassUnready
					if i >= c.dead {
						class = v1alpha1.ClassDead
					}
					f.ordinals = append(f.ordinals, cluster.Ordinal{Name: name, Member: name, Class: class, Pod: &cluster.Pod{Endpoint: endpoint}})
				}
				begin := time.Now()
				g.Expect(New(members, clock.RealClock{}).ask(t.Context(), &v1alpha1.Etcd{}, &f)).To(Succeed())
				g.Expect(time.Since(begin)).To(Equal(c.within))
				g.Expect(members.asked.Load()).To(Equal(c.asked))
				s := build(f)
				g.Expect(s.Cluster.LeaderKnown).To(Equal(c.serving > 0))
				g.Expect(s.ServingVoters()).To(Equal(c.serving))
			})
		})
	}
}
