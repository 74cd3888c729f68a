// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/snapshotter"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The benchmarks do what a peer does to the same database, one after the other, and report the ratio: "ratio" is
// our throughput in theirs, but "time-ratio" our time in theirs. With BACKUP_BENCH_MIB the size of the database is
// chosen, in MiB.
//
//	go test ./test/integration/backup -run xxx -bench . -benchtime 3x

func filledEtcd(b *testing.B) *etcd {
	b.Helper()
	mib := 64
	if _, err := fmt.Sscan(os.Getenv("BACKUP_BENCH_MIB"), &mib); err != nil && os.Getenv("BACKUP_BENCH_MIB") != "" {
		b.Fatal(err)
	}
	e := startEtcd(b, filepath.Join(b.TempDir(), "data"))
	value := string(bytes.Repeat([]byte("0123456789abcdef"), 4<<10)) // 64 KiB
	for i := range mib {
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

// flushed gives each contender a machine that has nothing left to write.
func flushed(b *testing.B, work func()) time.Duration {
	b.Helper()
	tool(b, "/usr/bin/sync")
	start := time.Now()
	work()
	return time.Since(start)
}

// peak of the memory in use while work runs, above what was in use before. It is what the operating system sees,
// without the pages of files.
func peak(work func()) uint64 {
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

// BenchmarkFullSnapshot: beside "etcdctl snapshot save".
func BenchmarkFullSnapshot(b *testing.B) {
	g := NewWithT(b)
	e := filledEtcd(b)
	s := folder(b)
	r := run(b, e, s, uncompressed())
	r.begin(g)
	var ours, theirs time.Duration
	var memory uint64
	for b.Loop() {
		file := filepath.Join(b.TempDir(), "snapshot.db")
		theirs += flushed(b, func() { tool(b, "etcdctl", "--endpoints="+e.Endpoints()[0], "snapshot", "save", file) })
		g.Expect(os.Remove(file)).To(Succeed())
		var snapshot backup.Snapshot
		memory = max(memory, peak(func() {
			ours += flushed(b, func() {
				var err error
				snapshot, err = r.Full(context.Background(), false)
				g.Expect(err).NotTo(HaveOccurred())
			})
		}))
		g.Expect(s.Delete(context.Background(), snapshot)).To(Succeed())
	}
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "ratio")
	b.ReportMetric(float64(memory)/(1<<20), "MiB-above-idle")
	b.ReportMetric(ours.Seconds()/float64(b.N), "s/snapshot")
}

// BenchmarkRestore: beside "etcdutl snapshot restore" of the same snapshot.
func BenchmarkRestore(b *testing.B) {
	g := NewWithT(b)
	e := filledEtcd(b)
	s := folder(b)
	r := run(b, e, s, uncompressed())
	full := r.begin(g)
	r.stop()
	file := filepath.Join(dirOf(s), full.Name())
	var ours, theirs time.Duration
	for b.Loop() {
		dir := filepath.Join(b.TempDir(), "data")
		theirs += flushed(b, func() {
			tool(b, "etcdutl", "snapshot", "restore", file, "--data-dir="+dir, "--name="+memberName,
				"--initial-cluster="+memberName+"="+peerURL, "--initial-advertise-peer-urls="+peerURL)
			tool(b, "/usr/bin/sync", "-f", dir)
		})
		g.Expect(os.RemoveAll(dir)).To(Succeed())
		ours += flushed(b, func() {
			_, err := restoreTo(b, s, dir)
			g.Expect(err).NotTo(HaveOccurred())
			tool(b, "/usr/bin/sync", "-f", dir)
		})
		g.Expect(os.RemoveAll(dir)).To(Succeed())
	}
	b.ReportMetric(ours.Seconds()/theirs.Seconds(), "time-ratio")
	b.ReportMetric(ours.Seconds()/float64(b.N), "s/restore")
}

// BenchmarkCopy: beside "cp" and "sync" of the same object.
func BenchmarkCopy(b *testing.B) {
	g := NewWithT(b)
	e := filledEtcd(b)
	s := folder(b)
	r := run(b, e, s, uncompressed())
	full := r.begin(g)
	r.stop()
	e.stop()
	file := filepath.Join(dirOf(s), full.Name())
	var ours, theirs time.Duration
	for b.Loop() {
		copied := filepath.Join(b.TempDir(), "copy")
		theirs += flushed(b, func() {
			tool(b, "/bin/cp", file, copied)
			tool(b, "/usr/bin/sync", copied)
		})
		g.Expect(os.Remove(copied)).To(Succeed())
		target := folder(b)
		ours += flushed(b, func() {
			result, err := copier.Copy(context.Background(), copier.Config{Source: s, Target: target, Selection: copier.Selection{MaxBackups: 1}, Now: time.Now(), Log: logOf(b)})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Copied).To(BeNumerically(">", 0))
		})
		g.Expect(os.RemoveAll(dirOf(target))).To(Succeed())
	}
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "ratio")
	b.ReportMetric(ours.Seconds()/float64(b.N), "s/copy")
}
