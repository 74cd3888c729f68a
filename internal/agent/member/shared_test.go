// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/test/certs"
	. "github.com/onsi/gomega"
)

// mounted writes the shared ConfigMap as the kubelet mounts it.
func mounted(t *testing.T, data map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for key, value := range data {
		NewWithT(t).Expect(os.WriteFile(filepath.Join(dir, key), []byte(value), 0o600)).To(Succeed())
	}
	return dir
}

// complete is a ConfigMap with every key.
func complete() map[string]string {
	return map[string]string{
		KeyConfig: sharedConfig, KeyBootstrap: bootstrapConfig, KeyClusterID: "cafe\n", KeyRecovery: recovery, KeyRecoveryDetails: "task: 5b1c\nhighestRevision: 7\nhadData: true\n",
		KeyFirstStart: "etcd: 4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f\n", KeyAccept: "revision: 7\n",
		KeyMembers: "etcd: 4f7f2f3c-5d5e-4b0e-9a8e-0d6a4c1d2e3f\nclusterID: cafe\ngeneration: 7\nleaving: [main-2]\n",
	}
}

// The agent reads from the mounted ConfigMap what the operator reads from its data.
func TestReadShared(t *testing.T) {
	g := NewWithT(t)
	want, err := ParseShared(complete())
	g.Expect(err).NotTo(HaveOccurred())
	read, err := ReadShared(mounted(t, complete()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read).To(Equal(want))
	g.Expect(read.Recovery.HighestRevision).To(BeEquivalentTo(7))
	g.Expect(read.Recovery.HadData).To(BeTrue())
	g.Expect(read.Accept).To(Equal(&Acceptance{Revision: 7}))
	g.Expect(read.MayBegin()).To(BeTrue())
	g.Expect(read.DataDir()).To(Equal("/var/etcd/data/new.etcd"))
	g.Expect(read.RestoreNoteFile()).To(Equal("/var/etcd/data/new.etcd.restored"))
}

// While the kubelet puts another version in place, and removes the one before, all keys are of one version.
func TestReadSharedDuringASwap(t *testing.T) {
	g := NewWithT(t)
	dir, before, after := t.TempDir(), complete(), complete()
	after[KeyConfig] += "name-of-a-later-field: 1\n"
	after[KeyClusterID], after[KeyRecovery], after[KeyRecoveryDetails], after[KeyMembers] = "beef", "", "", ""
	for name, data := range map[string]map[string]string{"..1": before, "..2": after} {
		g.Expect(os.Mkdir(filepath.Join(dir, name), 0o700)).To(Succeed())
		for key, value := range data {
			g.Expect(os.WriteFile(filepath.Join(dir, name, key), []byte(value), 0o600)).To(Succeed())
		}
	}
	g.Expect(os.Symlink("..1", filepath.Join(dir, "..data"))).To(Succeed())
	for key := range before {
		g.Expect(os.Symlink(filepath.Join("..data", key), filepath.Join(dir, key))).To(Succeed())
	}
	// Who reads the first key of the version before waits until the other one is in place.
	pipe := filepath.Join(dir, "..1", KeyConfig)
	g.Expect(os.Remove(pipe)).To(Succeed())
	g.Expect(syscall.Mkfifo(pipe, 0o600)).To(Succeed())
	swapped := make(chan error, 1)
	go func() {
		swapped <- func() error {
			w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			err = errors.Join(os.Symlink("..2", filepath.Join(dir, "..tmp")), os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")), os.RemoveAll(filepath.Join(dir, "..1")))
			_, unwritten := w.WriteString(before[KeyConfig])
			return errors.Join(err, unwritten, w.Close())
		}()
	}()
	read, err := ReadShared(dir)
	g.Expect(<-swapped).To(Succeed())
	g.Expect(err).NotTo(HaveOccurred())
	want, err := ParseShared(after)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(read).To(Equal(want))
}

// A key is read, or it does not exist: a recovery or a cluster ID that cannot be read must not count as none.
func TestReadSharedNeedsWhatItCannotRead(t *testing.T) {
	for key := range complete() {
		data := complete()
		delete(data, key)
		dir := mounted(t, data)
		required := key == KeyConfig || key == KeyBootstrap
		if _, err := ReadShared(dir); (err != nil) != required {
			t.Errorf("without %s: %v", key, err)
		}
		NewWithT(t).Expect(os.Mkdir(filepath.Join(dir, key), 0o700)).To(Succeed())
		s, err := ReadShared(dir)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("reading the shared configuration: ")), key)
		NewWithT(t).Expect(s).To(Equal(Shared{}), key)
	}
}

