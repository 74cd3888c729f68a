// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

func full(revision int64) backup.Snapshot {
	return backup.Snapshot{
		Kind: backup.Full, LastRevision: revision, Created: time.Unix(1_700_000_000+revision, 0).UTC(),
		Compression: backup.None, Prefix: "a/b/v2", Size: 7,
	}
}

func content(w io.Writer) error {
	_, err := io.WriteString(w, "content")
	return err
}

func local(t *testing.T) (*Store, string) {
	dir := t.TempDir()
	s, err := Open(t.Context(), Config{Provider: Local, Container: dir, Prefix: "a/b"})
	if err != nil {
		t.Fatal(err)
	}
	return s, filepath.Join(dir, "a", "b", "v2")
}

// Big objects are written past the page cache, in pieces, whatever their size and that of the writes.
func TestBigObjects(t *testing.T) {
	for _, size := range []int{0, 1, pieceSize - 1, pieceSize, pieceSize + 1, 3 * pieceSize, 5*pieceSize + 17} {
		for _, step := range []int{1000, pieceSize + 3, 6 * pieceSize} {
			g := NewWithT(t)
			s, _ := local(t)
			content := make([]byte, size)
			_, _ = rand.NewChaCha8([32]byte{}).Read(content)
			written, err := s.Write(t.Context(), full(1), func(w io.Writer) error {
				for part := range slices.Chunk(content, step) {
					if n, err := w.Write(part); err != nil || n != len(part) {
						return fmt.Errorf("%d of %d: %w", n, len(part), err)
					}
				}
				return nil
			})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(written.Size).To(Equal(int64(size)))
			r, err := s.Reader(t.Context(), full(1))
			g.Expect(err).NotTo(HaveOccurred())
			got, err := io.ReadAll(r)
			g.Expect(errors.Join(err, r.Close())).To(Succeed())
			g.Expect(bytes.Equal(got, content)).To(BeTrue(), "%d bytes in steps of %d", size, step)
		}
	}
}

func TestBigObjectsPassThePageCache(t *testing.T) {
	g := NewWithT(t)
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "file"), os.O_CREATE|os.O_WRONLY, 0o600)
	g.Expect(err).NotTo(HaveOccurred())
	direct := func() bool {
		flags, err := unix.FcntlInt(file.Fd(), unix.F_GETFL, 0)
		g.Expect(err).NotTo(HaveOccurred())
		return flags&unix.O_DIRECT != 0
	}
	w := newDirectWriter(file)
	if w.bypass(true); !direct() {
		t.Skip("the filesystem cannot")
	}
	_, err = w.Write(make([]byte, 4*pieceSize+1))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(direct()).To(BeTrue(), "the pieces are aligned")
	g.Expect(w.Close()).To(Succeed())
	g.Expect(direct()).To(BeFalse(), "the rest is not")
	g.Expect(file.Close()).To(Succeed())
}

// The error of a piece that is written in the background ends the write, at the latest when the file is finished.
func TestErrorOfTheDisk(t *testing.T) {
	for _, size := range []int{1, pieceSize + 1, 2*pieceSize + 1, 9 * pieceSize} {
		g := NewWithT(t)
		file, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		g.Expect(err).NotTo(HaveOccurred())
		w := newDirectWriter(file)
		_, err = w.Write(make([]byte, size))
		closed := w.Close()
		g.Expect(errors.Join(err, closed)).To(MatchError(unix.ENOSPC), "%d bytes", size)
		g.Expect(file.Close()).To(Succeed())
	}
}

// A Local store whose folder is gone, since its volume is not mounted, is not an empty one: nothing is listed, and nothing is written beside it.
func TestTheFolderIsGone(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	ctx := t.Context()
	_, err := s.Write(ctx, full(1), content)
	g.Expect(err).NotTo(HaveOccurred())
	root := filepath.Join(dir, "..", "..", "..")
	g.Expect(os.Rename(root, root+"-away")).To(Succeed())
	gone := MatchError(ContainSubstring("its volume may not be mounted"))
	_, err = s.List(ctx)
	g.Expect(err).To(gone)
	_, err = s.Trusted(ctx, time.Time{})
	g.Expect(err).To(gone)
	_, err = s.Write(ctx, full(2), content)
	g.Expect(err).To(gone)
	_, err = s.Keep(ctx, full(1).Name())
	g.Expect(err).To(gone)
	g.Expect(s.Delete(ctx, full(1))).To(gone)
	g.Expect(s.Sweep(ctx, time.Now())).To(gone)
	g.Expect(root).NotTo(BeADirectory())
	g.Expect(s.objects.readable("a/b/v2")).To(gone, "it goes away while it is listed")
	g.Expect(os.Rename(root+"-away", root)).To(Succeed())
	g.Expect(s.List(ctx)).To(HaveLen(1), "it is back")
}

