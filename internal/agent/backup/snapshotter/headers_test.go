// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package snapshotter

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/encryption/encryptiontest"
	"github.com/etcd-foreman/etcd-foreman/internal/agent/backup/store"
	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	testingclock "k8s.io/utils/clock/testing"
)

// sealed is a trial whose snapshots are encrypted, with the config of its store.
func sealed(t *testing.T, recipients []string, identities ...string) (*trial, store.Config) {
	r, credentials := newTrial(t, ""), filepath.Join(t.TempDir(), "credentials")
	r.Expect(os.Mkdir(credentials, 0o700)).To(Succeed())
	config := store.Config{Provider: store.Local, Container: t.TempDir(), Prefix: "a", Recipients: recipients, Identities: encryptiontest.Folder(t, identities...), Credentials: credentials}
	r.open(config)
	return r, config
}

// from returns the revisions at which what can be restored begins.
func (r *trial) from() (revisions []int64) {
	for _, i := range r.states() {
		revisions = append(revisions, i.From.Revision)
	}
	return revisions
}

// looks has a session read headers, a period later.
func (r *trial) looks(n *session) {
	r.clock.Step(headersPeriod)
	n.readHeaders(r.t.Context())
}

// written writes a full snapshot of a revision into the store.
func (r *trial) written(revision int64) backup.Snapshot {
	s, err := r.store.Write(r.t.Context(), backup.Snapshot{Kind: backup.Full, LastRevision: revision, Created: noon.Add(time.Duration(revision) * time.Minute), Compression: backup.None}, func(w io.Writer) error {
		_, err := w.Write([]byte("x"))
		return err
	})
	r.Expect(err).NotTo(HaveOccurred())
	return s
}

// What an agent cannot decrypt cannot be restored: after an identity was removed too early, and until it is put back.
func TestWhatCannotBeDecryptedIsNotRestorable(t *testing.T) {
	first, one := encryptiontest.Identity(t)
	second, other := encryptiontest.Identity(t)
	r, config := sealed(t, nil, first, second)
	for i, recipients := range [][]string{{one}, {one}, {one, other}, {other}} {
		config.Recipients = recipients
		r.open(config)
		r.written(int64(i + 11))
	}
	n := r.session()
	r.Expect(r.states()).To(BeNil(), "it is not known")
	r.looks(n)
	r.Expect(r.from()).To(Equal([]int64{11, 12, 13, 14}))
	_, locked := r.s.Restorable()
	r.Expect(locked).To(BeEmpty())
	for removed, c := range map[string]struct {
		left []int64
		says string
	}{
		first:  {[]int64{13, 14}, "^2 of 4 snapshots, from Full-00000000-00000011-[0-9]+.age of 2026-11-20T12:41:00Z to Full-00000000-00000012-[0-9]+.age of 2026-11-20T12:42:00Z, .*put the identity back"},
		second: {[]int64{11, 12, 13}, "^1 of 4 snapshots, "},
	} {
		file := filepath.Join(config.Identities, removed[len(removed)-8:])
		key, err := os.ReadFile(file)
		r.Expect(err).NotTo(HaveOccurred())
		r.Expect(os.WriteFile(file, []byte("malformed"), 0o600)).To(Succeed())
		r.looks(n)
		r.Expect(r.from()).To(Equal([]int64{11, 12, 13, 14}), "identities that cannot be read say nothing")
		r.Expect(os.Remove(file)).To(Succeed())
		r.looks(n)
		r.Expect(r.from()).To(Equal(c.left))
		_, locked := r.s.Restorable()
		r.Expect(locked).To(MatchRegexp(c.says))
		n = r.session()
		r.looks(n)
		r.Expect(r.from()).To(Equal(c.left), "the next leader finds the same")
		r.Expect(os.WriteFile(file, key, 0o600)).To(Succeed())
		r.looks(n)
		r.Expect(r.from()).To(Equal([]int64{11, 12, 13, 14}))
	}

	config.Identities = ""
	r.open(config)
	r.session()
	r.Expect(r.from()).To(Equal([]int64{11, 12, 13, 14}), "people can")
	config.Recipients = nil
	r.open(config)
	r.looks(r.session())
	r.Expect(r.states()).To(And(BeEmpty(), Not(BeNil())), "encryption was switched off, and the identities are gone with it")
}