func TestUnreadableConfiguration(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{KeyConfig, "a: [", "reading " + KeyConfig + " of the shared configuration"},
		{KeyBootstrap, "a: [", "reading " + KeyBootstrap + " of the shared configuration"},
		{KeyRecoveryDetails, "task: [", "reading " + KeyRecoveryDetails + " of the shared configuration"},
		{KeyMembers, "etcd: [", "reading " + KeyMembers + " of the shared configuration"},
		{KeyAccept, "revision: [", "reading " + KeyAccept + " of the shared configuration"},
	} {
		data := complete()
		data[c.key] = c.value
		s, err := ParseShared(data)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.want)))
		NewWithT(t).Expect(s).To(Equal(Shared{}), c.key)
	}
}

func TestUnreadableURLs(t *testing.T) {
	listen := Shared{Config: map[string]any{"listen-client-urls": ":"}}
	_, ofIdentify := listen.Identify("m")
	_, ofLocal := listen.LocalClientURL()
	_, ofTLS := listen.ClientTLS(t.TempDir())
	for name, err := range map[string]error{"Identify": ofIdentify, "LocalClientURL": ofLocal, "ClientTLS": ofTLS} {
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring("reading listen-client-urls of the shared configuration")), name)
	}
	_, err := Shared{Bootstrap: map[string]any{"initial-cluster": "m=:"}}.Identify("m")
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("reading initial-cluster of the shared configuration")))
	_, err = Shared{Config: map[string]any{"experimental": func() {}}}.Render(Identity{Name: "m"}, Start, "")
	NewWithT(t).Expect(err).To(MatchError(ContainSubstring("rendering the configuration of member m")))
}

// A member that listens on all addresses is dialed on its loopback address.
func TestListens(t *testing.T) {
	for listen, local := range map[string]string{
		"http://0.0.0.0:2379":   "http://127.0.0.1:2379",
		"https://[::]:2379":     "https://127.0.0.1:2379",
		"http://10.0.0.1:2379":  "http://10.0.0.1:2379",
		"https://127.0.0.2:437": "https://127.0.0.2:437",
	} {
		s := Shared{Config: map[string]any{"listen-client-urls": listen}}
		got, err := s.LocalClientURL()
		NewWithT(t).Expect(got, err).To(Equal(local))
	}
	NewWithT(t).Expect(Shared{Config: map[string]any{"listen-peer-urls": "https://0.0.0.0:2380"}}.PeerTLS()).To(BeTrue())
	NewWithT(t).Expect(Shared{Config: map[string]any{"listen-peer-urls": "http://0.0.0.0:2380"}}.PeerTLS()).To(BeFalse())
}

// Clients of members with TLS trust the CAs in the configuration, show the certificate in the folder, and do not go without.
func TestClientTLS(t *testing.T) {
	g := NewWithT(t)
	ca, err := certs.NewCA("ca")
	g.Expect(err).NotTo(HaveOccurred())
	pair, err := ca.Issue([]string{"m"})
	g.Expect(err).NotTo(HaveOccurred())
	dir := mounted(t, map[string]string{CAFile: string(ca.PEM), CertificateFile: string(pair.Certificate), KeyFile: string(pair.Key)})
	config := map[string]any{
		"listen-client-urls":        "https://0.0.0.0:2379",
		"client-transport-security": map[string]any{"trusted-ca-file": filepath.Join(dir, CAFile)},
	}
	got, err := Shared{Config: config}.ClientTLS(dir)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got.RootCAs).NotTo(BeNil())
	g.Expect(got.InsecureSkipVerify).To(BeFalse())
	shown, err := got.GetClientCertificate(nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(shown.Certificate).NotTo(BeEmpty())

	_, err = Shared{Config: config}.ClientTLS(t.TempDir())
	g.Expect(err).To(MatchError(ContainSubstring("reading the client certificate in ")))
	plain := maps.Clone(config)
	plain["listen-client-urls"] = "http://0.0.0.0:2379"
	g.Expect(Shared{Config: plain}.ClientTLS(dir)).To(BeNil())
}

