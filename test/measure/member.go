// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// member is one pod at one address: its replacement is another member.
type member struct {
	pod     string
	uid     types.UID
	address string
	// tls is nil for plain HTTP.
	tls *tls.Config
}

// member returns what the loop of a pod needs.
func (w *Writer) member(pod *corev1.Pod) member {
	m := member{pod: pod.Name, uid: pod.UID, address: pod.Status.PodIP}
	if w.options.TLS != nil {
		m.tls = w.options.TLS(pod)
	}
	return m
}

// loops are the write loops of the members.
type loops struct {
	mutex   sync.Mutex
	running map[types.UID]loop
	all     sync.WaitGroup
}

type loop struct {
	address string
	cancel  context.CancelFunc
}

// follow starts the loop of a member with an address and ends the loop of its former address.
func (l *loops) follow(ctx context.Context, m member, run func(context.Context, member)) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	before, known := l.running[m.uid]
	if m.address == "" || known && before.address == m.address || ctx.Err() != nil {
		return
	}
	if known {
		before.cancel()
	}
	ctx, cancel := context.WithCancel(ctx)
	if l.running == nil {
		l.running = map[types.UID]loop{}
	}
	l.running[m.uid] = loop{address: m.address, cancel: cancel}
	l.all.Go(func() { run(ctx, m) })
}

// leave ends the loop of a deleted pod.
func (l *loops) leave(uid types.UID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if loop, ok := l.running[uid]; ok {
		loop.cancel()
		delete(l.running, uid)
	}
}

// wait waits until all loops have ended. The context of follow must have ended before.
func (l *loops) wait() {
	l.mutex.Lock()   // an earlier follow has started its loop by now
	l.mutex.Unlock() //nolint:staticcheck // see above
	l.all.Wait()
}

// use writes to a member and asks it for its leader until the context ends.
func (w *Writer) use(ctx context.Context, m member) {
	etcd, err := w.dial(m)
	if err != nil {
		return // invalid address: the pod will get another
	}
	var parts sync.WaitGroup
	parts.Go(func() { w.write(ctx, etcd, m) })
	parts.Go(func() { w.ask(ctx, etcd, m) })
	parts.Wait()
	etcd.Close() //nolint:errcheck // no request is in flight
}

// dial returns a client of one member. It reconnects as often as it writes: gRPC's own backoff of seconds would look like
// a missing member.
func (w *Writer) dial(m member) (*clientv3.Client, error) {
	scheme := "http"
	if m.tls != nil {
		scheme = "https"
	}
	options := []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: writeInterval, Multiplier: 1, MaxDelay: writeInterval},
		MinConnectTimeout: writeDeadline,
	})}
	if m.tls != nil && m.tls.ServerName != "" {
		options = append(options, grpc.WithAuthority(m.tls.ServerName))
	}
	etcd, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{scheme + "://" + net.JoinHostPort(m.address, strconv.Itoa(int(w.options.ClientPort)))},
		TLS:         m.tls,
		Logger:      zap.NewNop(),
		DialOptions: options,
	})
	if err != nil {
		return nil, fmt.Errorf("making an etcd client for %s: %w", m.address, err)
	}
	return etcd, nil
}

// write starts a write at every tick, whether or not the previous ones were answered. Since each has a deadline, no more
// than 20 are in flight.
func (w *Writer) write(ctx context.Context, etcd *clientv3.Client, m member) {
	var underWay sync.WaitGroup
	defer underWay.Wait()
	every(ctx, writeInterval, func() bool {
		sent := time.Now()
		number, ok := w.writes.begin(sent)
		if !ok {
			return false
		}
		underWay.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, writeDeadline)
			defer cancel()
			if r, err := etcd.Put(ctx, w.writes.key(number), value(number, m.pod)); err == nil {
				w.writes.acknowledge(Write{Number: number, Member: m.pod, Revision: r.Header.GetRevision(), Sent: sent, Acknowledged: time.Now()})
			}
		})
		return true
	})
}

// ask records the leader that a member reports, and finally that it no longer answers.
func (w *Writer) ask(ctx context.Context, etcd *clientv3.Client, m member) {
	defer func() { w.leaders.add(Sighting{At: time.Now(), Pod: m.pod, UID: m.uid}) }()
	every(ctx, askInterval, func() bool {
		ctx, cancel := context.WithTimeout(ctx, writeDeadline)
		defer cancel()
		sighting := Sighting{Pod: m.pod, UID: m.uid}
		if status, err := etcd.Status(ctx, etcd.Endpoints()[0]); err == nil {
			sighting.Member, sighting.Leader, sighting.Term = status.Header.GetMemberId(), status.Leader, status.RaftTerm
		}
		sighting.At = time.Now()
		w.leaders.add(sighting)
		return true
	})
}

// every calls do at every tick until it returns false or the context ends. Ticks during a slow do are dropped.
func every(ctx context.Context, interval time.Duration, do func() bool) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for do() {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
