// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// crowd is a group of writers that write in the same way.
type crowd struct {
	name string
	// writers per client.
	writers int
	// pinned: each member has its own client, which knows no other member, like one that connects through a Service.
	// Otherwise one client knows all members and sends its requests to them in turn.
	pinned bool
	// patient writers wait for the answer before they write again. The others write whether or
	// not the previous writes were answered.
	patient bool
	// apart: the longest gap is that of the worst client. Otherwise an acknowledgement to any client counts.
	apart bool
}

// crowds write concurrently.
var crowds = []crowd{
	{name: "any member takes writes", writers: 1, pinned: true},
	{name: "a client that does not wait for answers", writers: 1},
	{name: "a client with eight writes at a time", writers: 8, patient: true},
	{name: "a client with one write after another", writers: 1, patient: true},
	{name: "a client of one member, the worst of three", writers: 1, pinned: true, patient: true, apart: true},
}

// counted returns the key under which the acknowledgements to a client are counted.
func (c crowd) counted(client int) int {
	if c.apart {
		return client
	}
	return 0
}

// interval between writes: two cores also run three members.
const interval = 50 * time.Millisecond

// writers write until they are stopped.
type writers struct {
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu sync.Mutex
	// acks by crowd, or by client where clients count apart.
	acks map[crowd]map[int][]time.Time
}

// write starts the writers and returns once all have been answered.
func (c *cluster) write() *writers {
	started := time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	c.T.Cleanup(cancel)
	w := &writers{cancel: cancel, acks: map[crowd]map[int][]time.Time{}}
	// Writers wait here before their first answer counts.
	w.mu.Lock()
	for _, who := range crowds {
		clients := []*clientv3.Client{c.members.Client(c.T)}
		if who.pinned {
			clients = []*clientv3.Client{c.members.Client(c.T, 0), c.members.Client(c.T, 1), c.members.Client(c.T, 2)}
		}
		w.acks[who] = map[int][]time.Time{}
		for i, etcd := range clients {
			w.acks[who][who.counted(i)] = nil
			for j := range who.writers {
				w.all.Go(func() { w.loop(ctx, who, i, etcd, fmt.Sprintf("w/%s/%d/%d", who.name, i, j)) })
			}
		}
	}
	w.mu.Unlock()
	c.Eventually(func() bool { return w.answered(started) }).Should(BeTrue())
	return w
}

func (w *writers) loop(ctx context.Context, who crowd, i int, etcd *clientv3.Client, key string) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if who.patient {
			w.put(ctx, who, i, etcd, key)
		} else {
			w.all.Go(func() { w.put(ctx, who, i, etcd, key) })
		}
	}
}

func (w *writers) put(ctx context.Context, who crowd, i int, etcd *clientv3.Client, key string) {
	if _, err := etcd.Put(ctx, key, "x"); err != nil {
		return
	}
	i = who.counted(i)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acks[who][i] = append(w.acks[who][i], time.Now())
}

// gap is a time without an acknowledged write; from is relative to a beginning.
type gap struct{ from, length time.Duration }

func (g gap) String() string {
	return fmt.Sprintf("%s, from %s", g.length.Round(time.Millisecond), g.from.Round(time.Millisecond))
}

// stop stops the writers as soon as each has been answered again, and returns the longest time between two
// acknowledgements of each crowd since the beginning.
func (w *writers) stop(g Gomega, began time.Time) map[string]gap {
	ended := time.Now()
	g.Eventually(func() bool { return w.answered(ended) }).Should(BeTrue())
	w.cancel()
	w.all.Wait()
	longest := map[string]gap{}
	for who, clients := range w.acks {
		for _, acks := range clients {
			slices.SortFunc(acks, time.Time.Compare)
			last := began
			for _, at := range acks {
				if at.After(began) && at.Sub(last) > longest[who.name].length {
					longest[who.name] = gap{last.Sub(began), at.Sub(last)}
				}
				if at.After(began) {
					last = at
				}
			}
		}
	}
	return longest
}

// answered reports whether every crowd, or each of its clients if they count apart, has been answered since a time.
func (w *writers) answered(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, clients := range w.acks {
		for _, acks := range clients {
			if len(acks) == 0 || acks[len(acks)-1].Before(since) {
				return false
			}
		}
	}
	return true
}
