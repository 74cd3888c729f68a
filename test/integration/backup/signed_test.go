// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/copier"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/restore"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/signature/signaturetest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/snapshotter"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/etcd-foreman/etcd-foreman/test/machine"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
)

// A cluster whose snapshots are signed: its bucket is restored, compacted and copied; a tool without keys reads it, too; and what
// somebody without the key put there is refused everywhere.
func TestSignedSnapshots(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T) store.Config{
		"folder": func(t *testing.T) store.Config {
			return store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: prefix}
		},
		"S3": func(t *testing.T) store.Config { return startS3(t).config(secret) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ctx := t.Context()
			config := begin(t)
			plain := openStore(t, config)
			e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
			put(g, e, "k", 20)
			// What was there before snapshots were signed.
			before := run(t, e, plain, options())
			before.begin(g)
			before.stop()
			earlier, err := plain.List(ctx)
			g.Expect(err).NotTo(HaveOccurred())

			config.SigningKeys = signaturetest.Keys(t)
			s := openStore(t, config)
			_, err = restoreTo(t, s, filepath.Join(t.TempDir(), "new.etcd"))
			g.Expect(err).To(MatchError(ContainSubstring("it is not signed")))

			var record backup.Record
			r := run(t, e, s, options(), func(c *snapshotter.Config) {
				c.OnSnapshot = func(s backup.Snapshot) { record = backup.Record{Revision: s.LastRevision, Created: s.Created} }
			})
			r.begin(g)
			put(g, e, "d", 20)
			delta, err := r.Delta(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			r.stop()
			restoresTo(t, g, e, s)
			restoresTo(t, g, e, plain)

			_, err = restore.Compact(ctx, restore.CompactConfig{Store: s, WorkDir: t.TempDir(), Compression: backup.None, Record: record, Log: logOf(t)})
			g.Expect(err).NotTo(HaveOccurred())
			restoresTo(t, g, e, s)
			r = run(t, e, s, options())
			put(g, e, "after", 5)
			g.Eventually(func() (err error) { delta, err = r.Delta(ctx); return err }).WithTimeout(machine.Patience()).Should(Succeed())
			r.stop()
			g.Expect(delta.Kind).To(Equal(backup.Delta), "deltas continue the compacted snapshot")
			restoresTo(t, g, e, s)

			target := openStore(t, store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "other/prefix", SigningKeys: config.SigningKeys})
			copied, err := copier.Copy(ctx, copier.Config{Source: s, Target: target, Now: time.Now(), Record: record, Log: logOf(t)})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(copied.Unsigned).To(Equal(len(earlier)), "those from before")
			restoresTo(t, g, e, target)
			again, err := copier.Copy(ctx, copier.Config{Source: s, Target: target, Now: time.Now(), Log: logOf(t)})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(again.Copied).To(BeZero())

			// Somebody without the key removes the newest delta.
			g.Expect(plain.Delete(ctx, *delta)).To(Succeed())
			record = backup.Record{Revision: delta.LastRevision, Created: delta.Created}
			_, err = restore.Restore(ctx, restore.Config{
				Store: s, DataDir: filepath.Join(t.TempDir(), "new.etcd"), Member: memberName, PeerURL: peerURL,
				InitialCluster: memberName + "=" + peerURL, Token: "token", Record: record, Log: logOf(t),
			})
			var older *backup.OlderError
			g.Expect(errors.As(err, &older)).To(BeTrue(), "%v", err)
			_, err = restore.Compact(ctx, restore.CompactConfig{Store: s, WorkDir: t.TempDir(), Compression: backup.None, Record: record, Log: logOf(t)})
			g.Expect(errors.As(err, &older)).To(BeTrue(), "%v", err)
			_, err = copier.Copy(ctx, copier.Config{Source: s, Target: target, Now: time.Now(), Record: record, Log: logOf(t)})
			g.Expect(errors.As(err, &older)).To(BeTrue(), "%v", err)
			accepted := restore.Acceptance{Revision: older.Reached.Revision}
			_, err = restore.Restore(ctx, restore.Config{
				Store: s, DataDir: filepath.Join(t.TempDir(), "new.etcd"), Member: memberName, PeerURL: peerURL,
				InitialCluster: memberName + "=" + peerURL, Token: "token", Record: record, Accept: accepted, Log: logOf(t),
			})
			g.Expect(err).NotTo(HaveOccurred())

			// The next agent notices, and begins again with a full snapshot, so that its deltas continue nothing that was put back.
			r = run(t, e, s, options(), func(c *snapshotter.Config) {
				c.Recorded = func(context.Context) (backup.Record, error) { return record, nil }
			})
			g.Eventually(func() error { return r.Healthy() }).WithTimeout(machine.Patience()).Should(MatchError(ContainSubstring("newer snapshots were removed")))
			r.begin(g)
			r.stop()
			restoresTo(t, g, e, s)

			// Somebody without the key adds a snapshot that would be restored. The next agent supersedes it.
			list, err := s.List(ctx)
			g.Expect(err).NotTo(HaveOccurred())
			forged := list[len(list)-1]
			forged.Created = forged.Created.Add(time.Second)
			_, err = plain.Write(ctx, forged, func(w io.Writer) error { _, err := w.Write(make([]byte, 100)); return err })
			g.Expect(err).NotTo(HaveOccurred())
			_, err = restoreTo(t, s, filepath.Join(t.TempDir(), "new.etcd"))
			g.Expect(err).To(MatchError(ContainSubstring(forged.Name() + " in")))
			run(t, e, s, options()).begin(g)
			restoresTo(t, g, e, s)
		})
	}
}

