// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package traffic is the clients of an etcd cluster: some are bound to one member, some use all. They put, get, swap, hold
// leases and watch, and record every operation with its outcome.
package traffic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/check"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/history"
	"github.com/etcd-foreman/etcd-foreman/test/robustness/view"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// prefix of all keys, which is not in the history.
	prefix = "robustness/"
	// patience is the time after which the outcome of an operation is unknown.
	patience = time.Second
	// pace is the average time between two operations of a loop.
	pace = 50 * time.Millisecond
	// registers is the number of contended keys, and round how long they are used: the search for a linearization takes
	// longer than linear time.
	registers = 4
	round     = 20 * time.Second
	// leaseTTL, and how often it is renewed, for how long.
	leaseTTL      = 15 * time.Second
	leaseInterval = 4 * time.Second
	leaseLife     = 30 * time.Second
)

// Traffic is all clients.
type Traffic struct {
	roster *view.Roster
	writer *history.Writer
	seed   uint64

	begun, answered, value atomic.Int64
	// wrote is when a write was acknowledged last, and newest the highest revision of all.
	wrote, newest atomic.Int64
}

// New returns the clients of the members on a roster.
func New(roster *view.Roster, writer *history.Writer, seed uint64) *Traffic {
	return &Traffic{roster: roster, writer: writer, seed: seed}
}

// Operations returns how many operations were begun, and how many were acknowledged.
func (t *Traffic) Operations() (begun, acknowledged int) {
	return int(t.begun.Load()), int(t.answered.Load())
}

// Newest returns the newest revision at which a write was acknowledged.
func (t *Traffic) Newest() int64 { return t.newest.Load() }

// Written waits until a write is acknowledged that is sent from now on.
func (t *Traffic) Written(ctx context.Context) error {
	for since := t.writer.Now(); time.Duration(t.wrote.Load()) <= since+patience; {
		if !wait(ctx, pace) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// tailPatience is how long watchers may take to get the last writes, once there are no more.
const tailPatience = 30 * time.Second

// Run runs the clients until the context ends: for each member those bound to it, and those that use all. Watchers go on until they
// have got every write that was acknowledged. The error is that one did not.
func (t *Traffic) Run(ctx context.Context, members int) error {
	targets := append([]string{""}, t.roster.Names(members)...)
	watching, enough := context.WithCancel(context.WithoutCancel(ctx))
	defer enough()
	var all, watchers sync.WaitGroup
	reached := map[string]*atomic.Int64{}
	for n, target := range targets {
		c := &connection{roster: t.roster, target: target}
		who := target
		if who == "" {
			who = "all"
		}
		random := func(part uint64) *rand.Rand { return rand.New(rand.NewPCG(t.seed, uint64(n)<<8+part)) }
		for i := range uint64(2) {
			all.Go(func() { t.registers(ctx, &client{t, c, fmt.Sprintf("%s/register-%d", who, i), random(i)}) })
		}
		all.Go(func() { t.unique(ctx, &client{t, c, who + "/unique", random(7)}) })
		all.Go(func() { t.leases(ctx, &client{t, c, who + "/lease", random(8)}) })
		at := &atomic.Int64{}
		reached[who] = at
		watchers.Go(func() { t.watch(watching, who, c, at) })
	}
	all.Wait()
	err := t.caughtUp(reached)
	enough()
	watchers.Wait()
	return err
}

// caughtUp waits until watchers have got every write that was acknowledged. Those of a StatefulSet that has no pods left have not.
func (t *Traffic) caughtUp(reached map[string]*atomic.Int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), tailPatience)
	defer cancel()
	var failed []error
	for _, who := range slices.Sorted(maps.Keys(reached)) {
		if t.isGone(who) {
			continue
		}
		for reached[who].Load() < t.newest.Load() {
			if !wait(ctx, pace) {
				failed = append(failed, fmt.Errorf("watcher %s has got everything up to revision %d only, and not the last write, at revision %d, %s after it", who, reached[who].Load(), t.newest.Load(), tailPatience))
				break
			}
		}
	}
	return errors.Join(failed...)
}

