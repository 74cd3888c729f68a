// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	. "github.com/onsi/gomega"
	testingclock "k8s.io/utils/clock/testing"
)

// uploaderVariable has the configuration of the store to which a process of this test uploads without end.
const uploaderVariable = "TEST_UPLOAD_TO"

func TestMain(m *testing.M) {
	if to := os.Getenv(uploaderVariable); to != "" {
		fmt.Fprintln(os.Stderr, upload(to))
		os.Exit(1)
	}
	if what := os.Getenv(operationVariable); what != "" {
		if err := operate(context.Background(), what, os.Getenv(folderVariable)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// uploaded is the number of bytes that an upload sends before it stalls: several parts.
const uploaded = 40 << 20

// upload writes a snapshot that does not end before standard input.
func upload(to string) error {
	var config store.Config
	if err := json.Unmarshal([]byte(to), &config); err != nil {
		return err
	}
	s, err := store.Open(context.Background(), config)
	if err != nil {
		return err
	}
	_, err = s.Write(context.Background(), backup.Snapshot{Kind: backup.Full, LastRevision: 7, Created: time.Now()}, func(w io.Writer) error {
		if _, err := io.CopyN(w, rand.Reader, uploaded); err != nil {
			return err
		}
		_, err := io.Copy(w, os.Stdin)
		return err
	})
	return err
}

// The agent is killed in the middle of an upload: no object has the name of a snapshot, and the next agent takes a full
// snapshot.
func TestKilledInTheMiddleOfAnUpload(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T) (store.Config, string){
		"folder": func(t *testing.T) (store.Config, string) {
			dir := t.TempDir()
			return store.Config{Provider: store.Local, Container: dir, Prefix: prefix}, dir
		},
		"S3": func(t *testing.T) (store.Config, string) {
			server := startS3(t)
			return server.config(secret), server.dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config, dir := begin(t)
			to, err := json.Marshal(config)
			g.Expect(err).NotTo(HaveOccurred())
			agent := exec.Command(os.Args[0])
			agent.Env, agent.Stderr = append(os.Environ(), uploaderVariable+"="+string(to)), os.Stderr
			forever, err := agent.StdinPipe()
			g.Expect(err).NotTo(HaveOccurred())
			defer func() { _ = forever.Close() }()
			g.Expect(agent.Start()).To(Succeed())
			g.Eventually(func() int64 { return bytesIn(g, dir) }).WithTimeout(machine.Patience()).Should(BeNumerically(">=", uploaded/2))
			g.Expect(agent.Process.Kill()).To(Succeed())
			_ = agent.Wait() // the error is the kill signal

			s := openStore(t, config)
			g.Expect(s.List(t.Context())).To(BeEmpty())
			g.Expect(nameOf(g, dir)).To(BeEmpty())
			e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
			put(g, e, "k", 20)
			run(t, e, s, options()).begin(g)
			restoresTo(t, g, e, s)
		})
	}
}

// bytesIn returns the size of all files in a folder, recursively.
func bytesIn(g Gomega, dir string) (total int64) {
	walk(g, dir, func(_ string, info fs.FileInfo) { total += info.Size() })
	return total
}

// nameOf returns the files in a folder that are named like a snapshot.
func nameOf(g Gomega, dir string) (names []string) {
	walk(g, dir, func(name string, _ fs.FileInfo) {
		if _, err := backup.ParseName(name); err == nil {
			names = append(names, name)
		}
	})
	return names
}

func walk(g Gomega, dir string, visit func(name string, info fs.FileInfo)) {
	g.Expect(filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreGone(err)
		}
		info, err := entry.Info()
		if err == nil {
			visit(entry.Name(), info)
		}
		return ignoreGone(err)
	})).To(Succeed())
}

func ignoreGone(err error) error {
	if os.IsNotExist(err) {
		return nil
	}
	return err
}

// restoresTo asserts that a store restores to the state of an etcd.
func restoresTo(t *testing.T, g *WithT, e *etcd, s *store.Store) {
	t.Helper()
	_, want := world(g, e)
	again, _ := restored(t, s)
	_, got := world(g, again)
	g.Expect(got).To(Equal(want))
}

// half is an Etcd whose snapshots stall in the middle until they are canceled.
type half struct{ snapshotter.Etcd }

func (h half) Snapshot(ctx context.Context) (io.ReadCloser, error) {
	stream, err := h.Etcd.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(stream, 10<<10), untilDone{ctx}), stream}, nil
}

type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) {
	<-u.ctx.Done()
	return 0, u.ctx.Err()
}

// The leader changes in the middle of a snapshot: nothing is left of that snapshot, requests that wait for it fail because
// this member no longer leads, and the next leader takes a full one.
func TestLeaderChangesInTheMiddleOfASnapshot(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 200)
	s := folder(t)
	o := options()
	o.Compression = backup.None
	r := run(t, e, s, o, func(c *snapshotter.Config) { c.Etcd = half{c.Etcd} })
	g.Eventually(func() []string {
		begun, _ := filepath.Glob(filepath.Join(dirOf(s), ".unfinished-Full-*"))
		return begun
	}).WithTimeout(machine.Patience()).ShouldNot(BeEmpty(), "the store is empty, so a full snapshot is taken")
	answer := make(chan error, 1)
	go func() {
		_, err := r.Full(context.Background(), false)
		answer <- err
	}()
	g.Consistently(answer).Should(BeEmpty(), "the request waits for that snapshot")
	r.stop()
	g.Eventually(answer).WithTimeout(machine.Patience()).Should(Receive(MatchError(snapshotter.ErrNotRunning)))
	g.Expect(os.ReadDir(dirOf(s))).To(BeEmpty())

	run(t, e, s, o).begin(g)
	restoresTo(t, g, e, s)
}

