// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// watchInterval is how often workers are counted. To tell of them takes the operator some milliseconds.
const watchInterval = 500 * time.Millisecond

// Workers of a controller: how many were busy at the same time, at most, and how many there are. As long as one is
// left, nobody waits for another.
type Workers struct {
	Busy float64 `json:"busy"`
	Of   float64 `json:"of"`
}

// watchWorkers counts the workers that are busy, now and then, until it is stopped.
func (b *bench) watchWorkers(ctx context.Context) (stop func() map[string]Workers) {
	ctx, cancel := context.WithCancel(ctx)
	seen := map[string]Workers{}
	var watching sync.WaitGroup
	watching.Go(func() {
		// It ends with the context.
		_ = poll(ctx, watchInterval, func() (bool, error) {
			// Where it does not answer, it is asked again.
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

// mostBusy is the greatest part of its workers that a controller had busy at the same time, of those that make tasks of
// changes and carry them on: there one rollout could wait for another. The workers of the third look at all other Etcds
// too, after those that have changed.
func (l Load) mostBusy() float64 {
	most := 0.0
	for _, name := range []string{"rollout", "task"} {
		if w := l.Workers[name]; w.Of > 0 {
			most = max(most, w.Busy/w.Of)
		}
	}
	return most
}