// isGone reports whether a watcher is bound to a member of a StatefulSet without pods.
func (t *Traffic) isGone(who string) bool {
	i := slices.IndexFunc(t.roster.Sets, func(set string) bool { return strings.HasPrefix(who, set+"-") })
	return i >= 0 && !slices.ContainsFunc(t.roster.Pods(), func(p view.Pod) bool { return strings.HasPrefix(p.Name, t.roster.Sets[i]+"-") })
}

// client is one sequence of operations.
type client struct {
	*Traffic
	connection *connection
	name       string
	random     *rand.Rand
}

// pause waits for the pace; false once the context has ended.
func (c *client) pause(ctx context.Context) bool {
	return wait(ctx, pace/2+time.Duration(c.random.Int64N(int64(pace))))
}

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

// do carries out an operation and records it.
func (c *client) do(ctx context.Context, op history.Operation, request func(context.Context, *clientv3.Client, *history.Operation) error) history.Operation {
	etcd, err := c.connection.client()
	if err != nil {
		return history.Operation{Error: err.Error()} // it was not sent
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	op.Client, op.Call = c.name, c.writer.Now()
	err = request(ctx, etcd, &op)
	op.Return = c.writer.Now()
	if err != nil {
		op.Error, op.Found, op.Swapped, op.Revision = err.Error(), "", false, 0
	}
	c.begun.Add(1)
	if op.Acknowledged() {
		c.answered.Add(1)
	}
	if op.Wrote() {
		c.wrote.Store(int64(op.Return))
		c.sawRevision(op.Revision)
	}
	c.writer.Write(history.Line{Operation: &op})
	return op
}

func (t *Traffic) sawRevision(revision int64) {
	for known := t.newest.Load(); revision > known && !t.newest.CompareAndSwap(known, revision); known = t.newest.Load() {
	}
}

func (t *Traffic) newValue() string { return fmt.Sprintf("v%d", t.value.Add(1)) }

// registers uses contended keys.
func (t *Traffic) registers(ctx context.Context, c *client) {
	last := map[string]string{}
	for c.pause(ctx) {
		key := fmt.Sprintf("%s%d/%d", check.RegisterPrefix, t.writer.Now()/round, c.random.IntN(registers))
		op := history.Operation{Key: key}
		switch c.random.IntN(5) {
		case 0:
			op.Kind, op.Value = history.Put, t.newValue()
			c.do(ctx, op, put)
		case 1, 2:
			op.Kind, op.Old, op.Value = history.Swap, last[key], t.newValue()
			if done := c.do(ctx, op, swap); done.Swapped {
				last[key] = op.Value
			} else if done.Acknowledged() {
				last[key] = done.Found
			}
		default:
			op.Kind = history.Get
			if done := c.do(ctx, op, get); done.Acknowledged() {
				last[key] = done.Found
			}
		}
	}
}

// unique writes keys that nobody else writes.
func (t *Traffic) unique(ctx context.Context, c *client) {
	for n := 0; c.pause(ctx); n++ {
		c.do(ctx, history.Operation{Kind: history.Put, Key: fmt.Sprintf("%s%s/%06d", check.UniquePrefix, c.name, n), Value: t.newValue()}, put)
	}
}

func put(ctx context.Context, etcd *clientv3.Client, op *history.Operation) error {
	var options []clientv3.OpOption
	if op.Lease != 0 {
		options = append(options, clientv3.WithLease(clientv3.LeaseID(op.Lease)))
	}
	answer, err := etcd.Put(ctx, prefix+op.Key, op.Value, options...)
	if err == nil {
		op.Revision = answer.Header.Revision
	}
	return err
}

func get(ctx context.Context, etcd *clientv3.Client, op *history.Operation) error {
	answer, err := etcd.Get(ctx, prefix+op.Key)
	if err != nil {
		return err
	}
	op.Revision = answer.Header.Revision
	for _, pair := range answer.Kvs {
		op.Found = string(pair.Value)
	}
	return nil
}

func swap(ctx context.Context, etcd *clientv3.Client, op *history.Operation) error {
	key := prefix + op.Key
	same := clientv3.Compare(clientv3.Value(key), "=", op.Old)
	if op.Old == "" {
		same = clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	}
	answer, err := etcd.Txn(ctx).If(same).Then(clientv3.OpPut(key, op.Value)).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return err
	}
	op.Revision, op.Swapped = answer.Header.Revision, answer.Succeeded
	if !op.Swapped {
		for _, pair := range answer.Responses[0].GetResponseRange().Kvs {
			op.Found = string(pair.Value)
		}
	}
	return nil
}

