// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	. "github.com/onsi/gomega"
)

// Where a cluster begins is recorded in the lease of full snapshots, and nowhere without one. Outside of a pod, there is no API server.
func TestWhereAClusterBeginsNeedsALease(t *testing.T) {
	g := NewWithT(t)
	g.Expect((&leaseNames{namespace: "ns"}).begins()).To(BeNil())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	record := (&leaseNames{namespace: "ns", full: "main-full-snap"}).begins()
	g.Expect(record.Check(t.Context())).To(MatchError(ContainSubstring("loading the in-cluster configuration")))
}