// A folder that cannot be read is not an empty one.
func TestAFolderThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	g.Expect(os.MkdirAll(filepath.Dir(dir), 0o700)).To(Succeed())
	g.Expect(s.List(t.Context())).To(BeEmpty(), "nothing was written to it yet")
	g.Expect(os.WriteFile(dir, nil, 0o600)).To(Succeed())
	_, err := s.List(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("listing the store: ")))
}

func TestObjects(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	ctx := t.Context()
	g.Expect(s.List(ctx)).To(BeEmpty())
	for _, revision := range []int64{3, 1, 2} {
		g.Expect(s.Write(ctx, full(revision), content)).To(Equal(full(revision)))
	}
	for _, name := range []string{"other", full(4).Name() + ".18a1f3.tmp"} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), nil, 0o600)).To(Succeed())
	}
	g.Expect(s.List(ctx)).To(Equal([]backup.Snapshot{full(1), full(2), full(3)}), "in the order of their times, and nothing else")
	r, err := s.Reader(ctx, full(2))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(io.ReadAll(r)).To(BeEquivalentTo("content"))
	g.Expect(r.Close()).To(Succeed())

	g.Expect(s.Delete(ctx, full(2))).To(Succeed())
	g.Expect(s.Delete(ctx, full(2))).To(Succeed(), "it is gone already")
	_, err = s.Reader(ctx, full(2))
	g.Expect(err).To(HaveOccurred())
	g.Expect(s.List(ctx)).To(HaveLen(2))
}

// Whatever ends a write before its end, no object appears, and nothing else that a tool could take for one.
func TestInterruptedWrites(t *testing.T) {
	failed := errors.New("disk full")
	for name, write := range map[string]func(context.CancelFunc, io.Writer) error{
		"failure":               func(_ context.CancelFunc, w io.Writer) error { return errors.Join(content(w), failed) },
		"failure at once":       func(context.CancelFunc, io.Writer) error { return failed },
		"cancellation":          func(cancel context.CancelFunc, w io.Writer) error { cancel(); return context.Canceled },
		"cancellation unheeded": func(cancel context.CancelFunc, w io.Writer) error { err := content(w); cancel(); return err },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s, dir := local(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := s.Write(ctx, full(1), func(w io.Writer) error { return write(cancel, w) })
			g.Expect(err).To(HaveOccurred())
			g.Expect(s.List(t.Context())).To(BeEmpty())
			entries, err := os.ReadDir(dir)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(entries).To(BeEmpty())
		})
	}
}

// While an object is written it is not listed, and a process that is killed then leaves a file that no reader takes
// for a snapshot, and that is swept later.
func TestUnfinishedObjects(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	ctx := t.Context()
	_, err := s.Write(ctx, full(1), func(w io.Writer) error {
		g.Expect(content(w)).To(Succeed())
		g.Expect(s.List(ctx)).To(BeEmpty())
		entries, err := os.ReadDir(dir)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(entries).To(HaveLen(1))
		g.Expect(entries[0].Name()).To(HavePrefix(unfinished))
		left, err := os.ReadFile(filepath.Join(dir, entries[0].Name()))
		g.Expect(err).NotTo(HaveOccurred())
		return os.WriteFile(filepath.Join(dir, unfinished+full(2).Name()+".1.tmp"), left, 0o600)
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.List(ctx)).To(HaveLen(1))
	g.Expect(s.Sweep(ctx, time.Now().Add(-time.Hour))).To(Succeed())
	g.Expect(os.ReadDir(dir)).To(HaveLen(2), "it may still be written")
	g.Expect(s.Sweep(ctx, time.Now().Add(time.Hour))).To(Succeed())
	g.Expect(os.ReadDir(dir)).To(HaveLen(1))
	g.Expect(s.List(ctx)).To(HaveLen(1))
}

// Who lists a folder while another agent writes to it sees each snapshot once, whatever comes and goes there.
func TestAFolderIsListedWhileItChanges(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	var stable []backup.Snapshot
	for i := range 20 {
		written, err := s.Write(t.Context(), full(int64(i+1)), content)
		g.Expect(err).NotTo(HaveOccurred())
		stable = append(stable, written)
	}
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			file := filepath.Join(dir, fmt.Sprint(unfinished, i))
			_ = errors.Join(os.WriteFile(file, nil, 0o600), os.Remove(file))
		}
	})
	defer writer.Wait()
	defer stop()
	for range 300 {
		list, err := s.List(ctx)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(list).To(HaveLen(len(stable)))
	}
}

