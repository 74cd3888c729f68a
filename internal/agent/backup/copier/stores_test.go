// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package copier

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
)

// opened is a store in a folder, whose snapshots must be signed if there are keys.
func opened(t *testing.T, container, keys string) *store.Store {
	s, err := store.Open(t.Context(), store.Config{Provider: store.Local, Container: container, Prefix: "p", SigningKeys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// What is not signed is not copied to where it would be signed.
func TestNothingUnsignedIsSignedByACopy(t *testing.T) {
	g := NewWithT(t)
	keys, from, to := signaturetest.Keys(t), t.TempDir(), t.TempDir()
	unsigned, target := opened(t, from, ""), opened(t, to, keys)
	write(t, unsigned, snapshot(backup.Full, 0, 10, day(-3)))
	write(t, unsigned, snapshot(backup.Delta, 11, 12, day(-2)))
	_, err := Copy(t.Context(), Config{Source: unsigned, Target: target, Now: now, Log: logr.Discard()})
	g.Expect(err).To(MatchError("copies cannot be signed without keys to verify the source with"))
	g.Expect(target.List(t.Context())).To(BeEmpty())

	source := opened(t, from, keys)
	_, err = Copy(t.Context(), Config{Source: source, Target: target, Now: now, Log: logr.Discard()})
	g.Expect(err).To(MatchError(And(HavePrefix("source: snapshot "), ContainSubstring("is refused"))))
	write(t, source, snapshot(backup.Full, 0, 20, day(-1)))
	result, err := Copy(t.Context(), Config{Source: source, Target: target, Now: now, Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(And(HaveField("Copied", 1), HaveField("Unsigned", 2), HaveField("LastRevision", int64(20)), HaveField("Bytes", BeNumerically(">", 0))))

	// Someone who can write to the target puts another content in the place of a copy, of the same size.
	file := filepath.Join(to, "p", "v2", snapshot(backup.Full, 0, 20, day(-1)).Name())
	copied, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.RemoveAll(filepath.Join(to, "p"))).To(Succeed())
	g.Expect(os.MkdirAll(filepath.Dir(file), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(file, make([]byte, len(copied)), 0o600)).To(Succeed())
	result, err = Copy(t.Context(), Config{Source: source, Target: target, Now: now, Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Copied).To(Equal(1), "what is not signed is no copy")
	g.Expect(os.ReadFile(file)).To(Equal(copied))
}

// Where snapshots are signed, a source that ends before what is recorded, or that nothing can be restored from, is refused: the copy would vouch for it.
func TestASignedSourceIsComplete(t *testing.T) {
	keys := signaturetest.Keys(t)
	for name, c := range map[string]struct {
		signed   bool
		recorded int64
		lost     bool
		says     string
	}{
		"complete":                     {true, 20, false, ""},
		"a newer one is recorded":      {true, 21, false, "source: the snapshots end at revision 20"},
		"a delta is lost":              {true, 0, true, "source: delta snapshot"},
		"unsigned, and a newer one is": {false, 21, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			from := t.TempDir()
			source, target := opened(t, from, map[bool]string{true: keys}[c.signed]), opened(t, t.TempDir(), "")
			last := write(t, source, snapshot(backup.Full, 0, 10, day(-3)))
			for i, to := range []int64{15, 20} {
				delta := snapshot(backup.Delta, last.LastRevision+1, to, day(i-2))
				if c.signed {
					delta.Proof = &backup.Proof{History: last.Proof.History, Predecessor: last.Reference()}
				}
				if c.lost && i == 1 {
					g.Expect(source.Delete(t.Context(), last)).To(Succeed())
					delta.StartRevision = 11
				}
				last = write(t, source, delta)
			}
			result, err := Copy(t.Context(), Config{Source: source, Target: target, Now: now, Log: logr.Discard(), Record: backup.Record{Revision: c.recorded}})
			if c.says != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.says)))
				g.Expect(target.List(t.Context())).To(BeEmpty())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.LastRevision).To(Equal(int64(20)))
		})
	}
}

// An error says which of the two stores it is about.
func TestTheStoreOfAnErrorIsNamed(t *testing.T) {
	g := NewWithT(t)
	good, _ := filled(t)
	empty, _ := open(t)
	bad := newBucket(t)
	bad.refuses = func(*http.Request) bool { return true }
	for want, c := range map[string]Config{
		"source: ": {Source: bad.store, Target: empty},
		"target: ": {Source: good, Target: bad.store},
	} {
		c.Now, c.Log = now, logr.Discard()
		result, err := Copy(t.Context(), c)
		g.Expect(err).To(MatchError(And(HavePrefix(want), ContainSubstring("answered 403"))))
		g.Expect(result).To(Equal(Result{}))
	}
	bad.refuses = func(r *http.Request) bool { return r.URL.Query().Has("list-type") && len(bad.objects) == 5 }
	_, err := Copy(t.Context(), Config{Source: good, Target: bad.store, Now: now, Log: logr.Discard()})
	g.Expect(err).To(MatchError(And(HavePrefix("target: "), ContainSubstring("answered 403"))), "at the end")
	g.Expect(bad.objects).To(HaveLen(5))
	bad.refuses = func(r *http.Request) bool { return !r.URL.Query().Has("list-type") }
	_, err = Copy(t.Context(), Config{Source: bad.store, Target: empty, Now: now, Log: logr.Discard()})
	g.Expect(err).To(MatchError(HavePrefix("source: reading snapshot ")))
	bad.refuses = func(*http.Request) bool { return true }
	result, err := Copy(t.Context(), Config{Source: bad.store, Target: empty, Now: now, Log: logr.Discard(), WaitForFinal: time.Millisecond})
	g.Expect(err).To(MatchError(HavePrefix("source: ")))
	g.Expect(result.FinalSnapshot).To(BeNil(), "it is not known")
	refused := 0
	bad.refuses = func(*http.Request) bool { refused++; return refused == 1 }
	_, err = Copy(t.Context(), Config{Source: bad.store, Target: empty, Now: now, Log: logr.Discard(), WaitForFinal: time.Millisecond})
	g.Expect(err).To(MatchError(HavePrefix("source: ")), "whatever it answers later")
	g.Expect(empty.List(t.Context())).To(BeEmpty())
}

// bucket imitates S3.
type bucket struct {
	store *store.Store
	mu    sync.Mutex
	// objects by key; refuses says which requests it refuses, and damages: what is written is not what was sent.
	objects map[string][]byte
	refuses func(*http.Request) bool
	damages bool
}

func newBucket(t *testing.T) *bucket {
	b := &bucket{objects: map[string][]byte{}}
	server := httptest.NewServer(b)
	t.Cleanup(server.Close)
	keys := t.TempDir()
	for name, value := range map[string]string{
		"accessKeyID": "id", "secretAccessKey": "secret", "endpoint": server.URL, "s3ForcePathStyle": "true", "requestChecksumCalculation": "when_required",
	} {
		if err := os.WriteFile(filepath.Join(keys, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if b.store, err = store.Open(t.Context(), store.Config{Provider: store.S3, Container: "bucket", Prefix: "p", Credentials: keys}); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/bucket/")
	content, known := b.objects[key]
	switch {
	case b.refuses != nil && b.refuses(r):
		w.WriteHeader(http.StatusForbidden)
	case r.URL.Query().Has("list-type"):
		_, _ = io.WriteString(w, "<ListBucketResult>")
		for key, content := range b.objects {
			if strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
				_, _ = fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size><LastModified>2026-01-01T00:00:00Z</LastModified><ETag>1</ETag></Contents>", key, len(content))
			}
		}
		_, _ = io.WriteString(w, "</ListBucketResult>")
	case r.Method == http.MethodPut:
		content, _ := io.ReadAll(r.Body)
		if b.damages {
			content[len(content)/2] ^= 1
		}
		b.objects[key] = content
		w.Header().Set("ETag", "1")
	case r.Method == http.MethodDelete:
		delete(b.objects, key)
	case known:
		_, _ = w.Write(content)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// What was written to a bucket is read back, and removed if it is not what was sent: nothing that cannot be restored counts as a copy.
func TestACopyInABucketIsReadBack(t *testing.T) {
	g := NewWithT(t)
	source, _ := filled(t)
	b := newBucket(t)
	config := Config{Source: source, Target: b.store, Now: now, Log: logr.Discard()}
	b.damages = true
	_, err := Copy(t.Context(), config)
	g.Expect(err).To(MatchError(And(ContainSubstring("reading back what was written to the target: "), ContainSubstring("is corrupt"))))
	g.Expect(b.objects).To(BeEmpty())
	b.damages = false
	result, err := Copy(t.Context(), config)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Copied).To(Equal(5))
	sizes := int64(0)
	for _, content := range b.objects {
		sizes += int64(len(content))
	}
	g.Expect(result.Bytes).To(Equal(sizes))

	// A copy out of a bucket.
	target, _ := open(t)
	result, err = Copy(t.Context(), Config{Source: b.store, Target: target, Now: now, Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(Result{Copied: 5, Bytes: sizes, LastRevision: 30}))
}
