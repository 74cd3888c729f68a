// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	testingclock "k8s.io/utils/clock/testing"
)

// locking is a bucket that refuses to remove what it locks.
type locking struct {
	mu      sync.Mutex
	names   []string
	locks   func(name string) bool
	refused int
	// status is what it answers to such a request.
	status int
}

func (l *locking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := path.Base(r.URL.Path)
	w.Header().Set("Content-Type", "application/xml")
	switch {
	case r.Method == http.MethodDelete && l.locks(name):
		l.refused++
		w.WriteHeader(l.status)
	case r.Method == http.MethodDelete:
		l.names = slices.DeleteFunc(l.names, func(n string) bool { return n == name })
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodGet:
		var list strings.Builder
		for _, n := range l.names {
			if key := "a/v2/" + n; strings.HasPrefix(key, r.URL.Query().Get("prefix")) {
				fmt.Fprintf(&list, "<Contents><Key>%s</Key><Size>1</Size><LastModified>2026-11-20T00:00:00Z</LastModified></Contents>", key)
			}
		}
		_, _ = fmt.Fprintf(w, "<ListBucketResult>%s</ListBucketResult>", list.String())
	}
}

// A bucket that locks objects for some days refuses to remove the younger ones, and perhaps an older one: all others that retention does not keep are
// removed nevertheless. A store that answers something else is asked once.
func TestACollectionBesideLockedObjects(t *testing.T) {
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		status, refused, left int
		held                  int64
	}{
		"locked by age":               {status: http.StatusForbidden, left: 20, refused: maxRefused},
		"by Azure":                    {status: http.StatusConflict, left: 20, refused: maxRefused},
		"and one for longer":          {status: http.StatusForbidden, left: 21, refused: maxRefused + 1, held: 3},
		"the store cannot remove any": {status: http.StatusNotImplemented, left: 40, refused: 1, held: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bucket := &locking{status: c.status}
			for i := range 40 {
				s := backup.Snapshot{Kind: backup.Full, LastRevision: int64(i + 1), Created: start.Add(time.Duration(i) * time.Minute), Compression: backup.None}
				bucket.names = append(bucket.names, s.Name())
			}
			bucket.locks = func(name string) bool {
				s, err := backup.ParseName(name)
				return err == nil && (s.LastRevision > 20 || s.LastRevision == c.held)
			}
			server := httptest.NewServer(bucket)
			t.Cleanup(server.Close)
			credentials := t.TempDir()
			for key, value := range map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "c", "endpoint": server.URL, "s3ForcePathStyle": "true"} {
				g.Expect(os.WriteFile(filepath.Join(credentials, key), []byte(value), 0o600)).To(Succeed())
			}
			to, err := store.Open(t.Context(), store.Config{Provider: store.S3, Container: "bucket", Prefix: "a", Credentials: credentials})
			g.Expect(err).NotTo(HaveOccurred())
			o := Options{Schedule: "* * * * *", Compression: backup.None, Timeout: time.Minute, Retention: backup.Retention{Limit: 1}}
			s, err := New(Config{Options: o, Etcd: at{40}, Store: to, Clock: testingclock.NewFakeClock(start.Add(time.Hour)), Log: logr.Discard()})
			g.Expect(err).NotTo(HaveOccurred())
			(&session{Snapshotter: s, leases: map[int64]int64{}}).removeExpired(t.Context())
			g.Expect(bucket.names).To(HaveLen(c.left))
			g.Expect(bucket.refused).To(Equal(c.refused))
			g.Expect(s.Restorable()).To(HaveLen(c.left), "what is left can be restored")
		})
	}
}