func credentialsDir(t *testing.T, keys map[string]string) string {
	dir := t.TempDir()
	for name, value := range keys {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// No error contains a secret.
func TestCredentials(t *testing.T) {
	const secret = "hush-hush"
	for _, tc := range []struct {
		name, provider string
		keys           map[string]string
		want           string // empty: it is opened
	}{
		{"S3", S3, map[string]string{"accessKeyID": "id", "secretAccessKey": secret, "region": "r"}, ""},
		{"S3 elsewhere", S3, map[string]string{"accessKeyID": "id", "secretAccessKey": secret, "region": "r", "endpoint": "s3.example.com", "s3ForcePathStyle": "true", "insecureSkipVerify": "true"}, ""},
		{"S3 without a key", S3, map[string]string{"accessKeyID": secret}, "lack secretAccessKey, region"},
		{"S3 with a bad certificate", S3, map[string]string{"accessKeyID": "id", "secretAccessKey": secret, "region": "r", "trustedCaCert": secret}, "trustedCaCert"},
		{"S3 with its own encryption", S3, map[string]string{"accessKeyID": "id", "secretAccessKey": secret, "region": "r", "sseCustomerKey": secret}, "key sseCustomerKey of the credentials is not supported"},
		{"GCS without a key", GCS, nil, "lack serviceaccount.json"},
		{"GCS with a bad key", GCS, map[string]string{"serviceaccount.json": secret}, "neither the key of a service account"},
		{"GCS emulator", GCS, map[string]string{"emulatorEnabled": "true", "storageAPIEndpoint": "http://127.0.0.1:1/storage/v1/"}, ""},
		{"Azure", ABS, map[string]string{"storageAccount": "account", "storageKey": "c2VjcmV0"}, ""},
		{"Azure with a bad key", ABS, map[string]string{"storageAccount": "account", "storageKey": secret}, "not a key of Azure"},
		{"no driver", "Swift", nil, `provider "Swift" is not supported`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := Open(t.Context(), Config{Provider: tc.provider, Container: "bucket", Credentials: credentialsDir(t, tc.keys)})
			if tc.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.want)))
			g.Expect(err.Error()).NotTo(ContainSubstring(secret))
		})
	}
}

func TestChangedCredentialsAreReadAgain(t *testing.T) {
	g := NewWithT(t)
	dir := credentialsDir(t, map[string]string{"accessKeyID": "id", "secretAccessKey": "s", "region": "r"})
	s, err := Open(t.Context(), Config{Provider: S3, Container: "bucket", Credentials: dir})
	g.Expect(err).NotTo(HaveOccurred())
	first, err := s.objects.open(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	again, err := s.objects.open(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again == first).To(BeTrue())
	g.Expect(os.Symlink("x", filepath.Join(dir, "..data"))).To(Succeed()) // as the kubelet does it
	again, err = s.objects.open(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again == first).To(BeFalse())
	g.Expect(strings.Contains(s.String(), "bucket")).To(BeTrue())
	g.Expect(bytes.Contains([]byte(s.String()), []byte(dir))).To(BeFalse())
}

// A writer of a bucket may put any number of objects there. A listing ends, and says so.
func TestListingsAreBounded(t *testing.T) {
	g := NewWithT(t)
	s, dir := local(t)
	s.objects.max, s.maxSnapshots = 10, 5
	for i := range int64(5) {
		_, err := s.Write(t.Context(), full(i), content)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(s.List(t.Context())).To(HaveLen(5))

	_, err := s.Write(t.Context(), full(5), content)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.List(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("more than 5 snapshots")))
	g.Expect(s.Delete(t.Context(), full(5))).To(Succeed(), "what is too much can be removed")

	for i := range 6 {
		g.Expect(os.WriteFile(filepath.Join(dir, fmt.Sprintf("x%d", i)), nil, 0o600)).To(Succeed())
	}
	_, err = s.List(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("more than 10 objects")))
}
