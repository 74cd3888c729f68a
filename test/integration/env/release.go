// SPDX-FileCopyrightText: The etcd-foreman authors
//
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
)

// AtLeast reports whether the API server is of a release of Kubernetes, such as 1.36, or a later one.
func (e *Env) AtLeast(t testing.TB, release string) bool {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(e.Config)
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	info, err := client.ServerVersion()
	if err != nil {
		t.Fatalf("reading the version of the API server: %v", err)
	}
	return version.MustParseGeneric(info.GitVersion).AtLeast(version.MustParseGeneric(release))
}

// PromotesUnderOnDelete reports whether the StatefulSet controller promotes the current revision of a StatefulSet with the
// strategy OnDelete, which it does from Kubernetes 1.37 on.
func (e *Env) PromotesUnderOnDelete(t testing.TB) bool {
	t.Helper()
	return e.AtLeast(t, "1.37")
}