// What the operator writes is what members read.
func TestEncoded(t *testing.T) {
	g := NewWithT(t)
	permission := FirstStart{Etcd: "uid", Claims: []string{"a", "b"}, Round: "2"}
	text, err := permission.Encode()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ParseFirstStart(text)).To(Equal(&permission))
	for _, a := range []Acceptance{{Revision: 7}, {UnsignedUntil: "2026-01-01T00:00:00Z"}, {PlainUntil: "2026-01-01T00:00:00Z"}} {
		text, err := a.Encode()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(parseAcceptance([]byte(text))).To(Equal(&a))
	}
	g.Expect(Acceptance{}.Encode()).To(BeEmpty())
	g.Expect(parseAcceptance([]byte("revision: 7\nofALaterOperator: true\n"))).To(Equal(&Acceptance{Revision: 7}))
	g.Expect(parseAcceptance([]byte(" \n"))).To(BeNil())
}

// Details count for the recovery of their task alone: an operator that does not know them leaves those of an earlier one. Later operators may
// add to them. What a recovery has of them, or lacks, makes it no wake-up.
func TestRecoveryDetails(t *testing.T) {
	g := NewWithT(t)
	data := complete()
	data[KeyRecoveryDetails] = "task: 5b1c\nrevision: 6\nhighestRevision: 7\nhadData: true\nmore: true\n"
	s, err := ParseShared(data)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Recovery).To(HaveField("HighestRevision", BeEquivalentTo(7)))
	g.Expect(s.Revision).To(BeEquivalentTo(6))
	data[KeyRecoveryDetails] = "task: another\nrevision: 6\nhighestRevision: 7\nhadData: true\n"
	s, err = ParseShared(data)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Recovery).To(Equal(&Recovery{Task: "5b1c", Member: "etcd-main-1", Source: RecoverFromData, PreviousClusterID: "cafe"}))
	g.Expect(s.Revision).To(BeZero())
	g.Expect((&Recovery{TaskName: "recover", Revision: 6}).MayBeBehind()).To(BeTrue())
	g.Expect((&Recovery{Revision: 6}).MayBeBehind()).To(BeFalse(), "it wakes up from its final snapshot")
}

// Agents refuse a recovery with a field that they do not know, so that members stop for good: a field that is to be added later belongs to the
// details, and to a restore only what the agents that it needs are known to have.
func TestFieldsThatAgentsRefuse(t *testing.T) {
	fields := func(of any) (names []string) {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(of)) {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
				names = append(names, name)
			}
		}
		return names
	}
	NewWithT(t).Expect(fields(Recovery{})).To(Equal([]string{"task", "taskName", "member", "source", "previousClusterID", "earlierClusterIDs", "revision", "restore"}))
	NewWithT(t).Expect(fields(RestorePoint{})).To(Equal([]string{"base", "revision", "hash", "prefix", "bytes", "kept", "bump"}))
}

// The IDs are those that etcd gives to these clusters; internal/agent/prepare compares more of them with etcd's code.
func TestClusterID(t *testing.T) {
	for founders, want := range map[string]string{
		"main-0=http://main-0.main-peer.ns.svc:2380":                     "d2714d45183954c6",
		"main-2=http://c:2380,main-0=http://a:2380,main-1=http://b:2380": "dc261e0a4e0b7e82",
		"main-0=http://b:2380,main-0=http://a:2380,main-1=https://c:1":   "cbbe4afe32289482",
	} {
		NewWithT(t).Expect(ClusterID("etcd-uid", founders)).To(Equal(want), founders)
	}
}

// Each entry of the log that the database lacks may add a revision. A database that is ahead of the log has them all.
func TestMaxRevision(t *testing.T) {
	for _, c := range []struct {
		last, applied uint64
		want          int64
	}{{20, 15, 105}, {20, 20, 100}, {20, 25, 100}, {20, 0, 120}} {
		s := Survey{Revision: 100, LastIndex: c.last, AppliedIndex: c.applied}
		NewWithT(t).Expect(s.MaxRevision()).To(Equal(c.want), "%d of %d entries applied", c.applied, c.last)
	}
}
