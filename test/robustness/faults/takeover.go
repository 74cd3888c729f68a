// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/proxy"
)

const (
	// latest is how long after its beginning the cache stops to follow, at the latest: it may know any moment of an operation.
	latest = 10 * time.Second
	// acting is how long the operator works with the old cache.
	acting = 10 * time.Second
)

// watched are the resources whose events may be late. Each has a cache of its own in an API server.
var watched = []string{"etcds", "etcdoperatortasks", "statefulsets", "pods"}

func takeovers() []Kind {
	choose := func(_ *Machine, random *rand.Rand) target {
		t := target{resource: watched[random.IntN(len(watched))], delay: time.Duration(random.Int64N(int64(latest)))}
		t.name = fmt.Sprintf("the operator's %s after %s", t.resource, t.delay.Round(100*time.Millisecond))
		return t
	}
	return []Kind{{Name: "operator takes over with an old cache", Longest: 60 * time.Second, SparesWrites: true, by: byOperator, also: byProxy, choose: choose, inject: takeOver}}
}

// takeOver lets an operator that does not lead take over with a cache in which objects of one kind are old, as one whose API
// server lags behind the others: their events do not reach it any more. At the end, the one that leads is frozen until another
// leads, and killed.
func takeOver(ctx context.Context, m *Machine, t target) (heal, error) {
	if !wait(ctx, t.delay) {
		return notInEffect, nil
	}
	name, _, err := m.leader(ctx)
	if err != nil {
		return notInEffect, nil
	}
	pods, err := m.operatorPods(ctx)
	if err != nil {
		return nil, err
	}
	var others []string
	for _, pod := range pods {
		if pod.Name != name && pod.Status.PodIP != "" {
			others = append(others, pod.Status.PodIP)
		}
	}
	if len(others) == 0 {
		return notInEffect, nil
	}
	m.Proxy.Set(proxy.Mischief{Hold: true, Of: t.resource, From: others})
	return func(ctx context.Context) (string, error) {
		t.began() // nothing that the operator has done before rests on the old cache
		successor, err := m.handOver(ctx, name)
		if successor != "" {
			wait(ctx, acting)
		}
		held := m.Proxy.Set(proxy.Mischief{})
		if successor == "" || held == 0 {
			return "", err
		}
		return fmt.Sprintf("%s took over from %s, and %d of its watches of %s had delivered nothing since", successor, name, held, t.resource), err
	}, nil
}

// handOver freezes an operator that leads until another one does, and kills it. It returns the name of the other one; empty if
// the operator does not lead any more.
func (m *Machine) handOver(ctx context.Context, from string) (string, error) {
	name, p, err := m.leader(ctx)
	if err != nil || name != from || p.Freeze(ctx) != nil {
		return "", nil
	}
	successor := ""
	err = poll(ctx, "another operator leads", func() (bool, error) {
		now, _, err := m.leader(ctx)
		if err == nil && now != from {
			successor = now
		}
		return successor != "", err
	})
	return successor, errors.Join(err, p.Kill(context.WithoutCancel(ctx)))
}
