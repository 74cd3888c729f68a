// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package inmemory

import (
	"context"
	"crypto/tls"
	"sync"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	"github.com/etcd-foreman/etcd-foreman/internal/cluster/etcdclient"
	"github.com/etcd-foreman/etcd-foreman/test/crash/disturb"
	"github.com/etcd-foreman/etcd-foreman/test/simulation/apiserver"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Operator is how one operator sees the world: a cache, the API server, the members.
type Operator struct {
	World *World
	// Decide is asked for the fate of each write, and may wait. Read is told of each read from the API server or the cache.
	Decide func(disturb.Write) disturb.Fate
	Read   func(kind, namespace string)

	mu     sync.Mutex
	killed bool
	// cache has the objects as the operator's watches have delivered them, and held the kinds whose watches are held.
	cache *apiserver.Cache
	held  map[string]bool
}

// Killed reports whether the operator was killed.
func (o *Operator) Killed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.killed
}

func (o *Operator) kill() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.killed = true
}

// Kinds are the kinds in the cache that change while tasks run.
func Kinds() []string { return []string{"Etcd", "EtcdOperatorTask", "StatefulSet", "Pod"} }

// Hold holds the watches of kinds: from now on the cache shows them as they are now. Without kinds, all are delivered again.
func (o *Operator) Hold(kinds ...string) {
	o.held = map[string]bool{}
	for _, k := range kinds {
		o.held[k] = true
	}
}

// Deliver brings the cache up to date, except for what is held.
func (o *Operator) Deliver() {
	if o.cache == nil {
		o.cache = o.World.Server.NewCache(func(string) int { return 0 })
	}
	for _, kind := range o.World.Server.Kinds() {
		for !o.held[kind] && o.cache.Behind(kind) > 0 {
			o.cache.Deliver(kind)
		}
	}
}

// write carries a write out as it is fated.
func (o *Operator) write(verb, kind, namespace, name string, do func() error) error {
	if o.Killed() {
		return disturb.ErrKilled
	}
	fate := disturb.Answered
	if o.Decide != nil {
		fate = o.Decide(disturb.Write{Verb: verb, Kind: kind, Name: name, Namespace: namespace})
	}
	switch {
	case fate == disturb.KilledBefore:
		o.kill()
		return disturb.ErrKilled
	case o.Killed():
		return disturb.ErrKilled
	case fate == disturb.NotSent:
		return apierrors.NewServerTimeout(v1alpha1.GroupVersion.WithResource("any").GroupResource(), verb, 1)
	}
	err := do()
	switch fate {
	case disturb.KilledAfter:
		o.kill()
		return disturb.ErrKilled
	case disturb.AnswerLost:
		return apierrors.NewTimeoutError("the answer was lost", 1)
	}
	return err
}

func (o *Operator) read(kind, namespace string) error {
	if o.Killed() {
		return disturb.ErrKilled
	}
	if o.Read != nil {
		o.Read(kind, namespace)
	}
	return nil
}

// Live reads from the API server.
func (o *Operator) Live() client.Client { return o.client(o.World.Reads) }

// Client reads from the cache, and writes to the API server.
func (o *Operator) Client() client.Client {
	o.Deliver()
	return o.client(&o.cache.Table)
}

func (o *Operator) client(from *apiserver.Table) client.Client {
	return &apiserver.Client{Server: o.World.Server, Reads: from, Through: func(_ context.Context, r apiserver.Request, do func() error) error {
		if r.Writes {
			return o.write(r.Verb, r.Kind, r.Key.Namespace, r.Key.Name, func() error { return o.World.carry(do) })
		}
		if err := o.read(r.Kind, r.Key.Namespace); err != nil {
			return err
		}
		return o.World.carry(do)
	}}
}

// Dial implements etcdclient.Dialer: what is asked of members that changes something is a write.
func (o *Operator) Dial(endpoint string, config *tls.Config) (etcdclient.Client, error) {
	return disturb.Members{Dialer: o.World.Members, Write: func(w disturb.Write, do func() error) error {
		return o.write(w.Verb, w.Kind, w.Namespace, w.Name, do)
	}}.Dial(endpoint, config)
}
