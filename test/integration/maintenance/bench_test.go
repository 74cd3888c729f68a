// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package maintenance_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/api/v1alpha1"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// benchVariable is the number of MiB that stay in the database of the benchmark; as many are freed.
	benchVariable = "BENCH_DEFRAG_MIB"
	// pairsVariable is the number of defragmentations by each contender; 1 by default.
	pairsVariable = "BENCH_DEFRAG_PAIRS"
	// disksVariable is three folders, separated by colons, for the members' data. Members in production have disks
	// of their own; by default they share one.
	disksVariable = "BENCH_DEFRAG_DISKS"
)

const (
	etcdctlWay = "etcdctl defrag --cluster"
	ourWay     = "OnDemandMaintenance"
)

// Compares what a defragmentation costs writers with "etcdctl defrag --cluster" on a cluster of the same size, in turn in
// the same run. Members flush their writes to the disk as in production. bench_writers_test.go has the writers.
func TestBenchDefragmentation(t *testing.T) {
	mebibytes, err := strconv.Atoi(os.Getenv(benchVariable))
	if err != nil {
		t.Skipf("set %s to the MiB that stay in the database", benchVariable)
	}
	pairs, err := strconv.Atoi(os.Getenv(pairsVariable))
	if err != nil {
		pairs = 1
	}
	gaps := map[string]map[string][]time.Duration{etcdctlWay: {}, ourWay: {}}
	for pair := range pairs {
		ways := []string{etcdctlWay, ourWay}
		if pair%2 == 1 {
			slices.Reverse(ways)
		}
		for _, way := range ways {
			t.Run(fmt.Sprintf("%s %d", way, pair+1), func(t *testing.T) {
				for who, longest := range defragment(t, way, mebibytes) {
					gaps[way][who] = append(gaps[way][who], longest.length)
				}
			})
		}
	}
	t.Logf("%d MiB of %d; longest time without an acknowledged write, median of %d:\n%s", mebibytes, 2*mebibytes, pairs, table(gaps))
}

// defragment defragments the members of a new cluster and returns the longest gap of each crowd of writers.
func defragment(t *testing.T, way string, mebibytes int) map[string]gap {
	log := filepath.Join(t.TempDir(), "etcd.log")
	c := newClusterIn(t, disks(t), fmt.Sprintf("--quota-backend-bytes=%d", 8<<30), "--unsafe-no-fsync=false",
		"--log-level=info", "--log-outputs="+log)
	c.fillPages(mebibytes)
	c.start()
	w := c.write()
	began := time.Now()
	if way == ourWay {
		c.run("m", "etcdDefragmentation: true")
		c.UntilTask("m", v1alpha1.TaskStateSucceeded)
	} else {
		c.Expect(c.etcdctl(0, "defrag", "--cluster", "--command-timeout=10m")).To(Succeed())
	}
	t.Logf("took %s", time.Since(began).Round(time.Millisecond))
	gaps := w.stop(c, began)
	t.Logf("logged by the members:\n%s", strings.Join(timeline(t, log, began), "\n"))
	for _, who := range crowds {
		t.Logf("longest gap, %s: %s", who.name, gaps[who.name])
	}
	return gaps
}

// disks returns new folders for the data of three members.
func disks(t *testing.T) []string {
	roots := filepath.SplitList(os.Getenv(disksVariable))
	if len(roots) == 0 {
		return slices.Repeat([]string{t.TempDir()}, 3)
	}
	var folders []string
	for _, root := range roots {
		folder, err := os.MkdirTemp(root, "member-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(folder) })
		folders = append(folders, folder)
	}
	return folders
}

// fillPages writes the given number of MiB twice, in values of 16 KiB, and compacts, so that half of the database is free.
func (c *cluster) fillPages(mebibytes int) {
	c.T.Helper()
	etcd := c.members.Client(c.T)
	var revision int64
	for range 2 {
		for i := range mebibytes {
			ops := make([]clientv3.Op, 64)
			for j := range ops {
				value := make([]byte, 16<<10)
				_, _ = rand.Read(value)
				ops[j] = clientv3.OpPut(fmt.Sprintf("fill/%06d-%02d", i, j), string(value))
			}
			done, err := etcd.Txn(c.T.Context()).Then(ops...).Commit()
			c.Expect(err).NotTo(HaveOccurred())
			revision = done.Header.Revision
		}
	}
	for i := range c.members.Endpoints {
		// The first request compacts the key space; the others return, with an error, once the old revisions are removed.
		_ = c.etcdctl(i, "compact", "--physical", fmt.Sprint(revision))
	}
	for _, endpoint := range c.members.Endpoints {
		c.Eventually(func(g Gomega) {
			// A member updates its free size on commit.
			_, err := etcd.Put(c.T.Context(), "count", "")
			g.Expect(err).NotTo(HaveOccurred())
			status, err := etcd.Status(c.T.Context(), endpoint)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(float64(status.DbSizeInUse)/float64(status.DbSize)).To(BeNumerically("~", 0.5, 0.1), "half of the database is free")
		}).Should(Succeed())
	}
	c.Expect(exec.Command("sync").Run()).To(Succeed())
}

func (c *cluster) etcdctl(member int, args ...string) error {
	endpoint := "--endpoints=" + strings.TrimPrefix(c.members.Endpoints[member], "http://")
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "etcdctl"), append([]string{endpoint}, args...)...)
	return cmd.Run()
}

// table returns medians with the lowest and the highest value, and the ratio of ours to theirs.
func table(gaps map[string]map[string][]time.Duration) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-45s %-22s %-22s %s\n", "", etcdctlWay, ourWay, "ours/theirs")
	for _, who := range crowds {
		theirs, ours := gaps[etcdctlWay][who.name], gaps[ourWay][who.name]
		if len(theirs) == 0 || len(ours) == 0 {
			continue
		}
		fmt.Fprintf(&b, "%-45s %-22s %-22s %.2f\n", who.name, spread(theirs), spread(ours), median(ours).Seconds()/median(theirs).Seconds())
	}
	return b.String()
}

func spread(values []time.Duration) string {
	return fmt.Sprintf("%.2fs (%.2f-%.2f)", median(values).Seconds(), slices.Min(values).Seconds(), slices.Max(values).Seconds())
}

func median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
