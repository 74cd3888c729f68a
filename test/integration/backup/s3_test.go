// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/backup/store"
	. "github.com/onsi/gomega"
)

// s3 is a server of S3, in front of a folder.
type s3 struct {
	t       testing.TB
	address string
	dir     string
	process *exec.Cmd
}

const (
	bucket = "backups"
	access = "access-key-id"
	secret = "a-secret-access-key"
)

func startS3(t testing.TB) *s3 {
	s := &s3{t: t, address: freeAddress(t), dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.dir, bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *s3) start() {
	s.t.Helper()
	program := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "versitygw")
	if _, err := os.Stat(program); err != nil {
		s.t.Fatalf(`%v: run the tests with "make test", or build it with "go run ./test/local build versitygw"`, err)
	}
	// Without metadata: not every filesystem has extended attributes.
	s.process = exec.Command(program, "--port="+s.address, "--access="+access, "--secret="+secret, "--region=here", "--quiet",
		"posix", "--sidecar="+s.t.TempDir(), s.dir)
	s.process.Stderr = os.Stderr
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	NewWithT(s.t).Eventually(func() error {
		connection, err := net.Dial("tcp", s.address)
		if err != nil {
			return err
		}
		return connection.Close()
	}).WithTimeout(patience).Should(Succeed())
}

func (s *s3) stop() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}

func (s *s3) store(password string) *store.Store {
	credentials := s.t.TempDir()
	for name, value := range map[string]string{
		"accessKeyID": access, "secretAccessKey": password, "region": "here", "endpoint": "http://" + s.address, "s3ForcePathStyle": "true",
	} {
		if err := os.WriteFile(filepath.Join(credentials, name), []byte(value), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	return openStore(s.t, store.Config{Provider: store.S3, Container: bucket, Prefix: "shoot-a/etcd-main", Credentials: credentials})
}

func TestObjectsInS3(t *testing.T) {
	g := NewWithT(t)
	ctx := t.Context()
	s := startS3(t).store(secret)
	g.Expect(s.List(ctx)).To(BeEmpty())
	snapshot := backup.Snapshot{Kind: backup.Full, LastRevision: 1, Created: time.Unix(1_700_000_000, 0).UTC(), Compression: backup.None, Prefix: "shoot-a/etcd-main/v2"}
	content := make([]byte, 21<<20) // several parts
	_, _ = rand.NewChaCha8([32]byte{}).Read(content)
	write := func(w io.Writer) error { _, err := w.Write(content); return err }

	failed := errors.New("etcd went away")
	_, err := s.Write(ctx, snapshot, func(w io.Writer) error { return errors.Join(write(w), failed) })
	g.Expect(err).To(MatchError(failed))
	g.Expect(s.List(ctx)).To(BeEmpty(), "half an object")

	snapshot.Size = int64(len(content))
	g.Expect(s.Write(ctx, snapshot, write)).To(Equal(snapshot))
	g.Expect(s.List(ctx)).To(Equal([]backup.Snapshot{snapshot}))
	r, err := s.Reader(ctx, snapshot)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := io.ReadAll(r)
	g.Expect(errors.Join(err, r.Close())).To(Succeed())
	g.Expect(string(got) == string(content)).To(BeTrue())
	g.Expect(s.Delete(ctx, snapshot)).To(Succeed())
	g.Expect(s.Delete(ctx, snapshot)).To(Succeed())
	g.Expect(s.List(ctx)).To(BeEmpty())
}

func TestWrongCredentials(t *testing.T) {
	g := NewWithT(t)
	s := startS3(t).store("not-the-secret")
	_, err := s.List(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("SignatureDoesNotMatch")))
	g.Expect(err.Error()).NotTo(ContainSubstring("not-the-secret"))
}

// The store is away for a while. What was written meanwhile is in the first snapshot after it, and nothing is lost.
func TestStoreAwayForAWhile(t *testing.T) {
	g := NewWithT(t)
	server := startS3(t)
	s := server.store(secret)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 20)
	r := run(t, e, s, options())
	r.begin(g)
	g.Expect(r.Healthy()).To(Succeed())
	server.stop()
	put(g, e, "meanwhile", 20)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := r.Delta(ctx)
	g.Expect(err).To(HaveOccurred())
	g.Expect(r.Healthy()).NotTo(Succeed(), "it says so")
	server.start()
	g.Eventually(func() error { _, err := r.Delta(t.Context()); return err }).WithTimeout(patience).Should(Succeed())
	g.Expect(r.Healthy()).To(Succeed())
	_, keys := world(g, e)
	again, _ := restored(t, s)
	_, got := world(g, again)
	g.Expect(got).To(Equal(keys))
}

func TestCopyIntoS3(t *testing.T) {
	g := NewWithT(t)
	source := folder(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(g, e, "k", 20)
	r := run(t, e, source, options())
	r.begin(g)
	put(g, e, "k", 20)
	_, err := r.Delta(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	target := startS3(t).store(secret)
	result, err := copier.Copy(t.Context(), copier.Config{Source: source, Target: target, Now: time.Now(), Log: logOf(t)})
	g.Expect(err).NotTo(HaveOccurred())
	revision, keys := world(g, e)
	g.Expect(result.LastRevision).To(Equal(revision))
	again, _ := restored(t, target)
	_, got := world(g, again)
	g.Expect(got).To(Equal(keys))
}
