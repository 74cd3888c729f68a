// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/local/node"
)

// findPatience bounds finding the process of a member: it may be starting.
const findPatience = 5 * time.Second

// bySignals: members are stopped and continued.
const bySignals = "signals to members"

func members() []Kind {
	return []Kind{
		{Name: "member frozen (SIGSTOP)", Longest: 25 * time.Second, by: bySignals, choose: anyMember, inject: freezeMembers},
		{Name: "all members frozen (SIGSTOP)", Longest: 12 * time.Second, by: bySignals, choose: allMembers, inject: freezeMembers},
		{Name: "member killed (SIGKILL)", Longest: 2 * time.Second, EndsEtcd: true, choose: anyMember, inject: endMember(node.Process.Kill)},
		{Name: "member terminated (SIGTERM)", Longest: 2 * time.Second, EndsEtcd: true, choose: anyMember, inject: endMember(func(p node.Process, ctx context.Context) error { return p.Terminate() })},
		{Name: "member slow", Longest: 40 * time.Second, by: bySignals, choose: anyMember, inject: stutter},
		{Name: "all members slow", Longest: 30 * time.Second, by: bySignals, choose: allMembers, inject: stutter},
		{Name: "container starts slowly", Longest: 40 * time.Second, by: bySignals, choose: allMembers, inject: slowStart},
	}
}

// process returns the etcd process of a member.
func (m *Machine) process(ctx context.Context, member string) (node.Process, error) {
	ctx, cancel := context.WithTimeout(ctx, findPatience)
	defer cancel()
	pod, there := m.Roster.Pod(member)
	if !there {
		return node.Process{}, fmt.Errorf("%s has no pod with an address", member)
	}
	return node.Find(ctx, pod.UID, node.Etcd)
}

// freezeMembers freezes the processes that members have now. One that has been killed meanwhile was frozen until then.
func freezeMembers(ctx context.Context, m *Machine, t target) (heal, error) {
	var frozen []node.Process
	for _, member := range t.members {
		p, err := m.process(ctx, member)
		if err == nil {
			err = p.Freeze(ctx)
		}
		if err == nil {
			frozen = append(frozen, p) // else it is not running: there is nothing to freeze
		}
	}
	return func(ctx context.Context) (string, error) {
		var failed []error
		var ends []string
		for _, p := range frozen {
			switch {
			case p.Stopped():
				ends = append(ends, p.String()+" was stopped until the end")
			case !p.Alive():
				ends = append(ends, p.String()+" was stopped until it was killed")
			}
			if err := p.Thaw(ctx); err != nil && p.Alive() {
				failed = append(failed, err)
			}
		}
		if len(ends) < len(t.members) {
			return "", errors.Join(failed...)
		}
		return strings.Join(ends, ", "), errors.Join(failed...)
	}, nil
}

func endMember(kill func(node.Process, context.Context) error) func(context.Context, *Machine, target) (heal, error) {
	return func(ctx context.Context, m *Machine, t target) (heal, error) {
		p, err := m.process(ctx, t.members[0])
		if err != nil {
			return notInEffect, nil
		}
		if err := kill(p, ctx); err != nil {
			return nil, err
		}
		return func(ctx context.Context) (string, error) {
			err := poll(ctx, "the member has ended", func() (bool, error) { return !p.Alive(), nil })
			return p.String() + " has ended", err
		}, nil
	}
}

func notInEffect(context.Context) (string, error) { return "", nil }

const (
	// stopped and running are the parts of a second in which a slow member does and does not run. Its answers take up to
	// a second, probes fail now and then, and heartbeats are late.
	stopped = 900 * time.Millisecond
	running = 100 * time.Millisecond
)

// stutter lets members run for a tenth of the time.
func stutter(ctx context.Context, m *Machine, t target) (heal, error) {
	var stops tally
	stop := during(ctx, t.members, running, func(ctx context.Context, member string) {
		p, err := m.process(ctx, member)
		if err != nil || p.Freeze(ctx) != nil {
			return
		}
		wait(ctx, stopped)
		_ = p.Thaw(context.WithoutCancel(ctx)) // it has ended
		stops.add(member)
	})
	return func(context.Context) (string, error) {
		stop()
		return stops.evidence(t.members, fmt.Sprintf("stopped for %s", stopped)), nil
	}, nil
}

// slowness is how long a container that starts slowly does nothing.
const slowness = 10 * time.Second

// slowStart freezes every etcd that starts in the meantime for a while, once.
func slowStart(ctx context.Context, m *Machine, t target) (heal, error) {
	var slowed atomic.Int64
	var known sync.Map
	for _, member := range t.members {
		if p, err := m.process(ctx, member); err == nil {
			known.Store(p, true)
		}
	}
	stop := during(ctx, t.members, 100*time.Millisecond, func(ctx context.Context, member string) {
		p, err := m.process(ctx, member)
		if err != nil {
			return
		}
		if _, slow := known.Load(p); slow || p.Freeze(ctx) != nil {
			return
		}
		known.Store(p, true)
		whole := wait(ctx, slowness)
		if p.Thaw(context.WithoutCancel(ctx)) == nil && whole { // else it has ended, or so has the fault
			slowed.Add(1)
		}
	})
	return func(context.Context) (string, error) {
		stop()
		if slowed.Load() == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d starts took %s longer", slowed.Load(), slowness), nil
	}, nil
}
