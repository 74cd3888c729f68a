// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package load is what clients do to an etcd: what makes it slow, since they write, read, watch and log in much, and what does not. Tests of
// the diagnosis use it with processes and with pods.
package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// During has workers do something again and again, until stop is called. Requests that fail are repeated a little later: an etcd with
// a fault refuses some.
func During(workers int, do func(ctx context.Context, n int) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for n := w; ctx.Err() == nil; n += workers {
				if err := do(ctx, n); err != nil {
					Pause(ctx, 10*time.Millisecond)
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// Pause waits, unless the context ends.
func Pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Writes writes so often per second, of so many bytes.
func Writes(by *clientv3.Client, perSecond, size int) (stop func()) {
	value := strings.Repeat("x", size)
	workers := max(perSecond/50, 1)
	return During(workers, func(ctx context.Context, n int) error {
		began := time.Now()
		_, err := by.Put(ctx, fmt.Sprintf("/registry/pods/default/p-%d", n%500), value)
		Pause(ctx, max(time.Second*time.Duration(workers)/time.Duration(perSecond)-time.Since(began), 0))
		return err
	})
}

// Fill writes keys below a prefix, of so many bytes.
func Fill(ctx context.Context, by *clientv3.Client, prefix string, keys, size int) error {
	value := strings.Repeat("v", size)
	perTxn := max(min(100, 500_000/size), 1)
	for n := 0; n < keys; n += perTxn {
		var ops []clientv3.Op
		for k := n; k < min(n+perTxn, keys); k++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s/k-%06d", prefix, k), value))
		}
		_, err := by.Txn(ctx).Then(ops...).Commit()
		for range 5 {
			// On a busy machine, members may take longer than they wait for each other. To write a key twice does no harm.
			if err == nil || !errors.Is(err, rpctypes.ErrTimeout) {
				break
			}
			_, err = by.Txn(ctx).Then(ops...).Commit()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Compact deletes what is below a prefix, and compacts.
func Compact(ctx context.Context, by *clientv3.Client, prefix string) error {
	deleted, err := by.Delete(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return err
	}
	_, err = by.Compact(ctx, deleted.Header.Revision, clientv3.WithCompactPhysical())
	return err
}

// Stall opens a stream with 500 watchers at a member, and does not read what it is sent: the buffers of the connection fill.
func Stall(address string) (stop func(), err error) {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
	if err != nil {
		return nil, err
	}
	stream, err := etcdserverpb.NewWatchClient(connection).Watch(context.Background())
	for n := 0; n < 500 && err == nil; n++ {
		err = stream.Send(&etcdserverpb.WatchRequest{RequestUnion: &etcdserverpb.WatchRequest_CreateRequest{
			CreateRequest: &etcdserverpb.WatchCreateRequest{Key: []byte("/registry"), RangeEnd: []byte("/registrz"), PrevKv: true},
		}})
	}
	return func() { _ = connection.Close() }, err
}
