// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
)

// The benchmarks run ours and another tool on the same database, in alternating order, and report the median of the ratios
// with the lowest and the highest: "ratio" is our throughput divided by theirs, "time-ratio" our time divided by theirs.
// BACKUP_BENCH_MIB sets the size of the database in MiB.
//
//	go test ./test/integration/backup -run xxx -bench . -benchtime 5x

// pairs has the measurements of two contenders that ran one after the other.
type pairs struct{ ours, theirs, cpuOurs, cpuTheirs []float64 }

// run runs both contenders; the one that was second last time goes first.
func (p *pairs) run(b *testing.B, ours, theirs func()) {
	run := func(work func(), seconds, cpu *[]float64) func() {
		return func() {
			before := cpuSeconds(b)
			*seconds = append(*seconds, flushed(b, work))
			*cpu = append(*cpu, cpuSeconds(b)-before)
		}
	}
	first, second := run(ours, &p.ours, &p.cpuOurs), run(theirs, &p.theirs, &p.cpuTheirs)
	if len(p.ours)%2 == 1 {
		first, second = second, first
	}
	first()
	second()
}

// report reports the ratio of the contenders under a name, and the seconds of each.
func (p *pairs) report(b *testing.B, name string, ratio func(ours, theirs float64) float64) {
	var ratios []float64
	for i := range p.ours {
		ratios = append(ratios, ratio(p.ours[i], p.theirs[i]))
	}
	b.Logf("seconds, ours: %.3f, theirs: %.3f", p.ours, p.theirs)
	b.ReportMetric(median(ratios), name)
	b.ReportMetric(slices.Min(ratios), name+"-min")
	b.ReportMetric(slices.Max(ratios), name+"-max")
	b.ReportMetric(median(p.ours), "s-ours")
	b.ReportMetric(median(p.theirs), "s-theirs")
	b.ReportMetric(median(p.cpuOurs), "cpu-s-ours")
	b.ReportMetric(median(p.cpuTheirs), "cpu-s-theirs")
}

// cpuSeconds returns the CPU time of this process and of the processes that it has waited for. Later writes by the kernel
// and the work of etcd do not count.
func cpuSeconds(b *testing.B) (seconds float64) {
	b.Helper()
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		if err := unix.Getrusage(who, &usage); err != nil {
			b.Fatal(err)
		}
		seconds += time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	}
	return seconds
}

func throughput(ours, theirs float64) float64 { return theirs / ours }
func duration(ours, theirs float64) float64   { return ours / theirs }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func mebibytes(b *testing.B) int {
	b.Helper()
	mib := 64
	if _, err := fmt.Sscan(os.Getenv("BACKUP_BENCH_MIB"), &mib); err != nil && os.Getenv("BACKUP_BENCH_MIB") != "" {
		b.Fatal(err)
	}
	return mib
}

func filledEtcd(b *testing.B) *etcd {
	b.Helper()
	e := startEtcd(b, filepath.Join(b.TempDir(), "data"))
	value := string(bytes.Repeat([]byte("0123456789abcdef"), 4<<10)) // 64 KiB
	for i := range mebibytes(b) {
		ops := make([]clientv3.Op, 16)
		for j := range ops {
			ops[j] = clientv3.OpPut(fmt.Sprintf("key-%06d-%02d", i, j), value)
		}
		if _, err := e.Txn(context.Background()).Then(ops...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
	return e
}

func tool(b *testing.B, name string, args ...string) {
	b.Helper()
	cmd := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), name), args...)
	if filepath.IsAbs(name) {
		cmd = exec.Command(name, args...)
	}
	if output, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", name, err, output)
	}
}

// flushed runs a contender after all pending writes were flushed, and returns its seconds.
func flushed(b *testing.B, work func()) float64 {
	b.Helper()
	tool(b, "/usr/bin/sync")
	start := time.Now()
	work()
	return time.Since(start).Seconds()
}

// peak returns the peak of resident memory during work, above that before, as the operating system sees it, without file
// pages.
func peak(work func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(30)) // as the agent does
	debug.FreeOSMemory()
	before := resident()
	highest := before
	done := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				highest = max(highest, resident())
			}
		}
	})
	work()
	close(done)
	watching.Wait()
	return highest - before
}

func resident() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}

func uncompressed() snapshotter.Options {
	o := options()
	o.Compression, o.Timeout = backup.None, 10*time.Minute
	return o
}

// BenchmarkFullSnapshot compares with "etcdctl snapshot save".
func BenchmarkFullSnapshot(b *testing.B) {
	g := NewWithT(b)
	e := filledEtcd(b)
	s := folder(b)
	r := run(b, e, s, uncompressed())
	r.begin(g)
	var p pairs
	var memory uint64
	for b.Loop() {
		file := filepath.Join(b.TempDir(), "snapshot.db")
		var snapshot backup.Snapshot
		p.run(b, func() {
			memory = max(memory, peak(func() {
				var err error
				snapshot, err = r.Full(context.Background(), false)
				g.Expect(err).NotTo(HaveOccurred())
			}))
		}, func() { tool(b, "etcdctl", "--endpoints="+e.Endpoints()[0], "snapshot", "save", file) })
		g.Expect(os.Remove(file)).To(Succeed())
		g.Expect(s.Delete(context.Background(), snapshot)).To(Succeed())
	}
	p.report(b, "ratio", throughput)
	b.ReportMetric(float64(memory)/(1<<20), "MiB-above-idle")
}

