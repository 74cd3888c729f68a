// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/robustness/view"
)

const (
	flooders = 32
	// floodPatience bounds each of their writes.
	floodPatience = 2 * time.Second
	backlog       = "backlog/"
)

// Flood has many clients write to a cluster as fast as they can, and counts what is acknowledged, until it is stopped. Their keys
// are few, no other client has them, and they are not in the history.
func Flood(ctx context.Context, roster *view.Roster, acknowledged *atomic.Int64) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var all sync.WaitGroup
	for i := range flooders {
		all.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				if pods := roster.Pods(); len(pods) > 0 {
					floodMember(ctx, pods[n%len(pods)], fmt.Sprintf("%s%d", backlog, i), acknowledged)
				}
				wait(ctx, 100*time.Millisecond)
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// floodMember writes to a member as long as it answers.
func floodMember(ctx context.Context, pod view.Pod, key string, acknowledged *atomic.Int64) {
	etcd, err := view.Dial(pod.Address())
	if err != nil {
		return
	}
	defer etcd.Close() //nolint:errcheck // it is not used any more
	for {
		writing, cancel := context.WithTimeout(ctx, floodPatience)
		_, err := etcd.Put(writing, key, time.Now().String())
		cancel()
		if err != nil {
			return
		}
		acknowledged.Add(1)
	}
}
