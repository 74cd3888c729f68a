// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/etcd-foreman/etcd-foreman/internal/agent/member"
	. "github.com/onsi/gomega"
)

// Where a cluster begins is recorded in the lease of full snapshots, and nowhere without one. Outside of a pod, there is no API server.
func TestWhereAClusterBeginsNeedsALease(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	g.Expect((&leaseNames{namespace: "ns"}).begins(dir)).To(BeNil())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	names := leaseNames{namespace: "ns", full: "main-full-snap"}
	record := names.begins(dir)
	g.Expect(record.Check(t.Context())).To(MatchError(ContainSubstring("reading the shared configuration")))
	for _, key := range []string{member.KeyConfig, member.KeyBootstrap} {
		g.Expect(os.WriteFile(filepath.Join(dir, key), []byte("initial-cluster-token: uid"), 0o600)).To(Succeed())
	}
	g.Expect(record.Check(t.Context())).To(MatchError(ContainSubstring("loading the in-cluster configuration")))

	etcd := names.etcd("uid")
	g.Expect([]string{etcd.Namespace, etcd.Name, string(etcd.UID), etcd.FullSnapshotLeaseName()}).To(Equal([]string{"ns", "main", "uid", "main-full-snap"}))
}