// BenchmarkRestore compares with "etcdutl snapshot restore" of the same snapshot.
func BenchmarkRestore(b *testing.B) {
	g := NewWithT(b)
	e := filledEtcd(b)
	s := folder(b)
	r := run(b, e, s, uncompressed())
	full := r.begin(g)
	r.stop()
	e.stop()
	file := filepath.Join(dirOf(s), full.Name())
	var p pairs
	for b.Loop() {
		ours, theirs := filepath.Join(b.TempDir(), "ours"), filepath.Join(b.TempDir(), "theirs")
		p.run(b, func() {
			_, err := restoreTo(b, s, ours)
			g.Expect(err).NotTo(HaveOccurred())
			tool(b, "/usr/bin/sync", "-f", ours)
		}, func() {
			tool(b, "etcdutl", "snapshot", "restore", file, "--data-dir="+theirs, "--name="+memberName,
				"--initial-cluster="+memberName+"="+peerURL, "--initial-advertise-peer-urls="+peerURL)
			tool(b, "/usr/bin/sync", "-f", theirs)
		})
		g.Expect(os.RemoveAll(ours)).To(Succeed())
		g.Expect(os.RemoveAll(theirs)).To(Succeed())
	}
	p.report(b, "time-ratio", duration)
}

// BenchmarkCopy compares with "cp" and "sync" of the same object.
func BenchmarkCopy(b *testing.B) {
	g := NewWithT(b)
	s := folder(b)
	content := bytes.Repeat([]byte("0123456789abcdef"), mebibytes(b)<<16)
	sum := sha256.Sum256(content)
	full := backup.Snapshot{Kind: backup.Full, LastRevision: 1, Created: time.Now(), Compression: backup.None}
	_, err := s.Write(context.Background(), full, func(w io.Writer) error {
		return backup.WriteFull(w, full, io.MultiReader(bytes.NewReader(content), bytes.NewReader(sum[:])))
	})
	g.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(dirOf(s), full.Name())
	tool(b, "/bin/dd", "if="+file, "of=/dev/null", "bs=1M") // both read it from memory
	var p pairs
	for b.Loop() {
		copied, target := filepath.Join(b.TempDir(), "copy"), folder(b)
		p.run(b, func() {
			result, err := copier.Copy(context.Background(), copier.Config{Source: s, Target: target, Selection: copier.Selection{MaxBackups: 1}, Now: time.Now(), Log: logOf(b)})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Copied).To(BeNumerically(">", 0))
		}, func() {
			tool(b, "/bin/cp", file, copied)
			tool(b, "/usr/bin/sync", copied)
		})
		// Nothing is removed before the end: the disk would be busy with that while the next contender works.
	}
	p.report(b, "ratio", throughput)
}

// BenchmarkMemory measures the memory of snapshots with each compression, in a folder and in a bucket.
func BenchmarkMemory(b *testing.B) {
	g := NewWithT(b)
	e := filledEtcd(b)
	for name, s := range map[string]*store.Store{"folder": folder(b), "S3": startS3(b).store()} {
		for _, compression := range []backup.Compression{backup.None, backup.Gzip} {
			b.Run(name+"/"+string(compression), func(b *testing.B) {
				o := uncompressed()
				o.Compression = compression
				r := run(b, e, s, o)
				r.begin(g)
				var memory uint64
				for b.Loop() {
					memory = max(memory, peak(func() {
						_, err := r.Full(context.Background(), false)
						g.Expect(err).NotTo(HaveOccurred())
					}))
				}
				b.ReportMetric(float64(memory)/(1<<20), "MiB-above-idle")
			})
		}
	}
}

// BenchmarkEncryption compares a snapshot and its restore with encryption to those without, with each compression.
func BenchmarkEncryption(b *testing.B) {
	g := NewWithT(b)
	e := filledEtcd(b)
	identity, recipient := encryptiontest.Identity(b)
	plain := folder(b)
	encrypted := openStore(b, store.Config{
		Provider: store.Local, Container: b.TempDir(), Prefix: prefix, Recipients: []string{recipient}, Identities: encryptiontest.Folder(b, identity),
	})
	for _, compression := range []backup.Compression{backup.None, backup.Gzip} {
		o := uncompressed()
		o.Compression = compression
		taking := func(s *store.Store) func() {
			r := run(b, e, s, o)
			r.begin(g)
			return func() { _, err := r.Full(context.Background(), false); g.Expect(err).NotTo(HaveOccurred()) }
		}
		restoring := func(s *store.Store) func() {
			return func() {
				dir := filepath.Join(b.TempDir(), "new.etcd")
				_, err := restoreTo(b, s, dir)
				g.Expect(err).NotTo(HaveOccurred())
				tool(b, "/usr/bin/sync", "-f", dir)
				g.Expect(os.RemoveAll(dir)).To(Succeed())
			}
		}
		// A restore reads what was written last, with the same compression.
		for i, work := range []func(*store.Store) func(){taking, restoring} {
			b.Run([]string{"snapshot", "restore"}[i]+"/"+string(compression), func(b *testing.B) {
				ours, theirs := work(encrypted), work(plain)
				var p pairs
				for b.Loop() {
					p.run(b, ours, theirs)
				}
				p.report(b, "time-ratio", duration)
			})
		}
	}
}