// leases holds one lease after another: it keeps each alive for a while, and lets it expire.
func (t *Traffic) leases(ctx context.Context, c *client) {
	for n := 0; c.pause(ctx); n++ {
		grant := c.do(ctx, history.Operation{Kind: history.Grant, TTL: leaseTTL}, grantLease)
		if !grant.Acknowledged() {
			continue
		}
		until := t.writer.Now() + leaseLife
		c.do(ctx, history.Operation{Kind: history.Put, Key: fmt.Sprintf("l/%s/%d", c.name, n), Value: t.newValue(), Lease: grant.Lease}, put)
		for t.writer.Now() < until && wait(ctx, leaseInterval) {
			c.do(ctx, history.Operation{Kind: history.KeepAlive, Lease: grant.Lease}, keepAlive)
		}
	}
}

func grantLease(ctx context.Context, etcd *clientv3.Client, op *history.Operation) error {
	answer, err := etcd.Grant(ctx, int64(op.TTL/time.Second))
	if err == nil {
		op.Lease, op.TTL = int64(answer.ID), time.Duration(answer.TTL)*time.Second
	}
	return err
}

func keepAlive(ctx context.Context, etcd *clientv3.Client, op *history.Operation) error {
	answer, err := etcd.KeepAliveOnce(ctx, clientv3.LeaseID(op.Lease))
	if err == nil {
		op.TTL = time.Duration(answer.TTL) * time.Second
	}
	return err
}

// watch follows all keys, and resumes after the last revision when it is interrupted.
func (t *Traffic) watch(ctx context.Context, who string, c *connection, reached *atomic.Int64) {
	next := int64(1)
	for segment := 0; wait(ctx, pace); segment++ {
		etcd, err := c.client()
		if err != nil {
			segment--
			continue
		}
		next = t.segment(ctx, etcd, history.Watch{Watcher: who, Segment: segment, From: next}, reached)
	}
}

// watchPatience is how long a watch may deliver nothing, not even progress, before it is renewed. Members report progress
// every ten minutes only, but something is written all the time.
const watchPatience = 5 * time.Second

// segment is one watch. It returns where the next one begins.
func (t *Traffic) segment(ctx context.Context, etcd *clientv3.Client, template history.Watch, reached *atomic.Int64) int64 {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(watchPatience, cancel)
	defer idle.Stop()
	next := template.From
	for answer := range etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(next), clientv3.WithProgressNotify()) {
		idle.Reset(watchPatience)
		w := template
		w.At, w.Compacted = t.writer.Now(), answer.CompactRevision
		for _, e := range answer.Events {
			w.Events = append(w.Events, history.Event{
				Revision: e.Kv.ModRevision, Key: strings.TrimPrefix(string(e.Kv.Key), prefix), Value: string(e.Kv.Value), Deleted: e.Type == clientv3.EventTypeDelete,
			})
			next = e.Kv.ModRevision + 1
			reached.Store(e.Kv.ModRevision)
		}
		if answer.IsProgressNotify() {
			w.Progress = answer.Header.Revision
		}
		t.writer.Write(history.Line{Watch: &w})
		if answer.CompactRevision != 0 {
			return answer.CompactRevision
		}
		if answer.Err() != nil {
			break
		}
	}
	return next
}
