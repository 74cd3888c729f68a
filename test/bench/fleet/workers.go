// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/etcd-foreman/etcd-foreman/test/bench/fleet/poll"
)

// watchInterval is how often workers are counted, which costs the operator of a thousand Etcds some milliseconds each time.
const watchInterval = 500 * time.Millisecond

// Workers of a controller: the maximum number of busy ones, and their number. While one is idle, no reconcile waits.
type Workers struct {
	Busy float64 `json:"busy"`
	Of   float64 `json:"of"`
}

// watchWorkers samples the number of busy workers until it is stopped.
func (b *bench) watchWorkers(ctx context.Context) (stop func() map[string]Workers) {
	ctx, cancel := context.WithCancel(ctx)
	seen := map[string]Workers{}
	var watching sync.WaitGroup
	watching.Go(func() {
		// It ends with the context.
		_ = poll.Until(ctx, b.scaled(watchInterval), func() (bool, error) {
			// Retry if it does not answer.
			families, _ := scrape(ctx, http.DefaultClient, b.operator.metrics)
			for _, m := range families["controller_runtime_active_workers"].GetMetric() {
				name := labelsOf(m)["controller"]
				w := seen[name]
				w.Busy = max(w.Busy, m.GetGauge().GetValue())
				w.Of = sum(families["controller_runtime_max_concurrent_reconciles"], map[string]string{"controller": name})
				seen[name] = w
			}
			return false, nil
		})
	})
	return func() map[string]Workers {
		cancel()
		watching.Wait()
		return seen
	}
}

// mostBusy returns the maximum share of busy workers of the controllers that create and run tasks, in which one rollout could
// wait for another. The etcd controller is left out: it reconciles all other Etcds, too, after those that have changed.
func (l Load) mostBusy() float64 {
	most := 0.0
	for _, name := range []string{"rollout", "task"} {
		if w := l.Workers[name]; w.Of > 0 {
			most = max(most, w.Busy/w.Of)
		}
	}
	return most
}