// The store is full: no snapshot is lost or partially written, the failure is reported, and backups resume once there is
// space again.
func TestStoreIsFull(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	if err := exec.Command("/usr/bin/unshare", "--map-root-user", "--mount", "/bin/true").Run(); err != nil {
		t.Skipf("this machine does not allow a filesystem of limited size: %v", err)
	}
	// A database has free pages, more on a slow machine, and this server takes twice the space of a snapshot while it is uploaded.
	s := startSmallS3(t, 109).store()
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	noise(g, e, 4)
	o := options()
	o.DeltaLimit = 1 << 30 // no delta is taken in between
	r := run(t, e, s, o)
	r.begin(g)
	var fillers []backup.Snapshot
	for i := range int64(14) {
		filler := backup.Snapshot{Kind: backup.Full, LastRevision: 1, Created: time.Unix(i, 0)}
		_, err := s.Write(t.Context(), filler, func(w io.Writer) error { _, err := io.CopyN(w, rand.Reader, 7<<20); return err })
		g.Expect(err).NotTo(HaveOccurred())
		fillers = append(fillers, filler)
	}
	before, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())

	noise(g, e, 8)
	_, err = r.Full(t.Context(), false)
	g.Expect(err).To(HaveOccurred())
	t.Logf("reported: %v", err)
	g.Expect(r.Healthy()).NotTo(Succeed(), "the failure is reported")
	g.Expect(s.List(t.Context())).To(Equal(before), "the store is unchanged")

	for _, filler := range fillers {
		g.Expect(s.Delete(t.Context(), filler)).To(Succeed())
	}
	g.Eventually(func() error { _, err := r.Full(t.Context(), false); return err }).WithTimeout(machine.Patience()).Should(Succeed())
	g.Expect(r.Healthy()).To(Succeed())
	restoresTo(t, g, e, s)
}

// noise puts the given number of MiB of incompressible data.
func noise(g Gomega, e *etcd, mib int) {
	value := make([]byte, 1<<20)
	for i := range mib {
		_, _ = rand.Read(value)
		_, err := e.Put(context.Background(), fmt.Sprintf("noise%d", i), string(value))
		g.Expect(err).NotTo(HaveOccurred())
	}
}

// Wrong credentials are reported without the secret. Once they are fixed, snapshots are taken without a restart.
func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	const wrong = "not-the-secret"
	g := NewWithT(t)
	config := startS3(t).config(wrong)
	s := openStore(t, config)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 20)
	r := run(t, e, s, options())
	g.Eventually(r.Healthy).WithTimeout(machine.Patience()).Should(MatchError(And(ContainSubstring("SignatureDoesNotMatch"), Not(ContainSubstring(wrong)))))

	fixed := filepath.Join(t.TempDir(), "fixed")
	g.Expect(os.WriteFile(fixed, []byte(secret), 0o600)).To(Succeed())
	g.Expect(os.Rename(fixed, filepath.Join(config.Credentials, "secretAccessKey"))).To(Succeed())
	r.begin(g)
	g.Expect(r.Healthy()).To(Succeed())
	restoresTo(t, g, e, s)
}

// The store is unavailable for a while. The first snapshot afterwards has everything written since.
func TestStoreUnavailableForAWhile(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	server := startS3(t)
	s := server.store()
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 20)
	r := run(t, e, s, options())
	r.begin(g)
	g.Expect(r.Healthy()).To(Succeed())
	server.stop()
	put(g, e, "meanwhile", 20)
	ctx, cancel := context.WithTimeout(t.Context(), machine.Patience())
	defer cancel()
	_, err := r.Delta(ctx)
	g.Expect(err).To(HaveOccurred())
	g.Expect(r.Healthy()).NotTo(Succeed(), "the failure is reported")
	server.start()
	g.Eventually(func() error { _, err := r.Delta(t.Context()); return err }).WithTimeout(machine.Patience()).Should(Succeed())
	g.Expect(r.Healthy()).To(Succeed())
	_, keys := world(g, e)
	again, _ := restored(t, s)
	_, got := world(g, again)
	g.Expect(got).To(Equal(keys))
}

// The clock jumps back, ahead, and back again. Snapshots are still ordered as they were taken and restore to the present
// state.
func TestClockThatJumps(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 20)
	s := folder(t)
	start := time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)
	clock := testingclock.NewFakeClock(start)
	o := options()
	o.CollectionPeriod = time.Hour
	r := run(t, e, s, o, func(c *snapshotter.Config) { c.Clock = clock })
	r.begin(g)
	for _, jump := range []time.Duration{-time.Hour, 30 * 24 * time.Hour, -400 * 24 * time.Hour} {
		clock.SetTime(clock.Now().Add(jump))
		put(g, e, fmt.Sprint(jump), 5)
		_, err := r.Delta(t.Context())
		g.Expect(err).NotTo(HaveOccurred(), "%s", jump)
	}
	list, err := s.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	for i, snapshot := range list[1:] {
		g.Expect(snapshot.Created).To(BeTemporally(">", list[i].Created))
		g.Expect(snapshot.LastRevision).To(BeNumerically(">=", list[i].LastRevision))
	}
	restoresTo(t, g, e, s)
}
