// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

// Package backup_test takes snapshots of a real etcd and restores them.
package backup_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/utils/clock"
)

const (
	memberName = "m"
	peerURL    = "http://127.0.0.1:2380" // nothing listens there: a single member has no peers
)

// etcd is the member of a cluster of one.
type etcd struct {
	*clientv3.Client
	process *exec.Cmd
}

// startEtcd starts a released etcd with a data directory and waits until it serves.
func startEtcd(t testing.TB, dataDir string) *etcd { return startProgram(t, "etcd", dataDir) }

// startProgram does so with one of the releases.
func startProgram(t testing.TB, program, dataDir string) *etcd {
	t.Helper()
	g := NewWithT(t)
	url := "http://" + machine.FreeAddress(t)
	process := exec.Command(machine.Program(t, program), "--name="+memberName, "--data-dir="+dataDir,
		"--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls=http://127.0.0.1:0", "--initial-advertise-peer-urls="+peerURL, "--initial-cluster="+memberName+"="+peerURL,
		"--unsafe-no-fsync", "--log-level=error", "--quota-backend-bytes=8589934592")
	process.Stderr = os.Stderr
	g.Expect(process.Start()).To(Succeed())
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{url}, Logger: zap.NewNop()})
	g.Expect(err).NotTo(HaveOccurred())
	e := &etcd{Client: client, process: process}
	t.Cleanup(e.stop)
	g.Eventually(func() error {
		ctx, cancel := context.WithTimeout(t.Context(), machine.Scaled(time.Second))
		defer cancel()
		_, err := client.Get(ctx, "x")
		return err
	}).WithTimeout(machine.Patience()).Should(Succeed())
	return e
}

func (e *etcd) stop() {
	_ = e.Close()
	_ = e.process.Process.Kill()
	_ = e.process.Wait()
}

func openStore(t testing.TB, config store.Config) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func folder(t testing.TB) *store.Store {
	return openStore(t, store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: prefix})
}

// snapshots runs a snapshotter until the test ends, or stop is called.
type snapshots struct {
	*snapshotter.Snapshotter
	stop func()
}

// fullFirst has a snapshotter begin with a full snapshot, as after a restore.
func fullFirst(c *snapshotter.Config) { c.FullFirst = func(context.Context) bool { return true } }

func options() snapshotter.Options {
	return snapshotter.Options{
		Schedule: "0 0 1 1 *", DeltaLimit: 1 << 20, Compression: backup.Gzip, Timeout: machine.Patience(),
	}
}

func run(t testing.TB, e *etcd, s *store.Store, o snapshotter.Options, changes ...func(*snapshotter.Config)) *snapshots {
	t.Helper()
	g := NewWithT(t)
	member, err := snapshotter.Member(e.Client)
	g.Expect(err).NotTo(HaveOccurred())
	config := snapshotter.Config{Options: o, Etcd: member, Store: s, Clock: clock.RealClock{}, Log: logOf(t)}
	for _, change := range changes {
		change(&config)
	}
	r, err := snapshotter.New(config)
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { _ = r.Run(ctx) })
	stop := func() { cancel(); done.Wait() }
	t.Cleanup(stop)
	return &snapshots{r, stop}
}

// begin takes the first snapshot as soon as requests are accepted.
func (s *snapshots) begin(g Gomega) (full backup.Snapshot) {
	g.Eventually(func() (err error) { full, err = s.Full(context.Background(), false); return err }).WithTimeout(machine.Patience()).Should(Succeed())
	return full
}

func logOf(t testing.TB) logr.Logger {
	if t, ok := t.(*testing.T); ok {
		return testr.New(t)
	}
	return logr.Discard()
}

// restored restores a store into a new data directory and starts an etcd with it.
func restored(t testing.TB, s *store.Store) (*etcd, restore.Result) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new.etcd")
	result, err := restoreTo(t, s, dir)
	if err != nil {
		t.Fatal(err)
	}
	return startEtcd(t, dir), result
}

func restoreTo(t testing.TB, s *store.Store, dir string) (restore.Result, error) {
	return restore.Restore(t.Context(), restore.Config{
		Store: s, DataDir: dir, Member: memberName, PeerURL: peerURL,
		InitialCluster: memberName + "=" + peerURL, Token: "token", Log: logOf(t),
	})
}
