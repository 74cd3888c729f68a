// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
)

// benchVariable holds the MiB that stay in the database of the benchmark; as many are freed.
const benchVariable = "BENCH_DEFRAG_MIB"

// What a defragmentation costs those who write, beside "etcdctl defrag --cluster" on a cluster of the same size in
// the same run. Each member has a writer of its own, as in package measure; and there is one more whose client knows
// all members, as most clients do.
func TestBenchDefragmentation(t *testing.T) {
	mebibytes, err := strconv.Atoi(os.Getenv(benchVariable))
	if err != nil {
		t.Skipf("set %s to the MiB that stay in the database", benchVariable)
	}
	results := map[string]map[string]time.Duration{}
	for _, way := range []string{"etcdctl defrag --cluster", "OnDemandMaintenance"} {
		t.Run(way, func(t *testing.T) {
			c := newCluster(t, 3, fmt.Sprintf("--quota-backend-bytes=%d", 8<<30))
			etcd := c.members.Client(t)
			c.fill(etcd, mebibytes)
			revision, err := etcd.Get(t.Context(), "x")
			c.Expect(err).NotTo(HaveOccurred())
			for i := range 3 {
				_ = c.etcdctl(i, "compact", "--physical", fmt.Sprint(revision.Header.Revision))
			}
			c.start()
			w := c.write()
			began := time.Now()
			if way == "OnDemandMaintenance" {
				c.run("m", "etcdDefragmentation: true")
				done := c.until("m", v1alpha1.TaskStateSucceeded)
				t.Logf("%v", done.Status.Result)
			} else {
				c.Expect(c.etcdctl(0, "defrag", "--cluster", "--command-timeout=10m")).To(Succeed())
			}
			results[way] = w.stop(began)
			for _, who := range []string{"any member", "one client"} {
				t.Logf("%s: longest gap, %s: %s", way, who, results[way][who])
			}
			t.Logf("%s: took %s", way, time.Since(began))
		})
	}
	for _, who := range []string{"any member", "one client"} {
		ours, theirs := results["OnDemandMaintenance"][who], results["etcdctl defrag --cluster"][who]
		t.Logf("%d MiB of %d, longest write gap, %s: %s, etcdctl %s: %.2fx", mebibytes, 2*mebibytes, who, ours, theirs, ours.Seconds()/theirs.Seconds())
	}
}

func (c *cluster) etcdctl(member int, args ...string) error {
	endpoint := "--endpoints=" + strings.TrimPrefix(c.members.Endpoints[member], "http://")
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcdctl"), append([]string{endpoint}, args...)...)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// writers write every 50 ms, whether or not the former writes were answered.
type writers struct {
	mu     sync.Mutex
	acks   map[string][]time.Time
	cancel context.CancelFunc
	all    sync.WaitGroup
}

func (c *cluster) write() *writers {
	ctx, cancel := context.WithCancel(context.Background())
	w := &writers{acks: map[string][]time.Time{}, cancel: cancel}
	for i := range c.members.Endpoints {
		w.loop(ctx, c, "any member", i)
	}
	w.loop(ctx, c, "one client", 0, 1, 2)
	return w
}

func (w *writers) loop(ctx context.Context, c *cluster, who string, members ...int) {
	etcd := c.members.Client(c.t, members...)
	w.all.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			w.all.Go(func() {
				put, stop := context.WithTimeout(ctx, time.Second)
				defer stop()
				if _, err := etcd.Put(put, fmt.Sprintf("w/%s/%v/%d", who, members, n), "x"); err == nil {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.acks[who] = append(w.acks[who], time.Now())
				}
			})
		}
	})
}

// stop returns the longest time between two acknowledgements since the beginning.
func (w *writers) stop(began time.Time) map[string]time.Duration {
	ended := time.Now()
	w.cancel()
	w.all.Wait()
	longest := map[string]time.Duration{}
	for who, acks := range w.acks {
		slices.SortFunc(acks, time.Time.Compare)
		last := began
		for _, at := range append(acks, ended) {
			if at.After(began) && !at.After(ended) {
				longest[who], last = max(longest[who], at.Sub(last)), at
			}
		}
	}
	return longest
}
