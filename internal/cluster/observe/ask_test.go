// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
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
	// lists is how long a member takes to return the member list, or less than nothing if it refuses; nil for no time.
	lists func(member int) time.Duration
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
	if err := s.wait(ctx, s.cluster.takes); err != nil {
		return etcdclient.Status{}, err
	}
	return s.Client.Status(ctx)
}

func (s *slow) Members(ctx context.Context) ([]etcdclient.Member, error) {
	if s.cluster.lists != nil {
		if err := s.wait(ctx, s.cluster.lists); err != nil {
			return nil, err
		}
		if s.cluster.lists(slices.Index(s.cluster.Endpoints, s.endpoint)) < 0 {
			return nil, errors.New("refused")
		}
	}
	return s.Client.Members(ctx)
}

// wait waits for as long as a member takes.
func (s *slow) wait(ctx context.Context, takes func(member int) time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(takes(slices.Index(s.cluster.Endpoints, s.endpoint))):
		return ctx.Err()
	}
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

// A member that answers its status, and then does not return the member list in time, does not serve: it hangs since. That a leader is known stays true.
func TestAMemberThatHangsAfterItsStatus(t *testing.T) {
	const hangs, refuses = time.Hour, time.Duration(-1)
	for name, c := range map[string]struct {
		takes, lists [3]time.Duration
		serving      []bool
		voters       int
		within       time.Duration
	}{
		"all answer":                      {[3]time.Duration{}, [3]time.Duration{}, []bool{true, true, true}, 3, 0},
		"the first is slow":               {[3]time.Duration{}, [3]time.Duration{1900 * time.Millisecond}, []bool{true, true, true}, 3, 1900 * time.Millisecond},
		"the first hangs":                 {[3]time.Duration{}, [3]time.Duration{hangs}, []bool{false, true, true}, 3, 2 * time.Second},
		"one that is not asked hangs":     {[3]time.Duration{}, [3]time.Duration{0, hangs}, []bool{true, true, true}, 3, 0},
		"all refuse":                      {[3]time.Duration{}, [3]time.Duration{refuses, refuses, refuses}, []bool{true, true, true}, 0, 0},
		"no time is left for the second":  {[3]time.Duration{}, [3]time.Duration{hangs, hangs}, []bool{false, true, true}, 0, 3 * time.Second},
		"the first gets less than others": {[3]time.Duration{0, 0, hangs}, [3]time.Duration{hangs}, []bool{true, true, false}, 0, 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				members := &slowly{takes: func(i int) time.Duration { return c.takes[i] }, lists: func(i int) time.Duration { return c.lists[i] }}
				members.Up = func(int) bool { return true }
				var f input
				for i := range 3 {
					name, endpoint := fmt.Sprintf("m-%d", i), fmt.Sprintf("http://10.0.0.%d:2379", i)
					members.Names, members.Endpoints = append(members.Names, name), append(members.Endpoints, endpoint)
					f.ordinals = append(f.ordinals, cluster.Ordinal{Name: name, Member: name, Class: v1alpha1.ClassUnready, Pod: &cluster.Pod{Endpoint: endpoint, Ready: true}})
				}
				begin := time.Now()
				g.Expect(New(members, clock.RealClock{}).ask(t.Context(), &v1alpha1.Etcd{}, &f)).To(Succeed())
				g.Expect(time.Since(begin)).To(Equal(c.within))
				s := build(f)
				g.Expect(s.Cluster.LeaderKnown).To(BeTrue())
				g.Expect(s.Cluster.Voters).To(HaveLen(c.voters))
				for i := range s.Ordinals {
					g.Expect(s.Ordinals[i].Serving).To(Equal(c.serving[i]), "m-%d", i)
				}
			})
		})
	}
}