// cut is a proxy in front of an S3 server that fails one write: the connection ends before the request is passed on, or after,
// with the answer lost. All later writes fail, too, as when the agent has died.
type cut struct {
	at     int64
	after  bool
	writes atomic.Int64
	next   *httputil.ReverseProxy
}

func (c *cut) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		c.next.ServeHTTP(w, r)
		return
	}
	switch n := c.writes.Add(1); {
	case n < c.at:
		c.next.ServeHTTP(w, r)
		return
	case n == c.at && c.after:
		c.next.ServeHTTP(httptest.NewRecorder(), r)
	}
	panic(http.ErrAbortHandler)
}

// The agent dies at any of its writes to a bucket, with the write done or not: nothing that is left is refused, and the next agent
// continues.
func TestKilledAtEveryWriteOfSignedSnapshots(t *testing.T) {
	t.Parallel()
	keys := signaturetest.Keys(t)
	e := startEtcd(t, filepath.Join(t.TempDir(), "data"))
	put(NewWithT(t), e, "k", 20)
	for _, after := range []bool{false, true} {
		for at := int64(1); ; at++ {
			ended := false
			t.Run(fmt.Sprintf("write %d, done %v", at, after), func(t *testing.T) {
				g := NewWithT(t)
				ctx := t.Context()
				server := startS3(t)
				config := server.config(secret)
				config.SigningKeys = keys
				direct := openStore(t, config)
				to, err := url.Parse("http://" + server.address)
				g.Expect(err).NotTo(HaveOccurred())
				proxy := &cut{at: at, after: after, next: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
					r.SetURL(to)
					r.Out.Host = r.In.Host // it is signed
				}}}
				front := httptest.NewServer(proxy)
				defer front.Close()
				config = server.config(secret)
				config.SigningKeys = keys
				g.Expect(os.WriteFile(filepath.Join(config.Credentials, "endpoint"), []byte(front.URL), 0o600)).To(Succeed())
				dying := openStore(t, config)

				ended = work(ctx, dying, e) == nil
				list, err := direct.Trusted(ctx, time.Time{})
				g.Expect(err).NotTo(HaveOccurred(), "nothing unsigned is left")
				if len(list) > 0 {
					_, err = restoreTo(t, direct, filepath.Join(t.TempDir(), "new.etcd"))
					g.Expect(err).NotTo(HaveOccurred())
				}
				g.Expect(work(ctx, direct, e)).To(Succeed())
				restoresTo(t, g, e, direct)
				g.Expect(direct.Sweep(ctx, time.Now().Add(time.Hour))).To(Succeed())
				objects, err := direct.List(ctx)
				g.Expect(err).NotTo(HaveOccurred())
				signatures, err := filepath.Glob(filepath.Join(server.dir, "*", filepath.FromSlash(prefix), signature.Folder, "sig.*"))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(signatures).To(HaveLen(len(objects)), "no signature stays without its object")
			})
			if t.Failed() || ended {
				break
			}
		}
	}
}

// work takes a full snapshot, compacts, and removes the first one, as retention does. It ends at the first failure.
func work(ctx context.Context, s *store.Store, e *etcd) error {
	ctx, cancel := context.WithTimeout(ctx, machine.Patience())
	defer cancel()
	member, err := snapshotter.Member(e.Client)
	if err != nil {
		return err
	}
	revision, err := member.Revision(ctx)
	if err != nil {
		return err
	}
	stream, err := member.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	list, err := s.List(ctx)
	if err != nil {
		return err
	}
	full := backup.Snapshot{Kind: backup.Full, LastRevision: revision, Compression: backup.None, Created: time.Now().UTC().Truncate(time.Second)}
	if last := backup.LastTaken(list, s.Trust(), time.Now()); !full.Created.After(last) {
		full.Created = last.Add(time.Second)
	}
	full, err = s.Write(ctx, full, func(w io.Writer) error { return backup.WriteFull(w, full, stream) })
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "work")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := restore.Compact(ctx, restore.CompactConfig{Store: s, WorkDir: dir, Compression: backup.None, Log: logr.Discard()}); err != nil {
		return err
	}
	return s.Delete(ctx, full)
}
