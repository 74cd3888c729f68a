// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package faults injects faults into the local Kubernetes: into members, the operator, the API server, the network between
// them, and the node. Each fault says how one knows that it was in effect.
package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/proxy"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/view"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Machine is what faults are injected into.
type Machine struct {
	Kube   client.Client
	Roster *view.Roster
	Proxy  *proxy.Proxy
	// Namespace and Name of the StatefulSet, and how many members it has.
	Namespace, Name string
	Members         int
	// Other is the StatefulSet of a migration, of as many members, which takes part while Both is set.
	Other string
	Both  bool
	// Operator is the Deployment of the operator.
	Operator types.NamespacedName
	// ProxyPort is where the operator reaches its API server.
	ProxyPort int
}

// Kind is a kind of fault.
type Kind struct {
	Name string
	// Longest is how long it may be in effect.
	Longest time.Duration
	// EndsEtcd: it ends the etcd of its target.
	EndsEtcd bool
	// SparesWrites: it does not reach the members.
	SparesWrites bool
	// Both: it is between two StatefulSets.
	Both bool
	// by is what injects it, if that can do one thing at a time, and also another such thing that it needs.
	by, also string
	// choose picks a target.
	choose func(m *Machine, random *rand.Rand) target
	inject func(ctx context.Context, m *Machine, t target) (heal, error)
}

// Excludes reports whether two kinds are not injected at the same time, because the end of one would be that of the other.
func (k Kind) Excludes(other Kind) bool {
	return k.Name == other.Name || k.needs(other.by) || k.needs(other.also)
}

func (k Kind) needs(what string) bool { return what != "" && (k.by == what || k.also == what) }

// heal ends a fault, and returns how one knows that it was in effect; empty if it was not.
type heal func(ctx context.Context) (evidence string, err error)

// target is what a fault is done to.
type target struct {
	name    string
	members []string
	// from and to are the ends of a network link.
	from, to string
	both     bool
	// resource is a kind of objects of the API server.
	resource string
	// delay is how long after its beginning the fault takes effect.
	delay time.Duration
	// shift is how far off a clock is.
	shift time.Duration
	// began is called when the fault is in effect, if that is later than when it was injected.
	began func()
}

// Fault is a fault that was chosen and can be injected.
type Fault struct {
	Kind   Kind
	Length time.Duration
	target target
}

// Target is what the fault is done to.
func (f Fault) Target() string { return f.target.name }

func (f Fault) String() string {
	return fmt.Sprintf("%s of %s for %s", f.Kind.Name, f.target.name, f.Length.Round(100*time.Millisecond))
}

// Choose picks the target and the length of a fault: more often short than long, unless it is to be as long as possible. The
// same random numbers give the same choices.
func (k Kind) Choose(m *Machine, random *rand.Rand, longest bool) Fault {
	part := random.Float64()
	if longest {
		part = 1
	}
	return Fault{Kind: k, target: k.choose(m, random), Length: time.Duration(float64(k.Longest) * (0.15 + 0.85*part*part))}
}

// ErrNotEnded is in the error of a fault that could not be ended: what follows is not undisturbed.
var ErrNotEnded = errors.New("it may still be in effect")

// healPatience bounds the end of a fault. It does not depend on the run: a fault is ended even if that was interrupted.
const healPatience = time.Minute

// Inject injects the fault, waits for its length or until the context ends, and ends it. began is called when it is in effect; of
// several times the last one counts. It returns how one knows that it was in effect; empty if it was not.
func (f Fault) Inject(ctx context.Context, m *Machine, began func()) (evidence string, err error) {
	f.target.began = began
	if m.Both {
		f.target.members = m.present(f.target.members)
	}
	end, err := f.Kind.inject(ctx, m, f.target)
	if err != nil {
		return "", fmt.Errorf("injecting %s: %w", f, err)
	}
	began()
	wait(ctx, f.Length)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healPatience)
	defer cancel()
	if evidence, err = end(ctx); err != nil {
		return evidence, fmt.Errorf("ending %s: %w: %w", f, ErrNotEnded, err)
	}
	return evidence, nil
}

// present returns those of several members that have a pod: of two StatefulSets, some have yet to come, or have left.
func (m *Machine) present(members []string) []string {
	there := slices.DeleteFunc(slices.Clone(members), func(name string) bool { _, ok := m.Roster.Pod(name); return !ok })
	if len(members) < 2 || len(there) == 0 {
		return members
	}
	return there
}

// during does something for each of some things again and again, until it is stopped. do returns when it is to be done again, at
// the latest when its context ends.
func during[T any](ctx context.Context, all []T, again time.Duration, do func(context.Context, T)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, one := range all {
		running.Go(func() {
			for ctx.Err() == nil {
				do(ctx, one)
				wait(ctx, again)
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// wait waits; false if the context has ended before.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// poll waits until something is so.
func poll(ctx context.Context, what string, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if ok {
			return nil
		}
		if !wait(ctx, 100*time.Millisecond) {
			return fmt.Errorf("waiting until %s: %w", what, errors.Join(context.Cause(ctx), err))
		}
	}
}

// All are all kinds of faults.
func All() []Kind {
	var all []Kind
	for _, some := range [][]Kind{members(), clocks(), answersLate(), storage(), slowDisks(), links(), operators(), apiServers(), others(), behind(), takeovers()} {
		all = append(all, some...)
	}
	return all
}

// Named returns the kind of a name.
func Named(name string) (Kind, bool) {
	for _, k := range All() {
		if k.Name == name {
			return k, true
		}
	}
	return Kind{}, false
}

// pods are the names of the members' pods.
func (m *Machine) pods() (names []string) {
	sets := []string{m.Name}
	if m.Both {
		sets = append(sets, m.Other)
	}
	for _, set := range sets {
		for i := range m.Members {
			names = append(names, fmt.Sprintf("%s-%d", set, i))
		}
	}
	return names
}

// setOf is the StatefulSet of a pod.
func setOf(pod string) string { return pod[:strings.LastIndexByte(pod, '-')] }

func anyMember(m *Machine, random *rand.Rand) target {
	pods := m.pods()
	name := pods[random.IntN(len(pods))]
	return target{name: name, members: []string{name}}
}

func allMembers(m *Machine, _ *rand.Rand) target {
	return target{name: "every member", members: m.pods()}
}

func nothing(name string) func(*Machine, *rand.Rand) target {
	return func(*Machine, *rand.Rand) target { return target{name: name} }
}