// A header is read once, of so many snapshots at a time, the newest first. Until all are known, nothing changes.
func TestEachHeaderIsReadOnce(t *testing.T) {
	identity, recipient := encryptiontest.Identity(t)
	r, config := sealed(t, []string{recipient}, identity)
	var all []backup.Snapshot
	for i := range int64(maxHeaders + 1) {
		all = append(all, r.written(i+11))
	}
	damage := func(s backup.Snapshot) {
		file := filepath.Join(config.Container, "a", "v2", s.Name())
		r.Expect(os.WriteFile(file, bytes.Repeat([]byte("x"), int(s.Size)), 0o600)).To(Succeed())
	}
	n := r.session()
	r.looks(n)
	r.Expect(r.states()).To(BeNil(), "the oldest is not read yet")
	n.readHeaders(t.Context())
	r.Expect(r.states()).To(BeNil(), "nor at once")
	for _, s := range all[1:] {
		r.Expect(n.headers.locked).To(HaveKeyWithValue(headerOf(s), false))
	}
	r.looks(n)
	r.Expect(r.states()).To(HaveLen(len(all)))
	damage(all[5])
	n.removeExpired(t.Context())
	r.Expect(r.states()).To(HaveLen(len(all)), "it is not read again")

	last := r.written(1000)
	n.removeExpired(t.Context())
	r.Expect(r.states()).To(HaveLen(len(all)), "the new one is not known")
	credentials := config.Credentials
	r.Expect(os.Remove(credentials)).To(Succeed(), "no operation succeeds without them")
	r.looks(n)
	r.Expect(r.states()).To(HaveLen(len(all)), "a store that fails says nothing")
	r.Expect(os.Mkdir(credentials, 0o700)).To(Succeed())
	r.Expect(os.Remove(filepath.Join(config.Container, "a", "v2", last.Name()))).To(Succeed())
	r.looks(n)
	r.Expect(n.headers.locked).To(HaveKeyWithValue(headerOf(last), false), "what was removed is passed over")
	n.removeExpired(t.Context())
	r.Expect(n.headers.locked).NotTo(HaveKey(headerOf(last)), "and forgotten")
	r.Expect(r.states()).To(HaveLen(len(all)))

	corrupt := r.written(1001)
	damage(corrupt)
	r.written(1002) // while the newest cannot be read, nothing is collected
	n.removeExpired(t.Context())
	r.looks(n)
	r.Expect(n.headers.locked).To(HaveKeyWithValue(headerOf(corrupt), false), "that says nothing of identities")
}

// An archived object cannot be read until a person has it restored from the archive. The others are known nevertheless.
func TestWhatTheStoreRefusesIsPassedOver(t *testing.T) {
	g := NewWithT(t)
	identity, _ := encryptiontest.Identity(t)
	bucket := &locking{}
	for i := range int64(2) {
		bucket.has(backup.Snapshot{Kind: backup.Full, LastRevision: i + 11, Created: noon.Add(time.Duration(i) * time.Minute), Compression: backup.None, Encrypted: true})
	}
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, bucket.keys[0]) {
			w.WriteHeader(status)
			return
		}
		bucket.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	credentials := t.TempDir()
	for key, value := range map[string]string{"accessKeyID": "a", "secretAccessKey": "b", "region": "c", "endpoint": server.URL, "s3ForcePathStyle": "true"} {
		g.Expect(os.WriteFile(filepath.Join(credentials, key), []byte(value), 0o600)).To(Succeed())
	}
	to, err := store.Open(t.Context(), store.Config{Provider: store.S3, Container: "bucket", Prefix: "a", Credentials: credentials, Identities: encryptiontest.Folder(t, identity)})
	g.Expect(err).NotTo(HaveOccurred())
	clock := testingclock.NewFakeClock(noon.Add(time.Hour))
	s, err := New(Config{Options: Options{Schedule: "0 * * * *", Compression: backup.None, Timeout: time.Minute}, Etcd: at{12}, Store: to, Clock: clock, Log: logr.Discard()})
	g.Expect(err).NotTo(HaveOccurred())
	n := &session{Snapshotter: s, leases: map[int64]int64{}}
	list, err := to.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	n.foundRestorable(list)
	n.readHeaders(t.Context())
	g.Expect(states(s)).To(BeNil(), "the store has failed")
	for _, refuses := range []int{http.StatusForbidden, http.StatusBadRequest} {
		s.restorable, status = nil, refuses
		n.foundRestorable(list)
		g.Expect(states(s)).To(BeNil(), "it is tried again")
		clock.Step(headersPeriod)
		n.readHeaders(t.Context())
		g.Expect(states(s)).To(HaveLen(2), "%d", refuses)
	}
}
